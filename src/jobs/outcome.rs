//! How a finished Job is judged (jobs.md §7.1).

use crate::names::Op;

use super::facts::{JobFacts, JobState};
use super::pod::PodFacts;
use super::result::{ErrorKind, NoResult, RunResult};
use crate::api::keys::annotations as keys;

/// What was seen of the end of a finished Job that is not bookkept.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The Job's newest pod, listed live or kept by the pod watch; nothing when nobody saw one.
    pub pod: Option<PodFacts>,
    /// The result in that pod's termination message.
    pub result: Result<RunResult, NoResult>,
}

impl Reading {
    /// Reads the newest pod of the Job with this UID; pods of a namesake are passed over
    /// (jobs.md §7.1, J25).
    #[must_use]
    pub fn of(job_uid: &str, pods: &[PodFacts]) -> Self {
        let pod = super::pod::newest(pods, job_uid).cloned();
        let result = match &pod {
            None => Err(NoResult::NoPod),
            Some(pod) => pod
                .source
                .termination_message()
                .map_or(Err(NoResult::Missing), RunResult::parse),
        };
        Self { pod, result }
    }

    /// The reading of a Job of which nobody saw a pod.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            pod: None,
            result: Err(NoResult::NoPod),
        }
    }

    fn error_kind(&self) -> Option<ErrorKind> {
        self.result.as_ref().ok().and_then(RunResult::error_kind)
    }
}

/// The outcome of a finished Job. The first that fits, in this order, holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Complete.
    Succeeded,
    /// A plan Job that is Complete but left no plan: counts as failed (J5).
    PlanUnreadable,
    /// A failed apply that stopped before a plan that deletes or replaces: counts for nothing.
    Blocked,
    /// A failed apply whose approved plan no longer fits: counts for nothing.
    PlanChanged,
    /// Failed by its deadline: a failure, even when the runner says "interrupted" (J4).
    Deadline,
    /// Failed because it was stopped from outside: no failure, no backoff.
    Interrupted,
    /// Failed.
    Failed,
}

impl Outcome {
    /// The outcome of a finished Job: from its marks when it is bookkept, else from what was read;
    /// nothing while it runs (jobs.md §7.1).
    #[must_use]
    pub fn of(job: &JobFacts, op: Op, reading: Option<&Reading>) -> Option<Self> {
        let marked = |key| job.is_bookkept() && job.is_marked(key);
        let ended_as =
            |kind| !job.is_bookkept() && reading.and_then(Reading::error_kind) == Some(kind);
        let outcome = match &job.state {
            JobState::Unfinished => return None,
            JobState::Complete { .. } => {
                let unread = if job.is_bookkept() {
                    job.is_marked(keys::PLAN_UNREADABLE)
                } else {
                    plan_hash(reading).is_none()
                };
                if op == Op::Plan && unread {
                    Self::PlanUnreadable
                } else {
                    Self::Succeeded
                }
            }
            JobState::Failed { .. } => {
                let apply = op == Op::Apply;
                if apply && (marked(keys::DESTRUCTIVE_PLAN_BLOCKED) || ended_as(ErrorKind::Blocked))
                {
                    Self::Blocked
                } else if apply && (marked(keys::PLAN_CHANGED) || ended_as(ErrorKind::PlanChanged))
                {
                    Self::PlanChanged
                } else if job.state.is_deadline() {
                    Self::Deadline
                } else if marked(keys::INTERRUPTED) || ended_as(ErrorKind::Interrupted) {
                    Self::Interrupted
                } else {
                    Self::Failed
                }
            }
        };
        Some(outcome)
    }

    /// Whether the operation succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Succeeded)
    }

    /// Whether it counts for backoff: failures except interrupted, blocked and plan-changed ones
    /// (jobs.md §7.3, B26).
    #[must_use]
    pub const fn counts(self) -> bool {
        matches!(self, Self::PlanUnreadable | Self::Deadline | Self::Failed)
    }

    /// An apply that stopped to have its plan approved.
    #[must_use]
    pub const fn awaits_approval(self) -> bool {
        matches!(self, Self::Blocked | Self::PlanChanged)
    }
}

/// Fingerprint of the plan in what was read.
pub(super) fn plan_hash(reading: Option<&Reading>) -> Option<&str> {
    let result = reading?.result.as_ref().ok()?;
    result.plan.as_ref().map(|plan| plan.hash.as_str())
}

/// How far a failed apply may have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// It never reached its apply step: nothing changed.
    Nothing,
    /// Its apply step ran, and the result says so: infrastructure may have changed, the state was
    /// written by the run.
    Apply,
    /// It left no result although its runner may have started: nobody knows (jobs.md §8.3,
    /// "unconfirmed").
    Unconfirmed,
}

