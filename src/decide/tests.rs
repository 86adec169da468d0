#![allow(clippy::unwrap_used, clippy::expect_used)]

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

mod manual {
    use super::*;

    fn manual(input: Input, plan: Option<LivePlan>) -> Input {
        Input {
            approvals: Approvals {
                manual: true,
                plan,
                ..Approvals::default()
            },
            ..input
        }
    }

    #[test]
    fn j13_b1_the_first_apply_needs_no_approval() {
        let input = manual(
            Input {
                state: StateView::Absent,
                ..settled()
            },
            None,
        );
        let decision = decide(&input);
        assert_eq!(decision.action, apply());
        assert!(!decision.plan_flow);
    }

    #[test]
    fn b2_changed_inputs_are_planned_first() {
        let decision = decide(&manual(changed(), None));
        assert_eq!(decision.action, Action::Start(Run::plain(Op::Plan)));
        assert_eq!(decision.reason.as_str(), "InputsChanged");
        assert!(decision.plan_flow);
    }

    #[test]
    fn b3_a_pending_plan_waits_and_pauses_the_schedule() {
        let mut input = manual(changed(), plan(PlanReason::Manual, "h2:b", false));
        input.schedule.drift_interval = Duration::from_secs(60);
        let decision = decide(&input);
        assert_eq!(decision.action, Action::None);
        assert_eq!(decision.reason.as_str(), "PlanAwaitingApproval");
        assert_eq!(decision.waiting, Some(ApprovalWait::PlanAwaitingApproval));
        assert_eq!(decision.requeue, minutes(10));
    }

    #[test]
    fn b4_an_approved_plan_is_applied_as_planned() {
        let decision = decide(&manual(changed(), plan(PlanReason::Manual, "h2:b", true)));
        assert_eq!(decision.action, expect_plan());
        assert!(decision.plan_flow);
    }

    #[test]
    fn a_plan_of_other_inputs_is_planned_again() {
        let decision = decide(&manual(changed(), plan(PlanReason::Manual, "h2:old", true)));
        assert_eq!(decision.op(), Some(Op::Plan));
    }

    #[test]
    fn b10_a_destructive_plan_does_not_count_under_manual() {
        let decision = decide(&manual(
            changed(),
            plan(PlanReason::Destructive, "h2:b", true),
        ));
        assert_eq!(decision.op(), Some(Op::Plan));
    }

    #[test]
    fn b7_an_empty_plan_is_applied_without_approval() {
        let mut input = manual(changed(), None);
        input.approvals.empty_plan = hash("h2:b");
        assert_eq!(
            decide(&input).action,
            Action::Start(Run {
                op: Op::Apply,
                approval: Approval::ExpectPlan {
                    plan_hash:
                        "p2:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".into(),
                    plan: None
                }
            })
        );
    }

    #[test]
    fn plan_and_apply_back_off_separately() {
        let input = Input {
            failures: failed(Op::Apply, 3, "12:59"),
            ..manual(changed(), None)
        };
        assert_eq!(decide(&input).op(), Some(Op::Plan));
        let input = Input {
            failures: failed(Op::Plan, 1, "12:59:30"),
            ..manual(changed(), None)
        };
        assert_eq!(reason(&input), "InputsChangedBackoff");
    }

    #[test]
    fn b30_a_waiting_remediation_keeps_the_schedule() {
        let remediating = Input {
            remediate: true,
            ..settled()
        };
        let mut input = manual(remediating, plan(PlanReason::Manual, "h2:a", false));
        input.schedule.drift_interval = Duration::from_secs(1800);
        input.schedule.last_drift_check = Some(at("12:45"));
        let decision = decide(&input);
        assert_eq!(decision.reason.as_str(), "PlanAwaitingApproval");
        assert_eq!(decision.requeue, minutes(10));
        input.schedule.last_drift_check = Some(at("12:35"));
        assert_eq!(decide(&input).requeue, minutes(5));
        input.schedule.last_drift_check = Some(at("12:30"));
        let decision = decide(&input);
        assert_eq!(decision.op(), Some(Op::Drift));
        assert_eq!(decision.waiting, Some(ApprovalWait::PlanAwaitingApproval));
    }
}

mod automatic {
    use super::*;

    fn planned(input: Input, plan: Option<LivePlan>) -> Input {
        Input {
            approvals: Approvals {
                plan,
                ..Approvals::default()
            },
            ..input
        }
    }

