#![allow(clippy::unwrap_used, clippy::expect_used)]

use k8s_openapi::jiff::SignedDuration;
use rstest::rstest;

use super::testing::condition;
use super::*;
use crate::events::{RelatedJob, Severity};
use crate::jobs::outcome::Outcome;
use crate::names::Op;

fn apply(status: &str, reason: &str, message: &str) -> Condition {
    condition("ApplyJobSucceeded", status, reason, message)
}

fn waits(reason: &str, message: &str) -> Condition {
    apply("Unknown", reason, message)
}

fn quiet(before: Option<&Condition>, after: &Condition) -> Option<&'static str> {
    diff(before, after, &Context::default()).map(|event| event.reason)
}

fn read(job: &str, outcome: Outcome) -> BTreeMap<String, JobOutcome> {
    let told = JobOutcome {
        job: RelatedJob {
            name: job.into(),
            uid: "uid".into(),
        },
        op: Op::Apply,
        outcome,
        took: Some(SignedDuration::from_secs(5)),
        changes: None,
        retry: None,
        approval: None,
    };
    BTreeMap::from([(job.to_owned(), told)])
}

fn with_read(
    before: Option<&Condition>,
    after: &Condition,
    outcomes: &BTreeMap<String, JobOutcome>,
) -> Option<&'static str> {
    let context = Context {
        outcomes: Some(outcomes),
    };
    diff(before, after, &context).map(|event| event.reason)
}

#[rstest]
#[case("Paused", "False", "NotPaused")]
#[case("Deleting", "False", "NotDeleting")]
#[case("DriftDetected", "Unknown", "DriftNotChecked")]
#[case("DeletionBlocked", "False", "NotBlocked")]
#[case("ApplyJobSucceeded", "Unknown", "NoApplyYet")]
#[case("StateReadable", "True", "StateRead")]
#[case("Ready", "False", "NotReady")]
#[case("Ready", "Unknown", "ReadyUnknown")]
#[case("InfrastructureHealthy", "False", "Provisioning")]
fn b1_first_appearances_that_are_not_bad_say_nothing(
    #[case] type_: &str,
    #[case] status: &str,
    #[case] reason: &str,
) {
    assert_eq!(quiet(None, &condition(type_, status, reason, "")), None);
}

#[rstest]
#[case("CredentialsMirrored", "False", "MirrorFailed", "ConditionChanged")]
#[case("RunnerRBACReady", "False", "RBACFailed", "ConditionChanged")]
#[case("DeletionBlocked", "True", "DependentsExist", "ConditionChanged")]
#[case(
    "IdentityAllowed",
    "Unknown",
    "IdentityCheckFailed",
    "ConditionChanged"
)]
#[case(
    "InfrastructureHealthy",
    "Unknown",
    "HealthUnknown",
    "ConditionChanged"
)]
#[case(
    "DriftJobSucceeded",
    "Unknown",
    "DurableInputsMissing",
    "ConditionChanged"
)]
#[case("IdentityAllowed", "False", "IdentityNotFound", "IdentityNotAllowed")]
#[case("OutputsValid", "False", "OutputsMissing", "OutputsInvalid")]
#[case("StateReadable", "False", "StateCorrupt", "StateUnreadable")]
#[case("StateReadable", "False", "StateInconsistent", "StateUnreadable")]
#[case("StateReadable", "False", "StateLost", "StateLost")]
#[case("StateReadable", "False", "ApplyOutcomeUnknown", "StateLost")]
#[case("StateReadable", "False", "StateLocked", "StateLocked")]
#[case("StateReadable", "False", "RetainedStateFound", "RetainedStateFound")]
#[case(
    "InfrastructureHealthy",
    "False",
    "InstanceStopped",
    "InstanceUnhealthy"
)]
#[case("DriftDetected", "True", "DriftReported", "DriftDetected")]
fn b2_a_condition_that_first_appears_bad_is_one_warning(
    #[case] type_: &str,
    #[case] status: &str,
    #[case] reason: &str,
    #[case] event: &str,
) {
    let told = diff(
        None,
        &condition(type_, status, reason, ""),
        &Context::default(),
    )
    .unwrap();
    assert_eq!((told.severity, told.reason), (Severity::Warning, event));
}

