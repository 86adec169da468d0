//! The contract inputs of each role, in contract order (inputs.md §1, contract.md §4).

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::endpoint::Endpoint;
use super::exports::Exports;
use super::json::Json;
use super::role::{CONTRACT_VERSION, Role};
use crate::names::ObjectKey;

/// What every role is given.
#[derive(Clone, Debug)]
pub struct CommonInputs {
    /// Name of the owning Cluster.
    pub cluster_name: String,
    /// Namespace of the owning Cluster.
    pub cluster_namespace: String,
    /// The object itself; never its UID, labels or generation (I-1).
    pub object: ObjectKey,
    /// Annotation `cluster.x-k8s.io/cloned-from-name` of the object, empty when absent.
    pub template: String,
}

/// Inputs of the role `cluster`.
#[derive(Clone, Debug)]
pub struct ClusterInputs {
    /// The common inputs.
    pub common: CommonInputs,
    /// The endpoint that the module does not own; see [`endpoint_input`](super::endpoint_input).
    pub control_plane_endpoint: Option<Endpoint>,
    /// `Cluster.spec.topology.version` when non-empty.
    pub kubernetes_version: Option<String>,
    /// Latched: see [`latch_initialized`](super::latch_initialized).
    pub control_plane_initialized: bool,
    /// `Cluster.spec.clusterNetwork`, `None` when nothing of it is set.
    pub cluster_network: Option<ClusterNetwork>,
}

/// `Cluster.spec.clusterNetwork` as the module sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// Pod CIDR blocks.
    pub pods: Vec<String>,
    /// Service CIDR blocks.
    pub services: Vec<String>,
    /// Service domain.
    pub service_domain: Option<String>,
    /// Port of the API server.
    pub api_server_port: Option<i32>,
}

impl ClusterNetwork {
    /// `None` when port, domain and both lists are unset or empty; unset lists are `[]` and unset
    /// scalars null otherwise (inputs.md §1.2).
    #[must_use]
    pub fn new(
        pods: Vec<String>,
        services: Vec<String>,
        service_domain: Option<String>,
        api_server_port: Option<i32>,
    ) -> Option<Self> {
        let network = Self {
            pods,
            services,
            service_domain: service_domain.filter(|domain| !domain.is_empty()),
            api_server_port: api_server_port.filter(|port| *port != 0),
        };
        let empty = network.pods.is_empty()
            && network.services.is_empty()
            && network.service_domain.is_none()
            && network.api_server_port.is_none();
        (!empty).then_some(network)
    }
}

/// Bootstrap data in padded standard base64 without line breaks. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapData(String);

/// Text that is not strict, padded, standard base64 (I-27).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bootstrap_data is not padded standard base64")]
pub struct NotBase64;

impl BootstrapData {
    /// Encodes the raw bytes of the bootstrap Secret's key `value`. Always encoded, never sniffed:
    /// a compressed payload must survive (inputs.md §1.3).
    #[must_use]
    pub fn encode(bytes: &[u8]) -> Self {
        Self(STANDARD.encode(bytes))
    }

    /// Takes text that is encoded already.
    ///
    /// # Errors
    /// When it is not strict standard base64 with padding.
    pub fn from_base64(text: &str) -> Result<Self, NotBase64> {
        STANDARD.decode(text).map_err(|_| NotBase64)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for BootstrapData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootstrapData({} characters)", self.0.len())
    }
}

/// Inputs of the role `machine`.
#[derive(Clone, Debug)]
pub struct MachineInputs {
    /// The common inputs.
    pub common: CommonInputs,
    /// The cluster's `exports`, verbatim; `{}` when externally managed.
    pub cluster_outputs: Exports,
    /// Name of the owning Machine, which may differ from the object's.
    pub machine_name: String,
    /// Bootstrap data.
    pub bootstrap_data: BootstrapData,
    /// `cloud-config` or `ignition`.
    pub bootstrap_format: String,
    /// `Machine.spec.failureDomain` when non-empty.
    pub failure_domain: Option<String>,
    /// `Machine.spec.version` verbatim when non-empty.
    pub kubernetes_version: Option<String>,
    /// The Machine carries the control-plane label.
    pub control_plane: bool,
}

