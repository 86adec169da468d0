//! The requests around the inputs records, the plan key and protected Secrets.

use captf::inputs::Rendered;
use captf::names::{InputsHash, JobName, Kind, ObjectKey};
use captf::operator::credentials::Identity;
use captf::operator::secrets::records::{self, Interruption, Marks, Promotion, Record};
use captf::operator::secrets::{Owner, Provenance, RunInputs, delete_records};
use serde_json::{Value, json};

use crate::wire::{expect, play};

const SECRETS: &str = "/api/v1/namespaces/team-a/secrets";
const ATTEMPT: &str = "/api/v1/namespaces/team-a/secrets/captf-inputs-c-prod";
const APPLIED: &str = "/api/v1/namespaces/team-a/secrets/captf-applied-c-prod";

fn owner() -> Owner {
    Owner::new(
        ObjectKey::new(Kind::TerraformCluster, "team-a", "prod"),
        "uid-1",
    )
}

fn reference() -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "TerraformCluster",
        "name": "prod",
        "uid": "uid-1"
    })
}

fn labels() -> Value {
    json!({
        "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
        "captf.infrastructure.cluster.x-k8s.io/owner-name": "prod",
        "captf.io/managed": "true"
    })
}

fn inputs() -> RunInputs {
    RunInputs {
        files: Rendered {
            main: "{}\n".into(),
            tfvars: "[]\n".into(),
        },
        provenance: Provenance {
            image: "registry/module:v1".into(),
            identity: Some(Identity::Cluster("aws".into())),
            inputs_hash: InputsHash::new("h2:abc"),
        },
    }
}

fn job() -> JobName {
    JobName::new("captf-c-prod-apply-a1-dbb569")
}

fn new_attempt() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": "captf-inputs-c-prod",
            "namespace": "team-a",
            "labels": labels(),
            "annotations": {
                "captf.io/image": "registry/module:v1",
                "captf.io/identity": "aws",
                "captf.io/inputs-hash": "h2:abc",
                "captf.io/job": "captf-c-prod-apply-a1-dbb569"
            },
            "ownerReferences": [reference()],
            "finalizers": ["captf.io/state-protection"]
        },
        "data": {"main.tf.json": "e30K", "terraform.tfvars.json": "W10K"}
    })
}

fn stored(name: &str, annotations: Value) -> Value {
    json!({
        "metadata": {
            "name": name,
            "uid": "record-uid",
            "resourceVersion": "7",
            "annotations": annotations,
            "finalizers": ["captf.io/state-protection"]
        },
        "data": {"main.tf.json": "e30K", "terraform.tfvars.json": "W10K", "stray": "eA=="}
    })
}

/// What a pass reads: the attempt record, with these annotations.
async fn read_attempt(annotations: Value) -> Record {
    let script = [
        expect(&format!("GET {ATTEMPT}")).answer(stored("captf-inputs-c-prod", annotations)),
        expect(&format!("GET {APPLIED}")).fail(404, "NotFound"),
    ];
    let records = play(script, async |access| records::read(access, &owner()).await)
        .await
        .unwrap();
    records.attempt.unwrap()
}

#[tokio::test]
async fn the_first_attempt_record_is_created_owned_and_protected() {
    let script = [expect(&format!("POST {SECRETS}"))
        .with(new_attempt())
        .echo()];
    let record = play(script, async |access| {
        records::write_attempt(access, &owner(), None, &job(), &inputs()).await
    });
    assert_eq!(record.await.unwrap().job(), Some(job()));
}

#[tokio::test]
async fn a_later_attempt_is_a_patch_locked_to_the_version_read_that_leaves_the_marks() {
    let current = read_attempt(json!({
        "captf.io/job": "captf-c-prod-apply-a9-000000",
        "captf.io/identity": "creds",
        "captf.io/identity-kind": "Secret",
        "captf.io/applied": "true",
        "captf.io/may-have-applied": "true"
    }))
    .await;
    let patch = json!({
        "metadata": {
            "resourceVersion": "7",
            "labels": labels(),
            "annotations": {
                "captf.io/image": "registry/module:v1",
                "captf.io/identity": "aws",
                "captf.io/identity-kind": null,
                "captf.io/inputs-hash": "h2:abc",
                "captf.io/job": "captf-c-prod-apply-a1-dbb569"
            },
            "ownerReferences": [reference()]
        },
        "data": {"main.tf.json": "e30K", "terraform.tfvars.json": "W10K", "stray": null}
    });
    let script = [expect(&format!("PATCH {ATTEMPT}"))
        .with(patch)
        .answer(stored("captf-inputs-c-prod", json!({})))];
    let done = play(script, async |access| {
        records::write_attempt(access, &owner(), Some(&current), &job(), &inputs()).await
    });
    done.await.unwrap();
}

