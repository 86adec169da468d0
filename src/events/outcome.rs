//! The event of a finished Job (conditions-events.md §6.4).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::jobs::backoff::{self, FailedLimit};
use crate::jobs::history::{Finished, History};
use crate::jobs::outcome::Outcome;
use crate::jobs::result::Changes;
use crate::names::{Op, stamp};
use crate::text::{cut, duration};

use super::{EventData, NOTE_MAX, RelatedJob, Severity, default_note};

/// When an operation that failed may run again: the same inputs as the backoff decision, so that the
/// note does not depend on when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryNote {
    /// Not before this time.
    NotBefore {
        /// The newest failure plus the delay.
        at: Timestamp,
        /// The delay.
        delay: SignedDuration,
        /// Failures in a row.
        failures: u32,
    },
    /// The remediation cap is reached: none runs until a drift check succeeds.
    CapReached {
        /// Failed remediations.
        failures: u32,
    },
}

impl RetryNote {
    fn text(self) -> String {
        match self {
            Self::NotBefore {
                at,
                delay,
                failures,
            } => format!(
                "next attempt not before {} ({} backoff after {failures} {})",
                stamp(Some(at)),
                duration(delay),
                if failures == 1 {
                    "failure"
                } else {
                    "consecutive failures"
                }
            ),
            Self::CapReached { failures } => format!(
                "{failures} {} failed: none runs again until a drift check succeeds",
                if failures == 1 {
                    "remediation"
                } else {
                    "remediations"
                }
            ),
        }
    }
}

/// The retry note of a finished Job; nothing without a counted failure. A restore is not retried.
#[must_use]
pub fn retry_note(
    history: &History<'_>,
    finished: &Finished<'_>,
    limit: FailedLimit,
    last_drift_check: Option<Timestamp>,
) -> Option<RetryNote> {
    if finished.op == Op::Restore {
        return None;
    }
    let remediations = history.remediation_failures(last_drift_check);
    if finished.is_remediation() && remediations >= limit.get() {
        return Some(RetryNote::CapReached {
            failures: remediations,
        });
    }
    let run = history.failures(finished.op);
    Some(RetryNote::NotBefore {
        at: backoff::until(limit, run)?,
        delay: backoff::delay(limit, run.count),
        failures: run.count,
    })
}

/// A Job that this pass read as finished, as far as its event needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutcome {
    /// The Job.
    pub job: RelatedJob,
    /// What it ran.
    pub op: Op,
    /// How it ended.
    pub outcome: Outcome,
    /// From start to finish.
    pub took: Option<SignedDuration>,
    /// Resources changed, when the result says so.
    pub changes: Option<Changes>,
    /// When it may run again.
    pub retry: Option<RetryNote>,
    /// For a blocked apply: what it guarded, which plan waits, how to approve it.
    pub approval: Option<String>,
}

impl JobOutcome {
    /// The outcome of a finished Job.
    #[must_use]
    pub fn new(finished: &Finished<'_>, retry: Option<RetryNote>) -> Self {
        Self {
            job: RelatedJob {
                name: finished.job.name.clone(),
                uid: finished.job.uid.clone(),
            },
            op: finished.op,
            outcome: finished.outcome,
            took: finished.job.duration(),
            changes: finished.result().and_then(|result| result.changes),
            retry,
            approval: None,
        }
    }

    fn took(&self, word: &str) -> String {
        self.took
            .map(|took| format!(" {word} {}", duration(took)))
            .unwrap_or_default()
    }
}

/// The event of a Job's outcome as its condition tells it; `outcome` is nothing when this pass did not
/// read the Job.
#[must_use]
pub fn outcome_event(condition: &Condition, outcome: Option<&JobOutcome>) -> EventData {
    let event = event(condition, outcome);
    match outcome {
        Some(outcome) => event.about(outcome.job.clone()),
        None => event,
    }
}

