//! Pieces of the CRD schema that the derive cannot express, used through `schemars(schema_with =
//! ...)` (engineering.md §7.7).

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// Pattern of a DNS-1123 subdomain (api.md §2).
pub(crate) const SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Pattern of a DNS-1123 label (api.md §2).
pub(crate) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Pattern of a key of a Secret's data (api.md §10).
pub(crate) const DATA_KEY: &str = "^[-._a-zA-Z0-9]+$";

const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// `status.conditions` of every kind: a map by `type` of at most 32 items (api.md §2.7).
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Conditions of the object; only Ready is read by Cluster API.",
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time"
                },
                "message": {
                    "description": "What was found, for a person; may be empty.",
                    "type": "string",
                    "maxLength": 32768
                },
                "observedGeneration": {
                    "description": "The metadata.generation the condition was computed for.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0
                },
                "reason": {
                    "description": "Why the condition has its status, as one word for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": CONDITION_REASON
                },
                "status": {
                    "description": "True, False or Unknown.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"]
                },
                "type": {
                    "description": "The condition's type.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": CONDITION_TYPE
                }
            }
        }
    })
}

/// `spec.variables`: an object of 1 to 256 arbitrary JSON values (api.md §3).
pub(crate) fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 256,
        "x-kubernetes-preserve-unknown-fields": true
    })
}

/// `status.exports`: any JSON value at all, so without a type (api.md §5).
pub(crate) fn any_json(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// `x-kubernetes-validations` with one CEL rule.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!([{ "rule": rule, "message": message }])
}

/// `x-kubernetes-validations` of a field that may never change (api.md §11).
pub(crate) fn immutable(path: &str) -> Value {
    rule("self == oldSelf", &format!("{path} is immutable"))
}
