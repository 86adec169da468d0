//! The free rule and the classification of a lease (leases.md §4, §11a).

use k8s_openapi::jiff::Timestamp;

use super::holder::signed;
use super::{GRACE, HolderJob, HolderPod, LeaseView};

/// Something that was read, could not be read, or was not needed so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence<T> {
    /// Nobody asked.
    NotRead,
    /// The read failed; the text says how. Unknown is never "free".
    Failed(String),
    /// What the API server answered.
    Read(T),
}

/// What is known about a lease, exactly one of the rows of leases.md §11a.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// Free: it has no holder.
    FreeNoHolder,
    /// Free: it is older than its backstop, whatever its holder does.
    FreeBackstop,
    /// Free: its holder's Job finished and no pod of it runs.
    FreeHolderFinished,
    /// Free: its holder's Job does not exist, it is older than the grace, and no
    /// pod of it runs.
    FreeHolderAbsent,
    /// Held: its holder's Job does not exist (yet), within the grace.
    HeldGrace {
        /// When the grace ends unless somebody refreshes the lease.
        until: Timestamp,
    },
    /// Held: its holder's Job has not finished.
    HeldRunning,
    /// Held: its holder's Job finished or is gone, but pods of it still run.
    HeldPods {
        /// Their names, sorted.
        pods: Vec<String>,
    },
    /// A read failed, so nothing can be said.
    Unknown {
        /// The failed read.
        error: String,
    },
}

impl LeaseState {
    /// May it be taken over (seed: Free)?
    #[must_use]
    pub fn is_free(&self) -> bool {
        matches!(
            self,
            Self::FreeNoHolder
                | Self::FreeBackstop
                | Self::FreeHolderFinished
                | Self::FreeHolderAbsent
        )
    }
}

/// What the free rule says so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The holder's Job must be read live first.
    NeedJob,
    /// The pods of the holder's Job must be listed live first.
    NeedPods,
    /// Decided.
    State(LeaseState),
}

/// The free rule (seed: Free; leases.md §4; decision 1): a lease may be taken when
/// it has no holder; or is older than its backstop; or its holder's Job finished,
/// or does not exist and the lease is older than the grace, and every pod of that
/// Job is Succeeded or Failed.
///
/// Evidence is asked for one piece at a time, in the order of the rule, so that a
/// caller reads no more than it needs. A diagnosis may hand in the pods of a
/// holder within its grace: then a pod alive is named instead of the grace.
/// Comparisons are strict: a lease exactly as old as the grace or the backstop is
/// held.
#[must_use]
pub fn judge(
    lease: &LeaseView,
    now: Timestamp,
    job: &Evidence<HolderJob>,
    pods: &Evidence<Vec<HolderPod>>,
) -> Judgement {
    if lease.holder.is_empty() {
        return Judgement::State(LeaseState::FreeNoHolder);
    }
    let age = lease.age(now);
    if age > signed(lease.backstop) {
        return Judgement::State(LeaseState::FreeBackstop);
    }
    let free = match job {
        Evidence::NotRead => return Judgement::NeedJob,
        Evidence::Failed(error) => return unknown(error),
        Evidence::Read(HolderJob::Unfinished) => return Judgement::State(LeaseState::HeldRunning),
        Evidence::Read(HolderJob::Absent) if age <= signed(GRACE) => {
            return within_grace(lease, pods);
        }
        Evidence::Read(HolderJob::Absent) => LeaseState::FreeHolderAbsent,
        Evidence::Read(HolderJob::Finished) => LeaseState::FreeHolderFinished,
    };
    match pods {
        Evidence::NotRead => Judgement::NeedPods,
        Evidence::Failed(error) => unknown(error),
        Evidence::Read(pods) => Judgement::State(held_by_pods(pods).unwrap_or(free)),
    }
}

fn within_grace(lease: &LeaseView, pods: &Evidence<Vec<HolderPod>>) -> Judgement {
    let until = lease
        .acquired_at
        .saturating_add(signed(GRACE))
        .unwrap_or(Timestamp::MAX);
    match pods {
        Evidence::Failed(error) => unknown(error),
        Evidence::NotRead => Judgement::State(LeaseState::HeldGrace { until }),
        Evidence::Read(pods) => {
            Judgement::State(held_by_pods(pods).unwrap_or(LeaseState::HeldGrace { until }))
        }
    }
}

fn held_by_pods(pods: &[HolderPod]) -> Option<LeaseState> {
    let mut alive: Vec<String> = pods
        .iter()
        .filter(|pod| !pod.is_terminal())
        .map(|pod| pod.name.clone())
        .collect();
    alive.sort();
    (!alive.is_empty()).then_some(LeaseState::HeldPods { pods: alive })
}

