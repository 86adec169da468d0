#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    at("2026-01-02T12:00:00Z")
}

fn conditions(verdicts: impl IntoIterator<Item = Verdict>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for verdict in verdicts {
        set(&mut conditions, verdict, 1, noon());
    }
    conditions
}

fn good_before_provisioned() -> Vec<Condition> {
    conditions([
        DependenciesReady::DependenciesReady.plain(),
        IdentityAllowed::IdentityAllowed.plain(),
        CredentialsMirrored::Mirrored.plain(),
        RunnerRbacReady::RbacReady.plain(),
        ApplyJobSucceeded::ApplySucceeded.plain(),
        StateReadable::StateRead.plain(),
        OutputsValid::OutputsValid.plain(),
        InfrastructureHealthy::Healthy.plain(),
        Deleting::NotDeleting.plain(),
    ])
}

#[test]
fn a_condition_that_ends_where_it_began_keeps_its_transition_time() {
    let before = conditions([ApplyJobSucceeded::WaitingForRunLease.with("Job a holds it")]);
    let later = at("2026-01-02T12:05:00Z");
    let mut list = before.clone();
    set(
        &mut list,
        ApplyJobSucceeded::ApplySucceeded.plain(),
        1,
        later,
    );
    set(
        &mut list,
        ApplyJobSucceeded::WaitingForRunLease.with("Job b holds it"),
        1,
        later,
    );
    keep_transition_times(&mut list, &before);
    assert_eq!(list[0].last_transition_time.0, noon());
    set(
        &mut list,
        ApplyJobSucceeded::ApplySucceeded.plain(),
        1,
        later,
    );
    keep_transition_times(&mut list, &before);
    assert_eq!(list[0].last_transition_time.0, later);
}

#[test]
fn transition_time_moves_only_with_the_status() {
    let mut list = conditions([ApplyJobSucceeded::NoApplyYet.plain()]);
    let later = at("2026-01-02T12:05:00Z");
    assert!(set(
        &mut list,
        ApplyJobSucceeded::WaitingForRunLease.with("Job a holds it"),
        2,
        later
    ));
    assert_eq!(list[0].last_transition_time.0, noon());
    assert_eq!(list[0].observed_generation, Some(2));
    assert!(set(
        &mut list,
        ApplyJobSucceeded::ApplySucceeded.with("Job a"),
        2,
        later
    ));
    assert_eq!(list[0].last_transition_time.0, later);
}

#[test]
fn transition_time_has_whole_seconds() {
    let mut list = Vec::new();
    set(
        &mut list,
        Paused::NotPaused,
        1,
        at("2026-01-02T12:00:00.750Z"),
    );
    assert_eq!(list[0].last_transition_time.0, noon());
}

#[test]
fn the_same_verdict_again_is_no_change() {
    let mut list = conditions([Paused::NotPaused.plain()]);
    assert!(!set(
        &mut list,
        Paused::NotPaused,
        1,
        at("2026-01-02T13:00:00Z")
    ));
    assert_eq!(list.len(), 1);
}

#[test]
fn a_message_is_cut_at_32768_characters_on_a_character_boundary() {
    let mut list = Vec::new();
    set(
        &mut list,
        StateReadable::StateLost.with("ü".repeat(40_000)),
        1,
        noon(),
    );
    assert_eq!(list[0].message.chars().count(), 32_768);
    assert!(list[0].message.chars().all(|c| c == 'ü'));
}

#[test]
fn initial_conditions_are_set_where_missing_and_never_overwritten() {
    let mut list = conditions([Paused::Paused.plain()]);
    set_initial(&mut list, Kind::TerraformCluster, 1, noon());
    assert!(is(&list, Paused::Paused));
    assert!(is(&list, Deleting::NotDeleting));
    assert!(is(&list, DriftDetected::DriftNotChecked));
    assert!(is(&list, DeletionBlocked::NotBlocked));
    assert_eq!(list.len(), 4);
}