#[test]
fn the_default_note_is_type_status_reason_and_message() {
    let told = diff(
        None,
        &condition("RunnerRBACReady", "False", "RBACFailed", "no"),
        &Context::default(),
    );
    assert_eq!(told.unwrap().note, "RunnerRBACReady: False/RBACFailed: no");
}

#[test]
fn a_condition_that_turns_good_is_a_normal_change() {
    let before = condition("RunnerRBACReady", "False", "RBACFailed", "");
    let after = condition("RunnerRBACReady", "True", "RBACReady", "");
    let told = diff(Some(&before), &after, &Context::default()).unwrap();
    assert_eq!(
        (told.severity, told.reason),
        (Severity::Normal, "ConditionChanged")
    );
}

#[test]
fn ready_is_bad_only_when_it_was_true() {
    let ready = condition("Ready", "True", "Ready", "");
    let unknown = condition("Ready", "Unknown", "ReadyUnknown", "");
    let lost = diff(Some(&ready), &unknown, &Context::default()).unwrap();
    assert_eq!(lost.severity, Severity::Warning);
    let not_ready = condition("Ready", "False", "NotReady", "");
    let told = diff(Some(&unknown), &not_ready, &Context::default()).unwrap();
    assert_eq!(told.severity, Severity::Normal);
}

#[rstest]
#[case("WaitingForRunLease")]
#[case("WaitingForClusterOperation")]
#[case("WaitingForMachineOperations")]
#[case("WaitingForJobSlot")]
fn b3_a_wait_is_one_normal_event(#[case] reason: &str) {
    let told = diff(None, &waits(reason, "held by a"), &Context::default()).unwrap();
    assert_eq!((told.severity, told.reason), (Severity::Normal, reason));
    assert_eq!(
        quiet(
            Some(&waits(reason, "held by a")),
            &waits(reason, "held by b")
        ),
        None
    );
}

#[test]
fn b4_another_wait_is_a_second_event() {
    let before = waits("WaitingForRunLease", "");
    let after = waits("WaitingForClusterOperation", "");
    assert_eq!(
        quiet(Some(&before), &after),
        Some("WaitingForClusterOperation")
    );
}

#[test]
fn b5_leaving_a_wait_back_to_a_told_outcome_says_nothing() {
    let before = waits("WaitingForRunLease", "");
    let after = apply("False", "ApplyFailed", "Job captf-a: boom");
    assert_eq!(quiet(Some(&before), &after), None);
}

#[test]
fn leaving_a_wait_with_a_job_that_finished_now_tells_it() {
    let before = waits("WaitingForRunLease", "");
    let after = apply("True", "ApplySucceeded", "Job captf-a");
    let outcomes = read("captf-a", Outcome::Succeeded);
    assert_eq!(
        with_read(Some(&before), &after, &outcomes),
        Some("JobSucceeded")
    );
}

#[test]
fn leaving_a_wait_into_a_start_that_cannot_be_is_a_job_failed() {
    let before = waits("WaitingForJobSlot", "");
    let after = apply("False", "InputsTooLarge", "1000001 bytes");
    assert_eq!(quiet(Some(&before), &after), Some("JobFailed"));
}

#[test]
fn plan_waits_are_told_by_bookkeeping() {
    let failed = apply("False", "ApplyFailed", "Job captf-a");
    assert_eq!(
        quiet(
            Some(&failed),
            &waits("PlanAwaitingApproval", "TerraformPlan p plans")
        ),
        None
    );
    assert_eq!(
        quiet(
            Some(&failed),
            &waits("PlanChanged", "Job captf-b: other changes")
        ),
        None
    );
}

