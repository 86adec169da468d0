//! `TerraformCluster` (api.md §5).

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    DeletionPolicy, IdentityRef, JobPolicy, PlanRef, WorkspaceSpec, WorkspaceStatus, schema,
    wire_enum::wire_enum,
};

wire_enum! {
    /// What happens to drift; `Report` when unset (api.md §5).
    pub enum DriftAction {
        /// Report it.
        Report = "Report",
        /// Re-apply the current inputs.
        Remediate = "Remediate",
    }
}

wire_enum! {
    /// Whether changes wait for an approval; `Automatic` when unset (api.md §5).
    pub enum ApplyPolicy {
        /// Every change is applied.
        Automatic = "Automatic",
        /// Every change but the first apply is planned and waits for a TerraformPlan to be
        /// approved.
        Manual = "Manual",
    }
}

/// Infrastructure of a whole cluster, made by one Terraform or OpenTofu module (api.md §5).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "TerraformCluster",
    plural = "terraformclusters",
    namespaced,
    shortname = "tfc",
    category = "cluster-api",
    status = "TerraformClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Infrastructure of a whole cluster, made by one Terraform or OpenTofu module.",
    validation = Rule::new(concat!(
        "!has(oldSelf.spec.controlPlaneEndpoint)",
        " || !has(oldSelf.spec.controlPlaneEndpoint.host)",
        " || !has(oldSelf.spec.controlPlaneEndpoint.port)",
        " || (has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint)",
    ))
    .message("controlPlaneEndpoint is immutable once host and port are set")
    .field_path(".spec.controlPlaneEndpoint"),
    validation = Rule::new("has(self.spec.identityRef)")
        .message("an identity is mandatory: set spec.identityRef; spec.defaults.identityRef is not a substitute")
        .field_path(".spec.identityRef")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformClusterSpec {
    /// What all workload kinds share: the module, its credentials, its Jobs, its variables.
    #[serde(flatten)]
    pub workspace: WorkspaceSpec,
    /// Endpoint of the control plane. Set by the user it is given to the module; else the module's
    /// output is copied here once. Immutable once host and port are set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// Drift checks of this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    /// Whether changes wait for an approval; `Automatic` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_policy: Option<ApplyPolicy>,
    /// Soft cap on running Jobs of the cluster, its machines and pools together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_active_jobs: Option<i32>,
    /// What machines and pools of the cluster inherit; the cluster itself never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
}

/// Where the control plane answers (api.md §5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.host) == has(self.port)",
    "host and port must be set together",
)))]
pub struct ApiEndpoint {
    /// Host name or address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub host: Option<String>,
    /// TCP port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
}

impl ApiEndpoint {
    /// Host and port, when the endpoint is valid: host non-empty and port non-zero (inputs.md I-2).
    #[must_use]
    pub fn valid(&self) -> Option<(&str, i32)> {
        let host = self.host.as_deref().filter(|host| !host.is_empty())?;
        let port = self.port.filter(|port| *port != 0)?;
        Some((host, port))
    }
}

/// Drift checks (api.md §5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftPolicy {
    /// Seconds between checks; 0 disables them, and with them all health samples after
    /// provisioning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub interval_seconds: Option<i32>,
    /// What happens to drift; `Report` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<DriftAction>,
}

/// Remediation of unhealthy machines (api.md §6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemediationPolicy {
    /// Whether an unhealthy machine's owner is annotated `cluster.x-k8s.io/remediate-machine`; an
    /// explicit false beats an inherited true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotate_machine: Option<bool>,
    /// Consecutive unhealthy samples until then; 3 when unset. A terminated instance counts at
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub unhealthy_threshold: Option<i32>,
    /// Seconds between health samples while `annotateMachine` is true; 300 when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 86400))]
    pub health_check_interval_seconds: Option<i32>,
}

/// What machines and pools of a cluster inherit (api.md §5).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Defaults {
    /// Credentials; the cluster's own when unset. Of kind `Secret`: in the machine's or pool's
    /// namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
    /// Job policy, field by field; the cluster's own where unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobPolicy>,
    /// Drift policy, field by field; the cluster's own where unset. The action concerns pools only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftPolicy>,
    /// Remediation of machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationPolicy>,
    /// Seconds between refreshes of a pool's membership; 60 when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 15, max = 86400))]
    pub membership_refresh_interval_seconds: Option<i32>,
    /// What becomes of the infrastructure of a deleted machine or pool; the cluster's own policy
    /// when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// What a `TerraformCluster` reports (api.md §5, §8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformClusterStatus {
    /// What all workload kinds report.
    #[serde(flatten)]
    pub workspace: WorkspaceStatus,
    /// Failure domains from the module's output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub failure_domains: Vec<FailureDomain>,
    /// A copy of the module's output `exports`, as long as its compact form has at most 65536
    /// bytes; never read back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_json")]
    pub exports: Option<Value>,
    /// The live plan that waits for an approval or for its apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_plan_ref: Option<PlanRef>,
}

