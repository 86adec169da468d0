#![allow(clippy::unwrap_used, clippy::expect_used)]

mod automatic;
mod manual;
mod periodic;

use rstest::rstest;

use super::*;

fn at(clock: &str) -> Timestamp {
    let seconds = if clock.len() == 5 { ":00" } else { "" };
    format!("2026-10-01T{clock}{seconds}Z").parse().unwrap()
}

fn hash(text: &str) -> InputsHash {
    InputsHash::new(text)
}

fn present(inputs: &str) -> StateView {
    StateView::Present {
        inputs_hash: hash(inputs),
        pending: false,
    }
}

/// A cluster at 13:00 whose inputs `h2:a` are applied, with nothing periodic to do; no UID, no jitter.
fn settled() -> Input {
    Input {
        kind: Kind::TerraformCluster,
        uid: String::new(),
        created: at("12:00"),
        now: at("13:00"),
        life: Life::Live,
        job_active: false,
        restore_requested: false,
        state: present("h2:a"),
        current_hash: hash("h2:a"),
        failures: BTreeMap::new(),
        failed_limit: FailedLimit::default(),
        last_apply_failed: false,
        remediate: false,
        remediation_failures: 0,
        approvals: Approvals::default(),
        schedule: Schedule::default(),
    }
}

fn changed() -> Input {
    Input {
        current_hash: hash("h2:b"),
        ..settled()
    }
}

fn machine() -> Input {
    Input {
        kind: Kind::TerraformMachine,
        ..settled()
    }
}

fn reason(input: &Input) -> &'static str {
    decide(input).reason.as_str()
}

fn minutes(minutes: i64) -> Option<SignedDuration> {
    Some(SignedDuration::from_mins(minutes))
}

fn seconds(seconds: i64) -> Option<SignedDuration> {
    Some(SignedDuration::from_secs(seconds))
}

fn plan(reason: PlanReason, inputs: &str, approved: bool) -> Option<LivePlan> {
    Some(LivePlan {
        name: "prod-0123456789".into(),
        reason,
        inputs_hash: hash(inputs),
        plan_hash: "p2:ab".into(),
        approved,
    })
}

fn expect_plan() -> Action {
    Action::Start(Run {
        op: Op::Apply,
        approval: Approval::ExpectPlan {
            plan_hash: "p2:ab".into(),
            plan: Some("prod-0123456789".into()),
        },
    })
}

fn apply() -> Action {
    Action::Start(Run::plain(Op::Apply))
}

/// jobs.md §3, the table: what the object is, the reason, the operation, the requeue in seconds.
#[rstest]
#[case::rule_0_a_job_is_active(Input { job_active: true, life: Life::Retaining, ..changed() }, "JobActive", None, Some(60))]
#[case::rule_1_deleting_and_retain(Input { life: Life::Retaining, ..settled() }, "DeletionRetained", None, None)]
#[case::rule_2_restore(Input { restore_requested: true, ..changed() }, "RestoreRequested", Some(Op::Restore), None)]
#[case::rule_2_restore_of_a_held_deletion(Input { restore_requested: true, life: Life::Destroying, state: StateView::Held, ..settled() }, "RestoreRequested", Some(Op::Restore), None)]
#[case::rule_3_held_deletion(Input { life: Life::Destroying, state: StateView::Held, ..settled() }, "DeletionHeld", None, Some(60))]
#[case::rule_4_deleting_without_state(Input { life: Life::Destroying, state: StateView::Absent, ..settled() }, "DeletingWithoutState", None, None)]
#[case::rule_5_deleting(Input { life: Life::Destroying, ..settled() }, "Deleting", Some(Op::Destroy), None)]
#[case::rule_6_no_state(Input { state: StateView::Absent, ..settled() }, "NoState", Some(Op::Apply), None)]
#[case::rule_7_state_without_inputs_hash(Input { state: present(""), ..settled() }, "StateWithoutInputsHash", Some(Op::Apply), None)]
#[case::rule_7_for_a_machine(Input { state: present(""), current_hash: hash(""), ..machine() }, "StateWithoutInputsHash", Some(Op::Apply), None)]
#[case::rule_8_inputs_changed(changed(), "InputsChanged", Some(Op::Apply), None)]
#[case::rule_9_last_apply_failed(Input { last_apply_failed: true, ..settled() }, "LastApplyFailed", Some(Op::Apply), None)]
#[case::rule_10_drift_remediation(Input { remediate: true, ..settled() }, "DriftRemediation", Some(Op::Apply), None)]
#[case::rule_11_up_to_date(settled(), "UpToDate", None, None)]
#[case::a_held_live_object_waits(Input { state: StateView::Held, ..changed() }, "StateHeld", None, Some(60))]
fn b29_decision_order(
    #[case] input: Input,
    #[case] reason: &str,
    #[case] op: Option<Op>,
    #[case] requeue: Option<i64>,
) {
    let decision = decide(&input);
    assert_eq!(decision.reason.as_str(), reason);
    assert_eq!(decision.op(), op);
    assert_eq!(decision.requeue, requeue.map(SignedDuration::from_secs));
}

