//! Who owns the control-plane endpoint, and what the module is told about it (I-2 to I-4).

use serde_json::Value;

/// A control-plane endpoint as a field holds it, which may be incomplete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port, 0 when unset.
    pub port: i32,
}

impl Endpoint {
    /// An endpoint of the given host and port.
    pub fn new(host: impl Into<String>, port: i32) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Host non-empty and port non-zero (I-2).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.host.is_empty() && self.port != 0
    }
}

/// The annotation `captf.io/endpoint-source`: written once, never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointSource {
    /// Not recorded yet.
    #[default]
    Unset,
    /// An endpoint existed before the first apply; the module must not make one.
    User,
    /// The module made it.
    Module,
}

impl EndpointSource {
    /// Reads the annotation. A value that nobody of ours wrote reads as the user's, so that the
    /// module never takes the endpoint over.
    #[must_use]
    pub fn from_annotation(value: Option<&str>) -> Self {
        match value {
            None | Some("") => Self::Unset,
            Some("module") => Self::Module,
            Some(_) => Self::User,
        }
    }

    /// The annotation's value, `None` when it is absent.
    #[must_use]
    pub const fn as_annotation(self) -> Option<&'static str> {
        match self {
            Self::Unset => None,
            Self::User => Some("user"),
            Self::Module => Some("module"),
        }
    }
}

/// A change of the annotation `captf.io/endpoint-source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// Leave it as it is.
    Keep,
    /// Write `user`; only once every gate has passed (lifecycle.md §11.1).
    RecordUser,
    /// Delete it: before the first apply the user took the endpoint back, so the module may own it.
    Remove,
}

/// What the module is told, and what becomes of the annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointInput {
    /// The input `control_plane_endpoint`.
    pub value: Option<Endpoint>,
    /// The change of the annotation.
    pub source: SourceChange,
}

/// The input `control_plane_endpoint` (I-2; lifecycle.md §11.1): null for ever once the module owns
/// the endpoint, else the Cluster's when valid, else the object's own when valid, else null.
/// `before_first_apply` = no inputs record exists yet.
#[must_use]
pub fn endpoint_input(
    source: EndpointSource,
    before_first_apply: bool,
    cluster: Option<&Endpoint>,
    own: Option<&Endpoint>,
) -> EndpointInput {
    let keep = |value| EndpointInput {
        value,
        source: SourceChange::Keep,
    };
    if source == EndpointSource::Module {
        return keep(None);
    }
    let value = valid(cluster).or_else(|| valid(own)).cloned();
    if !before_first_apply {
        return keep(value);
    }
    let change = match (source, &value) {
        (EndpointSource::Unset, Some(_)) => SourceChange::RecordUser,
        (EndpointSource::User, None) => SourceChange::Remove,
        _ => SourceChange::Keep,
    };
    EndpointInput {
        value,
        source: change,
    }
}

/// The endpoint to write to `spec.controlPlaneEndpoint`, together with `endpoint-source: module`:
/// the output, when no source is recorded, the apply was given a null endpoint, the output is
/// complete and the object has no valid endpoint of its own (I-3).
#[must_use]
pub fn endpoint_write_back<'a>(
    source: EndpointSource,
    rendered_null: bool,
    output: Option<&'a Endpoint>,
    own: Option<&Endpoint>,
) -> Option<&'a Endpoint> {
    (source == EndpointSource::Unset && rendered_null && valid(own).is_none())
        .then(|| valid(output))
        .flatten()
}

/// Whether anybody has a valid endpoint: the object's spec, the module's output or the Cluster
/// (condition `EndpointAvailable`; lifecycle.md §11.1).
#[must_use]
pub fn endpoint_available(
    own: Option<&Endpoint>,
    output: Option<&Endpoint>,
    cluster: Option<&Endpoint>,
) -> bool {
    [own, output, cluster]
        .into_iter()
        .any(|endpoint| valid(endpoint).is_some())
}

fn valid(endpoint: Option<&Endpoint>) -> Option<&Endpoint> {
    endpoint.filter(|endpoint| endpoint.is_valid())
}

/// The input `control_plane_initialized`: true once rendered true, else what the Cluster says. The
/// Cluster's status does not survive `clusterctl move`, the record does (I-4).
#[must_use]
pub const fn latch_initialized(recorded: bool, cluster_says: bool) -> bool {
    recorded || cluster_says
}

/// What the last apply of a cluster was given, read from a record's `terraform.tfvars.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedClusterInputs {
    /// `control_plane_initialized` was true.
    pub control_plane_initialized: bool,
    /// `control_plane_endpoint` was null.
    pub endpoint_was_null: bool,
}

