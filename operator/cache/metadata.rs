//! Kinds of which only metadata is wanted: Secrets and ConfigMaps, whose data must not be held here,
//! and Namespaces (manager.md §4).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::owner::owners_of_secret;
use super::store::{Change, Store};
use crate::names::{Kind, ObjectKey};
use crate::operator::watch::{LeanMeta, Wire};

/// Label of a credential mirror.
const MIRRORED: &str = "captf.io/mirrored";

/// Metadata of a `K`; the API server never sends the rest.
#[derive(Deserialize)]
#[serde(bound = "")]
pub struct MetadataOf<K> {
    /// Metadata without managedFields.
    #[serde(deserialize_with = "LeanMeta::deserialize_meta")]
    pub metadata: ObjectMeta,
    #[serde(skip)]
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for MetadataOf<K> {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for MetadataOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetadataOf").field(&self.metadata).finish()
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Wire for MetadataOf<K> {
    type Kind = K;
    type View = Self;
    const METADATA_ONLY: bool = true;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn view(self) -> Self {
        self
    }
}

/// Metadata of the Secrets this manager owns.
pub type SecretStore = Store<MetadataOf<Secret>>;
/// Metadata of the ConfigMaps that `variablesFrom` may name.
pub type ConfigMapStore = Store<MetadataOf<ConfigMap>>;
/// Namespaces with their labels.
pub type NamespaceStore = Store<MetadataOf<Namespace>>;

/// The objects of `kind` that a change of a managed Secret wakes: its owners; for a credential mirror
/// only when it is gone (lifecycle.md §16).
pub(super) fn owners(change: &Change<MetadataOf<Secret>>, kind: Kind) -> Vec<ObjectKey> {
    let metadata = &change.latest().metadata;
    let is_mirror = metadata.labels.as_ref().is_some_and(|labels| labels.get(MIRRORED).is_some_and(|value| value == "true"));
    if is_mirror && !change.is_deletion() {
        return vec![];
    }
    owners_of_secret(metadata).into_iter().filter(|owner| owner.kind == kind).collect()
}

/// The namespace whose labels a change gave or took, which decides what identities allow.
pub(super) fn relabelled(change: &Change<MetadataOf<Namespace>>) -> Option<String> {
    let changed = match change {
        Change::Added(_) => true,
        Change::Updated { old, new } => old.metadata.labels != new.metadata.labels,
        Change::Deleted(_) => false,
    };
    changed.then(|| change.latest().metadata.name.clone()).flatten()
}

/// The same metadata under an [`Arc`], for tests of mappings.
#[cfg(test)]
pub(super) fn metadata_of<K>(metadata: ObjectMeta) -> Arc<MetadataOf<K>> {
    Arc::new(MetadataOf { metadata, kind: PhantomData })
}
