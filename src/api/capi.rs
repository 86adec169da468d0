//! Read-only views of Cluster API's objects, version `cluster.x-k8s.io/v1beta2` (capi.md §4, §5;
//! inputs.md §1.2).
//!
//! They hold the fields CAPTF reads and nothing else. None of them can be serialised, so none can
//! be written back whole; writes to these kinds are patches of single fields.

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::ApiEndpoint;

/// API group of Cluster API.
pub const GROUP: &str = "cluster.x-k8s.io";
/// The only version of it that is read (capi.md §1).
pub const VERSION: &str = "v1beta2";

/// `Cluster`, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Cluster {
    /// Standard object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the user wants.
    #[serde(default)]
    pub spec: ClusterSpec,
    /// What Cluster API observed.
    #[serde(default)]
    pub status: ClusterStatus,
}

/// `Cluster.spec`, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSpec {
    /// Whether everything of the cluster is paused.
    pub paused: bool,
    /// Networks of the cluster.
    pub cluster_network: ClusterNetwork,
    /// Where the control plane answers; absent until known.
    pub control_plane_endpoint: ApiEndpoint,
    /// The infrastructure object of the cluster.
    pub infrastructure_ref: Option<ContractRef>,
    /// Present on a cluster made from a ClusterClass.
    pub topology: Option<Topology>,
}

/// A reference by group, kind and name, always in the referrer's namespace (capi.md §5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContractRef {
    /// API group.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl ContractRef {
    /// Whether the reference names this kind of our group and this name (capi.md §3, owner
    /// resolution).
    #[must_use]
    pub fn names(&self, kind: super::ApiKind, name: &str) -> bool {
        self.api_group == super::GROUP && self.kind == kind.as_str() && self.name == name
    }
}

/// `Cluster.spec.clusterNetwork`; a zero value means unset (inputs.md §1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// Port of the API server; 0 when unset.
    pub api_server_port: i32,
    /// DNS domain of services; empty when unset.
    pub service_domain: String,
    /// Pod networks.
    pub pods: NetworkRanges,
    /// Service networks.
    pub services: NetworkRanges,
}

/// A list of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkRanges {
    /// Networks in CIDR notation.
    pub cidr_blocks: Vec<String>,
}

/// `Cluster.spec.topology`, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Kubernetes version; empty when unset.
    pub version: String,
}

/// `Cluster.status`, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterStatus {
    /// What was reached once.
    pub initialization: ClusterInitialization,
}

/// `Cluster.status.initialization`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInitialization {
    /// Whether the infrastructure object reported that it is provisioned.
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the control plane answered once; set only for a cluster with a control plane
    /// reference.
    pub control_plane_initialized: Option<bool>,
}

impl Resource for Cluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Cluster".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "clusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_not_read_are_ignored() {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "c1", "namespace": "t1"},
            "spec": {
                "availabilityGates": [],
                "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}},
                "controlPlaneEndpoint": {"host": "k8s.example", "port": 6443},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io",
                    "kind": "TerraformCluster",
                    "name": "c1"
                },
                "topology": {"classRef": {"name": "noop"}, "version": "v1.36.4"}
            },
            "status": {"phase": "Provisioned", "initialization": {"infrastructureProvisioned": true}}
        }))
        .unwrap();
        assert_eq!(
            cluster.spec.control_plane_endpoint.valid(),
            Some(("k8s.example", 6443))
        );
        assert_eq!(
            cluster.spec.cluster_network.pods.cidr_blocks,
            ["192.168.0.0/16"]
        );
        assert_eq!(cluster.spec.cluster_network.api_server_port, 0);
        assert_eq!(cluster.spec.topology.unwrap().version, "v1.36.4");
        assert_eq!(
            cluster.status.initialization.infrastructure_provisioned,
            Some(true)
        );
        assert_eq!(
            cluster.status.initialization.control_plane_initialized,
            None
        );
        let reference = cluster.spec.infrastructure_ref.unwrap();
        assert!(reference.names(crate::api::ApiKind::TerraformCluster, "c1"));
        assert!(!reference.names(crate::api::ApiKind::TerraformMachine, "c1"));
        assert!(!reference.names(crate::api::ApiKind::TerraformCluster, "c2"));
    }

    #[test]
    fn a_fresh_cluster_without_status_is_read() {
        let cluster: Cluster =
            serde_json::from_value(json!({"metadata": {"name": "c1"}, "spec": {}})).unwrap();
        assert!(!cluster.spec.paused);
        assert_eq!(cluster.spec.infrastructure_ref, None);
    }
}
