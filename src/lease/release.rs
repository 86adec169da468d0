//! When a lease may be given back (seed: Release; leases.md §8).

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::holder::{HolderJob, HolderPod, counts_for_old_pods};
use super::rule::Evidence;

/// Why a lease is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseMoment {
    /// R1: the pass that counts a finished Job.
    Finished,
    /// R2 and R3: the start ended before a Job existed, the create was rejected, or
    /// the fence refused. Only the absence of the Job proves that nobody holds it.
    Unstarted,
}

/// May the lease of a holder with this evidence be deleted? The lease itself must
/// have been read before the evidence, else its resourceVersion may be that of a
/// newer Job of the same name (leases.md §8, §14).
///
/// An unfinished Job keeps it; an unstarted one keeps it when the Job exists at
/// all; a pod that counts as old, Pending included, keeps it; and so does a read
/// that failed or was not made.
#[must_use]
pub fn may_release(
    moment: ReleaseMoment,
    job: &Evidence<HolderJob>,
    pods: &Evidence<Vec<HolderPod>>,
    now: Timestamp,
    backstop: Duration,
) -> bool {
    let job_allows = match (moment, job) {
        (_, Evidence::Read(HolderJob::Absent))
        | (ReleaseMoment::Finished, Evidence::Read(HolderJob::Finished)) => true,
        (_, Evidence::Read(_) | Evidence::Failed(_) | Evidence::NotRead) => false,
    };
    job_allows
        && matches!(pods, Evidence::Read(pods) if !pods.iter().any(|pod| counts_for_old_pods(pod, now, backstop)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;

    use super::{ReleaseMoment, may_release};
    use crate::lease::{Evidence, HolderJob, HolderPod};

    fn allowed(moment: ReleaseMoment, job: Evidence<HolderJob>, phases: &[&str]) -> bool {
        let now: Timestamp = "2026-10-01T12:00:00Z".parse().unwrap();
        let pods = phases
            .iter()
            .map(|p| HolderPod {
                name: "p".into(),
                phase: (*p).into(),
                created: now,
            })
            .collect();
        may_release(
            moment,
            &job,
            &Evidence::Read(pods),
            now,
            Duration::from_secs(4500),
        )
    }

    #[test]
    fn a_finished_job_gives_back_once_its_pods_are_terminal() {
        let finished = || Evidence::Read(HolderJob::Finished);
        assert!(allowed(ReleaseMoment::Finished, finished(), &["Succeeded"]));
        assert!(!allowed(ReleaseMoment::Finished, finished(), &["Running"]));
        assert!(!allowed(ReleaseMoment::Finished, finished(), &["Pending"]));
    }

    #[test]
    fn an_unstarted_start_gives_back_only_when_no_job_exists() {
        assert!(allowed(
            ReleaseMoment::Unstarted,
            Evidence::Read(HolderJob::Absent),
            &[]
        ));
        assert!(!allowed(
            ReleaseMoment::Unstarted,
            Evidence::Read(HolderJob::Unfinished),
            &[]
        ));
        assert!(!allowed(
            ReleaseMoment::Unstarted,
            Evidence::Read(HolderJob::Finished),
            &[]
        ));
    }

    #[test]
    fn a_failed_read_keeps_the_lease() {
        assert!(!allowed(
            ReleaseMoment::Finished,
            Evidence::Failed("boom".into()),
            &[]
        ));
        assert!(!allowed(ReleaseMoment::Unstarted, Evidence::NotRead, &[]));
    }
}
