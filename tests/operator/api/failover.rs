//! Managers that die between two writes, and what the next one makes of it (failover.md §4). A test is named after the
//! crash window that it opens; unless it says otherwise its object has a state, so that an apply may be repeated.

use http::{Method, StatusCode};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, PropagationPolicy};
use kube::core::ResourceExt as _;

use crate::operator::cut::{Death, Halt, Point};
use crate::operator::hand::{applied, duration, now, seconds};
use crate::operator::harness::{Operator, Setup};
use crate::operator::sight::holder;
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::{ControlPlane, World, jobs, wait};

async fn scene() -> (&'static ControlPlane, World) {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    (bed, world)
}

/// Lets a manager work until it dies; what it counted until then.
async fn dies(bed: &ControlPlane, world: &World, death: &Death) -> Operator {
    let operator = Operator::faulty(bed, world, &death.faults).await;
    for _ in 0..8 {
        let _ = operator.pass("prod").await;
        if death.happened() {
            return operator;
        }
    }
    panic!("the manager lives on: {:?}", death.faults.requests());
}

/// A manager that has started the first apply.
async fn started(bed: &ControlPlane, world: &World) -> Job {
    let operator = Operator::new(bed, world).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    world.only_job("prod").await
}

/// A finished first apply that nobody has looked at.
async fn finished(bed: &ControlPlane, world: &World) -> Job {
    let job = started(bed, world).await;
    jobs::finish(&world.client, &world.namespace, &job.name_any(), applied()).await
}

/// Jobs that this manager counted.
fn counted(operator: &Operator) -> u64 {
    operator.counted("captf_jobs_total", &[])
}

/// What a manager that watches the Job of a first attempt has brought about.
async fn is_armed(world: &World) -> Job {
    let job = world.only_job("prod").await;
    assert_eq!(
        job.labels()["captf.infrastructure.cluster.x-k8s.io/attempt"],
        "1"
    );
    world.secret_of(&job).await;
    let record = world
        .attempt_record("prod")
        .await
        .expect("the attempt is recorded");
    assert_eq!(record.annotations()["captf.io/job"], job.name_any());
    assert_eq!(world.active_job("prod").await, Some(job.name_any()));
    assert!(world.blocks_move("prod").await);
    for lease in [world.run_lease("prod"), world.cluster_lease("prod")] {
        assert_eq!(world.holder_of(&lease).await, Some(job.name_any()));
    }
    job
}

/// The manager sees the running Job to its end; then nothing of it is left but its result.
async fn ends(operator: &Operator, world: &World, job: &Job) {
    jobs::finish(&world.client, &world.namespace, &job.name_any(), applied()).await;
    let before = counted(operator);
    operator.passes("prod", 6).await;
    assert_eq!(counted(operator), before + 1, "counted once");
    is_settled(world, &job.name_any()).await;
    assert_eq!(
        world.lease_names().await,
        Vec::<String>::new(),
        "the leases are gone"
    );
}

/// A Job's result stands on the object, and nothing of the run is left but perhaps a lease that is free.
async fn is_settled(world: &World, job: &str) {
    let live = world.only_job("prod").await;
    assert_eq!(live.name_any(), job);
    assert_eq!(
        live.annotations()
            .get("captf.io/bookkept")
            .map(String::as_str),
        Some("true")
    );
    assert!(
        world.run_secrets().await.is_empty(),
        "no per-run Secret is left"
    );
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "True/ApplySucceeded"
    );
    assert_eq!(last_run(world).await["job"], job);
    assert_eq!(world.active_job("prod").await, None);
    assert!(!world.blocks_move("prod").await, "nothing holds a move up");
    let record = world
        .applied_record("prod")
        .await
        .expect("the apply is recorded as applied");
    assert_eq!(record.annotations()["captf.io/job"], job);
}

async fn last_run(world: &World) -> serde_json::Value {
    world.get("TerraformCluster", "prod").await.data["status"]["lastRun"].clone()
}

