//! Giving leases back (leases.md §8): the lease is read first, then the Job, then its pods, and what is deleted is what
//! was read.

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::manager::{Manager, OURS, went};
use super::scene;
use crate::operator::hand::{OTHER, applied, invalid, noon};
use crate::testbed::World;
use crate::testbed::fault::{Fault, Faults};

/// Both leases held by the finished Job `OURS`.
async fn held(faults: &Faults) -> (World, Manager) {
    let (bed, world) = scene().await;
    world.finished_job(OURS, applied()).await;
    let manager = Manager::at(bed, &world, noon(), faults).await;
    went(manager.take(OURS).await);
    (world, manager)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_gives_both_leases_back() {
    let (world, manager) = held(&Faults::none()).await;
    manager.release_finished(OURS).await;
    assert_eq!(world.lease_names().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_another_job_is_not_given_back() {
    let (world, manager) = held(&Faults::none()).await;
    world.finished_job(OTHER, invalid()).await;
    world.take_over(&world.run_lease("prod"), OTHER).await;
    manager.release_finished(OURS).await;
    assert_eq!(world.lease_names().await, [world.run_lease("prod")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_has_not_ended_keeps_the_leases() {
    for phase in ["Pending", "Running", "Unknown"] {
        let (world, manager) = held(&Faults::none()).await;
        world.pod_by_hand(OURS, "straggler", phase).await;
        manager.release_finished(OURS).await;
        assert_eq!(world.lease_names().await.len(), 2, "{phase}");
        world.set_phase("straggler", "Succeeded").await;
        manager.release_finished(OURS).await;
        assert_eq!(world.lease_names().await, Vec::<String>::new(), "{phase}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_job_keeps_the_leases() {
    let (bed, world) = scene().await;
    world.job_by_hand(OURS).await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    went(manager.take(OURS).await);
    manager.release_finished(OURS).await;
    assert_eq!(world.lease_names().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_a_start_without_a_job_gives_both_leases_back() {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    went(manager.take(OURS).await);
    manager.release_unstarted(OURS).await;
    assert_eq!(world.lease_names().await, Vec::<String>::new());
}

/// The Job alone keeps them: it has no pod yet.
#[tokio::test(flavor = "multi_thread")]
async fn b14_a_job_that_exists_keeps_the_leases_of_a_start_that_failed() {
    let (bed, world) = scene().await;
    let suspended = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": OURS},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "source", "image": "registry.example.com/other:v1"}],
        }}},
    });
    world.create(suspended).await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    went(manager.take(OURS).await);
    manager.release_unstarted(OURS).await;
    assert_eq!(world.lease_names().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b14_a_job_that_has_finished_keeps_the_leases_of_a_start_that_failed() {
    let (world, manager) = held(&Faults::none()).await;
    manager.release_unstarted(OURS).await;
    assert_eq!(world.lease_names().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn c31_a_lease_that_was_written_since_it_was_read_stays() {
    // Another Job took it, or the same name did once more.
    for holder in [OTHER, OURS] {
        let shared = std::sync::Arc::new(std::sync::OnceLock::<World>::new());
        let rival = shared.clone();
        let faults = Faults::first(Method::DELETE, "leases", move || {
            let world = rival.get().unwrap().clone();
            Fault::First(Box::pin(async move {
                let params = PatchParams::default();
                let write = json!({
                    "metadata": {"annotations": {"example.com/taken": "again"}}, "spec": {"holderIdentity": holder},
                });
                let (api, run) = (world.typed::<Lease>(), world.run_lease("prod"));
                api.patch(&run, &params, &Patch::Merge(&write))
                    .await
                    .unwrap();
            }))
        });
        let (world, manager) = held(&faults).await;
        assert!(shared.set(world.clone()).is_ok());
        manager.release_finished(OURS).await;
        let lease = world
            .lease(&world.run_lease("prod"))
            .await
            .expect("it stays");
        assert_eq!(lease.annotations()["example.com/taken"], "again");
    }
}
