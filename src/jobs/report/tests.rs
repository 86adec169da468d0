#![allow(clippy::unwrap_used, clippy::expect_used)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::*;
use crate::jobs::facts::JobFacts;
use crate::jobs::history::Readings;
use crate::jobs::outcome::Reading;
use crate::jobs::pod::ContainerFacts;
use crate::jobs::testing::{JobBuilder, OWNER, at, pod, reading};

const APPLY_1: &str = "captf-c-prod-apply-a1-abcdef";

fn stored(status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: "ApplyJobSucceeded".into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(at("12:00")),
    }
}

fn read(job: &JobFacts, message: &str) -> Readings {
    Readings::from([(job.uid.clone(), reading(message))])
}

fn apply_of(job: JobFacts, readings: Readings, stored: Option<&Condition>) -> Report {
    let jobs = [job];
    apply(
        &History::new(&jobs, OWNER, &readings, None),
        stored,
        None,
        false,
    )
}

fn set(report: Report) -> (&'static str, String) {
    match report {
        Report::Set(verdict) => (verdict.reason(), verdict.message().to_owned()),
        other => panic!("not set: {other:?}"),
    }
}

#[rstest]
#[case("Job captf-a", Some("captf-a"))]
#[case("Job captf-a: step apply failed: boom", Some("captf-a"))]
#[case("Job ", None)]
#[case("Job captf-a is gone", None)]
#[case("waiting for the run lease x, held by Job y", None)]
fn the_named_job_is_at_the_start_of_the_message(
    #[case] message: &str,
    #[case] expected: Option<&str>,
) {
    assert_eq!(named_job(message), expected);
}

