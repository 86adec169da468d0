//! What is known about a lease: what was read of its holder, its pods and its owner.

use jiff::Timestamp;

use crate::jobs::facts;
use crate::lease::LeaseView;
use crate::plugin::read::JobRow;
use crate::plugin::read::wire::{Condition, JobItem, LeaseItem};
use crate::plugin::report::{At, JobReport};
use crate::plugin::time;

/// A fact that was asked for, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact<T> {
    /// Nobody asked.
    NotRead,
    /// The read failed; the text says how.
    Unreadable(String),
    /// The API server has no such object.
    Absent,
    /// What it answered.
    Found(T),
}

impl<T> Fact<T> {
    /// The value, when there is one.
    pub(crate) fn found(&self) -> Option<&T> {
        match self {
            Self::Found(value) => Some(value),
            _ => None,
        }
    }
}

/// A holder's Job as far as it was read: from the object, or from a table row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderFacts {
    /// What it does.
    pub(crate) state: JobState,
    /// Its uid, when the object was read.
    pub(crate) uid: Option<String>,
    /// When it was created, when the object was read.
    pub(crate) created: Option<Timestamp>,
    /// When it started.
    pub(crate) started: Option<Timestamp>,
    /// `activeDeadlineSeconds`.
    pub(crate) deadline_seconds: Option<i64>,
    /// When it finished.
    pub(crate) finished: Option<Timestamp>,
    /// Pods that are Pending or Running, and ready ones, by the Job's own count.
    pub(crate) active_and_ready: Option<(i64, i64)>,
}

/// What a Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    /// Condition Complete is True.
    Complete,
    /// Condition Failed is True.
    Failed,
    /// Unfinished.
    Running,
    /// Unfinished: held back.
    Suspended,
    /// Unfinished: its pods are being ended first.
    Ending,
    /// Unfinished: being deleted.
    Deleting,
}

impl JobState {
    /// Only Complete and Failed count as finished (leases.md §4).
    pub(crate) fn is_finished(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }

    /// The word in reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::Running => "Running",
            Self::Suspended => "Suspended",
            Self::Ending => "Ending",
            Self::Deleting => "Deleting",
        }
    }
}

impl From<JobRow> for HolderFacts {
    fn from(row: JobRow) -> Self {
        Self {
            state: match row {
                JobRow::Complete => JobState::Complete,
                JobRow::Failed => JobState::Failed,
                JobRow::Running => JobState::Running,
                JobRow::Suspended => JobState::Suspended,
                JobRow::Terminating => JobState::Deleting,
                JobRow::Ending => JobState::Ending,
            },
            uid: None,
            created: None,
            started: None,
            deadline_seconds: None,
            finished: None,
            active_and_ready: None,
        }
    }
}

impl From<&JobItem> for HolderFacts {
    fn from(job: &JobItem) -> Self {
        let created = job.metadata.creation_timestamp.unwrap_or_default();
        let ending = |kind: &str| {
            let mut conditions = job.status.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == kind && condition.status == "True")
        };
        let finished = facts::finish(Some(&job.status), created);
        let state = match finished {
            facts::JobState::Complete { .. } => JobState::Complete,
            facts::JobState::Failed { .. } => JobState::Failed,
            facts::JobState::Unfinished if job.metadata.deletion_timestamp.is_some() => {
                JobState::Deleting
            }
            facts::JobState::Unfinished
                if ending("FailureTarget") || ending("SuccessCriteriaMet") =>
            {
                JobState::Ending
            }
            facts::JobState::Unfinished if job.spec.suspend => JobState::Suspended,
            facts::JobState::Unfinished => JobState::Running,
        };
        let count = |pods: Option<i32>| i64::from(pods.unwrap_or_default());
        Self {
            state,
            uid: Some(job.metadata.uid.clone()),
            created: job.metadata.creation_timestamp,
            started: job.status.start_time.as_ref().map(|time| time.0),
            deadline_seconds: job.spec.active_deadline_seconds,
            finished: finished.finished_at(),
            active_and_ready: Some((count(job.status.active), count(job.status.ready))),
        }
    }
}

impl HolderFacts {
    /// When Kubernetes stops it.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        Some(time::plus(self.started?, self.deadline_seconds?))
    }

    /// The Job in a report, without its name.
    pub(crate) fn report(&self) -> JobReport {
        JobReport {
            name: None,
            exists: true,
            state: Some(self.state.as_str()),
            start_time: self.started.map(At),
            deadline: self.deadline().map(At),
            finished_at: self.finished.map(At),
        }
    }
}

/// A pod of a holder's Job that has neither succeeded nor failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivePod {
    /// Name.
    pub(crate) name: String,
    /// When it was created.
    pub(crate) created: Timestamp,
    /// When it must be gone, once somebody asked for its deletion: the grace is included.
    pub(crate) stops: Option<Timestamp>,
}

/// Everything that is known about one lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseFacts {
    /// The lease.
    pub(crate) view: LeaseView,
    /// Its newest write, by the API server's clock.
    pub(crate) written_at: Option<Timestamp>,
    /// Whether the fence wrote it again after it was taken (leases.md §6.7).
    pub(crate) fenced: bool,
    /// Whether it carries the operator's own label.
    pub(crate) managed: bool,
    /// The holder's Job.
    pub(crate) job: Fact<HolderFacts>,
    /// The live pods of that Job; `Found` may be empty.
    pub(crate) pods: Fact<Vec<LivePod>>,
    /// The object it belongs to.
    pub(crate) owner: Fact<OwnerFacts>,
}

impl LeaseFacts {
    /// A lease of which nothing else was read yet.
    pub(crate) fn unread(item: &LeaseItem) -> Self {
        Self {
            view: item.view(),
            written_at: item.written_at(),
            fenced: item.is_fenced(),
            managed: item.is_managed(),
            job: Fact::NotRead,
            pods: Fact::NotRead,
            owner: Fact::NotRead,
        }
    }
}

/// What a lease's owner says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerFacts {
    /// Its real name.
    pub(crate) name: String,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
}

/// The conditions on which an operation waits, and the operations they stand for (leases.md §7).
const WAIT_CONDITIONS: [(&str, &str); 3] = [
    ("ApplyJobSucceeded", "apply"),
    ("DriftJobSucceeded", "drift"),
    ("RestoreJobSucceeded", "restore"),
];

impl OwnerFacts {
    /// The wait with this reason, if the object reports one.
    pub(crate) fn waits(&self, reason: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| {
            condition.reason == reason
                && condition.status == "Unknown"
                && WAIT_CONDITIONS
                    .iter()
                    .any(|(kind, _)| *kind == condition.kind)
        })
    }
}

/// The operation whose wait a condition reports.
pub(crate) fn waiting_operation(condition: &Condition) -> &'static str {
    WAIT_CONDITIONS
        .iter()
        .find(|(kind, _)| *kind == condition.kind)
        .map_or("", |(_, operation)| operation)
}
