//! What is logged whatever the verbosity (manager.md §7): what cannot be undone.

use std::sync::{Arc, Mutex};

use http::Method;
use kube::api::DeleteParams;
use kube::core::ResourceExt as _;
use serde_json::json;
use tracing::Level;
use tracing::instrument::WithSubscriber as _;

use crate::operator::hand::applied;
use crate::operator::harness::Operator;
use crate::testbed::fault::{Fault, Faults};
use crate::testbed::{ControlPlane, World, jobs};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the passes of `act` log at this level and above.
async fn logged<T>(level: Level, act: impl Future<Output = T>) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    act.with_subscriber(subscriber).await;
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

async fn scene() -> (World, Operator) {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    let operator = Operator::new(bed, &world).await;
    (world, operator)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_that_a_pass_creates_is_logged() {
    let (world, operator) = scene().await;
    let log = logged(Level::INFO, Box::pin(operator.passes("prod", 6))).await;
    let job = world.only_job("prod").await.name_any();
    let named = format!("created a Job Job=\"{}/{job}\"", world.namespace);
    assert_eq!(log.matches(&named).count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_finalizer_is_logged() {
    let (world, operator) = scene().await;
    operator.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    operator.passes("prod", 6).await;
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    world.patch("TerraformCluster", "prod", retain).await;
    let api = world.api("TerraformCluster");
    api.delete("prod", &DeleteParams::default()).await.unwrap();
    let log = logged(Level::INFO, Box::pin(operator.pass("prod"))).await;
    assert_eq!(log.matches("removed the finalizer").count(), 1, "{log}");
}

/// Of an operator whose first Job meets a pause behind its create.
async fn logged_of_a_refused_job(level: Level) -> String {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    let rival = world.clone();
    let faults = Faults::first(Method::POST, "jobs", move || {
        let rival = rival.clone();
        Fault::Then(Box::pin(async move {
            let pause = json!({"spec": {"paused": true}});
            rival.patch("Cluster", "prod", pause).await;
        }))
    });
    let operator = Operator::faulty(bed, &world, &faults).await;
    logged(level, Box::pin(operator.refused("prod"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_the_fence_takes_back_is_logged_with_the_reason() {
    let log = logged_of_a_refused_job(Level::INFO).await;
    let line = log
        .lines()
        .find(|line| line.contains("deleted the Job before any pod of it could start"));
    assert!(
        line.is_some_and(|line| line.contains("the object or its Cluster is paused")),
        "{log}"
    );
    assert!(!log.contains("the start is deferred"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_deferred_is_logged_in_the_normal_flow() {
    let log = logged_of_a_refused_job(Level::DEBUG).await;
    assert_eq!(log.matches("the start is deferred").count(), 1, "{log}");
}
