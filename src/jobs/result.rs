//! The result document of a run: what the runner leaves as its termination message (runner.md §10).
//!
//! The module image can write that message too, so every string in it is untrusted: lengths are capped
//! again here, and documents of another version are ignored (R-52).

mod wire;

use wire::Wire;

/// A termination message holds at most this many bytes; of a longer file the kubelet keeps the last
/// ones, which do not parse.
pub const MESSAGE_MAX: usize = 4096;
/// The only version of the document.
const VERSION: i64 = 1;
/// `status.lastRun.error.summary`, in bytes (api.md §8).
pub const SUMMARY_MAX: usize = 512;
/// Failed resources kept (api.md §8).
pub const RESOURCES_MAX: usize = 10;
/// Bytes kept of a failed resource (api.md §8).
pub const RESOURCE_MAX: usize = 512;
/// Steps kept (api.md §8).
const STEPS_MAX: usize = 16;
/// Bytes of a step's name (api.md §8).
const STEP_NAME_MAX: usize = 64;

/// Why a finished Job has no result. Every variant is treated alike: as no result (jobs.md §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoResult {
    /// Nobody saw a pod of the Job end.
    #[error("no pod of the Job was seen ended")]
    NoPod,
    /// The container ended without a termination message.
    #[error("the container ended without a result")]
    Missing,
    /// The message is longer than the kubelet keeps.
    #[error("the result is longer than {MESSAGE_MAX} bytes")]
    Truncated,
    /// The message is no result document.
    #[error("the termination message is no result document")]
    Invalid,
    /// The document has another version.
    #[error("the result document has another version than {VERSION}")]
    Version,
}

/// Kind of a run's error (runner.md §10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The image breaks the contract; nothing was executed.
    ImageLayout,
    /// A step failed.
    Step,
    /// Stopped from outside.
    Interrupted,
    /// A guarded apply stopped before a plan that deletes or replaces.
    Blocked,
    /// An approved apply planned something else.
    PlanChanged,
}

impl ErrorKind {
    /// The word in the document and in `status.lastRun.error.kind`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ImageLayout => "image-layout",
            Self::Step => "step",
            Self::Interrupted => "interrupted",
            Self::Blocked => "blocked",
            Self::PlanChanged => "plan-changed",
        }
    }

    /// An unknown kind is a failed step: the bounded set that status and metrics allow (R-52).
    fn parse(kind: &str) -> Self {
        [
            Self::ImageLayout,
            Self::Interrupted,
            Self::Blocked,
            Self::PlanChanged,
        ]
        .into_iter()
        .find(|known| known.as_str() == kind)
        .unwrap_or(Self::Step)
    }
}

/// One step that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Step name, at most 64 bytes.
    pub name: String,
    /// Exit code.
    pub exit_code: i32,
    /// Duration in milliseconds, not negative.
    pub milliseconds: i64,
}

/// Why the run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Step it happened in, at most 64 bytes.
    pub step: Option<String>,
    /// Curated summary, at most 512 bytes; may be empty.
    pub summary: String,
    /// `<address>: <summary>` per failed resource: at most 10, each at most 512 bytes.
    pub resources: Vec<String>,
}

/// Resources that an apply or destroy changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// Added.
    pub add: i64,
    /// Changed in place.
    pub change: i64,
    /// Destroyed.
    pub destroy: i64,
    /// Imported.
    pub import: i64,
}

/// What a drift check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drift {
    /// Resources to create.
    pub create: i32,
    /// Resources to update.
    pub update: i32,
    /// Resources to replace; counted only here.
    pub replace: i32,
    /// Resources to delete.
    pub delete: i32,
    /// Addresses as reported; a reader that stores them drops those that are empty or too long.
    pub resources: Vec<String>,
}

impl Drift {
    /// Drift = any of the four counts is above zero; imports, moves and outputs are none
    /// (drift-health.md §4).
    #[must_use]
    pub fn is_detected(&self) -> bool {
        [self.create, self.update, self.replace, self.delete]
            .into_iter()
            .any(|count| count > 0)
    }
}

/// The plan a run made (approvals.md §4.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Fingerprint, `p2:…`.
    pub hash: String,
    /// Resources to create.
    pub create: i32,
    /// Resources to update.
    pub update: i32,
    /// Resources to replace; counted only here.
    pub replace: i32,
    /// Resources to delete.
    pub delete: i32,
    /// Changed root outputs.
    pub output_changes: i32,
    /// Imports.
    pub import: i32,
    /// Moves.
    pub moved: i32,
    /// Resources to forget.
    pub forget: i32,
    /// `<address> (<labels>)` lines as reported.
    pub resources: Vec<String>,
    /// Fewer listed than changed.
    pub truncated: bool,
}

/// A parsed result document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunResult {
    /// Image reference the runner was started with.
    pub image: String,
    /// Version the runtime reported; empty when unknown.
    pub runtime_version: String,
    /// Steps in order, at most 16 (the first ones).
    pub steps: Vec<Step>,
    /// Why it failed; nothing when it did not.
    pub error: Option<RunError>,
    /// Resources changed; nothing when unknown.
    pub changes: Option<Changes>,
    /// What a drift check found; nothing when the run was none.
    pub drift: Option<Drift>,
    /// The plan; nothing when none was made or it has no fingerprint.
    pub plan: Option<Plan>,
}

