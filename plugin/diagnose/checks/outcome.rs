//! The newest operation failed, or nothing is due (diagnosis.md, D63 to D72, D17).

use super::{Finding, from_row, link, not_true, operation, short};
use crate::api::conditions::ConditionType;
use crate::jobs::backoff::{self, FailedLimit};
use crate::jobs::outcome::Outcome;
use crate::names::Op;
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::diagnose::rows::{self, Row};
use crate::plugin::read::wire::Condition;
use crate::plugin::report::Warning;
use crate::text::cut;

/// Longest message of a failure in a report, in bytes.
const MESSAGE_MAX: usize = 512;

/// The operation that the object would run next.
fn next_op(facts: &Facts) -> Op {
    operation(facts).parse().unwrap_or(Op::Apply)
}

fn limit(facts: &Facts) -> FailedLimit {
    FailedLimit::new(facts.object.spec.jobs.failed_jobs_history_limit)
}

/// Whether the next attempt waits for its backoff.
pub(crate) fn in_backoff(facts: &Facts) -> bool {
    let op = next_op(facts);
    let run = facts.with_history(|history| history.failures(op));
    backoff::remaining(limit(facts), run, facts.now).is_some()
}

/// What the condition says stands until somebody acts: no Job is started, however due it is.
fn refusal(facts: &Facts) -> Option<(&'static Row, &Condition)> {
    let condition = not_true(facts, ConditionType::ApplyJobSucceeded)?;
    let row = rows::row(ConditionType::ApplyJobSucceeded, &condition.reason)?;
    Some((row, condition))
}

/// Whether the start of the next operation is refused (diagnosis.md §1.2: 10 and 11 precede 14).
pub(crate) fn is_refused(facts: &Facts) -> bool {
    refusal(facts).is_some()
}

/// The newest apply or destroy failed, or cannot be started at all.
pub(crate) fn failed(facts: &Facts) -> Option<Finding> {
    if let Some((row, condition)) = refusal(facts) {
        return Some(from_row(facts, row, condition));
    }
    let condition = not_true(facts, ConditionType::ApplyJobSucceeded)?;
    if condition.status != "False" {
        return None;
    }
    Some(backing_off(facts, condition))
}

fn backing_off(facts: &Facts, condition: &Condition) -> Finding {
    let op = next_op(facts);
    let run = facts.with_history(|history| history.failures(op));
    let times = match run.count {
        0 => "failed".to_owned(),
        1 => "failed once".to_owned(),
        count => format!("failed {count} times in a row"),
    };
    let summary = format!("its {op} {times}; it is tried again by itself");
    let mut finding = Finding::new(
        facts,
        Verdict::BackingOff,
        "D65",
        condition.reason.as_str(),
        summary,
    )
    .said_by(condition, facts)
    .head(|first| first.message = cut(&condition.message, MESSAGE_MAX).to_owned());
    if let Some(job) = newest_failure(facts, op) {
        let row = cause_row(condition);
        let mut node = link(
            facts,
            None,
            Some(row),
            &condition.reason,
            &cause(facts, condition, &job),
        );
        node.object.kind = "Job".to_owned();
        node.object.name.clone_from(&job);
        finding =
            finding
                .because(node)
                .action(
                    Action::optional("Logs", "read what it said").command(&format!(
                        "kubectl logs job/{job} -n {} -c source",
                        facts.object.metadata.namespace
                    )),
                );
    }
    finding = match backoff::until(limit(facts), run).filter(|time| *time > facts.now) {
        Some(time) => finding.then(
            Next::new(
                "Retry",
                By::Manager,
                short(facts),
                "the next attempt may start",
            )
            .at(time),
        ),
        None => finding.then(Next::new(
            "Retry",
            By::Manager,
            short(facts),
            "within 30s the manager tries again",
        )),
    };
    finding
        .action(Action::optional(
            "Fix",
            "fix the module, its variables or the cloud's error; the retry picks it up",
        ))
        .never("delete the failed Jobs: they are the record of the backoff")
}

/// The row of the failure itself.
fn cause_row(condition: &Condition) -> &'static str {
    match condition.reason.as_str() {
        "JobDeadlineExceeded" => "D63",
        "ImagePullFailed" => "D56",
        "DestroyFailed" => "D117",
        "ApplyFailed" if condition.message.contains("disappeared while it ran") => "D72",
        _ => "D64",
    }
}

/// The step and the runner's summary, when they are of this Job; else what the condition says.
fn cause(facts: &Facts, condition: &Condition, job: &str) -> String {
    let run = facts
        .object
        .status
        .last_run
        .as_ref()
        .filter(|run| run.job == job);
    let said = run.and_then(|run| run.error.as_ref()).map(|error| {
        if error.step.is_empty() {
            error.summary.clone()
        } else {
            format!("step {}: {}", error.step, error.summary)
        }
    });
    let of_job = format!("Job {job}: ");
    let message = condition
        .message
        .strip_prefix(of_job.as_str())
        .unwrap_or(&condition.message);
    said.unwrap_or_else(|| cut(message, MESSAGE_MAX).to_owned())
}

fn newest_failure(facts: &Facts, op: Op) -> Option<String> {
    facts.with_history(|history| {
        let newest = history.newest(&[op])?;
        (!newest.outcome.is_success()).then(|| newest.job.name.clone())
    })
}

/// What is odd about the newest runs: one that refused its inputs, or several that were interrupted.
pub(crate) fn warnings(facts: &Facts) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(run) = &facts.object.status.last_run
        && let Some(error) = &run.error
        && error.kind == "interrupted"
        && error.step == "prepare"
        && run.steps.is_empty()
    {
        warnings.push(Warning::new(
            "TokenMismatch",
            format!(
                "Job {} refused to run: its inputs belonged to another Job of the same name",
                run.job
            ),
        ));
    }
    let interrupted = facts.with_history(|history| {
        let newest = history
            .finished()
            .iter()
            .take_while(|finished| !finished.outcome.is_success());
        newest
            .filter(|finished| finished.outcome == Outcome::Interrupted)
            .count()
    });
    if interrupted > 1 {
        warnings.push(Warning::new(
            "Interrupted",
            format!("its last Jobs were stopped from outside {interrupted} times: drains, evictions or preemption"),
        ));
    }
    warnings
}

/// D17: nothing is due.
pub(crate) fn idle(facts: &Facts) -> Finding {
    let mut finding =
        Finding::new(facts, Verdict::Idle, "D17", "UpToDate", "nothing is due").then(Next::new(
            "Recheck",
            By::Manager,
            short(facts),
            "a change of its spec, its variables or its Cluster starts the next operation",
        ));
    finding.operation = None;
    let ready = facts.condition(ConditionType::Ready).cloned();
    match ready {
        Some(ready) => finding
            .said_by(&ready, facts)
            .head(|first| first.operation = None),
        None => finding.head(|first| first.operation = None),
    }
}