    fn blocked(input: Input, inputs: &str, clock: &str) -> Input {
        let blocked = BlockedApply {
            inputs_hash: hash(inputs),
            approval_hash: hash(""),
            at: at(clock),
        };
        Input {
            approvals: Approvals {
                blocked: Some(blocked),
                ..Approvals::default()
            },
            ..input
        }
    }

    #[test]
    fn b18_a_destructive_plan_gates_even_without_its_job() {
        let decision = decide(&planned(
            changed(),
            plan(PlanReason::Destructive, "h2:b", false),
        ));
        assert_eq!(decision.reason.as_str(), "DestructivePlanBlocked");
        assert_eq!(decision.requeue, minutes(10));
        assert!(!decision.plan_flow);
    }

    #[test]
    fn b15_an_approved_destructive_plan_is_applied_as_planned() {
        let decision = decide(&planned(
            changed(),
            plan(PlanReason::Destructive, "h2:b", true),
        ));
        assert_eq!(decision.action, expect_plan());
    }

    #[test]
    fn b9_a_manual_plan_does_not_gate_under_automatic() {
        let decision = decide(&planned(changed(), plan(PlanReason::Manual, "h2:b", false)));
        assert_eq!(decision.action, apply());
    }

    #[test]
    fn an_approved_exports_change_allows_the_deletes_of_its_hash() {
        let mut input = Input {
            kind: Kind::TerraformMachinePool,
            ..changed()
        };
        input.approvals.approval_hash = hash("h2:approval");
        input.approvals.plan = plan(PlanReason::ExportsChange, "h2:approval", true);
        assert_eq!(
            decide(&input).action,
            Action::Start(Run {
                op: Op::Apply,
                approval: Approval::AllowDeletes {
                    inputs_hash: hash("h2:approval"),
                    plan: "prod-0123456789".into()
                }
            })
        );
    }

    #[test]
    fn j6_b17_a_blocked_apply_without_a_plan_is_retried_10_min_after_the_block() {
        let decision = decide(&blocked(changed(), "h2:b", "12:53"));
        assert_eq!(decision.reason.as_str(), "DestructivePlanBlocked");
        assert_eq!(decision.requeue, minutes(3));
        assert_eq!(decide(&blocked(changed(), "h2:b", "12:50")).action, apply());
    }

    #[test]
    fn a_block_of_other_inputs_does_not_hold() {
        assert_eq!(
            decide(&blocked(changed(), "h2:old", "12:53")).action,
            apply()
        );
    }

    #[test]
    fn a_pool_that_cannot_hold_compares_approval_hashes() {
        let mut input = blocked(changed(), "h2:old", "12:53");
        input.approvals.approval_hash = hash("h2:approval");
        input.approvals.blocked.as_mut().unwrap().approval_hash = hash("h2:approval");
        assert_eq!(decide(&input).action, apply());
        input.approvals.unheld = true;
        assert_eq!(decide(&input).requeue, minutes(3));
    }

    #[test]
    fn j7_a_blocked_remediation_keeps_the_schedule_and_a_blocked_change_pauses_it() {
        let remediating = Input {
            remediate: true,
            ..settled()
        };
        let mut input = blocked(remediating, "h2:a", "12:55");
        input.schedule.drift_interval = Duration::from_secs(1800);
        assert_eq!(reason(&input), "DriftDue");
        let mut input = blocked(changed(), "h2:b", "12:55");
        input.schedule.drift_interval = Duration::from_secs(1800);
        assert_eq!(reason(&input), "DestructivePlanBlocked");
    }
}

mod periodic {
    use super::*;

    const UID: &str = "uid-1";

    #[test]
    fn a_refresh_follows_each_apply_of_a_machine() {
        let mut input = machine();
        input.schedule.last_apply_succeeded = Some(at("12:59"));
        assert_eq!(reason(&input), "RefreshAfterApply");
        input.schedule.last_refresh = Some(at("12:58"));
        assert_eq!(reason(&input), "RefreshAfterApply");
        input.schedule.last_refresh = Some(at("12:59"));
        assert_eq!(reason(&input), "UpToDate");
    }

    #[test]
    fn a_cluster_is_not_refreshed_after_an_apply() {
        let mut input = settled();
        input.schedule.last_apply_succeeded = Some(at("12:59"));
        assert_eq!(reason(&input), "UpToDate");
    }

