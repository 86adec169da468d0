//! What a pass does when another Job holds the run lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, StatusCode};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, PropagationPolicy};
use kube::core::ResourceExt as _;

use super::{prod, scene};
use crate::operator::hand::{Held, OTHER, applied, duration, invalid, now, seconds};
use crate::operator::harness::{Operator, Setup};
use crate::operator::sight::holder;
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::{ControlPlane, World, jobs, wait};

/// An operator whose time stands still, and the run lease of `prod` as `OTHER` took it `age` seconds before.
async fn held(bed: &ControlPlane, world: &World, age: i64) -> (Operator, String) {
    let start = now();
    let lease = world
        .hold(&Held::run(world, "prod", OTHER, start - seconds(age)))
        .await;
    let operator = Operator::set_up(bed, world, Setup::at(start)).await;
    (operator, lease.resource_version().unwrap())
}

/// The run lease names the one Job, which is the first attempt.
async fn took_over(world: &World) -> Job {
    let job = world.only_job("prod").await;
    assert_eq!(
        world.holder_of(&world.run_lease("prod")).await,
        job.metadata.name
    );
    assert_eq!(
        job.labels()["captf.infrastructure.cluster.x-k8s.io/attempt"],
        "1"
    );
    job
}

/// No Job, the lease as it was, one Event and one count, however often the object is looked at.
async fn waits(operator: &Operator, world: &World, lease: &str) {
    for _ in 0..2 {
        let requeue = operator.passes("prod", 6).await;
        assert_eq!(requeue, Some(duration(30)));
        let told = world.told("prod", "ApplyJobSucceeded").await;
        assert_eq!(told.state, "Unknown/WaitingForRunLease");
        let name = world.run_lease("prod");
        assert!(
            told.message.contains(&format!("run lease {name}")),
            "{}",
            told.message
        );
        assert!(
            told.message.contains(&format!("held by Job {OTHER}")),
            "{}",
            told.message
        );
        assert!(
            told.message.contains("the apply starts once it finishes"),
            "{}",
            told.message
        );
        assert!(world.jobs_of("prod").await.is_empty());
        let now = world.lease(&name).await.unwrap();
        assert_eq!(
            now.resource_version().as_deref(),
            Some(lease),
            "the lease is unchanged"
        );
    }
    let events = operator.events("WaitingForRunLease").await;
    let types: Vec<Option<&str>> = events.iter().map(|event| event.type_.as_deref()).collect();
    assert_eq!(types, [Some("Normal")], "one Event");
    let reason = ["kind=\"TerraformCluster\"", "reason=\"run_lease\""];
    assert_eq!(
        operator.counted("captf_lease_waits_total", &reason),
        1,
        "counted once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_lease_of_a_finished_job_is_taken_over_without_a_wait() {
    for ending in [invalid(), applied()] {
        let (bed, world) = prod().await;
        world.finished_job(OTHER, ending).await;
        let (operator, _) = held(bed, &world, 1).await;
        assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
        took_over(&world).await;
        assert!(operator.events("WaitingForRunLease").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_holder_absent_past_the_grace_is_taken_over() {
    let (bed, world) = prod().await;
    let (operator, _) = held(bed, &world, 61).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    took_over(&world).await;
    assert!(operator.events("WaitingForRunLease").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_holder_absent_within_grace_waits_and_tells_once() {
    let (bed, world) = prod().await;
    let (operator, lease) = held(bed, &world, 30).await;
    waits(&operator, &world, &lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_wait_after_an_apply_writes_nothing_on_later_passes() {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    let operator = Operator::set_up(bed, &world, Setup::at(now())).await;
    operator.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    operator.passes("prod", 6).await;
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "True/ApplySucceeded"
    );
    world.job_by_hand(OTHER).await;
    world
        .hold(&Held::run(&world, "prod", OTHER, operator.clock.now()))
        .await;
    world.change_inputs("prod", 2).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(30)));
    let waiting = world.told("prod", "ApplyJobSucceeded").await;
    assert_eq!(waiting.state, "Unknown/WaitingForRunLease");
    let before = world
        .get("TerraformCluster", "prod")
        .await
        .resource_version();
    operator.clock.advance(duration(30));
    operator.pass("prod").await.unwrap();
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await,
        waiting,
        "the wait goes on since it began"
    );
    assert_eq!(
        world
            .get("TerraformCluster", "prod")
            .await
            .resource_version(),
        before
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_a_pass_that_fails_does_not_end_the_wait() {
    let (bed, world) = prod().await;
    let start = now();
    world
        .hold(&Held::run(&world, "prod", OTHER, start - seconds(30)))
        .await;
    let broken = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&broken);
    let faults = Faults::new(move |seen| {
        if fails.load(Ordering::SeqCst) && seen.touches(&Method::GET, "jobs") {
            Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        } else {
            Fault::Pass
        }
    });
    let operator = Operator::set_up(
        bed,
        &world,
        Setup {
            faults,
            ..Setup::at(start)
        },
    )
    .await;
    operator.passes("prod", 6).await;
    let waiting = world.told("prod", "ApplyJobSucceeded").await;
    assert_eq!(waiting.state, "Unknown/WaitingForRunLease");
    broken.store(true, Ordering::SeqCst);
    operator.pass("prod").await.unwrap_err();
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await,
        waiting,
        "nobody knows that it is over"
    );
    broken.store(false, Ordering::SeqCst);
    assert_eq!(operator.pass("prod").await.unwrap(), Some(duration(30)));
    assert_eq!(operator.events("WaitingForRunLease").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_holder_running_waits_and_its_end_starts_the_first_attempt() {
    let (bed, world) = prod().await;
    world.job_by_hand(OTHER).await;
    let (operator, lease) = held(bed, &world, 3600).await;
    waits(&operator, &world, &lease).await;
    jobs::finish(&world.client, &world.namespace, OTHER, invalid()).await;
    assert_eq!(operator.pass("prod").await.unwrap(), Some(duration(60)));
    took_over(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_holder_running_past_the_backstop_is_taken_over() {
    let (bed, world) = prod().await;
    world.job_by_hand(OTHER).await;
    let (operator, _) = held(bed, &world, 4501).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    took_over(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_holder_failed_with_a_pod_left_waits_until_the_pod_has_ended() {
    let (bed, world) = prod().await;
    world.finished_job(OTHER, invalid()).await;
    world.pod_by_hand(OTHER, "straggler", "Running").await;
    let (operator, lease) = held(bed, &world, 600).await;
    waits(&operator, &world, &lease).await;
    world.set_phase("straggler", "Failed").await;
    assert_eq!(operator.pass("prod").await.unwrap(), Some(duration(60)));
    took_over(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b8_holder_deleted_with_a_terminating_pod_waits_until_the_pod_is_gone() {
    let (bed, world) = prod().await;
    world.job_by_hand(OTHER).await;
    let pod = jobs::run(&world.client, &world.namespace, OTHER).await;
    world.keep::<Pod>(&pod.name_any()).await;
    world.delete_job(OTHER, PropagationPolicy::Background).await;
    let pods = world.typed::<Pod>();
    wait::until("the pod to terminate", wait::LIMIT, async || {
        let found = pods
            .get(&pod.name_any())
            .await
            .map_err(|error| error.to_string())?;
        wait::so(found.metadata.deletion_timestamp.is_some(), || {
            format!("{:?}", found.metadata)
        })
    })
    .await;
    let (operator, lease) = held(bed, &world, 600).await;
    waits(&operator, &world, &lease).await;
    world.let_go::<Pod>(&pod.name_any()).await;
    wait::until("the pod to be gone", wait::LIMIT, async || {
        let found = pods
            .get_opt(&pod.name_any())
            .await
            .map_err(|error| error.to_string())?;
        wait::so(found.is_none(), || {
            format!("{:?}", found.map(|pod| pod.metadata))
        })
    })
    .await;
    assert_eq!(operator.pass("prod").await.unwrap(), Some(duration(60)));
    took_over(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_a_lease_without_a_holder_is_taken_over() {
    let (bed, world) = prod().await;
    let start: Timestamp = now();
    world
        .hold(&Held::run(&world, "prod", OTHER, start).by_nobody())
        .await;
    let operator = Operator::set_up(bed, &world, Setup::at(start)).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    took_over(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_a_holder_that_cannot_be_read_fails_the_pass_and_nothing_is_taken() {
    for resource in ["jobs", "pods"] {
        let (bed, world) = scene().await;
        world.cluster("prod").create().await;
        let start = now();
        let lease = world
            .hold(&Held::run(&world, "prod", OTHER, start - seconds(300)))
            .await;
        let faults = Faults::new(move |seen| {
            if seen.touches(&Method::GET, resource) {
                Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
            } else {
                Fault::Pass
            }
        });
        let setup = Setup {
            faults: faults.clone(),
            ..Setup::at(start)
        };
        let operator = Operator::set_up(bed, &world, setup).await;
        let failed = async || {
            for _ in 0..6 {
                if let Err(error) = operator.pass("prod").await {
                    return error;
                }
            }
            panic!("no pass fails");
        };
        let error = failed().await;
        assert!(
            error.to_string().contains("answered by the fault layer"),
            "{error}"
        );
        let now = world.lease(&lease.name_any()).await.unwrap();
        assert_eq!(
            now.resource_version(),
            lease.resource_version(),
            "{resource}"
        );
        assert_eq!(holder(&now), OTHER);
        assert_eq!(faults.count(&Method::PUT, "leases"), 0);
        assert!(world.jobs_of("prod").await.is_empty());
        world
            .typed::<k8s_openapi::api::coordination::v1::Lease>()
            .delete(&lease.name_any(), &DeleteParams::default())
            .await
            .unwrap();
    }
}
