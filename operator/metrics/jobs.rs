//! Finished Jobs, each recorded once: by the pass that deleted its per-run Secret (metrics-alerts.md §2, §3).

use k8s_openapi::jiff::SignedDuration;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::jobs::history::Finished;
use crate::jobs::outcome::Outcome;
use crate::jobs::result::{Changes, RunResult};
use crate::names::Kind;

use super::{Counters, Histograms, Metrics, alpha, counters, histograms};

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
    /// Records a finished Job of an object of this kind. Call it once per Job: in the pass that deleted
    /// its per-run Secret. `retry` is the number of the try that succeeded, 1 for the first.
    pub fn job_counted(&self, kind: Kind, finished: &Finished<'_>, retry: u32) {
        let families = &self.jobs;
        let result_word = result(finished.outcome);
        let (kind, op, result) = (
            ("kind", kind.as_str()),
            ("op", finished.op.as_str()),
            ("result", result_word),
        );
        families.total.get_or_create(&[kind, op, result]).inc();
        if let Some(seconds) = finished.job.duration().and_then(positive) {
            families
                .duration
                .get_or_create(&[kind, op, result])
                .observe(seconds);
        }
        if let Some(seconds) = queued(finished).and_then(positive) {
            families.queue.get_or_create(&[kind, op]).observe(seconds);
        }
        for step in finished
            .result()
            .map(|result| result.steps.as_slice())
            .unwrap_or_default()
        {
            let took = SignedDuration::from_millis(step.milliseconds.max(0)).as_secs_f64();
            families
                .step_duration
                .get_or_create(&[kind, op, ("step", known_step(&step.name))])
                .observe(took);
        }
        for (action, count) in changed(finished.result()) {
            families
                .changed
                .get_or_create(&[kind, op, ("action", action)])
                .inc_by(count);
        }
        if finished.outcome == Outcome::Succeeded {
            families
                .attempts
                .get_or_create(&[kind, op])
                .observe(f64::from(retry));
        } else {
            let error = finished.result().and_then(|result| result.error.as_ref());
            let step = error
                .and_then(|error| error.step.as_deref())
                .map_or("none", known_step);
            let error_kind = error_kind(finished.outcome, error.map(|error| error.kind.as_str()));
            families
                .errors
                .get_or_create(&[kind, op, ("error_kind", error_kind), ("step", step)])
                .inc();
        }
    }
}

/// Value of the label `result`; a plan that left no plan failed.
const fn result(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Blocked => "blocked",
        Outcome::PlanChanged => "plan_changed",
        Outcome::Deadline => "deadline",
        Outcome::Interrupted => "interrupted",
        Outcome::PlanUnreadable | Outcome::Failed => "failed",
    }
}

fn positive(duration: SignedDuration) -> Option<f64> {
    duration.is_positive().then(|| duration.as_secs_f64())
}

/// From the creation of the Job to the start of its container.
fn queued(finished: &Finished<'_>) -> Option<SignedDuration> {
    let started = finished.reading?.pod.as_ref()?.source.started()?;
    Some(started.duration_since(finished.job.created))
}

/// What an apply or destroy did to resources, as far as it did anything.
fn changed(result: Option<&RunResult>) -> Vec<(&'static str, u64)> {
    let Changes {
        add,
        change,
        destroy,
        import,
    } = result.and_then(|result| result.changes).unwrap_or_default();
    [
        ("create", add),
        ("update", change),
        ("delete", destroy),
        ("import", import),
    ]
    .into_iter()
    .filter_map(|(action, count)| {
        Some((
            action,
            u64::try_from(count).ok().filter(|count| *count > 0)?,
        ))
    })
    .collect()
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

/// The kind the runner reported, one of a closed set; without a result `deadline` for a Job that
/// exceeded its deadline, else `unknown`.
fn error_kind(outcome: Outcome, reported: Option<&'static str>) -> &'static str {
    match reported {
        Some(kind) => kind,
        None if outcome == Outcome::Deadline => "deadline",
        None => "unknown",
    }
}
