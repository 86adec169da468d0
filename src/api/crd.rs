//! The CustomResourceDefinitions, generated from the types (api.md §1, §2, §15).
//!
//! The derive comes close to what the API server should hold; [`finish`] is the one place that
//! takes away what it adds and adds what it cannot express. `operator/manifests/crds` holds the
//! result; a test compares the two and rewrites the files when asked.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

use super::{TerraformCluster, TerraformClusterIdentity, TerraformPlan, VERSION, keys};

/// Value of the provider label (capi.md §1).
const PROVIDER: &str = "infrastructure-terraform";

/// Pattern of a quantity (api.md §4).
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// One printer column; a wide one is shown with `-o wide` only (api.md §1).
struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    wide: bool,
    description: &'static str,
}

const fn column(
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    description: &'static str,
) -> Column {
    Column {
        name,
        type_,
        path,
        wide: false,
        description,
    }
}

const fn wide(column: Column) -> Column {
    Column {
        wide: true,
        ..column
    }
}

const CLUSTER: Column = column(
    "Cluster",
    "string",
    r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
    "Cluster the object belongs to",
);
const READY: Column = column(
    "Ready",
    "string",
    r#".status.conditions[?(@.type=="Ready")].status"#,
    "Whether the object is ready",
);
const PROVISIONED: Column = column(
    "Provisioned",
    "boolean",
    ".status.initialization.provisioned",
    "Whether the infrastructure was provisioned once",
);
const IMAGE: Column = column("Image", "string", ".spec.source.image", "Module image");
const INPUTS_APPLIED: Column = column(
    "InputsApplied",
    "string",
    r#".status.conditions[?(@.type=="InputsApplied")].status"#,
    "Whether the current inputs are applied",
);
const AGE: Column = column(
    "Age",
    "date",
    ".metadata.creationTimestamp",
    "Time since the object was created",
);

/// Printer columns of `TerraformCluster`, in order (api.md §1).
const CLUSTER_COLUMNS: &[Column] = &[
    CLUSTER,
    READY,
    PROVISIONED,
    column(
        "Endpoint",
        "string",
        ".spec.controlPlaneEndpoint.host",
        "Host of the control plane endpoint",
    ),
    wide(IMAGE),
    wide(INPUTS_APPLIED),
    AGE,
];

/// Printer columns of `TerraformClusterIdentity`, in order (api.md §1).
const IDENTITY_COLUMNS: &[Column] = &[
    column(
        "Secret",
        "string",
        ".spec.secretRef.name",
        "Name of the credentials Secret",
    ),
    column(
        "Namespace",
        "string",
        ".spec.secretRef.namespace",
        "Namespace of the credentials Secret",
    ),
    READY,
    AGE,
];

/// Printer columns of `TerraformPlan`, in order (api.md §1).
const PLAN_COLUMNS: &[Column] = &[
    column(
        "Target",
        "string",
        ".spec.targetRef.name",
        "Object the plan changes",
    ),
    column(
        "Reason",
        "string",
        ".spec.reason",
        "Why the plan waits for an approval",
    ),
    column("Phase", "string", ".status.phase", "Where the plan stands"),
    column(
        "Create",
        "integer",
        ".spec.summary.create",
        "Resources to create",
    ),
    column(
        "Update",
        "integer",
        ".spec.summary.update",
        "Resources to update in place",
    ),
    column(
        "Replace",
        "integer",
        ".spec.summary.replace",
        "Resources to replace",
    ),
    column(
        "Delete",
        "integer",
        ".spec.summary.delete",
        "Resources to delete",
    ),
    column(
        "Approved",
        "boolean",
        ".spec.approved",
        "Whether the plan is approved",
    ),
    AGE,
];

/// All CustomResourceDefinitions, as they are installed.
///
/// # Errors
/// When the generated schema is not one that Kubernetes' types can hold, which a test rules out.
pub fn all() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    Ok(vec![
        finished::<TerraformCluster>(CLUSTER_COLUMNS)?,
        finished::<TerraformClusterIdentity>(IDENTITY_COLUMNS)?,
        finished::<TerraformPlan>(PLAN_COLUMNS)?,
    ])
}

