//! What a real apply leaves in the namespace, put there by hand where no pod runs: the state Secret and
//! the opened state lock (state-secrets.md §1, §4).

use std::io::Write as _;

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::testbed::World;

/// `hex(sha256("<namespace>/<kind>/<name>"))[0:16]-c` (state-secrets.md §1.2).
pub(crate) fn suffix(world: &World, cluster: &str) -> String {
    let key = format!("{}/TerraformCluster/{cluster}", world.namespace);
    let digest: String = Sha256::digest(key.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}-c", digest.get(..16).unwrap())
}

/// Name of the base state Secret.
pub(crate) fn state_secret(world: &World, cluster: &str) -> String {
    format!("tfstate-default-{}", suffix(world, cluster))
}

/// The state that the example module for clusters leaves after its first apply.
fn state(cluster: &str) -> Value {
    json!({
        "version": 4, "terraform_version": "1.11.4", "serial": 1,
        "lineage": "3f8a6e0c-7d51-4c1b-9d5e-0a8c7b5f1e22",
        "outputs": {
            "control_plane_endpoint": {
                "value": {"host": format!("noop-{cluster}.invalid"), "port": 6443},
                "type": ["object", {"host": "string", "port": "number"}],
            },
            "exports": {
                "value": {"backend_id": "noop-backend-1"}, "type": ["object", {"backend_id": "string"}],
                "sensitive": true,
            },
            "failure_domains": {
                "value": [{"name": "fd1"}], "type": ["tuple", [["object", {"name": "string"}]]],
            },
            "health": {
                "value": {"state": "running", "healthy": true, "message": null, "reasons": []},
                "type": ["object", {"state": "string", "healthy": "bool", "message": "string", "reasons": ["tuple", []]}],
            },
        },
        "resources": [{
            "module": "module.source", "mode": "managed", "type": "terraform_data", "name": "lb",
            "provider": "provider[\"terraform.io/builtin/terraform\"]", "instances": [],
        }],
        "check_results": null,
    })
}

/// Leaves the state and the lock as a successful apply does.
pub(crate) async fn apply(world: &World, cluster: &str) {
    put_state(world, cluster, &compressed(&state(cluster))).await;
    let mut lock = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": format!("lock-{}", state_secret(world, cluster)), "labels": labels(world, cluster)},
        "spec": {},
    });
    lock["metadata"]["namespace"] = json!(world.namespace);
    world.create(lock).await;
}

/// Writes a state Secret with this payload as Terraform's backend does.
pub(crate) async fn put_state(world: &World, cluster: &str, payload: &[u8]) {
    world
        .create(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": state_secret(world, cluster), "namespace": world.namespace,
                "labels": labels(world, cluster), "annotations": {"encoding": "gzip"},
            },
            "data": {"tfstate": ByteString(payload.to_vec())},
        }))
        .await;
}

fn compressed(state: &Value) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(state.to_string().as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The map that the Job passes to the backend, and what the backend adds (state-secrets.md §1.4).
fn labels(world: &World, cluster: &str) -> Value {
    json!({
        "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
        "captf.infrastructure.cluster.x-k8s.io/owner-name": cluster,
        "cluster.x-k8s.io/cluster-name": cluster,
        "captf.io/managed": "true",
        "clusterctl.cluster.x-k8s.io/move": "",
        "tfstate": "true", "tfstateSecretSuffix": suffix(world, cluster), "tfstateWorkspace": "default",
        "app.kubernetes.io/managed-by": "terraform",
    })
}

/// What the runner of that apply writes as its pod's termination message (runner.md §10).
pub(crate) fn result() -> Value {
    let steps: Vec<Value> = ["init", "validate", "plan", "show-json", "apply"]
        .map(|name| json!({"name": name, "exit": 0, "seconds": 0.5}))
        .to_vec();
    json!({
        "version": 1, "op": "apply", "image": {"ref": "registry.example.com/noop-cluster:v1", "providersMirror": false},
        "runtime": {"command": ["terraform"], "version": "1.11.4"}, "steps": steps, "drift": null, "error": null,
        "changes": {"add": 4, "change": 0, "destroy": 0},
    })
}
