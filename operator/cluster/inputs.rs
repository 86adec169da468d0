//! What a TerraformCluster's module is given (inputs.md §1.2, §1.5; lifecycle.md §11.1).

use kube::core::ResourceExt as _;
use serde_json::Value;

use super::object::Working;
use crate::api::ApiEndpoint;
use crate::api::capi::Cluster;
use crate::api::conditions::{DependenciesReady, State as _, Verdict};
use crate::api::keys::annotations;
use crate::inputs::{
    CanonicalError, ClusterInputs, ClusterNetwork, CommonInputs, Endpoint, EndpointSource, Inputs,
    RecordedClusterInputs, RenderError, Rendered, Role, SourceChange, VariableSource, Variables,
    VariablesError, endpoint_input, inputs_hash, latch_initialized, render,
};
use crate::names::InputsHash;

/// The inputs of this pass.
#[derive(Debug)]
pub(super) struct Built {
    /// Their hash.
    pub(super) hash: InputsHash,
    /// The files, or why they do not fit into a Secret.
    pub(super) files: Result<Rendered, RenderError>,
    /// What becomes of the annotation that says who owns the endpoint.
    pub(super) endpoint_source: SourceChange,
}

impl Built {
    /// Bytes of the files together, also when they are too large (I-28).
    #[must_use]
    pub(super) fn bytes(&self) -> Option<usize> {
        match &self.files {
            Ok(files) => Some(files.bytes()),
            Err(RenderError::TooLarge { bytes, .. }) => Some(*bytes),
            Err(RenderError::Name { .. }) => None,
        }
    }
}

/// Why there are no inputs: a closed gate on `DependenciesReady`.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotBuilt {
    /// A variables source or variable cannot be used.
    #[error(transparent)]
    Variables(#[from] VariablesError),
    /// A contract input cannot be hashed.
    #[error(transparent)]
    Unhashable(#[from] CanonicalError),
}

impl NotBuilt {
    /// The gate's condition.
    #[must_use]
    pub(super) fn verdict(&self) -> Verdict {
        let state = match self {
            Self::Variables(error) if error.reason() == "VariablesSourceNotFound" => {
                DependenciesReady::VariablesSourceNotFound
            }
            Self::Variables(_) | Self::Unhashable(_) => DependenciesReady::VariablesInvalid,
        };
        state.with(self.to_string())
    }
}

/// Builds the inputs. `recorded` is what the newest apply was given, `None` before the first one;
/// `sources` are the entries of `spec.variablesFrom` as read live.
///
/// # Errors
/// When the variables close the gate; nothing is rendered then.
pub(super) fn build(
    object: &Working,
    cluster: &Cluster,
    recorded: Option<RecordedClusterInputs>,
    sources: &[VariableSource],
) -> Result<Built, NotBuilt> {
    let spec = &object.next.spec;
    let inline = spec.workspace.variables.clone().map(Value::Object);
    let variables = Variables::merge(Role::Cluster, sources, inline.as_ref())?;
    let endpoint = endpoint_input(
        EndpointSource::from_annotation(object.annotation(annotations::ENDPOINT_SOURCE)),
        recorded.is_none(),
        endpoint(Some(&cluster.spec.control_plane_endpoint)).as_ref(),
        endpoint(spec.control_plane_endpoint.as_ref()).as_ref(),
    );
    let inputs = Inputs::Cluster(ClusterInputs {
        common: CommonInputs {
            cluster_name: cluster.name_any(),
            cluster_namespace: cluster.namespace().unwrap_or_default(),
            object: object.key(),
            template: object
                .annotation(annotations::CLONED_FROM_NAME)
                .unwrap_or_default()
                .to_owned(),
        },
        control_plane_endpoint: endpoint.value,
        kubernetes_version: kubernetes_version(cluster),
        control_plane_initialized: latch_initialized(
            recorded.unwrap_or_default().control_plane_initialized,
            cluster.status.initialization.control_plane_initialized == Some(true),
        ),
        cluster_network: network(cluster),
    });
    Ok(Built {
        hash: inputs_hash(&spec.workspace.source.image, &inputs, &variables)?,
        files: render(&inputs, &variables),
        endpoint_source: endpoint.source,
    })
}

/// A valid endpoint of the API as the rules take it.
#[must_use]
pub(super) fn endpoint(api: Option<&ApiEndpoint>) -> Option<Endpoint> {
    let (host, port) = api?.valid()?;
    Some(Endpoint::new(host, port))
}

fn kubernetes_version(cluster: &Cluster) -> Option<String> {
    let version = &cluster.spec.topology.as_ref()?.version;
    (!version.is_empty()).then(|| version.clone())
}

fn network(cluster: &Cluster) -> Option<ClusterNetwork> {
    let network = &cluster.spec.cluster_network;
    ClusterNetwork::new(
        network.pods.cidr_blocks.clone(),
        network.services.cidr_blocks.clone(),
        Some(network.service_domain.clone()),
        Some(network.api_server_port),
    )
}
