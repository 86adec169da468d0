#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::jobs::testing::{JobBuilder, OWNER, at, reading};

fn history<'a>(jobs: &'a [JobFacts], readings: &'a Readings) -> History<'a> {
    History::new(jobs, OWNER, readings, None)
}

fn none() -> Readings {
    Readings::new()
}

fn failed(op: Op, attempt: i32, clock: &str) -> JobBuilder {
    JobBuilder::new(op, attempt).failed(clock).bookkept()
}

fn complete(op: Op, attempt: i32, clock: &str) -> JobBuilder {
    JobBuilder::new(op, attempt).complete(clock).bookkept()
}

fn blocked(attempt: i32, clock: &str) -> JobBuilder {
    failed(Op::Apply, attempt, clock).annotation("captf.io/destructive-plan-blocked", "true")
}

#[test]
fn j11_jobs_of_a_namesake_are_ignored_and_attempts_restart_at_1() {
    let jobs = [JobBuilder::new(Op::Apply, 7)
        .controller("old-uid")
        .failed("12:10")
        .build()];
    let readings = none();
    let history = history(&jobs, &readings);
    assert!(history.finished().is_empty());
    assert_eq!(history.next_attempt(Op::Apply), 1);
}

#[test]
fn attempt_is_one_more_than_the_highest_label_of_the_op_whatever_its_outcome() {
    let jobs = [
        complete(Op::Apply, 4, "12:10").build(),
        failed(Op::Apply, 2, "12:20").build(),
        JobBuilder::new(Op::Drift, 9).build(),
    ];
    let readings = none();
    assert_eq!(history(&jobs, &readings).next_attempt(Op::Apply), 5);
}

#[test]
fn finished_jobs_are_newest_first_ties_by_name_descending() {
    let jobs = [
        failed(Op::Apply, 1, "12:10").build(),
        failed(Op::Apply, 3, "12:20").build(),
        failed(Op::Apply, 2, "12:20").build(),
    ];
    let readings = none();
    let attempts: Vec<_> = history(&jobs, &readings)
        .finished()
        .iter()
        .map(|finished| finished.job.attempt.unwrap())
        .collect();
    assert_eq!(attempts, [3, 2, 1]);
}

#[test]
fn the_active_job_is_the_newest_unfinished_one_by_creation() {
    let jobs = [
        JobBuilder::new(Op::Apply, 1).created("12:05").build(),
        JobBuilder::new(Op::Drift, 1).created("12:01").build(),
    ];
    let readings = none();
    assert_eq!(
        history(&jobs, &readings).active().unwrap().op,
        Some(Op::Apply)
    );
}

