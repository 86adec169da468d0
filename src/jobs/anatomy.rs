//! The Job of one operation, field by field (jobs.md §6.1).

mod args;
mod container;
mod volumes;

pub use container::is_reserved_env;

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    LocalObjectReference, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api::{GROUP, ImagePullPolicy, VERSION};
use crate::names::{InputsHash, JobName, ObjectKey, Op};

use super::policy::EffectivePolicy;

/// How long a run may go on after its pod is told to stop, in seconds.
const GRACE_PERIOD: i64 = 600;
/// Group that may read the mounted Secrets when the policy names none.
const FS_GROUP: i64 = 65532;
/// Keeps a node with a mutating run from being scaled away.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// The destructive guard of an apply (approvals.md §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// What an approval of this render must name: the approval hash, else the inputs hash.
    pub inputs_hash: InputsHash,
    /// Approved hash whose deletes may pass.
    pub allow_deletes_hash: Option<InputsHash>,
    /// Fingerprint of the approved plan.
    pub expect_plan: Option<String>,
}

/// The backup a restore pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// Names of the Secrets of its chunks, in order.
    pub chunks: Vec<String>,
    /// Managed resources it records.
    pub resources: u64,
}

/// A Job to build: everything in it is decided and read already.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRequest {
    /// The object it works for.
    pub object: ObjectKey,
    /// UID of the object.
    pub owner_uid: String,
    /// Name of the Cluster; empty when unknown.
    pub cluster: String,
    /// Name of the Job.
    pub name: JobName,
    /// What it runs.
    pub op: Op,
    /// Attempt number.
    pub attempt: i32,
    /// Image of the main container.
    pub image: String,
    /// Its pull policy.
    pub pull_policy: ImagePullPolicy,
    /// The manager's image, which holds the runner.
    pub runner_image: String,
    /// The Secret with the credentials: the mirror, or the Secret the object names itself.
    pub credentials_secret: String,
    /// The Job policy in force.
    pub policy: EffectivePolicy,
    /// Annotations of the Job (jobs.md §6.2).
    pub annotations: BTreeMap<String, String>,
    /// Secret of the plan key, for Jobs that fingerprint a plan.
    pub plan_key_secret: Option<String>,
    /// Id of a stale state lock to force open.
    pub force_unlock: Option<String>,
    /// The destructive guard; see [`is_guarded`].
    pub guard: Option<Guard>,
    /// The backup, for a restore.
    pub restore: Option<Restore>,
    /// Whether the runner reports events on the object (`--runner-events`).
    pub runner_events: bool,
}

/// Whether an apply is guarded against destructive plans: always for a cluster, for a pool only under
/// an approval hash, never for a machine (jobs.md §6.1).
#[must_use]
pub fn is_guarded(kind: crate::names::Kind, op: Op, approval_hash: &InputsHash) -> bool {
    use crate::names::Kind;
    op == Op::Apply
        && match kind {
            Kind::TerraformCluster => true,
            Kind::TerraformMachinePool => !approval_hash.is_empty(),
            Kind::TerraformMachine => false,
        }
}

/// Whether a Job fingerprints a plan, and so needs the plan key: a plan, a guarded apply, an apply of an
/// approved plan (jobs.md §5, step 4).
#[must_use]
pub fn fingerprints_plan(op: Op, guard: Option<&Guard>) -> bool {
    op == Op::Plan || (op == Op::Apply && guard.is_some())
}

/// Builds the Job (jobs.md §6.1).
#[must_use]
pub fn build(request: &JobRequest) -> Job {
    let labels = request
        .object
        .job_labels(&request.cluster, request.op, request.attempt);
    Job {
        metadata: ObjectMeta {
            name: Some(request.name.to_string()),
            namespace: Some(request.object.namespace.clone()),
            labels: Some(labels.clone()),
            annotations: (!request.annotations.is_empty()).then(|| request.annotations.clone()),
            owner_references: Some(vec![owner_reference(request)]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            active_deadline_seconds: Some(request.policy.deadline.value),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    annotations: template_annotations(request.op),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(request)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// The object controls its Jobs.
fn owner_reference(request: &JobRequest) -> OwnerReference {
    OwnerReference {
        api_version: format!("{GROUP}/{VERSION}"),
        kind: request.object.kind.to_string(),
        name: request.object.name.clone(),
        uid: request.owner_uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn template_annotations(op: Op) -> Option<BTreeMap<String, String>> {
    op.mutating()
        .then(|| BTreeMap::from([(SAFE_TO_EVICT.to_owned(), "false".to_owned())]))
}

fn pod_spec(request: &JobRequest) -> PodSpec {
    let pull_secrets: Vec<LocalObjectReference> = request
        .policy
        .pull_secrets
        .iter()
        .map(|name| LocalObjectReference { name: name.clone() })
        .collect();
    PodSpec {
        service_account_name: Some(request.policy.service_account().to_owned()),
        restart_policy: Some("Never".to_owned()),
        termination_grace_period_seconds: Some(GRACE_PERIOD),
        image_pull_secrets: (!pull_secrets.is_empty()).then_some(pull_secrets),
        security_context: Some(pod_security_context(request)),
        init_containers: Some(vec![container::runner(request)]),
        containers: vec![container::source(request)],
        volumes: Some(volumes::volumes(request)),
        ..PodSpec::default()
    }
}

/// The policy's, with the runtime's default seccomp profile and the runner's group where it is silent.
fn pod_security_context(request: &JobRequest) -> PodSecurityContext {
    let mut context = request
        .policy
        .pod_security_context
        .clone()
        .unwrap_or_default();
    context
        .seccomp_profile
        .get_or_insert_with(|| SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        });
    context.fs_group.get_or_insert(FS_GROUP);
    context
}

#[cfg(test)]
mod tests;
