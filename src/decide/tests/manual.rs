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
                plan_hash: "p2:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
                    .into(),
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
