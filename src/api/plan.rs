//! `TerraformPlan` (api.md §11): a plan that waits for a person, and the answer.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{schema, wire_enum::wire_enum};

wire_enum! {
    /// The kinds a plan can be of (api.md §11).
    pub enum PlanTargetKind {
        /// `TerraformCluster`
        TerraformCluster = "TerraformCluster",
        /// `TerraformMachinePool`
        TerraformMachinePool = "TerraformMachinePool",
    }
}

wire_enum! {
    /// Why a plan waits (api.md §11).
    pub enum PlanReason {
        /// The cluster's apply policy is `Manual`.
        Manual = "Manual",
        /// The plan deletes or replaces.
        Destructive = "Destructive",
        /// A pool's plan for changed exports of its cluster deletes or replaces.
        ExportsChange = "ExportsChange",
    }
}

wire_enum! {
    /// Where a plan stands (api.md §11).
    pub enum PlanPhase {
        /// Live, not approved.
        Pending = "Pending",
        /// Live, approved, not applied yet.
        Approved = "Approved",
        /// The approved apply succeeded.
        Applied = "Applied",
        /// A newer plan replaced it, or it became moot.
        Superseded = "Superseded",
        /// The approved apply planned other changes.
        Failed = "Failed",
    }
}

impl PlanPhase {
    /// Whether the plan can still be approved or applied.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        matches!(self, Self::Pending | Self::Approved)
    }
}

/// A plan of a cluster or pool that waits for an approval. Created and owned by the manager;
/// everything but the approval is immutable (api.md §11).
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "TerraformPlan",
    plural = "terraformplans",
    namespaced,
    shortname = "tfplan",
    category = "cluster-api",
    status = "TerraformPlanStatus",
    derive = "PartialEq",
    doc = "A plan of a cluster or pool that waits for an approval."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = approval_rules()))]
pub struct TerraformPlanSpec {
    /// The object the plan changes, in the plan's namespace.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("spec.targetRef")))]
    pub target_ref: PlanTargetRef,
    /// Fingerprint of the changes; the apply stops when it plans others.
    #[schemars(length(min = 1, max = 128))]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("spec.planHash")))]
    pub plan_hash: String,
    /// Hash of the inputs the plan was made for; for `ExportsChange` the approval hash.
    #[schemars(length(min = 1, max = 128))]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("spec.inputsHash")))]
    pub inputs_hash: String,
    /// Why the plan waits.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("spec.reason")))]
    pub reason: PlanReason,
    /// What the plan changes: counts and addresses, never a value.
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("spec.summary")))]
    pub summary: PlanSummary,
    /// The approval: can be set to true once, together with `approvedBy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// Username of the approver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub approved_by: Option<String>,
}

/// The object a plan changes (api.md §11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTargetRef {
    /// Kind of the object.
    pub kind: PlanTargetKind,
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What a plan changes (api.md §11). A replacement counts in `replace` only.
///
/// The first four counts are always written; the others only when they are not zero (api.md §18.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct PlanSummary {
    /// Resources to create.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub create: i32,
    /// Resources to update in place.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub update: i32,
    /// Resources to replace.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replace: i32,
    /// Resources to delete.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub delete: i32,
    /// Resources to import.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub import: i32,
    /// Resources that only move to another address.
    #[serde(default, rename = "move", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub moved: i32,
    /// Resources that leave the state without being destroyed.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub forget: i32,
    /// Root outputs that change.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub output_changes: i32,
    /// `<address> (<labels>)` of at most 50 changed resources, sorted by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 50), inner(length(min = 1, max = 600)), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<String>,
    /// Whether fewer resources are listed than change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// P1 to P3 of api.md §11: an approval names its approver, and stands once given.
fn approval_rules() -> Value {
    json!([
        {
            "rule": "!(has(self.approved) && self.approved) || has(self.approvedBy)",
            "message": "approvedBy is required when approved is true",
            "fieldPath": ".approvedBy"
        },
        {
            "rule": "!has(self.approvedBy) || (has(self.approved) && self.approved)",
            "message": "approvedBy can only be set when approved is true",
            "fieldPath": ".approvedBy"
        },
        {
            "rule": "!(has(oldSelf.approved) && oldSelf.approved) || (has(self.approved) && self.approved \
                     && has(self.approvedBy) && has(oldSelf.approvedBy) && self.approvedBy == oldSelf.approvedBy)",
            "message": "an approval can be neither withdrawn nor changed",
            "fieldPath": ".approved"
        }
    ])
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde wants
const fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// What a `TerraformPlan` reports (api.md §11).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformPlanStatus {
    /// `Ready` and `Approved`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the plan stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<PlanPhase>,
    /// The `metadata.generation` the status was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
}

/// The name of a plan in the object's namespace: `status.pendingPlanRef` (api.md §5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRef {
    /// Name of the TerraformPlan.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
