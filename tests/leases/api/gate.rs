//! The cluster's side of the operation gate, and the look at the leases just before a create.

use captf::lease::Wait;
use captf::names::LeaseScope;
use captf::operator::leases::Taken;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::DeleteParams;
use kube::core::ResourceExt as _;
use serde_json::json;

use super::manager::{Manager, OURS, deferred, went};
use super::scene;
use crate::operator::cut::Point;
use crate::operator::hand::{Held, OTHER, applied, duration, noon, seconds};
use crate::operator::sight::acquired_at;
use crate::testbed::World;
use crate::testbed::fault::{Fault, Faults};

async fn manager() -> (World, Manager) {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    (world, manager)
}

/// When run and cluster lease were taken, to the second.
async fn taken_at(world: &World) -> [Timestamp; 2] {
    let mut times = [noon(); 2];
    for (time, name) in times
        .iter_mut()
        .zip([world.run_lease("prod"), world.cluster_lease("prod")])
    {
        let at = acquired_at(&world.lease(&name).await.unwrap());
        *time = Timestamp::from_second(at.as_second()).unwrap();
    }
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_live_machine_operations_are_those_that_change_something_and_still_run() {
    let (world, manager) = manager().await;
    for job in ["job-1", "job-2", "job-3", "job-4", "job-6", "job-7"] {
        world.job_by_hand(job).await;
    }
    world.finished_job("job-5", applied()).await;
    let runs = [
        (("m1", "c1"), "apply", "job-1"),
        (("m2", "c1"), "destroy", "job-2"),
        (("m3", "c1"), "refresh", "job-3"),
        (("m4", "c1"), "drift", "job-4"),
        (("m5", "c1"), "apply", "job-5"),
        (("m6", "c2"), "apply", "job-6"),
    ];
    for (machine, op, job) in runs {
        world
            .hold(&Held::machine(&world, machine, op, job, noon()))
            .await;
    }
    world.hold(&Held::run(&world, "c1", "job-7", noon())).await;
    let mut lock = Held::machine(&world, ("m1", "c1"), "apply", "job-1", noon()).object();
    lock.metadata.name = Some("lock-tfstate-default-0123456789abcdef-m".to_owned());
    lock.labels_mut().remove("captf.io/lease");
    world.make(&lock).await;
    let now = noon() + seconds(3600);
    let live = manager
        .leases
        .live_machine_operations(&world.namespace, "c1", now)
        .await
        .unwrap();
    assert_eq!(live, ["job-1", "job-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b20_a_cluster_that_waits_for_machines_keeps_both_leases() {
    let (world, manager) = manager().await;
    world.job_by_hand("captf-m-md-0-apply-a1-0bead0").await;
    let machine = Held::machine(
        &world,
        ("md-0", "prod"),
        "apply",
        "captf-m-md-0-apply-a1-0bead0",
        noon(),
    );
    world.hold(&machine).await;
    let Taken::Wait(Wait::MachineOperations { holders }) = manager.take(OURS).await.unwrap() else {
        panic!("it does not wait for the machine");
    };
    assert_eq!(holders, ["captf-m-md-0-apply-a1-0bead0"]);
    for lease in [world.run_lease("prod"), world.cluster_lease("prod")] {
        assert_eq!(world.holder_of(&lease).await.as_deref(), Some(OURS));
    }
    manager.clock.advance(duration(30));
    manager.take(OURS).await.unwrap();
    assert_eq!(
        taken_at(&world).await,
        [noon() + seconds(30); 2],
        "each pass refreshes both"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b31_a_second_cluster_operation_waits_for_the_write_lease_and_gives_its_run_lease_back() {
    let (world, manager) = manager().await;
    world.job_by_hand(OTHER).await;
    world
        .hold(&Held::cluster(&world, "prod", OTHER, noon()))
        .await;
    let Taken::Wait(wait) = manager.take(OURS).await.unwrap() else {
        panic!("it does not wait");
    };
    let lease = world.cluster_lease("prod");
    let expected = Wait::RunLease {
        scope: LeaseScope::Cluster,
        lease: lease.clone(),
        holder: OTHER.to_owned(),
    };
    assert_eq!(wait, expected);
    assert_eq!(
        world.lease_names().await,
        [lease],
        "its own run lease is gone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b43_leases_taken_less_than_30_seconds_before_the_create_are_kept() {
    let (world, manager) = manager().await;
    let held = went(manager.take(OURS).await);
    for later in [10, 19] {
        manager.clock.advance(duration(later));
        went(manager.ensure_fresh(OURS, held.clone()).await);
        assert_eq!(taken_at(&world).await, [noon(); 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b26_b43_older_leases_are_taken_again_before_the_create() {
    for age in [30, 45] {
        let (world, manager) = manager().await;
        let held = went(manager.take(OURS).await);
        manager.clock.advance(duration(age));
        went(manager.ensure_fresh(OURS, held).await);
        let age = i64::try_from(age).unwrap();
        assert_eq!(taken_at(&world).await, [noon() + seconds(age); 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b26_the_gate_is_repeated_when_leases_are_taken_again() {
    let (world, manager) = manager().await;
    let held = went(manager.take(OURS).await);
    world.job_by_hand("captf-m-md-0-apply-a1-0bead0").await;
    let machine = Held::machine(
        &world,
        ("md-0", "prod"),
        "apply",
        "captf-m-md-0-apply-a1-0bead0",
        noon(),
    );
    world.hold(&machine).await;
    manager.clock.advance(duration(30));
    let why = deferred(manager.ensure_fresh(OURS, held).await);
    assert!(why.contains("captf-m-md-0-apply-a1-0bead0"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b43_a_cluster_operation_that_came_first_defers_and_the_run_lease_goes_back() {
    let (world, manager) = manager().await;
    let held = went(manager.take(OURS).await);
    world.job_by_hand(OTHER).await;
    let theirs = world.take_over(&world.cluster_lease("prod"), OTHER).await;
    manager.clock.advance(duration(70));
    deferred(manager.ensure_fresh(OURS, held).await);
    assert_eq!(
        world.lease_names().await,
        [theirs.name_any()],
        "the run lease is gone"
    );
    let now = world.lease(&theirs.name_any()).await.unwrap();
    assert_eq!(
        now.resource_version(),
        theirs.resource_version(),
        "the other lease is untouched"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b27_b43_a_run_lease_that_another_job_took_defers_and_stays_untouched() {
    for age in [10, 70] {
        let (world, manager) = manager().await;
        let held = went(manager.take(OURS).await);
        world.job_by_hand(OTHER).await;
        let theirs = world.take_over(&world.run_lease("prod"), OTHER).await;
        manager.clock.advance(duration(age));
        let why = deferred(manager.ensure_fresh(OURS, held).await);
        assert!(why.contains(&format!("is now held by {OTHER}")), "{why}");
        let now = world.lease(&theirs.name_any()).await.unwrap();
        assert_eq!(now.resource_version(), theirs.resource_version());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b28_a_second_taking_that_lasts_half_the_grace_defers() {
    let (bed, world) = scene().await;
    let clock = std::sync::Arc::new(std::sync::OnceLock::<captf::client::Clock>::new());
    let (shared, second) = (
        clock.clone(),
        Point::first(Method::POST, "leases").nth(3).finder(),
    );
    let faults = Faults::new(move |seen| {
        if !second(seen) {
            return Fault::Pass;
        }
        let clock = shared.get().unwrap().clone();
        Fault::Then(Box::pin(async move { clock.advance(duration(30)) }))
    });
    let manager = Manager::at(bed, &world, noon(), &faults).await;
    clock.set(manager.clock.clone()).unwrap();
    let held = went(manager.take(OURS).await);
    manager.clock.advance(duration(30));
    deferred(manager.ensure_fresh(OURS, held).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn b29_a_lease_that_somebody_deleted_is_taken_again_before_the_create() {
    let (world, manager) = manager().await;
    let held = went(manager.take(OURS).await);
    let run = world.run_lease("prod");
    world
        .typed::<Lease>()
        .delete(&run, &DeleteParams::default())
        .await
        .unwrap();
    manager.clock.advance(duration(5));
    went(manager.ensure_fresh(OURS, held).await);
    assert_eq!(taken_at(&world).await, [noon() + seconds(5); 2]);
    let spec = serde_json::to_value(world.lease(&run).await.unwrap().spec.unwrap()).unwrap();
    assert_eq!(spec["holderIdentity"], json!(OURS));
}
