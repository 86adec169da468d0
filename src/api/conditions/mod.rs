//! Conditions: what may be said, and how it is recorded (conditions-events.md §1-§4, lifecycle.md
//! §14).
//!
//! Each condition type is an enum of its reasons, so a type, status and reason that do not belong
//! together cannot be written. [`Verdict`] is any of them with a message, [`set`] records it.

mod ready;
mod states;
mod types;
mod waits;

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::ApiKind;
use crate::names::Kind;

pub use ready::ready_summary;
pub use states::{
    ApplyJobSucceeded, AutoscalingActive, CapacityResolved, CredentialsMirrored, Deleting,
    DeletionBlocked, DependenciesReady, DriftDetected, DriftJobSucceeded, EndpointAvailable,
    IdentityAllowed, IdentityReady, InfrastructureHealthy, InputsApplied, OutputsValid, Paused,
    PlanApproved, PlanReady, Ready, Reconciling, RestoreJobSucceeded, Row, RunnerRbacReady,
    StateReadable, TABLE, VariablesValid,
};
pub use types::ConditionType;
pub use waits::{waits_for_job_slot, waits_for_lease};

/// Longest message in characters that the schema accepts (api.md §2.7).
const MAX_MESSAGE_CHARS: usize = 32_768;

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// `True`
    True,
    /// `False`
    False,
    /// `Unknown`; every wait has this status
    Unknown,
}

impl Status {
    /// The status as written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// The status of a condition as read; anything else than `True` and `False` is `Unknown`.
    #[must_use]
    pub fn of(condition: &Condition) -> Self {
        match condition.status.as_str() {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What `True` means for the object (conditions-events.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polarity {
    /// `True` is good.
    Normal,
    /// `True` is the problem.
    Negative,
    /// Neither is good or bad: the condition names a state.
    State,
}

/// The states of one condition type: an enum of its reasons, each of which has exactly one status.
pub trait State: Copy {
    /// The condition type.
    const TYPE: ConditionType;

    /// The status that belongs to the reason.
    fn status(self) -> Status;

    /// The reason as written on the wire.
    fn reason(self) -> &'static str;

    /// The state with a message for a person.
    fn with(self, message: impl Into<String>) -> Verdict {
        Verdict {
            condition: Self::TYPE,
            status: self.status(),
            reason: self.reason(),
            message: message.into(),
        }
    }

    /// The state without a message.
    fn plain(self) -> Verdict {
        self.with("")
    }
}

/// A state of some condition type with its message: what a pass has to say about one condition.
///
/// Made from a [`State`] only, so status and reason always belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    condition: ConditionType,
    status: Status,
    reason: &'static str,
    message: String,
}

impl Verdict {
    /// The condition type.
    #[must_use]
    pub const fn condition(&self) -> ConditionType {
        self.condition
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The reason.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// The message, not yet cut to the length the schema accepts.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl<S: State> From<S> for Verdict {
    fn from(state: S) -> Self {
        state.plain()
    }
}

/// Records a verdict and says whether anything but `observedGeneration` changed.
///
/// `lastTransitionTime` moves only when the status changes (conditions-events.md §1), to `now` in
/// whole seconds, the resolution of the wire. The message is cut to the 32768 characters the schema
/// accepts. `generation` is the object's `metadata.generation`; 0 leaves `observedGeneration`
/// unset.
pub fn set(
    conditions: &mut Vec<Condition>,
    verdict: impl Into<Verdict>,
    generation: i64,
    now: Timestamp,
) -> bool {
    let verdict = verdict.into();
    let type_ = verdict.condition.as_str();
    let mut next = Condition {
        type_: type_.to_owned(),
        status: verdict.status.as_str().to_owned(),
        reason: verdict.reason.to_owned(),
        message: cut(verdict.message),
        observed_generation: (generation > 0).then_some(generation),
        last_transition_time: Time(whole_seconds(now)),
    };
    let Some(current) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == type_)
    else {
        conditions.push(next);
        return true;
    };
    if current.status == next.status {
        next.last_transition_time = current.last_transition_time.clone();
    }
    let changed = (&current.status, &current.reason, &current.message)
        != (&next.status, &next.reason, &next.message);
    *current = next;
    changed
}

/// Gives every condition that ended where it began the time that it came there: a pass may say several
/// things about one condition, and only the last one counts (conditions-events.md §1). `before` are
/// the conditions as stored.
pub fn keep_transition_times(conditions: &mut [Condition], before: &[Condition]) {
    for condition in conditions {
        let stored = before
            .iter()
            .find(|stored| stored.type_ == condition.type_ && stored.status == condition.status);
        if let Some(stored) = stored {
            condition.last_transition_time = stored.last_transition_time.clone();
        }
    }
}

/// Sets the conditions every object of a workload kind has from its first visit on, where they are
/// missing (lifecycle.md §14.1).
pub fn set_initial(conditions: &mut Vec<Condition>, kind: Kind, generation: i64, now: Timestamp) {
    let mut initial: Vec<Verdict> = vec![
        Paused::NotPaused.into(),
        Deleting::NotDeleting.into(),
        DriftDetected::DriftNotChecked.into(),
    ];
    if kind == Kind::TerraformCluster {
        initial.push(DeletionBlocked::NotBlocked.into());
    }
    for verdict in initial {
        if get(conditions, verdict.condition).is_none() {
            set(conditions, verdict, generation, now);
        }
    }
}

/// The condition of a type.
#[must_use]
pub fn get(conditions: &[Condition], condition: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|candidate| candidate.type_ == condition.as_str())
}

/// Whether the condition of a type is present and `True`.
#[must_use]
pub fn is_true(conditions: &[Condition], condition: ConditionType) -> bool {
    get(conditions, condition).is_some_and(|condition| Status::of(condition) == Status::True)
}

/// Whether the condition is in exactly this state, whatever its message.
#[must_use]
pub fn is<S: State>(conditions: &[Condition], state: S) -> bool {
    get(conditions, S::TYPE).is_some_and(|condition| {
        Status::of(condition) == state.status() && condition.reason == state.reason()
    })
}

/// Whether an object of `kind` may carry this status and reason on this condition (lifecycle.md
/// §14.2).
#[must_use]
pub fn allowed(
    kind: impl Into<ApiKind>,
    condition: ConditionType,
    status: Status,
    reason: &str,
) -> bool {
    let kind = kind.into();
    TABLE.iter().any(|row| {
        row.condition == condition
            && row.kinds.contains(&kind)
            && row.reasons(status).contains(&reason)
    })
}

fn cut(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(end);
    }
    message
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