impl RunResult {
    /// Reads a termination message.
    ///
    /// # Errors
    /// [`NoResult`] says why there is no result; the caller goes on without one.
    pub fn parse(message: &str) -> Result<Self, NoResult> {
        let message = message.trim();
        if message.is_empty() {
            return Err(NoResult::Missing);
        }
        if message.len() > MESSAGE_MAX {
            return Err(NoResult::Truncated);
        }
        let wire: Wire = match serde_json::from_str(message) {
            Ok(wire) => wire,
            Err(_) if message.len() == MESSAGE_MAX => return Err(NoResult::Truncated),
            Err(_) => return Err(NoResult::Invalid),
        };
        if wire.version != VERSION {
            return Err(NoResult::Version);
        }
        Ok(wire.into_result())
    }

    /// Whether a step of this name ran.
    #[must_use]
    pub fn ran(&self, step: &str) -> bool {
        self.steps.iter().any(|ran| ran.name == step)
    }

    /// Kind of the error, if there is one.
    #[must_use]
    pub fn error_kind(&self) -> Option<ErrorKind> {
        self.error.as_ref().map(|error| error.kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn a_failed_apply_is_read_whole() {
        let result = RunResult::parse(
            r#"{"version":1,"op":"apply","image":{"ref":"img:v1","providersMirror":true},
                "runtime":{"command":["/captf/runtime"],"version":"1.11.4"},
                "steps":[{"name":"init","exit":0,"seconds":1.5},{"name":"apply","exit":1,"seconds":12}],
                "drift":null,
                "error":{"kind":"step","step":"apply","tail":"Error: boom","resources":["a.b: boom"]},
                "changes":{"add":1,"change":0,"destroy":0}}"#,
        )
        .unwrap();
        assert_eq!(result.runtime_version, "1.11.4");
        assert_eq!(
            result.steps[0],
            Step {
                name: "init".into(),
                exit_code: 0,
                milliseconds: 1500
            }
        );
        assert!(result.ran("apply"));
        let error = result.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Step);
        assert_eq!(error.step.as_deref(), Some("apply"));
        assert_eq!(error.resources, ["a.b: boom"]);
        assert_eq!(result.changes.unwrap().add, 1);
    }

    #[test]
    fn the_runners_usage_error_is_read() {
        let result = RunResult::parse(
            r#"{"version":1,"op":"","image":{"ref":"","providersMirror":false},"runtime":{"command":[],"version":""},
                "steps":[],"drift":null,"error":{"kind":"step","step":"flags","tail":"unknown flag"}}"#,
        )
        .unwrap();
        assert_eq!(result.error.unwrap().step.as_deref(), Some("flags"));
    }

    #[test]
    fn no_message_is_no_result() {
        assert_eq!(RunResult::parse(" \n"), Err(NoResult::Missing));
    }

    #[test]
    fn another_version_is_no_result() {
        assert_eq!(RunResult::parse(r#"{"version":2}"#), Err(NoResult::Version));
    }

    #[test]
    fn text_is_no_result() {
        assert_eq!(RunResult::parse("panic: boom"), Err(NoResult::Invalid));
    }

    #[test]
    fn a_document_cut_by_the_kubelet_is_truncated() {
        assert_eq!(
            RunResult::parse(&"x".repeat(4096)),
            Err(NoResult::Truncated)
        );
    }

    #[test]
    fn a_message_over_the_cap_is_truncated_even_if_it_parses() {
        let padded = format!(r#"{{"version":1,"op":"{}"}}"#, "x".repeat(4096));
        assert_eq!(RunResult::parse(&padded), Err(NoResult::Truncated));
    }

    #[test]
    fn an_unknown_error_kind_is_a_failed_step() {
        let result = RunResult::parse(r#"{"version":1,"error":{"kind":"weird"}}"#).unwrap();
        assert_eq!(result.error_kind(), Some(ErrorKind::Step));
    }

    #[test]
    fn lengths_are_capped_on_character_boundaries() {
        let tail = "é".repeat(300);
        let document = format!(r#"{{"version":1,"error":{{"kind":"step","tail":"{tail}"}}}}"#);
        let summary = RunResult::parse(&document).unwrap().error.unwrap().summary;
        assert_eq!(summary.len(), 512);
        assert_eq!(summary.chars().count(), 256);
    }

    #[test]
    fn a_plan_without_a_hash_is_no_plan() {
        let result = RunResult::parse(r#"{"version":1,"plan":{"create":1}}"#).unwrap();
        assert_eq!(result.plan, None);
    }

    #[test]
    fn plan_counts_are_read_by_their_names() {
        let result = RunResult::parse(
            r#"{"version":1,"plan":{"hash":"p2:ab","create":1,"update":2,"replace":3,"delete":4,
                "outputChanges":5,"import":6,"move":7,"forget":8,"resources":["a (create)"],"truncated":true}}"#,
        )
        .unwrap();
        assert_eq!(
            result.plan.unwrap(),
            Plan {
                hash: "p2:ab".into(),
                create: 1,
                update: 2,
                replace: 3,
                delete: 4,
                output_changes: 5,
                import: 6,
                moved: 7,
                forget: 8,
                resources: vec!["a (create)".into()],
                truncated: true
            }
        );
    }

    #[test]
    fn moves_and_outputs_are_no_drift() {
        assert!(!Drift::default().is_detected());
        assert!(
            Drift {
                replace: 1,
                ..Drift::default()
            }
            .is_detected()
        );
    }
}