#[test]
fn only_a_cluster_starts_with_deletion_blocked() {
    let mut list = Vec::new();
    set_initial(&mut list, Kind::TerraformMachine, 1, noon());
    assert!(get(&list, ConditionType::DeletionBlocked).is_none());
    assert_eq!(list.len(), 3);
}

#[test]
fn a_reason_is_allowed_only_with_its_status_and_kind() {
    let cluster = Kind::TerraformCluster;
    assert!(allowed(
        cluster,
        ConditionType::ApplyJobSucceeded,
        Status::Unknown,
        "WaitingForMachineOperations"
    ));
    assert!(!allowed(
        cluster,
        ConditionType::ApplyJobSucceeded,
        Status::False,
        "WaitingForMachineOperations"
    ));
    assert!(!allowed(
        cluster,
        ConditionType::Ready,
        Status::True,
        "SecretFound"
    ));
    assert!(allowed(
        ApiKind::TerraformClusterIdentity,
        ConditionType::Ready,
        Status::True,
        "SecretFound"
    ));
    assert!(!allowed(
        Kind::TerraformMachine,
        ConditionType::DeletionBlocked,
        Status::True,
        "DependentsExist"
    ));
    assert!(!allowed(
        cluster,
        ConditionType::DriftJobSucceeded,
        Status::Unknown,
        "WaitingForClusterOperation"
    ));
}

#[test]
fn a_wait_is_unknown() {
    for row in TABLE {
        for reason in [
            "WaitingForRunLease",
            "WaitingForClusterOperation",
            "WaitingForMachineOperations",
            "WaitingForJobSlot",
            "WaitingForMovedJob",
        ] {
            assert!(
                !row.when_true.contains(&reason) && !row.when_false.contains(&reason),
                "{row:?}"
            );
        }
    }
}

#[test]
fn a_reason_belongs_to_one_condition_type_except_the_shared_ones() {
    let mut types: BTreeMap<&str, Vec<(ConditionType, ApiKind)>> = BTreeMap::new();
    for row in TABLE {
        for reason in [row.when_true, row.when_false, row.when_unknown].concat() {
            types
                .entry(reason)
                .or_default()
                .push((row.condition, row.kinds[0]));
        }
    }
    let shared: Vec<&str> = types
        .iter()
        .filter(|(_, types)| types.len() > 1)
        .map(|(reason, _)| *reason)
        .collect();
    assert_eq!(
        shared,
        [
            "Approved",
            "CredentialsIncomplete",
            "DriftNotChecked",
            "ImagePullFailed",
            "Pending",
            "SecretNotFound",
            "WaitingForClusterOperation",
            "WaitingForJobSlot",
            "WaitingForMachineOperations",
            "WaitingForRunLease",
        ]
    );
}

#[test]
fn every_reason_fits_the_schema() {
    for row in TABLE {
        for reason in [row.when_true, row.when_false, row.when_unknown].concat() {
            assert!(
                reason.chars().all(|c| c.is_ascii_alphanumeric()),
                "{reason}"
            );
            assert!(
                reason.starts_with(|c: char| c.is_ascii_uppercase()),
                "{reason}"
            );
        }
    }
}

#[test]
fn a_kind_has_at_most_the_32_conditions_the_schema_holds() {
    for kind in [
        ApiKind::TerraformCluster,
        ApiKind::TerraformMachine,
        ApiKind::TerraformMachinePool,
    ] {
        assert!(TABLE.iter().filter(|row| row.kinds.contains(&kind)).count() <= 32);
    }
}

#[test]
fn ready_is_true_when_every_input_is_good() {
    let summary = ready_summary(Kind::TerraformCluster, false, &good_before_provisioned());
    assert_eq!(summary, Ready::Ready.plain());
}

