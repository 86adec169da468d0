//! What a pass counts from its conditions (metrics-alerts.md §2, §3).

use super::object::Working;
use crate::api::conditions::{self, ConditionType, Status};
use crate::events::Transition;
use crate::names::{Kind, ObjectKey};
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

/// The gauges of one object.
pub(super) fn object(metrics: &Metrics, key: &ObjectKey, object: &Working) {
    let conditions = &object.reported().conditions;
    let state = |condition| match conditions::get(conditions, condition).map(Status::of) {
        Some(Status::True) => TriState::True,
        Some(Status::False) => TriState::False,
        Some(Status::Unknown) | None => TriState::Unknown,
    };
    metrics.ready(key, state(ConditionType::Ready));
    metrics.infrastructure_healthy(key, state(ConditionType::InfrastructureHealthy));
}
