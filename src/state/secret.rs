//! What is looked at of a state Secret.

use std::fmt;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::names::Suffix;

/// Data key under which Terraform's backend keeps the compressed state.
pub const STATE_DATA_KEY: &str = "tfstate";

/// A state Secret as it was read. The payload is secret and never printed.
#[derive(Clone, Default)]
pub struct StateSecret {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The bytes under [`STATE_DATA_KEY`], `None` when the key is absent.
    pub payload: Option<Vec<u8>>,
}

impl From<Secret> for StateSecret {
    fn from(secret: Secret) -> Self {
        let payload = secret
            .data
            .and_then(|mut data| data.remove(STATE_DATA_KEY))
            .map(|bytes| bytes.0);
        let meta = ObjectMeta {
            managed_fields: None,
            ..secret.metadata
        };
        Self { meta, payload }
    }
}

impl fmt::Debug for StateSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.payload.as_ref().map_or(0, Vec::len);
        write!(f, "StateSecret({}, {bytes} bytes)", secret_name(&self.meta))
    }
}

/// The name of an object that came from the API server, where every object has one.
#[must_use]
pub fn secret_name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Which chunk of the state `name` is: 0 for the base name, `n` for `<base>-part-<n>` with a decimal
/// number from 1 on without leading zeros; `None` for any other name (state-secrets.md §2.3).
#[must_use]
pub fn chunk_index(suffix: &Suffix, name: &str) -> Option<usize> {
    let rest = name.strip_prefix(&suffix.base_state_secret())?;
    if rest.is_empty() {
        return Some(0);
    }
    let digits = rest.strip_prefix("-part-")?;
    let index: usize = digits.parse().ok()?;
    (index > 0 && index.to_string() == digits).then_some(index)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::names::Kind;

    #[rstest]
    #[case("tfstate-default-f66792f9106e7299-c", Some(0))]
    #[case("tfstate-default-f66792f9106e7299-c-part-1", Some(1))]
    #[case("tfstate-default-f66792f9106e7299-c-part-31", Some(31))]
    #[case("tfstate-default-f66792f9106e7299-c-part-0", None)]
    #[case("tfstate-default-f66792f9106e7299-c-part-01", None)]
    #[case("tfstate-default-f66792f9106e7299-c-part-+1", None)]
    #[case("tfstate-default-f66792f9106e7299-c-part-", None)]
    #[case("tfstate-default-f66792f9106e7299-c-copy", None)]
    #[case("something-else", None)]
    fn chunk_names_are_canonical(#[case] name: &str, #[case] expected: Option<usize>) {
        let suffix = Suffix::new("team-a", Kind::TerraformCluster, "prod");
        assert_eq!(chunk_index(&suffix, name), expected);
    }
}
