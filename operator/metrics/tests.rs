#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::client::Clock;
use crate::decide::{Action, Cause, Decision, Reason};
use crate::jobs::facts::JobFacts;
use crate::jobs::history::Finished;
use crate::jobs::outcome::{Outcome, Reading};
use crate::jobs::testing::{JobBuilder, at, reading};
use crate::names::{Kind, ObjectKey, Op};

fn metrics() -> Metrics {
    Metrics::new(BuildInfo {
        version: "v1.2.3",
        commit: "abc",
    })
}

/// The lines of all samples, without comments.
fn samples(metrics: &Metrics) -> Vec<String> {
    metrics
        .encode()
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn assert_sample(metrics: &Metrics, sample: &str) {
    let samples = samples(metrics);
    assert!(
        samples.iter().any(|line| line == sample),
        "{sample} is not in\n{}",
        samples.join("\n")
    );
}

fn assert_no_sample(metrics: &Metrics, start: &str) {
    let found: Vec<String> = samples(metrics)
        .into_iter()
        .filter(|line| line.starts_with(start))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

const CREATED: &str = "12:00";

/// An apply that finished at this time after this outcome and left this result.
fn counted(metrics: &Metrics, job: &JobFacts, outcome: Outcome, reading: &Reading, retry: u32) {
    let finished = Finished {
        job,
        op: Op::Apply,
        at: at("12:20"),
        outcome,
        reading: Some(reading),
        lock_untouched: false,
    };
    metrics.job_counted(Kind::TerraformCluster, &finished, retry);
}

fn failed_apply() -> JobFacts {
    JobBuilder::new(Op::Apply, 1)
        .created(CREATED)
        .failed("12:20")
        .build()
}

#[test]
fn the_build_is_named() {
    assert_sample(
        &metrics(),
        r#"captf_build_info{version="v1.2.3",commit="abc",contract="v1alpha1"} 1"#,
    );
}

// metrics-alerts.md §9 B11
#[test]
fn help_of_our_series_begins_with_alpha() {
    let text = metrics().encode().unwrap();
    let ours: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# HELP captf_"))
        .collect();
    assert!(!ours.is_empty());
    for line in ours {
        let help = line.splitn(4, ' ').nth(3).unwrap();
        assert!(help.starts_with("[ALPHA] "), "{line}");
    }
}

#[test]
fn a_succeeded_job_fills_its_series() {
    let metrics = metrics();
    let job = JobBuilder::new(Op::Apply, 2)
        .created(CREATED)
        .complete("12:00:20")
        .build();
    let result = r#"{"version":1,"steps":[{"name":"init","exit":0,"seconds":3}],"changes":{"add":3,"destroy":0}}"#;
    counted(&metrics, &job, Outcome::Succeeded, &reading(result), 2);
    let job = r#"kind="TerraformCluster",op="apply""#;
    assert_sample(
        &metrics,
        &format!(r#"captf_jobs_total{{{job},result="succeeded"}} 1"#),
    );
    assert_sample(
        &metrics,
        &format!(r#"captf_job_duration_seconds_bucket{{{job},result="succeeded",le="15"}} 0"#),
    );
    assert_sample(
        &metrics,
        &format!(
            r#"captf_job_duration_seconds_bucket{{{job},result="succeeded",le="29.785641"}} 1"#
        ),
    );
    assert_sample(
        &metrics,
        &format!(r#"captf_job_step_duration_seconds_sum{{{job},step="init"}} 3.0"#),
    );
    assert_sample(
        &metrics,
        &format!(r#"captf_job_queue_seconds_sum{{{job}}} 5.0"#),
    );
    assert_sample(&metrics, &format!(r#"captf_job_attempts_sum{{{job}}} 2.0"#));
    assert_sample(
        &metrics,
        &format!(r#"captf_resources_changed_total{{{job},action="create"}} 3"#),
    );
    assert_no_sample(
        &metrics,
        &format!(r#"captf_resources_changed_total{{{job},action="delete""#),
    );
    assert_no_sample(&metrics, "captf_job_errors_total");
}

#[test]
fn durations_that_are_not_longer_than_zero_are_not_recorded() {
    let metrics = metrics();
    let job = JobBuilder::new(Op::Apply, 1)
        .created("12:20")
        .failed("12:20")
        .build();
    counted(&metrics, &job, Outcome::Failed, &Reading::nothing(), 1);
    assert_no_sample(&metrics, "captf_job_duration_seconds");
    assert_no_sample(&metrics, "captf_job_queue_seconds");
    assert_no_sample(&metrics, "captf_job_attempts");
}

// metrics-alerts.md §9 B3, B4
#[rstest]
#[case(Outcome::Failed, Some((r#""kind":"step","step":"apply""#, "step", "apply")))]
#[case(Outcome::Failed, Some((r#""kind":"image-layout""#, "image-layout", "none")))]
#[case(Outcome::Failed, Some((r#""kind":"step","step":"new-step""#, "step", "other")))]
#[case(Outcome::Deadline, Some((r#""kind":"interrupted""#, "interrupted", "none")))]
#[case(Outcome::Blocked, Some((r#""kind":"blocked""#, "blocked", "none")))]
#[case(Outcome::PlanChanged, Some((r#""kind":"plan-changed""#, "plan-changed", "none")))]
#[case(Outcome::Failed, None)]
#[case(Outcome::Deadline, None)]
fn error_labels_come_from_closed_sets(
    #[case] outcome: Outcome,
    #[case] error: Option<(&str, &str, &str)>,
) {
    let metrics = metrics();
    let (reading, error_kind, step) = match error {
        Some((error, kind, step)) => (
            reading(&format!(
                r#"{{"version":1,"steps":[],"error":{{{error}}}}}"#
            )),
            kind,
            step,
        ),
        None if outcome == Outcome::Deadline => (Reading::nothing(), "deadline", "none"),
        None => (Reading::nothing(), "unknown", "none"),
    };
    counted(&metrics, &failed_apply(), outcome, &reading, 1);
    let labels =
        format!(r#"kind="TerraformCluster",op="apply",error_kind="{error_kind}",step="{step}""#);
    assert_sample(&metrics, &format!("captf_job_errors_total{{{labels}}} 1"));
}

#[rstest]
#[case("WaitingForRunLease", "run_lease")]
#[case("WaitingForClusterOperation", "cluster_operation")]
#[case("WaitingForMachineOperations", "machine_operations")]
#[case("WaitingForJobSlot", "job_slot")]
fn waits_are_counted_by_reason(#[case] condition: &str, #[case] label: &str) {
    let metrics = metrics();
    metrics.lease_wait(
        Kind::TerraformMachine,
        LeaseWait::from_condition_reason(condition).unwrap(),
    );
    assert_sample(
        &metrics,
        &format!(r#"captf_lease_waits_total{{kind="TerraformMachine",reason="{label}"}} 1"#),
    );
}

#[test]
fn no_other_reason_is_a_wait() {
    assert_eq!(LeaseWait::from_condition_reason("NoApplyYet"), None);
}

#[rstest]
#[case(Action::None, Reason::UpToDate, "none", "UpToDate")]
#[case(
    Action::None,
    Reason::Backoff(Cause::LastApplyFailed),
    "none",
    "LastApplyFailedBackoff"
)]
#[case(
    Action::DropFinalizer,
    Reason::DeletingWithoutState,
    "finalizer",
    "DeletingWithoutState"
)]
#[case(
    Action::Retain,
    Reason::DeletionRetained,
    "finalizer",
    "DeletionRetained"
)]
fn decisions_name_operation_and_reason(
    #[case] action: Action,
    #[case] reason: Reason,
    #[case] op: &str,
    #[case] word: &str,
) {
    let metrics = metrics();
    let decision = Decision {
        action,
        reason,
        requeue: None,
        waiting: None,
        plan_flow: false,
    };
    metrics.decision(Kind::TerraformCluster, &decision);
    let labels = format!(r#"kind="TerraformCluster",op="{op}",reason="{word}""#);
    assert_sample(
        &metrics,
        &format!("captf_reconcile_op_decisions_total{{{labels}}} 1"),
    );
}

#[test]
fn state_errors_drop_the_prefix_and_refuse_unknown_reasons() {
    let metrics = metrics();
    metrics.state_read_error(Kind::TerraformCluster, "StateLocked");
    metrics.state_read_error(Kind::TerraformCluster, "RetainedStateFound");
    metrics.state_read_error(Kind::TerraformCluster, "Anything");
    let lines: Vec<String> = samples(&metrics)
        .into_iter()
        .filter(|line| line.starts_with("captf_state_read_errors_total"))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_sample(
        &metrics,
        r#"captf_state_read_errors_total{kind="TerraformCluster",reason="locked"} 1"#,
    );
    assert_sample(
        &metrics,
        r#"captf_state_read_errors_total{kind="TerraformCluster",reason="retainedstatefound"} 1"#,
    );
}

// metrics-alerts.md §9 B5
#[test]
fn the_series_of_a_deleted_object_end_and_those_of_its_namesake_stay() {
    let metrics = metrics();
    let cluster = ObjectKey::new(Kind::TerraformCluster, "ns", "web");
    let machine = ObjectKey::new(Kind::TerraformMachine, "ns", "web");
    let finished: Timestamp = "2026-10-01T12:00:00Z".parse().unwrap();
    for object in [&cluster, &machine] {
        metrics.ready(object, TriState::Unknown);
        metrics.infrastructure_healthy(object, TriState::True);
        metrics.drift_detected(object, false);
        metrics.state_read(object, 4, 900);
        metrics.inputs_size(object, 1_000);
        metrics.last_success(object, Op::Apply, Some(finished));
    }
    assert_sample(
        &metrics,
        r#"captf_ready{kind="TerraformCluster",namespace="ns",name="web"} -1"#,
    );
    metrics.object_gone(&cluster);
    let left: Vec<String> = samples(&metrics)
        .into_iter()
        .filter(|line| line.contains(r#"name="web""#))
        .collect();
    assert_eq!(left.len(), 7, "{left:?}");
    assert!(
        left.iter()
            .all(|line| line.contains(r#"kind="TerraformMachine""#)),
        "{left:?}"
    );
}

// metrics-alerts.md §9 B6
#[test]
fn the_last_success_of_an_operation_that_is_not_scheduled_ends() {
    let metrics = metrics();
    let cluster = ObjectKey::new(Kind::TerraformCluster, "ns", "web");
    let finished: Timestamp = "2026-10-01T12:00:00Z".parse().unwrap();
    metrics.last_success(&cluster, Op::Apply, Some(finished));
    metrics.last_success(&cluster, Op::Drift, Some(finished));
    metrics.last_success(&cluster, Op::Drift, None);
    let object = r#"kind="TerraformCluster",namespace="ns",name="web""#;
    assert_sample(
        &metrics,
        &format!(r#"captf_last_success_timestamp_seconds{{{object},op="apply"}} 1790856000.0"#),
    );
    assert_no_sample(
        &metrics,
        &format!(r#"captf_last_success_timestamp_seconds{{{object},op="drift""#),
    );
}

#[test]
fn inputs_of_no_size_are_not_recorded() {
    let metrics = metrics();
    metrics.inputs_size(&ObjectKey::new(Kind::TerraformCluster, "ns", "web"), 0);
    assert_no_sample(&metrics, "captf_inputs_bytes");
}

#[test]
fn a_controller_has_its_series_from_the_start() {
    let metrics = metrics();
    let controller = metrics.controller("terraformcluster", 10);
    assert_sample(
        &metrics,
        r#"controller_runtime_reconcile_errors_total{controller="terraformcluster"} 0"#,
    );
    assert_sample(
        &metrics,
        r#"controller_runtime_reconcile_total{controller="terraformcluster",result="success"} 0"#,
    );
    assert_sample(
        &metrics,
        r#"controller_runtime_max_concurrent_reconciles{controller="terraformcluster"} 10"#,
    );
    let busy = controller.pass_started();
    assert_sample(
        &metrics,
        r#"controller_runtime_active_workers{controller="terraformcluster"} 1"#,
    );
    drop(busy);
    controller.pass_ended(PassResult::Error, Duration::from_millis(30));
    assert_sample(
        &metrics,
        r#"controller_runtime_active_workers{controller="terraformcluster"} 0"#,
    );
    assert_sample(
        &metrics,
        r#"controller_runtime_reconcile_errors_total{controller="terraformcluster"} 1"#,
    );
    assert_sample(
        &metrics,
        r#"controller_runtime_reconcile_total{controller="terraformcluster",result="error"} 1"#,
    );
    assert_sample(
        &metrics,
        r#"controller_runtime_reconcile_time_seconds_bucket{controller="terraformcluster",le="0.05"} 1"#,
    );
}

#[test]
fn active_jobs_are_counted_at_the_scrape() {
    let metrics = metrics();
    metrics.track_active_jobs(|| BTreeMap::from([((Kind::TerraformMachine, Op::Drift), 3)]));
    assert_sample(
        &metrics,
        r#"captf_jobs_active{kind="TerraformMachine",op="drift"} 3"#,
    );
}

#[rstest]
#[case("2026-10-01T12:00:01Z", "0.0")]
#[case("2026-10-01T12:00:45Z", "46.0")]
fn a_clock_offset_below_two_seconds_counts_as_none(#[case] server: &str, #[case] shown: &str) {
    let metrics = metrics();
    let here: Timestamp = "2026-10-01T12:00:00Z".parse().unwrap();
    let clock = Clock::with_raw(Arc::new(move || here));
    metrics.track_clock(clock.clone());
    assert_sample(&metrics, "captf_clock_offset_seconds 0.0");
    clock.observe(server.parse().unwrap(), here, here);
    assert_sample(&metrics, &format!("captf_clock_offset_seconds {shown}"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_is_described() {
    let samples = samples(&metrics());
    for name in [
        "process_start_time_seconds",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
    ] {
        assert!(
            samples.iter().any(|line| line.starts_with(name)),
            "{name} is not in {samples:?}"
        );
    }
}