/// The create of the per-run Secret: the record of the attempt is the Secret before it.
fn per_run_secret() -> Point {
    Point::first(Method::POST, "secrets")
        .since(Method::POST, "jobs")
        .nth(2)
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_c3_leases_of_a_job_that_was_never_created_are_refreshed_by_the_next_manager() {
    let points = [
        Death::after(Point::first(Method::POST, "leases")),
        Death::after(Point::first(Method::POST, "leases").nth(2)),
    ];
    for (number, death) in points.iter().enumerate() {
        let (bed, world) = scene().await;
        dies(bed, &world, death).await;
        assert_eq!(world.lease_names().await.len(), number + 1);
        assert!(world.jobs_of("prod").await.is_empty());
        let next = Operator::new(bed, &world).await;
        assert_eq!(
            next.passes("prod", 3).await,
            Some(duration(60)),
            "at once, without the grace"
        );
        let job = is_armed(&world).await;
        ends(&next, &world, &job).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_block_move_without_a_job_is_cleared_or_set_again() {
    let (bed, world) = scene().await;
    let death = Death::before(Point::first(Method::POST, "jobs"));
    dies(bed, &world, &death).await;
    assert!(world.blocks_move("prod").await);
    world
        .patch(
            "Cluster",
            "prod",
            serde_json::json!({"spec": {"paused": true}}),
        )
        .await;
    let next = Operator::new(bed, &world).await;
    next.passes("prod", 4).await;
    assert!(
        !world.blocks_move("prod").await,
        "a paused object without a Job can be moved"
    );
    assert!(world.jobs_of("prod").await.is_empty());
    world
        .patch(
            "Cluster",
            "prod",
            serde_json::json!({"spec": {"paused": false}}),
        )
        .await;
    assert_eq!(next.passes("prod", 4).await, Some(duration(60)));
    let job = is_armed(&world).await;
    ends(&next, &world, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_a_create_whose_answer_is_lost_leads_to_one_job() {
    for (answer, creates) in [
        ((|| Fault::LostAnswer) as fn() -> Fault, 1),
        (|| Fault::Before, 2),
    ] {
        let (bed, world) = scene().await;
        let faults = Faults::first(Method::POST, "jobs", answer);
        let operator = Operator::faulty(bed, &world, &faults).await;
        wait::until("the create to fail", wait::LIMIT, async || {
            match operator.pass("prod").await {
                Err(_) => Ok(()),
                Ok(requeue) => Err(format!("requeue {requeue:?}")),
            }
        })
        .await;
        assert!(
            world.lease(&world.run_lease("prod")).await.is_some(),
            "the leases are kept"
        );
        operator.clock.advance(duration(10));
        assert_eq!(operator.passes("prod", 3).await, Some(duration(60)));
        assert_eq!(faults.count(&Method::POST, "jobs"), creates);
        let job = is_armed(&world).await;
        ends(&operator, &world, &job).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_c11_a_job_that_a_lagging_cache_lacks_is_neither_created_again_nor_forgotten() {
    let points = [
        Death::after(Point::first(Method::POST, "jobs")),
        Death::after(per_run_secret()),
    ];
    for death in points {
        let (bed, world) = scene().await;
        let lagging = Operator::set_up(bed, &world, Setup::with_stale_jobs()).await;
        dies(bed, &world, &death).await;
        let job = world.only_job("prod").await;
        lagging.object_caught_up("prod").await;
        assert_eq!(lagging.stale_pass("prod").await.unwrap(), Some(duration(5)));
        assert_eq!(world.only_job("prod").await.uid(), job.uid());
        assert!(world.blocks_move("prod").await, "nothing is cleared");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_a_job_without_a_record_gets_record_and_secret() {
    let (bed, world) = scene().await;
    let death = Death::before(Point::first(Method::POST, "secrets").since(Method::POST, "jobs"));
    dies(bed, &world, &death).await;
    world.only_job("prod").await;
    assert!(world.attempt_record("prod").await.is_none());
    let next = Operator::new(bed, &world).await;
    next.clock.advance(duration(10));
    assert_eq!(next.passes("prod", 3).await, Some(duration(60)));
    let job = is_armed(&world).await;
    ends(&next, &world, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c10_a_job_without_its_secret_is_repaired_once_it_is_ten_seconds_old() {
    let (bed, world) = scene().await;
    dies(bed, &world, &Death::before(per_run_secret())).await;
    let job = world.only_job("prod").await;
    let record = world
        .attempt_record("prod")
        .await
        .expect("the record comes before the Secret");
    assert!(world.run_secrets().await.is_empty());
    let start = job.creation_timestamp().unwrap().0;
    let next = Operator::set_up(bed, &world, Setup::at(start + seconds(9))).await;
    let requeue = next.pass("prod").await.unwrap().expect("it comes back");
    assert!(requeue <= duration(1), "{requeue:?}");
    assert!(
        world.run_secrets().await.is_empty(),
        "its creator may still be at work"
    );
    next.clock.advance(duration(1));
    assert_eq!(next.passes("prod", 3).await, Some(duration(60)));
    let armed = world.only_job("prod").await;
    assert_eq!(armed.uid(), job.uid());
    world.secret_of(&armed).await;
    let after = world.attempt_record("prod").await.unwrap();
    assert_eq!(
        after.resource_version(),
        record.resource_version(),
        "the record stands"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c10_a_repaired_job_is_seen_to_its_end() {
    let (bed, world) = scene().await;
    dies(bed, &world, &Death::before(per_run_secret())).await;
    let next = Operator::new(bed, &world).await;
    assert_eq!(world.active_job("prod").await, None);
    next.clock.advance(duration(10));
    assert_eq!(next.passes("prod", 3).await, Some(duration(60)));
    let job = is_armed(&world).await;
    ends(&next, &world, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c10_a_job_that_nobody_can_arm_is_deleted_after_a_minute() {
    let (bed, world) = scene().await;
    let death = Death::before(Point::first(Method::POST, "secrets").since(Method::POST, "jobs"));
    dies(bed, &world, &death).await;
    let job = world.only_job("prod").await;
    world.change_inputs("prod", 2).await;
    let start = job.creation_timestamp().unwrap().0;
    let next = Operator::set_up(bed, &world, Setup::at(start + seconds(59))).await;
    assert_eq!(next.pass("prod").await.unwrap(), Some(duration(60)));
    assert_eq!(
        world.only_job("prod").await.uid(),
        job.uid(),
        "not before it is a minute old"
    );
    next.clock.advance(duration(1));
    assert_eq!(next.pass("prod").await.unwrap(), Some(duration(1)));
    assert!(world.jobs_of("prod").await.is_empty());
    assert_eq!(next.events("StuckJobDeleted").await.len(), 1);
    // The inputs changed, so the next Job has another name; the lease it finds is past the grace.
    next.clock.advance(duration(60));
    wait::until("the next Job", wait::LIMIT, async || {
        next.pass("prod").await.map_err(|error| error.to_string())?;
        wait::so(!world.run_secrets().await.is_empty(), || {
            "no Job is armed".to_owned()
        })
    })
    .await;
    let job = is_armed(&world).await;
    ends(&next, &world, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_an_armed_job_that_the_status_does_not_name_is_watched() {
    let (bed, world) = scene().await;
    dies(bed, &world, &Death::after(per_run_secret())).await;
    let job = world.only_job("prod").await;
    let (secret, record) = (
        world.secret_of(&job).await,
        world.attempt_record("prod").await.unwrap(),
    );
    assert_eq!(world.active_job("prod").await, None);
    assert!(world.blocks_move("prod").await);
    let next = Operator::new(bed, &world).await;
    next.passes("prod", 3).await;
    let armed = is_armed(&world).await;
    assert_eq!(armed.uid(), job.uid());
    assert_eq!(world.secret_of(&armed).await.uid(), secret.uid());
    let after = world.attempt_record("prod").await.unwrap();
    assert_eq!(
        after.resource_version(),
        record.resource_version(),
        "the record is written once"
    );
    ends(&next, &world, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c11_a_start_is_told_once_also_when_the_status_cannot_be_written() {
    let (bed, world) = scene().await;
    let status = Point::first(Method::PATCH, "status")
        .since(Method::POST, "jobs")
        .finder();
    let faults = Faults::new(move |seen| {
        if status(seen) {
            Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        } else {
            Fault::Pass
        }
    });
    let operator = Operator::faulty(bed, &world, &faults).await;
    wait::until(
        "the status patch to fail",
        wait::LIMIT,
        async || match operator.pass("prod").await {
            Err(_) => Ok(()),
            Ok(requeue) => Err(format!("requeue {requeue:?}")),
        },
    )
    .await;
    assert_eq!(world.active_job("prod").await, None);
    operator.passes("prod", 3).await;
    let job = is_armed(&world).await;
    let told = operator.events("JobCreated").await;
    let related: Vec<Option<String>> = told.into_iter().map(|event| event.related?.name).collect();
    assert_eq!(related, [Some(job.name_any())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn c13_a_job_that_finished_without_a_manager_is_recorded_once() {
    let (bed, world) = scene().await;
    let job = finished(bed, &world).await.name_any();
    let next = Operator::new(bed, &world).await;
    next.passes("prod", 6).await;
    is_settled(&world, &job).await;
    assert_eq!(counted(&next), 1);
    assert_eq!(
        last_run(&world).await["steps"][1]["name"],
        "apply",
        "the pod was read"
    );
    assert_eq!(next.events("JobSucceeded").await.len(), 1);
    assert_eq!(world.lease_names().await, Vec::<String>::new());
    next.pass("prod").await.unwrap();
    assert_eq!(counted(&next), 1);
    assert_eq!(next.events("JobSucceeded").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn c14_a_promoted_apply_is_not_promoted_again_and_counted_now() {
    let (bed, world) = scene().await;
    let job = finished(bed, &world).await;
    let dead = dies(
        bed,
        &world,
        &Death::before(Point::first(Method::DELETE, "secrets")),
    )
    .await;
    let record = world.applied_record("prod").await.expect("it was promoted");
    assert_eq!(record.annotations()["captf.io/job"], job.name_any());
    world.secret_of(&job).await;
    assert_eq!(counted(&dead), 0);
    let next = Operator::new(bed, &world).await;
    next.passes("prod", 6).await;
    is_settled(&world, &job.name_any()).await;
    assert_eq!(counted(&next), 1);
    let after = world.applied_record("prod").await.unwrap();
    assert_eq!(after.resource_version(), record.resource_version());
    assert_eq!(world.lease_names().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn c15_leases_that_nobody_gave_back_are_taken_over_by_the_next_job() {
    let (bed, world) = scene().await;
    let job = finished(bed, &world).await.name_any();
    dies(
        bed,
        &world,
        &Death::before(Point::first(Method::DELETE, "leases")),
    )
    .await;
    assert!(world.run_secrets().await.is_empty());
    let next = Operator::new(bed, &world).await;
    next.passes("prod", 6).await;
    is_settled(&world, &job).await;
    assert_eq!(
        counted(&next),
        0,
        "it was counted by the delete of its Secret"
    );
    assert_eq!(
        world.holder_of(&world.run_lease("prod")).await,
        Some(job.clone()),
        "nothing deletes the lease"
    );
    world.change_inputs("prod", 2).await;
    assert_eq!(
        next.passes("prod", 6).await,
        Some(duration(60)),
        "a finished holder is no holder"
    );
    let second = world
        .jobs_of("prod")
        .await
        .into_iter()
        .find(|found| found.name_any() != job)
        .unwrap();
    assert_eq!(
        world.holder_of(&world.run_lease("prod")).await,
        Some(second.name_any())
    );
    jobs::finish(
        &world.client,
        &world.namespace,
        &second.name_any(),
        applied(),
    )
    .await;
    next.passes("prod", 6).await;
    assert_eq!(world.lease_names().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn c16_a_counted_job_whose_result_was_lost_is_read_again_and_not_counted_again() {
    for pod_is_gone in [false, true] {
        let (bed, world) = scene().await;
        let job = finished(bed, &world).await;
        let status = Point::first(Method::PATCH, "status").since(Method::DELETE, "leases");
        let dead = dies(bed, &world, &Death::before(status)).await;
        assert_eq!(counted(&dead), 1);
        assert_eq!(world.lease_names().await, Vec::<String>::new());
        assert!(
            !world
                .only_job("prod")
                .await
                .annotations()
                .contains_key("captf.io/bookkept")
        );
        if pod_is_gone {
            for pod in world.pods_of(&job.name_any()).await {
                let api = world.typed::<Pod>();
                api.delete(&pod.name_any(), &DeleteParams::default())
                    .await
                    .unwrap();
                world.let_go::<Pod>(&pod.name_any()).await;
                wait::until("the pod to be gone", wait::LIMIT, async || {
                    let found = api
                        .get_opt(&pod.name_any())
                        .await
                        .map_err(|error| error.to_string())?;
                    wait::so(found.is_none(), || {
                        format!("{:?}", found.map(|pod| pod.metadata))
                    })
                })
                .await;
            }
        }
        let next = Operator::new(bed, &world).await;
        next.passes("prod", 6).await;
        is_settled(&world, &job.name_any()).await;
        assert_eq!(counted(&next), 0);
        let steps = last_run(&world).await["steps"]
            .as_array()
            .map_or(0, Vec::len);
        assert_eq!(steps, if pod_is_gone { 0 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c17_a_recorded_job_without_its_mark_is_marked_and_not_told_again() {
    let (bed, world) = scene().await;
    let job = finished(bed, &world).await.name_any();
    dies(
        bed,
        &world,
        &Death::before(Point::first(Method::PATCH, "jobs")),
    )
    .await;
    let told = world.told("prod", "ApplyJobSucceeded").await;
    assert_eq!(told.state, "True/ApplySucceeded");
    assert!(
        !world
            .only_job("prod")
            .await
            .annotations()
            .contains_key("captf.io/bookkept")
    );
    let next = Operator::new(bed, &world).await;
    next.passes("prod", 6).await;
    is_settled(&world, &job).await;
    assert_eq!(world.told("prod", "ApplyJobSucceeded").await, told);
    assert_eq!(counted(&next), 0);
    assert!(
        next.events("JobSucceeded").await.is_empty(),
        "the condition did not change"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c18_the_pod_of_a_marked_job_is_not_read_again() {
    let (bed, world) = scene().await;
    let job = finished(bed, &world).await.name_any();
    dies(
        bed,
        &world,
        &Death::after(Point::first(Method::PATCH, "jobs")),
    )
    .await;
    let faults = Faults::none();
    let next = Operator::faulty(bed, &world, &faults).await;
    next.passes("prod", 6).await;
    is_settled(&world, &job).await;
    assert_eq!(faults.count(&Method::GET, "pods"), 0);
    assert_eq!(world.lease_names().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn c22_a_stuck_job_that_was_deleted_is_no_vanished_apply() {
    let (bed, world) = scene().await;
    let job = started(bed, &world).await;
    let secret = world.secret_of(&job).await.name_any();
    world
        .typed::<Secret>()
        .delete(&secret, &DeleteParams::default())
        .await
        .unwrap();
    let death = Death::before(Point::first(Method::PATCH, "status").since(Method::DELETE, "jobs"));
    let setup = Setup {
        faults: death.faults.clone(),
        ..Setup::at(now() + seconds(61))
    };
    let dying = Operator::set_up(bed, &world, setup).await;
    dying.pass("prod").await.unwrap_or_default();
    assert!(
        world.jobs_of("prod").await.is_empty(),
        "the Job was deleted"
    );
    assert_eq!(
        world.active_job("prod").await,
        None,
        "and the status let go of it before"
    );
    let next = Operator::new(bed, &world).await;
    wait::until("the next Job", wait::LIMIT, async || {
        next.pass("prod").await.map_err(|error| error.to_string())?;
        wait::so(!world.run_secrets().await.is_empty(), || {
            "no Job is armed".to_owned()
        })
    })
    .await;
    let retry = is_armed(&world).await;
    assert_eq!(
        retry.name_any(),
        job.name_any(),
        "the attempt falls back with the Job gone"
    );
    assert_ne!(retry.uid(), job.uid());
    assert!(
        !retry
            .annotations()
            .contains_key("captf.io/after-interrupted-apply")
    );
    let record = world.attempt_record("prod").await.unwrap();
    assert!(
        !record
            .annotations()
            .contains_key("captf.io/interrupted-apply")
    );
    assert!(
        !record
            .annotations()
            .contains_key("captf.io/may-have-applied")
    );
    ends(&next, &world, &retry).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c33_a_running_job_that_a_person_deleted_is_recorded_and_its_pods_are_waited_for() {
    let (bed, world) = scene().await;
    let job = started(bed, &world).await.name_any();
    let pod = jobs::run(&world.client, &world.namespace, &job)
        .await
        .name_any();
    world.delete_job(&job, PropagationPolicy::Orphan).await;
    let next = Operator::new(bed, &world).await;
    assert_eq!(next.passes("prod", 4).await, Some(duration(30)));
    let record = world.attempt_record("prod").await.unwrap();
    assert_eq!(record.annotations()["captf.io/interrupted-apply"], job);
    assert_eq!(record.annotations()["captf.io/may-have-applied"], "true");
    assert!(world.jobs_of("prod").await.is_empty());
    // Neither the retry of the same name nor any other name gets the lease while the pod runs, however old it is.
    next.clock.advance(duration(600));
    world.change_inputs("prod", 2).await;
    assert_eq!(next.passes("prod", 4).await, Some(duration(30)));
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "Unknown/WaitingForRunLease"
    );
    assert!(world.jobs_of("prod").await.is_empty());
    world.set_phase(&pod, "Failed").await;
    assert_eq!(next.passes("prod", 4).await, Some(duration(60)));
    let retry = is_armed(&world).await;
    assert_ne!(retry.name_any(), job);
    assert_eq!(retry.annotations()["captf.io/after-interrupted-apply"], job);
    ends(&next, &world, &retry).await;
    let record = world.attempt_record("prod").await.unwrap();
    assert!(
        !record
            .annotations()
            .contains_key("captf.io/interrupted-apply"),
        "its success settles it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn c34_a_manager_that_wakes_up_behind_another_one_takes_its_job_back() {
    let (bed, world) = scene().await;
    let start = now();
    let halt = Halt::default();
    let faults = halt.before(Point::first(Method::POST, "jobs"));
    let setup = Setup {
        faults: faults.clone(),
        limit: duration(120),
        ..Setup::at(start)
    };
    let sleeper = Operator::set_up(bed, &world, setup).await;
    let other = Operator::set_up(bed, &world, Setup::at(start + seconds(62))).await;
    let woken = halt
        .during(sleeper.passes("prod", 6), async {
            world.change_inputs("prod", 2).await;
            assert_eq!(other.passes("prod", 6).await, Some(duration(60)));
        })
        .await;
    assert_eq!(
        woken,
        Some(duration(5)),
        "the fence refuses, and no condition tells it"
    );
    assert_eq!(
        faults.count(&Method::DELETE, "jobs"),
        1,
        "its late create went through"
    );
    let job = is_armed(&world).await;
    let lease = world.lease(&world.run_lease("prod")).await.unwrap();
    assert_eq!(
        holder(&lease),
        job.name_any(),
        "the other one's lease is untouched"
    );
    assert_eq!(
        lease.annotations()["captf.io/lease-job-uid"],
        job.uid().unwrap()
    );
    ends(&other, &world, &job).await;
}