fn finished<K: CustomResourceExt>(
    columns: &[Column],
) -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut crd = serde_json::to_value(K::crd())?;
    finish(&mut crd, columns);
    serde_json::from_value(crd)
}

/// Makes a derived CustomResourceDefinition the one to install (api.md §15.2, engineering.md §7.7).
fn finish(crd: &mut Value, columns: &[Column]) {
    crd["metadata"]["labels"] = labels(&crd["spec"]["scope"]);
    let names = &mut crd["spec"]["names"];
    names["listKind"] = names["kind"]
        .as_str()
        .map(|kind| format!("{kind}List"))
        .into();
    let version = &mut crd["spec"]["versions"][0];
    version["additionalPrinterColumns"] = columns.iter().map(printer_column).collect();
    let root = &mut version["schema"]["openAPIV3Schema"];
    clean(root);
    root["required"] = json!(["spec"]);
    root["properties"]["apiVersion"] = json!({
        "description": "Version of the schema of this object.",
        "type": "string"
    });
    root["properties"]["kind"] = json!({ "description": "Kind of this object.", "type": "string" });
    root["properties"]["metadata"] = json!({ "type": "object" });
}

/// The labels of a CustomResourceDefinition (api.md §1, capi.md C4, C60c, C63). The cluster-scoped
/// kind is the identity, which moves together with the objects that reference it.
fn labels(scope: &Value) -> Value {
    let mut labels = json!({
        keys::labels::CONTRACT: VERSION,
        keys::labels::PROVIDER: PROVIDER,
        keys::labels::CLUSTERCTL: "",
    });
    if scope == "Cluster" {
        labels[keys::labels::MOVE_HIERARCHY] = json!("");
    }
    labels
}

fn printer_column(column: &Column) -> Value {
    let mut json = json!({
        "name": column.name,
        "type": column.type_,
        "jsonPath": column.path,
        "description": column.description,
    });
    if column.wide {
        json["priority"] = json!(1);
    }
    json
}

/// Takes away what the schema generator adds for `Option` and defaults, here and in every schema
/// below: a `null` then becomes an absent field instead of being stored. Completes quantities, the
/// only values that are integers or strings, whose types the generator drops.
fn clean(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for keyword in ["nullable", "title", "$schema"] {
        object.remove(keyword);
    }
    if object
        .get("default")
        .is_some_and(|default| !is_kubernetes_default(default))
    {
        object.remove("default");
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        *description = without_references(description);
    }
    if object.contains_key("x-kubernetes-int-or-string") {
        object.insert(
            "anyOf".to_owned(),
            json!([{ "type": "integer" }, { "type": "string" }]),
        );
        object.insert("pattern".to_owned(), json!(QUANTITY));
    }
    for child in subschemas(object) {
        clean(child);
    }
}

/// The schemas directly below one: properties by name, items, and values of maps.
fn subschemas(object: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    object
        .iter_mut()
        .flat_map(|(keyword, value)| match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().collect(),
            ("items" | "additionalProperties", schema) => vec![schema],
            _ => Vec::new(),
        })
}

/// The only defaults a schema has come from Kubernetes' own types: `""` and `false` (api.md §2.2).
fn is_kubernetes_default(default: &Value) -> bool {
    *default == json!("") || *default == json!(false)
}