#[test]
fn a_finished_job_is_told_once() {
    let before = waits("NoApplyYet", "");
    let after = apply("False", "ApplyFailed", "Job captf-a: boom");
    let outcomes = read("captf-a", Outcome::Failed);
    assert_eq!(
        with_read(Some(&before), &after, &outcomes),
        Some("JobFailed")
    );
    assert_eq!(with_read(Some(&after), &after, &outcomes), None);
}

#[test]
fn the_next_job_with_the_same_outcome_is_told() {
    let before = apply("False", "ApplyFailed", "Job captf-a: boom");
    let after = apply("False", "ApplyFailed", "Job captf-b: boom");
    let outcomes = read("captf-b", Outcome::Failed);
    assert_eq!(
        with_read(Some(&before), &after, &outcomes),
        Some("JobFailed")
    );
}

#[test]
fn an_outcome_this_pass_did_not_read_is_told_without_its_details() {
    let before = apply("True", "ApplySucceeded", "Job captf-a");
    let after = apply(
        "False",
        "ApplyFailed",
        "Job captf-b: disappeared while it ran",
    );
    let told = diff(Some(&before), &after, &Context::default()).unwrap();
    assert_eq!((told.reason, told.related), ("JobFailed", None));
}

#[test]
fn b6_a_blocked_job_is_told_only_in_the_pass_that_first_reads_it() {
    let before = waits("NoApplyYet", "");
    let after = apply(
        "False",
        "DestructivePlanBlocked",
        "Job captf-a: a.b (delete)",
    );
    let outcomes = read("captf-a", Outcome::Blocked);
    assert_eq!(
        with_read(Some(&before), &after, &outcomes),
        Some("DestructivePlanBlocked")
    );
    assert_eq!(with_read(Some(&after), &after, &outcomes), None);
    assert_eq!(quiet(Some(&before), &after), None);
}

#[test]
fn a_block_without_a_job_says_nothing() {
    let before = apply("True", "ApplySucceeded", "Job captf-a");
    let after = apply(
        "False",
        "DestructivePlanBlocked",
        "TerraformPlan p plans inputs hash h2:a",
    );
    assert_eq!(quiet(Some(&before), &after), None);
}

#[test]
fn an_apply_that_cannot_start_is_told_on_each_new_reason_or_message() {
    let first = apply("False", "InputsTooLarge", "1 byte");
    let second = apply("False", "InputsTooLarge", "2 bytes");
    assert_eq!(quiet(None, &first), Some("JobFailed"));
    assert_eq!(quiet(Some(&first), &first), None);
    assert_eq!(quiet(Some(&first), &second), Some("JobFailed"));
}

#[test]
fn a_running_drift_check_says_nothing_and_its_end_does() {
    let running = condition(
        "DriftJobSucceeded",
        "Unknown",
        "DriftJobRunning",
        "Job captf-d",
    );
    let checked = condition("DriftJobSucceeded", "True", "DriftChecked", "Job captf-d");
    assert_eq!(quiet(None, &running), None);
    let outcomes = read("captf-d", Outcome::Succeeded);
    assert_eq!(
        with_read(Some(&running), &checked, &outcomes),
        Some("JobSucceeded")
    );
}

#[test]
fn a_restore_job_is_told_by_bookkeeping() {
    let after = condition(
        "RestoreJobSucceeded",
        "False",
        "RestoreFailed",
        "Job captf-r",
    );
    assert_eq!(quiet(None, &after), None);
    let missing = condition(
        "RestoreJobSucceeded",
        "False",
        "RestoreBackupNotFound",
        "no backup 9",
    );
    assert_eq!(quiet(None, &missing), Some("ConditionChanged"));
    let wait = condition("RestoreJobSucceeded", "Unknown", "WaitingForRunLease", "");
    assert_eq!(quiet(None, &wait), Some("WaitingForRunLease"));
}

