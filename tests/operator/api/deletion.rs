//! How a TerraformCluster goes (deletion.md §3, §6): a test is named after the row of the ladder that it holds.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, DynamicObject};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::applied_once;
use crate::operator::hand::{applied, duration};
use crate::operator::harness::{Operator, Setup};
use crate::testbed::{ControlPlane, World, jobs};

const KIND: &str = "TerraformCluster";
const RETAINED: &str = "captf.io/retained-from-uid";

async fn delete(world: &World) {
    world
        .api(KIND)
        .delete("prod", &DeleteParams::default())
        .await
        .unwrap();
}

async fn left(world: &World) -> Option<DynamicObject> {
    world.api(KIND).get_opt("prod").await.unwrap()
}

/// Passes until the object is gone.
async fn goes(world: &World, operator: &Operator) {
    for _ in 0..6 {
        if left(world).await.is_none() {
            return;
        }
        operator.pass("prod").await.unwrap();
    }
    panic!("it stays: {:#?}", left(world).await);
}

/// The state Secrets, with the uid of the object that they are kept from.
async fn states(world: &World) -> Vec<(String, Option<String>)> {
    let secrets = world
        .typed::<Secret>()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let states = secrets
        .into_iter()
        .filter(|secret| secret.labels().contains_key("tfstate"));
    states
        .map(|secret| (secret.name_any(), secret.labels().get(RETAINED).cloned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_14_an_object_that_was_never_applied_goes_at_once() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").paused().create().await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    world
        .patch("Cluster", "prod", json!({"spec": {"paused": false}}))
        .await;
    delete(&world).await;
    goes(&world, &operator).await;
    assert!(world.jobs_of("prod").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_11_retain_lets_the_object_go_and_keeps_its_state() {
    let (world, operator) = applied_once().await;
    let uid = world.get(KIND, "prod").await.uid();
    world
        .patch(KIND, "prod", json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    delete(&world).await;
    operator.pass("prod").await.unwrap();
    assert!(left(&world).await.is_none());
    let states = states(&world).await;
    assert_eq!(states.len(), 1, "{states:?}");
    assert_eq!(states[0].1, uid);
    assert_eq!(world.lease_names().await, Vec::<String>::new());
    assert_eq!(operator.events("InfrastructureRetained").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_15_a_readable_state_keeps_the_object_and_the_condition_says_what_can_be_done() {
    let (world, operator) = applied_once().await;
    delete(&world).await;
    operator.passes("prod", 6).await;
    let told = world.told("prod", "Deleting").await;
    assert_eq!(told.state, "True/Deleting");
    assert!(
        told.message.contains("deletionPolicy: Retain"),
        "{}",
        told.message
    );
    assert_eq!(states(&world).await.len(), 1);
    world
        .patch(KIND, "prod", json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    operator.pass("prod").await.unwrap();
    assert!(left(&world).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn row_5_a_deleting_object_waits_for_its_running_job() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world
        .cluster("prod")
        .spec(json!({"deletionPolicy": "Retain"}))
        .create()
        .await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    delete(&world).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    assert!(left(&world).await.is_some());
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    goes(&world, &operator).await;
    assert_eq!(states(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_an_ownerless_object_that_never_applied_goes_also_when_paused() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").paused().create().await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    let pause = json!({"cluster.x-k8s.io/paused": "true"});
    world
        .patch(
            KIND,
            "prod",
            json!({"metadata": {"annotations": pause, "ownerReferences": null}}),
        )
        .await;
    delete(&world).await;
    goes(&world, &operator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_an_ownerless_object_with_a_state_stays_while_it_is_paused() {
    let (world, operator) = applied_once().await;
    let pause = json!({"cluster.x-k8s.io/paused": "true"});
    world
        .patch(
            KIND,
            "prod",
            json!({"metadata": {"annotations": pause, "ownerReferences": null}}),
        )
        .await;
    delete(&world).await;
    operator.passes("prod", 6).await;
    assert!(left(&world).await.is_some());
    assert_eq!(states(&world).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b31_an_externally_managed_object_waits_for_its_job_and_leaves_its_secrets() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    let uid = world.get(KIND, "prod").await.uid();
    let managed =
        json!({"cluster.x-k8s.io/managed-by": "somebody", "cluster.x-k8s.io/paused": "true"});
    world
        .patch(KIND, "prod", json!({"metadata": {"annotations": managed}}))
        .await;
    delete(&world).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(30)));
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    goes(&world, &operator).await;
    assert_eq!(states(&world).await[0].1, uid);
    assert_eq!(operator.events("ExternallyManagedReleased").await.len(), 1);
    assert_eq!(operator.events("InfrastructureRetained").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_user_of_an_identity_takes_its_mirror_along_and_tells() {
    let (world, operator) = applied_once().await;
    world
        .patch(KIND, "prod", json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    delete(&world).await;
    goes(&world, &operator).await;
    assert_eq!(operator.events("MirrorRemoved").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_pass_on_an_object_that_is_gone_tells_nothing() {
    let (world, operator) = applied_once().await;
    world
        .patch(KIND, "prod", json!({"spec": {"deletionPolicy": "Retain"}}))
        .await;
    operator.caught_up("prod").await;
    drop(operator);
    delete(&world).await;
    let setup = Setup::blind_to(&["terraformclusters"]);
    let behind = Operator::set_up(ControlPlane::shared().await, &world, setup).await;
    behind.stale_pass("prod").await.unwrap();
    assert!(left(&world).await.is_none());
    behind.stale_pass("prod").await.unwrap();
    for reason in ["InfrastructureRetained", "DeletionStarted"] {
        assert_eq!(behind.events(reason).await.len(), 1, "{reason}");
    }
}
