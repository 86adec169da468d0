//! Decoding one object at a time, and only what is kept of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::value::RawValue;

use crate::operator::cache::Name;

/// What is decoded of a kind, and what of that is kept.
pub trait Wire: DeserializeOwned + Clone + Debug + Send + 'static {
    /// The kind that is watched.
    type Kind: Resource<DynamicType = ()>;
    /// What a store keeps.
    type View: Send + Sync + 'static;
    /// Whether the API server should send metadata only.
    const METADATA_ONLY: bool = false;

    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// The object's metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// What is kept of the object.
    fn view(self) -> Self::View;
}

/// An object that its type cannot hold.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{kind} {}/{}: {error}", self.name().namespace, self.name().name)]
pub struct Undecodable {
    /// The kind, such as `TerraformCluster`.
    pub kind: String,
    /// What is known of its metadata.
    pub metadata: ObjectMeta,
    /// Why it does not decode.
    pub error: String,
}

impl Undecodable {
    /// Namespace and name, empty where even they do not decode.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::of(&self.metadata)
    }
}

/// An object, or why it does not decode: one broken object must not stop a list or a watch.
#[derive(Debug, Clone)]
pub struct Guarded<W>(Result<W, Box<Undecodable>>);

impl<W: Wire> Guarded<W> {
    /// Namespace and name.
    #[must_use]
    pub fn name(&self) -> Name {
        Name::of(self.meta())
    }

    /// The object.
    ///
    /// # Errors
    /// What is known of an object that does not decode.
    pub fn decoded(self) -> Result<W, Box<Undecodable>> {
        self.0
    }
}

impl<'de, W: Wire> Deserialize<'de> for Guarded<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OnlyMetadata {
            #[serde(deserialize_with = "lean")]
            metadata: ObjectMeta,
        }
        // The raw text is held instead of a tree: a tree of managedFields is ten times as large.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(raw.get()).map_err(|error| {
            let metadata = serde_json::from_str::<OnlyMetadata>(raw.get())
                .map(|only| only.metadata)
                .unwrap_or_default();
            let kind = W::Kind::kind(&()).into_owned();
            Box::new(Undecodable {
                kind,
                metadata,
                error: error.to_string(),
            })
        })))
    }
}

impl<W: Wire> Resource for Guarded<W> {
    type DynamicType = ();
    type Scope = <W::Kind as Resource>::Scope;

    fn kind(_: &()) -> Cow<'_, str> {
        W::Kind::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        W::Kind::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        W::Kind::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        W::Kind::plural(&())
    }

    fn metadata_api() -> bool {
        W::METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(wire) => wire.metadata(),
            Err(object) => &object.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(wire) => wire.metadata_mut(),
            Err(object) => &mut object.metadata,
        }
    }
}

/// The metadata that decisions read; managedFields are never built (engineering.md §7.3).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeanMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

impl LeanMeta {
    /// For `#[serde(deserialize_with = "LeanMeta::deserialize_meta")]` on a field of type [`ObjectMeta`].
    ///
    /// # Errors
    /// When a field has another type than Kubernetes gives it.
    pub fn deserialize_meta<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<ObjectMeta, D::Error> {
        Ok(Self::deserialize(deserializer)?.into())
    }
}

fn lean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    LeanMeta::deserialize_meta(deserializer)
}

impl From<LeanMeta> for ObjectMeta {
    fn from(lean: LeanMeta) -> Self {
        Self {
            name: lean.name,
            namespace: lean.namespace,
            uid: lean.uid,
            resource_version: lean.resource_version,
            generation: lean.generation,
            creation_timestamp: lean.creation_timestamp,
            deletion_timestamp: lean.deletion_timestamp,
            labels: lean.labels,
            annotations: lean.annotations,
            owner_references: lean.owner_references,
            finalizers: lean.finalizers,
            ..Self::default()
        }
    }
}
