//! Our own kinds, held as they are.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

use crate::operator::watch::Wire;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A whole `K`, without what no decision reads: managedFields and the last applied configuration.
#[derive(Debug, Clone)]
pub struct Typed<K>(K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Typed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(deserializer).map(Self)
    }
}

impl<K> Wire for Typed<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static,
{
    type Kind = K;
    type View = K;

    fn metadata(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }

    fn view(mut self) -> K {
        let metadata = self.0.meta_mut();
        metadata.managed_fields = None;
        if let Some(annotations) = &mut metadata.annotations {
            annotations.remove(LAST_APPLIED);
        }
        self.0
    }
}
