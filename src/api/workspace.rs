//! The spec and status that all workload kinds share ("workspace": one object, one module, one
//! state; api.md §3, §4, §8).

use k8s_openapi::{
    api::core::v1::{
        EnvVar, LocalObjectReference, PodSecurityContext, ResourceRequirements, SecurityContext,
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Verbatim, schema, wire_enum::wire_enum};

wire_enum! {
    /// Pull policy of the Job's main container; `IfNotPresent` when unset (api.md §3).
    pub enum ImagePullPolicy {
        /// Pull only what the node does not have.
        IfNotPresent = "IfNotPresent",
        /// Ask the registry at every start.
        Always = "Always",
        /// Never pull.
        Never = "Never",
    }
}

wire_enum! {
    /// What `identityRef` names; `TerraformClusterIdentity` when unset (api.md §3).
    pub enum IdentityKind {
        /// A cluster-scoped identity whose Secret is mirrored into the namespace.
        TerraformClusterIdentity = "TerraformClusterIdentity",
        /// A Secret of the object's own namespace, used as it is.
        Secret = "Secret",
    }
}

wire_enum! {
    /// How the values of a variables source are read; `String` when unset (api.md §3).
    pub enum VariablesFormat {
        /// Each value is a JSON string.
        String = "String",
        /// Each value is parsed as JSON.
        Json = "JSON",
    }
}

wire_enum! {
    /// What becomes of the infrastructure when the object is deleted; `Destroy` when nothing says
    /// otherwise (api.md §3).
    pub enum DeletionPolicy {
        /// Run a destroy Job first.
        Destroy = "Destroy",
        /// Keep infrastructure, state and backups.
        Retain = "Retain",
    }
}

wire_enum! {
    /// What a Job does (api.md §12).
    pub enum Operation {
        /// Applies the current inputs.
        Apply = "apply",
        /// Destroys everything in the state.
        Destroy = "destroy",
        /// Plans the current inputs to find drift.
        Drift = "drift",
        /// Refreshes state and outputs only.
        Refresh = "refresh",
        /// Pushes a state backup.
        Restore = "restore",
        /// Plans without applying.
        Plan = "plan",
    }
}

wire_enum! {
    /// Why a run failed (api.md §8).
    pub enum RunErrorKind {
        /// The module image is not laid out as the contract wants.
        ImageLayout = "image-layout",
        /// A step failed.
        Step = "step",
        /// The run was stopped from outside; counts as no failure.
        Interrupted = "interrupted",
        /// A guarded apply stopped before a destructive plan.
        Blocked = "blocked",
        /// An approved apply planned other changes than the approved ones.
        PlanChanged = "plan-changed",
    }
}

/// What every workload kind says about its module: the image, who pays for it, how its Jobs run
/// (api.md §3).
///
/// Defaults are applied when an object is reconciled or a Job is built, never stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// The OCI image with module code and runtime. Referencing it grants its publisher the Job's
    /// rights in the namespace.
    pub source: Source,
    /// Where the credentials come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_ref: Option<IdentityRef>,
    /// How the object's Jobs run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<JobPolicy>,
    /// Module variables; they win over `variablesFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::variables")]
    pub variables: Option<Map<String, Value>>,
    /// ConfigMaps and Secrets of the namespace labeled `captf.io/variables=true`; later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub variables_from: Vec<VariablesSource>,
    /// What becomes of the infrastructure when the object is deleted; `Destroy` when nothing says
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Allows this object to adopt state retained by an earlier object of the same kind, namespace
    /// and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_retained_state: Option<bool>,
}

/// The module image (api.md §3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Image reference; its tag or digest is the module's version.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Pull policy of the Job's main container; `IfNotPresent` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
}

/// A reference to credentials (api.md §3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityRef {
    /// What is named; `TerraformClusterIdentity` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<IdentityKind>,
    /// Name of the identity, or of the Secret in the object's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// One source of module variables (api.md §3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rule(
    "has(self.configMapRef) != has(self.secretRef)",
    "exactly one of the fields in [configMapRef secretRef] must be set",
)))]
pub struct VariablesSource {
    /// A ConfigMap of the object's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<SourceRef>,
    /// A Secret of the object's namespace; variables won from it are declared sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SourceRef>,
    /// Whether a missing or unlabeled source contributes nothing instead of holding the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// How each value is read; `String` when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<VariablesFormat>,
}

/// The name of a variables source (api.md §3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::SUBDOMAIN))]
    pub name: String,
}

