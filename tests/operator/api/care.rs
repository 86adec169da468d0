//! What a pass looks after besides runs: owner references, labels, records, and what the conditions say meanwhile.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::core::ResourceExt as _;
use serde_json::{Value, json};

use super::applied_once;
use crate::operator::hand::duration;
use crate::operator::harness::Operator;
use crate::testbed::{ControlPlane, World};

const KIND: &str = "TerraformCluster";

async fn edit(world: &World, secret: &str, metadata: Value) {
    world
        .typed::<Secret>()
        .patch(
            secret,
            &PatchParams::default(),
            &Patch::Merge(&json!({"metadata": metadata})),
        )
        .await
        .unwrap();
}

async fn state_name(world: &World) -> String {
    let secrets = world.typed::<Secret>();
    let listed = secrets
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let of_state = |secret: &Secret| secret.name_any().starts_with("tfstate-default-");
    listed.into_iter().find(of_state).unwrap().name_any()
}

async fn state_secret(world: &World) -> Secret {
    world
        .typed::<Secret>()
        .get(&state_name(world).await)
        .await
        .unwrap()
}

// state-secrets.md S-24, §5.3
#[tokio::test(flavor = "multi_thread")]
async fn s24_owner_references_and_protection_come_back_on_state_records_and_plan_key() {
    let (world, operator) = applied_once().await;
    let before = operator.events("OwnerReferencesRepaired").await.len();
    let state = state_name(&world).await;
    let lost = json!({"ownerReferences": null, "finalizers": null});
    let names = [
        state.as_str(),
        "captf-inputs-c-prod",
        "captf-applied-c-prod",
    ];
    for name in names {
        edit(&world, name, lost.clone()).await;
    }
    edit(
        &world,
        "captf-plankey-c-prod",
        json!({"ownerReferences": null}),
    )
    .await;
    operator.passes("prod", 6).await;
    let uid = world.get(KIND, "prod").await.uid().unwrap();
    for name in names {
        let secret = world.typed::<Secret>().get(name).await.unwrap();
        let owners: Vec<&str> = secret
            .owner_references()
            .iter()
            .map(|owner| owner.uid.as_str())
            .collect();
        assert_eq!(owners, [uid.as_str()], "{name}");
        assert_eq!(secret.finalizers(), ["captf.io/state-protection"], "{name}");
    }
    let key = world
        .typed::<Secret>()
        .get("captf-plankey-c-prod")
        .await
        .unwrap();
    assert_eq!(key.owner_references().len(), 1);
    let told = operator.events("OwnerReferencesRepaired").await;
    assert_eq!(told.len(), before + 1);
    let notes: Vec<String> = told.into_iter().filter_map(|event| event.note).collect();
    let counts = "1 state, 0 backup, 2 inputs and 1 plan key";
    assert!(notes.iter().any(|note| note.contains(counts)), "{notes:?}");
}

// README, decision 14
#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_lost_the_label_of_its_selector_is_found_by_its_name() {
    let (world, operator) = applied_once().await;
    // A second chunk that the state needs, and that no selector finds.
    let mut base = state_secret(&world).await;
    let payload = base.data.as_ref().unwrap()["tfstate"].0.clone();
    let (first, second) = payload.split_at(payload.len() / 2);
    let part = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{}-part-1", base.name_any()), "labels": base.labels()},
        "data": {"tfstate": k8s_openapi::ByteString(second.to_vec())},
    });
    let mut part: Secret = serde_json::from_value(part).unwrap();
    part.labels_mut().remove("tfstateSecretSuffix");
    world.make(&part).await;
    let first = k8s_openapi::ByteString(first.to_vec());
    base.data
        .as_mut()
        .unwrap()
        .insert("tfstate".to_owned(), first);
    let halved = json!({"data": base.data});
    world
        .typed::<Secret>()
        .patch(
            &base.name_any(),
            &PatchParams::default(),
            &Patch::Merge(&halved),
        )
        .await
        .unwrap();
    operator.passes("prod", 6).await;
    assert_eq!(
        world.told("prod", "StateReadable").await.state,
        "True/StateRead"
    );
    assert_eq!(operator.events("StateLabelsRepaired").await.len(), 1);
}

// lifecycle.md §14.5
#[tokio::test(flavor = "multi_thread")]
async fn inputs_applied_stays_as_it_is_while_the_state_is_held() {
    let (world, operator) = applied_once().await;
    assert_eq!(
        world.told("prod", "InputsApplied").await.state,
        "True/InputsApplied"
    );
    let broken = json!({"data": {"tfstate": "bm8gZ3ppcA=="}});
    world
        .typed::<Secret>()
        .patch(
            &state_name(&world).await,
            &PatchParams::default(),
            &Patch::Merge(&broken),
        )
        .await
        .unwrap();
    operator.passes("prod", 6).await;
    assert_eq!(
        world.told("prod", "StateReadable").await.state,
        "False/StateCorrupt"
    );
    assert_eq!(
        world.told("prod", "InputsApplied").await.state,
        "True/InputsApplied"
    );
    assert_eq!(
        world.told("prod", "Reconciling").await.state,
        "False/Reconciled"
    );
}

