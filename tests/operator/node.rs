//! Applies by real Terraform in real pods, judged by Cluster API's own controllers.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::harness::Operator;
use crate::testbed::wait::{LIMIT, so, until};
use crate::testbed::{Node, World};

/// A pod, an image pull and Terraform on a busy machine.
const APPLY: Duration = Duration::from_secs(180);

async fn conditions(world: &World, kind: &str) -> Value {
    world.get(kind, "prod").await.data["status"]["conditions"].clone()
}

/// Status, reason and message of a condition; empty while it is not there.
async fn condition(world: &World, kind: &str, type_: &str) -> (String, String, String) {
    let all = conditions(world, kind).await;
    let found = all
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == type_);
    let text = |key: &str| {
        found
            .and_then(|found| found[key].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"), text("message"))
}

async fn list<K>(world: &World, selector: &str) -> Vec<K>
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), &world.namespace);
    api.list(&ListParams::default().labels(selector))
        .await
        .unwrap()
        .items
}

async fn events(world: &World) -> Vec<Event> {
    list(world, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_makes_infrastructure_that_cluster_api_calls_ready() {
    let Some(node) = Node::shared().await else {
        return;
    };
    let images = node.images().await;
    let world = World::new(node).await;
    let mut operator = Operator::on_node(node, &world, &images.manager).await;
    operator.run();
    world.cluster("prod").image(&images.cluster).create().await;
    until(
        "Cluster API to call the infrastructure ready",
        APPLY,
        async || {
            let ready = condition(&world, "Cluster", "InfrastructureReady").await;
            let why = conditions(&world, "TerraformCluster").await;
            so(ready.0 == "True", || format!("{ready:?}; {why}"))
        },
    )
    .await;
    until("Cluster API to copy the endpoint", LIMIT, async || {
        let cluster = world.get("Cluster", "prod").await;
        let endpoint = &cluster.data["spec"]["controlPlaneEndpoint"];
        let copied = *endpoint == json!({"host": "noop-prod.invalid", "port": 6443});
        so(copied, || endpoint.to_string())
    })
    .await;
    let object = world.get("TerraformCluster", "prod").await;
    assert!(
        object.data["status"]["observedStateSerial"]
            .as_i64()
            .unwrap()
            >= 1
    );
    assert_eq!(object.data["status"]["initialization"]["provisioned"], true);
    assert!(
        list::<Lease>(&world, "captf.io/lease").await.is_empty(),
        "no lease of ours is left"
    );
    let jobs: Vec<Job> = list(&world, "captf.io/managed=true").await;
    assert_eq!(jobs.len(), 1, "one Job did it");
    let digest = object.data["status"]["source"]["imageDigest"]
        .as_str()
        .unwrap();
    assert!(
        digest.contains("@sha256:"),
        "the digest that ran is pinned: {digest}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_fails_in_plan_is_told_with_its_diagnostics_and_tried_again_after_the_backoff()
 {
    let Some(node) = Node::shared().await else {
        return;
    };
    let images = node.images().await;
    let world = World::new(node).await;
    let mut operator = Operator::on_node(node, &world, &images.manager).await;
    operator.run();
    let spec = json!({"variables": {"knob": {"fail": "plan"}}});
    world
        .cluster("prod")
        .image(&images.cluster)
        .spec(spec)
        .create()
        .await;
    until("the failure to be told", APPLY, async || {
        let (status, reason, message) =
            condition(&world, "TerraformCluster", "ApplyJobSucceeded").await;
        so(status == "False" && reason == "ApplyFailed", || {
            format!("{status}/{reason}: {message}")
        })
    })
    .await;
    let (_, _, message) = condition(&world, "TerraformCluster", "ApplyJobSucceeded").await;
    assert!(
        message.starts_with("Job captf-c-prod-apply-a1-"),
        "{message}"
    );
    assert!(
        message.contains("Resource precondition failed"),
        "{message}"
    );
    until("the event of the failure", APPLY, async || {
        let events = events(&world).await;
        let failed = events
            .iter()
            .find(|event| event.reason.as_deref() == Some("JobFailed"));
        let note = failed
            .and_then(|event| event.note.clone())
            .unwrap_or_default();
        so(
            note.contains("Resource precondition failed")
                && note.contains("next attempt not before"),
            || format!("note {note:?}"),
        )
    })
    .await;
    operator.clock.advance(Duration::from_secs(61));
    world
        .patch(
            "TerraformCluster",
            "prod",
            json!({"metadata": {"annotations": {"poke": "1"}}}),
        )
        .await;
    until("attempt 2", APPLY, async || {
        let jobs: Vec<Job> = list(&world, "captf.infrastructure.cluster.x-k8s.io/attempt=2").await;
        so(jobs.len() == 1, || {
            format!("{} Jobs of attempt 2", jobs.len())
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_fails_in_apply_names_the_resource_and_no_secret_value_appears_anywhere() {
    const PLANTED: &str = "planted-4f6ad9c1b2e38770";
    let Some(node) = Node::shared().await else {
        return;
    };
    let images = node.images().await;
    let world = World::new(node).await;
    let secrets: Api<Secret> =
        Api::namespaced(world.client.clone(), crate::testbed::MANAGER_NAMESPACE);
    let patch = json!({"stringData": {"NOOP_TOKEN": PLANTED}});
    let patch = kube::api::Patch::Merge(&patch);
    secrets
        .patch(&world.identity, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    let mut operator = Operator::on_node(node, &world, &images.manager).await;
    operator.run();
    let spec = json!({"variables": {"knob": {"fail": "apply", "leak": true}}});
    world
        .cluster("prod")
        .image(&images.cluster)
        .spec(spec)
        .create()
        .await;
    until("the failure to be told", APPLY, async || {
        let (status, reason, message) =
            condition(&world, "TerraformCluster", "ApplyJobSucceeded").await;
        so(status == "False" && reason == "ApplyFailed", || {
            format!("{status}/{reason}: {message}")
        })
    })
    .await;
    let object = world.get("TerraformCluster", "prod").await;
    let told = object.data["status"]["lastRun"]["error"].to_string();
    assert!(told.contains("terraform_data.fail_apply"), "{told}");
    let everything = format!(
        "{}{}{}",
        serde_json::to_string(&object).unwrap(),
        serde_json::to_string(&events(&world).await).unwrap(),
        serde_json::to_string(&list::<Job>(&world, "").await).unwrap(),
    );
    assert!(!everything.contains(PLANTED));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_does_not_exist_is_named_and_the_job_left_to_its_deadline() {
    let Some(node) = Node::shared().await else {
        return;
    };
    let images = node.images().await;
    let world = World::new(node).await;
    let operator = {
        let mut operator = Operator::on_node(node, &world, &images.manager).await;
        operator.run();
        operator
    };
    let missing = format!("{}-missing:v0", images.cluster.rsplit_once(':').unwrap().0);
    world.cluster("prod").image(&missing).create().await;
    until("the kubelet to report the failed pull", APPLY, async || {
        let jobs: Vec<Job> = list(&world, "captf.io/managed=true").await;
        let seen = jobs.iter().find_map(|job| {
            operator
                .context
                .caches
                .last_seen_pod(job.metadata.uid.as_deref()?)
        });
        let waiting = seen
            .as_ref()
            .and_then(|pod| pod.source.waiting())
            .map(|(reason, _)| reason.to_owned());
        so(
            waiting.as_deref() == Some("ImagePullBackOff")
                || waiting.as_deref() == Some("ErrImagePull"),
            || format!("source waits on {waiting:?}"),
        )
    })
    .await;
    operator.clock.advance(Duration::from_secs(125));
    world
        .patch(
            "TerraformCluster",
            "prod",
            json!({"metadata": {"annotations": {"poke": "1"}}}),
        )
        .await;
    until("the missing image to be told", APPLY, async || {
        let (status, reason, message) =
            condition(&world, "TerraformCluster", "ApplyJobSucceeded").await;
        so(
            reason == "ImagePullFailed" && message.contains(&missing),
            || format!("{status}/{reason}: {message}"),
        )
    })
    .await;
}
