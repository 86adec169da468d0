//! `TerraformCluster`.

use captf::api::{TerraformCluster, TerraformClusterSpec, TerraformClusterStatus};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::{Kind, accepted, refused, world};
use crate::testbed::World;

const ENDPOINT: &str = "spec.controlPlaneEndpoint";

async fn clusters() -> Kind {
    Kind::of(&world().await, "TerraformCluster")
}

/// The smallest accepted spec.
fn minimal() -> Value {
    json!({"source": {"image": "registry.example/m:v1"}, "identityRef": {"name": "cloud"}})
}

/// The smallest accepted spec with one more field.
fn with(field: &str, value: Value) -> Value {
    let mut spec = minimal();
    spec[field] = value;
    spec
}

fn endpoint(host: &str, port: i32) -> Value {
    json!({"host": host, "port": port})
}

/// Every field of the spec with an allowed value.
fn full_spec() -> Value {
    json!({
        "source": {"image": "registry.example/m:v1", "imagePullPolicy": "Always"},
        "identityRef": {"kind": "TerraformClusterIdentity", "name": "cloud"},
        "jobs": full_jobs(),
        "variables": {"region": "eu", "sizes": [1, 2.5], "nested": {"deep": null}},
        "variablesFrom": [
            {"configMapRef": {"name": "shared"}, "optional": true},
            {"secretRef": {"name": "secrets"}, "format": "JSON"}
        ],
        "deletionPolicy": "Retain",
        "adoptRetainedState": true,
        "controlPlaneEndpoint": {"host": "k8s.example", "port": 6443},
        "drift": {"intervalSeconds": 0, "action": "Remediate"},
        "applyPolicy": "Manual",
        "maxActiveJobs": 1,
        "defaults": {
            "identityRef": {"kind": "Secret", "name": "local"},
            "jobs": full_jobs(),
            "drift": {"intervalSeconds": 600, "action": "Report"},
            "remediation": {
                "annotateMachine": false,
                "unhealthyThreshold": 5,
                "healthCheckIntervalSeconds": 60
            },
            "membershipRefreshIntervalSeconds": 15,
            "deletionPolicy": "Destroy"
        }
    })
}

fn full_jobs() -> Value {
    json!({
        "successfulJobsHistoryLimit": 0,
        "failedJobsHistoryLimit": 100,
        "activeDeadlineSeconds": 86400,
        "lockTimeoutSeconds": 0,
        "serviceAccountName": "terraform",
        "imagePullSecrets": [{"name": "pull"}],
        "resources": {
            "limits": {"cpu": 4, "memory": "2Gi"},
            "requests": {"cpu": "250m"},
            "claims": [{"name": "gpu"}]
        },
        "env": [
            {"name": "PLAIN", "value": "1"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}}
        ],
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsUser": 1000},
        "podSecurityContext": {"fsGroup": 1000, "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}
    })
}

/// Every field of the status with an allowed value.
fn full_status() -> Value {
    json!({
        "conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2026-01-02T12:00:00Z",
            "observedGeneration": 1
        }],
        "initialization": {"provisioned": true},
        "observedGeneration": 1,
        "activeJob": {
            "name": "captf-c1-apply-a1-abcdef",
            "operation": "apply",
            "attempt": 1,
            "startTime": "2026-01-02T12:00:00Z"
        },
        "lastRun": {
            "job": "captf-c1-drift-a1-abcdef",
            "operation": "drift",
            "steps": [{"name": "init", "exitCode": 0, "durationMilliseconds": 0}],
            "error": {
                "kind": "step",
                "step": "plan",
                "summary": "the plan failed",
                "resources": ["a.b: quota"]
            },
            "drift": {"create": 0, "update": 1, "replace": 0, "delete": 0, "resources": ["a.b"]}
        },
        "lastDriftCheck": "2026-01-02T12:00:00Z",
        "lastRefresh": "2026-01-02T12:00:00Z",
        "pendingRefreshes": 1,
        "observedStateSerial": 7,
        "lastRestoredSerial": 6,
        "stateSecretSuffix": "abc",
        "source": {
            "image": "registry.example/m:v1",
            "imageDigest": "registry.example/m@sha256:00",
            "runtimeVersion": "1.11.4"
        },
        "stateBackups": [{"serial": 6, "takenAt": "2026-01-02T12:00:00Z", "bytes": 1234}],
        "failureDomains": [{"name": "az1", "controlPlane": true, "attributes": {"zone": "1"}}],
        "exports": {"network": "n-1"},
        "pendingPlanRef": {"name": "plan-1"}
    })
}

