//! Finished Jobs, each recorded once: by the pass that deleted its per-run Secret (metrics-alerts.md §2, §3).

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::names::{Kind, Op};

use super::{Counters, Histograms, Metrics, alpha, counters, histograms};

/// How a finished Job ended; the first that holds, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobResult {
    /// Condition Complete.
    Succeeded,
    /// A guarded apply stopped before a plan that deletes or replaces.
    Blocked,
    /// An approved apply planned other changes and stopped.
    PlanChanged,
    /// Past its deadline, even if the runner reported an interruption.
    Deadline,
    /// Stopped from outside.
    Interrupted,
    /// Any other failure.
    Failed,
}

impl JobResult {
    /// Value of the label `result`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Blocked => "blocked",
            Self::PlanChanged => "plan_changed",
            Self::Deadline => "deadline",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// What the runtime did to resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResourceAction {
    /// Created.
    Create,
    /// Changed in place.
    Update,
    /// Destroyed.
    Delete,
    /// Imported.
    Import,
}

impl ResourceAction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Import => "import",
        }
    }
}

/// What the runner reported about a failure, as it wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobError<'a> {
    /// `error.kind` of the result; `None` when there is no result.
    pub kind: Option<&'a str>,
    /// The step that failed; `None` when none did.
    pub step: Option<&'a str>,
}

/// One finished Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedJob<'a> {
    /// Kind of the owner.
    pub kind: Kind,
    /// What it ran.
    pub op: Op,
    /// How it ended.
    pub result: JobResult,
    /// From start (creation when it never started) to finish; recorded when longer than 0.
    pub duration: Option<Duration>,
    /// From creation to the start of its container; recorded when longer than 0.
    pub queued: Option<Duration>,
    /// Steps of the result with the time each took.
    pub steps: Vec<(&'a str, Duration)>,
    /// What went wrong; counted unless the result is `succeeded`.
    pub error: JobError<'a>,
    /// Which retry succeeded, 1 for the first try; recorded on success.
    pub attempt: Option<u32>,
    /// Resources changed, from the summary line of an apply or destroy.
    pub changed: Vec<(ResourceAction, u64)>,
}

#[derive(Clone)]
pub(super) struct Families {
    total: Counters<3>,
    duration: Histograms<3>,
    step_duration: Histograms<3>,
    queue: Histograms<2>,
    errors: Counters<4>,
    attempts: Histograms<2>,
    changed: Counters<3>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            total: counters(registry, "captf_jobs", alpha("Finished Jobs")),
            duration: histograms(
                registry,
                "captf_job_duration_seconds",
                alpha("From the start of a Job to its end"),
                || Histogram::new(JOB_DURATION),
            ),
            step_duration: histograms(
                registry,
                "captf_job_step_duration_seconds",
                alpha("Length of each step of the runner"),
                || Histogram::new(STEP_DURATION),
            ),
            queue: histograms(
                registry,
                "captf_job_queue_seconds",
                alpha("From the creation of a Job to the start of its container"),
                || Histogram::new(QUEUE),
            ),
            errors: counters(
                registry,
                "captf_job_errors",
                alpha("Finished Jobs that did not succeed, by what failed"),
            ),
            attempts: histograms(
                registry,
                "captf_job_attempts",
                alpha("Which retry succeeded"),
                || Histogram::new((1_u8..=10).map(f64::from)),
            ),
            changed: counters(
                registry,
                "captf_resources_changed",
                alpha("Resources changed by an apply or destroy"),
            ),
        }
    }
}

/// 10 exponential buckets over 15 s to 2 h.
const JOB_DURATION: [f64; 10] = [
    15.0,
    29.785641,
    59.145628,
    117.446029,
    233.213685,
    463.094608,
    919.571319,
    1826.001418,
    3625.908191,
    7200.0,
];
/// 12 exponential buckets over 1 s to 2 h.
const STEP_DURATION: [f64; 12] = [
    1.0,
    2.242160,
    5.027281,
    11.271969,
    25.273557,
    56.667356,
    127.057277,
    284.882738,
    638.752664,
    1432.185641,
    3211.189284,
    7200.0,
];
const QUEUE: [f64; 11] = [
    5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0, 1800.0,
];

impl Metrics {
    /// Records a finished Job. Call it once per Job: in the pass that deleted its per-run Secret.
    pub fn job_finished(&self, job: &FinishedJob<'_>) {
        let families = &self.jobs;
        let (kind, op, result) = (
            ("kind", job.kind.as_str()),
            ("op", job.op.as_str()),
            ("result", job.result.as_str()),
        );
        families.total.get_or_create(&[kind, op, result]).inc();
        if let Some(duration) = job.duration.filter(|duration| !duration.is_zero()) {
            families
                .duration
                .get_or_create(&[kind, op, result])
                .observe(duration.as_secs_f64());
        }
        if let Some(queued) = job.queued.filter(|queued| !queued.is_zero()) {
            families
                .queue
                .get_or_create(&[kind, op])
                .observe(queued.as_secs_f64());
        }
        for (step, took) in &job.steps {
            families
                .step_duration
                .get_or_create(&[kind, op, ("step", known_step(step))])
                .observe(took.as_secs_f64());
        }
        for (action, count) in job.changed.iter().filter(|(_, count)| *count > 0) {
            families
                .changed
                .get_or_create(&[kind, op, ("action", action.as_str())])
                .inc_by(*count);
        }
        if job.result == JobResult::Succeeded {
            if let Some(attempt) = job.attempt {
                families
                    .attempts
                    .get_or_create(&[kind, op])
                    .observe(f64::from(attempt));
            }
        } else {
            let step = ("step", job.error.step.map_or("none", known_step));
            let error_kind = ("error_kind", error_kind(job.result, job.error.kind));
            families
                .errors
                .get_or_create(&[kind, op, error_kind, step])
                .inc();
        }
    }
}

/// The steps of the runner; a module's result cannot add to them (metrics-alerts.md §2).
fn known_step(step: &str) -> &'static str {
    const STEPS: [&str; 11] = [
        "init",
        "force-unlock",
        "validate",
        "plan",
        "show-json",
        "apply",
        "apply-refresh-only",
        "destroy",
        "state-push",
        "state-list",
        "prepare",
    ];
    STEPS
        .into_iter()
        .find(|known| *known == step)
        .unwrap_or("other")
}

/// The kinds of error the runner reports; any other is `unknown`, and so is a missing result unless
/// the Job exceeded its deadline.
fn error_kind(result: JobResult, kind: Option<&str>) -> &'static str {
    const KINDS: [&str; 5] = [
        "step",
        "image-layout",
        "interrupted",
        "blocked",
        "plan-changed",
    ];
    match kind {
        Some(kind) => KINDS
            .into_iter()
            .find(|known| *known == kind)
            .unwrap_or("unknown"),
        None if result == JobResult::Deadline => "deadline",
        None => "unknown",
    }
}
