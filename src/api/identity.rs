//! `TerraformClusterIdentity` (api.md §10).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{embedded, schema};

/// Credentials for modules, and the namespaces that may use them. Cluster-scoped (api.md §10).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "TerraformClusterIdentity",
    plural = "terraformclusteridentities",
    shortname = "tfci",
    category = "cluster-api",
    status = "TerraformClusterIdentityStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Credentials for modules, and the namespaces that may use them."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformClusterIdentitySpec {
    /// The credentials Secret, in any namespace.
    pub secret_ref: SecretReference,
    /// Which namespaces may use the identity; none when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// Keys the Secret must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        inner(length(min = 1, max = 253), regex(pattern = schema::DATA_KEY)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub required_keys: Vec<String>,
}

/// Name and namespace of a Secret (api.md §10).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::SUBDOMAIN))]
    pub name: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::LABEL))]
    pub namespace: String,
}

/// The namespaces that may use an identity: the union of both fields (api.md §10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.list) || has(self.selector)",
    "{} is ambiguous: set list or selector; for every namespace write selector: {}",
)))]
pub struct AllowedNamespaces {
    /// Names of namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        inner(length(min = 1, max = 63), regex(pattern = schema::LABEL)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub list: Vec<String>,
    /// Labels of namespaces; `{}` is every namespace, existing or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embedded::schema::<LabelSelector>")]
    pub selector: Option<LabelSelector>,
}

/// What a `TerraformClusterIdentity` reports (api.md §10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformClusterIdentityStatus {
    /// Only `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Namespaces that hold a mirror of the Secret and an object that uses it, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
}
