//! What a pass counts (metrics-alerts.md §2, §3).

use k8s_openapi::jiff::SignedDuration;
use std::time::Duration;

use super::object::Working;
use crate::api::conditions::{self, ConditionType, Status};
use crate::decide::{Action, Decision};
use crate::events::Transition;
use crate::jobs::history::Finished;
use crate::jobs::outcome::Outcome;
use crate::names::{Kind, ObjectKey};
use crate::operator::metrics::{
    DecisionOp, FinishedJob, JobError, JobResult, LeaseWait, Metrics, ResourceAction, TriState,
};

/// The decision of a pass.
pub(super) fn decision(metrics: &Metrics, kind: Kind, decision: &Decision) {
    let op = match &decision.action {
        Action::Start(run) => DecisionOp::Job(run.op),
        Action::DropFinalizer | Action::Retain => DecisionOp::Finalizer,
        Action::None => DecisionOp::None,
    };
    metrics.decision(kind, op, decision.reason.as_str());
}

/// A finished Job, once: by the pass that counts it. `retry` is its number since the last success.
pub(super) fn job_counted(metrics: &Metrics, kind: Kind, finished: &Finished<'_>, retry: u32) {
    let result = finished.result();
    let error = result.and_then(|result| result.error.as_ref());
    metrics.job_finished(&FinishedJob {
        kind,
        op: finished.op,
        result: match finished.outcome {
            Outcome::Succeeded => JobResult::Succeeded,
            Outcome::Blocked => JobResult::Blocked,
            Outcome::PlanChanged => JobResult::PlanChanged,
            Outcome::Deadline => JobResult::Deadline,
            Outcome::Interrupted => JobResult::Interrupted,
            Outcome::Failed | Outcome::PlanUnreadable => JobResult::Failed,
        },
        duration: finished.job.duration().and_then(positive),
        queued: queued(finished),
        steps: result
            .map(|result| result.steps.iter().map(|step| (step.name.as_str(), milliseconds(step.milliseconds))).collect())
            .unwrap_or_default(),
        error: JobError {
            kind: error.map(|error| error.kind.as_str()),
            step: error.and_then(|error| error.step.as_deref()),
        },
        attempt: Some(retry),
        changed: changed(finished),
    });
}

fn queued(finished: &Finished<'_>) -> Option<Duration> {
    let started = finished.reading?.pod.as_ref()?.source.started()?;
    positive(started.duration_since(finished.job.created))
}

fn changed(finished: &Finished<'_>) -> Vec<(ResourceAction, u64)> {
    let Some(changes) = finished.result().and_then(|result| result.changes.as_ref()) else {
        return Vec::new();
    };
    [
        (ResourceAction::Create, changes.add),
        (ResourceAction::Update, changes.change),
        (ResourceAction::Delete, changes.destroy),
        (ResourceAction::Import, changes.import),
    ]
    .into_iter()
    .filter_map(|(action, count)| Some((action, u64::try_from(count).ok()?)))
    .collect()
}

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

fn positive(duration: SignedDuration) -> Option<Duration> {
    duration.try_into().ok()
}

fn milliseconds(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or_default())
}
