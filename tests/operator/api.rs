//! The way of one apply through the operator.

mod care;
mod deletion;
mod failover;
mod gauges;
mod log;
mod runs;
mod sweep;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::hand::applied;
use super::harness::Operator;
use crate::testbed::{ControlPlane, World, jobs};

/// An operator, and a TerraformCluster that rests after its first apply.
async fn applied_once() -> (World, Operator) {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    operator.passes("prod", 6).await;
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "True/ApplySucceeded"
    );
    (world, operator)
}

async fn our_leases(world: &World) -> Vec<Lease> {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    api.list(&ListParams::default().labels("captf.io/lease"))
        .await
        .unwrap()
        .items
}

async fn our_jobs(world: &World) -> Vec<Job> {
    let api: Api<Job> = Api::namespaced(world.client.clone(), &world.namespace);
    api.list(&ListParams::default().labels("captf.io/managed=true"))
        .await
        .unwrap()
        .items
}

#[tokio::test(flavor = "multi_thread")]
async fn b1_one_pass_takes_the_run_lease_for_the_one_job_it_creates() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    let operator = Operator::new(bed, &world).await;
    let requeue = operator.passes("prod", 6).await;
    assert_eq!(requeue.unwrap().as_secs(), 60);
    let jobs = our_jobs(&world).await;
    assert_eq!(jobs.len(), 1);
    let name = jobs[0].metadata.name.clone().unwrap();
    let lease = our_leases(&world)
        .await
        .into_iter()
        .find(|lease| lease.metadata.labels.as_ref().unwrap()["captf.io/lease"] == "run")
        .unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity, Some(name));
    assert_eq!(
        lease.metadata.annotations.unwrap()["captf.io/lease-op"],
        "apply"
    );
    assert_eq!(lease.metadata.labels.unwrap()["captf.io/managed"], "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_apply_is_told_with_its_diagnostics_and_gives_its_leases_back() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    let name = our_jobs(&world).await[0].metadata.name.clone().unwrap();
    let result = json!({
        "version": 1, "op": "apply",
        "steps": [{"name": "init", "exit": 0, "ms": 10}, {"name": "validate", "exit": 1, "ms": 10}],
        "error": {"kind": "step", "step": "validate", "summary": "Unsupported argument"}
    });
    jobs::finish(
        &world.client,
        &world.namespace,
        &name,
        jobs::Ending::failure(&result),
    )
    .await;
    let requeue = operator.pass("prod").await.unwrap();
    assert_eq!(
        world
            .condition("TerraformCluster", "prod", "ApplyJobSucceeded", "False")
            .await,
        "ApplyFailed"
    );
    assert!(
        our_leases(&world).await.is_empty(),
        "the leases are given back"
    );
    let seconds = requeue.unwrap().as_secs();
    assert!(
        (50..=60).contains(&seconds),
        "attempt 2 comes after the backoff of a minute, not after {seconds} s"
    );
}
