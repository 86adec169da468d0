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
use crate::operator::logging::RENDERED;

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
    let built = Built {
        hash: inputs_hash(&spec.workspace.source.image, &inputs, &variables)?,
        files: render(&inputs, &variables),
        endpoint_source: endpoint.source,
    };
    log(&built, &variables);
    Ok(built)
}

/// The hash and the names of the variables for debugging, from verbosity 5 on the root module, which
/// depends on no value (I-19). Values are never logged (manager.md §7).
fn log(built: &Built, variables: &Variables) {
    let names: Vec<&str> = variables.iter().map(|(name, _)| name).collect();
    let names = names.join(", ");
    let hash = built.hash.as_str();
    tracing::trace!(inputs_hash = hash, variables = names, "built the inputs");
    if let Ok(files) = &built.files {
        tracing::trace!(target: RENDERED, inputs_hash = hash, root = files.main, "rendered the root module");
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::{Working, build};
    use crate::operator::logging::testing::written;

    /// What is logged of inputs with a variable whose value is `planted-value`.
    fn logged(verbosity: u32) -> String {
        let object = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
            "metadata": {"name": "prod", "namespace": "team-a"},
            "spec": {"source": {"image": "i"}, "variables": {"planted_name": "planted-value"}}
        }))
        .unwrap();
        let cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "team-a"}, "spec": {}
        }))
        .unwrap();
        written(verbosity, || {
            build(&Working::new(object), &cluster, None, &[]).unwrap();
        })
    }

    #[test]
    fn the_hash_and_the_names_of_variables_are_logged_from_verbosity_4_and_no_value_ever() {
        assert_eq!(logged(3), "");
        let at_4 = logged(4);
        assert!(at_4.contains(r#"inputs_hash="h2:"#), "{at_4}");
        assert!(at_4.contains(r#"variables="planted_name""#), "{at_4}");
        assert!(!at_4.contains("root="), "{at_4}");
        assert!(!logged(9).contains("planted-value"));
    }

    #[test]
    fn the_root_module_is_logged_from_verbosity_5() {
        let at_5 = logged(5);
        assert!(at_5.contains("../../module"), "{at_5}");
        assert!(at_5.contains("${var.planted_name}"), "{at_5}");
    }
}