#[tokio::test]
async fn a_cluster_with_an_identity_is_accepted() {
    accepted(clusters().await.create("c1", minimal()).await);
}

#[tokio::test]
async fn every_field_is_accepted_and_stored_as_sent() {
    let clusters = clusters().await;
    let created = accepted(clusters.create("c1", full_spec()).await);
    assert_eq!(created.data["spec"], full_spec());
    let patched = accepted(clusters.patch_status("c1", full_status()).await);
    assert_eq!(patched.data["status"], full_status());
}

#[tokio::test]
async fn the_types_write_what_they_read() {
    let world: World = world().await;
    let typed: Api<TerraformCluster> = Api::namespaced(world.client.clone(), &world.namespace);
    let spec: TerraformClusterSpec = serde_json::from_value(full_spec()).unwrap();
    let created = typed
        .create(
            &PostParams::default(),
            &TerraformCluster::new("c1", spec.clone()),
        )
        .await
        .unwrap();
    assert_eq!(created.spec, spec);
    let status: TerraformClusterStatus = serde_json::from_value(full_status()).unwrap();
    let clusters = Kind::of(&world, "TerraformCluster");
    let sent = serde_json::to_value(&status).unwrap();
    let patched = accepted(clusters.patch_status("c1", sent).await);
    assert_eq!(patched.data["status"], full_status());
    assert_eq!(typed.get("c1").await.unwrap().status, Some(status));
}

#[tokio::test]
async fn no_default_is_stored() {
    let created = accepted(clusters().await.create("c1", minimal()).await);
    assert_eq!(created.data["spec"], minimal());
}

#[tokio::test]
async fn a_source_is_required() {
    let spec = json!({"identityRef": {"name": "cloud"}});
    refused(
        clusters().await.create("c1", spec).await,
        "spec.source",
        "Required value",
    );
}

#[tokio::test]
async fn an_empty_image_is_refused() {
    let spec = with("source", json!({"image": ""}));
    refused(
        clusters().await.create("c1", spec).await,
        "spec.source.image",
        "at least 1 chars",
    );
}

// E3: an identity is mandatory, on every write.

#[tokio::test]
async fn a_cluster_without_an_identity_is_refused() {
    let spec = json!({
        "source": {"image": "registry.example/m:v1"},
        "defaults": {"identityRef": {"name": "cloud"}}
    });
    let answer = clusters().await.create("c1", spec).await;
    refused(answer, "spec.identityRef", "an identity is mandatory");
}

#[tokio::test]
async fn an_identity_cannot_be_removed() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    let answer = clusters
        .patch_spec("c1", json!({"identityRef": null}))
        .await;
    refused(
        answer,
        "spec.identityRef",
        "spec.defaults.identityRef is not a substitute",
    );
}

#[tokio::test]
async fn an_identity_can_be_changed() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    let other = json!({"identityRef": {"kind": "Secret", "name": "other"}});
    accepted(clusters.patch_spec("c1", other).await);
}

// E1: host and port together.

#[tokio::test]
async fn an_endpoint_of_a_host_only_is_refused() {
    let spec = with("controlPlaneEndpoint", json!({"host": "k8s.example"}));
    let answer = clusters().await.create("c1", spec).await;
    refused(answer, ENDPOINT, "host and port must be set together");
}

#[tokio::test]
async fn an_endpoint_of_a_port_only_is_refused() {
    let spec = with("controlPlaneEndpoint", json!({"port": 6443}));
    let answer = clusters().await.create("c1", spec).await;
    refused(answer, ENDPOINT, "host and port must be set together");
}

#[tokio::test]
async fn an_empty_endpoint_is_refused() {
    let spec = with("controlPlaneEndpoint", json!({}));
    let answer = clusters().await.create("c1", spec).await;
    refused(answer, ENDPOINT, "at least 1 properties");
}

#[tokio::test]
async fn a_port_beyond_65535_is_refused() {
    let spec = with("controlPlaneEndpoint", endpoint("k8s.example", 65536));
    let answer = clusters().await.create("c1", spec).await;
    refused(
        answer,
        "spec.controlPlaneEndpoint.port",
        "less than or equal to 65535",
    );
}

// E2: immutable once complete.

