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