/// Inputs of the role `machinepool`.
#[derive(Clone, Debug)]
pub struct MachinePoolInputs {
    /// The common inputs.
    pub common: CommonInputs,
    /// The cluster's `exports`, or the held ones, verbatim.
    pub cluster_outputs: Exports,
    /// Name of the owning MachinePool.
    pub machinepool_name: String,
    /// Desired capacity.
    pub replicas: i32,
    /// Bootstrap data.
    pub bootstrap_data: BootstrapData,
    /// `cloud-config` or `ignition`.
    pub bootstrap_format: String,
    /// `MachinePool.spec.failureDomains`.
    pub failure_domains: Vec<String>,
    /// Names of the cluster's failure domains.
    pub cluster_failure_domains: Vec<String>,
    /// Version of the pool's template when non-empty.
    pub kubernetes_version: Option<String>,
    /// Labels of the pool's template.
    pub node_labels: BTreeMap<String, String>,
    /// Bounds of the autoscaler.
    pub autoscaling: Autoscaling,
}

/// The pool's input `autoscaling` (I-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Autoscaling {
    /// Both annotations are valid.
    pub enabled: bool,
    /// Smallest capacity.
    pub min: i32,
    /// Largest capacity.
    pub max: i32,
}

/// The inputs of one object; the variant is the role, so inputs never fail to match it (I-26).
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Of a TerraformCluster.
    Cluster(ClusterInputs),
    /// Of a TerraformMachine.
    Machine(MachineInputs),
    /// Of a TerraformMachinePool.
    MachinePool(MachinePoolInputs),
}

/// How inputs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// As the Job gets them.
    Rendered,
    /// As they are hashed: an autoscaled pool's observed replicas do not count (I-30).
    Hashed,
    /// As an approval names them: without a pool's bootstrap token, which rotates
    /// (inputs.md §4.3).
    Approval,
}

impl Inputs {
    /// The role these inputs are for.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::Cluster(_) => Role::Cluster,
            Self::Machine(_) => Role::Machine,
            Self::MachinePool(_) => Role::MachinePool,
        }
    }

    /// Every contract input with its value, in contract order, nulls included (I-23, I-25).
    #[must_use]
    pub fn entries(&self, view: View) -> Vec<(&'static str, Json)> {
        match self {
            Self::Cluster(inputs) => inputs.entries(),
            Self::Machine(inputs) => inputs.entries(),
            Self::MachinePool(inputs) => inputs.entries(view),
        }
    }
}

