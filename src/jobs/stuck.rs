//! Active Jobs that can never start (jobs.md §10).

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::facts::JobFacts;
use super::pod::PodFacts;

/// A Job without its per-run Secret is not stuck before this age: its creator may still be at work.
pub const STUCK_AGE: SignedDuration = SignedDuration::from_mins(1);
/// Job and pod must be this old before a container that cannot be created counts.
const CONFIG_GRACE: SignedDuration = SignedDuration::from_mins(2);
/// An active Job younger than this may still be armed by its creator; it is not repaired.
const REPAIR_AGE: SignedDuration = SignedDuration::from_secs(10);

/// The per-run Secret of a Job as read live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSecret {
    /// It exists.
    Present,
    /// NotFound.
    Missing,
    /// The read failed: nothing is known.
    Unknown,
}

/// Stuck = active, at least 60 s old, its per-run Secret NotFound in a live read, every pod Pending or
/// none. A started pod or any read error: not stuck (jobs.md §10.1).
///
/// `pods` are those of the Job's name, read live; nothing when the read failed.
#[must_use]
pub fn is_stuck(
    job: &JobFacts,
    secret: RunSecret,
    pods: Option<&[PodFacts]>,
    now: Timestamp,
) -> bool {
    !job.state.is_finished()
        && job.age(now) >= STUCK_AGE
        && secret == RunSecret::Missing
        && none_started(job, pods)
}

fn none_started(job: &JobFacts, pods: Option<&[PodFacts]>) -> bool {
    pods.is_some_and(|pods| {
        pods.iter()
            .filter(|pod| pod.is_of(&job.uid))
            .all(PodFacts::never_started)
    })
}

/// Why the kubelet cannot create a container of the Job, once Job and pod are two minutes old: a
/// Secret it needs is gone, for example (jobs.md §10.2). The text goes into the event.
#[must_use]
pub fn config_failure(job: &JobFacts, pods: &[PodFacts], now: Timestamp) -> Option<String> {
    if job.state.is_finished() || job.age(now) < CONFIG_GRACE {
        return None;
    }
    pods.iter()
        .filter(|pod| pod.is_of(&job.uid) && pod.age(now) >= CONFIG_GRACE)
        .flat_map(|pod| [pod.runner.waiting(), pod.source.waiting()])
        .flatten()
        .find(|(reason, _)| is_config_failure(reason))
        .map(|(reason, message)| {
            if message.is_empty() {
                reason.to_owned()
            } else {
                format!("{reason}: {message}")
            }
        })
}

/// The kubelet's waiting reasons for a container it cannot create. A pod whose volumes cannot be mounted
/// stays at `ContainerCreating`, which is also every young pod's reason and so proves nothing.
fn is_config_failure(reason: &str) -> bool {
    matches!(
        reason,
        "CreateContainerConfigError" | "CreateContainerError"
    )
}

/// What a pass does about an active Job that its list shows and `status.activeJob` does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: the Job is armed, known, paused, or its pods started.
    No,
    /// Unarmed and so young that its creator may still be at work: come back when it is this much older.
    /// Until then nobody names it in `status.activeJob`, since a Job that is named there is not
    /// repaired.
    Later(SignedDuration),
    /// Read the per-run Secret live, then ask again.
    ReadSecret,
    /// Go on at the fence with the Job as adopted.
    Fence,
}

/// What the repair rule looks at besides Job, Secret and pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairContext {
    /// `status.activeJob`, as this pass read it, names the Job.
    pub known_active: bool,
    /// The object is paused.
    pub paused: bool,
    /// The object is being deleted.
    pub deleting: bool,
    /// The files of exactly this Job are at hand: the attempt record names it, the inputs built now
    /// give its name, or the start path does.
    pub files_at_hand: bool,
}

