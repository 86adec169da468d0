//! The state lock: who holds it, and whether that holder is proven gone (README decision 13,
//! state-secrets.md §4, jobs.md §14).

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use serde::Deserialize;

use crate::api::conditions::{State as _, StateReadable, Verdict};
use crate::names::{ObjectKey, own_pod, stamp};

/// Annotation in which Terraform's backend describes the holder.
const LOCK_INFO_ANNOTATION: &str = "app.terraform.io/lock-info";

/// What a lock may outlive its Job's deadline: termination grace and margin.
const LOCK_MARGIN: Duration = Duration::from_secs(900);

/// Least deadline assumed of a Job that is gone.
const DEADLINE_OF_LOST_JOB: Duration = Duration::from_secs(3600);

/// What is looked at of the lock Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockLease {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`: for `captf.io/state-lock-version` and guarded writes.
    pub resource_version: String,
    /// `spec.holderIdentity`, empty when unset.
    pub holder_identity: String,
    /// Annotation with the lock info.
    pub lock_info: Option<String>,
    /// Newest of `metadata.managedFields[].time`: written with the API server's clock.
    pub written_at: Option<Timestamp>,
}

impl From<Lease> for LockLease {
    fn from(lease: Lease) -> Self {
        let meta = lease.metadata;
        Self {
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            holder_identity: lease
                .spec
                .and_then(|spec| spec.holder_identity)
                .unwrap_or_default(),
            lock_info: meta
                .annotations
                .and_then(|mut annotations| annotations.remove(LOCK_INFO_ANNOTATION)),
            written_at: meta
                .managed_fields
                .unwrap_or_default()
                .into_iter()
                .filter_map(|entry| entry.time)
                .map(|time| time.0)
                .max(),
        }
    }
}

/// What the runtime says about a lock. Absent fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LockInfo {
    /// The lock's ID, which `force-unlock` needs.
    #[serde(rename = "ID")]
    pub id: String,
    /// For example `OperationTypeApply`.
    pub operation: String,
    /// `user@hostname`; in a Job the hostname is the whole pod name.
    pub who: String,
    /// The runtime's version.
    pub version: String,
    /// When it was taken, with the holder's clock.
    pub created: String,
}

/// A held lock, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// What `force-unlock` is given: the ID of the lock info, else the holder identity.
    pub id: String,
    /// The lock info, `None` when it is absent or cannot be parsed.
    pub info: Option<LockInfo>,
    /// Who holds it.
    pub holder: LockHolder,
    /// The later of `Created`, which the node's clock wrote, and the Lease's newest write.
    pub since: Option<Timestamp>,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// A pod of one of this object's own Jobs.
    OwnPod {
        /// The pod.
        pod: String,
        /// Its Job.
        job: String,
    },
    /// Anybody else, a person's workstation for example.
    Foreign,
    /// The lock info says nothing that can be read.
    Unknown,
}

/// Reads the lock of `object`, `None` when nobody holds it: there is no Lease, or it has no holder,
/// which is the usual rest state. The holder is the part of `Who` after the last `@` when that is a
/// pod name of this object's own Jobs, of any operation and attempt (state-secrets.md §4).
#[must_use]
pub fn read_lock(object: &ObjectKey, lease: Option<&LockLease>) -> Option<HeldLock> {
    let lease = lease.filter(|lease| !lease.holder_identity.is_empty())?;
    let info: Option<LockInfo> = lease
        .lock_info
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let id = info
        .as_ref()
        .map(|info| info.id.as_str())
        .filter(|id| !id.is_empty())
        .unwrap_or(&lease.holder_identity);
    let created = info.as_ref().and_then(|info| info.created.parse().ok());
    Some(HeldLock {
        id: id.to_owned(),
        holder: info
            .as_ref()
            .map_or(LockHolder::Unknown, |info| holder(object, &info.who)),
        since: lease.written_at.max(created),
        info,
    })
}

fn holder(object: &ObjectKey, who: &str) -> LockHolder {
    who.rsplit_once('@')
        .map(|(_, host)| host)
        .filter(|host| own_pod(object.kind, &object.name, host).is_some())
        .and_then(|host| host.rsplit_once('-').map(|(job, _)| (host, job)))
        .map_or(LockHolder::Foreign, |(pod, job)| LockHolder::OwnPod {
            pod: pod.to_owned(),
            job: job.to_owned(),
        })
}

/// What is known of the pod that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodFact {
    /// Read live and neither Succeeded nor Failed; a terminating pod counts as alive.
    Alive,
    /// Read live as Succeeded or Failed, or seen so by the pod watch before it went.
    Ended,
    /// Absent, and nobody saw it end: no proof, Terraform may run on (README decision 13).
    Absent,
}