/// How far a finished, not bookkept apply that failed may have come (jobs.md §6.3, §8.3; B15, B16).
///
/// `lock_untouched`: see [`lock_untouched`].
#[must_use]
pub fn reach(reading: &Reading, lock_untouched: bool) -> Reach {
    match &reading.result {
        Ok(result) => {
            if reached_apply(result) {
                Reach::Apply
            } else {
                Reach::Nothing
            }
        }
        Err(_) => match &reading.pod {
            Some(pod) if !pod.source.has_started() => Reach::Nothing,
            Some(_) => Reach::Unconfirmed,
            None if lock_untouched => Reach::Nothing,
            None => Reach::Unconfirmed,
        },
    }
}

/// A result shows an apply step unless it says that the run ended before one.
///
/// A result that was shrunk to fit may have lost its step list. Then only the step of the error, or a
/// kind that excludes an apply, proves that nothing was applied.
fn reached_apply(result: &RunResult) -> bool {
    // The runner pushes the errored state only after a failed apply step (R-27).
    if result.ran("apply") || result.ran("state-push") {
        return true;
    }
    let Some(error) = &result.error else {
        return false;
    };
    match error.kind {
        ErrorKind::ImageLayout | ErrorKind::Blocked | ErrorKind::PlanChanged => false,
        ErrorKind::Step | ErrorKind::Interrupted => {
            error.step.as_deref().is_none_or(|step| step == "apply")
        }
    }
}

/// The state lock Lease as read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockVersion {
    /// There is none.
    Absent,
    /// It has this resourceVersion.
    At(String),
}

impl LockVersion {
    /// Value of the Job annotation `captf.io/state-lock-version`: a resourceVersion or `none`.
    #[must_use]
    pub fn as_annotation(&self) -> &str {
        match self {
            Self::Absent => "none",
            Self::At(version) => version,
        }
    }
}