#[tokio::test]
async fn an_attempt_that_names_the_job_is_not_written_again() {
    let current = read_attempt(json!({
        "captf.io/job": "captf-c-prod-apply-a1-dbb569",
        "captf.io/inputs-hash": "h2:abc"
    }))
    .await;
    let done = play([], async |access| {
        records::write_attempt(access, &owner(), Some(&current), &job(), &inputs()).await
    });
    done.await.unwrap();
}

#[tokio::test]
async fn a_promotion_carries_the_digest_and_a_refused_one_fails_no_pass() {
    let mut applied = new_attempt();
    applied["metadata"]["name"] = "captf-applied-c-prod".into();
    applied["metadata"]["annotations"]["captf.io/image-digest"] =
        "registry/module@sha256:aa".into();
    let promote = async |script| {
        play([script], async |access| {
            records::promote(
                access,
                &owner(),
                None,
                &job(),
                &inputs(),
                Some("registry/module@sha256:aa"),
            )
            .await
        })
        .await
    };
    let made = promote(
        expect(&format!("POST {SECRETS}"))
            .with(applied.clone())
            .echo(),
    )
    .await;
    assert!(matches!(made.unwrap(), Promotion::Written(record)
        if record.image_digest() == Some("registry/module@sha256:aa")));

    let refused = promote(
        expect(&format!("POST {SECRETS}"))
            .with(applied.clone())
            .fail(403, "Forbidden"),
    )
    .await;
    assert!(matches!(refused.unwrap(), Promotion::Refused(_)));

    let lost = promote(
        expect(&format!("POST {SECRETS}"))
            .with(applied)
            .fail(500, "InternalError"),
    )
    .await;
    assert!(lost.is_err());
}

#[tokio::test]
async fn a_promoted_job_is_not_promoted_again() {
    let current = read_attempt(json!({"captf.io/job": "captf-c-prod-apply-a1-dbb569"})).await;
    let done = play([], async |access| {
        records::promote(access, &owner(), Some(&current), &job(), &inputs(), None).await
    });
    assert!(matches!(done.await.unwrap(), Promotion::Already));
}

#[tokio::test]
async fn marks_are_one_patch_that_touches_nothing_else() {
    let current = read_attempt(json!({"captf.io/may-have-applied": "true"})).await;
    let patch = json!({"metadata": {
        "resourceVersion": "7",
        "annotations": {"captf.io/applied": "true", "captf.io/may-have-applied": null}
    }});
    let script = [expect(&format!("PATCH {ATTEMPT}"))
        .with(patch)
        .answer(stored(
            "captf-inputs-c-prod",
            json!({"captf.io/applied": "true"}),
        ))];
    let marked = play(script, async |access| {
        records::mark(
            access,
            &owner(),
            Some(&current),
            &Marks::apply_succeeded(false),
        )
        .await
    });
    assert!(marked.await.unwrap().unwrap().applied());
}

#[tokio::test]
async fn what_must_be_remembered_makes_a_record_of_marks_alone() {
    let body = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": "captf-inputs-c-prod",
            "namespace": "team-a",
            "labels": labels(),
            "annotations": {"captf.io/interrupted-apply": "captf-c-prod-apply-a1-dbb569"},
            "ownerReferences": [reference()],
            "finalizers": ["captf.io/state-protection"]
        }
    });
    let marks = Marks {
        interruption: Some(Interruption::Record(job())),
        ..Marks::default()
    };
    let script = [expect(&format!("POST {SECRETS}")).with(body).echo()];
    let record = play(script, async |access| {
        records::mark(access, &owner(), None, &marks).await
    });
    assert_eq!(
        record.await.unwrap().unwrap().interrupted_apply(),
        Some(job())
    );
}

#[tokio::test]
async fn a_protected_record_loses_the_finalizer_by_version_and_is_deleted_by_uid() {
    let script = [
        expect(&format!("GET {ATTEMPT} (metadata)"))
            .answer(stored("captf-inputs-c-prod", json!({}))),
        expect(&format!("GET {APPLIED} (metadata)")).fail(404, "NotFound"),
        expect(&format!("PATCH {ATTEMPT} (metadata)"))
            .with(json!({"metadata": {"resourceVersion": "7", "finalizers": []}}))
            .answer(stored("captf-inputs-c-prod", json!({}))),
        expect(&format!("DELETE {ATTEMPT}"))
            .with(
                json!({"propagationPolicy": "Background", "preconditions": {"uid": "record-uid"}}),
            )
            .fail(404, "NotFound"),
    ];
    play(script, async |access| {
        delete_records(access, &owner()).await
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_record_kept_from_another_object_is_not_deleted() {
    let mut kept = stored("captf-inputs-c-prod", json!({}));
    kept["metadata"]["labels"] = json!({"captf.io/retained-from-uid": "uid-0"});
    let script = [
        expect(&format!("GET {ATTEMPT} (metadata)")).answer(kept),
        expect(&format!("GET {APPLIED} (metadata)")).fail(404, "NotFound"),
    ];
    play(script, async |access| {
        delete_records(access, &owner()).await
    })
    .await
    .unwrap();
}
