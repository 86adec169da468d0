//! Pods that outlive their Job, and the fence between a Job and its per-run Secret.

use std::time::Instant;

use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, PostParams, PropagationPolicy};
use kube::core::ResourceExt as _;
use serde_json::json;

use captf::lease::Wait;
use captf::names::LeaseScope;
use captf::operator::leases::{Fenced, Taken};

use super::manager::{Manager, OURS, busy, went};
use super::{prod, scene};
use crate::operator::cut::{Halt, Point};
use crate::operator::hand::{Held, OTHER, duration, noon, now, seconds};
use crate::operator::harness::{Operator, Setup};
use crate::operator::sight::{acquired_at, holder};
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::{World, jobs, wait};

/// An object whose apply Job was deleted while its pod runs on. Returns the Job's name, which is also that of the next
/// attempt, and the pod's.
async fn orphan(operator: &Operator, world: &World) -> (String, String) {
    operator.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    let pod = jobs::run(&world.client, &world.namespace, &job)
        .await
        .name_any();
    world.delete_job(&job, PropagationPolicy::Orphan).await;
    (job, pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn b44_a_pod_that_outlives_its_job_keeps_the_next_one_of_its_name_waiting() {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    let (job, pod) = orphan(&operator, &world).await;
    for _ in 0..2 {
        assert_eq!(operator.passes("prod", 6).await, Some(duration(30)));
        let told = world.told("prod", "ApplyJobSucceeded").await;
        assert_eq!(told.state, "Unknown/WaitingForRunLease");
        assert!(
            told.message.contains(&format!("held by Job {job}")),
            "{}",
            told.message
        );
        assert!(world.jobs_of("prod").await.is_empty(), "no second Job");
        for lease in [world.run_lease("prod"), world.cluster_lease("prod")] {
            assert_eq!(
                world.holder_of(&lease).await.as_ref(),
                Some(&job),
                "both leases stay"
            );
        }
        operator.clock.advance(duration(30));
    }
    world.set_phase(&pod, "Failed").await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    let next = world.only_job("prod").await;
    assert_eq!(next.name_any(), job);
    world.secret_of(&next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b44_the_lease_stays_when_the_start_waits_at_the_gate_beside_a_running_pod() {
    for phase in ["Running", "Pending"] {
        let (bed, world) = scene().await;
        let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
        world.pod_by_hand(OURS, "orphan", phase).await;
        world.job_by_hand(OTHER).await;
        world
            .hold(&Held::cluster(&world, "prod", OTHER, noon()))
            .await;
        let Taken::Wait(wait) = manager.take(OURS).await.unwrap() else {
            panic!("it does not wait at the gate");
        };
        assert!(
            matches!(
                wait,
                Wait::RunLease {
                    scope: LeaseScope::Cluster,
                    ..
                }
            ),
            "{wait:?}"
        );
        assert_eq!(
            world.holder_of(&world.run_lease("prod")).await.as_deref(),
            Some(OURS),
            "{phase}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b44_pending_pods_of_a_deleted_job_put_its_retry_off() {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    went(manager.take(OURS).await);
    world.pod_by_hand(OURS, "orphan", "Pending").await;
    let deferred = manager.take(OURS).await.unwrap();
    assert!(matches!(deferred, Taken::Defer(_)), "{deferred:?}");
    world.set_phase("orphan", "Unknown").await;
    let waits = manager.take(OURS).await.unwrap();
    assert!(
        matches!(&waits, Taken::Wait(Wait::RunLease { holder, .. }) if holder == OURS),
        "{waits:?}"
    );
    world.set_phase("orphan", "Succeeded").await;
    went(manager.take(OURS).await);
}

/// The lease itself is gone, so nothing but the pod tells of the earlier run.
#[tokio::test(flavor = "multi_thread")]
async fn b44_the_fence_refuses_beside_a_pod_of_an_earlier_job_of_the_name() {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    let (_, pod) = orphan(&operator, &world).await;
    for lease in world.lease_names().await {
        world
            .typed::<Lease>()
            .delete(&lease, &DeleteParams::default())
            .await
            .unwrap();
    }
    assert_eq!(operator.passes("prod", 6).await, Some(duration(5)));
    assert!(
        world.jobs_of("prod").await.is_empty(),
        "the Job that was created is deleted again"
    );
    assert!(world.run_secrets().await.is_empty());
    world.set_phase(&pod, "Failed").await;
    wait::until("the start", wait::LIMIT, async || {
        let requeue = operator
            .pass("prod")
            .await
            .map_err(|error| error.to_string())?;
        wait::so(requeue == Some(duration(60)), || {
            format!("requeue {requeue:?}")
        })
    })
    .await;
    let next = world.only_job("prod").await;
    world.secret_of(&next).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b45_a_lease_taken_over_behind_the_create_takes_the_job_back() {
    let (bed, world) = prod().await;
    let rival = world.clone();
    let faults = Faults::first(Method::POST, "jobs", move || {
        let rival = rival.clone();
        Fault::Then(Box::pin(async move {
            rival.job_by_hand(OTHER).await;
            rival.take_over(&rival.run_lease("prod"), OTHER).await;
            // Its pod exists already, and waits for the Secret.
            let job = rival.only_job("prod").await.name_any();
            let begin = Instant::now();
            let pod = loop {
                match rival.pods_of(&job).await.pop() {
                    Some(pod) => break pod.name_any(),
                    None => assert!(begin.elapsed() < wait::LIMIT, "Job {job} has no pod"),
                }
            };
            rival.schedule(&pod).await;
            report_active(&rival, &job).await;
        }))
    });
    let setup = Setup {
        faults: faults.clone(),
        limit: duration(60),
        ..Setup::at(now())
    };
    let operator = Operator::set_up(bed, &world, setup).await;
    operator.refused("prod").await;
    assert_eq!(
        faults.count(&Method::POST, "jobs"),
        1,
        "our Job was created"
    );
    assert!(world.jobs_of("prod").await.is_empty(), "and is deleted");
    let secrets = created_after_the_job(&faults);
    assert_eq!(secrets, 0, "no Secret of it ever existed, nor a record");
    let theirs = world.lease(&world.run_lease("prod")).await.unwrap();
    assert_eq!(
        theirs.spec.as_ref().unwrap().holder_identity.as_deref(),
        Some(OTHER)
    );
    assert!(
        !theirs.annotations().contains_key("captf.io/lease-job-uid"),
        "the other lease is untouched"
    );
    let ours = world.holder_of(&world.cluster_lease("prod")).await.unwrap();
    assert_ne!(
        ours, OTHER,
        "a pod of ours that is pending keeps the cluster lease for the time being"
    );
    assert_eq!(
        world.active_job("prod").await,
        None,
        "the status lets go of the Job before"
    );
    assert!(
        operator.events("JobCreated").await.is_empty(),
        "a refused start is no news"
    );
}

/// What another manager writes that found our Job in its list before we did more about it.
async fn report_active(rival: &World, job: &str) {
    let active = json!({"activeJob": {"name": job, "operation": "apply", "attempt": 1}});
    rival.patch_status("TerraformCluster", "prod", active).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b45_a_refused_job_is_no_vanished_apply() {
    let (bed, world) = prod().await;
    let rival = world.clone();
    let faults = Faults::first(Method::POST, "jobs", move || {
        let rival = rival.clone();
        Fault::Then(Box::pin(async move {
            rival.take_over(&rival.run_lease("prod"), OTHER).await;
            let job = rival.only_job("prod").await.name_any();
            report_active(&rival, &job).await;
        }))
    });
    let operator = Operator::set_up(
        bed,
        &world,
        Setup {
            faults,
            ..Setup::at(now())
        },
    )
    .await;
    operator.refused("prod").await;
    assert!(world.jobs_of("prod").await.is_empty());
    operator.clock.advance(duration(120));
    wait::until("the next start", wait::LIMIT, async || {
        let requeue = operator
            .pass("prod")
            .await
            .map_err(|error| error.to_string())?;
        wait::so(requeue == Some(duration(60)), || {
            format!("requeue {requeue:?}")
        })
    })
    .await;
    world.only_job("prod").await;
    let record = world.attempt_record("prod").await.unwrap();
    assert!(
        !record
            .annotations()
            .contains_key("captf.io/interrupted-apply")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_refuses_when_a_pause_came_between() {
    let pauses = [
        ("Cluster", json!({"spec": {"paused": true}})),
        (
            "TerraformCluster",
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}),
        ),
    ];
    for (kind, pause) in pauses {
        let (bed, world) = prod().await;
        let rival = world.clone();
        let faults = Faults::first(Method::POST, "jobs", move || {
            let (rival, pause) = (rival.clone(), pause.clone());
            Fault::Then(Box::pin(async move {
                rival.patch(kind, "prod", pause).await;
            }))
        });
        let operator = Operator::faulty(bed, &world, &faults).await;
        operator.refused("prod").await;
        assert!(world.jobs_of("prod").await.is_empty(), "{kind}");
        assert!(world.run_secrets().await.is_empty(), "{kind}");
        operator.passes("prod", 4).await;
        assert!(
            !world.blocks_move("prod").await,
            "{kind}: a paused object without a Job can be moved"
        );
        assert!(world.jobs_of("prod").await.is_empty(), "{kind}");
    }
}

/// How many Secrets were created after the first Job.
fn created_after_the_job(faults: &Faults) -> usize {
    let sent = faults.requests();
    let after = sent
        .iter()
        .skip_while(|seen| !seen.touches(&Method::POST, "jobs"));
    after
        .filter(|seen| seen.touches(&Method::POST, "secrets"))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn b45_the_refused_job_is_deleted_by_its_uid() {
    let (bed, world) = prod().await;
    let rival = world.clone();
    let take_over = Point::first(Method::POST, "jobs").finder();
    let replace = Point::first(Method::DELETE, "jobs").finder();
    let faults = Faults::new(move |seen| {
        let rival = rival.clone();
        if take_over(seen) {
            return Fault::Then(Box::pin(async move {
                rival.take_over(&rival.run_lease("prod"), OTHER).await;
            }));
        }
        if replace(seen) {
            return Fault::First(Box::pin(async move {
                replace_job(&rival).await;
            }));
        }
        Fault::Pass
    });
    let setup = Setup {
        faults,
        limit: duration(60),
        ..Setup::default()
    };
    let operator = Operator::set_up(bed, &world, setup).await;
    operator.refused("prod").await;
    world.only_job("prod").await;
    let told = world.told("prod", "ApplyJobSucceeded").await;
    assert_eq!(
        told.state, "Unknown/NoApplyYet",
        "a refused start is no wait"
    );
}

/// Deletes the Job of `prod` and creates another one of its name.
async fn replace_job(rival: &World) {
    let mut job = rival.only_job("prod").await;
    let (api, name) = (rival.typed::<Job>(), job.name_any());
    let (background, create) = (DeleteParams::background(), PostParams::default());
    api.delete(&name, &background).await.unwrap();
    blank(&mut job);
    // The name is free once the old Job is gone, which takes the API server one request or two.
    while let Err(error) = api.create(&create, &job).await {
        assert!(
            error.to_string().contains("exists") || error.to_string().contains("being deleted"),
            "{error}"
        );
    }
}

/// Takes off what the API server and the Job controller put on a Job.
fn blank(job: &mut Job) {
    job.metadata.uid = None;
    job.metadata.resource_version = None;
    job.status = None;
    let spec = job.spec.as_mut().unwrap();
    spec.selector = None;
    let labels = spec
        .template
        .metadata
        .as_mut()
        .and_then(|meta| meta.labels.as_mut())
        .unwrap();
    labels.retain(|key, _| !key.contains("controller-uid") && !key.contains("job-name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn b46_a_takeover_judged_before_the_create_and_written_after_the_fence_conflicts() {
    let (bed, world) = prod().await;
    let start = now();
    let (before_create, before_update) = (Halt::default(), Halt::default());
    let setup = Setup {
        faults: before_create.before(Point::first(Method::POST, "jobs")),
        limit: duration(120),
        ..Setup::at(start)
    };
    let ours = Operator::set_up(bed, &world, setup).await;
    let late = before_update.before(Point::first(Method::PUT, "leases"));
    let rival = Manager::at(bed, &world, start, &late).await;
    let mut takeover = None;
    let requeue = before_create
        .during(ours.passes("prod", 6), async {
            // No Job of ours exists yet, and on the rival's clock the grace is over: it judges the lease free.
            takeover = Some(tokio::spawn(async move {
                rival.acquire(OTHER, start + seconds(62)).await
            }));
            before_update.reached().await;
        })
        .await;
    assert_eq!(requeue, Some(duration(60)), "our start went through");
    before_update.go_on();
    assert_eq!(
        busy(takeover.unwrap().await.unwrap()),
        "",
        "its update conflicts"
    );
    let job = world.only_job("prod").await;
    world.secret_of(&job).await;
    let lease = world.lease(&world.run_lease("prod")).await.unwrap();
    assert_eq!(holder(&lease), job.name_any());
    assert_eq!(
        lease.annotations()["captf.io/lease-job-uid"],
        job.uid().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_writes_the_uid_and_leaves_the_acquire_time() {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    let held = went(manager.take(OURS).await);
    let before = acquired_at(&held.run);
    manager.clock.advance(duration(7));
    let fenced = manager.fence(OURS, "uid-1", Some(&held)).await.unwrap();
    assert!(matches!(fenced, Fenced::Passed { .. }), "{fenced:?}");
    for name in [world.run_lease("prod"), world.cluster_lease("prod")] {
        let lease = world.lease(&name).await.unwrap();
        assert_eq!(lease.annotations()["captf.io/lease-job-uid"], "uid-1");
        assert!(acquired_at(&lease) < before + seconds(1), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_leaves_a_job_to_another_pass_that_works_on_it() {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    let held = went(manager.take(OURS).await);
    went(manager.take(OURS).await);
    let fenced = manager.fence(OURS, "uid-1", Some(&held)).await.unwrap();
    assert!(matches!(fenced, Fenced::AnotherPass), "{fenced:?}");
    let fenced = manager.fence(OURS, "uid-1", None).await.unwrap();
    assert!(
        matches!(fenced, Fenced::Passed { .. }),
        "an adopted Job's leases are read: {fenced:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fence_refuses_when_a_machine_operation_came_between() {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
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
    let fenced = manager.fence(OURS, "uid-1", Some(&held)).await.unwrap();
    assert!(
        matches!(&fenced, Fenced::Refused(why) if why.contains("captf-m-md-0-apply-a1-0bead0")),
        "{fenced:?}"
    );
}