#[test]
fn a_deletion_starts_once() {
    let not = condition("Deleting", "False", "NotDeleting", "");
    let deleting = condition("Deleting", "True", "Deleting", "");
    let told = diff(Some(&not), &deleting, &Context::default()).unwrap();
    assert_eq!(told.reason, "DeletionStarted");
    assert_eq!(told.note, "Deletion started: Deleting: True/Deleting");
    let unresolved = condition("Deleting", "True", "DeletionPolicyUnresolved", "");
    assert_eq!(quiet(Some(&deleting), &unresolved), None);
}

fn drift_is(reason: &str, message: &str) -> Condition {
    condition("DriftDetected", "True", reason, message)
}

#[test]
fn b9_the_same_finding_is_told_once() {
    let pending = drift_is("DriftPending", "Job captf-d1: 2 to update");
    let remediating = drift_is(
        "DriftRemediating",
        "Job captf-d1: 2 to update; remediation Job captf-a runs",
    );
    assert_eq!(quiet(Some(&pending), &remediating), None);
    assert_eq!(quiet(Some(&remediating), &pending), None);
    let checked_again = drift_is("DriftPending", "Job captf-d2: 2 to update");
    assert_eq!(quiet(Some(&pending), &checked_again), None);
    let more = drift_is("DriftPending", "Job captf-d2: 3 to update");
    assert_eq!(quiet(Some(&pending), &more), Some("DriftDetected"));
}

#[test]
fn drift_that_is_gone_is_resolved() {
    let gone = condition("DriftDetected", "False", "NoDrift", "Job captf-d2");
    assert_eq!(
        quiet(Some(&drift_is("DriftReported", "x")), &gone),
        Some("DriftResolved")
    );
    let never = condition("DriftDetected", "Unknown", "DriftNotChecked", "");
    assert_eq!(quiet(Some(&never), &gone), None);
}

#[test]
fn health_says_healthy_and_unhealthy() {
    let pending = condition("InfrastructureHealthy", "False", "InstancePending", "");
    let healthy = condition("InfrastructureHealthy", "True", "Healthy", "");
    assert_eq!(quiet(Some(&pending), &healthy), Some("InstanceHealthy"));
    let degraded = condition("InfrastructureHealthy", "False", "InstanceDegraded", "");
    assert_eq!(quiet(Some(&healthy), &degraded), Some("InstanceUnhealthy"));
}

#[test]
fn b8_a_new_message_while_false_is_a_new_warning() {
    let before = condition("StateReadable", "False", "StateLost", "a");
    let after = condition("StateReadable", "False", "StateLost", "b");
    assert_eq!(quiet(Some(&before), &after), Some("StateLost"));
    assert_eq!(quiet(Some(&after), &after), None);
}

#[test]
fn a_readable_state_after_an_unreadable_one_is_a_normal_change() {
    let before = condition("StateReadable", "False", "StateLost", "a");
    let after = condition("StateReadable", "True", "StateRead", "");
    assert_eq!(quiet(Some(&before), &after), Some("ConditionChanged"));
}

#[test]
fn inputs_applied_and_reconciling_never_say_anything() {
    for type_ in ["InputsApplied", "Reconciling", "Paused"] {
        let before = condition(type_, "True", "A", "");
        assert_eq!(
            quiet(Some(&before), &condition(type_, "False", "B", "")),
            None
        );
    }
}

#[test]
fn pause_and_its_end_are_told() {
    let not = condition("Paused", "False", "NotPaused", "");
    let paused = condition("Paused", "True", "Paused", "the Cluster is paused");
    let told = pause(Some(&not), &paused).unwrap();
    assert_eq!(
        told.note,
        "reconciliation paused: the Cluster is paused; no Job starts"
    );
    assert_eq!(pause(Some(&paused), &not).unwrap().reason, "Resumed");
    assert_eq!(pause(None, &not), None);
    assert_eq!(pause(Some(&paused), &paused), None);
}
