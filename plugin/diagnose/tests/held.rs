//! What holds an object until a person acts: the state, a deletion, a move, an owner, bad health.

use super::*;
use crate::plugin::args::TimeChoice;
use crate::plugin::colour::Colour;
use crate::plugin::diagnose::render::{self, Style};
use crate::plugin::diagnose::rows::ROWS;

fn deleting(mut facts: Facts) -> Facts {
    facts.object.metadata.deletion_timestamp = Some(ago(60));
    facts.object.metadata.finalizers =
        vec!["terraformcluster.infrastructure.cluster.x-k8s.io".into()];
    facts
}

fn text(report: &WhyReport) -> String {
    let style = Style {
        colour: Colour::Off,
        ascii: true,
        width: None,
        time: TimeChoice::default(),
    };
    render::text(report, style)
}

/// The commands without which nothing goes on.
fn required(report: &WhyReport) -> Vec<String> {
    let actions = report.actions.iter().filter(|action| action.required);
    actions.map(|action| action.command.join(" ")).collect()
}

const RETAIN: &str = "kubectl patch terraformcluster demo -n team-a --type=merge -p {\"spec\":{\"deletionPolicy\":\"Retain\"}}";

#[test]
fn whoever_must_act_is_told_what_to_do() {
    for row in ROWS {
        let (condition, reason) = row.reason;
        let facts = scene(&[(condition.as_str(), "False", reason)]);
        for facts in [deleting(facts.clone()), facts] {
            let report = explain(&facts);
            if matches!(report.verdict, Verdict::NeedsAction | Verdict::DeletionHeld) {
                assert!(!required(&report).is_empty(), "{} {reason}", row.id);
                assert!(text(&report).contains("\nDo\n"), "{} {reason}", row.id);
            }
        }
    }
}

#[test]
fn d117_a_deletion_that_the_manager_cannot_finish_names_retain() {
    let mut facts = deleting(scene(&[
        ("Deleting", "True", "Deleting"),
        ("InputsApplied", "True", "InputsApplied"),
        ("ApplyJobSucceeded", "True", "ApplySucceeded"),
    ]));
    for condition in &mut facts.object.status.conditions {
        condition.message = "this version of the manager runs no destroy Jobs".into();
    }
    assert_eq!(required(&explain(&facts)), [RETAIN]);
    facts.object.spec.deletion_policy = Some("Retain".into());
    assert_eq!(explain(&facts).verdict, Verdict::Waiting);
}

#[rstest]
#[case("StateLost")]
#[case("StateCorrupt")]
#[case("StateEncrypted")]
#[case("StateInconsistent")]
#[case("ApplyOutcomeUnknown")]
fn d113_a_held_deletion_names_retain(#[case] reason: &str) {
    let facts = deleting(scene(&[("StateReadable", "False", reason)]));
    let report = explain(&facts);
    assert_eq!(report.verdict, Verdict::DeletionHeld);
    assert!(required(&report).contains(&RETAIN.to_owned()));
}

#[test]
fn retain_lets_go_whatever_the_state_is() {
    let mut facts = deleting(scene(&[
        ("StateReadable", "False", "StateLost"),
        ("IdentityAllowed", "False", "IdentityNotFound"),
    ]));
    facts.object.spec.deletion_policy = Some("Retain".into());
    assert_eq!(shows(&facts).0, Verdict::Waiting);
}

#[test]
fn d89_retained_state_does_not_hold_a_deletion() {
    let facts = deleting(scene(&[("StateReadable", "False", "RetainedStateFound")]));
    assert_eq!(shows(&facts).0, Verdict::Waiting);
}

#[test]
fn d85_the_newest_backup_is_what_ends_a_lost_state() {
    let mut facts = scene(&[("StateReadable", "False", "StateLost")]);
    assert_eq!(required(&explain(&facts)), [""]);
    facts.object.status.state_backups = vec![Backup { serial: 4 }, Backup { serial: 9 }];
    assert_eq!(
        required(&explain(&facts)),
        ["kubectl annotate terraformcluster demo -n team-a captf.io/restore-state=9"]
    );
}