impl RecordedClusterInputs {
    /// Reads the file; what cannot be read counts as not initialised and as no null endpoint, so
    /// that nothing is written back on the strength of a damaged record.
    #[must_use]
    pub fn read(tfvars: &[u8]) -> Self {
        let Ok(Value::Object(inputs)) = serde_json::from_slice(tfvars) else {
            return Self::default();
        };
        Self {
            control_plane_initialized: inputs.get("control_plane_initialized")
                == Some(&Value::Bool(true)),
            endpoint_was_null: inputs
                .get("control_plane_endpoint")
                .is_some_and(Value::is_null),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::EndpointSource::{Module, Unset, User};
    use super::*;

    fn of(host: &str) -> Option<Endpoint> {
        (!host.is_empty()).then(|| Endpoint::new(host, 6443))
    }

    #[rstest]
    // 1. the module owns it: null for ever
    #[case(Module, true, "cluster", "own", "", SourceChange::Keep)]
    #[case(Module, false, "cluster", "own", "", SourceChange::Keep)]
    // 2. the Cluster's
    #[case(Unset, true, "cluster", "own", "cluster", SourceChange::RecordUser)]
    #[case(User, true, "cluster", "own", "cluster", SourceChange::Keep)]
    #[case(Unset, false, "cluster", "own", "cluster", SourceChange::Keep)]
    // 3. the object's own
    #[case(Unset, true, "", "own", "own", SourceChange::RecordUser)]
    #[case(User, false, "", "own", "own", SourceChange::Keep)]
    // 4. nobody's
    #[case(Unset, true, "", "", "", SourceChange::Keep)]
    #[case(User, true, "", "", "", SourceChange::Remove)]
    #[case(User, false, "", "", "", SourceChange::Keep)]
    fn i2_endpoint_input(
        #[case] source: EndpointSource,
        #[case] before_first_apply: bool,
        #[case] cluster: &str,
        #[case] own: &str,
        #[case] expected: &str,
        #[case] change: SourceChange,
    ) {
        let (cluster, own) = (of(cluster), of(own));
        let input = endpoint_input(source, before_first_apply, cluster.as_ref(), own.as_ref());
        assert_eq!(input.value, of(expected));
        assert_eq!(input.source, change);
    }

    #[test]
    fn i2_a_half_set_endpoint_is_not_valid() {
        let half = Endpoint::new("host", 0);
        let other = Endpoint::new("", 6443);
        let input = endpoint_input(Unset, true, Some(&half), Some(&other));
        assert_eq!(input.value, None);
        assert_eq!(input.source, SourceChange::Keep);
    }

    #[rstest]
    #[case(Unset, true, "out", "", true)]
    #[case(User, true, "out", "", false)]
    #[case(Module, true, "out", "", false)]
    #[case(Unset, false, "out", "", false)]
    #[case(Unset, true, "", "", false)]
    #[case(Unset, true, "out", "own", false)]
    fn i3_module_endpoint_is_written_back_once(
        #[case] source: EndpointSource,
        #[case] rendered_null: bool,
        #[case] output: &str,
        #[case] own: &str,
        #[case] written: bool,
    ) {
        let (output, own) = (of(output), of(own));
        let write = endpoint_write_back(source, rendered_null, output.as_ref(), own.as_ref());
        assert_eq!(write.is_some(), written);
    }

    #[test]
    fn i4_initialized_is_never_rendered_false_again() {
        assert!(latch_initialized(true, false));
        assert!(latch_initialized(false, true));
        assert!(!latch_initialized(false, false));
    }

    #[rstest]
    #[case(
        r#"{"control_plane_initialized":true,"control_plane_endpoint":null}"#,
        true,
        true
    )]
    #[case(
        r#"{"control_plane_initialized":false,"control_plane_endpoint":{"host":"h","port":1}}"#,
        false,
        false
    )]
    #[case("{}", false, false)]
    #[case("not json", false, false)]
    fn recorded_inputs_of_a_cluster(
        #[case] tfvars: &str,
        #[case] initialized: bool,
        #[case] null_endpoint: bool,
    ) {
        assert_eq!(
            RecordedClusterInputs::read(tfvars.as_bytes()),
            RecordedClusterInputs {
                control_plane_initialized: initialized,
                endpoint_was_null: null_endpoint,
            }
        );
    }

    #[rstest]
    #[case(None, Unset)]
    #[case(Some(""), Unset)]
    #[case(Some("user"), User)]
    #[case(Some("module"), Module)]
    #[case(Some("somebody"), User)]
    fn endpoint_source_annotation(#[case] value: Option<&str>, #[case] expected: EndpointSource) {
        assert_eq!(EndpointSource::from_annotation(value), expected);
    }

    #[test]
    fn an_endpoint_is_available_from_output_spec_or_cluster() {
        let good = Endpoint::new("h", 1);
        let bad = Endpoint::new("h", 0);
        assert!(endpoint_available(None, Some(&good), None));
        assert!(endpoint_available(Some(&good), None, None));
        assert!(endpoint_available(None, None, Some(&good)));
        assert!(!endpoint_available(Some(&bad), None, Some(&bad)));
    }
}
