//! The Secret an identity names: read live, never written.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;

use crate::api::TerraformClusterIdentity;
use crate::client::{Access, ApiError};
use crate::operator::secrets::secrets;

/// The data of a credentials Secret. `Debug` shows its keys only.
pub struct Data(BTreeMap<String, ByteString>);

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl std::ops::Deref for Data {
    type Target = BTreeMap<String, ByteString>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// What the Secret of an identity holds (conditions-events.md §3.2, §3.4).
#[derive(Debug)]
pub enum SourceCheck {
    /// Every required key.
    Found(Data),
    /// It does not exist.
    Missing,
    /// It lacks these required keys.
    Incomplete(Vec<String>),
}

impl SourceCheck {
    /// What a person is told; empty when nothing is wrong.
    #[must_use]
    pub fn message(&self, identity: &TerraformClusterIdentity) -> String {
        let secret = &identity.spec.secret_ref;
        match self {
            Self::Found(_) => String::new(),
            Self::Missing => format!("Secret {}/{} does not exist", secret.namespace, secret.name),
            Self::Incomplete(keys) => {
                format!(
                    "Secret {}/{} lacks the required keys {}",
                    secret.namespace,
                    secret.name,
                    keys.join(", ")
                )
            }
        }
    }
}

/// Reads the Secret that `identity` names.
///
/// # Errors
/// When the read fails.
pub async fn check_source(
    access: &Access,
    identity: &TerraformClusterIdentity,
) -> Result<SourceCheck, ApiError> {
    let reference = &identity.spec.secret_ref;
    let Some(secret) = access
        .get(&secrets(access, &reference.namespace), &reference.name)
        .await?
    else {
        return Ok(SourceCheck::Missing);
    };
    Ok(complete(
        secret.data.unwrap_or_default(),
        &identity.spec.required_keys,
    ))
}

fn complete(data: BTreeMap<String, ByteString>, required: &[String]) -> SourceCheck {
    let lacking: Vec<String> = required
        .iter()
        .filter(|key| !data.contains_key(*key))
        .cloned()
        .collect();
    if lacking.is_empty() {
        SourceCheck::Found(Data(data))
    } else {
        SourceCheck::Incomplete(lacking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lacking_key_is_named_and_no_value() {
        let data = BTreeMap::from([("a".to_owned(), ByteString(b"s3cret".to_vec()))]);
        let required = ["a", "b", "c"].map(str::to_owned);
        let check = complete(data, &required);
        assert!(matches!(&check, SourceCheck::Incomplete(keys) if *keys == ["b", "c"]));
    }

    #[test]
    fn debug_shows_keys_and_no_value() {
        let data = BTreeMap::from([("a".to_owned(), ByteString(b"s3cret".to_vec()))]);
        assert_eq!(format!("{:?}", complete(data, &[])), r#"Found({"a"})"#);
    }
}
