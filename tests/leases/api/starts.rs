//! What becomes of the leases when the create of the Job fails, and when the Job ends.

use std::sync::{Arc, Mutex, OnceLock};

use captf::client::Clock;
use captf::operator::cluster::PassError;
use http::{Method, StatusCode};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::DeleteParams;
use kube::core::ResourceExt as _;
use serde_json::json;

use super::manager::{Manager, OURS, taken};
use super::{prod, scene};
use crate::operator::cut::Point;
use crate::operator::hand::{Held, OTHER, duration, invalid, noon, now, seconds};
use crate::operator::harness::{Operator, Setup};
use crate::operator::sight::acquired_at;
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::{World, jobs};

/// Passes until one fails.
async fn failure(operator: &Operator, name: &str) -> PassError {
    for _ in 0..6 {
        if let Err(error) = operator.pass(name).await {
            return error;
        }
    }
    panic!("no pass over {name} fails");
}

/// Both leases are held by the same Job, whose name this returns.
async fn held_by(world: &World, name: &str) -> String {
    let run = world
        .holder_of(&world.run_lease(name))
        .await
        .expect("the run lease stays");
    let cluster = world.holder_of(&world.cluster_lease(name)).await;
    assert_eq!(cluster.as_ref(), Some(&run), "the cluster lease stays");
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn b13_a_refused_create_gives_both_leases_back() {
    let (bed, world) = prod().await;
    world.limit_jobs(0).await;
    let operator = Operator::new(bed, &world).await;
    let error = failure(&operator, "prod").await;
    assert!(error.to_string().contains("exceeded quota"), "{error}");
    assert!(world.jobs_of("prod").await.is_empty());
    assert!(
        world.attempt_record("prod").await.is_none(),
        "no apply ran, so none is recorded"
    );
    assert_eq!(world.lease_names().await, Vec::<String>::new());

    let faults = Faults::none();
    let manager = Manager::at(bed, &world, now(), &faults).await;
    taken(manager.acquire(OURS, now()).await);
    assert_eq!(
        faults.requests().len(),
        1,
        "any name takes it with its first request"
    );
    let run = world.run_lease("prod");
    world
        .typed::<Lease>()
        .delete(&run, &DeleteParams::default())
        .await
        .unwrap();

    world
        .typed::<ResourceQuota>()
        .delete("jobs", &DeleteParams::default())
        .await
        .unwrap();
    crate::testbed::wait::until("the start", crate::testbed::wait::LIMIT, async || {
        operator
            .pass("prod")
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    let job = world.only_job("prod").await;
    assert_eq!(held_by(&world, "prod").await, job.name_any());
}

#[tokio::test(flavor = "multi_thread")]
async fn b14_a_refused_create_of_a_job_that_exists_keeps_the_leases() {
    let (bed, world) = prod().await;
    world.limit_jobs(1).await;
    // The first of the two creates what an earlier pass created and a lagging cache did not show; the quota answers
    // the second one before the API server looks whether the name exists.
    let faults = Faults::first(Method::POST, "jobs", || Fault::Twice);
    let operator = Operator::faulty(bed, &world, &faults).await;
    let error = failure(&operator, "prod").await;
    assert!(error.to_string().contains("exceeded quota"), "{error}");
    let job = world.only_job("prod").await;
    assert_eq!(held_by(&world, "prod").await, job.name_any());
    assert!(world.run_secrets().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_a_job_that_exists_and_cannot_be_read_keeps_the_leases() {
    let (bed, world) = prod().await;
    let sent = Mutex::new(false);
    let faults = Faults::new(move |seen| {
        let mut sent = sent.lock().unwrap();
        if seen.touches(&Method::POST, "jobs") {
            *sent = true;
            return Fault::Twice;
        }
        if *sent && seen.touches(&Method::GET, "jobs") {
            return Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        Fault::Pass
    });
    let operator = Operator::faulty(bed, &world, &faults).await;
    let error = failure(&operator, "prod").await;
    assert!(error.to_string().contains("already exists"), "{error}");
    let job = world.only_job("prod").await;
    assert_eq!(held_by(&world, "prod").await, job.name_any());
    assert!(
        world.run_secrets().await.is_empty(),
        "a Job that nobody could look at is not armed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b16_a_create_without_a_clear_answer_keeps_the_leases() {
    let (bed, world) = scene().await;
    let answers: [(&str, usize, fn() -> Fault); 5] = [
        ("lost", 1, || Fault::LostAnswer),
        ("not-sent", 0, || Fault::Before),
        ("internal", 0, || {
            Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        }),
        ("timeout", 0, || {
            Fault::Status(StatusCode::GATEWAY_TIMEOUT, "Timeout")
        }),
        ("throttled", 0, || {
            Fault::Status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")
        }),
    ];
    for (name, created, answer) in answers {
        world.cluster(name).create().await;
        let faults = Faults::first(Method::POST, "jobs", answer);
        let operator = Operator::faulty(bed, &world, &faults).await;
        failure(&operator, name).await;
        assert_eq!(world.jobs_of(name).await.len(), created, "{name}");
        let intended = held_by(&world, name).await;
        assert_eq!(
            faults.count(&Method::POST, "jobs"),
            1,
            "{name}: not tried again in the same pass"
        );
        // The next pass computes the same name: it finds the Job, or creates it.
        assert_eq!(operator.passes(name, 3).await.is_some(), true);
        assert_eq!(world.only_job(name).await.name_any(), intended, "{name}");
        assert_eq!(held_by(&world, name).await, intended, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_the_pass_that_counts_a_job_deletes_its_leases_once() {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    let faults = Faults::none();
    let setup = Setup {
        faults: faults.clone(),
        ..Setup::at(now())
    };
    let operator = Operator::set_up(bed, &world, setup).await;
    operator.passes("prod", 6).await;
    let first = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &first, invalid()).await;
    operator.pass("prod").await.unwrap();
    assert_eq!(
        deletes(&faults),
        [world.run_lease("prod"), world.cluster_lease("prod")]
    );
    assert_eq!(world.lease_names().await, Vec::<String>::new());

    operator.clock.advance(duration(120));
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    let second = held_by(&world, "prod").await;
    assert_ne!(second, first);
    for _ in 0..3 {
        operator.pass("prod").await.unwrap();
    }
    assert_eq!(deletes(&faults).len(), 2, "the retry keeps what it took");
    assert_eq!(held_by(&world, "prod").await, second);
}

/// Names of the leases whose delete was sent.
fn deletes(faults: &Faults) -> Vec<String> {
    let sent = faults.requests();
    let sent = sent
        .iter()
        .filter(|seen| seen.touches(&Method::DELETE, "leases"));
    sent.filter_map(|seen| seen.path.rsplit('/').next())
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn b37_the_backstop_is_the_deadline_and_fifteen_minutes() {
    let (bed, world) = scene().await;
    world
        .cluster("prod")
        .spec(json!({"jobs": {"activeDeadlineSeconds": 1200}}))
        .create()
        .await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    for name in [world.run_lease("prod"), world.cluster_lease("prod")] {
        let spec = world.lease(&name).await.unwrap().spec.unwrap();
        assert_eq!(spec.lease_duration_seconds, Some(2100), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b43_a_slow_start_takes_its_leases_again_and_creates_the_job() {
    for (slow, refreshed) in [(10, false), (45, true)] {
        let (bed, world) = prod().await;
        let clock = Arc::new(OnceLock::<Clock>::new());
        let (shared, block_move) = (
            Arc::clone(&clock),
            Point::first(Method::PATCH, "terraformclusters")
                .since(Method::POST, "leases")
                .finder(),
        );
        let faults = Faults::new(move |seen| {
            if !block_move(seen) {
                return Fault::Pass;
            }
            let clock = shared.get().unwrap().clone();
            Fault::Then(Box::pin(async move { clock.advance(duration(slow)) }))
        });
        let operator = Operator::set_up(
            bed,
            &world,
            Setup {
                faults,
                ..Setup::at(noon())
            },
        )
        .await;
        clock.set(operator.clock.clone()).unwrap();
        assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
        let job = world.only_job("prod").await;
        assert_eq!(held_by(&world, "prod").await, job.name_any());
        for name in [world.run_lease("prod"), world.cluster_lease("prod")] {
            let at = acquired_at(&world.lease(&name).await.unwrap());
            assert_eq!(
                at >= noon() + seconds(45),
                refreshed,
                "{name} after {slow} s: {at}"
            );
            assert!(
                at < noon() + seconds(46),
                "{name}: the fence leaves the time as it is: {at}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b23_without_the_gate_a_cluster_takes_its_run_lease_only_and_leaves_the_other_alone() {
    let (bed, world) = prod().await;
    world.job_by_hand(OTHER).await;
    let foreign = world
        .hold(&Held::cluster(&world, "prod", OTHER, now()))
        .await;
    let operator = Operator::without_gate(bed, &world).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    let job = world.only_job("prod").await;
    world.secret_of(&job).await;
    assert_eq!(
        world.holder_of(&world.run_lease("prod")).await,
        Some(job.name_any())
    );
    jobs::finish(&world.client, &world.namespace, &job.name_any(), invalid()).await;
    operator.pass("prod").await.unwrap();
    let left = world.lease(&world.cluster_lease("prod")).await.unwrap();
    assert_eq!(
        left.resource_version(),
        foreign.resource_version(),
        "not taken, not deleted"
    );
    assert_eq!(world.lease_names().await, [left.name_any()]);
}
