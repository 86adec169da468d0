//! From an object we made to the object it is for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api;
use crate::names::{Kind, ObjectKey, key};

/// The object that controls this one, when it is of one of our kinds.
pub(super) fn controlled_by(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let owners = metadata.owner_references.iter().flatten();
    owners
        .filter(|owner| owner.controller == Some(true))
        .find_map(|owner| owned(metadata, owner))
}

/// Whom a managed Secret is for: every owner of our group; without one, the object its owner labels
/// name, which cannot be a name longer than a label value (lifecycle.md §16).
pub(super) fn owners_of_secret(metadata: &ObjectMeta) -> Vec<ObjectKey> {
    let owners: Vec<ObjectKey> = metadata
        .owner_references
        .iter()
        .flatten()
        .filter_map(|owner| owned(metadata, owner))
        .collect();
    if owners.is_empty() {
        labelled(metadata).into_iter().collect()
    } else {
        owners
    }
}

fn owned(metadata: &ObjectMeta, owner: &OwnerReference) -> Option<ObjectKey> {
    let (group, _) = owner.api_version.split_once('/')?;
    let kind: Kind = owner.kind.parse().ok()?;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    (group == api::GROUP).then(|| ObjectKey::new(kind, namespace, owner.name.clone()))
}

fn labelled(metadata: &ObjectMeta) -> Option<ObjectKey> {
    let labels = metadata.labels.as_ref()?;
    let kind: Kind = labels.get(key::OWNER_KIND)?.parse().ok()?;
    let name = labels
        .get(key::OWNER_NAME)
        .filter(|name| !name.is_empty())?;
    Some(ObjectKey::new(
        kind,
        metadata.namespace.clone().unwrap_or_default(),
        name.clone(),
    ))
}