/// The repair rule: a pass that finds an active Job somebody created but did not arm creates its
/// per-run Secret (jobs.md §5.3, failover.md C10).
///
/// `secret` is nothing before it was read. While the object is deleting only a destroy or restore is
/// repaired; where the files are not at hand the stuck rule ends the Job.
#[must_use]
pub fn repair(
    job: &JobFacts,
    secret: Option<RunSecret>,
    pods: Option<&[PodFacts]>,
    now: Timestamp,
    context: RepairContext,
) -> Repair {
    use crate::names::Op;
    let wrong_op = context.deleting && !matches!(job.op, Some(Op::Destroy | Op::Restore));
    if context.known_active || context.paused || wrong_op || job.deleting || job.state.is_finished()
    {
        return Repair::No;
    }
    let age = job.age(now);
    match secret {
        None => Repair::ReadSecret,
        Some(RunSecret::Missing) if age < REPAIR_AGE => Repair::Later(REPAIR_AGE - age),
        Some(RunSecret::Missing) if context.files_at_hand && none_started(job, pods) => {
            Repair::Fence
        }
        Some(_) => Repair::No,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;
    use crate::jobs::pod::{ContainerFacts, PodPhase};
    use crate::jobs::testing::{JobBuilder, at, pod};
    use crate::names::Op;

    fn job() -> JobFacts {
        JobBuilder::new(Op::Apply, 1).uid("job-uid").build()
    }

    #[test]
    fn a_job_of_a_minute_without_secret_and_pods_is_stuck() {
        assert!(is_stuck(&job(), RunSecret::Missing, Some(&[]), at("12:01")));
    }

    #[test]
    fn a_pending_pod_does_not_unstick_it() {
        assert!(is_stuck(
            &job(),
            RunSecret::Missing,
            Some(&[pod("job-uid")]),
            at("12:01")
        ));
    }

    #[test]
    fn b12_a_job_younger_than_60_s_is_not_stuck() {
        assert!(!is_stuck(
            &job(),
            RunSecret::Missing,
            Some(&[]),
            at("12:00:59")
        ));
    }

    #[rstest]
    #[case(RunSecret::Present)]
    #[case(RunSecret::Unknown)]
    fn with_its_secret_or_an_unread_one_it_is_not_stuck(#[case] secret: RunSecret) {
        assert!(!is_stuck(&job(), secret, Some(&[]), at("12:05")));
    }

    #[test]
    fn a_started_pod_or_a_failed_list_is_not_stuck() {
        let mut running = pod("job-uid");
        running.phase = PodPhase::Running;
        assert!(!is_stuck(
            &job(),
            RunSecret::Missing,
            Some(&[running]),
            at("12:05")
        ));
        assert!(!is_stuck(&job(), RunSecret::Missing, None, at("12:05")));
    }

    #[test]
    fn a_finished_job_is_not_stuck() {
        let job = JobBuilder::new(Op::Apply, 1).failed("12:00:30").build();
        assert!(!is_stuck(&job, RunSecret::Missing, Some(&[]), at("12:05")));
    }

    fn unconfigured() -> PodFacts {
        let mut pod = pod("job-uid");
        pod.source = ContainerFacts::Waiting {
            reason: "CreateContainerConfigError".into(),
            message: "secret \"captf-creds-aws\" not found".into(),
        };
        pod
    }

    #[test]
    fn a39_a_container_that_cannot_be_created_for_two_minutes_is_stuck() {
        assert_eq!(
            config_failure(&job(), &[unconfigured()], at("12:02")).as_deref(),
            Some("CreateContainerConfigError: secret \"captf-creds-aws\" not found")
        );
    }

    #[test]
    fn a39_within_the_grace_it_is_left_alone() {
        assert_eq!(
            config_failure(&job(), &[unconfigured()], at("12:01:59")),
            None
        );
        let mut young = unconfigured();
        young.created = at("12:04");
        assert_eq!(config_failure(&job(), &[young], at("12:05")), None);
    }

    #[test]
    fn j25_a_namesakes_pod_is_no_config_failure() {
        let mut old = unconfigured();
        old.job_uid = Some("old-uid".into());
        assert_eq!(config_failure(&job(), &[old], at("12:05")), None);
    }

    #[test]
    fn container_creating_proves_nothing() {
        let mut pod = pod("job-uid");
        pod.source = ContainerFacts::Waiting {
            reason: "ContainerCreating".into(),
            message: String::new(),
        };
        assert_eq!(config_failure(&job(), &[pod], at("12:30")), None);
    }

    const AT_HAND: RepairContext = RepairContext {
        known_active: false,
        paused: false,
        deleting: false,
        files_at_hand: true,
    };

    #[test]
    fn c10_an_unarmed_job_of_ten_seconds_goes_to_the_fence() {
        let repair = repair(
            &job(),
            Some(RunSecret::Missing),
            Some(&[]),
            at("12:00:10"),
            AT_HAND,
        );
        assert_eq!(repair, Repair::Fence);
    }

    #[test]
    fn a_younger_job_is_left_to_its_creator() {
        let at_four = |secret| repair(&job(), secret, Some(&[]), at("12:00:04"), AT_HAND);
        assert_eq!(at_four(None), Repair::ReadSecret);
        let later = Repair::Later(SignedDuration::from_secs(6));
        assert_eq!(at_four(Some(RunSecret::Missing)), later);
        assert_eq!(at_four(Some(RunSecret::Present)), Repair::No);
    }

    #[test]
    fn the_secret_is_read_only_when_it_matters() {
        assert_eq!(
            repair(&job(), None, None, at("12:01"), AT_HAND),
            Repair::ReadSecret
        );
        let known = RepairContext {
            known_active: true,
            ..AT_HAND
        };
        assert_eq!(repair(&job(), None, None, at("12:01"), known), Repair::No);
    }

    #[test]
    fn an_armed_job_needs_no_repair() {
        let repair = repair(
            &job(),
            Some(RunSecret::Present),
            Some(&[]),
            at("12:01"),
            AT_HAND,
        );
        assert_eq!(repair, Repair::No);
    }

    #[test]
    fn paused_objects_and_files_not_at_hand_are_not_repaired() {
        let paused = RepairContext {
            paused: true,
            ..AT_HAND
        };
        assert_eq!(repair(&job(), None, None, at("12:01"), paused), Repair::No);
        let no_files = RepairContext {
            files_at_hand: false,
            ..AT_HAND
        };
        let secret = Some(RunSecret::Missing);
        assert_eq!(
            repair(&job(), secret, Some(&[]), at("12:01"), no_files),
            Repair::No
        );
    }

    #[test]
    fn of_a_deleting_object_only_destroy_and_restore_are_repaired() {
        let deleting = RepairContext {
            deleting: true,
            ..AT_HAND
        };
        assert_eq!(
            repair(&job(), None, None, at("12:01"), deleting),
            Repair::No
        );
        let destroy = JobBuilder::new(Op::Destroy, 1).build();
        assert_eq!(
            repair(&destroy, None, None, at("12:01"), deleting),
            Repair::ReadSecret
        );
    }

    #[test]
    fn a_started_pod_is_never_repaired() {
        let mut running = pod("job-uid");
        running.phase = PodPhase::Running;
        let repair = repair(
            &job(),
            Some(RunSecret::Missing),
            Some(&[running]),
            at("12:01"),
            AT_HAND,
        );
        assert_eq!(repair, Repair::No);
    }
}
