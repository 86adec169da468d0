//! Kubernetes Events as values: what a pass has to say, before anybody says it
//! (conditions-events.md §6).

mod diff;
mod outcome;
mod transition;

use crate::text::cut;

pub use diff::{Context, diff, pause};
pub use outcome::{JobOutcome, RetryNote, outcome_event, retry_note};
pub use transition::{Transition, transition};

/// Longest note, in bytes (conditions-events.md §6).
pub const NOTE_MAX: usize = 512;
/// Action of events that come from conditions.
pub const ACTION_RECONCILE: &str = "Reconcile";

/// Type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Something happened.
    Normal,
    /// Something needs a person, or will if it stays.
    Warning,
}

impl Severity {
    /// The type as written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The Job an event relates to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedJob {
    /// Name of the Job.
    pub name: String,
    /// UID of the Job.
    pub uid: String,
}

/// An event about the object of the pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventData {
    /// Normal or Warning.
    pub severity: Severity,
    /// Reason.
    pub reason: &'static str,
    /// What the operator was doing.
    pub action: &'static str,
    /// Note, at most 512 bytes.
    pub note: String,
    /// The Job it relates to.
    pub related: Option<RelatedJob>,
}

impl EventData {
    /// An event of a reconcile without a related Job; the note is cut to 512 bytes on a character
    /// boundary.
    #[must_use]
    pub fn new(severity: Severity, reason: &'static str, note: impl AsRef<str>) -> Self {
        Self {
            severity,
            reason,
            action: ACTION_RECONCILE,
            note: cut(note.as_ref(), NOTE_MAX).to_owned(),
            related: None,
        }
    }

    /// A Normal event.
    #[must_use]
    pub fn normal(reason: &'static str, note: impl AsRef<str>) -> Self {
        Self::new(Severity::Normal, reason, note)
    }

    /// A Warning event.
    #[must_use]
    pub fn warning(reason: &'static str, note: impl AsRef<str>) -> Self {
        Self::new(Severity::Warning, reason, note)
    }

    /// The same event about a Job.
    #[must_use]
    pub fn about(self, job: RelatedJob) -> Self {
        Self {
            related: Some(job),
            ..self
        }
    }
}

/// The default note of a condition: `<Type>: <Status>/<Reason>[: <message>]`.
fn default_note(condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition) -> String {
    let head = format!(
        "{}: {}/{}",
        condition.type_, condition.status, condition.reason
    );
    if condition.message.is_empty() {
        head
    } else {
        format!("{head}: {}", condition.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b10_a_note_is_cut_before_the_character_at_the_limit() {
        let note = format!("{}é{}", "x".repeat(511), "y".repeat(87));
        assert_eq!(EventData::normal("R", &note).note, "x".repeat(511));
    }
}
