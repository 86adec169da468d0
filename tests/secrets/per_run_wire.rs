//! The requests around a per-run Secret.

use captf::client::Class;
use captf::inputs::Rendered;
use captf::names::{InputsHash, JobName};
use captf::operator::credentials::Identity;
use captf::operator::secrets::per_run::{self, Counted, Ensured, JobRef, Leftover};
use captf::operator::secrets::{Provenance, RunInputs};
use serde_json::{Value, json};

use crate::wire::{expect, play};

const SECRET: &str = "/api/v1/namespaces/team-a/secrets/captf-run-captf-c-prod-apply-a1-dbb569";
const SECRETS: &str = "/api/v1/namespaces/team-a/secrets";
const JOB: &str = "/apis/batch/v1/namespaces/team-a/jobs/captf-c-prod-apply-a1-dbb569";

fn job() -> JobRef {
    JobRef {
        namespace: "team-a".into(),
        name: JobName::new("captf-c-prod-apply-a1-dbb569"),
        uid: "job-uid".into(),
    }
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

fn body() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": "captf-run-captf-c-prod-apply-a1-dbb569",
            "namespace": "team-a",
            "labels": {"captf.io/managed": "true"},
            "annotations": {
                "captf.io/image": "registry/module:v1",
                "captf.io/identity": "aws",
                "captf.io/inputs-hash": "h2:abc"
            },
            "ownerReferences": [{
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "captf-c-prod-apply-a1-dbb569",
                "uid": "job-uid"
            }]
        },
        "data": {
            "main.tf.json": "e30K",
            "terraform.tfvars.json": "W10K",
            ".job-uid": "am9iLXVpZA=="
        }
    })
}

fn owned_by(job_uid: &str) -> Value {
    json!({"metadata": {
        "name": "captf-run-captf-c-prod-apply-a1-dbb569",
        "uid": "secret-uid",
        "resourceVersion": "5",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": job_uid}]
    }})
}

fn live_job(uid: &str) -> Value {
    json!({"metadata": {"name": "captf-c-prod-apply-a1-dbb569", "uid": uid}})
}

fn delete_of_the_uid_read() -> Value {
    json!({"propagationPolicy": "Background", "preconditions": {"uid": "secret-uid"}})
}

#[tokio::test]
async fn the_secret_is_made_with_the_jobs_uid_and_the_job_as_its_only_owner() {
    let done = play(
        [expect(&format!("POST {SECRETS}")).with(body()).echo()],
        async |access| per_run::ensure(access, &job(), &inputs()).await,
    );
    assert_eq!(done.await.unwrap(), Ensured::Created);
}

#[tokio::test]
async fn one_owned_by_the_job_is_kept() {
    let script = [
        expect(&format!("POST {SECRETS}"))
            .with(body())
            .fail(409, "AlreadyExists"),
        expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("job-uid")),
    ];
    let done = play(script, async |access| {
        per_run::ensure(access, &job(), &inputs()).await
    });
    assert_eq!(done.await.unwrap(), Ensured::Kept);
}

#[tokio::test]
async fn one_of_an_earlier_job_is_replaced_after_the_live_job_is_read() {
    let script = [
        expect(&format!("POST {SECRETS}"))
            .with(body())
            .fail(409, "AlreadyExists"),
        expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("earlier")),
        expect(&format!("GET {JOB} (metadata)")).answer(live_job("job-uid")),
        expect(&format!("DELETE {SECRET}")).with(delete_of_the_uid_read()),
        expect(&format!("POST {SECRETS}")).with(body()).echo(),
    ];
    let done = play(script, async |access| {
        per_run::ensure(access, &job(), &inputs()).await
    });
    assert_eq!(done.await.unwrap(), Ensured::Replaced);
}

