#![allow(clippy::unwrap_used, clippy::expect_used)]

mod jobs;
mod mappings;
mod pods;
mod stores;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::store::{Index, Name, Store};
use crate::operator::watch::Wire;

/// Applies an object, given as the API server sends it, to a store.
fn apply<W: Wire, I: Index<W::View>>(
    store: &Store<W::View, I>,
    object: Value,
) -> Option<super::Change<W::View>> {
    let wire: W = serde_json::from_value(object).unwrap();
    let name = Name::of(wire.metadata());
    let version = wire.metadata().resource_version.clone().unwrap_or_default();
    store.apply(name, version, wire.view())
}

fn decoded<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn metadata(value: Value) -> ObjectMeta {
    decoded(value)
}

/// A Job of the TerraformCluster `ns/prod` of the Cluster `prod`.
fn job(name: &str, version: &str, status: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version,
            "creationTimestamp": "2026-10-01T12:00:00Z",
            "labels": {
                "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
                "captf.infrastructure.cluster.x-k8s.io/owner-name": "prod",
                "captf.infrastructure.cluster.x-k8s.io/op": "apply",
                "cluster.x-k8s.io/cluster-name": "prod",
                "captf.io/managed": "true"
            },
            "annotations": {"captf.io/inputs-hash": "h2:1", "batch.kubernetes.io/job-tracking": ""},
            "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                "name": "prod", "uid": "uid-prod", "controller": true
            }],
            "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}]
        },
        "spec": {"activeDeadlineSeconds": 3600, "template": {"spec": {"containers": []}}},
        "status": status
    })
}

fn complete() -> Value {
    json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-10-01T12:10:00Z"}]})
}
