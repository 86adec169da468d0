//! No wait is reported: how far the start of a due operation is (D39, D40, D139).

use super::free::{past_backstop, takeover};
use super::held::{held, starting_holder, unreadable};
use super::is_waiting;
use crate::api::conditions::ConditionType;
use crate::plugin::diagnose::checks::{Finding, operation, outcome, recheck, short};
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{By, Next, Verdict};
use crate::plugin::evaluate::{Evaluation, LeaseFacts, State};

/// A deferred start is tried again after this long.
const DEFER_SECONDS: i64 = 5;

/// An operation is due and no wait is reported: the lease tells how far the start is (D39, D40,
/// D139).
pub(crate) fn starting(facts: &Facts) -> Option<Finding> {
    if is_waiting(facts) || outcome::in_backoff(facts) {
        return None;
    }
    match facts.judged(&facts.run_lease) {
        Some((lease, evaluation)) => match evaluation.state {
            State::Starting | State::Reserved | State::HashGap => {
                Some(starting_holder(facts, lease, &evaluation))
            }
            State::HolderMissing => Some(takeover(facts, lease, &evaluation)),
            State::HolderFinished if uncounted(facts, lease) => {
                Some(counting(facts, lease, &evaluation))
            }
            State::PastBackstop => Some(past_backstop(facts, lease, &evaluation)),
            State::Held => foreign_holder(facts, lease, &evaluation),
            State::Unknown => Some(unreadable(
                facts,
                Some(lease),
                evaluation.error.as_deref().unwrap_or_default(),
            )),
            State::Free | State::HolderFinished | State::Stopping => due(facts),
        },
        None => due(facts),
    }
}

/// The finished holder's result is not in the status yet.
fn uncounted(facts: &Facts, lease: &LeaseFacts) -> bool {
    facts.with_history(|history| {
        history
            .job(&lease.view.holder)
            .is_some_and(|job| !job.is_bookkept())
    })
}

fn counting(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let summary = format!(
        "its Job {} has finished and is being counted",
        lease.view.holder
    );
    Finding::new(facts, Verdict::Waiting, "D40", "HolderFinished", summary)
        .with_lease(lease, evaluation)
        .then(Next::new(
            "Recheck",
            By::Manager,
            short(facts),
            "the next pass records its result and gives the lease back",
        ))
}

/// The lease is held by a Job that is not among the object's own: another manager's view.
fn foreign_holder(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Option<Finding> {
    let own = facts.job(&lease.view.holder).is_some();
    (!own).then(|| held(facts, lease, evaluation, false))
}

/// The inputs are not applied, nothing waits, nothing runs and nothing refuses the start.
fn due(facts: &Facts) -> Option<Finding> {
    if outcome::is_refused(facts) {
        return None;
    }
    let pending = match facts.condition(ConditionType::InputsApplied) {
        Some(condition) => condition.reason == "ApplyPending",
        None => facts
            .condition(ConditionType::ApplyJobSucceeded)
            .is_some_and(|condition| condition.reason == "NoApplyYet"),
    };
    if !pending {
        return None;
    }
    let summary = format!("the {} is due and is being started", operation(facts));
    Some(
        Finding::new(facts, Verdict::Waiting, "D139", "StartDeferred", summary)
            .then(recheck(short(facts), DEFER_SECONDS))
            .never("delete the lease or a Job"),
    )
}
