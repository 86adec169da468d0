//! Crash windows around the start of a Job, and while it runs.

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, PropagationPolicy};
use kube::core::ResourceExt as _;

use super::{dies, ends, is_armed, per_run_secret, scene, started};
use crate::operator::cut::{Death, Halt, Point};
use crate::operator::hand::{duration, now, seconds};
use crate::operator::harness::{Operator, Setup};
use crate::operator::sight::holder;
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::{jobs, wait};

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
        let lagging = Operator::set_up(bed, &world, Setup::blind_to(&["jobs"])).await;
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
    assert!(world.blocks_move("prod").await);
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
async fn c10_a_manager_that_could_not_arm_its_job_repairs_it_by_itself() {
    let (bed, world) = scene().await;
    let secret = per_run_secret().finder();
    let faults = Faults::new(move |seen| {
        if secret(seen) {
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
            ..Setup::at(now())
        },
    )
    .await;
    wait::until("the start to fail", wait::LIMIT, async || {
        match operator.pass("prod").await {
            Err(_) => Ok(()),
            Ok(requeue) => Err(format!("requeue {requeue:?}")),
        }
    })
    .await;
    let again = operator.pass("prod").await.unwrap().expect("it comes back");
    assert!(again < duration(60), "{again:?}");
    operator.clock.advance(again);
    assert_eq!(operator.passes("prod", 3).await, Some(duration(60)));
    let job = is_armed(&world).await;
    ends(&operator, &world, &job).await;
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
    assert_eq!(
        next.events("JobCreated").await.len(),
        1,
        "told by the pass that records it"
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
    let pod = jobs::run(&world.client, &world.namespace, &job).await;
    world.keep::<Pod>(&pod.name_any()).await;
    let pod = pod.name_any();
    world.delete_job(&job, PropagationPolicy::Background).await;
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
    halt.during(sleeper.refused("prod"), async {
        world.change_inputs("prod", 2).await;
        assert_eq!(other.passes("prod", 6).await, Some(duration(60)));
    })
    .await;
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
