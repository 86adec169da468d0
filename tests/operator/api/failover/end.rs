//! Crash windows after a Job's end: nothing is lost, and nothing is counted twice.

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::core::ResourceExt as _;

use super::{counted, dies, finished, is_settled, last_run, scene};
use crate::operator::cut::{Death, Point};
use crate::operator::hand::{applied, duration};
use crate::operator::harness::Operator;
use crate::testbed::fault::Faults;
use crate::testbed::{jobs, wait};

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
