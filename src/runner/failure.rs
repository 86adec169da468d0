//! Why a run ends without success.

use super::result::{ErrorKind, ErrorReport};
use super::steps::StepName;

/// The step label of what comes before the first step.
const PREPARE: &str = "prepare";

/// A failure, as the result document reports it: every text in it is redacted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    step: Option<&'static str>,
    pub(super) tail: String,
    resources: Vec<String>,
}

impl Failure {
    fn new(kind: ErrorKind, step: Option<&'static str>, tail: String) -> Self {
        Self {
            kind,
            step,
            tail,
            resources: Vec::new(),
        }
    }

    /// The image breaks the module contract.
    pub(super) fn image_layout(tail: String) -> Self {
        Self::new(ErrorKind::ImageLayout, None, tail)
    }

    /// Something before the first step failed.
    pub(super) fn prepare(tail: String) -> Self {
        Self::new(ErrorKind::Step, Some(PREPARE), tail)
    }

    /// The inputs are another Job's, so this pod has no work: neither a failure nor a reason to wait (R-5a).
    pub(super) fn foreign_inputs(tail: String) -> Self {
        Self::new(ErrorKind::Interrupted, Some(PREPARE), tail)
    }

    /// A step failed.
    pub(super) fn step(step: StepName, tail: String) -> Self {
        Self::new(ErrorKind::Step, Some(step.as_str()), tail)
    }

    /// The destructive guard stopped an apply.
    pub(super) fn blocked(tail: String) -> Self {
        Self::new(ErrorKind::Blocked, None, tail)
    }

    /// The plan is not the approved one.
    pub(super) fn plan_changed(tail: String) -> Self {
        Self::new(ErrorKind::PlanChanged, None, tail)
    }

    /// With the resources that failed.
    pub(super) fn with_resources(self, resources: Vec<String>) -> Self {
        Self { resources, ..self }
    }

    /// A step that fails while the run is stopped was interrupted: runtimes exit with an error of their own then, only
    /// the stop tells.
    pub(super) fn interrupted_if(self, stopped: bool) -> Self {
        if stopped {
            Self {
                kind: ErrorKind::Interrupted,
                ..self
            }
        } else {
            self
        }
    }
}

impl From<Failure> for ErrorReport {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind,
            step: failure.step.map(str::to_owned),
            tail: failure.tail,
            resources: failure.resources,
        }
    }
}
