//! Merge patches of Secrets that hold only while the Secret still is what was read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

/// A merge patch of one Secret, locked to the resourceVersion that was read: keys it does not name
/// stay as they are, so what other versions or people wrote survives (annotations-labels.md B13).
#[derive(Clone, Default)]
pub struct SecretPatch {
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    data: Map<String, Value>,
    owner_references: Option<Value>,
    finalizers: Option<Value>,
}

impl SecretPatch {
    /// A patch that changes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    /// Removes a label.
    #[must_use]
    pub fn without_label(mut self, key: &str) -> Self {
        self.labels.insert(key.to_owned(), Value::Null);
        self
    }

    /// Sets an annotation, or removes it when there is no value.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: Option<&str>) -> Self {
        self.annotations
            .insert(key.to_owned(), value.map_or(Value::Null, Value::from));
        self
    }

    /// Sets a data key, or removes it when there is no value.
    #[must_use]
    pub fn data(mut self, key: &str, value: Option<&[u8]>) -> Self {
        self.data.insert(
            key.to_owned(),
            value.map_or(Value::Null, |bytes| STANDARD.encode(bytes).into()),
        );
        self
    }

    /// Replaces the owner references; `None` leaves them.
    #[must_use]
    pub fn owner_references(mut self, references: Option<&[OwnerReference]>) -> Self {
        if let Some(references) = references {
            self.owner_references = Some(json!(references));
        }
        self
    }

    /// Replaces the finalizers; `None` leaves them.
    #[must_use]
    pub fn finalizers(mut self, finalizers: Option<&[String]>) -> Self {
        if let Some(finalizers) = finalizers {
            self.finalizers = Some(json!(finalizers));
        }
        self
    }

    /// Nothing would be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
            && self.annotations.is_empty()
            && self.data.is_empty()
            && self.owner_references.is_none()
            && self.finalizers.is_none()
    }

    /// The body of the request, conditional on the resourceVersion of `read`.
    #[must_use]
    pub fn body(self, read: &ObjectMeta) -> Value {
        let mut metadata = Map::new();
        // An empty resourceVersion would make the patch unconditional; this word is refused instead.
        let version = read
            .resource_version
            .as_deref()
            .filter(|version| !version.is_empty());
        metadata.insert(
            "resourceVersion".to_owned(),
            version.unwrap_or("unread").into(),
        );
        for (field, map) in [("labels", self.labels), ("annotations", self.annotations)] {
            if !map.is_empty() {
                metadata.insert(field.to_owned(), Value::Object(map));
            }
        }
        if let Some(references) = self.owner_references {
            metadata.insert("ownerReferences".to_owned(), references);
        }
        if let Some(finalizers) = self.finalizers {
            metadata.insert("finalizers".to_owned(), finalizers);
        }
        let mut body = Map::new();
        body.insert("metadata".to_owned(), Value::Object(metadata));
        if !self.data.is_empty() {
            body.insert("data".to_owned(), Value::Object(self.data));
        }
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: &str) -> ObjectMeta {
        ObjectMeta {
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_patch_names_the_version_read_and_only_what_it_changes() {
        let body = SecretPatch::new()
            .annotation("captf.io/applied", Some("true"))
            .annotation("captf.io/may-have-applied", None)
            .data("main.tf.json", Some(b"{}"))
            .data("stray", None)
            .body(&read("7"));
        assert_eq!(
            body,
            json!({
                "metadata": {
                    "resourceVersion": "7",
                    "annotations": {"captf.io/applied": "true", "captf.io/may-have-applied": null}
                },
                "data": {"main.tf.json": "e30=", "stray": null}
            })
        );
    }

    #[test]
    fn a_patch_of_something_never_read_cannot_be_unconditional() {
        for meta in [ObjectMeta::default(), read("")] {
            let body = SecretPatch::new().label("a", "b").body(&meta);
            assert_eq!(body["metadata"]["resourceVersion"], "unread");
        }
    }

    #[test]
    fn no_change_is_recognised() {
        assert!(
            SecretPatch::new()
                .owner_references(None)
                .finalizers(None)
                .is_empty()
        );
        assert!(!SecretPatch::new().finalizers(Some(&[])).is_empty());
    }
}
