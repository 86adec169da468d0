//! The holder of a lease as its readers see it: the Job and its pods, read live.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::jobs::facts::finish;

/// The holder's Job as read live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HolderJob {
    /// No Job of that name.
    Absent,
    /// Neither condition Complete nor Failed is True (SuccessCriteriaMet and
    /// FailureTarget do not count).
    Unfinished,
    /// Condition Complete or Failed is True.
    Finished,
}

impl HolderJob {
    /// Reads a Job, or its absence.
    #[must_use]
    pub fn of(job: Option<&Job>) -> Self {
        let Some(job) = job else { return Self::Absent };
        // Only whether it finished counts here, so the time that stands in for a missing one is free.
        if finish(job.status.as_ref(), Timestamp::UNIX_EPOCH).is_finished() {
            Self::Finished
        } else {
            Self::Unfinished
        }
    }
}

/// A pod of the holder's Job as read live, found by the label
/// `batch.kubernetes.io/job-name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderPod {
    /// Name of the pod.
    pub name: String,
    /// `status.phase`; empty when unset.
    pub phase: String,
    /// Creation time.
    pub created: Timestamp,
}

impl HolderPod {
    /// Reads a pod. One without a phase or creation time counts as running and new.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            phase: pod
                .status
                .as_ref()
                .and_then(|status| status.phase.clone())
                .unwrap_or_default(),
            created: pod
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(Timestamp::MAX, |time| time.0),
        }
    }

    /// Only Succeeded and Failed prove that nothing runs: a terminating pod still
    /// runs Terraform (decision 1).
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}

/// A pod that forbids a start under the same Job name (leases.md §6, `oldPods`):
/// not terminal, and not created longer ago than the backstop (G3 bounds the wait).
#[must_use]
pub fn counts_for_old_pods(pod: &HolderPod, now: Timestamp, backstop: Duration) -> bool {
    !pod.is_terminal() && now.duration_since(pod.created) <= signed(backstop)
}

/// What the pods of a deleted Job say to a start under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldPods {
    /// None counts: go on.
    None,
    /// Only Pending ones, of a stuck Job just deleted: they end in a moment.
    Pending,
    /// One runs, or may run: wait for it.
    Running,
}

/// Sums the pods up (leases.md §6, `oldPods`).
#[must_use]
pub fn old_pods(pods: &[HolderPod], now: Timestamp, backstop: Duration) -> OldPods {
    let mut counting = pods
        .iter()
        .filter(|pod| counts_for_old_pods(pod, now, backstop))
        .peekable();
    if counting.peek().is_none() {
        OldPods::None
    } else if counting.all(|pod| pod.phase == "Pending") {
        OldPods::Pending
    } else {
        OldPods::Running
    }
}

pub(super) fn signed(d: Duration) -> SignedDuration {
    SignedDuration::try_from(d).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::{HolderJob, HolderPod, OldPods, counts_for_old_pods, old_pods};

    fn now() -> Timestamp {
        "2026-10-01T12:00:00Z".parse().unwrap()
    }

    fn pod(phase: &str, age_seconds: i64) -> HolderPod {
        HolderPod {
            name: "job-x7k2p".into(),
            phase: phase.into(),
            created: now() - SignedDuration::from_secs(age_seconds),
        }
    }

    fn job(conditions: &serde_json::Value) -> Job {
        serde_json::from_value(json!({ "status": { "conditions": conditions } })).unwrap()
    }

    #[test]
    fn only_complete_or_failed_with_status_true_finishes_the_holder() {
        let of = |type_: &str, status: &str| {
            HolderJob::of(Some(&job(&json!([{ "type": type_, "status": status }]))))
        };
        assert_eq!(HolderJob::of(None), HolderJob::Absent);
        assert_eq!(HolderJob::of(Some(&Job::default())), HolderJob::Unfinished);
        assert_eq!(of("Complete", "True"), HolderJob::Finished);
        assert_eq!(of("Failed", "True"), HolderJob::Finished);
        assert_eq!(of("Failed", "False"), HolderJob::Unfinished);
        assert_eq!(of("Complete", "Unknown"), HolderJob::Unfinished);
        assert_eq!(of("SuccessCriteriaMet", "True"), HolderJob::Unfinished);
        assert_eq!(of("FailureTarget", "True"), HolderJob::Unfinished);
    }

    #[test]
    fn a_pod_older_than_the_backstop_no_longer_counts_as_an_old_pod() {
        let backstop = Duration::from_secs(4500);
        assert!(counts_for_old_pods(&pod("Running", 4500), now(), backstop));
        assert!(counts_for_old_pods(&pod("Pending", 1), now(), backstop));
        assert!(!counts_for_old_pods(&pod("Running", 4501), now(), backstop));
        assert!(!counts_for_old_pods(&pod("Failed", 1), now(), backstop));
    }

    #[test]
    fn pending_pods_alone_defer_and_a_running_one_waits() {
        let backstop = Duration::from_secs(4500);
        let sum = |phases: &[&str]| {
            let pods: Vec<HolderPod> = phases.iter().map(|phase| pod(phase, 1)).collect();
            old_pods(&pods, now(), backstop)
        };
        assert_eq!(sum(&[]), OldPods::None);
        assert_eq!(sum(&["Failed", "Succeeded"]), OldPods::None);
        assert_eq!(sum(&["Pending", "Failed"]), OldPods::Pending);
        assert_eq!(sum(&["Pending", "Running"]), OldPods::Running);
        assert_eq!(sum(&["Unknown"]), OldPods::Running);
    }
}
