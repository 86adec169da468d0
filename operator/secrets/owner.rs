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

    /// Whether `reference` names this object or an earlier one of the same group, kind and name.
    #[must_use]
    pub fn is_named_by(&self, reference: &OwnerReference) -> bool {
        let group = reference
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        group == GROUP
            && reference.kind == self.key.kind.as_str()
            && reference.name == self.key.name
    }
}

/// `references` with exactly one reference to `owner`, or `None` when they are right already: one to
/// an earlier UID is replaced in place, a missing one is added, others stay (state-secrets.md S-24,
/// S-37).
#[must_use]
pub fn with_owner(references: &[OwnerReference], owner: &Owner) -> Option<Vec<OwnerReference>> {
    with_reference(references, owner, owner.reference())
}

/// As [`with_owner`], for a Secret that several objects use.
#[must_use]
pub fn with_user(references: &[OwnerReference], owner: &Owner) -> Option<Vec<OwnerReference>> {
    with_reference(references, owner, owner.user_reference())
}

fn with_reference(
    references: &[OwnerReference],
    owner: &Owner,
    wanted: OwnerReference,
) -> Option<Vec<OwnerReference>> {
    let mut found = references
        .iter()
        .filter(|reference| owner.is_named_by(reference));
    if found.next().is_some_and(|first| first.uid == owner.uid) && found.next().is_none() {
        return None;
    }
    let mut result = Vec::with_capacity(references.len() + 1);
    let mut unplaced = Some(wanted);
    for reference in references {
        if owner.is_named_by(reference) {
            result.extend(unplaced.take());
        } else {
            result.push(reference.clone());
        }
    }
    result.extend(unplaced);
    Some(result)
}

/// `references` without those to `owner`, or `None` when there is none.
#[must_use]
pub fn without_owner(references: &[OwnerReference], owner: &Owner) -> Option<Vec<OwnerReference>> {
    references
        .iter()
        .any(|reference| owner.is_named_by(reference))
        .then(|| {
            references
                .iter()
                .filter(|reference| !owner.is_named_by(reference))
                .cloned()
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    fn owner(name: &str, uid: &str) -> Owner {
        Owner::new(ObjectKey::new(Kind::TerraformMachine, "team-a", name), uid)
    }

    fn uids(references: &[OwnerReference]) -> Vec<&str> {
        references
            .iter()
            .map(|reference| reference.uid.as_str())
            .collect()
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
    fn an_earlier_uid_is_replaced_in_place_and_others_stay() {
        let before = [
            owner("a", "1").reference(),
            owner("b", "old").reference(),
            owner("c", "3").reference(),
        ];
        let after = with_owner(&before, &owner("b", "new")).unwrap_or_default();
        assert_eq!(uids(&after), ["1", "new", "3"]);
    }

    #[test]
    fn a_missing_reference_is_added_last() {
        let after =
            with_owner(&[owner("a", "1").reference()], &owner("b", "2")).unwrap_or_default();
        assert_eq!(uids(&after), ["1", "2"]);
    }

    #[test]
    fn a_right_reference_needs_no_write() {
        assert_eq!(
            with_owner(&[owner("a", "1").reference()], &owner("a", "1")),
            None
        );
    }

    #[test]
    fn a_second_reference_to_an_earlier_uid_is_dropped() {
        let before = [owner("a", "2").reference(), owner("a", "1").reference()];
        let after = with_owner(&before, &owner("a", "2")).unwrap_or_default();
        assert_eq!(uids(&after), ["2"]);
    }

    #[test]
    fn another_group_of_the_same_kind_and_name_is_somebody_else() {
        let mut other = owner("a", "1").reference();
        other.api_version = "example.com/v1".to_owned();
        assert!(!owner("a", "1").is_named_by(&other));
        assert_eq!(without_owner(&[other], &owner("a", "1")), None);
    }

    #[test]
    fn another_version_of_our_group_is_the_same_object() {
        let mut other = owner("a", "1").reference();
        other.api_version = "infrastructure.cluster.x-k8s.io/v1beta9".to_owned();
        assert_eq!(without_owner(&[other], &owner("a", "1")), Some(Vec::new()));
    }
}
