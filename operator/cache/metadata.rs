//! Kinds of which only metadata is wanted: Secrets and ConfigMaps, whose data must not be held here,
//! and Namespaces (manager.md §4).

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::store::Store;
use crate::operator::watch::{LeanMeta, Wire};

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

impl<K> MetadataOf<K> {
    /// Wraps metadata.
    #[must_use]
    pub fn new(metadata: ObjectMeta) -> Self {
        Self {
            metadata,
            kind: PhantomData,
        }
    }
}

impl<K> Clone for MetadataOf<K> {
    fn clone(&self) -> Self {
        Self::new(self.metadata.clone())
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

/// Metadata of Secrets.
pub type SecretStore = Store<MetadataOf<Secret>>;
/// Metadata of ConfigMaps.
pub type ConfigMapStore = Store<MetadataOf<ConfigMap>>;
/// Namespaces with their labels.
pub type NamespaceStore = Store<MetadataOf<Namespace>>;