/// How Jobs run: `spec.jobs` and `spec.defaults.jobs` (api.md §4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobPolicy {
    /// Succeeded Jobs kept per object and operation; 3 when unset. The newest one is kept even at
    /// 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub successful_jobs_history_limit: Option<i32>,
    /// Failed Jobs kept per object and operation; 3 when unset. The newest one is kept at 0 while
    /// no newer Job succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub failed_jobs_history_limit: Option<i32>,
    /// Bound of a Job's run time in seconds; 3600 when unset. Reaching it counts as a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub active_deadline_seconds: Option<i64>,
    /// How long a run waits for the state lock, in seconds; 300 when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub lock_timeout_seconds: Option<i32>,
    /// ServiceAccount of the Job; `captf-runner` when unset. Another one must carry the label
    /// `captf.io/runner=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Pull Secrets for the module image and the runner image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Vec<Verbatim<LocalObjectReference>>,
    /// Resources of the main container, replacing the default as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Verbatim<ResourceRequirements>>,
    /// Environment variables added to the main container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub env: Vec<Verbatim<EnvVar>>,
    /// Security context of the main container; it may not weaken the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Verbatim<SecurityContext>>,
    /// Security context of the Job's pod; it may not weaken the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<Verbatim<PodSecurityContext>>,
}

/// What every workload kind reports. Nothing in it is load-bearing: all of it is rebuilt from spec,
/// state Secret, durable inputs Secret and Job list (api.md §8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// Conditions of the object; only `Ready` is read by Cluster API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The initialization contract of Cluster API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// The `metadata.generation` the status was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,
    /// The running Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_job: Option<ActiveJob>,
    /// The newest finished Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<LastRun>,
    /// When drift was last checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_drift_check: Option<Time>,
    /// When state and outputs were last refreshed; also the end of an apply whose own health
    /// reading was definite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_refresh: Option<Time>,
    /// Consecutive pending health samples; they space the refreshes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pending_refreshes: Option<i32>,
    /// Serial of the state that was last read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_state_serial: Option<i64>,
    /// Serial of the last consumed restore Job, whether it succeeded or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub last_restored_serial: Option<i64>,
    /// Suffix of the state Secret's name; informational.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub state_secret_suffix: Option<String>,
    /// What the last Job ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceStatus>,
    /// State backups, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub state_backups: Vec<StateBackup>,
}

impl WorkspaceStatus {
    /// Whether `initialization.provisioned` is latched.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        self.initialization
            .as_ref()
            .and_then(|initialization| initialization.provisioned)
            == Some(true)
    }
}

/// Cluster API's initialization contract (api.md §8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct Initialization {
    /// True once an apply succeeded, its outputs are valid and health is known; then for the rest
    /// of the object's life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A running Job (api.md §8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveJob {
    /// Name of the Job.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// What it does.
    pub operation: Operation,
    /// The attempt, the `a<N>` of the Job's name.
    #[schemars(range(min = 1))]
    pub attempt: i32,
    /// When the Job started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
}

/// The newest finished Job, copied from the runner's termination message (api.md §8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// Name of the Job.
    #[schemars(length(min = 1, max = 63))]
    pub job: String,
    /// What it did.
    pub operation: Operation,
    /// Its steps, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<RunStep>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// What a drift run found; unset when it found nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftSummary>,
}

/// One step of a run (api.md §8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStep {
    /// Name of the step: `init`, `validate`, `plan`, `apply`, ...
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Exit code of the step's process.
    pub exit_code: i32,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub duration_milliseconds: Option<i64>,
}

/// Why a run failed (api.md §8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// What kind of failure it was.
    pub kind: RunErrorKind,
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub step: Option<String>,
    /// A curated sentence of at most 512 bytes, never raw output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub summary: Option<String>,
    /// `<address>: <summary>` of each failed resource, without secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 10), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<String>,
}

/// What a drift run found; a replacement counts in `replace` only (api.md §8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct DriftSummary {
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
    /// Addresses of at most 20 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<String>,
}

/// What the last Job ran (api.md §8).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct SourceStatus {
    /// The image reference as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// The image the kubelet ran, as the pod's `imageID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image_digest: Option<String>,
    /// Version of Terraform or OpenTofu in the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub runtime_version: Option<String>,
}

/// One state backup (api.md §8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateBackup {
    /// Serial of the state; the value for `captf.io/restore-state`.
    #[schemars(range(min = 1))]
    pub serial: i64,
    /// When the backup was taken.
    pub taken_at: Time,
    /// Compressed size over all its Secrets, in bytes.
    #[schemars(range(min = 1))]
    pub bytes: i64,
}