/// What is needed to judge the lock of an own pod.
#[derive(Clone, Copy, Debug)]
pub struct LockFacts {
    /// The holder pod.
    pub pod: PodFact,
    /// `activeDeadlineSeconds` of the holder's Job, `None` when the Job is gone.
    pub job_deadline: Option<Duration>,
    /// The deadline a Job of this object would have now.
    pub effective_deadline: Duration,
    /// The API server's time.
    pub now: Timestamp,
}

/// What a lock means for the next Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockVerdict {
    /// An own pod holds it and is alive: left alone, nothing reported (S-10).
    Live,
    /// Its holder is proven gone: the next Job unlocks it with this ID (S-8).
    Stale {
        /// What `--force-unlock` is given.
        lock_id: String,
    },
    /// An own pod holds it whose end nobody saw.
    Unproven {
        /// From then on it counts as stale; `None` when its age is unknown.
        stale_after: Option<Timestamp>,
    },
    /// Somebody else, or nobody known, holds it: never unlocked (S-9).
    Foreign,
}

impl HeldLock {
    /// Pod and Job that hold the lock, when they are the object's own: what [`LockFacts`] must be read
    /// about.
    #[must_use]
    pub fn own_pod(&self) -> Option<(&str, &str)> {
        match &self.holder {
            LockHolder::OwnPod { pod, job } => Some((pod, job)),
            LockHolder::Foreign | LockHolder::Unknown => None,
        }
    }

    /// Judges the lock: stale only when an own pod held it and was seen ended, or is absent and the
    /// lock is older than its Job's deadline + 900 s; of a Job that is gone the deadline counts as the
    /// larger of 3600 s and the object's effective one. A pod that was read alive is never stale,
    /// whatever the lock's age (README decision 13, state-secrets.md §4). `facts` are about
    /// [`HeldLock::own_pod`]; without them nothing is proven.
    #[must_use]
    pub fn judge(&self, facts: Option<&LockFacts>) -> LockVerdict {
        if self.own_pod().is_none() {
            return LockVerdict::Foreign;
        }
        let Some(facts) = facts else {
            return LockVerdict::Unproven { stale_after: None };
        };
        let stale = || LockVerdict::Stale {
            lock_id: self.id.clone(),
        };
        match facts.pod {
            PodFact::Alive => LockVerdict::Live,
            PodFact::Ended => stale(),
            PodFact::Absent => {
                let stale_after = self.stale_after(facts);
                if stale_after.is_some_and(|time| facts.now > time) {
                    stale()
                } else {
                    LockVerdict::Unproven { stale_after }
                }
            }
        }
    }

    fn stale_after(&self, facts: &LockFacts) -> Option<Timestamp> {
        let deadline = facts
            .job_deadline
            .unwrap_or_else(|| facts.effective_deadline.max(DEADLINE_OF_LOST_JOB));
        let margin = SignedDuration::try_from(deadline + LOCK_MARGIN).ok()?;
        self.since?.checked_add(margin).ok()
    }

    /// What the condition `StateReadable` says, `None` where the lock is no reason to report anything. It names holder, operation and time as far as known, and for an own pod what is
    /// missing and until when (conditions-events.md §3.8).
    #[must_use]
    pub fn report(&self, verdict: &LockVerdict) -> Option<Verdict> {
        let message = match (verdict, &self.holder) {
            (LockVerdict::Unproven { stale_after }, LockHolder::OwnPod { pod, .. }) => {
                let until = stale_after.map_or_else(
                    || "its age is unknown, so only a person can release it".to_owned(),
                    |time| format!("it counts as stale after {}", stamp(Some(time))),
                );
                format!(
                    "{self}: pod {pod} does not exist and nobody saw it end, so Terraform may still \
                     run; {until}; if the process has surely ended: kubectl captf unlock"
                )
            }
            (LockVerdict::Foreign, _) => format!(
                "{self}: the holder is no runner of this object, so the lock is never taken from it; \
                 Jobs wait for it and fail after the lock timeout; ask the holder to finish"
            ),
            _ => return None,
        };
        Some(StateReadable::StateLocked.with(message))
    }
}

impl fmt::Display for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state is locked (ID {}", self.id)?;
        let known = self.info.iter().flat_map(|info| {
            [
                ("by", &info.who),
                ("operation", &info.operation),
                ("since", &info.created),
            ]
        });
        for (word, value) in known.filter(|(_, value)| !value.is_empty()) {
            write!(f, ", {word} {value}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests;