    #[rstest]
    #[case(0, 30)]
    #[case(1, 30)]
    #[case(2, 60)]
    #[case(3, 120)]
    #[case(4, 240)]
    #[case(5, 300)]
    #[case(6, 300)]
    #[case(1000, 300)]
    fn j16_b32_pending_refreshes_are_spaced(#[case] samples: u32, #[case] delay: i64) {
        let mut input = settled();
        input.state = StateView::Present {
            inputs_hash: hash("h2:a"),
            pending: true,
        };
        input.schedule.pending_refreshes = samples;
        input.schedule.last_refresh = Some(at("13:00"));
        let decision = decide(&input);
        assert_eq!(decision.reason.as_str(), "UpToDate");
        assert_eq!(decision.requeue, seconds(delay));
        input.now = at("13:00") + SignedDuration::from_secs(delay);
        assert_eq!(reason(&input), "HealthPending");
    }

    #[test]
    fn a_pending_object_never_refreshed_is_due_now() {
        let mut input = settled();
        input.state = StateView::Present {
            inputs_hash: hash("h2:a"),
            pending: true,
        };
        assert_eq!(reason(&input), "HealthPending");
    }

    #[test]
    fn a_converging_pool_is_refreshed_every_30_s_and_its_jitter() {
        let mut input = Input {
            kind: Kind::TerraformMachinePool,
            uid: UID.into(),
            ..settled()
        };
        input.schedule.converging = true;
        input.schedule.last_refresh = Some(at("13:00"));
        assert_eq!(
            decide(&input).requeue,
            Some(SignedDuration::new(30, 401_775_683))
        );
        input.now = at("13:00:31");
        assert_eq!(reason(&input), "MembershipConverging");
    }

    #[rstest]
    #[case(60, 3, 401_775_683)]
    #[case(300, 21, 401_775_683)]
    #[case(1800, 51, 401_775_683)]
    fn deadlines_are_shifted_by_the_objects_jitter(
        #[case] interval: u64,
        #[case] seconds: i64,
        #[case] nanos: i32,
    ) {
        let mut input = Input {
            uid: UID.into(),
            ..settled()
        };
        input.schedule.last_drift_check = Some(at("13:00"));
        input.schedule.drift_interval = Duration::from_secs(interval);
        let expected = SignedDuration::new(i64::try_from(interval).unwrap() + seconds, nanos);
        assert_eq!(decide(&input).requeue, Some(expected));
    }

    #[test]
    fn b31_the_first_drift_check_is_one_interval_after_the_last_apply() {
        let mut input = settled();
        input.schedule.drift_interval = Duration::from_secs(1800);
        input.schedule.last_apply_succeeded = Some(at("12:40"));
        assert_eq!(decide(&input).requeue, minutes(10));
    }

    #[test]
    fn j19_b31_without_history_it_is_one_interval_after_the_creation() {
        let mut input = Input {
            created: at("12:45"),
            ..settled()
        };
        input.schedule.drift_interval = Duration::from_secs(1800);
        assert_eq!(decide(&input).requeue, minutes(15));
    }

    #[test]
    fn an_interval_of_zero_is_off() {
        let input = settled();
        assert_eq!(decide(&input).requeue, None);
    }

    #[test]
    fn membership_comes_before_health_and_drift() {
        let mut input = settled();
        input.schedule.membership_interval = Duration::from_secs(60);
        input.schedule.health_interval = Duration::from_secs(300);
        input.schedule.drift_interval = Duration::from_secs(1800);
        assert_eq!(reason(&input), "MembershipRefreshDue");
        input.schedule.last_refresh = Some(at("12:59:30"));
        assert_eq!(reason(&input), "DriftDue");
        input.schedule.membership_interval = Duration::ZERO;
        input.schedule.last_refresh = Some(at("12:50"));
        assert_eq!(reason(&input), "HealthCheckDue");
    }

    #[test]
    fn a_refresh_in_backoff_lets_a_due_drift_check_go() {
        let mut input = Input {
            failures: failed(Op::Refresh, 1, "12:59:30"),
            ..settled()
        };
        input.schedule.membership_interval = Duration::from_secs(60);
        let decision = decide(&input);
        assert_eq!(decision.reason.as_str(), "MembershipRefreshDueBackoff");
        assert_eq!(decision.requeue, seconds(30));
        input.schedule.drift_interval = Duration::from_secs(1800);
        assert_eq!(decide(&input).op(), Some(Op::Drift));
    }

    #[test]
    fn the_pass_comes_back_at_the_soonest_deadline() {
        let mut input = settled();
        input.schedule.drift_interval = Duration::from_secs(1800);
        input.schedule.last_drift_check = Some(at("12:55"));
        input.schedule.membership_interval = Duration::from_secs(60);
        input.schedule.last_refresh = Some(at("12:59:40"));
        assert_eq!(decide(&input).requeue, seconds(40));
    }
}
