//! What a pass counts from its conditions (metrics-alerts.md §2, §3).

use super::object::Working;
use crate::api::conditions::{self, ConditionType, Status};
use crate::events::Transition;
use crate::jobs::history::History;
use crate::names::{Kind, Op};
use crate::operator::metrics::{LeaseWait, Metrics, TriState};

/// A condition that changed in a way that counts.
pub(super) fn transition(metrics: &Metrics, kind: Kind, transition: &Transition) {
    match transition {
        Transition::WaitBegan { reason } => {
            if let Some(wait) = LeaseWait::from_condition_reason(reason) {
                metrics.lease_wait(kind, wait);
            }
        }
        Transition::EnteredFalse { condition, reason } => match condition.as_str() {
            "StateReadable" => metrics.state_read_error(kind, reason),
            "OutputsValid" => metrics.outputs_invalid(kind, reason),
            _ => metrics.identity_denied(reason),
        },
    }
}

/// The gauges of one object at the end of a pass; `history` is none when the pass looked at no Jobs, and
/// `inputs` (bytes) when it looked at no inputs. The series of an object that the API server has let go end.
pub(super) fn object(
    metrics: &Metrics,
    object: &Working,
    history: Option<&History<'_>>,
    inputs: Option<usize>,
) {
    let key = &object.key();
    if object.gone() {
        metrics.object_gone(key);
        return;
    }
    let conditions = &object.reported().conditions;
    let state = |condition| match conditions::get(conditions, condition).map(Status::of) {
        Some(Status::True) => TriState::True,
        Some(Status::False) => TriState::False,
        Some(Status::Unknown) | None => TriState::Unknown,
    };
    metrics.ready(key, state(ConditionType::Ready));
    metrics.infrastructure_healthy(key, state(ConditionType::InfrastructureHealthy));
    let drift = state(ConditionType::DriftDetected);
    metrics.drift_detected(key, drift == TriState::True);
    metrics.inputs_size(key, inputs.unwrap_or_default());
    for op in [Op::Apply, Op::Destroy] {
        // A success whose Job was pruned since stays recorded.
        if let Some(newest) = history.and_then(|history| history.newest_success(op)) {
            metrics.last_success(key, op, Some(newest.at));
        }
    }
    for op in [Op::Refresh, Op::Drift] {
        // This manager schedules neither.
        metrics.last_success(key, op, None);
    }
}
