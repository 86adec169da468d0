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
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;
    use crate::names::Kind;

    const OWN: &str = "captf-c-prod-apply-a2-44bb70-x4k8d";

    fn object() -> ObjectKey {
        ObjectKey::new(Kind::TerraformCluster, "team-a", "prod")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn lease(who: &str) -> LockLease {
        LockLease {
            holder_identity: "5f0c".into(),
            lock_info: Some(format!(
                r#"{{"ID":"5f0c-id","Operation":"OperationTypeApply","Info":"","Who":"{who}","Version":"1.16.4","Created":"2026-11-30T16:00:00.123456789Z","Path":""}}"#
            )),
            ..LockLease::default()
        }
    }

    fn held(lease: &LockLease) -> HeldLock {
        read_lock(&object(), Some(lease)).expect("the lock is held")
    }

    fn facts(pod: PodFact, job_deadline: Option<u64>, now: &str) -> LockFacts {
        LockFacts {
            pod,
            job_deadline: job_deadline.map(Duration::from_secs),
            effective_deadline: Duration::from_secs(7200),
            now: at(now),
        }
    }

    fn verdict(lease: &LockLease, facts: LockFacts) -> LockVerdict {
        held(lease).judge(Some(&facts))
    }

    fn stale() -> LockVerdict {
        LockVerdict::Stale {
            lock_id: "5f0c-id".into(),
        }
    }

    #[test]
    fn no_lease_or_no_holder_is_free() {
        assert_eq!(read_lock(&object(), None), None);
        assert_eq!(read_lock(&object(), Some(&LockLease::default())), None);
    }

    #[rstest]
    #[case(&format!("runner@{OWN}"), true)]
    #[case(&format!("@{OWN}"), true)]
    #[case(&format!("a@b@{OWN}"), true)]
    #[case("@captf-c-prod-destroy-a1-44bb70-x4k8d", true)]
    #[case("@captf-m-prod-apply-a2-44bb70-x4k8d", false)]
    #[case("@captf-c-other-apply-a2-44bb70-x4k8d", false)]
    #[case("@captf-c-prod-apply-a2-44bb70", false)]
    #[case("ann@workstation-7", false)]
    #[case(OWN, false)]
    #[case("", false)]
    fn holder_is_own_only_as_a_pod_of_own_jobs_after_the_last_at(
        #[case] who: &str,
        #[case] own: bool,
    ) {
        let holder = held(&lease(who)).holder;
        assert_eq!(matches!(holder, LockHolder::OwnPod { .. }), own);
        assert_eq!(matches!(holder, LockHolder::Foreign), !own);
    }

    #[test]
    fn an_own_holder_names_its_job() {
        let holder = held(&lease(&format!("@{OWN}"))).holder;
        let expected = LockHolder::OwnPod {
            pod: OWN.into(),
            job: "captf-c-prod-apply-a2-44bb70".into(),
        };
        assert_eq!(holder, expected);
    }

    #[rstest]
    #[case(None)]
    #[case(Some("not json".to_owned()))]
    fn unparsable_info_is_an_unknown_holder_and_never_stale(#[case] info: Option<String>) {
        let lease = LockLease {
            lock_info: info,
            ..lease("")
        };
        let held = held(&lease);
        assert_eq!(held.holder, LockHolder::Unknown);
        assert_eq!(held.id, "5f0c");
        assert_eq!(
            verdict(&lease, facts(PodFact::Ended, None, "2030-01-01T00:00:00Z")),
            LockVerdict::Foreign
        );
    }

    #[test]
    fn s8_an_own_pod_seen_ended_is_stale_at_any_age() {
        let ended = facts(PodFact::Ended, Some(3600), "2026-11-30T16:00:01Z");
        assert_eq!(verdict(&lease(&format!("@{OWN}")), ended), stale());
    }

    #[test]
    fn s10_an_own_pod_alive_is_never_stale_whatever_the_age() {
        let alive = facts(PodFact::Alive, Some(60), "2030-01-01T00:00:00Z");
        assert_eq!(
            verdict(&lease(&format!("@{OWN}")), alive),
            LockVerdict::Live
        );
    }

    #[rstest]
    // Created 16:00:00.123; the Job's deadline of one hour + 900 s end at 17:15:00.123.
    #[case(
        Some(3600),
        "2026-11-30T17:15:00Z",
        "2026-11-30T17:15:00.123456789Z",
        false
    )]
    #[case(
        Some(3600),
        "2026-11-30T17:15:01Z",
        "2026-11-30T17:15:00.123456789Z",
        true
    )]
    // Job gone: the object's effective deadline, two hours, is the larger.
    #[case(None, "2026-11-30T17:15:01Z", "2026-11-30T18:15:00.123456789Z", false)]
    #[case(None, "2026-11-30T18:15:01Z", "2026-11-30T18:15:00.123456789Z", true)]
    fn an_absent_pod_is_stale_only_after_deadline_and_margin(
        #[case] deadline: Option<u64>,
        #[case] now: &str,
        #[case] after: &str,
        #[case] expected: bool,
    ) {
        let verdict = verdict(
            &lease(&format!("@{OWN}")),
            facts(PodFact::Absent, deadline, now),
        );
        if expected {
            assert_eq!(verdict, stale());
        } else {
            let stale_after = Some(at(after));
            assert_eq!(verdict, LockVerdict::Unproven { stale_after });
        }
    }

    #[test]
    fn a_lost_job_is_given_at_least_an_hour() {
        let facts = LockFacts {
            effective_deadline: Duration::from_secs(60),
            ..facts(PodFact::Absent, None, "2026-11-30T17:00:00Z")
        };
        assert_eq!(
            verdict(&lease(&format!("@{OWN}")), facts),
            LockVerdict::Unproven {
                stale_after: Some(at("2026-11-30T17:15:00.123456789Z"))
            }
        );
    }

    #[test]
    fn the_age_counts_from_the_later_of_created_and_the_servers_write() {
        let written = LockLease {
            written_at: Some(at("2026-11-30T16:30:00Z")),
            ..lease(&format!("@{OWN}"))
        };
        assert_eq!(held(&written).since, Some(at("2026-11-30T16:30:00Z")));
        let earlier = LockLease {
            written_at: Some(at("2026-11-30T15:00:00Z")),
            ..written
        };
        assert_eq!(
            held(&earlier).since,
            Some(at("2026-11-30T16:00:00.123456789Z"))
        );
    }

    #[test]
    fn a_lock_of_unknown_age_is_never_proven_by_time() {
        let mut ageless = lease("");
        ageless.lock_info = Some(format!(r#"{{"ID":"5f0c-id","Who":"@{OWN}"}}"#));
        assert_eq!(
            verdict(
                &ageless,
                facts(PodFact::Absent, Some(1), "2030-01-01T00:00:00Z")
            ),
            LockVerdict::Unproven { stale_after: None }
        );
    }

    #[test]
    fn an_own_lock_without_facts_is_unproven() {
        let lock = held(&lease(&format!("@{OWN}")));
        assert_eq!(lock.own_pod(), Some((OWN, "captf-c-prod-apply-a2-44bb70")));
        let unproven = LockVerdict::Unproven { stale_after: None };
        assert_eq!(lock.judge(None), unproven);
    }

    #[test]
    fn s9_a_foreign_lock_is_reported_with_holder_operation_and_time() {
        let lease = lease("ann@workstation-7");
        let verdict = verdict(&lease, facts(PodFact::Absent, None, "2030-01-01T00:00:00Z"));
        assert_eq!(verdict, LockVerdict::Foreign);
        let report = held(&lease).report(&verdict).unwrap();
        let message = report.message();
        assert!(
            message.starts_with(
                "the state is locked (ID 5f0c-id, by ann@workstation-7, operation \
                 OperationTypeApply, since 2026-11-30T16:00:00.123456789Z): "
            ),
            "{message}"
        );
    }

    #[test]
    fn an_unproven_lock_says_what_is_missing_and_until_when() {
        let lease = lease(&format!("@{OWN}"));
        let verdict = verdict(
            &lease,
            facts(PodFact::Absent, Some(3600), "2026-11-30T16:10:00Z"),
        );
        let report = held(&lease).report(&verdict).unwrap();
        let message = report.message();
        assert!(message.contains(&format!("pod {OWN} does not exist and nobody saw it end")));
        assert!(message.contains("it counts as stale after 2026-11-30T17:15:00Z"));
    }

    #[test]
    fn live_and_stale_locks_are_not_reported() {
        let held = held(&lease(&format!("@{OWN}")));
        assert_eq!(held.report(&LockVerdict::Live), None);
        assert_eq!(held.report(&stale()), None);
    }
}