#[tokio::test]
async fn an_endpoint_can_be_set_later() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    let set = json!({"controlPlaneEndpoint": endpoint("k8s.example", 6443)});
    accepted(clusters.patch_spec("c1", set).await);
}

#[tokio::test]
async fn a_complete_endpoint_is_immutable() {
    let clusters = clusters().await;
    let spec = with("controlPlaneEndpoint", endpoint("k8s.example", 6443));
    accepted(clusters.create("c1", spec).await);
    for change in [
        json!({"controlPlaneEndpoint": {"host": "other.example"}}),
        json!({"controlPlaneEndpoint": {"port": 443}}),
        json!({"controlPlaneEndpoint": null}),
    ] {
        let answer = clusters.patch_spec("c1", change).await;
        refused(answer, ENDPOINT, "controlPlaneEndpoint is immutable");
    }
}

#[tokio::test]
async fn everything_else_changes_beside_a_complete_endpoint() {
    let clusters = clusters().await;
    let spec = with("controlPlaneEndpoint", endpoint("k8s.example", 6443));
    accepted(clusters.create("c1", spec).await);
    let change = json!({
        "controlPlaneEndpoint": endpoint("k8s.example", 6443),
        "source": {"image": "registry.example/m:v2"},
        "variables": {"a": 1}
    });
    accepted(clusters.patch_spec("c1", change).await);
}

// Variables.

#[tokio::test]
async fn a_variables_source_names_exactly_one_object() {
    let clusters = clusters().await;
    let both = json!({"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}});
    for source in [both, json!({"optional": true})] {
        let spec = with("variablesFrom", json!([source]));
        let answer = clusters.create("c1", spec).await;
        refused(
            answer,
            "spec.variablesFrom[0]",
            "exactly one of the fields in [configMapRef secretRef]",
        );
    }
}

#[tokio::test]
async fn variables_hold_1_to_256_keys() {
    let clusters = clusters().await;
    let keys = |count: usize| -> Value {
        (0..count)
            .map(|number| (format!("v{number}"), json!(number)))
            .collect()
    };
    let refusal = |fragment| move |answer| refused(answer, "spec.variables", fragment);
    refusal("at least 1 properties")(clusters.create("c1", with("variables", keys(0))).await);
    refusal("at most 256")(clusters.create("c1", with("variables", keys(257))).await);
    accepted(clusters.create("c1", with("variables", keys(256))).await);
}

#[tokio::test]
async fn variables_are_an_object() {
    for scalar in [json!("text"), json!(1), json!(["list"])] {
        let answer = clusters()
            .await
            .create("c1", with("variables", scalar))
            .await;
        refused(answer, "spec.variables", "must be of type object");
    }
}

#[tokio::test]
async fn null_variables_are_no_variables() {
    let created = accepted(
        clusters()
            .await
            .create("c1", with("variables", Value::Null))
            .await,
    );
    assert_eq!(created.data["spec"], minimal());
}

// Numbers with and without a meaning of 0.

#[tokio::test]
async fn a_drift_interval_of_0_is_accepted() {
    let spec = with("drift", json!({"intervalSeconds": 0}));
    let created = accepted(clusters().await.create("c1", spec).await);
    assert_eq!(created.data["spec"]["drift"]["intervalSeconds"], 0);
}

#[tokio::test]
async fn numbers_out_of_range_are_refused() {
    let clusters = clusters().await;
    for (field, value, path, fragment) in [
        (
            "maxActiveJobs",
            json!(0),
            "spec.maxActiveJobs",
            "greater than or equal to 1",
        ),
        (
            "defaults",
            json!({"membershipRefreshIntervalSeconds": 14}),
            "spec.defaults.membershipRefreshIntervalSeconds",
            "greater than or equal to 15",
        ),
        (
            "jobs",
            json!({"activeDeadlineSeconds": 0}),
            "spec.jobs.activeDeadlineSeconds",
            "greater than or equal to 1",
        ),
        (
            "jobs",
            json!({"lockTimeoutSeconds": 3601}),
            "spec.jobs.lockTimeoutSeconds",
            "less than or equal to 3600",
        ),
        (
            "jobs",
            json!({"failedJobsHistoryLimit": 101}),
            "spec.jobs.failedJobsHistoryLimit",
            "less than or equal to 100",
        ),
        (
            "defaults",
            json!({"remediation": {"unhealthyThreshold": 0}}),
            "spec.defaults.remediation.unhealthyThreshold",
            "greater than or equal to 1",
        ),
    ] {
        refused(
            clusters.create("c1", with(field, value)).await,
            path,
            fragment,
        );
    }
}

#[tokio::test]
async fn a_number_beyond_its_format_is_refused() {
    let spec = with("maxActiveJobs", json!(5_000_000_000_i64));
    let answer = clusters().await.create("c1", spec).await;
    refused(answer, "<nil>", "format int32 in spec.maxActiveJobs");
}

#[tokio::test]
async fn values_outside_an_enumeration_are_refused() {
    let clusters = clusters().await;
    for (field, value, path) in [
        ("deletionPolicy", json!("Keep"), "spec.deletionPolicy"),
        ("applyPolicy", json!("manual"), "spec.applyPolicy"),
        ("drift", json!({"action": "Fix"}), "spec.drift.action"),
        (
            "identityRef",
            json!({"kind": "Vault", "name": "n"}),
            "spec.identityRef.kind",
        ),
    ] {
        refused(
            clusters.create("c1", with(field, value)).await,
            path,
            "Unsupported value",
        );
    }
}

// Embedded Kubernetes types.

#[tokio::test]
async fn a_quantity_is_an_integer_or_a_string_of_its_form() {
    let clusters = clusters().await;
    let limits = |cpu: Value| with("jobs", json!({"resources": {"limits": {"cpu": cpu}}}));
    accepted(clusters.create("integer", limits(json!(4))).await);
    accepted(clusters.create("string", limits(json!("1500m"))).await);
    let answer = clusters.create("c1", limits(json!("four"))).await;
    refused(answer, "spec.jobs.resources.limits.cpu", "should match");
}

#[tokio::test]
async fn environment_names_are_unique() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let answer = clusters()
        .await
        .create("c1", with("jobs", json!({"env": env})))
        .await;
    refused(answer, "spec.jobs.env[1]", "Duplicate value");
}

#[tokio::test]
async fn fields_unknown_to_the_schema_are_pruned() {
    let spec = with(
        "jobs",
        json!({"securityContext": {"runAsUser": 1, "unheardOf": true}}),
    );
    let created = accepted(clusters().await.create("c1", spec).await);
    assert_eq!(
        created.data["spec"]["jobs"]["securityContext"],
        json!({"runAsUser": 1})
    );
}

// Status.

#[tokio::test]
async fn an_empty_status_is_refused() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    refused(
        clusters.patch_status("c1", json!({})).await,
        "status",
        "at least 1 properties",
    );
}

