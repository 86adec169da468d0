//! Whose state it is: owner references, the inputs hash of the last successful apply, the protection
//! finalizer, and what an earlier object left behind (state-secrets.md §5.3, §6, §7).

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

use super::secret::SecretMeta;
use crate::names::InputsHash;

/// Annotation of the base state Secret: hash of the inputs of the apply that made this state. Its
/// presence is the proof that an apply succeeded (S-6).
pub const INPUTS_HASH_ANNOTATION: &str = "captf.io/inputs-hash";

/// Finalizer that keeps the base state Secret readable while its object waits for destroy (S-21).
pub const PROTECTION_FINALIZER: &str = "captf.io/state-protection";

/// Label of Secrets that an earlier object of the same name left behind: that object's UID.
const RETAINED_FROM_UID: &str = "captf.io/retained-from-uid";

/// A guarded merge patch of one Secret.
pub type SecretPatch = (String, Value);

/// What adopting the state after a successful apply or restore writes: the owner reference on every
/// chunk; on the base Secret (the first) also the inputs hash and the protection finalizer. An empty
/// hash removes the annotation (a restored backup without one). Chunks that are right already get no
/// patch, so a repeated adoption writes nothing (state-secrets.md §6).
#[must_use]
pub fn adoption_patches(
    chunks: &[SecretMeta],
    owner: &OwnerReference,
    hash: &InputsHash,
) -> Vec<SecretPatch> {
    patches(chunks, owner, Some(hash))
}

/// What repairs owner references that are missing or name an earlier UID of the object, for chunks
/// that a refresh or drift check wrote (S-24). The event is `OwnerReferencesRepaired`.
#[must_use]
pub fn owner_patches(chunks: &[SecretMeta], owner: &OwnerReference) -> Vec<SecretPatch> {
    patches(chunks, owner, None)
}

fn patches(
    chunks: &[SecretMeta],
    owner: &OwnerReference,
    hash: Option<&InputsHash>,
) -> Vec<SecretPatch> {
    chunks
        .iter()
        .enumerate()
        .filter_map(|(index, chunk)| patch(chunk, owner, hash.filter(|_| index == 0)))
        .collect()
}

fn patch(
    chunk: &SecretMeta,
    owner: &OwnerReference,
    hash: Option<&InputsHash>,
) -> Option<SecretPatch> {
    let mut changes = Map::new();
    if let Some(owners) = with_owner(&chunk.owners, owner) {
        changes.insert("ownerReferences".to_owned(), json!(owners));
    }
    if let Some(hash) = hash {
        let recorded = chunk.annotations.get(INPUTS_HASH_ANNOTATION);
        let wanted = (!hash.is_empty()).then(|| hash.as_str());
        if recorded.map(String::as_str) != wanted {
            let annotation = json!({INPUTS_HASH_ANNOTATION: wanted});
            changes.insert("annotations".to_owned(), annotation);
        }
        // The API server refuses a new finalizer on an object that is being deleted (S-22).
        let protected = chunk
            .finalizers
            .iter()
            .any(|name| name == PROTECTION_FINALIZER);
        if !protected && !chunk.deleting {
            let mut finalizers = chunk.finalizers.clone();
            finalizers.push(PROTECTION_FINALIZER.to_owned());
            changes.insert("finalizers".to_owned(), json!(finalizers));
        }
    }
    if changes.is_empty() {
        return None;
    }
    changes.insert("uid".to_owned(), json!(chunk.uid));
    changes.insert("resourceVersion".to_owned(), json!(chunk.resource_version));
    Some((chunk.name.clone(), json!({"metadata": changes})))
}

/// The owner references with `owner` among them, `None` when it is there already. One of the same
/// group, kind and name with an earlier UID is replaced in place; others stay (state-secrets.md §6,
/// S-37).
#[must_use]
pub fn with_owner(
    owners: &[OwnerReference],
    owner: &OwnerReference,
) -> Option<Vec<OwnerReference>> {
    let mut owners = owners.to_vec();
    match owners.iter_mut().find(|other| same_object(other, owner)) {
        Some(present) if present.uid == owner.uid => return None,
        Some(earlier) => *earlier = owner.clone(),
        None => owners.push(owner.clone()),
    }
    Some(owners)
}

/// The owner references without `owner` and earlier objects of its group, kind and name; `None` when
/// none of them is there.
#[must_use]
pub fn without_owner(
    owners: &[OwnerReference],
    owner: &OwnerReference,
) -> Option<Vec<OwnerReference>> {
    let others: Vec<_> = owners
        .iter()
        .filter(|other| !same_object(other, owner))
        .cloned()
        .collect();
    (others.len() < owners.len()).then_some(others)
}

