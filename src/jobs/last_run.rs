//! `status.lastRun` (jobs.md §7.4, api.md §8).

use crate::api::{DriftSummary, LastRun, Operation, RunError, RunErrorKind, RunStep};

use super::history::{Finished, History};
use super::result::{Drift, RunError as ReadError, RunResult};

/// Addresses kept of a drift check.
const DRIFT_RESOURCES_MAX: usize = 20;
/// Longest address kept, in bytes; longer ones are left out, never cut (drift-health.md §4).
const DRIFT_RESOURCE_MAX: usize = 512;

/// The newest finished Job for `status.lastRun`; nothing when it is bookkept and recorded already, so
/// that what is stored stays.
#[must_use]
pub fn last_run(history: &History<'_>, stored: Option<&LastRun>) -> Option<LastRun> {
    let newest = history.finished().first()?;
    let recorded = stored.is_some_and(|stored| stored.job == newest.job.name);
    (newest.is_new() || !recorded).then(|| of(newest))
}

fn of(finished: &Finished<'_>) -> LastRun {
    let result = finished.result();
    LastRun {
        job: finished.job.name.clone(),
        operation: Operation::from(finished.op.as_str()),
        steps: result.map(steps).unwrap_or_default(),
        error: result.and_then(|result| result.error.as_ref()).map(error),
        drift: result
            .and_then(|result| result.drift.as_ref())
            .filter(|drift| drift.is_detected())
            .map(drift),
    }
}

fn steps(result: &RunResult) -> Vec<RunStep> {
    result
        .steps
        .iter()
        .filter(|step| !step.name.is_empty())
        .map(|step| RunStep {
            name: step.name.clone(),
            exit_code: step.exit_code,
            duration_milliseconds: Some(step.milliseconds),
        })
        .collect()
}

fn error(error: &ReadError) -> RunError {
    RunError {
        kind: RunErrorKind::from(error.kind.as_str()),
        step: error.step.clone(),
        summary: (!error.summary.is_empty()).then(|| error.summary.clone()),
        resources: error.resources.clone(),
    }
}

fn drift(drift: &Drift) -> DriftSummary {
    DriftSummary {
        create: drift.create.max(0),
        update: drift.update.max(0),
        replace: drift.replace.max(0),
        delete: drift.delete.max(0),
        resources: drift
            .resources
            .iter()
            .filter(|address| !address.is_empty() && address.len() <= DRIFT_RESOURCE_MAX)
            .take(DRIFT_RESOURCES_MAX)
            .cloned()
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::{Value, json};

    use super::*;
    use crate::jobs::facts::JobFacts;
    use crate::jobs::history::Readings;
    use crate::jobs::testing::{JobBuilder, OWNER, reading};
    use crate::names::Op;

    fn run(job: JobFacts, message: Option<&str>, stored: Option<&LastRun>) -> Option<Value> {
        let mut readings = Readings::new();
        if let Some(message) = message {
            readings.insert(job.uid.clone(), reading(message));
        }
        let jobs = [job];
        last_run(&History::new(&jobs, OWNER, &readings, None), stored)
            .map(|run| serde_json::to_value(run).unwrap())
    }

    fn failed() -> JobBuilder {
        JobBuilder::new(Op::Apply, 1).failed("12:10")
    }

    #[test]
    fn the_result_is_copied() {
        let message = r#"{"version":1,"steps":[{"name":"init","exit":0,"seconds":1.5}],
            "error":{"kind":"step","step":"apply","tail":"Error: boom","resources":["a.b: boom"]}}"#;
        assert_eq!(
            run(failed().build(), Some(message), None).unwrap(),
            json!({
                "job": "captf-c-prod-apply-a1-abcdef", "operation": "apply",
                "steps": [{"name": "init", "exitCode": 0, "durationMilliseconds": 1500}],
                "error": {"kind": "step", "step": "apply", "summary": "Error: boom", "resources": ["a.b: boom"]}
            })
        );
    }

    #[test]
    fn a_bookkept_and_recorded_job_is_not_written_again() {
        let stored: LastRun = serde_json::from_value(
            json!({"job": "captf-c-prod-apply-a1-abcdef", "operation": "apply"}),
        )
        .unwrap();
        assert_eq!(run(failed().bookkept().build(), None, Some(&stored)), None);
        assert!(run(failed().build(), None, Some(&stored)).is_some());
    }

    #[test]
    fn a_bookkept_job_that_is_not_recorded_is_named_without_details() {
        assert_eq!(
            run(failed().bookkept().build(), None, None).unwrap(),
            json!({"job": "captf-c-prod-apply-a1-abcdef", "operation": "apply"})
        );
    }

    #[test]
    fn b11_a_600_byte_address_is_left_out() {
        let long = "a".repeat(600);
        let message = format!(
            r#"{{"version":1,"drift":{{"detected":true,"update":2,"resources":["{long}","a.b",""]}}}}"#
        );
        let job = JobBuilder::new(Op::Drift, 1).complete("12:10").build();
        assert_eq!(
            run(job, Some(&message), None).unwrap()["drift"],
            json!({"create": 0, "update": 2, "replace": 0, "delete": 0, "resources": ["a.b"]})
        );
    }

    #[test]
    fn a_clean_drift_check_records_no_drift() {
        let job = JobBuilder::new(Op::Drift, 1).complete("12:10").build();
        let run = run(
            job,
            Some(r#"{"version":1,"drift":{"detected":false}}"#),
            None,
        )
        .unwrap();
        assert!(run.get("drift").is_none());
    }

    #[test]
    fn without_jobs_there_is_no_last_run() {
        let readings = Readings::new();
        assert_eq!(
            last_run(&History::new(&[], OWNER, &readings, None), None),
            None
        );
    }
}