fn event(condition: &Condition, outcome: Option<&JobOutcome>) -> EventData {
    if condition.status == "True" {
        let note = outcome.map_or_else(|| default_note(condition), succeeded);
        return EventData::normal("JobSucceeded", note);
    }
    match condition.reason.as_str() {
        "DestructivePlanBlocked" => {
            EventData::warning("DestructivePlanBlocked", blocked(condition, outcome))
        }
        "JobDeadlineExceeded" | "DriftJobDeadlineExceeded" => {
            failed("JobDeadlineExceeded", condition, outcome)
        }
        _ => match outcome {
            Some(outcome) if outcome.outcome == Outcome::Interrupted => {
                EventData::warning("JobInterrupted", interrupted(outcome))
            }
            _ => failed("JobFailed", condition, outcome),
        },
    }
}

fn succeeded(outcome: &JobOutcome) -> String {
    let changes = outcome.changes.map(|changes| {
        let imported = if changes.import > 0 {
            format!(", {} imported", changes.import)
        } else {
            String::new()
        };
        format!(
            ": {} added, {} changed, {} destroyed{imported}",
            changes.add, changes.change, changes.destroy
        )
    });
    format!(
        "{} Job {} succeeded{}{}",
        outcome.op,
        outcome.job.name,
        outcome.took("in"),
        changes.unwrap_or_default()
    )
}

fn interrupted(outcome: &JobOutcome) -> String {
    format!(
        "{} Job {} was stopped from outside{}: it is retried without backoff",
        outcome.op,
        outcome.job.name,
        outcome.took("after")
    )
}

fn blocked(condition: &Condition, outcome: Option<&JobOutcome>) -> String {
    let Some(outcome) = outcome else {
        return default_note(condition);
    };
    let note = format!(
        "Job {} stopped before a plan that deletes or replaces, nothing was applied",
        outcome.job.name
    );
    with_tail(&note, outcome.approval.as_deref(), "; ")
}

fn failed(reason: &'static str, condition: &Condition, outcome: Option<&JobOutcome>) -> EventData {
    let retry = outcome
        .and_then(|outcome| outcome.retry)
        .map(RetryNote::text);
    let note = with_tail(&default_note(condition), retry.as_deref(), "; ");
    EventData::new(Severity::Warning, reason, note)
}

