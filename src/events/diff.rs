//! At most one event per changed condition (conditions-events.md §6.1 to §6.3).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::jobs::report::{is_wait, named_job};

use super::outcome::{JobOutcome, outcome_event};
use super::{EventData, default_note};

/// Reasons that inform and are never bad (conditions-events.md §6.1). `DependentsExist` is deliberately
/// none of them.
const INFORMATIONAL: &[&str] = &[
    "ReadyUnknown",
    "WaitingForOwner",
    "WaitingForOwnerMachine",
    "WaitingForOwnerMachinePool",
    "WaitingForClusterInfrastructure",
    "WaitingForClusterExports",
    "WaitingForBootstrapData",
    "MirrorPending",
    "NoApplyYet",
    "StateNotFound",
    "OutputsPending",
    "Provisioning",
    "InstancePending",
    "WaitingForProvisioning",
    "DriftNotChecked",
    "DriftJobRunning",
    "NotBlocked",
    "WaitingForRunLease",
    "WaitingForClusterOperation",
    "WaitingForMachineOperations",
    "WaitingForJobSlot",
    "WaitingForMovedJob",
    "PlanAwaitingApproval",
    "PlanChanged",
    "AutoscalingDisabled",
    "NotDeleting",
    "Deleting",
];

/// Where the drift summary of a `DriftDetected` message ends (drift-health.md §4).
const REMEDIATION_MARKER: &str = "; remediation Job ";

/// What the pass knows besides the conditions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// Jobs that this pass read as finished and that are not bookkept yet, by name.
    pub outcomes: Option<&'a BTreeMap<String, JobOutcome>>,
}

impl Context<'_> {
    fn outcome(&self, job: &str) -> Option<&JobOutcome> {
        self.outcomes?.get(job)
    }
}

/// The event of one condition, by how it was before the pass and is after it; nothing when it says
/// nothing new (conditions-events.md §6.1, rules 1 to 8).
#[must_use]
pub fn diff(
    before: Option<&Condition>,
    after: &Condition,
    context: &Context<'_>,
) -> Option<EventData> {
    let change = Change { before, after };
    match after.type_.as_str() {
        "Paused" | "InputsApplied" | "Reconciling" => None,
        "RestoreJobSucceeded" => restore(change),
        "ApplyJobSucceeded" | "DriftJobSucceeded" => job(change, context),
        "Deleting" => deleting(change),
        "DriftDetected" => drift(change),
        "InfrastructureHealthy" => health(change),
        "StateReadable" | "OutputsValid" | "IdentityAllowed" if after.status == "False" => {
            entered_false(change)
        }
        _ => generic(change),
    }
}

/// The event of a pause or its end (conditions-events.md §6.2); the first visit of an object that is not
/// paused says nothing. `why` is the condition's message.
#[must_use]
pub fn pause(before: Option<&Condition>, after: &Condition) -> Option<EventData> {
    let was = before.is_some_and(|before| before.status == "True");
    match (was, after.status == "True") {
        (false, true) => {
            let why = if after.message.is_empty() {
                &after.reason
            } else {
                &after.message
            };
            Some(EventData::normal(
                "Paused",
                format!("reconciliation paused: {why}; no Job starts"),
            ))
        }
        (true, false) => Some(EventData::normal("Resumed", "reconciliation resumed")),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct Change<'a> {
    before: Option<&'a Condition>,
    after: &'a Condition,
}

impl Change<'_> {
    fn previous_reason(&self) -> &str {
        self.before.map_or("", |before| before.reason.as_str())
    }

    /// Absent before, or status or reason differ.
    fn is_changed(&self) -> bool {
        self.before.is_none_or(|before| {
            (&before.status, &before.reason) != (&self.after.status, &self.after.reason)
        })
    }

    fn is_changed_with_message(&self) -> bool {
        self.is_changed()
            || self
                .before
                .is_some_and(|before| before.message != self.after.message)
    }

    /// First seen, and nothing is wrong.
    fn is_quiet_start(&self) -> bool {
        self.before.is_none() && !self.is_bad()
    }

    /// `bad` of conditions-events.md §6.1.
    fn is_bad(&self) -> bool {
        let Condition {
            type_,
            status,
            reason,
            ..
        } = self.after;
        if type_ == "Ready"
            && !matches!(reason.as_str(), "SecretNotFound" | "CredentialsIncomplete")
        {
            return self.before.is_some_and(|before| before.status == "True") && status != "True";
        }
        if INFORMATIONAL.contains(&reason.as_str()) {
            return false;
        }
        let negative = matches!(
            type_.as_str(),
            "Deleting" | "DriftDetected" | "DeletionBlocked"
        );
        match status.as_str() {
            "True" => negative,
            "False" => !negative,
            _ => matches!(
                reason.as_str(),
                "IdentityCheckFailed" | "HealthUnknown" | "DurableInputsMissing"
            ),
        }
    }
}

/// Rule 8.
fn generic(change: Change<'_>) -> Option<EventData> {
    if !change.is_changed() || change.is_quiet_start() {
        return None;
    }
    let note = default_note(change.after);
    Some(if change.is_bad() {
        EventData::warning("ConditionChanged", note)
    } else {
        EventData::normal("ConditionChanged", note)
    })
}

