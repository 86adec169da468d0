//! The requests around state Secrets and the state lock.

use std::io::Write as _;
use std::time::Duration;

use captf::names::{InputsHash, Kind, ObjectKey};
use captf::operator::secrets::{Owner, delete_state, release_backups};
use captf::operator::state::{
    Guarding, StateRead, StateReader, adopt, delete_stale_lock, ensure_labels, judge_lock, observe,
    repair,
};
use captf::state::LockVerdict;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::wire::{Exchange, expect, play};

const SUFFIX: &str = "284c64cfc4f5db6e-m";
const SECRETS: &str = "/api/v1/namespaces/team-a/secrets";
const SELECTED: &str = "/api/v1/namespaces/team-a/secrets?labelSelector=tfstate%3Dtrue%2CtfstateSecretSuffix%3D284c64cfc4f5db6e-m%2CtfstateWorkspace%3Ddefault";
const BASE: &str = "/api/v1/namespaces/team-a/secrets/tfstate-default-284c64cfc4f5db6e-m";
const LOCK: &str =
    "/apis/coordination.k8s.io/v1/namespaces/team-a/leases/lock-tfstate-default-284c64cfc4f5db6e-m";

fn owner() -> Owner {
    Owner::new(
        ObjectKey::new(Kind::TerraformMachine, "team-a", "prod-md-0-abcde"),
        "uid-1",
    )
}

fn reference() -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "TerraformMachine",
        "name": "prod-md-0-abcde",
        "uid": "uid-1"
    })
}

/// A state Secret as the backend of Terraform writes it.
fn state_secret(name: &str, version: &str) -> Value {
    json!({"metadata": {
        "name": name,
        "uid": format!("uid-of-{name}"),
        "resourceVersion": version,
        "labels": {
            "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformMachine",
            "captf.infrastructure.cluster.x-k8s.io/owner-name": "prod-md-0-abcde",
            "captf.io/managed": "true",
            "cluster.x-k8s.io/cluster-name": "prod",
            "clusterctl.cluster.x-k8s.io/move": "",
            "tfstate": "true",
            "tfstateSecretSuffix": SUFFIX,
            "tfstateWorkspace": "default",
            "app.kubernetes.io/managed-by": "terraform"
        }
    }})
}

fn base(version: &str) -> Value {
    state_secret("tfstate-default-284c64cfc4f5db6e-m", version)
}

fn part(version: &str) -> Value {
    state_secret("tfstate-default-284c64cfc4f5db6e-m-part-1", version)
}

fn meta(secret: &Value) -> ObjectMeta {
    serde_json::from_value(secret["metadata"].clone()).unwrap()
}

fn with_state(mut secret: Value) -> Value {
    let state =
        br#"{"version":4,"serial":3,"lineage":"l","outputs":{"a":{"value":1}},"resources":[]}"#;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(state).unwrap();
    let payload = k8s_openapi::ByteString(encoder.finish().unwrap());
    secret["data"] = json!({"tfstate": payload});
    secret
}

fn list(items: &[Value]) -> Value {
    json!({"metadata": {"resourceVersion": "1"}, "items": items})
}

fn metadata_list(items: &[Value]) -> Exchange {
    expect(&format!("GET {SELECTED} (metadata)")).answer(list(items))
}

#[tokio::test]
async fn an_unchanged_state_is_answered_from_memory() {
    let reader = StateReader::default();
    let script = [
        metadata_list(&[base("5")]),
        expect(&format!("GET {SELECTED}")).answer(list(&[with_state(base("5"))])),
        metadata_list(&[base("5")]),
        metadata_list(&[base("6")]),
        expect(&format!("GET {SELECTED}")).answer(list(&[with_state(base("6"))])),
    ];
    play(script, async |access| {
        for _ in 0..3 {
            let read = reader
                .read(access, "team-a", &owner().key.suffix())
                .await
                .unwrap();
            assert!(matches!(read, StateRead::State(state) if state.serial == 3));
        }
    })
    .await;
}

