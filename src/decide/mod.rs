//! What a pass does about an object: one pure function of what was read (jobs.md §3, §4;
//! lifecycle.md §12).

mod applied;
mod apply;
mod guard;
mod kinds;
mod reason;
mod schedule;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::PlanReason;
use crate::jobs::backoff::{self, FailedLimit, FailureRun};
use crate::names::{InputsHash, Kind, Op};

pub use applied::{InputsView, inputs_applied, reconciling};
pub use guard::guard;
pub use kinds::{is_mutable, refreshes_after_apply};
pub use reason::{ApprovalWait, Cause, Reason};

/// Requeue while a Job runs; its watch normally comes first (lifecycle.md §1).
pub const ACTIVE_JOB_REQUEUE: SignedDuration = SignedDuration::from_secs(60);
/// Requeue while the state is held (lifecycle.md §1).
pub const STATE_REQUEUE: SignedDuration = SignedDuration::from_secs(60);
/// Longest wait for an approval, and how long a blocked apply without a plan rests (lifecycle.md §1).
pub const APPROVAL_REQUEUE: SignedDuration = SignedDuration::from_mins(10);

/// Whether the object goes, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It stays.
    Live,
    /// It is being deleted and its infrastructure destroyed.
    Destroying,
    /// It is being deleted and its infrastructure kept (`deletionPolicy: Retain`).
    Retaining,
}

/// The state as this pass read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateView {
    /// There is none, and none is missed.
    Absent,
    /// It is lost, unreadable, or its outcome is unknown: no Job but a restore (deletion.md §9).
    Held,
    /// It reads.
    Present {
        /// Inputs hash of the state; empty when none is recorded.
        inputs_hash: InputsHash,
        /// `InfrastructureHealthy` is False/InstancePending.
        pending: bool,
    },
}

/// The live TerraformPlan of the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePlan {
    /// Its name.
    pub name: String,
    /// Why it waits.
    pub reason: PlanReason,
    /// Inputs it was made for; for an exports change the approval hash.
    pub inputs_hash: InputsHash,
    /// Fingerprint.
    pub plan_hash: String,
    /// Whether it is approved.
    pub approved: bool,
}

/// The newest apply, when it was blocked before a destructive plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedApply {
    /// Inputs it rendered.
    pub inputs_hash: InputsHash,
    /// Approval hash it ran under; empty when it was no guarded pool apply.
    pub approval_hash: InputsHash,
    /// When it finished.
    pub at: Timestamp,
}

/// What approvals know of the object (approvals.md §2, §3, §6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Approvals {
    /// `applyPolicy: Manual`.
    pub manual: bool,
    /// The live plan.
    pub plan: Option<LivePlan>,
    /// The newest apply, when it was blocked.
    pub blocked: Option<BlockedApply>,
    /// Inputs whose newest plan changes nothing; empty when there are none.
    pub empty_plan: InputsHash,
    /// Approval hash of a guarded pool apply; empty otherwise.
    pub approval_hash: InputsHash,
    /// A pool that cannot hold its exports back.
    pub unheld: bool,
}

/// What periodic work depends on (jobs.md §4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// `status.lastRefresh`.
    pub last_refresh: Option<Timestamp>,
    /// `status.lastDriftCheck`.
    pub last_drift_check: Option<Timestamp>,
    /// When the newest successful apply finished.
    pub last_apply_succeeded: Option<Timestamp>,
    /// `status.pendingRefreshes`.
    pub pending_refreshes: u32,
    /// A pool whose health is pending or whose members join or leave.
    pub converging: bool,
    /// Pools: interval of membership refreshes; zero = off.
    pub membership_interval: Duration,
    /// Provisioned machines with `annotateMachine`: interval of health checks; zero = off.
    pub health_interval: Duration,
    /// Interval of drift checks; zero = off.
    pub drift_interval: Duration,
}

/// Everything the decision depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Kind of the object.
    pub kind: Kind,
    /// UID of the object; spreads periodic work.
    pub uid: String,
    /// Creation of the object.
    pub created: Timestamp,
    /// The API server's time.
    pub now: Timestamp,
    /// Whether the object stays or goes.
    pub life: Life,
    /// Whether a Job of the object is active.
    pub job_active: bool,
    /// Whether a restore of a complete backup is requested and not consumed.
    pub restore_requested: bool,
    /// The state.
    pub state: StateView,
    /// Hash of the inputs as they are now; empty when they were not or could not be built.
    pub current_hash: InputsHash,
    /// Counted failures per operation.
    pub failures: BTreeMap<Op, FailureRun>,
    /// Effective failure limit.
    pub failed_limit: FailedLimit,
    /// [`History::last_apply_failed`](crate::jobs::history::History::last_apply_failed).
    pub last_apply_failed: bool,
    /// The drift action is Remediate and `DriftDetected` is True.
    pub remediate: bool,
    /// [`History::remediation_failures`](crate::jobs::history::History::remediation_failures).
    pub remediation_failures: u32,
    /// Plans and blocked applies.
    pub approvals: Approvals,
    /// Periodic work.
    pub schedule: Schedule,
}

impl Input {
    fn state_hash(&self) -> Option<&InputsHash> {
        match &self.state {
            StateView::Present { inputs_hash, .. } => Some(inputs_hash),
            StateView::Absent | StateView::Held => None,
        }
    }

    /// The inputs as they are now are those of the state.
    fn is_applied(&self) -> bool {
        !self.current_hash.is_empty() && self.state_hash() == Some(&self.current_hash)
    }