/// References to the specification are for readers of the code, not of `kubectl explain`.
fn without_references(description: &str) -> String {
    let mut text = String::with_capacity(description.len());
    let mut rest = description;
    while let Some((before, reference)) = rest.split_once(" (api.md") {
        text.push_str(before);
        rest = reference.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Every schema of every kind with its path.
    fn schemas() -> Vec<(String, Value)> {
        let mut found = Vec::new();
        for crd in all().unwrap() {
            let root = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
            collect(&crd.spec.names.kind, &root["openAPIV3Schema"], &mut found);
        }
        found
    }

    fn collect(path: &str, schema: &Value, found: &mut Vec<(String, Value)>) {
        found.push((path.to_owned(), schema.clone()));
        if let Some(properties) = schema["properties"].as_object() {
            for (name, property) in properties {
                collect(&format!("{path}.{name}"), property, found);
            }
        }
        for keyword in ["items", "additionalProperties"] {
            if schema[keyword].is_object() {
                collect(&format!("{path}.{keyword}"), &schema[keyword], found);
            }
        }
    }

    fn at(path: &str) -> Value {
        schemas()
            .into_iter()
            .find(|(found, _)| found == path)
            .unwrap()
            .1
    }

    #[test]
    fn no_schema_is_nullable_or_titled() {
        for (path, schema) in schemas() {
            assert_eq!(schema.get("nullable"), None, "{path}");
            assert_eq!(schema.get("title"), None, "{path}");
        }
    }

    #[test]
    fn only_kubernetes_own_types_have_defaults() {
        for (path, schema) in schemas() {
            let allowed = [
                "KeyRef.name",
                "KeyRef.optional",
                "imagePullSecrets.items.name",
            ];
            assert!(
                schema.get("default").is_none() || allowed.iter().any(|end| path.ends_with(end)),
                "{path}"
            );
        }
        let name = at("TerraformCluster.spec.jobs.env.items.valueFrom.secretKeyRef.name");
        assert_eq!(name["default"], "");
        let optional = at("TerraformCluster.spec.jobs.env.items.valueFrom.fileKeyRef.optional");
        assert_eq!(optional["default"], false);
    }

    #[test]
    fn every_list_says_how_it_merges() {
        for (path, schema) in schemas() {
            if schema["type"] == "array" {
                assert!(schema["x-kubernetes-list-type"].is_string(), "{path}");
            }
        }
    }

    #[test]
    fn every_integer_has_an_enforced_format() {
        for (path, schema) in schemas() {
            if schema["type"] == "integer" {
                let format = schema["format"].as_str().unwrap_or_default();
                assert!(["int32", "int64"].contains(&format), "{path}: {format:?}");
            }
        }
    }

    #[test]
    fn every_status_holds_at_least_one_property() {
        for kind in [
            "TerraformCluster",
            "TerraformClusterIdentity",
            "TerraformPlan",
        ] {
            assert_eq!(
                at(&format!("{kind}.status"))["minProperties"],
                1.0,
                "{kind}"
            );
        }
    }

    #[test]
    fn quantities_are_integers_or_strings_of_their_pattern() {
        let limit = at("TerraformCluster.spec.jobs.resources.limits.additionalProperties");
        assert_eq!(limit["x-kubernetes-int-or-string"], true);
        assert_eq!(
            limit["anyOf"],
            json!([{ "type": "integer" }, { "type": "string" }])
        );
        assert!(limit["pattern"].as_str().unwrap().starts_with(r"^(\+|-)?"));
        assert_eq!(limit.get("type"), None);
    }

    #[test]
    fn descriptions_do_not_cite_the_specification() {
        for (path, schema) in schemas() {
            let description = schema["description"].as_str().unwrap_or_default();
            assert!(!description.contains(".md"), "{path}: {description}");
        }
    }

    #[test]
    fn every_own_field_is_described() {
        let embedded = [
            "env",
            "resources",
            "ecurityContext",
            "imagePullSecrets",
            "selector",
            "metadata",
        ];
        for (path, schema) in schemas() {
            let own = !embedded.iter().any(|name| path.contains(name))
                && !path.ends_with(".items")
                && !path.ends_with(".additionalProperties");
            assert!(!own || schema["description"].is_string(), "{path}");
        }
    }

    #[test]
    fn a_crd_fits_a_client_side_apply() {
        for crd in all().unwrap() {
            let size = serde_json::to_string(&crd).unwrap().len();
            assert!(size < 200_000, "{}: {size} bytes", crd.spec.names.kind);
        }
    }
}