#[tokio::test]
async fn exports_hold_any_json() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    for exports in [
        json!({"a": {"b": 1}}),
        json!([1, "x"]),
        json!("text"),
        json!(1.5),
        json!(true),
    ] {
        accepted(
            clusters
                .patch_status("c1", json!({"exports": null, "observedGeneration": 1}))
                .await,
        );
        let patched = accepted(
            clusters
                .patch_status("c1", json!({"exports": exports}))
                .await,
        );
        assert_eq!(patched.data["status"]["exports"], exports);
    }
}

#[tokio::test]
async fn a_status_number_that_means_unset_is_refused_as_0() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    for field in [
        "observedGeneration",
        "pendingRefreshes",
        "observedStateSerial",
        "lastRestoredSerial",
    ] {
        let mut status = json!({});
        status[field] = json!(0);
        let answer = clusters.patch_status("c1", status).await;
        refused(
            answer,
            &format!("status.{field}"),
            "greater than or equal to 1",
        );
    }
}

#[tokio::test]
async fn a_condition_has_a_known_status_and_a_reason() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    let condition = |status: &str, reason: &str| {
        json!({"conditions": [{
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-01-02T12:00:00Z"
        }]})
    };
    let answer = clusters
        .patch_status("c1", condition("Maybe", "Ready"))
        .await;
    refused(answer, "status.conditions[0].status", "Unsupported value");
    let answer = clusters.patch_status("c1", condition("True", "")).await;
    refused(answer, "status.conditions[0].reason", "at least 1 chars");
}

#[tokio::test]
async fn a_condition_type_stands_once() {
    let clusters = clusters().await;
    accepted(clusters.create("c1", minimal()).await);
    let ready = full_status()["conditions"][0].clone();
    let answer = clusters
        .patch_status("c1", json!({"conditions": [ready, ready]}))
        .await;
    refused(answer, "status.conditions[1]", "Duplicate value");
}