#[tokio::test]
async fn nothing_is_written_when_the_live_job_is_another_or_gone() {
    for (answer, live) in [(Some("another"), Some("another".to_owned())), (None, None)] {
        let get_job = expect(&format!("GET {JOB} (metadata)"));
        let script = [
            expect(&format!("POST {SECRETS}"))
                .with(body())
                .fail(409, "AlreadyExists"),
            expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("earlier")),
            match answer {
                Some(uid) => get_job.answer(live_job(uid)),
                None => get_job.fail(404, "NotFound"),
            },
        ];
        let done = play(script, async |access| {
            per_run::ensure(access, &job(), &inputs()).await
        });
        assert_eq!(done.await.unwrap(), Ensured::JobChanged { live });
    }
}

#[tokio::test]
async fn a_create_without_an_answer_is_not_taken_for_a_refusal() {
    let script = [expect(&format!("POST {SECRETS}"))
        .with(body())
        .fail(500, "InternalError")];
    let done = play(script, async |access| {
        per_run::ensure(access, &job(), &inputs()).await
    });
    assert_eq!(done.await.unwrap_err().class(), Class::Unknown);
}

#[tokio::test]
async fn a_leftover_is_deleted_only_when_no_job_of_the_name_lives() {
    let script = [
        expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("earlier")),
        expect(&format!("GET {JOB} (metadata)")).fail(404, "NotFound"),
        expect(&format!("DELETE {SECRET}")).with(delete_of_the_uid_read()),
    ];
    let done = play(script, async |access| {
        per_run::clear_leftover(access, "team-a", &job().name).await
    });
    assert_eq!(done.await.unwrap(), Leftover::Deleted);

    let script = [
        expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("earlier")),
        expect(&format!("GET {JOB} (metadata)")).answer(live_job("somebody")),
    ];
    let done = play(script, async |access| {
        per_run::clear_leftover(access, "team-a", &job().name).await
    });
    assert_eq!(done.await.unwrap(), Leftover::JobExists);
}

#[tokio::test]
async fn the_call_that_deletes_counts_the_job() {
    let script = [
        expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("job-uid")),
        expect(&format!("DELETE {SECRET}")).with(delete_of_the_uid_read()),
    ];
    let done = play(script, async |access| {
        per_run::delete_of_finished(access, &job()).await
    });
    assert_eq!(done.await.unwrap(), Counted::Now);
}

#[tokio::test]
async fn a_lost_race_for_the_delete_does_not_count() {
    for (status, reason) in [(404, "NotFound"), (409, "Conflict")] {
        let script = [
            expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("job-uid")),
            expect(&format!("DELETE {SECRET}"))
                .with(delete_of_the_uid_read())
                .fail(status, reason),
        ];
        let done = play(script, async |access| {
            per_run::delete_of_finished(access, &job()).await
        });
        assert_eq!(done.await.unwrap(), Counted::Elsewhere, "{reason}");
    }
}

#[tokio::test]
async fn a_newer_job_of_the_name_keeps_its_own_secret() {
    let script = [expect(&format!("GET {SECRET} (metadata)")).answer(owned_by("newer"))];
    let done = play(script, async |access| {
        per_run::delete_of_finished(access, &job()).await
    });
    assert_eq!(done.await.unwrap(), Counted::Elsewhere);
}

#[tokio::test]
async fn a_secret_already_being_deleted_was_counted_before() {
    let mut terminating = owned_by("job-uid");
    terminating["metadata"]["deletionTimestamp"] = "2026-10-01T12:00:00Z".into();
    let script = [expect(&format!("GET {SECRET} (metadata)")).answer(terminating)];
    let done = play(script, async |access| {
        per_run::delete_of_finished(access, &job()).await
    });
    assert_eq!(done.await.unwrap(), Counted::Elsewhere);
}

#[tokio::test]
async fn a_promotion_reads_only_the_jobs_own_secret() {
    for (owner, own) in [("job-uid", true), ("earlier", false)] {
        let mut secret = body();
        secret["metadata"]["ownerReferences"][0]["uid"] = owner.into();
        let script = [expect(&format!("GET {SECRET}")).answer(secret)];
        let found = play(script, async |access| {
            per_run::inputs_of(access, &job()).await
        })
        .await
        .unwrap();
        assert_eq!(found, own.then(inputs));
    }
}