#[test]
fn j14_retain_wins_over_restore() {
    let input = Input {
        restore_requested: true,
        life: Life::Retaining,
        state: StateView::Held,
        ..settled()
    };
    assert_eq!(decide(&input).action, Action::Retain);
}

#[test]
fn j14_restore_is_ignored_while_a_deletion_can_proceed() {
    let input = Input {
        restore_requested: true,
        life: Life::Destroying,
        ..settled()
    };
    assert_eq!(decide(&input).op(), Some(Op::Destroy));
}

#[test]
fn deleting_without_state_drops_the_finalizer() {
    let input = Input {
        life: Life::Destroying,
        state: StateView::Absent,
        ..settled()
    };
    assert_eq!(decide(&input).action, Action::DropFinalizer);
}

#[test]
fn a_machine_is_never_applied_for_changed_inputs_a_failure_or_drift() {
    let input = Input {
        current_hash: hash("h2:b"),
        last_apply_failed: true,
        remediate: true,
        ..machine()
    };
    assert_eq!(reason(&input), "UpToDate");
}

#[test]
fn inputs_that_could_not_be_built_are_no_change() {
    let input = Input {
        current_hash: hash(""),
        ..settled()
    };
    assert_eq!(reason(&input), "UpToDate");
}

#[rstest]
#[case(3, 2, "DriftRemediation")]
#[case(3, 3, "UpToDate")]
#[case(0, 0, "DriftRemediation")]
#[case(0, 1, "UpToDate")]
fn j10_remediation_stops_at_the_cap(
    #[case] limit: i32,
    #[case] failures: u32,
    #[case] expected: &str,
) {
    let input = Input {
        remediate: true,
        remediation_failures: failures,
        failed_limit: FailedLimit::new(Some(limit)),
        ..settled()
    };
    assert_eq!(reason(&input), expected);
}

fn failed(op: Op, count: u32, clock: &str) -> BTreeMap<Op, FailureRun> {
    BTreeMap::from([(
        op,
        FailureRun {
            count,
            last: Some(at(clock)),
        },
    )])
}

#[rstest]
#[case(1, "12:59:30", "InputsChangedBackoff", Some(30))]
#[case(2, "12:59", "InputsChangedBackoff", Some(60))]
#[case(3, "12:59", "InputsChangedBackoff", Some(540))]
#[case(1, "12:59", "InputsChanged", None)]
fn an_apply_in_backoff_waits_for_what_remains(
    #[case] count: u32,
    #[case] last: &str,
    #[case] expected: &str,
    #[case] requeue: Option<i64>,
) {
    let decision = decide(&Input {
        failures: failed(Op::Apply, count, last),
        ..changed()
    });
    assert_eq!(decision.reason.as_str(), expected);
    assert_eq!(decision.requeue, requeue.map(SignedDuration::from_secs));
}

#[test]
fn b28_with_failed_limit_1_the_retry_waits_10_min() {
    let input = Input {
        failures: failed(Op::Apply, 1, "12:59"),
        failed_limit: FailedLimit::new(Some(1)),
        ..changed()
    };
    assert_eq!(decide(&input).requeue, minutes(9));
}

#[test]
fn a_destroy_backs_off_too() {
    let input = Input {
        life: Life::Destroying,
        failures: failed(Op::Destroy, 1, "12:59:45"),
        ..settled()
    };
    let decision = decide(&input);
    assert_eq!(decision.reason.as_str(), "DeletingBackoff");
    assert_eq!(decision.requeue, seconds(45));
}

#[test]
fn a_restore_has_no_backoff() {
    let input = Input {
        restore_requested: true,
        failures: failed(Op::Restore, 3, "12:59"),
        ..settled()
    };
    assert_eq!(decide(&input).op(), Some(Op::Restore));
}

#[test]
fn a50_a_failing_drift_check_delays_no_apply() {
    let input = Input {
        failures: failed(Op::Drift, 3, "12:59"),
        ..changed()
    };
    assert_eq!(decide(&input).action, apply());
}

#[test]
fn an_input_change_in_backoff_pauses_the_schedule() {
    let mut input = Input {
        failures: failed(Op::Apply, 1, "12:59:30"),
        ..changed()
    };
    input.schedule.drift_interval = Duration::from_secs(60);
    assert_eq!(reason(&input), "InputsChangedBackoff");
}

#[test]
fn a_remediation_in_backoff_delays_no_drift_check() {
    let mut input = Input {
        remediate: true,
        failures: failed(Op::Apply, 1, "12:59:30"),
        ..settled()
    };
    assert_eq!(reason(&input), "DriftRemediationBackoff");
    assert_eq!(decide(&input).requeue, seconds(30));
    input.schedule.drift_interval = Duration::from_secs(60);
    assert_eq!(reason(&input), "DriftDue");
}
