#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::client::Clock;
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

fn apply(result: JobResult) -> FinishedJob<'static> {
    FinishedJob {
        kind: Kind::TerraformCluster,
        op: Op::Apply,
        result,
        duration: Some(Duration::from_secs(20)),
        queued: Some(Duration::from_secs(7)),
        steps: vec![("init", Duration::from_secs(3))],
        error: JobError::default(),
        attempt: Some(2),
        changed: vec![(ResourceAction::Create, 3), (ResourceAction::Delete, 0)],
    }
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
    metrics.job_finished(&apply(JobResult::Succeeded));
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
        &format!(r#"captf_job_step_duration_seconds_count{{{job},step="init"}} 1"#),
    );
    assert_sample(
        &metrics,
        &format!(r#"captf_job_queue_seconds_bucket{{{job},le="10"}} 1"#),
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
    metrics.job_finished(&FinishedJob {
        duration: Some(Duration::ZERO),
        queued: None,
        steps: vec![],
        ..apply(JobResult::Failed)
    });
    assert_no_sample(&metrics, "captf_job_duration_seconds");
    assert_no_sample(&metrics, "captf_job_queue_seconds");
    assert_no_sample(&metrics, "captf_job_attempts");
}

// metrics-alerts.md §9 B3, B4
#[rstest]
#[case(JobResult::Failed, Some("step"), Some("apply"), "step", "apply")]
#[case(
    JobResult::Failed,
    Some("new-kind"),
    Some("new-step"),
    "unknown",
    "other"
)]
#[case(JobResult::Failed, None, None, "unknown", "none")]
#[case(JobResult::Deadline, None, None, "deadline", "none")]
#[case(JobResult::Deadline, Some("interrupted"), None, "interrupted", "none")]
#[case(JobResult::Blocked, Some("blocked"), None, "blocked", "none")]
#[case(
    JobResult::PlanChanged,
    Some("plan-changed"),
    None,
    "plan-changed",
    "none"
)]
fn error_labels_come_from_closed_sets(
    #[case] result: JobResult,
    #[case] kind: Option<&'static str>,
    #[case] step: Option<&'static str>,
    #[case] error_kind: &str,
    #[case] step_label: &str,
) {
    let metrics = metrics();
    metrics.job_finished(&FinishedJob {
        error: JobError { kind, step },
        ..apply(result)
    });
    let labels = format!(
        r#"kind="TerraformCluster",op="apply",error_kind="{error_kind}",step="{step_label}""#
    );
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

#[test]
fn decisions_name_operation_and_reason() {
    let metrics = metrics();
    metrics.decision(
        Kind::TerraformCluster,
        DecisionOp::Job(Op::Apply),
        "NoState",
    );
    metrics.decision(Kind::TerraformCluster, DecisionOp::None, "UpToDate");
    metrics.decision(
        Kind::TerraformCluster,
        DecisionOp::Finalizer,
        "DeletingWithoutState",
    );
    for (op, reason) in [
        ("apply", "NoState"),
        ("none", "UpToDate"),
        ("finalizer", "DeletingWithoutState"),
    ] {
        let labels = format!(r#"kind="TerraformCluster",op="{op}",reason="{reason}""#);
        assert_sample(
            &metrics,
            &format!("captf_reconcile_op_decisions_total{{{labels}}} 1"),
        );
    }
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
