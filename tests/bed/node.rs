//! Level 2: the node, its registry, its images, Cluster API's controllers, and what a killed bed leaves.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node as KubernetesNode, Pod};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::life;
use crate::testbed::bed::ClusterApi;
use crate::testbed::wait::{LIMIT, so, until};
use crate::testbed::{Bed, Node, Options, World, sweep};

#[tokio::test]
async fn a_pod_runs_from_the_beds_registry_under_its_digest() {
    let Some(node) = Node::shared().await else {
        return;
    };
    let world = World::bare(node).await;
    let pod = run(
        &world,
        &node.images().await.cluster,
        json!(["/captf/runtime", "version"]),
    )
    .await;
    let status = &pod
        .status
        .as_ref()
        .unwrap()
        .container_statuses
        .as_ref()
        .unwrap()[0];
    assert!(
        status.image_id.contains("/captf/noop-cluster@sha256:"),
        "{}",
        status.image_id
    );
    let log = node
        .kubectl()
        .args(["logs", "--namespace", &world.namespace, POD])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&log.stdout).contains("v1."),
        "{log:?}"
    );
}

#[tokio::test]
async fn the_managers_image_answers_as_the_runner() {
    let Some(node) = Node::shared().await else {
        return;
    };
    let world = World::bare(node).await;
    run(
        &world,
        &node.images().await.manager,
        json!(["/runner", "version"]),
    )
    .await;
}

#[tokio::test]
async fn a_service_account_reaches_the_api_server_through_its_service() {
    let Some(node) = Node::shared().await else {
        return;
    };
    let world = World::bare(node).await;
    let command = "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && test -s /var/run/secrets/kubernetes.io/serviceaccount/token";
    run(
        &world,
        &node.images().await.cluster,
        json!(["/bin/sh", "-c", command]),
    )
    .await;
}

#[tokio::test]
async fn cluster_api_adopts_the_infrastructure_of_a_cluster() {
    let Some(node) = Node::shared().await else {
        return;
    };
    let world = World::new(node).await;
    world.cluster("prod").create().await;
    until(
        "Cluster API to own the TerraformCluster",
        LIMIT,
        async || {
            let object = world.get("TerraformCluster", "prod").await;
            let owned = object
                .metadata
                .owner_references
                .iter()
                .flatten()
                .any(|owner| owner.kind == "Cluster");
            let labels = object.metadata.labels.unwrap_or_default();
            let named = labels
                .get("cluster.x-k8s.io/cluster-name")
                .is_some_and(|name| name == "prod");
            so(owned && named, || {
                format!("owned: {owned}, labels: {labels:?}")
            })
        },
    )
    .await;
}

#[tokio::test]
async fn a_killed_node_leaves_nothing_and_disturbs_no_other() {
    let Some(shared) = Node::shared().await else {
        return;
    };
    let options = Options {
        cluster_api: ClusterApi::Definitions,
        ..Options::node()
    };
    let bed = tokio::task::spawn_blocking(move || Bed::start(options))
        .await
        .unwrap()
        .unwrap();
    let world = World::bare(&bed).await;
    let pod = pod("captf.test/pause:1", json!(["/pause"]));
    pods(&world)
        .create(&PostParams::default(), &pod)
        .await
        .unwrap();
    phase(&world, "Running").await;
    let (dir, id) = (bed.ready().dir.clone(), bed.ready().id.clone());
    assert!(!cgroups_of(&id).is_empty());
    life::kill(bed.ready().pid);
    until(
        "the processes of the killed bed to end",
        LIMIT,
        async || {
            let left = life::processes_of(&dir);
            so(left.is_empty(), || left.join("\n"))
        },
    )
    .await;
    sweep().unwrap();
    assert!(!dir.exists());
    assert_eq!(cgroups_of(&id), Vec::<PathBuf>::new());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(dir.to_str().unwrap()), "{mounts}");
    let nodes: Api<KubernetesNode> = Api::all(shared.client().await);
    let conditions = nodes
        .get("node1")
        .await
        .unwrap()
        .status
        .unwrap()
        .conditions
        .unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    );
}

const POD: &str = "pod";

fn pods(world: &World) -> Api<Pod> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

fn pod(image: &str, command: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": POD},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{
                "name": "container", "image": image, "command": command,
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
                    "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    }))
    .unwrap()
}

/// Runs a command in an image and returns the pod that succeeded.
async fn run(world: &World, image: &str, command: Value) -> Pod {
    pods(world)
        .create(&PostParams::default(), &pod(image, command))
        .await
        .unwrap();
    phase(world, "Succeeded").await
}

async fn phase(world: &World, wanted: &str) -> Pod {
    let pods = pods(world);
    until(&format!("the pod to be {wanted}"), LIMIT, async || {
        let pod = pods.get(POD).await.map_err(|error| error.to_string())?;
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        if phase == Some(wanted) {
            Ok(pod)
        } else {
            Err(format!("{:?}", pod.status))
        }
    })
    .await
}

/// The folders of a bed in the cgroup hierarchies.
fn cgroups_of(id: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    folders.extend(hierarchies.map(|entry| entry.unwrap().path()));
    folders
        .into_iter()
        .map(|folder| folder.join(format!("captf-{id}")))
        .filter(|folder| folder.exists())
        .collect()
}
