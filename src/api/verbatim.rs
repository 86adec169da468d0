//! Embedded Kubernetes values that are kept exactly as the user wrote them (engineering.md §4.5).

use std::{borrow::Cow, fmt, marker::PhantomData};

use k8s_openapi::api::core::v1::{EnvVar, LocalObjectReference};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;

use super::embedded;

/// A value of the Kubernetes type `K`, kept as the JSON that was read.
///
/// The compiled `K` may know fewer fields than the API server; decoding into it and writing it back
/// would drop them. So the JSON is what is stored, compared and written, while the schema in the
/// CRD is the full one of `K`.
pub struct Verbatim<K> {
    json: Value,
    kind: PhantomData<fn() -> K>,
}

impl<K> Verbatim<K> {
    /// Wraps JSON that is meant to be a `K`.
    #[must_use]
    pub const fn new(json: Value) -> Self {
        Self {
            json,
            kind: PhantomData,
        }
    }

    /// The JSON as read.
    #[must_use]
    pub const fn json(&self) -> &Value {
        &self.json
    }
}

impl<K: DeserializeOwned> Verbatim<K> {
    /// The value as the compiled type, without the fields this version does not know.
    ///
    /// # Errors
    /// When the JSON is not a `K`; the API server's schema check rules that out for stored objects.
    pub fn decode(&self) -> Result<K, serde_json::Error> {
        K::deserialize(&self.json)
    }
}

/// Kubernetes types that are identified by their `name`.
pub trait Named {}
impl Named for EnvVar {}
impl Named for LocalObjectReference {}

impl<K: Named> Verbatim<K> {
    /// The `name`, `""` when there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.json
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

impl<K> Clone for Verbatim<K> {
    fn clone(&self) -> Self {
        Self::new(self.json.clone())
    }
}

impl<K> fmt::Debug for Verbatim<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json.fmt(f)
    }
}

impl<K> PartialEq for Verbatim<K> {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl<K> Serialize for Verbatim<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

impl<'de, K> Deserialize<'de> for Verbatim<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::new)
    }
}

impl<K: JsonSchema> JsonSchema for Verbatim<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        K::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        embedded::schema::<K>(generator)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::api::core::v1::SecurityContext;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_unknown_to_the_compiled_type_survive() {
        let written = json!({ "runAsNonRoot": true, "fieldOfANewerKubernetes": { "a": 1 } });
        let read: Verbatim<SecurityContext> = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        assert_eq!(read.decode().unwrap().run_as_non_root, Some(true));
    }
}
