//! The end of a pass: the summary condition, and what is announced of its changes (lifecycle.md §5,
//! §14.4; conditions-events.md §6).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::measure;
use super::object::Working;
use crate::api::conditions::{ConditionType, get, ready_summary};
use crate::events::{self, EventData, JobOutcome, retry_note, transition};
use crate::jobs::backoff::FailedLimit;
use crate::jobs::history::History;
use crate::names::Kind;
use crate::operator::context::Context;

/// `Ready` and `observedGeneration`, from everything the pass set before.
pub(super) fn summarise(object: &mut Working, now: Timestamp) {
    let ready = ready_summary(
        Kind::TerraformCluster,
        object.reported().is_provisioned(),
        &object.reported().conditions,
    );
    object.set(ready, now);
    object.workspace().observed_generation = object
        .meta()
        .generation
        .filter(|generation| *generation > 0);
}

/// Counts and publishes what changed in the conditions since `before`, for a pass that looked at no
/// Jobs.
pub(super) fn announce(context: &Context, object: &Working, before: &[Condition]) {
    publish(context, object, before, &events::Context::default());
}

/// The same for a whole pass: an outcome that a condition names is told with the Job's result.
pub(super) fn announce_with_jobs(
    context: &Context,
    object: &Working,
    before: &[Condition],
    history: &History<'_>,
) {
    let limit = object
        .next
        .spec
        .workspace
        .jobs
        .as_ref()
        .and_then(|jobs| jobs.failed_jobs_history_limit);
    let limit = FailedLimit::new(limit);
    let last_check = object
        .reported()
        .last_drift_check
        .as_ref()
        .map(|time| time.0);
    let outcomes: BTreeMap<String, JobOutcome> = history
        .unread()
        .map(|finished| {
            let retry = retry_note(history, finished, limit, last_check);
            (finished.job.name.clone(), JobOutcome::new(finished, retry))
        })
        .collect();
    publish(
        context,
        object,
        before,
        &events::Context {
            outcomes: Some(&outcomes),
        },
    );
}

fn publish(context: &Context, object: &Working, before: &[Condition], known: &events::Context<'_>) {
    let was = |condition: &Condition| before.iter().find(|stored| stored.type_ == condition.type_);
    let conditions = &object.reported().conditions;
    for condition in conditions {
        if let Some(event) = events::diff(was(condition), condition, known) {
            tell(context, object, event);
        }
        if let Some(transition) = transition(was(condition), condition) {
            measure::transition(&context.metrics, Kind::TerraformCluster, &transition);
        }
    }
    if let Some(paused) = get(conditions, ConditionType::Paused)
        && let Some(event) = events::pause(was(paused), paused)
    {
        tell(context, object, event);
    }
}

/// Publishes one event about the object.
pub(super) fn tell(context: &Context, object: &Working, event: EventData) {
    context.events.publish(&object.next, event);
}
