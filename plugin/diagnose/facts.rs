//! What `why` knows about one TerraformCluster (diagnosis.md §1.1), without any rule.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use crate::api::capi::Cluster;
use crate::api::conditions::ConditionType;
use crate::jobs::facts::JobFacts;
use crate::jobs::history::{History, Readings};
use crate::jobs::pod::PodFacts;
use crate::names::{Kind, ObjectKey};
use crate::plugin::evaluate::{Evaluation, Fact, LeaseFacts, evaluate};
use crate::plugin::read::wire::{Condition, JobItem, Meta};
use crate::state::{HeldLock, LockVerdict};

/// Everything that was read.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// The API server's time.
    pub(crate) now: Timestamp,
    /// The object.
    pub(crate) object: Object,
    /// The Cluster that its owner reference names.
    pub(crate) cluster: Fact<Cluster>,
    /// The manager's election Lease.
    pub(crate) election: Fact<Election>,
    /// The manager's pods; read only when the election Lease has expired.
    pub(crate) manager_pods: Fact<Vec<Pod>>,
    /// The object's run lease.
    pub(crate) run_lease: Fact<LeaseFacts>,
    /// The write lease of its cluster; read only when a wait is about it.
    pub(crate) cluster_lease: Fact<LeaseFacts>,
    /// Run leases of the cluster's machines and pools that apply, destroy or restore; read only
    /// when the object waits for them.
    pub(crate) machine_leases: Fact<Vec<LeaseFacts>>,
    /// The object's Jobs.
    pub(crate) jobs: Fact<Vec<JobItem>>,
    /// Pods of the lease's holder and of the active Job.
    pub(crate) pods: Fact<Vec<PodView>>,
    /// Events about the object.
    pub(crate) events: Fact<Vec<Event>>,
    /// Events about a pod that does not start.
    pub(crate) pod_events: Fact<Vec<Event>>,
    /// Whether the node of a pod that does not end is ready.
    pub(crate) node: Fact<NodeView>,
    /// The held state lock with its judgement; `Absent` when nobody holds it.
    pub(crate) lock: Fact<(HeldLock, LockVerdict)>,
}

/// The object: a TerraformCluster, as leniently decoded as possible.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Object {
    /// Metadata.
    pub(crate) metadata: Meta,
    /// Spec.
    pub(crate) spec: Spec,
    /// Status.
    pub(crate) status: Status,
}

/// What `why` reads of the spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    /// Which credentials.
    pub(crate) identity_ref: Option<IdentityRef>,
    /// Job policy.
    pub(crate) jobs: Policy,
    /// What becomes of the infrastructure when the object is deleted; `Destroy` unless it says
    /// `Retain`.
    pub(crate) deletion_policy: Option<String>,
}

/// Which credentials the object uses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IdentityRef {
    /// `TerraformClusterIdentity` unless it says `Secret`.
    pub(crate) kind: Option<String>,
    /// Name.
    pub(crate) name: String,
}

/// What `why` reads of the Job policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Policy {
    /// How many failed Jobs are kept, which also bounds quick retries.
    pub(crate) failed_jobs_history_limit: Option<i32>,
    /// Limit of a Job's run.
    pub(crate) active_deadline_seconds: Option<i64>,
}

/// What `why` reads of the status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// Conditions.
    pub(crate) conditions: Vec<Condition>,
    /// Generation that was seen.
    pub(crate) observed_generation: Option<i64>,
    /// The Job that runs, as far as recorded.
    pub(crate) active_job: Option<ActiveJob>,
    /// The newest result.
    pub(crate) last_run: Option<LastRun>,
    /// Backups of the state.
    pub(crate) state_backups: Vec<Backup>,
    /// The plan that waits for an approval.
    pub(crate) pending_plan_ref: Option<Named>,
}

/// `status.activeJob`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ActiveJob {
    /// Name of the Job.
    pub(crate) name: String,
}

/// Something by its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    /// Name.
    pub(crate) name: String,
}

/// `status.lastRun`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LastRun {
    /// Name of the Job.
    pub(crate) job: String,
    /// What its runner ran.
    pub(crate) steps: Vec<serde_json::Value>,
    /// What went wrong.
    pub(crate) error: Option<RunError>,
}

