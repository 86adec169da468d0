//! Cluster API's Clusters, as far as TerraformClusters depend on them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Deserialize;

use super::owner::INFRASTRUCTURE;
use super::store::{Change, Store};
use crate::names::{Kind, ObjectKey};
use crate::operator::watch::{LeanMeta, Wire};

/// A Cluster of Cluster API, version v1beta2 (capi.md).
#[derive(Debug, Clone, Deserialize)]
pub struct CapiCluster {
    /// Metadata without managedFields.
    #[serde(deserialize_with = "LeanMeta::deserialize_meta")]
    pub metadata: ObjectMeta,
    /// What a person or a topology asks for.
    #[serde(default)]
    pub spec: CapiClusterSpec,
    /// What Cluster API reports.
    #[serde(default)]
    pub status: CapiClusterStatus,
}

/// `spec` of a Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapiClusterSpec {
    /// Whether everything of the cluster is paused.
    pub paused: Option<bool>,
    /// The network the cluster is to have.
    pub cluster_network: Option<ClusterNetwork>,
    /// The endpoint of the control plane, once known.
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// The infrastructure object of the cluster.
    pub infrastructure_ref: Option<InfrastructureRef>,
    /// Its topology, when it has a ClusterClass.
    pub topology: Option<Topology>,
}

/// `spec.clusterNetwork` of a Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterNetwork {
    /// Port of the API server.
    pub api_server_port: Option<i32>,
    /// Domain of Services.
    pub service_domain: Option<String>,
    /// Addresses of pods.
    pub pods: Option<CidrBlocks>,
    /// Addresses of Services.
    pub services: Option<CidrBlocks>,
}

/// A list of address ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CidrBlocks {
    /// Ranges such as `10.0.0.0/16`.
    pub cidr_blocks: Option<Vec<String>>,
}

/// Host and port of a control plane; empty and 0 until known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControlPlaneEndpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: i32,
}

/// A reference to an object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InfrastructureRef {
    /// API group without version.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// `spec.topology` of a Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Topology {
    /// Kubernetes version.
    pub version: Option<String>,
}

/// `status` of a Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapiClusterStatus {
    /// How far the cluster was initialized.
    pub initialization: Initialization,
}

/// `status.initialization` of a Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialization {
    /// Whether the infrastructure is ready.
    pub infrastructure_provisioned: Option<bool>,
    /// Whether the control plane answers.
    pub control_plane_initialized: Option<bool>,
}

impl Resource for CapiCluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Cluster".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "cluster.x-k8s.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1beta2".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "clusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Wire for CapiCluster {
    type Kind = Self;
    type View = Self;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn view(self) -> Self {
        self
    }
}

impl CapiCluster {
    /// The object of our kinds that `spec.infrastructureRef` names.
    #[must_use]
    pub fn infrastructure(&self) -> Option<ObjectKey> {
        let reference = self.spec.infrastructure_ref.as_ref()?;
        let kind: Kind = reference.kind.parse().ok()?;
        let namespace = self.metadata.namespace.clone().unwrap_or_default();
        (reference.api_group == INFRASTRUCTURE).then(|| ObjectKey::new(kind, namespace, reference.name.clone()))
    }

    /// Labels of the Cluster.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        ResourceExt::labels(self)
    }
}

/// Cluster API's Clusters.
pub type CapiClusterStore = Store<CapiCluster>;

/// The TerraformClusters that a change of a Cluster wakes.
///
/// A creation, a change of the reference (before and after), of pause, of the control plane's
/// initialization, of the topology's version, of the endpoint or of the network; nothing else, and no
/// deletion (lifecycle.md §16).
pub(super) fn wakes(change: &Change<CapiCluster>) -> Vec<ObjectKey> {
    let woken = match change {
        Change::Deleted(_) => vec![],
        Change::Added(cluster) => vec![cluster.infrastructure()],
        Change::Updated { old, new } if matters(old, new) => vec![old.infrastructure(), new.infrastructure()],
        Change::Updated { .. } => vec![],
    };
    let mut keys: Vec<ObjectKey> = woken.into_iter().flatten().filter(|key| key.kind == Kind::TerraformCluster).collect();
    keys.dedup();
    keys
}

fn matters(old: &Arc<CapiCluster>, new: &Arc<CapiCluster>) -> bool {
    let paused = |cluster: &CapiCluster| cluster.spec.paused.unwrap_or_default();
    let initialized = |cluster: &CapiCluster| cluster.status.initialization.control_plane_initialized.unwrap_or_default();
    old.spec.infrastructure_ref != new.spec.infrastructure_ref
        || paused(old) != paused(new)
        || initialized(old) != initialized(new)
        || old.spec.topology != new.spec.topology
        || old.spec.control_plane_endpoint != new.spec.control_plane_endpoint
        || old.spec.cluster_network != new.spec.cluster_network
}
