//! The result document: what a run tells the operator through the termination message of its pod (runner.md §10).
//!
//! The operator's side is `jobs::result`, which trusts nothing in it but its shape.

mod shrink;

use std::fmt;

use serde::{Serialize, Serializer};

/// The version of the document.
pub(crate) const VERSION: u32 = 1;

/// What one run did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RunResult {
    /// Always [`VERSION`].
    pub(crate) version: u32,
    /// The operation, empty when the flags could not be read.
    pub(crate) op: String,
    /// The image of the module.
    pub(crate) image: ImageReport,
    /// The runtime.
    pub(crate) runtime: RuntimeReport,
    /// The steps that ran, in order.
    pub(crate) steps: Vec<StepReport>,
    /// The difference found by a drift check.
    pub(crate) drift: Option<DriftReport>,
    /// Why the run failed.
    pub(crate) error: Option<ErrorReport>,
    /// What an apply or destroy changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<Changes>,
    /// The plan, of an operation that fingerprints one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<PlanReport>,
}

/// Which image ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageReport {
    /// The image reference as the Job passed it.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    /// Whether the image holds a provider mirror.
    pub(crate) providers_mirror: bool,
}

/// Which runtime ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RuntimeReport {
    /// The runtime's command.
    pub(crate) command: Vec<String>,
    /// Its version, empty when it did not tell.
    pub(crate) version: String,
}

/// One step that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StepReport {
    /// The name of the step.
    pub(crate) name: String,
    /// The exit code of the runtime; 1 when it did not start or a signal ended it.
    pub(crate) exit: i32,
    /// How long it took.
    pub(crate) seconds: Seconds,
}

/// A duration in tenths of a second, written as a JSON number of seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seconds {
    tenths: u64,
}

impl Seconds {
    /// The duration, rounded half up to a tenth of a second.
    #[must_use]
    pub(crate) fn rounded(duration: std::time::Duration) -> Self {
        let tenths = (duration.as_millis() + 50) / 100;
        Self {
            tenths: u64::try_from(tenths).unwrap_or(u64::MAX),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tenths / 10, self.tenths % 10) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, tenth) => write!(f, "{whole}.{tenth}"),
        }
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The text is a JSON number by construction.
        let number: serde_json::Number = self
            .to_string()
            .parse()
            .map_err(serde::ser::Error::custom)?;
        number.serialize(serializer)
    }
}

/// How state and infrastructure differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DriftReport {
    /// Whether they differ.
    pub(crate) detected: bool,
    /// Resources to create.
    pub(crate) create: usize,
    /// Resources to update in place.
    pub(crate) update: usize,
    /// Resources to replace.
    pub(crate) replace: usize,
    /// Resources to delete.
    pub(crate) delete: usize,
    /// The first addresses; `None` when they were left out for lack of room.
    pub(crate) resources: Option<Vec<String>>,
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorReport {
    /// The sort of failure.
    pub(crate) kind: ErrorKind,
    /// The step that failed, if it was one.
    pub(crate) step: Option<String>,
    /// A summary of the failure, redacted, at most 512 bytes.
    pub(crate) tail: String,
    /// The resources that failed, as `<address>: <summary>`, at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
}

/// The sorts of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ErrorKind {
    /// The image does not hold what the contract demands.
    ImageLayout,
    /// A step, or what leads up to the first one, failed.
    Step,
    /// The run was stopped from outside.
    Interrupted,
    /// The destructive guard stopped an apply.
    Blocked,
    /// The plan is not the approved one.
    PlanChanged,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ImageLayout => "image-layout",
            Self::Step => "step",
            Self::Interrupted => "interrupted",
            Self::Blocked => "blocked",
            Self::PlanChanged => "plan-changed",
        })
    }
}

/// What an apply or destroy changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Changes {
    /// Resources added.
    pub(crate) add: usize,
    /// Resources changed in place.
    pub(crate) change: usize,
    /// Resources destroyed.
    pub(crate) destroy: usize,
    /// Resources imported.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) import: usize,
}

/// A plan: its fingerprint, its counts and the first of its resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport {
    /// The fingerprint, `p2:…`.
    pub(crate) hash: String,
    /// Resources to create.
    pub(crate) create: usize,
    /// Resources to update in place.
    pub(crate) update: usize,
    /// Resources to replace.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) replace: usize,
    /// Resources to delete.
    pub(crate) delete: usize,
    /// Outputs that change.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) output_changes: usize,
    /// Resources to import.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) import: usize,
    /// Resources that move to another address.
    #[serde(rename = "move", skip_serializing_if = "is_zero")]
    pub(crate) moved: usize,
    /// Resources to forget.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) forget: usize,
    /// The first resources, as `<address> (<labels>)`, sorted by address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<String>,
    /// Whether `resources` was cut.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) truncated: bool,
}

/// Serde's skip predicates take references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Serde's skip predicates take references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl RunResult {
    /// A result with nothing in it but its version and operation.
    #[must_use]
    pub(crate) fn new(op: &str) -> Self {
        Self {
            version: VERSION,
            op: op.to_owned(),
            ..Self::default()
        }
    }
}