/// One failure domain (api.md §5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// Name of the failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether it may host control plane machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    /// Free-form attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kube::core::DeserializeGuard;
    use serde_json::json;

    use super::*;
    use crate::api::{DeletionPolicy, Operation};

    /// Every field, among them numbers that a float would not hold.
    const WRITTEN: &str = r#"{
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "TerraformCluster",
        "metadata": {"name": "c1", "namespace": "t1"},
        "spec": {
            "source": {"image": "registry.example/cluster:v1"},
            "identityRef": {"name": "cloud"},
            "jobs": {
                "activeDeadlineSeconds": 7200,
                "lockTimeoutSeconds": 0,
                "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": 4}}
            },
            "variables": {"exact": 1.10, "big": 123456789012345678901234567890, "nested": {"list": [1, null]}},
            "variablesFrom": [{"configMapRef": {"name": "shared"}, "format": "JSON"}],
            "deletionPolicy": "Retain",
            "controlPlaneEndpoint": {"host": "k8s.example", "port": 6443},
            "drift": {"intervalSeconds": 0},
            "defaults": {"remediation": {"annotateMachine": false}}
        },
        "status": {
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-02T12:00:00Z", "observedGeneration": 3
            }],
            "initialization": {"provisioned": true},
            "observedGeneration": 3,
            "activeJob": {"name": "j", "operation": "apply", "attempt": 1},
            "exports": {"version": 1.10}
        }
    }"#;

    #[test]
    fn an_object_is_written_back_as_it_was_read() {
        let read: TerraformCluster = serde_json::from_str(WRITTEN).unwrap();
        let written: Value = serde_json::from_str(WRITTEN).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn numbers_of_variables_keep_their_digits() {
        let read: TerraformCluster = serde_json::from_str(WRITTEN).unwrap();
        let variables = read.spec.workspace.variables.unwrap();
        assert_eq!(
            serde_json::to_string(&variables).unwrap(),
            r#"{"big":123456789012345678901234567890,"exact":1.10,"nested":{"list":[1,null]}}"#
        );
    }

    #[test]
    fn typed_numbers_are_read_beside_exact_ones() {
        let read: TerraformCluster = serde_json::from_str(WRITTEN).unwrap();
        let jobs = read.spec.workspace.jobs.unwrap();
        assert_eq!(jobs.active_deadline_seconds, Some(7200));
        assert_eq!(jobs.lock_timeout_seconds, Some(0));
        assert_eq!(jobs.env[0].name(), "A");
        let status = read.status.unwrap();
        assert!(status.workspace.is_provisioned());
        assert_eq!(
            status.workspace.active_job.unwrap().operation,
            Operation::Apply
        );
    }

    #[test]
    fn an_object_with_unknown_enum_values_decodes() {
        let newer = WRITTEN
            .replace(
                r#""deletionPolicy": "Retain""#,
                r#""deletionPolicy": "Archive", "applyPolicy": "Scheduled""#,
            )
            .replace(r#""operation": "apply""#, r#""operation": "import""#);
        let read: TerraformCluster = serde_json::from_str(&newer).unwrap();
        let policy = read.spec.workspace.deletion_policy.unwrap();
        assert_eq!(policy, DeletionPolicy::Other("Archive".to_owned()));
        assert_eq!(read.spec.apply_policy.unwrap().as_str(), "Scheduled");
    }

    #[test]
    fn exact_numbers_pass_the_guard_against_undecodable_objects() {
        let read: DeserializeGuard<TerraformCluster> = serde_json::from_str(WRITTEN).unwrap();
        let variables = read.0.unwrap().spec.workspace.variables.unwrap();
        assert_eq!(variables["exact"].to_string(), "1.10");
    }

    #[test]
    fn an_unset_field_is_not_written() {
        let cluster = TerraformCluster::new("c1", TerraformClusterSpec::default());
        let spec = serde_json::to_value(&cluster.spec).unwrap();
        assert_eq!(spec, json!({"source": {"image": ""}}));
    }

    #[test]
    fn an_endpoint_is_valid_with_host_and_port_only() {
        let host = || Some("k8s.example".to_owned());
        let valid = |host: Option<String>, port| ApiEndpoint { host, port }.valid().is_some();
        assert!(valid(host(), Some(6443)));
        assert!(!valid(host(), None));
        assert!(!valid(host(), Some(0)));
        assert!(!valid(None, Some(6443)));
        assert!(!valid(Some(String::new()), Some(6443)));
    }
}
