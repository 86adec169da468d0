//! The end of a pass: the summary condition, and what is announced of its changes (lifecycle.md §5,
//! §14.4; conditions-events.md §6).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;

use super::measure;
use super::object::Working;
use crate::api::conditions::{ConditionType, get, ready_summary};
use crate::events::{self, EventData, JobOutcome, Severity, retry_note, transition};
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
            log_transition(object, condition, &event);
            context.events.publish(&object.next, event);
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

/// Publishes and logs one event about the object.
pub(super) fn tell(context: &Context, object: &Working, event: EventData) {
    let job = job_of(object, &event);
    match event.severity {
        Severity::Warning => {
            tracing::warn!(
                event = event.reason,
                note = event.note,
                Job = job,
                "reported"
            );
        }
        Severity::Normal => tracing::debug!(event = event.reason, Job = job, "reported"),
    }
    context.events.publish(&object.next, event);
}

/// A Warning is logged always, and with its message; a Normal one from verbosity 2 and without
/// (conditions-events.md §6.1).
fn log_transition(object: &Working, condition: &Condition, event: &EventData) {
    let (condition, status, reason, message) = (
        condition.type_.as_str(),
        condition.status.as_str(),
        condition.reason.as_str(),
        condition.message.as_str(),
    );
    let job = job_of(object, event);
    match event.severity {
        Severity::Warning => tracing::warn!(
            condition,
            status,
            reason,
            reported = message,
            event = event.reason,
            Job = job,
            "a condition changed"
        ),
        Severity::Normal => tracing::debug!(
            condition,
            status,
            reason,
            event = event.reason,
            Job = job,
            "a condition changed"
        ),
    }
}

/// `namespace/name` of the Job that an event relates to.
fn job_of(object: &Working, event: &EventData) -> Option<String> {
    let job = event.related.as_ref()?;
    Some(format!("{}/{}", object.key().namespace, job.name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rstest::rstest;
    use serde_json::json;

    use super::{Working, log_transition};
    use crate::events::{EventData, RelatedJob};
    use crate::operator::logging::testing::written;

    fn logged(verbosity: u32, event: EventData) -> String {
        let object = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
            "metadata": {"name": "prod", "namespace": "team-a"}, "spec": {"source": {"image": "i"}}
        }))
        .unwrap();
        let condition = serde_json::from_value(json!({
            "type": "ApplyJobSucceeded", "status": "False", "reason": "ApplyFailed", "message": "the-message",
            "lastTransitionTime": "2026-10-01T12:00:00Z"
        }))
        .unwrap();
        let event = event.about(RelatedJob {
            name: "captf-c-prod-apply-a1-dbb569".to_owned(),
            uid: "u".to_owned(),
        });
        written(verbosity, || {
            log_transition(&Working::new(object), &condition, &event);
        })
    }

    #[test]
    fn a_warning_is_logged_at_verbosity_0_with_type_status_reason_message_and_event() {
        let line = logged(0, EventData::warning("JobFailed", "note"));
        for part in [
            r#"condition="ApplyJobSucceeded""#,
            r#"status="False""#,
            r#"reason="ApplyFailed""#,
            "the-message",
            r#"event="JobFailed""#,
            r#"Job="team-a/captf-c-prod-apply-a1-dbb569""#,
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[rstest]
    #[case(1, false)]
    #[case(2, true)]
    fn a_normal_transition_is_logged_from_verbosity_2_without_its_message(
        #[case] verbosity: u32,
        #[case] logs: bool,
    ) {
        let line = logged(verbosity, EventData::normal("JobSucceeded", "note"));
        assert_eq!(line.contains(r#"event="JobSucceeded""#), logs, "{line}");
        assert!(!line.contains("the-message"), "{line}");
    }
}