/// The UID apart: an object that was moved or restored keeps its name and gets a new UID.
fn same_object(one: &OwnerReference, other: &OwnerReference) -> bool {
    group(one) == group(other) && one.kind == other.kind && one.name == other.name
}

fn group(owner: &OwnerReference) -> &str {
    owner.api_version.split('/').next().unwrap_or_default()
}

/// The UID of an earlier object whose state this is: a Secret carries `captf.io/retained-from-uid`
/// with another UID than the object's own. Such a state is held until it is adopted or deleted
/// (state-secrets.md §7).
#[must_use]
pub fn retained_from<'a>(
    secrets: impl IntoIterator<Item = &'a SecretMeta>,
    own_uid: &str,
) -> Option<&'a str> {
    secrets
        .into_iter()
        .filter_map(|secret| secret.labels.get(RETAINED_FROM_UID))
        .map(String::as_str)
        .find(|uid| *uid != own_uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "infrastructure.cluster.x-k8s.io/v1alpha1".into(),
            kind: "TerraformCluster".into(),
            name: "prod".into(),
            uid: uid.into(),
            ..OwnerReference::default()
        }
    }

    fn chunk(name: &str) -> SecretMeta {
        SecretMeta {
            name: name.into(),
            uid: format!("u-{name}"),
            resource_version: "7".into(),
            ..SecretMeta::default()
        }
    }

    #[test]
    fn adoption_marks_the_base_and_owns_every_chunk() {
        let patches = adoption_patches(
            &[chunk("base"), chunk("part")],
            &owner("o"),
            &InputsHash::new("h2:a"),
        );
        let reference = json!([{
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "TerraformCluster",
            "name": "prod",
            "uid": "o",
        }]);
        assert_eq!(
            patches,
            [
                (
                    "base".to_owned(),
                    json!({"metadata": {
                        "uid": "u-base",
                        "resourceVersion": "7",
                        "ownerReferences": reference,
                        "annotations": {"captf.io/inputs-hash": "h2:a"},
                        "finalizers": ["captf.io/state-protection"],
                    }})
                ),
                (
                    "part".to_owned(),
                    json!({"metadata": {
                        "uid": "u-part",
                        "resourceVersion": "7",
                        "ownerReferences": reference,
                    }})
                ),
            ]
        );
    }

    #[test]
    fn adoption_is_idempotent() {
        let mut base = chunk("base");
        base.owners = vec![owner("o")];
        base.finalizers = vec![PROTECTION_FINALIZER.into()];
        base.annotations
            .insert(INPUTS_HASH_ANNOTATION.into(), "h2:a".into());
        assert_eq!(
            adoption_patches(&[base], &owner("o"), &InputsHash::new("h2:a")),
            []
        );
    }

    #[test]
    fn s22_no_finalizer_on_a_secret_that_is_being_deleted() {
        let mut base = chunk("base");
        base.deleting = true;
        let patches = adoption_patches(&[base], &owner("o"), &InputsHash::new("h2:a"));
        assert_eq!(patches[0].1["metadata"].get("finalizers"), None);
    }

    #[test]
    fn a_restore_of_a_backup_without_a_hash_removes_the_hash() {
        let mut base = chunk("base");
        base.annotations
            .insert(INPUTS_HASH_ANNOTATION.into(), "h2:a".into());
        let patches = adoption_patches(&[base], &owner("o"), &InputsHash::default());
        assert_eq!(
            patches[0].1["metadata"]["annotations"],
            json!({"captf.io/inputs-hash": null})
        );
    }

    #[test]
    fn s24_an_earlier_uid_is_replaced_in_place_and_others_stay() {
        let other = OwnerReference {
            name: "other".into(),
            ..owner("x")
        };
        let mut moved = chunk("base");
        moved.owners = vec![owner("old"), other.clone()];
        moved.owners[0].api_version = "infrastructure.cluster.x-k8s.io/v1beta1".into();
        let patches = owner_patches(&[moved], &owner("new"));
        assert_eq!(
            patches[0].1["metadata"]["ownerReferences"],
            json!([owner("new"), other])
        );
        assert_eq!(patches[0].1["metadata"].get("annotations"), None);
    }

    #[test]
    fn a_state_retained_from_another_uid_is_found() {
        let mut kept = chunk("base");
        kept.labels
            .insert(RETAINED_FROM_UID.into(), "earlier".into());
        assert_eq!(retained_from([&kept], "mine"), Some("earlier"));
        assert_eq!(retained_from([&kept], "earlier"), None);
        assert_eq!(retained_from([&chunk("base")], "mine"), None);
    }
}
