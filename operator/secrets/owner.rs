//! The object that Secrets belong to, and its owner reference.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::api::{GROUP, VERSION};
use crate::names::ObjectKey;

/// The workload object whose Secrets are meant: its lasting identity and its present UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Kind, namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid` of the object as it exists now.
    pub uid: String,
}

impl Owner {
    /// Names the object.
    pub fn new(key: ObjectKey, uid: impl Into<String>) -> Self {
        Self {
            key,
            uid: uid.into(),
        }
    }

    /// The namespace of the object and of everything it owns.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.key.namespace
    }

    /// The reference put on Secrets: neither `controller` nor `blockOwnerDeletion` is set
    /// (state-secrets.md §5, §6).
    #[must_use]
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.key.kind.as_str().to_owned(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    /// The reference of one user among several of a shared Secret (state-secrets.md §10).
    #[must_use]
    pub fn user_reference(&self) -> OwnerReference {
        OwnerReference {
            block_owner_deletion: Some(false),
            ..self.reference()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    fn owner(name: &str, uid: &str) -> Owner {
        Owner::new(ObjectKey::new(Kind::TerraformMachine, "team-a", name), uid)
    }

    #[test]
    fn the_reference_neither_controls_nor_blocks() {
        let reference = owner("m1", "u1").reference();
        assert_eq!(
            serde_json::json!(reference),
            serde_json::json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
                "kind": "TerraformMachine",
                "name": "m1",
                "uid": "u1"
            })
        );
    }

    #[test]
    fn a_user_of_a_shared_secret_says_that_it_does_not_block() {
        assert_eq!(
            owner("m1", "u1").user_reference().block_owner_deletion,
            Some(false)
        );
    }
}
