//! The gauges of one object (metrics-alerts.md §2, §3): what they show at the end of a pass, and when their series
//! end.

use kube::api::DeleteParams;
use kube::core::ResourceExt as _;
use serde_json::json;

use crate::operator::hand::{applied, duration};
use crate::operator::harness::Operator;
use crate::testbed::{ControlPlane, World, jobs, wait};

const KIND: &str = "TerraformCluster";

async fn scene() -> (World, Operator) {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let operator = Operator::new(bed, &world).await;
    (world, operator)
}

/// The samples that name an object of this world, without their namespace.
fn series(world: &World, operator: &Operator) -> Vec<String> {
    let namespace = format!(r#"namespace="{}","#, world.namespace);
    let text = operator.metrics.encode().unwrap();
    text.lines()
        .filter(|line| line.contains(&namespace))
        .map(|line| line.replace(&namespace, ""))
        .collect()
}

/// The value of the one sample of this family whose labels contain `label`.
fn gauge(world: &World, operator: &Operator, family: &str, label: &str) -> Option<f64> {
    let found: Vec<String> = series(world, operator)
        .into_iter()
        .filter(|line| line.starts_with(&format!("{family}{{")) && line.contains(label))
        .collect();
    assert!(found.len() <= 1, "{found:?}");
    let sample = found.first()?;
    sample.rsplit(' ').next()?.parse().ok()
}

async fn apply(world: &World, operator: &Operator) {
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    operator.passes("prod", 6).await;
    let job = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    operator.passes("prod", 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_the_series_of_an_object_end_with_its_last_pass() {
    let (world, operator) = scene().await;
    apply(&world, &operator).await;
    assert!(series(&world, &operator).len() >= 6);
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    world.patch(KIND, "prod", retain).await;
    let api = world.api(KIND);
    api.delete("prod", &DeleteParams::default()).await.unwrap();
    operator.pass("prod").await.unwrap();
    assert!(api.get_opt("prod").await.unwrap().is_none(), "it is gone");
    assert_eq!(series(&world, &operator), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn b5_the_series_of_an_object_that_went_without_a_pass_end_too() {
    let (world, operator) = scene().await;
    apply(&world, &operator).await;
    assert!(series(&world, &operator).len() >= 6);
    let by_force = json!({"metadata": {"finalizers": null}});
    world.patch(KIND, "prod", by_force).await;
    let api = world.api(KIND);
    api.delete("prod", &DeleteParams::default()).await.unwrap();
    operator.pass("prod").await.unwrap();
    assert_eq!(series(&world, &operator), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_has_just_started_shows_what_the_one_before_showed() {
    let (world, first) = scene().await;
    apply(&world, &first).await;
    let of_first = series(&world, &first);
    let second = Operator::new(ControlPlane::shared().await, &world).await;
    second.passes("prod", 3).await;
    assert_eq!(series(&world, &second), of_first);
    let families = [
        ("captf_ready", ""),
        ("captf_drift_detected", ""),
        ("captf_inputs_bytes", ""),
        ("captf_last_success_timestamp_seconds", r#"op="apply""#),
    ];
    for (family, label) in families {
        assert!(
            gauge(&world, &second, family, label).is_some(),
            "{family} is not in {of_first:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_that_was_not_detected_is_zero_and_detected_drift_is_one() {
    let (world, operator) = scene().await;
    apply(&world, &operator).await;
    let shown = || gauge(&world, &operator, "captf_drift_detected", "");
    assert_eq!(shown(), Some(0.0));
    let mut conditions = world.get(KIND, "prod").await.data["status"]["conditions"].clone();
    let detected = json!({
        "type": "DriftDetected", "status": "True", "reason": "DriftDetected", "message": "1 to change",
        "lastTransitionTime": "2026-10-01T12:00:00Z",
    });
    let all = conditions.as_array_mut().unwrap();
    all.retain(|condition| condition["type"] != "DriftDetected");
    all.push(detected);
    let status = json!({"conditions": conditions});
    world.patch_status(KIND, "prod", status).await;
    operator.pass("prod").await.unwrap();
    assert_eq!(shown(), Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_an_owner_is_shown_too() {
    let (world, operator) = scene().await;
    world.cluster("prod").not_owned().create().await;
    operator.pass("prod").await.unwrap();
    assert_eq!(gauge(&world, &operator, "captf_ready", ""), Some(-1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_object_shows_the_size_of_its_recorded_inputs() {
    let (world, first) = scene().await;
    apply(&world, &first).await;
    let size = gauge(&world, &first, "captf_inputs_bytes", "");
    assert!(size > Some(0.0), "{size:?}");
    let pause = json!({"spec": {"paused": true}});
    world.patch("Cluster", "prod", pause).await;
    first.passes("prod", 3).await;
    let second = Operator::new(ControlPlane::shared().await, &world).await;
    second.pass("prod").await.unwrap();
    assert_eq!(gauge(&world, &second, "captf_inputs_bytes", ""), size);
}

// inputs.md I-28
#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_inputs_is_shown_also_when_they_are_too_large() {
    let (world, operator) = scene().await;
    let text = "x".repeat(1_000_001);
    world
        .cluster("prod")
        .spec(json!({"variables": {"text": text}}))
        .create()
        .await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(600)));
    let told = world.told("prod", "ApplyJobSucceeded").await;
    assert_eq!(told.state, "False/InputsTooLarge");
    let size = gauge(&world, &operator, "captf_inputs_bytes", "").unwrap();
    assert!(size > 1_000_001.0, "{size}");
    let named = format!("{size} bytes");
    assert!(told.message.contains(&named), "{}", told.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_disappears_wakes_the_pass_that_ends_its_series() {
    let (world, mut operator) = scene().await;
    apply(&world, &operator).await;
    operator.run();
    let by_force = json!({"metadata": {"finalizers": null}});
    let api = world.api(KIND);
    api.delete("prod", &DeleteParams::default()).await.unwrap();
    world.patch(KIND, "prod", by_force).await;
    wait::until("the series to end", wait::LIMIT, async || {
        let left = series(&world, &operator);
        wait::so(left.is_empty(), || format!("{left:?}"))
    })
    .await;
}