fn unknown(error: &str) -> Judgement {
    Judgement::State(LeaseState::Unknown {
        error: error.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use k8s_openapi::jiff::{SignedDuration, Timestamp};

    use super::{Evidence, Judgement, LeaseState, judge};
    use crate::lease::{HolderJob, HolderPod, LeaseView};

    fn now() -> Timestamp {
        "2026-10-01T12:00:00Z".parse().unwrap()
    }

    fn lease(holder: &str, age_seconds: i64) -> LeaseView {
        LeaseView {
            namespace: "ns".into(),
            name: "captf-run-3f6c665eb6eaf3a5-c".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            holder: holder.into(),
            op: "apply".into(),
            acquired_at: now() - SignedDuration::from_secs(age_seconds),
            backstop: Duration::from_secs(4500),
            owner_kind: "TerraformCluster".into(),
            owner_name: "c1".into(),
            cluster: "c1".into(),
            lease: "run".into(),
        }
    }

    fn pod(phase: &str, age_seconds: i64) -> HolderPod {
        HolderPod {
            name: "job-x7k2p".into(),
            phase: phase.into(),
            created: now() - SignedDuration::from_secs(age_seconds),
        }
    }

    fn state(age: i64, job: HolderJob, pods: &[HolderPod]) -> LeaseState {
        match judge(
            &lease("job", age),
            now(),
            &Evidence::Read(job),
            &Evidence::Read(pods.to_vec()),
        ) {
            Judgement::State(state) => state,
            other => panic!("undecided: {other:?}"),
        }
    }

    #[test]
    fn no_holder_is_free() {
        let said = judge(&lease("", 0), now(), &Evidence::NotRead, &Evidence::NotRead);
        assert_eq!(said, Judgement::State(LeaseState::FreeNoHolder));
    }

    #[test]
    fn past_the_backstop_is_free_without_any_read() {
        let said = judge(
            &lease("job", 4501),
            now(),
            &Evidence::NotRead,
            &Evidence::NotRead,
        );
        assert_eq!(said, Judgement::State(LeaseState::FreeBackstop));
    }

    #[test]
    fn exactly_the_backstop_is_held() {
        assert_eq!(
            state(4500, HolderJob::Unfinished, &[]),
            LeaseState::HeldRunning
        );
    }

    #[test]
    fn holder_absent_within_grace_is_held() {
        assert!(matches!(
            state(30, HolderJob::Absent, &[]),
            LeaseState::HeldGrace { .. }
        ));
    }

    #[test]
    fn holder_absent_at_exactly_sixty_seconds_is_held_and_at_sixty_one_free() {
        assert!(!state(60, HolderJob::Absent, &[]).is_free());
        assert_eq!(
            state(61, HolderJob::Absent, &[]),
            LeaseState::FreeHolderAbsent
        );
    }

    #[test]
    fn a_finished_holder_needs_every_pod_terminal() {
        for phase in ["Running", "Pending", "Unknown", ""] {
            let held = LeaseState::HeldPods {
                pods: vec!["job-x7k2p".into()],
            };
            assert_eq!(
                state(5, HolderJob::Finished, &[pod(phase, 5)]),
                held,
                "{phase}"
            );
        }
        assert_eq!(
            state(5, HolderJob::Finished, &[pod("Failed", 5)]),
            LeaseState::FreeHolderFinished
        );
    }

    #[test]
    fn an_absent_holder_past_the_grace_needs_every_pod_terminal() {
        assert!(!state(300, HolderJob::Absent, &[pod("Running", 300)]).is_free());
        assert!(state(300, HolderJob::Absent, &[pod("Succeeded", 300)]).is_free());
    }

    #[test]
    fn the_grace_needs_no_pods_but_names_one_that_is_alive() {
        let said = judge(
            &lease("job", 5),
            now(),
            &Evidence::Read(HolderJob::Absent),
            &Evidence::NotRead,
        );
        assert!(matches!(
            said,
            Judgement::State(LeaseState::HeldGrace { .. })
        ));
        assert!(matches!(
            state(5, HolderJob::Absent, &[pod("Running", 5)]),
            LeaseState::HeldPods { .. }
        ));
    }

    #[test]
    fn a_failed_read_is_unknown_never_free() {
        let failed = Evidence::Failed("get Job ns/job: boom".into());
        let said = judge(&lease("job", 300), now(), &failed, &Evidence::NotRead);
        assert_eq!(
            said,
            Judgement::State(LeaseState::Unknown {
                error: "get Job ns/job: boom".into()
            })
        );
        let no_pods = Evidence::Failed("list pods".into());
        let said = judge(
            &lease("job", 300),
            now(),
            &Evidence::Read(HolderJob::Finished),
            &no_pods,
        );
        assert!(matches!(said, Judgement::State(LeaseState::Unknown { .. })));
    }

    #[test]
    fn evidence_is_asked_for_in_the_order_of_the_rule() {
        assert_eq!(
            judge(
                &lease("job", 5),
                now(),
                &Evidence::NotRead,
                &Evidence::NotRead
            ),
            Judgement::NeedJob
        );
        let finished = Evidence::Read(HolderJob::Finished);
        assert_eq!(
            judge(&lease("job", 5), now(), &finished, &Evidence::NotRead),
            Judgement::NeedPods
        );
    }
}
