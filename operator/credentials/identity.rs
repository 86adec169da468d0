//! Which credentials an object uses.

use crate::api::{IdentityKind, IdentityRef};

/// Credentials by reference: a cluster-wide identity whose Secret is mirrored, or a Secret of the
/// object's own namespace (api.md §3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A `TerraformClusterIdentity` of this name.
    Cluster(String),
    /// A Secret of this name in the object's namespace, mounted as it is.
    Secret(String),
}

impl Identity {
    /// The first reference that is set: own, else the cluster's `spec.defaults.identityRef`, else the
    /// cluster's own `spec.identityRef` (lifecycle.md §2). A `TerraformCluster` has only its own.
    #[must_use]
    pub fn effective<'a>(
        candidates: impl IntoIterator<Item = Option<&'a IdentityRef>>,
    ) -> Option<Self> {
        candidates.into_iter().flatten().next().map(Self::from)
    }

    /// What a record says: the name, and the kind only when it is `Secret`.
    #[must_use]
    pub fn recorded(name: Option<&str>, kind: Option<&str>) -> Option<Self> {
        let name = name.filter(|name| !name.is_empty())?.to_owned();
        Some(if kind == Some(IdentityKind::Secret.as_str()) {
            Self::Secret(name)
        } else {
            Self::Cluster(name)
        })
    }

    /// Name of the identity, or of the Secret.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Cluster(name) | Self::Secret(name) => name,
        }
    }

    /// The value of `captf.io/identity-kind`; absent for a cluster-wide identity.
    #[must_use]
    pub fn recorded_kind(&self) -> Option<&'static str> {
        matches!(self, Self::Secret(_)).then_some("Secret")
    }
}

impl From<&IdentityRef> for Identity {
    /// An unset kind, and one of a newer version, is a cluster-wide identity (api.md §3, §12).
    fn from(reference: &IdentityRef) -> Self {
        match reference.kind {
            Some(IdentityKind::Secret) => Self::Secret(reference.name.clone()),
            _ => Self::Cluster(reference.name.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: Option<IdentityKind>, name: &str) -> IdentityRef {
        IdentityRef {
            kind,
            name: name.to_owned(),
        }
    }

    #[test]
    fn own_comes_before_defaults_before_the_clusters_own() {
        let (own, defaults, cluster) = (
            reference(None, "own"),
            reference(Some(IdentityKind::Secret), "defaults"),
            reference(None, "cluster"),
        );
        let effective = |own, defaults| Identity::effective([own, defaults, Some(&cluster)]);
        assert_eq!(
            effective(Some(&own), Some(&defaults)),
            Some(Identity::Cluster("own".to_owned()))
        );
        assert_eq!(
            effective(None, Some(&defaults)),
            Some(Identity::Secret("defaults".to_owned()))
        );
        assert_eq!(
            effective(None, None),
            Some(Identity::Cluster("cluster".to_owned()))
        );
        assert_eq!(Identity::effective([None, None]), None);
    }

    #[test]
    fn a_record_without_a_kind_means_a_cluster_identity() {
        assert_eq!(
            Identity::recorded(Some("aws"), None),
            Some(Identity::Cluster("aws".to_owned()))
        );
        assert_eq!(
            Identity::recorded(Some("aws"), Some("Secret")),
            Some(Identity::Secret("aws".to_owned()))
        );
        assert_eq!(Identity::recorded(Some(""), None), None);
    }
}