/// The error of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunError {
    /// Kind of the error.
    pub(crate) kind: String,
    /// Step it happened in.
    pub(crate) step: String,
    /// One line about it.
    pub(crate) summary: String,
}

/// One entry of `status.stateBackups`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Backup {
    /// Serial of the state.
    pub(crate) serial: i64,
}

/// The election Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Election {
    /// Who leads; empty when nobody does.
    pub(crate) holder: String,
    /// When that one took over.
    pub(crate) acquired: Option<Timestamp>,
    /// When it renewed last.
    pub(crate) renewed: Option<Timestamp>,
    /// How long a renewal is good for.
    pub(crate) duration_seconds: i64,
}

/// A pod of a run Job.
#[derive(Clone, Debug)]
pub(crate) struct PodView {
    /// What the operator sees of it.
    pub(crate) facts: PodFacts,
    /// The Job in its label.
    pub(crate) job: String,
    /// Its node, empty before it is scheduled.
    pub(crate) node: String,
    /// When it must be gone, grace included.
    pub(crate) stops: Option<Timestamp>,
    /// When its deletion was asked for.
    pub(crate) stopping_since: Option<Timestamp>,
    /// Why it cannot be scheduled.
    pub(crate) unschedulable: Option<String>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeView {
    /// Name.
    pub(crate) name: String,
    /// Status of its condition Ready, and since when.
    pub(crate) ready: Option<(String, Option<Timestamp>)>,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Reason.
    pub(crate) reason: String,
    /// Note.
    pub(crate) note: String,
    /// When it was seen last.
    pub(crate) at: Option<Timestamp>,
    /// When it was seen first.
    pub(crate) first: Option<Timestamp>,
}

impl Facts {
    /// The object's identity.
    pub(crate) fn key(&self) -> ObjectKey {
        let Meta {
            namespace, name, ..
        } = &self.object.metadata;
        ObjectKey::new(Kind::TerraformCluster, namespace.as_str(), name.as_str())
    }

    /// Whether the object is being deleted and its infrastructure stays: then only a pause, a running
    /// Job and dependents hold it (deletion.md §6).
    pub(crate) fn is_retaining(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
            && self.object.spec.deletion_policy.as_deref() == Some("Retain")
    }

    /// A condition by its type.
    pub(crate) fn condition(&self, kind: ConditionType) -> Option<&Condition> {
        self.object
            .status
            .conditions
            .iter()
            .find(|condition| condition.kind == kind.as_str())
    }

    /// The newest event of the object with this reason.
    pub(crate) fn event(&self, reason: &str) -> Option<&Event> {
        self.events
            .found()?
            .iter()
            .filter(|event| event.reason == reason)
            .max_by_key(|event| event.at)
    }

    /// The verdict on a lease.
    pub(crate) fn judged<'a>(
        &self,
        lease: &'a Fact<LeaseFacts>,
    ) -> Option<(&'a LeaseFacts, Evaluation)> {
        lease
            .found()
            .map(|facts| (facts, evaluate(facts, self.now)))
    }

    /// The object's Jobs as the operator's rules read them.
    pub(crate) fn job_facts(&self) -> Vec<JobFacts> {
        let facts = |job: &JobItem| JobFacts::new(&job.metadata.object_meta(), Some(&job.status));
        self.jobs.found().into_iter().flatten().map(facts).collect()
    }

    /// Runs `look` over the history of the object's Jobs. What only their pods could tell is in
    /// the marks of those that are bookkept.
    pub(crate) fn with_history<T>(&self, look: impl FnOnce(&History<'_>) -> T) -> T {
        let (jobs, readings) = (self.job_facts(), Readings::new());
        look(&History::new(
            &jobs,
            &self.object.metadata.uid,
            &readings,
            None,
        ))
    }

    /// A Job of the object by name.
    pub(crate) fn job(&self, name: &str) -> Option<&JobItem> {
        self.jobs
            .found()?
            .iter()
            .find(|job| job.metadata.name == name)
    }

    /// Pods of a Job by its name.
    pub(crate) fn pods_of<'a>(&'a self, job: &'a str) -> impl Iterator<Item = &'a PodView> {
        self.pods
            .found()
            .into_iter()
            .flatten()
            .filter(move |pod| pod.job == job)
    }
}