    fn backoff(&self, op: Op) -> Option<SignedDuration> {
        let run = self.failures.get(&op).copied().unwrap_or_default();
        backoff::remaining(self.failed_limit, run, self.now)
    }
}

/// What lets an apply pass the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Nothing: the guard, where there is one, stops destructive plans.
    None,
    /// It applies exactly this plan and stops at any other.
    ExpectPlan {
        /// Fingerprint (`--expect-plan`).
        plan_hash: String,
        /// The TerraformPlan; nothing for the empty plan, which has no object.
        plan: Option<String>,
    },
    /// It may delete for these inputs.
    AllowDeletes {
        /// Approval hash (`--allow-deletes-hash`).
        inputs_hash: InputsHash,
        /// The TerraformPlan.
        plan: String,
    },
}

/// A Job to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// What it runs.
    pub op: Op,
    /// What lets it pass the guard; [`Approval::None`] for everything but an approved apply.
    pub approval: Approval,
}

impl Run {
    /// A Job without an approval.
    #[must_use]
    pub const fn plain(op: Op) -> Self {
        Self {
            op,
            approval: Approval::None,
        }
    }
}

/// What the pass does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing now.
    None,
    /// Start a Job.
    Start(Run),
    /// Clean up and drop the finalizer: there is nothing to destroy.
    DropFinalizer,
    /// Clean up as Retain does and drop the finalizer: the state stays.
    Retain,
}

/// The decision of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// Why; label of the metric and first answer of `why`.
    pub reason: Reason,
    /// When to come back if nothing happens first; nothing = only on an event.
    pub requeue: Option<SignedDuration>,
    /// The approval an apply waits for, also while periodic work goes on meanwhile.
    pub waiting: Option<ApprovalWait>,
    /// The apply goes through a plan that is approved first (`applyPolicy: Manual`).
    pub plan_flow: bool,
}

impl Decision {
    fn act(action: Action, reason: Reason) -> Self {
        Self {
            action,
            reason,
            requeue: None,
            waiting: None,
            plan_flow: false,
        }
    }

    fn rest(reason: Reason, requeue: Option<SignedDuration>) -> Self {
        Self {
            requeue,
            ..Self::act(Action::None, reason)
        }
    }

    /// The operation of the Job to start, if one is.
    #[must_use]
    pub fn op(&self) -> Option<Op> {
        match &self.action {
            Action::Start(run) => Some(run.op),
            _ => None,
        }
    }
}

/// The decision: first match wins (jobs.md §3, table; lifecycle.md B29).
#[must_use]
pub fn decide(input: &Input) -> Decision {
    if input.job_active {
        return Decision::rest(Reason::JobActive, Some(ACTIVE_JOB_REQUEUE));
    }
    if input.life == Life::Retaining {
        return Decision::act(Action::Retain, Reason::DeletionRetained);
    }
    let held = input.state == StateView::Held;
    if input.restore_requested && (input.life == Life::Live || held) {
        return start(Run::plain(Op::Restore), Cause::RestoreRequested);
    }
    match (input.life, &input.state) {
        (Life::Live, StateView::Held) => Decision::rest(Reason::StateHeld, Some(STATE_REQUEUE)),
        (Life::Live, _) => live(input),
        (_, StateView::Held) => Decision::rest(Reason::DeletionHeld, Some(STATE_REQUEUE)),
        (_, StateView::Absent) => {
            Decision::act(Action::DropFinalizer, Reason::DeletingWithoutState)
        }
        (_, StateView::Present { .. }) => match input.backoff(Op::Destroy) {
            Some(rest) => Decision::rest(Reason::Backoff(Cause::Deleting), Some(rest)),
            None => start(Run::plain(Op::Destroy), Cause::Deleting),
        },
    }
}

fn start(run: Run, cause: Cause) -> Decision {
    Decision::act(Action::Start(run), Reason::Due(cause))
}

/// A live object whose state is not held: an apply if one is due, else periodic work.
fn live(input: &Input) -> Decision {
    let Some(cause) = apply::cause(input) else {
        return schedule::next(input, None);
    };
    let plan_flow = apply::is_manual(input, cause);
    let decision = match apply::step(input, cause) {
        apply::Step::Run(run) => match input.backoff(run.op) {
            None => start(run, cause),
            Some(rest) => {
                let standing = Standing {
                    reason: Reason::Backoff(cause),
                    requeue: rest,
                    waiting: None,
                };
                rest_or_schedule(input, standing, cause == Cause::DriftRemediation)
            }
        },
        apply::Step::Wait { wait, requeue } => {
            let standing = Standing {
                reason: Reason::Waiting(wait),
                requeue,
                waiting: Some(wait),
            };
            rest_or_schedule(input, standing, true)
        }
    };
    Decision {
        plan_flow,
        ..decision
    }
}

/// Why an apply that is due does not start now.
#[derive(Debug, Clone, Copy)]
struct Standing {
    reason: Reason,
    requeue: SignedDuration,
    waiting: Option<ApprovalWait>,
}

/// Periodic work goes on beside an apply that stands, but only when the inputs are those of the state: a
/// refresh would otherwise render the change that is not applied (jobs.md §3, "A wait"; B30, J7).
///
/// A remediation in backoff is treated like one that waits: its backoff delays no other operation
/// (jobs.md §8.1).
fn rest_or_schedule(input: &Input, standing: Standing, may_schedule: bool) -> Decision {
    if may_schedule && input.is_applied() {
        return schedule::next(input, Some(standing));
    }
    Decision {
        waiting: standing.waiting,
        ..Decision::rest(standing.reason, Some(standing.requeue))
    }
}

#[cfg(test)]
mod tests;
