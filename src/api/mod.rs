//! The API: kinds, fields, keys and conditions, exactly as they are on the wire (api.md,
//! annotations-labels.md, conditions-events.md). Nothing here talks to a cluster.

mod cluster;
mod embedded;
mod identity;
mod kind;
mod machine;
mod plan;
mod schema;
mod verbatim;
mod wire_enum;
mod workspace;

pub mod capi;
pub mod conditions;
pub mod crd;
pub mod keys;

pub use cluster::{
    ApiEndpoint, ApplyPolicy, Defaults, DriftAction, DriftPolicy, FailureDomain, RemediationPolicy,
    TerraformCluster, TerraformClusterSpec, TerraformClusterStatus,
};
pub use identity::{
    AllowedNamespaces, SecretReference, TerraformClusterIdentity, TerraformClusterIdentitySpec,
    TerraformClusterIdentityStatus,
};
pub use kind::{ApiKind, GROUP, VERSION};
pub use machine::{
    AddressType, MachineAddress, MachineDriftPolicy, TerraformMachine, TerraformMachineSpec,
    TerraformMachineStatus,
};
pub use plan::{
    PlanPhase, PlanReason, PlanRef, PlanSummary, PlanTargetKind, PlanTargetRef, TerraformPlan,
    TerraformPlanSpec, TerraformPlanStatus,
};
pub use verbatim::{Named, Verbatim};
pub use workspace::{
    ActiveJob, DeletionPolicy, DriftSummary, IdentityKind, IdentityRef, ImagePullPolicy,
    Initialization, JobPolicy, LastRun, Operation, RunError, RunErrorKind, RunStep, Source,
    SourceRef, SourceStatus, StateBackup, VariablesFormat, VariablesSource, WorkspaceSpec,
    WorkspaceStatus,
};