/// A failed apply without pod and result never ran its runtime when the state lock Lease is as it was
/// when the Job was created. No recorded value, a changed Lease or a read error (`now` is nothing):
/// not untouched (jobs.md §7.1, §8.3).
#[must_use]
pub fn lock_untouched(job: &JobFacts, now: Option<&LockVersion>) -> bool {
    match (job.annotation(keys::STATE_LOCK_VERSION), now) {
        (Some(then), Some(now)) => then == now.as_annotation(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;
    use crate::jobs::pod::ContainerFacts;
    use crate::jobs::testing::{JobBuilder, apply_step_failed, pod, reading, result};

    fn outcome(job: &JobFacts, reading: Option<&Reading>) -> Outcome {
        Outcome::of(job, job.op.unwrap(), reading).unwrap()
    }

    #[test]
    fn j4_interrupted_failure_is_interrupted() {
        let job = JobBuilder::new(Op::Apply, 1).failed("12:10").build();
        let read = reading(r#"{"version":1,"error":{"kind":"interrupted","step":"apply"}}"#);
        assert_eq!(outcome(&job, Some(&read)), Outcome::Interrupted);
    }

    #[test]
    fn j4_the_same_job_with_a_deadline_is_a_failure() {
        let job = JobBuilder::new(Op::Apply, 1).deadline("12:10").build();
        let read = reading(r#"{"version":1,"error":{"kind":"interrupted","step":"apply"}}"#);
        assert_eq!(outcome(&job, Some(&read)), Outcome::Deadline);
        assert!(Outcome::Deadline.counts());
    }

    #[test]
    fn blocked_outranks_the_deadline() {
        let job = JobBuilder::new(Op::Apply, 1).deadline("12:10").build();
        let read = reading(r#"{"version":1,"error":{"kind":"blocked"}}"#);
        assert_eq!(outcome(&job, Some(&read)), Outcome::Blocked);
    }

    #[test]
    fn only_an_apply_can_be_blocked() {
        let job = JobBuilder::new(Op::Destroy, 1).failed("12:10").build();
        let read = reading(r#"{"version":1,"error":{"kind":"blocked"}}"#);
        assert_eq!(outcome(&job, Some(&read)), Outcome::Failed);
    }

    #[test]
    fn j5_a_plan_job_without_a_plan_counts_as_a_failure() {
        let job = JobBuilder::new(Op::Plan, 1).complete("12:10").build();
        let read = reading(r#"{"version":1}"#);
        assert_eq!(outcome(&job, Some(&read)), Outcome::PlanUnreadable);
        assert_eq!(outcome(&job, None), Outcome::PlanUnreadable);
    }

    #[test]
    fn a_plan_job_with_a_plan_succeeded() {
        let job = JobBuilder::new(Op::Plan, 1).complete("12:10").build();
        let read = reading(r#"{"version":1,"plan":{"hash":"p2:ab"}}"#);
        assert_eq!(outcome(&job, Some(&read)), Outcome::Succeeded);
    }

    #[rstest]
    #[case("captf.io/interrupted", Outcome::Interrupted)]
    #[case("captf.io/destructive-plan-blocked", Outcome::Blocked)]
    #[case("captf.io/plan-changed", Outcome::PlanChanged)]
    fn a_bookkept_job_is_judged_by_its_marks(#[case] mark: &str, #[case] expected: Outcome) {
        let job = JobBuilder::new(Op::Apply, 1)
            .failed("12:10")
            .bookkept()
            .annotation(mark, "true")
            .build();
        assert_eq!(outcome(&job, None), expected);
    }

    #[test]
    fn a_bookkept_plan_is_unreadable_only_when_marked() {
        let job = JobBuilder::new(Op::Plan, 1).complete("12:10").bookkept();
        assert_eq!(outcome(&job.clone().build(), None), Outcome::Succeeded);
        let marked = job.annotation("captf.io/plan-unreadable", "true").build();
        assert_eq!(outcome(&marked, None), Outcome::PlanUnreadable);
    }

    #[test]
    fn a_running_job_has_no_outcome() {
        let job = JobBuilder::new(Op::Apply, 1).build();
        assert_eq!(Outcome::of(&job, Op::Apply, None), None);
    }

    #[test]
    fn j25_a_pod_of_an_earlier_job_of_the_same_name_is_not_read() {
        let mut old = pod("another-uid");
        old.source = apply_step_failed();
        let read = Reading::of("job-uid", &[old]);
        assert_eq!(read, Reading::nothing());
    }

    #[test]
    fn a_failed_apply_step_may_have_applied() {
        let read = reading(
            r#"{"version":1,"steps":[{"name":"init"},{"name":"apply","exit":1}],"error":{"kind":"step","step":"apply"}}"#,
        );
        assert_eq!(reach(&read, false), Reach::Apply);
    }

    #[test]
    fn j23_a_failed_validate_applied_nothing() {
        let read = reading(
            r#"{"version":1,"steps":[{"name":"init"},{"name":"validate","exit":1}],"error":{"kind":"step","step":"validate"}}"#,
        );
        assert_eq!(reach(&read, false), Reach::Nothing);
    }

    #[test]
    fn a_blocked_apply_applied_nothing() {
        let read = reading(r#"{"version":1,"error":{"kind":"blocked","step":null}}"#);
        assert_eq!(reach(&read, false), Reach::Nothing);
    }

    #[test]
    fn a_result_shrunk_to_its_kind_may_have_applied() {
        let read = reading(r#"{"version":1,"op":"apply","error":{"kind":"step"}}"#);
        assert_eq!(reach(&read, false), Reach::Apply);
    }

    #[test]
    fn steps_shrunk_to_first_and_last_still_show_the_pushed_errored_state() {
        let read = reading(
            r#"{"version":1,"steps":[{"name":"init"},{"name":"state-push"}],"error":{"kind":"step","step":"apply"}}"#,
        );
        assert_eq!(reach(&read, false), Reach::Apply);
    }

    #[test]
    fn a_run_stopped_before_its_apply_applied_nothing() {
        let read =
            reading(r#"{"version":1,"steps":[],"error":{"kind":"interrupted","step":"prepare"}}"#);
        assert_eq!(reach(&read, false), Reach::Nothing);
    }

    fn killed(started: Option<&str>) -> Reading {
        let mut pod = pod("job-uid");
        pod.source = ContainerFacts::Terminated {
            started: started.map(|text| text.parse().unwrap()),
            finished: None,
            exit_code: 137,
            reason: "OOMKilled".into(),
            message: String::new(),
        };
        Reading::of("job-uid", &[pod])
    }

    #[test]
    fn b15_no_result_after_the_runner_started_is_unconfirmed() {
        assert_eq!(
            reach(&killed(Some("2026-10-01T12:00:05Z")), false),
            Reach::Unconfirmed
        );
    }

    #[test]
    fn b16_a_runner_that_never_started_applied_nothing() {
        assert_eq!(reach(&killed(None), false), Reach::Nothing);
    }

    #[test]
    fn no_pod_is_unconfirmed_unless_the_lock_is_untouched() {
        assert_eq!(reach(&Reading::nothing(), false), Reach::Unconfirmed);
        assert_eq!(reach(&Reading::nothing(), true), Reach::Nothing);
    }

    #[rstest]
    #[case(Some("7"), Some(LockVersion::At("7".into())), true)]
    #[case(Some("7"), Some(LockVersion::At("8".into())), false)]
    #[case(Some("7"), Some(LockVersion::Absent), false)]
    #[case(Some("none"), Some(LockVersion::Absent), true)]
    #[case(None, Some(LockVersion::Absent), false)]
    #[case(Some("7"), None, false)]
    fn lock_untouched_needs_the_recorded_version(
        #[case] recorded: Option<&str>,
        #[case] now: Option<LockVersion>,
        #[case] expected: bool,
    ) {
        let mut job = JobBuilder::new(Op::Apply, 1).failed("12:10");
        if let Some(version) = recorded {
            job = job.annotation("captf.io/state-lock-version", version);
        }
        assert_eq!(lock_untouched(&job.build(), now.as_ref()), expected);
    }

    #[test]
    fn results_that_do_not_parse_are_no_results() {
        assert!(reading("panic").result.is_err());
        assert!(result(r#"{"version":1}"#).error.is_none());
    }
}