// manager.md §5
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_gate_is_looked_at_every_thirty_seconds_also_when_nothing_is_due() {
    let (world, operator) = applied_once().await;
    let reference = json!({"variablesFrom": [{"configMapRef": {"name": "nothing"}}]});
    world.patch(KIND, "prod", json!({"spec": reference})).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(30)));
    assert_eq!(
        world.told("prod", "DependenciesReady").await.state,
        "False/VariablesSourceNotFound"
    );
}

// state-secrets.md §7
#[tokio::test(flavor = "multi_thread")]
async fn a_state_backup_alone_proves_that_the_object_applied_before() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").paused().create().await;
    let suffix = crate::operator::sight::suffix(&world.namespace, KIND, "prod");
    let backup = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("captf-state-backup-{suffix}-3"), "labels": {
            "captf.io/state-backup": "true", "captf.io/state-backup-suffix": suffix,
        }},
    });
    world
        .make::<Secret>(&serde_json::from_value(backup).unwrap())
        .await;
    world
        .patch("Cluster", "prod", json!({"spec": {"paused": false}}))
        .await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    assert_eq!(
        world.told("prod", "StateReadable").await.state,
        "False/StateLost"
    );
    assert!(world.jobs_of("prod").await.is_empty());
}

// README, decision 16
#[tokio::test(flavor = "multi_thread")]
async fn a_job_at_the_source_of_a_move_is_waited_for() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").paused().create().await;
    let mark = |until: &str| {
        let mark = json!({"clusterctl.cluster.x-k8s.io/block-move": format!("source {until}")});
        json!({"metadata": {"annotations": mark}})
    };
    world
        .patch(KIND, "prod", mark("2999-01-01T00:00:00Z"))
        .await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    assert!(world.blocks_move("prod").await, "also while it is paused");
    world
        .patch("Cluster", "prod", json!({"spec": {"paused": false}}))
        .await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(30)));
    let told = world.told("prod", "ApplyJobSucceeded").await;
    assert_eq!(told.state, "Unknown/WaitingForMovedJob");
    assert!(
        told.message.contains("2999-01-01T00:00:00Z"),
        "{}",
        told.message
    );
    assert!(world.jobs_of("prod").await.is_empty());
    assert_eq!(world.lease_names().await, Vec::<String>::new());
    assert_eq!(operator.events("WaitingForMovedJob").await.len(), 1);
    world
        .patch(KIND, "prod", mark("2001-01-01T00:00:00Z"))
        .await;
    operator.passes("prod", 6).await;
    world.only_job("prod").await;
}

// state-secrets.md S-8
#[tokio::test(flavor = "multi_thread")]
async fn s8_without_a_state_a_stale_lock_stays_until_a_job_is_due() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let reference = json!({"variablesFrom": [{"configMapRef": {"name": "nothing"}}]});
    world.cluster("prod").spec(reference).create().await;
    let suffix = crate::operator::sight::suffix(&world.namespace, KIND, "prod");
    let lock = format!("lock-tfstate-default-{suffix}");
    let (ran, pod) = (
        "captf-c-prod-apply-a1-abcdef",
        "captf-c-prod-apply-a1-abcdef-x7k2p",
    );
    world.pod_by_hand(ran, pod, "Failed").await;
    let info = json!({
        "ID": "3f0b7a52-0000-4000-8000-000000000001", "Operation": "OperationTypeApply",
        "Who": format!("nobody@{pod}"), "Created": "2026-01-01T00:00:00Z",
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": lock, "annotations": {"app.terraform.io/lock-info": info.to_string()}},
        "spec": {"holderIdentity": "3f0b7a52-0000-4000-8000-000000000001"},
    });
    world
        .make::<Lease>(&serde_json::from_value(lease).unwrap())
        .await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    assert!(world.lease(&lock).await.is_some(), "nothing is due");
    world
        .patch(KIND, "prod", json!({"spec": {"variablesFrom": null}}))
        .await;
    operator.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    assert!(world.lease(&lock).await.is_none());
    let told = operator.events("ForceUnlocked").await;
    assert_eq!(told.len(), 1);
    let note = told[0].note.clone().unwrap_or_default();
    assert!(note.contains(&job), "{note}");
}
