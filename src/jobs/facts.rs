//! What a decision needs to know of a Job (jobs.md §7.1).

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::names::{Op, key};

use crate::api::keys::annotations as keys;

/// How a Job ended, or that it has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Neither `Complete` nor `Failed` is True.
    Unfinished,
    /// Condition `Complete` is True.
    Complete {
        /// When the Job finished (see [`finish`]).
        at: Timestamp,
    },
    /// Condition `Failed` is True.
    Failed {
        /// When the Job finished (see [`finish`]).
        at: Timestamp,
        /// The reason of the condition, for example `DeadlineExceeded`; empty when it has none.
        reason: String,
    },
}

impl JobState {
    /// When the Job finished; nothing while it has not.
    #[must_use]
    pub fn finished_at(&self) -> Option<Timestamp> {
        match self {
            Self::Unfinished => None,
            Self::Complete { at } | Self::Failed { at, .. } => Some(*at),
        }
    }

    /// Whether the Job has finished, well or not.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        *self != Self::Unfinished
    }

    /// A Job ended by its deadline has `Failed` True with reason `DeadlineExceeded` (jobs.md §7.1).
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Failed { reason, .. } if reason == "DeadlineExceeded")
    }
}

/// Whether and when a Job finished, from its status.
///
/// Finished = condition `Complete` or `Failed` with status True; `SuccessCriteriaMet` and `FailureTarget` alone do not
/// count, the pod still runs then. The time is that condition's last transition, else the completion time, else the
/// Job's creation (jobs.md §7.1, leases.md §4).
#[must_use]
pub fn finish(status: Option<&JobStatus>, created: Timestamp) -> JobState {
    let Some(status) = status else {
        return JobState::Unfinished;
    };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let at = |condition: &JobCondition| {
        condition
            .last_transition_time
            .as_ref()
            .or(status.completion_time.as_ref())
            .map_or(created, |time| time.0)
    };
    if let Some(complete) = true_condition(conditions, "Complete") {
        return JobState::Complete { at: at(complete) };
    }
    if let Some(failed) = true_condition(conditions, "Failed") {
        return JobState::Failed {
            at: at(failed),
            reason: failed.reason.clone().unwrap_or_default(),
        };
    }
    JobState::Unfinished
}

fn true_condition<'a>(conditions: &'a [JobCondition], type_: &str) -> Option<&'a JobCondition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// One Job as the rules see it: names, marks, times and outcome, without its pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`; compared for equality only.
    pub resource_version: String,
    /// The op label; nothing when it is absent or names no operation.
    pub op: Option<Op>,
    /// The attempt label; nothing when it is absent or no number.
    pub attempt: Option<i32>,
    /// All labels.
    pub labels: BTreeMap<String, String>,
    /// All annotations.
    pub annotations: BTreeMap<String, String>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// UID of the controller owner reference.
    pub controller: Option<String>,
    /// Whether a deletion timestamp is set.
    pub deleting: bool,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// Unfinished, complete or failed.
    pub state: JobState,
}

impl JobFacts {
    /// The facts of a Job given by its metadata and status, so that a view without pod templates can use it too.
    ///
    /// Fields that the API server always fills (name, uid, resourceVersion, creation) read as empty or as the epoch when
    /// they are missing, which only a Job that was never stored can show.
    #[must_use]
    pub fn new(meta: &ObjectMeta, status: Option<&JobStatus>) -> Self {
        let created = meta
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let labels = meta.labels.clone().unwrap_or_default();
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            op: labels.get(key::OP).and_then(|op| op.parse().ok()),
            attempt: labels
                .get(key::ATTEMPT)
                .and_then(|attempt| attempt.parse().ok()),
            labels,
            annotations: meta.annotations.clone().unwrap_or_default(),
            created,
            controller: controller_uid(meta),
            deleting: meta.deletion_timestamp.is_some(),
            started: status
                .and_then(|status| status.start_time.as_ref())
                .map(|time| time.0),
            state: finish(status, created),
        }
    }

    /// The value of an annotation, when it is set and not empty.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A marker annotation counts by its presence, whatever its value (README, decision 6).
    #[must_use]
    pub fn is_marked(&self, key: &str) -> bool {
        self.annotations.contains_key(key)
    }

    /// Whether the result of this Job is already in the object's status.
    #[must_use]
    pub fn is_bookkept(&self) -> bool {
        self.is_marked(keys::BOOKKEPT)
    }

    /// Whether the object with this UID controls the Job; a namesake's Jobs that await garbage collection are not ours
    /// (jobs.md §7.1).
    #[must_use]
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller.as_deref() == Some(uid)
    }

    /// Time since the creation.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.created)
    }

    /// From start (creation when it never started) to finish; nothing while it runs.
    #[must_use]
    pub fn duration(&self) -> Option<SignedDuration> {
        let start = self.started.unwrap_or(self.created);
        Some(self.state.finished_at()?.duration_since(start))
    }
}