#[rstest]
#[case("False", "InstanceUnhealthy", Verdict::NeedsAction, "D100")]
#[case("False", "InstanceDegraded", Verdict::NeedsAction, "D100")]
#[case("False", "InstanceStopped", Verdict::NeedsAction, "D100")]
#[case("False", "InstanceTerminated", Verdict::NeedsAction, "D100")]
#[case("False", "InstancePending", Verdict::Waiting, "D101")]
#[case("False", "Provisioning", Verdict::Waiting, "D101")]
#[case("Unknown", "ProviderIDMissing", Verdict::Waiting, "D101")]
#[case("Unknown", "HealthUnknown", Verdict::Waiting, "D101")]
fn bad_health_is_never_idle(
    #[case] status: &str,
    #[case] reason: &str,
    #[case] verdict: Verdict,
    #[case] row: &'static str,
) {
    let facts = scene(&[
        ("InputsApplied", "True", "InputsApplied"),
        ("ApplyJobSucceeded", "True", "ApplySucceeded"),
        ("OutputsValid", "True", "OutputsValid"),
        ("InfrastructureHealthy", status, reason),
    ]);
    assert_eq!(shows(&facts), (verdict, row, reason.to_owned()));
}

#[test]
fn d96_invalid_outputs_outrank_the_health() {
    let facts = scene(&[
        ("InputsApplied", "True", "InputsApplied"),
        ("ApplyJobSucceeded", "True", "ApplySucceeded"),
        ("OutputsValid", "False", "OutputsMissing"),
        ("InfrastructureHealthy", "Unknown", "HealthUnknown"),
    ]);
    assert_eq!(row(&facts), "D96");
}

#[rstest]
#[case::just_marked(119, Verdict::Paused, "D14", "Paused")]
#[case::still_there(120, Verdict::NeedsAction, "D151", "MoveCutOff")]
fn d151_begins_two_minutes_after_the_mark(
    #[case] age: i64,
    #[case] verdict: Verdict,
    #[case] row: &'static str,
    #[case] code: &str,
) {
    let mut facts = scene(&[]);
    let mark = "clusterctl.cluster.x-k8s.io/delete-for-move";
    let meta = &mut facts.object.metadata;
    meta.annotations.insert(mark.into(), String::new());
    meta.managed_fields = serde_json::from_value(json!([
        {"time": ago(age).to_string(), "fieldsV1": {"f:metadata": {"f:annotations": {format!("f:{mark}"): {}}}}},
        {"time": ago(3).to_string(), "fieldsV1": {"f:spec": {}}},
    ]))
    .unwrap();
    assert_eq!(shows(&facts), (verdict, row, code.to_owned()));
}

/// A generation that the manager has not seen for an hour.
fn unseen(mut facts: Facts) -> Facts {
    let meta = &mut facts.object.metadata;
    meta.generation = 2;
    meta.managed_fields = serde_json::from_value(json!([{"time": ago(3600).to_string()}])).unwrap();
    facts
}

#[test]
fn d1_a_generation_behind_a_closed_owner_gate_is_not_expected_to_be_seen() {
    let gate = ("DependenciesReady", "False", "OwnerMismatch");
    assert_eq!(row(&unseen(scene(&[]))), "D1");
    assert_eq!(row(&unseen(scene(&[gate]))), "D20");
}

#[test]
fn an_object_that_is_managed_elsewhere_is_left_alone() {
    let mut facts = unseen(scene(&[]));
    facts.object.status.conditions.clear();
    let key = "cluster.x-k8s.io/managed-by";
    facts
        .object
        .metadata
        .annotations
        .insert(key.into(), "terraform".into());
    assert_eq!(
        shows(&facts),
        (Verdict::Idle, "", "ManagedElsewhere".into())
    );
    assert_eq!(shows(&deleting(facts)).0, Verdict::Unreconciled);
}