#[test]
fn j21_deadline_kills_count_and_a_plain_interruption_does_not() {
    let jobs = [
        JobBuilder::new(Op::Apply, 1).deadline("12:10").build(),
        JobBuilder::new(Op::Apply, 2)
            .deadline("12:20")
            .bookkept()
            .annotation("captf.io/interrupted", "true")
            .build(),
        failed(Op::Apply, 3, "12:30")
            .annotation("captf.io/interrupted", "true")
            .build(),
    ];
    let readings = Readings::from([(
        jobs[0].uid.clone(),
        reading(r#"{"version":1,"error":{"kind":"interrupted"}}"#),
    )]);
    let run = history(&jobs, &readings).failures(Op::Apply);
    assert_eq!(
        run,
        FailureRun {
            count: 2,
            last: Some(at("12:20"))
        }
    );
}

#[test]
fn j21_five_deadline_kills_are_five_failures() {
    let jobs: Vec<_> = (1..=5)
        .map(|attempt| {
            JobBuilder::new(Op::Apply, attempt)
                .deadline(&format!("12:{attempt}0"))
                .build()
        })
        .collect();
    let readings = none();
    assert_eq!(history(&jobs, &readings).failures(Op::Apply).count, 5);
}

#[test]
fn j21_a_deadline_killed_job_is_never_marked_interrupted() {
    let jobs = [JobBuilder::new(Op::Apply, 1).deadline("12:10").build()];
    let readings = Readings::from([(
        jobs[0].uid.clone(),
        reading(r#"{"version":1,"error":{"kind":"interrupted"}}"#),
    )]);
    let history = history(&jobs, &readings);
    assert_eq!(
        history.finished()[0].marks(),
        BTreeMap::from([("captf.io/bookkept", "true".to_owned())])
    );
}

#[test]
fn failures_stop_at_the_first_success_of_the_op() {
    let jobs = [
        failed(Op::Drift, 1, "12:10").build(),
        complete(Op::Drift, 2, "12:20").build(),
        failed(Op::Drift, 3, "12:30").build(),
        complete(Op::Apply, 1, "12:40").build(),
    ];
    let readings = none();
    let run = history(&jobs, &readings).failures(Op::Drift);
    assert_eq!(
        run,
        FailureRun {
            count: 1,
            last: Some(at("12:30"))
        }
    );
}

#[test]
fn b26_blocked_and_changed_applies_count_for_no_backoff() {
    let jobs = [
        blocked(1, "12:10").build(),
        failed(Op::Apply, 2, "12:20")
            .annotation("captf.io/plan-changed", "true")
            .build(),
    ];
    let readings = none();
    assert_eq!(
        history(&jobs, &readings).failures(Op::Apply),
        FailureRun::default()
    );
}

#[test]
fn j5_b27_an_unreadable_plan_counts_as_a_failure() {
    let jobs = [JobBuilder::new(Op::Plan, 1).complete("12:10").build()];
    let readings = none();
    assert_eq!(
        history(&jobs, &readings).failures(Op::Plan),
        FailureRun {
            count: 1,
            last: Some(at("12:10"))
        }
    );
}

#[test]
fn retry_number_counts_older_failures_since_the_previous_success() {
    let jobs = [
        failed(Op::Apply, 1, "12:01").build(),
        complete(Op::Apply, 2, "12:02").build(),
        failed(Op::Apply, 3, "12:03").build(),
        blocked(4, "12:04").build(),
        failed(Op::Apply, 5, "12:05").build(),
        complete(Op::Apply, 6, "12:06").build(),
    ];
    let readings = none();
    let history = history(&jobs, &readings);
    let newest = &history.finished()[0];
    assert_eq!(newest.job.attempt, Some(6));
    assert_eq!(history.retry_number(newest), 3);
}

#[test]
fn last_apply_failed_when_the_newest_apply_failed() {
    let jobs = [
        complete(Op::Apply, 1, "12:10").build(),
        failed(Op::Apply, 2, "12:20").build(),
    ];
    let readings = none();
    assert!(history(&jobs, &readings).last_apply_failed(ApplyRecords::default()));
}

#[test]
fn a_success_after_it_ends_last_apply_failed() {
    let jobs = [
        failed(Op::Apply, 1, "12:10").build(),
        complete(Op::Apply, 2, "12:20").build(),
    ];
    let readings = none();
    assert!(!history(&jobs, &readings).last_apply_failed(ApplyRecords::default()));
}

#[test]
fn a_failed_remediation_does_not_set_last_apply_failed() {
    let jobs = [failed(Op::Apply, 1, "12:10")
        .annotation("captf.io/drift-remediation", "true")
        .build()];
    let readings = none();
    assert!(!history(&jobs, &readings).last_apply_failed(ApplyRecords::default()));
}

#[test]
fn a_blocked_apply_keeps_the_failure_it_started_after() {
    let jobs = [blocked(1, "12:10").build()];
    let readings = none();
    assert!(!history(&jobs, &readings).last_apply_failed(ApplyRecords::default()));
    let jobs = [blocked(1, "12:10")
        .annotation("captf.io/after-failed-apply", "true")
        .build()];
    assert!(history(&jobs, &readings).last_apply_failed(ApplyRecords::default()));
}

#[test]
fn a_recorded_interrupted_or_partial_apply_keeps_an_apply_due() {
    let readings = none();
    let history = history(&[], &readings);
    assert!(history.last_apply_failed(ApplyRecords {
        interrupted_apply: true,
        partial_exports: false
    }));
    assert!(history.last_apply_failed(ApplyRecords {
        interrupted_apply: false,
        partial_exports: true
    }));
    assert!(!history.last_apply_failed(ApplyRecords::default()));
}

#[test]
fn j10_remediation_failures_count_since_the_last_drift_check() {
    let jobs = [
        failed(Op::Apply, 1, "12:10").build(),
        failed(Op::Apply, 2, "12:20").build(),
        failed(Op::Apply, 3, "12:30").build(),
        blocked(4, "12:40").build(),
    ];
    let readings = none();
    let history = history(&jobs, &readings);
    assert_eq!(history.remediation_failures(Some(at("12:05"))), 3);
    assert_eq!(history.remediation_failures(Some(at("12:20"))), 1);
    assert_eq!(history.remediation_failures(None), 3);
}

#[test]
fn remediation_failures_stop_at_an_apply_success() {
    let jobs = [
        failed(Op::Apply, 1, "12:10").build(),
        complete(Op::Apply, 2, "12:20").build(),
        failed(Op::Apply, 3, "12:30").build(),
    ];
    let readings = none();
    assert_eq!(history(&jobs, &readings).remediation_failures(None), 1);
}

#[test]
fn the_newest_apply_is_blocked_with_its_hashes() {
    let jobs = [blocked(1, "12:10")
        .annotation("captf.io/inputs-hash", "h2:a")
        .annotation("captf.io/approval-hash", "h2:b")
        .build()];
    let readings = none();
    assert_eq!(
        history(&jobs, &readings).blocked(),
        Some(Blocked {
            inputs_hash: Some("h2:a"),
            approval_hash: Some("h2:b"),
            at: at("12:10")
        })
    );
}

const EMPTY: &str = "p2:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn an_empty_plan_names_the_inputs_that_need_no_approval() {
    let jobs = [complete(Op::Plan, 1, "12:10")
        .annotation("captf.io/plan-hash", EMPTY)
        .annotation("captf.io/inputs-hash", "h2:a")
        .build()];
    let readings = none();
    assert_eq!(history(&jobs, &readings).empty_plan(EMPTY), Some("h2:a"));
}

#[test]
fn an_apply_after_the_empty_plan_ends_it() {
    let jobs = [
        complete(Op::Plan, 1, "12:10")
            .annotation("captf.io/plan-hash", EMPTY)
            .annotation("captf.io/inputs-hash", "h2:a")
            .build(),
        failed(Op::Apply, 1, "12:20").build(),
    ];
    let readings = none();
    assert_eq!(history(&jobs, &readings).empty_plan(EMPTY), None);
}

#[test]
fn the_newer_of_apply_and_restore_is_adopted_if_it_succeeded() {
    let readings = none();
    let jobs = [
        complete(Op::Apply, 1, "12:10").build(),
        complete(Op::Restore, 1, "12:20").build(),
    ];
    assert_eq!(
        history(&jobs, &readings).adoption_source().unwrap().op,
        Op::Restore
    );
    let jobs = [
        complete(Op::Apply, 1, "12:30").build(),
        complete(Op::Restore, 1, "12:20").build(),
    ];
    assert_eq!(
        history(&jobs, &readings).adoption_source().unwrap().op,
        Op::Apply
    );
    let jobs = [
        failed(Op::Apply, 1, "12:30").build(),
        complete(Op::Restore, 1, "12:20").build(),
    ];
    assert_eq!(
        history(&jobs, &readings).adoption_source().unwrap().op,
        Op::Restore
    );
}

#[test]
fn a_plan_hash_is_marked_on_the_job_that_made_it() {
    let jobs = [JobBuilder::new(Op::Apply, 1).failed("12:10").build()];
    let readings = Readings::from([(
        jobs[0].uid.clone(),
        reading(r#"{"version":1,"error":{"kind":"blocked"},"plan":{"hash":"p2:ab","delete":1}}"#),
    )]);
    let history = history(&jobs, &readings);
    assert_eq!(
        history.finished()[0].marks(),
        BTreeMap::from([
            ("captf.io/bookkept", "true".to_owned()),
            ("captf.io/destructive-plan-blocked", "true".to_owned()),
            ("captf.io/plan-hash", "p2:ab".to_owned()),
        ])
    );
}

#[test]
fn an_unfinished_job_without_a_known_op_is_still_active() {
    let mut job = JobBuilder::new(Op::Apply, 1).build();
    job.op = None;
    let jobs = [job];
    let readings = none();
    assert!(history(&jobs, &readings).active().is_some());
}

#[test]
fn a_failed_apply_of_which_nobody_saw_a_pod_is_unconfirmed() {
    let jobs = [JobBuilder::new(Op::Apply, 1).failed("12:10").build()];
    let readings = none();
    assert_eq!(
        history(&jobs, &readings).finished()[0].reach(),
        Some(Reach::Unconfirmed)
    );
}

#[test]
fn an_untouched_lock_clears_a_failed_apply_without_a_pod() {
    let jobs = [JobBuilder::new(Op::Apply, 1)
        .failed("12:10")
        .annotation("captf.io/state-lock-version", "none")
        .build()];
    let readings = none();
    let history = History::new(&jobs, OWNER, &readings, Some(&LockVersion::Absent));
    assert_eq!(history.finished()[0].reach(), Some(Reach::Nothing));
}