impl From<&Job> for JobFacts {
    fn from(job: &Job) -> Self {
        Self::new(&job.metadata, job.status.as_ref())
    }
}

/// UID of the owner reference with `controller: true`.
#[must_use]
pub fn controller_uid(meta: &ObjectMeta) -> Option<String> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use serde_json::json;

    fn job(status: serde_json::Value) -> JobFacts {
        let job: Job = serde_json::from_value(json!({
            "metadata": {
                "name": "captf-c-prod-apply-a3-a77b01",
                "uid": "job-uid",
                "resourceVersion": "42",
                "creationTimestamp": "2026-10-01T12:00:00Z",
                "labels": {
                    "captf.infrastructure.cluster.x-k8s.io/op": "apply",
                    "captf.infrastructure.cluster.x-k8s.io/attempt": "3"
                },
                "annotations": {"captf.io/bookkept": "true"},
                "ownerReferences": [{
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                    "name": "prod", "uid": "owner-uid", "controller": true
                }]
            },
            "status": status
        }))
        .unwrap();
        JobFacts::from(&job)
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn facts_come_from_labels_owner_and_status() {
        let job = job(json!({"startTime": "2026-10-01T12:00:01Z"}));
        assert_eq!(job.op, Some(Op::Apply));
        assert_eq!(job.attempt, Some(3));
        assert!(job.is_controlled_by("owner-uid"));
        assert!(!job.is_controlled_by("another-uid"));
        assert!(job.is_bookkept());
        assert_eq!(job.started, Some(at("2026-10-01T12:00:01Z")));
        assert_eq!(job.state, JobState::Unfinished);
    }

    #[test]
    fn failure_target_alone_is_not_finished() {
        let job = job(json!({"conditions": [{"type": "FailureTarget", "status": "True"}]}));
        assert!(!job.state.is_finished());
    }

    #[test]
    fn success_criteria_met_alone_is_not_finished() {
        let job = job(json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}));
        assert!(!job.state.is_finished());
    }

    #[test]
    fn failed_false_is_not_finished() {
        let job = job(json!({"conditions": [{"type": "Failed", "status": "False"}]}));
        assert!(!job.state.is_finished());
    }

    #[test]
    fn finished_at_is_the_transition_of_the_condition() {
        let job = job(json!({
            "completionTime": "2026-10-01T12:09:00Z",
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-10-01T12:10:00Z"}]
        }));
        assert_eq!(job.state.finished_at(), Some(at("2026-10-01T12:10:00Z")));
    }

    #[test]
    fn finished_at_falls_back_to_completion_then_creation() {
        let complete = json!([{"type": "Complete", "status": "True"}]);
        let with_completion =
            job(json!({"completionTime": "2026-10-01T12:09:00Z", "conditions": complete}));
        assert_eq!(
            with_completion.state.finished_at(),
            Some(at("2026-10-01T12:09:00Z"))
        );
        let without = job(json!({"conditions": complete}));
        assert_eq!(
            without.state.finished_at(),
            Some(at("2026-10-01T12:00:00Z"))
        );
    }

    #[test]
    fn deadline_is_failed_with_its_reason() {
        let job = job(
            json!({"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}),
        );
        assert!(job.state.is_deadline());
    }
}
