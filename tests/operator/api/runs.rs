//! The life of apply Jobs (jobs.md §16): a test is named after the behaviour that it holds.

use http::{Method, StatusCode};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use crate::operator::hand::{applied, duration, invalid, now};
use crate::operator::harness::{Operator, Setup};
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::jobs::Ending;
use crate::testbed::{ControlPlane, World, jobs, wait};

const ATTEMPT: &str = "captf.infrastructure.cluster.x-k8s.io/attempt";

async fn scene() -> (&'static ControlPlane, World) {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    (bed, world)
}

async fn last_run(world: &World) -> serde_json::Value {
    world.get("TerraformCluster", "prod").await.data["status"]["lastRun"].clone()
}

/// The newest attempt.
async fn newest(world: &World) -> Job {
    let attempt = |job: &Job| job.labels()[ATTEMPT].parse::<i32>().unwrap();
    world
        .jobs_of("prod")
        .await
        .into_iter()
        .max_by_key(attempt)
        .expect("a Job")
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_a_create_that_meets_its_own_job_adopts_it() {
    let (bed, world) = scene().await;
    let faults = Faults::first(Method::POST, "jobs", || Fault::Twice);
    let operator = Operator::faulty(bed, &world, &faults).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    let job = world.only_job("prod").await;
    assert_eq!(job.labels()[ATTEMPT], "1");
    world.secret_of(&job).await;
    assert_eq!(world.active_job("prod").await, Some(job.name_any()));
    assert_eq!(operator.events("JobCreated").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_conflict_on_the_finalizer_is_an_error_and_starts_nothing() {
    let (bed, world) = scene().await;
    let rival = world.clone();
    let faults = Faults::first(Method::PATCH, "terraformclusters", move || {
        let rival = rival.clone();
        Fault::First(Box::pin(async move {
            let noted = json!({"metadata": {"annotations": {"example.com/note": "1"}}});
            rival.patch("TerraformCluster", "prod", noted).await;
        }))
    });
    let operator = Operator::faulty(bed, &world, &faults).await;
    let error = operator.pass("prod").await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(world.jobs_of("prod").await.is_empty());
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    assert_eq!(world.only_job("prod").await.labels()[ATTEMPT], "1");
    assert!(last_run(&world).await.is_null());
    assert!(operator.events("JobFailed").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn j4_an_interrupted_run_is_no_failure_and_one_past_its_deadline_is() {
    let (bed, world) = scene().await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    let interrupted = json!({
        "version": 1, "op": "apply",
        "steps": [{"name": "init", "exit": 0, "seconds": 1.0}],
        "error": {"kind": "interrupted", "step": "apply", "tail": "stopped"},
    });
    let first = newest(&world).await.name_any();
    jobs::finish(
        &world.client,
        &world.namespace,
        &first,
        Ending::failure(&interrupted),
    )
    .await;
    assert_eq!(
        operator.passes("prod", 3).await,
        Some(duration(60)),
        "the next attempt starts at once"
    );
    let second = newest(&world).await;
    assert_eq!(second.labels()[ATTEMPT], "2");
    let first = world.typed::<Job>().get(&first).await.unwrap();
    assert_eq!(first.annotations()["captf.io/interrupted"], "true");
    assert_eq!(operator.events("JobInterrupted").await.len(), 1);

    let late = Ending {
        message: Some(interrupted.to_string()),
        ..Ending::deadline()
    };
    jobs::finish(&world.client, &world.namespace, &second.name_any(), late).await;
    let requeue = operator.pass("prod").await.unwrap().expect("it comes back");
    assert!(
        requeue > duration(30) && requeue <= duration(60),
        "backoff of the first failure: {requeue:?}"
    );
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "False/JobDeadlineExceeded"
    );
    let second = world.typed::<Job>().get(&second.name_any()).await.unwrap();
    assert!(!second.annotations().contains_key("captf.io/interrupted"));
    assert_eq!(world.jobs_of("prod").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_a_job_whose_result_could_not_be_written_is_read_again_and_counted_once() {
    let (bed, world) = scene().await;
    world.state_by_hand("prod").await;
    Operator::new(bed, &world).await.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    let faults = Faults::first(Method::PATCH, "status", || {
        Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
    });
    let operator = Operator::faulty(bed, &world, &faults).await;
    operator.pass("prod").await.unwrap_err();
    assert!(
        !world
            .only_job("prod")
            .await
            .annotations()
            .contains_key("captf.io/bookkept")
    );
    assert!(last_run(&world).await.is_null());
    operator.passes("prod", 6).await;
    assert_eq!(
        world.only_job("prod").await.annotations()["captf.io/bookkept"],
        "true"
    );
    assert_eq!(last_run(&world).await["job"], job);
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "True/ApplySucceeded"
    );
    assert_eq!(operator.counted("captf_jobs_total", &[]), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn j11_a_namesake_begins_anew_and_waits_for_the_job_of_its_name() {
    let (bed, world) = scene().await;
    let operator = Operator::new(bed, &world).await;
    operator.passes("prod", 6).await;
    let old = world.only_job("prod").await;
    world.keep::<Job>(&old.name_any()).await;
    let (kind, api) = ("TerraformCluster", world.api("TerraformCluster"));
    let first = world.get(kind, "prod").await;
    api.patch(
        "prod",
        &PatchParams::default(),
        &Patch::Merge(&json!({"metadata": {"finalizers": null}})),
    )
    .await
    .unwrap();
    api.delete("prod", &DeleteParams::default()).await.unwrap();
    wait::until("the old Job to be collected", wait::LIMIT, async || {
        let found = world
            .typed::<Job>()
            .get(&old.name_any())
            .await
            .map_err(|error| error.to_string())?;
        wait::so(found.metadata.deletion_timestamp.is_some(), || {
            format!("{:?}", found.metadata)
        })
    })
    .await;
    world
        .create(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": kind,
            "metadata": {
                "name": "prod", "namespace": world.namespace,
                "labels": first.labels(), "ownerReferences": first.owner_references(),
            },
            "spec": first.data["spec"],
        }))
        .await;
    assert_eq!(
        operator.passes("prod", 6).await,
        Some(duration(5)),
        "a Job of this name exists and is another object's"
    );
    assert_eq!(world.only_job("prod").await.uid(), old.uid());

    world.let_go::<Job>(&old.name_any()).await;
    // Somebody put the old Job's Secret back.
    wait::until("the old Job to be gone", wait::LIMIT, async || {
        wait::so(world.jobs_of("prod").await.is_empty(), || {
            "it is there".to_owned()
        })
    })
    .await;
    let mut leftover = Secret::default();
    leftover.metadata.name = Some(format!("captf-run-{}", old.name_any()));
    wait::until("a leftover Secret", wait::LIMIT, async || {
        let made = world
            .typed::<Secret>()
            .create(&kube::api::PostParams::default(), &leftover)
            .await;
        made.map(|_| ()).map_err(|error| error.to_string())
    })
    .await;
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
    let job = world.only_job("prod").await;
    assert_eq!(
        job.name_any(),
        old.name_any(),
        "the same inputs, and attempt 1 again"
    );
    assert_ne!(job.uid(), old.uid());
    world.secret_of(&job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j20_credentials_that_fail_for_ever_do_not_stop_bookkeeping() {
    let (bed, world) = scene().await;
    Operator::new(bed, &world).await.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, invalid()).await;
    let faults = Faults::new(|seen| {
        if seen.touches(&Method::GET, "terraformclusteridentities") {
            Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        } else {
            Fault::Pass
        }
    });
    let operator = Operator::faulty(bed, &world, &faults).await;
    let error = operator.pass("prod").await.unwrap_err();
    assert!(
        error.to_string().contains("answered by the fault layer"),
        "{error}"
    );
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "False/ApplyFailed"
    );
    assert_eq!(
        world.only_job("prod").await.annotations()["captf.io/bookkept"],
        "true"
    );
    assert_eq!(world.lease_names().await, Vec::<String>::new());
    operator.pass("prod").await.unwrap_err();
    assert_eq!(operator.counted("captf_jobs_total", &[]), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn j27_an_idle_object_costs_no_read_of_its_run_lease_or_of_a_job() {
    let (bed, world) = scene().await;
    world.state_by_hand("prod").await;
    let first = Operator::set_up(bed, &world, Setup::at(now())).await;
    first.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    first.passes("prod", 6).await;
    let faults = Faults::none();
    let operator = Operator::faulty(bed, &world, &faults).await;
    operator.passes("prod", 3).await;
    assert_eq!(world.jobs_of("prod").await.len(), 1, "the object is idle");
    let sent = faults.requests();
    let read: Vec<&str> = sent
        .iter()
        .filter(|seen| seen.path.contains("/leases/captf-run-") || seen.path.contains("/jobs"))
        .map(|seen| seen.path.as_str())
        .collect();
    assert_eq!(read, Vec::<&str>::new());
    assert!(
        sent.iter().all(|seen| seen.method == Method::GET),
        "and writes nothing: {sent:?}"
    );
}