impl CommonInputs {
    fn entries(&self) -> [(&'static str, Json); 4] {
        let object = &self.object;
        let named = |name: &str, namespace: &str| {
            [
                ("name", Json::from(name)),
                ("namespace", Json::from(namespace)),
            ]
        };
        let tags = [
            ("captf.io/cluster", self.cluster_name.as_str()),
            ("captf.io/kind", object.kind.as_str()),
            ("captf.io/managed-by", "captf"),
            ("captf.io/name", &object.name),
            ("captf.io/namespace", &object.namespace),
            ("captf.io/template", &self.template),
        ];
        [
            ("captf_contract", Json::from(CONTRACT_VERSION)),
            (
                "captf_cluster",
                Json::object(named(&self.cluster_name, &self.cluster_namespace)),
            ),
            (
                "captf_object",
                Json::object(
                    [("kind", Json::from(object.kind.as_str()))]
                        .into_iter()
                        .chain(named(&object.name, &object.namespace)),
                ),
            ),
            (
                "captf_tags",
                Json::object(tags.map(|(key, value)| (key, Json::from(value)))),
            ),
        ]
    }
}

impl ClusterInputs {
    fn entries(&self) -> Vec<(&'static str, Json)> {
        let endpoint = self.control_plane_endpoint.as_ref().map(|endpoint| {
            Json::object([
                ("host", Json::from(endpoint.host.as_str())),
                ("port", Json::from(endpoint.port)),
            ])
        });
        let network = self.cluster_network.as_ref().map(|network| {
            Json::object([
                ("pods", Json::strings(&network.pods)),
                ("services", Json::strings(&network.services)),
                (
                    "service_domain",
                    Json::or_null(network.service_domain.as_deref()),
                ),
                (
                    "api_server_port",
                    network.api_server_port.map_or(Json::Null, Json::from),
                ),
            ])
        });
        let mut entries = self.common.entries().to_vec();
        entries.extend([
            ("control_plane_endpoint", endpoint.unwrap_or(Json::Null)),
            (
                "kubernetes_version",
                Json::or_null(self.kubernetes_version.as_deref()),
            ),
            (
                "control_plane_initialized",
                Json::from(self.control_plane_initialized),
            ),
            ("cluster_network", network.unwrap_or(Json::Null)),
        ]);
        entries
    }
}

impl MachineInputs {
    fn entries(&self) -> Vec<(&'static str, Json)> {
        let mut entries = self.common.entries().to_vec();
        entries.extend([
            ("captf_cluster_outputs", self.cluster_outputs.json()),
            ("machine_name", Json::from(self.machine_name.as_str())),
            ("bootstrap_data", Json::from(self.bootstrap_data.0.as_str())),
            (
                "bootstrap_format",
                Json::from(self.bootstrap_format.as_str()),
            ),
            (
                "failure_domain",
                Json::or_null(self.failure_domain.as_deref()),
            ),
            (
                "kubernetes_version",
                Json::or_null(self.kubernetes_version.as_deref()),
            ),
            ("control_plane", Json::from(self.control_plane)),
        ]);
        entries
    }
}

impl MachinePoolInputs {
    fn entries(&self, view: View) -> Vec<(&'static str, Json)> {
        let replicas = match view {
            View::Hashed | View::Approval if self.autoscaling.enabled => 0,
            _ => self.replicas,
        };
        let bootstrap_data = match view {
            View::Approval => "",
            View::Rendered | View::Hashed => self.bootstrap_data.0.as_str(),
        };
        let labels = self
            .node_labels
            .iter()
            .map(|(key, value)| (key.as_str(), Json::from(value.as_str())));
        let mut entries = self.common.entries().to_vec();
        entries.extend([
            ("captf_cluster_outputs", self.cluster_outputs.json()),
            (
                "machinepool_name",
                Json::from(self.machinepool_name.as_str()),
            ),
            ("replicas", Json::from(replicas)),
            ("bootstrap_data", Json::from(bootstrap_data)),
            (
                "bootstrap_format",
                Json::from(self.bootstrap_format.as_str()),
            ),
            ("failure_domains", Json::strings(&self.failure_domains)),
            (
                "cluster_failure_domains",
                Json::strings(&self.cluster_failure_domains),
            ),
            (
                "kubernetes_version",
                Json::or_null(self.kubernetes_version.as_deref()),
            ),
            ("node_labels", Json::object(labels)),
            (
                "autoscaling",
                Json::object([
                    ("enabled", Json::from(self.autoscaling.enabled)),
                    ("min", Json::from(self.autoscaling.min)),
                    ("max", Json::from(self.autoscaling.max)),
                ]),
            ),
        ]);
        entries
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    #[test]
    fn cluster_network_is_null_when_nothing_of_it_is_set() {
        assert_eq!(
            ClusterNetwork::new(vec![], vec![], Some(String::new()), Some(0)),
            None
        );
        assert_eq!(ClusterNetwork::new(vec![], vec![], None, None), None);
    }

    #[test]
    fn one_setting_makes_a_cluster_network_with_nulls_and_empty_lists() {
        let network = ClusterNetwork::new(vec![], vec![], None, Some(6443)).unwrap();
        assert_eq!(network.api_server_port, Some(6443));
        assert_eq!(network.service_domain, None);
        assert!(network.pods.is_empty() && network.services.is_empty());
    }

    #[rstest]
    #[case("I2Nsb3VkLWNvbmZpZw==", true)]
    #[case("", true)]
    #[case("I2Nsb3VkLWNvbmZpZw", false)]
    #[case("I2Nsb3VkLWNvbmZpZw==\n", false)]
    #[case("I2Nsb3VkLWNvbmZpZx==", false)]
    #[case("not base64!", false)]
    fn bootstrap_data_must_be_strict_padded_base64(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(BootstrapData::from_base64(text).is_ok(), valid);
    }

    #[test]
    fn bootstrap_data_is_encoded_without_line_breaks_and_never_printed() {
        let data = BootstrapData::encode(&[0xff; 100]);
        assert!(!data.0.contains('\n'));
        assert_eq!(format!("{data:?}"), "BootstrapData(136 characters)");
        assert_eq!(
            BootstrapData::encode(b"#cloud-config").0,
            "I2Nsb3VkLWNvbmZpZw=="
        );
    }
}