#[tokio::test]
async fn a_state_written_between_the_two_reads_is_answered_and_not_kept() {
    let reader = StateReader::default();
    let script = [
        metadata_list(&[base("5")]),
        expect(&format!("GET {SELECTED}")).answer(list(&[with_state(base("6"))])),
        metadata_list(&[base("6")]),
        expect(&format!("GET {SELECTED}")).answer(list(&[with_state(base("6"))])),
    ];
    play(script, async |access| {
        for _ in 0..2 {
            reader
                .read(access, "team-a", &owner().key.suffix())
                .await
                .unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_state_that_lost_its_labels_is_found_by_name_and_made_visible_again() {
    let mut hidden = base("5");
    hidden["metadata"]["labels"] = json!({"extra": "stays"});
    let labels = base("5")["metadata"]["labels"].clone();
    let patch = json!({"metadata": {
        "resourceVersion": "5",
        "labels": labels
    }});
    let script = [
        metadata_list(&[]),
        expect(&format!("GET {BASE} (metadata)")).answer(hidden),
        expect(&format!("GET {BASE}-part-1 (metadata)")).fail(404, "NotFound"),
        expect(&format!("PATCH {BASE} (metadata)"))
            .with(patch)
            .answer(base("6")),
        metadata_list(&[base("6")]),
        expect(&format!("GET {SELECTED}")).answer(list(&[with_state(base("6"))])),
    ];
    let observed = play(script, async |access| {
        observe(access, &StateReader::default(), &owner(), "prod")
            .await
            .unwrap()
    })
    .await;
    assert!(matches!(observed.read, StateRead::State(_)));
    assert!(observed.labels.repaired.is_some());
}

#[tokio::test]
async fn no_state_is_believed_only_when_none_has_its_name() {
    let script = [
        metadata_list(&[]),
        expect(&format!("GET {BASE} (metadata)")).fail(404, "NotFound"),
    ];
    let observed = play(script, async |access| {
        observe(access, &StateReader::default(), &owner(), "prod")
            .await
            .unwrap()
    })
    .await;
    assert!(matches!(observed.read, StateRead::None));
    assert!(observed.labels.may_start());
}

/// A base Secret with one label missing on its only chunk, and the answer to the repair.
async fn repair_of_a_chunk(
    answer: impl FnOnce(Exchange) -> Exchange,
) -> captf::operator::state::LabelCheck {
    let mut stripped = part("7");
    stripped["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("captf.io/managed");
    let patch = json!({"metadata": {
        "resourceVersion": "7",
        "labels": {"captf.io/managed": "true"}
    }});
    let script = [
        expect(&format!("GET {BASE} (metadata)")).answer(base("5")),
        expect(&format!("GET {BASE}-part-1 (metadata)")).answer(stripped),
        expect(&format!("GET {BASE}-part-2 (metadata)")).fail(404, "NotFound"),
        answer(expect(&format!("PATCH {BASE}-part-1 (metadata)")).with(patch)),
    ];
    play(script, async |access| {
        ensure_labels(access, &owner(), "prod").await
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_label_is_put_back_by_a_guarded_patch_and_the_event_names_it() {
    let check = repair_of_a_chunk(|patch| patch.answer(part("8"))).await;
    assert!(check.may_start());
    let note = check.repaired.unwrap();
    assert!(
        note.contains("tfstate-default-284c64cfc4f5db6e-m-part-1: captf.io/managed"),
        "{note}"
    );
}

#[tokio::test]
async fn a_refused_repair_starts_no_job_and_names_the_label_first() {
    let check = repair_of_a_chunk(|patch| patch.fail(403, "Forbidden")).await;
    let verdict = check.refused.unwrap();
    assert_eq!(verdict.reason(), "StateInconsistent");
    let message = verdict.message();
    assert!(
        message.starts_with(
            "label captf.io/managed of Secret tfstate-default-284c64cfc4f5db6e-m-part-1"
        ),
        "{message}"
    );
    assert!(message.contains("the server says Forbidden"), "{message}");
    assert_eq!(check.repaired, None);
}

#[tokio::test]
async fn the_hash_is_written_after_every_chunk_is_owned() {
    let chunk = json!({"metadata": {
        "resourceVersion": "7",
        "ownerReferences": [reference()]
    }});
    let first = json!({"metadata": {
        "resourceVersion": "5",
        "ownerReferences": [reference()],
        "annotations": {"captf.io/inputs-hash": "h2:abc"},
        "finalizers": ["captf.io/state-protection"]
    }});
    let script = [
        expect(&format!("PATCH {BASE}-part-1 (metadata)"))
            .with(chunk)
            .answer(part("8")),
        expect(&format!("PATCH {BASE} (metadata)"))
            .with(first)
            .answer(base("6")),
    ];
    let chunks = [meta(&base("5")), meta(&part("7"))];
    let written = play(script, async |access| {
        adopt(access, &owner(), &chunks, &InputsHash::new("h2:abc"))
            .await
            .unwrap()
    })
    .await;
    assert!(written);
}

#[tokio::test]
async fn a_repair_writes_what_is_missing_and_only_on_the_objects_own_secrets() {
    let missing = json!({"metadata": {
        "resourceVersion": "5", "ownerReferences": [reference()], "finalizers": ["captf.io/state-protection"]
    }});
    let script = [expect(&format!("PATCH {BASE} (metadata)"))
        .with(missing)
        .answer(base("6"))];
    let mut right = base("7");
    right["metadata"]["ownerReferences"] = json!([reference()]);
    right["metadata"]["finalizers"] = json!(["captf.io/state-protection"]);
    let mut foreign = base("8");
    foreign["metadata"]["labels"] =
        json!({"captf.infrastructure.cluster.x-k8s.io/owner-name": "somebody"});
    let found = [meta(&base("5")), meta(&right), meta(&foreign)];
    let wrote = play(script, async |access| {
        let mut wrote = Vec::new();
        for secret in &found {
            let protected = Guarding::OwnerAndProtection;
            wrote.push(repair(access, &owner(), secret, protected).await.unwrap());
        }
        wrote
    })
    .await;
    assert_eq!(wrote, [true, false, false]);
}

#[tokio::test]
async fn cleanup_deletes_state_one_by_one_and_the_lock_last() {
    let mut protected = base("5");
    protected["metadata"]["finalizers"] = json!(["captf.io/state-protection"]);
    let mut kept = part("7");
    kept["metadata"]["labels"]["captf.io/retained-from-uid"] = "uid-0".into();
    let by_uid =
        |uid: &str| json!({"propagationPolicy": "Background", "preconditions": {"uid": uid}});
    let script = [
        metadata_list(&[protected, kept]),
        expect(&format!("PATCH {BASE} (metadata)"))
            .with(json!({"metadata": {"resourceVersion": "5", "finalizers": []}}))
            .answer(base("6")),
        expect(&format!("DELETE {BASE}")).with(by_uid("uid-of-tfstate-default-284c64cfc4f5db6e-m")),
        expect(&format!("GET {LOCK} (metadata)"))
            .answer(json!({"metadata": {"name": "lock", "uid": "lock-uid"}})),
        expect(&format!("DELETE {LOCK}")).with(by_uid("lock-uid")),
    ];
    let deleted = play(script, async |access| delete_state(access, &owner()).await).await;
    assert_eq!(deleted.unwrap(), 1);
}

#[tokio::test]
async fn backups_only_lose_their_protection() {
    let backup = json!({"metadata": {
        "name": "captf-state-backup-284c64cfc4f5db6e-m-3",
        "uid": "b",
        "resourceVersion": "2",
        "finalizers": ["captf.io/state-protection"]
    }});
    let selector = "labelSelector=captf.io%2Fstate-backup%3Dtrue%2Ccaptf.io%2Fstate-backup-suffix%3D284c64cfc4f5db6e-m";
    let script = [
        expect(&format!("GET {SECRETS}?{selector} (metadata)"))
            .answer(list(std::slice::from_ref(&backup))),
        expect(&format!(
            "PATCH {SECRETS}/captf-state-backup-284c64cfc4f5db6e-m-3 (metadata)"
        ))
        .with(json!({"metadata": {"resourceVersion": "2", "finalizers": []}}))
        .answer(backup),
    ];
    let released = play(script, async |access| {
        release_backups(access, &owner()).await
    })
    .await;
    assert_eq!(released.unwrap(), 1);
}

const POD: &str = "captf-m-prod-md-0-abcde-apply-a1-dbb569-x7k2p";

fn locked(who: &str) -> Exchange {
    let info = json!({"ID": "lock-id", "Operation": "OperationTypeApply", "Who": who, "Created": "2026-10-01T12:00:00Z"});
    expect(&format!("GET {LOCK}")).answer(json!({
        "metadata": {
            "name": "lock-tfstate-default-284c64cfc4f5db6e-m",
            "uid": "lock-uid",
            "resourceVersion": "9",
            "annotations": {"app.terraform.io/lock-info": info.to_string()}
        },
        "spec": {"holderIdentity": "lock-id"}
    }))
}

fn pod(phase: &str) -> Exchange {
    expect(&format!("GET /api/v1/namespaces/team-a/pods/{POD}"))
        .answer(json!({"metadata": {"name": POD}, "status": {"phase": phase}}))
}

fn no_job() -> Exchange {
    expect("GET /apis/batch/v1/namespaces/team-a/jobs/captf-m-prod-md-0-abcde-apply-a1-dbb569")
        .fail(404, "NotFound")
}

#[tokio::test]
async fn a_lock_is_stale_when_its_pod_was_seen_ended_live_or_by_the_watch() {
    let hour = Duration::from_secs(3600);
    let live = [locked(&format!("@{POD}")), pod("Failed"), no_job()];
    let by_watch = [
        locked(&format!("root@{POD}")),
        expect(&format!("GET /api/v1/namespaces/team-a/pods/{POD}")).fail(404, "NotFound"),
        no_job(),
    ];
    for script in [live, by_watch] {
        let lock = play(script, async |access| {
            judge_lock(access, &owner(), hour, &|pod| pod == POD).await
        });
        let lock = lock.await.unwrap().unwrap();
        assert_eq!(lock.force_unlock_id(), Some("lock-id"));
        assert_eq!(lock.report(), None);
    }
}

#[tokio::test]
async fn a_running_pod_keeps_its_lock_and_a_stranger_is_reported() {
    let hour = Duration::from_secs(3600);
    let script = [locked(&format!("@{POD}")), pod("Running"), no_job()];
    let lock = play(script, async |access| {
        judge_lock(access, &owner(), hour, &|_| false).await
    });
    assert_eq!(lock.await.unwrap().unwrap().verdict, LockVerdict::Live);

    let script = [locked("ann@laptop")];
    let lock = play(script, async |access| {
        judge_lock(access, &owner(), hour, &|_| false).await
    });
    let lock = lock.await.unwrap().unwrap();
    assert_eq!(lock.verdict, LockVerdict::Foreign);
    assert!(lock.report().unwrap().message().contains("ann@laptop"));
}

#[tokio::test]
async fn a_stale_lock_lease_is_deleted_only_as_it_was_judged() {
    let exact = json!({
        "propagationPolicy": "Background",
        "preconditions": {"uid": "lock-uid", "resourceVersion": "9"}
    });
    let script = [
        locked(&format!("@{POD}")),
        pod("Succeeded"),
        no_job(),
        expect(&format!("DELETE {LOCK}"))
            .with(exact)
            .fail(409, "Conflict"),
    ];
    let deleted = play(script, async |access| {
        let lock = judge_lock(access, &owner(), Duration::from_secs(60), &|_| false)
            .await
            .unwrap()
            .unwrap();
        delete_stale_lock(access, &owner(), &lock).await.unwrap()
    })
    .await;
    assert!(!deleted);
}