#[test]
fn ready_of_a_new_object_is_unknown() {
    let mut list = Vec::new();
    set_initial(&mut list, Kind::TerraformCluster, 1, noon());
    let summary = ready_summary(Kind::TerraformCluster, false, &list);
    assert_eq!(
        (summary.status(), summary.reason()),
        (Status::Unknown, "ReadyUnknown")
    );
    assert!(
        summary
            .message()
            .starts_with("* DependenciesReady: Condition DependenciesReady not yet reported\n")
    );
}

#[test]
fn ready_ignores_an_absent_deleting() {
    let mut list = good_before_provisioned();
    list.retain(|condition| condition.type_ != "Deleting");
    assert_eq!(
        ready_summary(Kind::TerraformCluster, false, &list).reason(),
        "Ready"
    );
}

#[test]
fn ready_is_false_while_deleting() {
    let mut list = good_before_provisioned();
    set(
        &mut list,
        Deleting::Deleting.with("waits for its destroy"),
        1,
        noon(),
    );
    let summary = ready_summary(Kind::TerraformCluster, true, &list);
    assert_eq!(
        (summary.status(), summary.reason()),
        (Status::False, "NotReady")
    );
    assert_eq!(summary.message(), "* Deleting: waits for its destroy");
}

#[test]
fn a_failed_reapply_flips_ready_of_a_pool_only() {
    let mut list = good_before_provisioned();
    set(
        &mut list,
        ApplyJobSucceeded::ApplyFailed.with("Job x"),
        1,
        noon(),
    );
    assert_eq!(
        ready_summary(Kind::TerraformCluster, true, &list).reason(),
        "Ready"
    );
    assert_eq!(
        ready_summary(Kind::TerraformMachine, true, &list).reason(),
        "Ready"
    );
    assert_eq!(
        ready_summary(Kind::TerraformMachinePool, true, &list).reason(),
        "NotReady"
    );
}

#[test]
fn a_lease_wait_of_a_provisioned_pool_makes_ready_unknown() {
    let mut list = good_before_provisioned();
    set(
        &mut list,
        ApplyJobSucceeded::WaitingForRunLease.with("Job x holds it"),
        1,
        noon(),
    );
    assert_eq!(
        ready_summary(Kind::TerraformMachinePool, true, &list).reason(),
        "ReadyUnknown"
    );
}

#[test]
fn ready_lists_issues_and_unknowns_in_input_order() {
    let mut list = good_before_provisioned();
    set(&mut list, InfrastructureHealthy::Provisioning, 1, noon());
    set(
        &mut list,
        ApplyJobSucceeded::NoApplyYet.with("first line\nsecond line"),
        1,
        noon(),
    );
    let summary = ready_summary(Kind::TerraformCluster, false, &list);
    assert_eq!(summary.reason(), "NotReady");
    assert_eq!(
        summary.message(),
        "* ApplyJobSucceeded:\n  first line\n  second line\n* InfrastructureHealthy: No additional info provided"
    );
}

#[test]
fn ready_never_reads_informing_conditions() {
    let mut list = good_before_provisioned();
    for verdict in [
        Paused::Paused.plain(),
        DriftDetected::DriftReported.plain(),
        DriftJobSucceeded::DriftJobFailed.plain(),
        DeletionBlocked::DependentsExist.plain(),
        EndpointAvailable::WaitingForEndpoint.plain(),
        RestoreJobSucceeded::RestoreFailed.plain(),
        AutoscalingActive::AutoscalingAnnotationsInvalid.plain(),
        InputsApplied::ApplyPending.plain(),
        Reconciling::InputsNotApplied.plain(),
    ] {
        set(&mut list, verdict, 1, noon());
    }
    for kind in [
        Kind::TerraformCluster,
        Kind::TerraformMachine,
        Kind::TerraformMachinePool,
    ] {
        assert_eq!(ready_summary(kind, false, &list).reason(), "Ready");
        assert_eq!(ready_summary(kind, true, &list).reason(), "Ready");
    }
}
