//! Schemas of embedded Kubernetes types, as the API server would want them (api.md §4, §15.7, §15.8).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// How server-side apply merges a list or an object.
enum Merge {
    /// The list is replaced as a whole.
    AtomicList,
    /// The object is replaced as a whole.
    AtomicMap,
    /// Items of the list are matched by this property.
    ListBy(&'static str),
}

/// The full schema of the Kubernetes type `K`: with the list and map types and the defaults that
/// the compiled schema leaves out, and without its long descriptions.
pub(crate) fn schema<K: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = K::json_schema(generator).to_value();
    complete(&mut schema, &K::schema_name());
    Schema::try_from(schema).unwrap_or_default()
}

/// Completes a schema found below the property called `name`, or of the type called `name`.
fn complete(schema: &mut Value, name: &str) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    object.remove("description");
    match merge(name) {
        Some(Merge::AtomicList) => {
            object.insert("x-kubernetes-list-type".to_owned(), json!("atomic"));
        }
        Some(Merge::AtomicMap) => {
            object.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        }
        Some(Merge::ListBy(key)) => {
            object.insert("x-kubernetes-list-type".to_owned(), json!("map"));
            object.insert("x-kubernetes-list-map-keys".to_owned(), json!([key]));
        }
        None => {}
    }
    if let Some((property, default)) = default(name) {
        set_default(object, property, default);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = object.get_mut(keyword) {
            complete(child, "");
        }
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        for (name, child) in properties {
            complete(child, name);
        }
    }
}

/// The merge rules of the types that are embedded, by property or type name.
fn merge(name: &str) -> Option<Merge> {
    Some(match name {
        "add" | "drop" | "supplementalGroups" | "sysctls" | "matchExpressions" | "values" => {
            Merge::AtomicList
        }
        "claims" => Merge::ListBy("name"),
        "configMapKeyRef"
        | "fieldRef"
        | "fileKeyRef"
        | "resourceFieldRef"
        | "secretKeyRef"
        | "io.k8s.api.core.v1.LocalObjectReference"
        | "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector" => Merge::AtomicMap,
        _ => return None,
    })
}

/// The property with a default that an object has, by property or type name: the only defaults of
/// the whole API (api.md §2.2).
fn default(name: &str) -> Option<(&'static str, Value)> {
    match name {
        "configMapKeyRef" | "secretKeyRef" | "io.k8s.api.core.v1.LocalObjectReference" => {
            Some(("name", json!("")))
        }
        "fileKeyRef" => Some(("optional", json!(false))),
        _ => None,
    }
}

/// A property with a default is not required.
fn set_default(object: &mut Map<String, Value>, property: &str, default: Value) {
    if let Some(Value::Object(schema)) = object
        .get_mut("properties")
        .and_then(|properties| properties.get_mut(property))
    {
        schema.insert("default".to_owned(), default);
    }
    if let Some(Value::Array(required)) = object.get_mut("required") {
        required.retain(|required| required != property);
        if required.is_empty() {
            object.remove("required");
        }
    }
}
