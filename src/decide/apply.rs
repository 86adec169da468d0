//! Whether an apply is due, and what stands between it and its Job (jobs.md §3 rules 6 to 10, (a), (b)).

use k8s_openapi::jiff::SignedDuration;

use crate::api::PlanReason;
use crate::names::{EMPTY_PLAN_HASH, InputsHash, Op};

use super::kinds::is_mutable;
use super::{APPROVAL_REQUEUE, Approval, ApprovalWait, Cause, Input, LivePlan, Run, StateView};

/// Why an apply is due, first match (jobs.md §3, rules 6 to 10).
///
/// A machine has no rule but the first two: its state carries an inputs hash only after a success, so
/// they retry.
pub(super) fn cause(input: &Input) -> Option<Cause> {
    let StateView::Present { inputs_hash, .. } = &input.state else {
        return Some(Cause::NoState);
    };
    if inputs_hash.is_empty() {
        return Some(Cause::StateWithoutInputsHash);
    }
    if !is_mutable(input.kind) {
        return None;
    }
    let remediations_left = input.remediation_failures < input.failed_limit.get();
    if !input.current_hash.is_empty() && input.current_hash != *inputs_hash {
        Some(Cause::InputsChanged)
    } else if input.last_apply_failed {
        Some(Cause::LastApplyFailed)
    } else if input.remediate && remediations_left {
        Some(Cause::DriftRemediation)
    } else {
        None
    }
}

/// The next step of an apply that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A Job: the apply, or the plan that has to be approved first.
    Run(Run),
    /// No Job: it waits.
    Wait {
        wait: ApprovalWait,
        requeue: SignedDuration,
    },
}

impl Step {
    fn apply(approval: Approval) -> Self {
        Self::Run(Run {
            op: Op::Apply,
            approval,
        })
    }

    fn wait(wait: ApprovalWait) -> Self {
        Self::Wait {
            wait,
            requeue: APPROVAL_REQUEUE,
        }
    }
}

/// Manual approval concerns every apply but the first one, which only creates (J13).
pub(super) fn is_manual(input: &Input, cause: Cause) -> bool {
    input.approvals.manual && cause != Cause::NoState
}

pub(super) fn step(input: &Input, cause: Cause) -> Step {
    if is_manual(input, cause) {
        gated(input)
    } else {
        approved_or_retried(input)
    }
}

/// (a) Manual: the plan of exactly these inputs is empty, or approved, or waits, or has to be made
/// (approvals.md §2).
fn gated(input: &Input) -> Step {
    let approvals = &input.approvals;
    if same(&approvals.empty_plan, &input.current_hash) {
        return Step::apply(Approval::ExpectPlan {
            plan_hash: EMPTY_PLAN_HASH.to_owned(),
            plan: None,
        });
    }
    match &approvals.plan {
        Some(plan)
            if plan.reason == PlanReason::Manual && plan.inputs_hash == input.current_hash =>
        {
            if plan.approved {
                Step::apply(expect(plan))
            } else {
                Step::wait(ApprovalWait::PlanAwaitingApproval)
            }
        }
        _ => Step::Run(Run::plain(Op::Plan)),
    }
}

/// (b) Otherwise: a live plan of these inputs gates, whether or not the Job that made it is still there
/// (B18); an apply that was blocked without leaving a plan rests for ten minutes (J6, B17).
fn approved_or_retried(input: &Input) -> Step {
    let approvals = &input.approvals;
    let want = if approvals.approval_hash.is_empty() {
        &input.current_hash
    } else {
        &approvals.approval_hash
    };
    let plan = approvals
        .plan
        .as_ref()
        .filter(|plan| plan.reason != PlanReason::Manual && same(&plan.inputs_hash, want));
    if let Some(plan) = plan {
        return match (plan.approved, &plan.reason) {
            (false, _) => Step::wait(ApprovalWait::DestructivePlanBlocked),
            (true, PlanReason::ExportsChange) => Step::apply(Approval::AllowDeletes {
                inputs_hash: plan.inputs_hash.clone(),
                plan: plan.name.clone(),
            }),
            (true, _) => Step::apply(expect(plan)),
        };
    }
    match blocked_rest(input) {
        Some(rest) => Step::Wait {
            wait: ApprovalWait::DestructivePlanBlocked,
            requeue: rest,
        },
        None => Step::apply(Approval::None),
    }
}

/// What is left of the ten minutes after the newest apply was blocked for the same inputs; for a pool
/// that cannot hold its exports back, "same" compares the approval hashes (approvals.md §3).
fn blocked_rest(input: &Input) -> Option<SignedDuration> {
    let approvals = &input.approvals;
    let blocked = approvals.blocked.as_ref()?;
    let same_inputs = same(&blocked.inputs_hash, &input.current_hash)
        || (approvals.unheld && same(&blocked.approval_hash, &approvals.approval_hash));
    if !same_inputs {
        return None;
    }
    let rest = APPROVAL_REQUEUE - input.now.duration_since(blocked.at);
    rest.is_positive().then_some(rest)
}

fn expect(plan: &LivePlan) -> Approval {
    Approval::ExpectPlan {
        plan_hash: plan.plan_hash.clone(),
        plan: Some(plan.name.clone()),
    }
}

/// Equal and known: an unknown hash is the same as nothing.
fn same(a: &InputsHash, b: &InputsHash) -> bool {
    !a.is_empty() && a == b
}