#[test]
fn a_successful_apply_says_its_job() {
    let job = JobBuilder::new(Op::Apply, 1).complete("12:10").build();
    let readings = read(&job, r#"{"version":1}"#);
    assert_eq!(
        set(apply_of(job, readings, None)),
        ("ApplySucceeded", format!("Job {APPLY_1}"))
    );
}

#[test]
fn a_failed_apply_says_step_and_first_failing_resource() {
    let job = JobBuilder::new(Op::Apply, 1).failed("12:10").build();
    let readings = read(
        &job,
        r#"{"version":1,"error":{"kind":"step","step":"apply","tail":"Error: boom","resources":["a.b: no quota","a.c: no"]}}"#,
    );
    assert_eq!(
        set(apply_of(job, readings, None)),
        (
            "ApplyFailed",
            format!("Job {APPLY_1}: step apply failed: a.b: no quota")
        )
    );
}

#[test]
fn a84_a_blocked_apply_says_what_would_be_deleted() {
    let job = JobBuilder::new(Op::Apply, 1).failed("12:10").build();
    let readings = read(
        &job,
        r#"{"version":1,"error":{"kind":"blocked","tail":"the plan deletes 1 resource: a.b (delete)"}}"#,
    );
    assert_eq!(
        set(apply_of(job, readings, None)),
        (
            "DestructivePlanBlocked",
            format!(
                "Job {APPLY_1}: the plan deletes 1 resource: a.b (delete); nothing was applied; \
                 the runner reported no plan: it plans again in 10 minutes"
            )
        )
    );
}

/// jobs.md §7.4, the table in its order.
#[rstest]
#[case(JobBuilder::new(Op::Apply, 1).failed("12:10"), r#"{"version":1,"error":{"kind":"plan-changed"}}"#, "PlanChanged")]
#[case(JobBuilder::new(Op::Destroy, 1).complete("12:10"), r#"{"version":1}"#, "DestroySucceeded")]
#[case(JobBuilder::new(Op::Apply, 1).deadline("12:10").annotation("captf.io/pull-failed", "ErrImagePull"), r#"{"version":1}"#, "ImagePullFailed")]
#[case(JobBuilder::new(Op::Apply, 1).deadline("12:10"), r#"{"version":1,"error":{"kind":"interrupted"}}"#, "JobDeadlineExceeded")]
#[case(JobBuilder::new(Op::Apply, 1).failed("12:10"), r#"{"version":1,"error":{"kind":"image-layout"}}"#, "ImageInvalid")]
#[case(JobBuilder::new(Op::Destroy, 1).failed("12:10"), r#"{"version":1,"error":{"kind":"image-layout"}}"#, "ImageInvalid")]
#[case(JobBuilder::new(Op::Destroy, 1).failed("12:10"), r#"{"version":1,"error":{"kind":"step"}}"#, "DestroyFailed")]
#[case(JobBuilder::new(Op::Apply, 1).failed("12:10"), r#"{"version":1,"error":{"kind":"interrupted"}}"#, "ApplyFailed")]
#[case(JobBuilder::new(Op::Plan, 1).failed("12:10"), r#"{"version":1,"error":{"kind":"step"}}"#, "ApplyFailed")]
#[case(JobBuilder::new(Op::Plan, 1).complete("12:10"), r#"{"version":1}"#, "ApplyFailed")]
fn apply_reason_by_first_match(
    #[case] job: JobBuilder,
    #[case] message: &str,
    #[case] reason: &str,
) {
    let job = job.build();
    let readings = read(&job, message);
    assert_eq!(set(apply_of(job, readings, None)).0, reason);
}

#[test]
fn the_pods_pull_failure_is_told_at_the_deadline() {
    let job = JobBuilder::new(Op::Apply, 1).deadline("12:10").build();
    let mut pod = pod(&job.uid);
    pod.source = ContainerFacts::Waiting {
        reason: "ImagePullBackOff".into(),
        message: String::new(),
    };
    let readings = Readings::from([(job.uid.clone(), Reading::of(&job.uid, &[pod]))]);
    let (reason, message) = set(apply_of(job, readings, None));
    assert_eq!(reason, "ImagePullFailed");
    assert!(message.starts_with(&format!(
        "Job {APPLY_1}: image ghcr.io/example/module:v1 cannot be pulled (ImagePullBackOff); "
    )));
}

#[test]
fn a_succeeded_plan_does_not_stand_for_the_apply() {
    let jobs = [
        JobBuilder::new(Op::Apply, 1)
            .failed("12:10")
            .bookkept()
            .build(),
        JobBuilder::new(Op::Plan, 1)
            .complete("12:20")
            .bookkept()
            .build(),
    ];
    let readings = Readings::new();
    let report = apply(
        &History::new(&jobs, OWNER, &readings, None),
        None,
        None,
        false,
    );
    assert_eq!(set(report), ("ApplyFailed", format!("Job {APPLY_1}")));
}

#[test]
fn a_bookkept_job_that_the_condition_names_is_kept_word_for_word() {
    let job = JobBuilder::new(Op::Apply, 1)
        .failed("12:10")
        .bookkept()
        .build();
    let stored = stored(
        "False",
        "ApplyFailed",
        &format!("Job {APPLY_1}: step apply failed: boom"),
    );
    assert_eq!(apply_of(job, Readings::new(), Some(&stored)), Report::Keep);
}

#[test]
fn after_a_wait_the_outcome_comes_back_with_the_details_of_last_run() {
    let jobs = [JobBuilder::new(Op::Apply, 1)
        .failed("12:10")
        .bookkept()
        .build()];
    let readings = Readings::new();
    let history = History::new(&jobs, OWNER, &readings, None);
    let last_run: LastRun = serde_json::from_value(serde_json::json!({
        "job": APPLY_1, "operation": "apply",
        "error": {"kind": "step", "step": "apply", "summary": "Error: boom"}
    }))
    .unwrap();
    let stored = stored(
        "Unknown",
        "WaitingForRunLease",
        "waiting for the run lease x",
    );
    assert_eq!(
        set(apply(&history, Some(&stored), Some(&last_run), false)),
        (
            "ApplyFailed",
            format!("Job {APPLY_1}: step apply failed: Error: boom")
        )
    );
}

#[test]
fn without_a_retained_job_the_condition_is_kept() {
    let readings = Readings::new();
    let history = History::new(&[], OWNER, &readings, None);
    let stored = stored("True", "ApplySucceeded", "Job gone");
    assert_eq!(apply(&history, Some(&stored), None, false), Report::Keep);
}

#[rstest]
#[case("WaitingForRunLease")]
#[case("WaitingForJobSlot")]
fn without_a_retained_job_a_wait_is_not_kept(#[case] reason: &str) {
    let readings = Readings::new();
    let history = History::new(&[], OWNER, &readings, None);
    let stored = stored("Unknown", reason, "");
    assert_eq!(
        set(apply(&history, Some(&stored), None, false)).0,
        "NoApplyYet"
    );
    assert_eq!(set(apply(&history, None, None, false)).0, "NoApplyYet");
}

fn drift_of(jobs: &[JobFacts], stored: Option<&Condition>) -> Report {
    let readings = Readings::new();
    drift(&History::new(jobs, OWNER, &readings, None), stored, None)
}

#[rstest]
#[case(JobBuilder::new(Op::Drift, 1).complete("12:10"), "DriftChecked")]
#[case(JobBuilder::new(Op::Refresh, 1).complete("12:10"), "DriftChecked")]
#[case(JobBuilder::new(Op::Drift, 1).deadline("12:10"), "DriftJobDeadlineExceeded")]
#[case(JobBuilder::new(Op::Drift, 1).failed("12:10"), "DriftJobFailed")]
#[case(JobBuilder::new(Op::Drift, 1).failed("12:10").annotation("captf.io/pull-failed", "ErrImagePull"), "ImagePullFailed")]
#[case(JobBuilder::new(Op::Drift, 1), "DriftJobRunning")]
fn drift_reason(#[case] job: JobBuilder, #[case] reason: &str) {
    assert_eq!(set(drift_of(&[job.build()], None)).0, reason);
}

#[test]
fn a_running_refresh_does_not_flap_the_condition() {
    assert_eq!(
        set(drift_of(&[JobBuilder::new(Op::Refresh, 1).build()], None)).0,
        "DriftNotChecked"
    );
}

#[test]
fn a_drift_job_that_is_gone_does_not_go_on_running() {
    let stored = stored("Unknown", "DriftJobRunning", "Job gone");
    assert_eq!(set(drift_of(&[], Some(&stored))).0, "DriftNotChecked");
}

fn restore_of(jobs: &[JobFacts], stored: Option<&Condition>) -> Report {
    let readings = Readings::new();
    restore(&History::new(jobs, OWNER, &readings, None), stored, None)
}

#[rstest]
#[case(JobBuilder::new(Op::Restore, 1).complete("12:10"), "StateRestored")]
#[case(JobBuilder::new(Op::Restore, 1).failed("12:10"), "RestoreFailed")]
#[case(JobBuilder::new(Op::Restore, 1).deadline("12:10"), "RestoreFailed")]
fn restore_reason(#[case] job: JobBuilder, #[case] reason: &str) {
    assert_eq!(set(restore_of(&[job.build()], None)).0, reason);
}

#[test]
fn a_restore_wait_without_a_job_is_removed() {
    let wait = stored("Unknown", "WaitingForRunLease", "");
    assert_eq!(restore_of(&[], Some(&wait)), Report::Remove);
    let told = stored("False", "RestoreBackupNotFound", "");
    assert_eq!(restore_of(&[], Some(&told)), Report::Keep);
}

#[test]
fn a_told_restore_does_not_overwrite_a_later_answer() {
    let jobs = [JobBuilder::new(Op::Restore, 1)
        .complete("12:10")
        .bookkept()
        .build()];
    let told = stored("False", "RestoreBackupNotFound", "no backup 9");
    assert_eq!(restore_of(&jobs, Some(&told)), Report::Keep);
}

#[test]
fn a49_a_vanished_apply_says_that_one_is_due_and_whether_it_is_guarded() {
    let verdict = vanished_apply(APPLY_1, true);
    assert_eq!(verdict.reason(), "ApplyFailed");
    assert_eq!(named_job(verdict.message()), Some(APPLY_1));
    assert!(
        verdict
            .message()
            .contains("an apply of the current inputs is due, it is guarded")
    );
}

#[test]
fn waits_go_to_the_condition_of_the_operation() {
    let condition = |op| {
        wait(op, "WaitingForRunLease", "m")
            .unwrap()
            .condition()
            .as_str()
    };
    assert_eq!(condition(Op::Plan), "ApplyJobSucceeded");
    assert_eq!(condition(Op::Refresh), "DriftJobSucceeded");
    assert_eq!(condition(Op::Restore), "RestoreJobSucceeded");
    assert_eq!(wait(Op::Drift, "WaitingForClusterOperation", "m"), None);
}

#[test]
fn a_pull_failure_of_a_destroy_names_retain() {
    let failure = PullFailure {
        image: "r/m:v1".into(),
        reason: "ErrImagePull".into(),
        message: String::new(),
    };
    let verdict = pull_failed(Op::Destroy, "captf-a", &failure);
    assert!(
        verdict
            .message()
            .starts_with("Job captf-a: image r/m:v1 cannot be pulled (ErrImagePull); ")
    );
    assert!(verdict.message().contains("Retain"));
}

#[test]
fn a_crashed_apply_says_that_it_may_have_applied() {
    let job = JobBuilder::new(Op::Apply, 1).failed("12:10").build();
    let (_, message) = set(apply_of(job, Readings::new(), None));
    assert_eq!(
        message,
        format!(
            "Job {APPLY_1}: it left no result after its runner may have started; it may have applied part of its change"
        )
    );
}

#[test]
fn a_pull_failure_told_while_the_job_ran_is_told_once() {
    let job = JobBuilder::new(Op::Apply, 1)
        .deadline("12:10")
        .annotation("captf.io/pull-failed", "ErrImagePull")
        .build();
    let told = format!("Job {APPLY_1}: image r/m:v1 cannot be pulled (ErrImagePull); push it");
    let stored = stored("False", "ImagePullFailed", &told);
    assert_eq!(
        set(apply_of(job, Readings::new(), Some(&stored))),
        ("ImagePullFailed", told)
    );
}

const APPLY_2: &str = "captf-c-prod-apply-a2-abcdef";

/// A success, then an apply that was blocked, both bookkept.
fn blocked_after(first: JobBuilder) -> [JobFacts; 2] {
    let blocked = JobBuilder::new(Op::Apply, 2)
        .failed("12:20")
        .bookkept()
        .annotation("captf.io/destructive-plan-blocked", "true")
        .annotation("captf.io/inputs-hash", "h2:blocked");
    [first.bookkept().build(), blocked.build()]
}

fn block_of(
    jobs: &[JobFacts],
    stored: &Condition,
    current: &str,
) -> Option<(&'static str, String)> {
    let readings = Readings::new();
    let history = History::new(jobs, OWNER, &readings, None);
    block(&history, Some(stored), None, current)
        .map(|verdict| (verdict.reason(), verdict.message().to_owned()))
}

#[test]
fn a_block_is_lifted_when_other_inputs_are_due() {
    let jobs = blocked_after(JobBuilder::new(Op::Apply, 1).complete("12:10"));
    let told = stored(
        "False",
        "DestructivePlanBlocked",
        &format!("Job {APPLY_2}: blocked"),
    );
    assert_eq!(block_of(&jobs, &told, "h2:blocked"), None);
    let (reason, message) = block_of(&jobs, &told, "h2:other").unwrap();
    assert_eq!(reason, "ApplySucceeded");
    assert!(
        message.contains("the last successful apply stands"),
        "{message}"
    );
    // Told so, it stays word for word until the blocked inputs come back.
    let lifted = stored("True", reason, &message);
    let readings = Readings::new();
    let history = History::new(&jobs, OWNER, &readings, None);
    assert_eq!(apply(&history, Some(&lifted), None, false), Report::Keep);
    let again = block_of(&jobs, &lifted, "h2:blocked").unwrap();
    assert_eq!(again.0, "DestructivePlanBlocked");
}

#[test]
fn a_lifted_block_uncovers_the_failure_before_it() {
    let jobs = blocked_after(JobBuilder::new(Op::Apply, 1).failed("12:10"));
    let told = stored(
        "False",
        "DestructivePlanBlocked",
        &format!("Job {APPLY_2}: blocked"),
    );
    let (reason, message) = block_of(&jobs, &told, "h2:other").unwrap();
    assert_eq!(reason, "ApplyFailed");
    assert!(
        message.contains(&format!("Job {APPLY_1}, failed")),
        "{message}"
    );
}

#[test]
fn while_deleting_a_blocked_apply_needs_no_approval() {
    let jobs = blocked_after(JobBuilder::new(Op::Apply, 1).complete("12:10"));
    let told = stored(
        "False",
        "DestructivePlanBlocked",
        &format!("Job {APPLY_2}: blocked"),
    );
    let readings = Readings::new();
    let history = History::new(&jobs, OWNER, &readings, None);
    let (reason, message) = set(apply(&history, Some(&told), None, true));
    assert_eq!(reason, "DestructivePlanBlocked");
    assert!(
        message.contains("no apply runs and nothing needs an approval"),
        "{message}"
    );
}

#[test]
fn a_vanished_apply_stands_while_the_one_that_repairs_it_runs() {
    let earlier = JobBuilder::new(Op::Apply, 1).complete("12:10").bookkept();
    let repairing =
        JobBuilder::new(Op::Apply, 2).annotation("captf.io/after-interrupted-apply", APPLY_2);
    let told = stored(
        "False",
        "ApplyFailed",
        &format!("Job {APPLY_2}: disappeared"),
    );
    let other = stored("False", "ApplyFailed", &format!("Job {APPLY_1}: failed"));
    let readings = Readings::new();
    let jobs = [earlier.clone().build(), repairing.build()];
    let history = History::new(&jobs, OWNER, &readings, None);
    assert!(is_being_repaired(&history, Some(&told)));
    assert!(!is_being_repaired(&history, Some(&other)));
    assert!(!is_being_repaired(&history, None));
    let jobs = [earlier.build(), JobBuilder::new(Op::Apply, 2).build()];
    let history = History::new(&jobs, OWNER, &readings, None);
    assert!(!is_being_repaired(&history, Some(&told)));
}
