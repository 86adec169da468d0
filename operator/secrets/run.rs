//! What one run is given: the rendered files, and the annotations that say where they came from.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;

use crate::api::keys::annotations;
use crate::inputs::{MAIN_TF_JSON, Rendered, TFVARS_JSON};
use crate::names::InputsHash;
use crate::operator::credentials::Identity;

pub(super) fn entries(files: &Rendered) -> [(&'static str, &[u8]); 2] {
    [
        (MAIN_TF_JSON, files.main.as_bytes()),
        (TFVARS_JSON, files.tfvars.as_bytes()),
    ]
}

/// The files of a Secret; `None` when it lacks one, or holds something that was never rendered.
pub(super) fn files_of(data: Option<&BTreeMap<String, ByteString>>) -> Option<Rendered> {
    let text = |key: &str| String::from_utf8(data?.get(key)?.0.clone()).ok();
    Some(Rendered {
        main: text(MAIN_TF_JSON)?,
        tfvars: text(TFVARS_JSON)?,
    })
}

/// The annotations that per-run Secrets and inputs records share (state-secrets.md §5): they let
/// bookkeeping promote a successful apply from its Secret alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The image as written in the spec; empty when not recorded.
    pub image: String,
    /// The credentials the Job mounts.
    pub identity: Option<Identity>,
    /// Hash of what was rendered; empty for a restore root.
    pub inputs_hash: InputsHash,
}

impl Provenance {
    /// Each annotation with its value; no value means that the key must not be there.
    pub(super) fn annotations(&self) -> [(&'static str, Option<&str>); 4] {
        let text = |value| Some(value).filter(|value: &&str| !value.is_empty());
        [
            (annotations::IMAGE, text(self.image.as_str())),
            (
                annotations::IDENTITY,
                self.identity.as_ref().map(Identity::name),
            ),
            (
                annotations::IDENTITY_KIND,
                self.identity.as_ref().and_then(Identity::recorded_kind),
            ),
            (annotations::INPUTS_HASH, text(self.inputs_hash.as_str())),
        ]
    }

    pub(super) fn from_annotations(written: Option<&BTreeMap<String, String>>) -> Self {
        let value = |key: &str| written.and_then(|all| all.get(key)).map(String::as_str);
        Self {
            image: value(annotations::IMAGE).unwrap_or_default().to_owned(),
            identity: Identity::recorded(
                value(annotations::IDENTITY),
                value(annotations::IDENTITY_KIND),
            ),
            inputs_hash: InputsHash::new(value(annotations::INPUTS_HASH).unwrap_or_default()),
        }
    }
}

/// A run's files with their provenance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInputs {
    /// The rendered files.
    pub files: Rendered,
    /// Where they came from.
    pub provenance: Provenance,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_kind_is_written_only_for_a_secret() {
        let of = |identity| {
            let provenance = Provenance {
                identity: Some(identity),
                ..Provenance::default()
            };
            provenance.annotations()[2].1.map(str::to_owned)
        };
        assert_eq!(of(Identity::Cluster("aws".to_owned())), None);
        assert_eq!(
            of(Identity::Secret("creds".to_owned())).as_deref(),
            Some("Secret")
        );
    }
}