/// The note with its tail, which is never what the limit cuts off: it says what happens next.
fn with_tail(note: &str, tail: Option<&str>, joint: &str) -> String {
    let Some(tail) = tail else {
        return note.to_owned();
    };
    let room = NOTE_MAX.saturating_sub(tail.len() + joint.len());
    format!("{}{joint}{tail}", cut(note, room))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::events::diff::testing::condition;
    use crate::jobs::history::Readings;
    use crate::jobs::testing::{JobBuilder, OWNER, at};

    fn outcome(outcome: Outcome) -> JobOutcome {
        JobOutcome {
            job: RelatedJob {
                name: "captf-a".into(),
                uid: "uid-a".into(),
            },
            op: Op::Apply,
            outcome,
            took: Some(SignedDuration::from_secs(90)),
            changes: None,
            retry: None,
            approval: None,
        }
    }

    #[test]
    fn a_success_says_duration_and_counts() {
        let told = JobOutcome {
            changes: Some(Changes {
                add: 3,
                change: 1,
                destroy: 0,
                import: 2,
            }),
            ..outcome(Outcome::Succeeded)
        };
        let event = outcome_event(
            &condition("ApplyJobSucceeded", "True", "ApplySucceeded", "Job captf-a"),
            Some(&told),
        );
        assert_eq!(event.reason, "JobSucceeded");
        assert_eq!(event.severity, Severity::Normal);
        assert_eq!(
            event.note,
            "apply Job captf-a succeeded in 1m30s: 3 added, 1 changed, 0 destroyed, 2 imported"
        );
        assert_eq!(event.related.unwrap().uid, "uid-a");
    }

    #[test]
    fn a_failure_says_when_it_runs_again() {
        let told = JobOutcome {
            retry: Some(RetryNote::NotBefore {
                at: at("12:11"),
                delay: SignedDuration::from_mins(2),
                failures: 2,
            }),
            ..outcome(Outcome::Failed)
        };
        let event = outcome_event(
            &condition(
                "ApplyJobSucceeded",
                "False",
                "ApplyFailed",
                "Job captf-a: boom",
            ),
            Some(&told),
        );
        assert_eq!(event.reason, "JobFailed");
        assert_eq!(
            event.note,
            "ApplyJobSucceeded: False/ApplyFailed: Job captf-a: boom; \
             next attempt not before 2026-10-01T12:11:00Z (2m backoff after 2 consecutive failures)"
        );
    }

    #[test]
    fn a_long_message_does_not_push_the_retry_note_out() {
        let told = JobOutcome {
            retry: Some(RetryNote::CapReached { failures: 3 }),
            ..outcome(Outcome::Failed)
        };
        let message = format!("Job captf-a: {}", "é".repeat(400));
        let event = outcome_event(
            &condition("ApplyJobSucceeded", "False", "ApplyFailed", &message),
            Some(&told),
        );
        assert!(event.note.len() <= 512);
        assert!(
            event
                .note
                .ends_with("; 3 remediations failed: none runs again until a drift check succeeds")
        );
    }

    #[test]
    fn b15_a_deadline_is_no_interruption() {
        let event = outcome_event(
            &condition(
                "ApplyJobSucceeded",
                "False",
                "JobDeadlineExceeded",
                "Job captf-a",
            ),
            Some(&outcome(Outcome::Deadline)),
        );
        assert_eq!(event.reason, "JobDeadlineExceeded");
    }

    #[test]
    fn b17_an_interruption_says_that_it_is_retried_without_backoff() {
        let event = outcome_event(
            &condition("ApplyJobSucceeded", "False", "ApplyFailed", "Job captf-a"),
            Some(&outcome(Outcome::Interrupted)),
        );
        assert_eq!(event.reason, "JobInterrupted");
        assert_eq!(
            event.note,
            "apply Job captf-a was stopped from outside after 1m30s: it is retried without backoff"
        );
    }

    #[test]
    fn a_blocked_job_says_what_to_approve() {
        let told = JobOutcome {
            approval: Some("approve TerraformPlan prod-1".into()),
            ..outcome(Outcome::Blocked)
        };
        let event = outcome_event(
            &condition(
                "ApplyJobSucceeded",
                "False",
                "DestructivePlanBlocked",
                "Job captf-a",
            ),
            Some(&told),
        );
        assert_eq!(event.reason, "DestructivePlanBlocked");
        assert!(
            event
                .note
                .ends_with("nothing was applied; approve TerraformPlan prod-1")
        );
    }

    fn failed_apply(attempt: i32, clock: &str) -> JobBuilder {
        JobBuilder::new(Op::Apply, attempt).failed(clock).bookkept()
    }

    #[test]
    fn the_retry_note_has_the_inputs_of_the_backoff() {
        let jobs = [
            failed_apply(1, "12:00").build(),
            failed_apply(2, "12:10").build(),
        ];
        let readings = Readings::new();
        let history = History::new(&jobs, OWNER, &readings, None);
        assert_eq!(
            retry_note(
                &history,
                &history.finished()[0],
                FailedLimit::default(),
                None
            ),
            Some(RetryNote::NotBefore {
                at: at("12:12"),
                delay: SignedDuration::from_mins(2),
                failures: 2
            })
        );
    }

    #[test]
    fn a_remediation_at_the_cap_says_so() {
        let remediation = |attempt, clock| {
            failed_apply(attempt, clock)
                .annotation("captf.io/drift-remediation", "true")
                .build()
        };
        let jobs = [
            remediation(1, "12:10"),
            remediation(2, "12:20"),
            remediation(3, "12:30"),
        ];
        let readings = Readings::new();
        let history = History::new(&jobs, OWNER, &readings, None);
        assert_eq!(
            retry_note(
                &history,
                &history.finished()[0],
                FailedLimit::default(),
                Some(at("12:00"))
            ),
            Some(RetryNote::CapReached { failures: 3 })
        );
    }

    #[test]
    fn without_a_counted_failure_there_is_no_retry_note() {
        let jobs = [failed_apply(1, "12:10")
            .annotation("captf.io/interrupted", "true")
            .build()];
        let readings = Readings::new();
        let history = History::new(&jobs, OWNER, &readings, None);
        assert_eq!(
            retry_note(
                &history,
                &history.finished()[0],
                FailedLimit::default(),
                None
            ),
            None
        );
    }
}