/// The Normal event of a wait, once per wait: when its reason is new.
fn wait(change: Change<'_>) -> Option<EventData> {
    let reason = match change.after.reason.as_str() {
        "WaitingForRunLease" => "WaitingForRunLease",
        "WaitingForClusterOperation" => "WaitingForClusterOperation",
        "WaitingForMachineOperations" => "WaitingForMachineOperations",
        "WaitingForJobSlot" => "WaitingForJobSlot",
        "WaitingForMovedJob" => "WaitingForMovedJob",
        _ => return None,
    };
    (change.previous_reason() != reason)
        .then(|| EventData::normal(reason, default_note(change.after)))
}

/// Rule 2: bookkeeping itself tells the outcome of a restore Job.
fn restore(change: Change<'_>) -> Option<EventData> {
    if is_wait(&change.after.reason) {
        wait(change)
    } else if named_job(&change.after.message).is_some() {
        None
    } else {
        generic(change)
    }
}

fn is_plan_wait(reason: &str) -> bool {
    matches!(reason, "PlanAwaitingApproval" | "PlanChanged")
}

/// Rule 3, a to g.
fn job(change: Change<'_>, context: &Context<'_>) -> Option<EventData> {
    let after = change.after;
    if is_wait(&after.reason) {
        return wait(change);
    }
    if is_plan_wait(&after.reason) {
        return None;
    }
    let named = named_job(&after.message);
    let read = named.and_then(|name| context.outcome(name));
    let cannot_start =
        after.type_ == "ApplyJobSucceeded" && after.status == "False" && named.is_none();
    let blocked = after.reason == "DestructivePlanBlocked";

    let previous = change.previous_reason();
    if is_wait(previous) || is_plan_wait(previous) {
        return match read {
            Some(outcome) => Some(outcome_event(after, Some(outcome))),
            None if cannot_start && !blocked => Some(job_cannot_start(after)),
            None => None,
        };
    }
    if after.reason == "DriftJobRunning" {
        return None;
    }
    if let Some(name) = named {
        let told_before = change.before.is_some_and(|before| {
            named_job(&before.message) == Some(name) && before.reason == after.reason
        });
        let speaks = if blocked {
            read.is_some() && !told_before
        } else {
            change.is_changed_with_message()
        };
        return speaks.then(|| outcome_event(after, read));
    }
    if blocked {
        return None;
    }
    if cannot_start {
        return change
            .is_changed_with_message()
            .then(|| job_cannot_start(after));
    }
    generic(change)
}

fn job_cannot_start(condition: &Condition) -> EventData {
    EventData::warning("JobFailed", default_note(condition))
}

/// Rule 4.
fn deleting(change: Change<'_>) -> Option<EventData> {
    let began =
        change.after.status == "True" && change.before.is_none_or(|before| before.status != "True");
    began.then(|| {
        EventData::normal(
            "DeletionStarted",
            format!("Deletion started: {}", default_note(change.after)),
        )
    })
}

/// Rule 5: the same finding is told once, whatever becomes of its remediation (§6.3).
fn drift(change: Change<'_>) -> Option<EventData> {
    let before = change.before.filter(|before| before.status == "True");
    match (before, change.after.status.as_str()) {
        (Some(before), "True")
            if drift_summary(&before.message) == drift_summary(&change.after.message) =>
        {
            None
        }
        (_, "True") => Some(EventData::warning(
            "DriftDetected",
            default_note(change.after),
        )),
        (Some(_), "False") => Some(EventData::normal(
            "DriftResolved",
            default_note(change.after),
        )),
        _ => None,
    }
}

/// The counts of the check: without the Job that made it and without the tail about a remediation.
fn drift_summary(message: &str) -> &str {
    let summary = message
        .split_once(REMEDIATION_MARKER)
        .map_or(message, |(summary, _)| summary);
    match named_job(summary) {
        Some(name) => summary
            .strip_prefix("Job ")
            .and_then(|rest| rest.strip_prefix(name))
            .map_or(summary, |rest| rest.trim_start_matches([':', ' '])),
        None => summary,
    }
}

/// Rule 6.
fn health(change: Change<'_>) -> Option<EventData> {
    if !change.is_changed() || change.is_quiet_start() {
        return None;
    }
    let note = default_note(change.after);
    match (change.after.status.as_str(), change.after.reason.as_str()) {
        ("True", _) => Some(EventData::normal("InstanceHealthy", note)),
        (
            "False",
            "InstanceUnhealthy" | "InstanceDegraded" | "InstanceStopped" | "InstanceTerminated",
        ) => Some(EventData::warning("InstanceUnhealthy", note)),
        _ => generic(change),
    }
}

/// Rule 7.
fn entered_false(change: Change<'_>) -> Option<EventData> {
    if !change.is_changed_with_message() {
        return None;
    }
    let reason = match (change.after.type_.as_str(), change.after.reason.as_str()) {
        ("OutputsValid", _) => "OutputsInvalid",
        ("IdentityAllowed", _) => "IdentityNotAllowed",
        (_, "StateLost" | "ApplyOutcomeUnknown") => "StateLost",
        (_, "StateLocked") => "StateLocked",
        (_, "RetainedStateFound") => "RetainedStateFound",
        _ => "StateUnreadable",
    };
    Some(EventData::warning(reason, default_note(change.after)))
}

#[cfg(test)]
pub(super) mod testing {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::Condition;
    use crate::jobs::testing::at;

    /// A condition as stored.
    pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: None,
            last_transition_time: Time(at("12:00")),
        }
    }
}

#[cfg(test)]
mod tests;
