//! Warnings beside the headline.

use super::*;

fn warnings(facts: &Facts) -> Vec<(&'static str, String)> {
    let report = explain(facts);
    let all = report.chain[0].warnings.iter();
    all.map(|warning| (warning.code, warning.message.clone()))
        .collect()
}

#[rstest]
#[case::in_step(5, None)]
#[case::off(6, Some("the manager's clock is 6s off"))]
fn d138_more_than_five_seconds_apart_is_the_managers_clock(
    #[case] apart: i64,
    #[case] expected: Option<&str>,
) {
    let mut facts = waiting();
    facts.run_lease = lease(&facts, 300, running_job(JobState::Running), Vec::new());
    if let Fact::Found(lease) = &mut facts.run_lease {
        lease.written_at = Some(ago(300 - apart));
    }
    let found = warnings(&facts);
    let skew = found.iter().find(|(code, _)| *code == "ManagerClockSkew");
    assert_eq!(skew.map(|(_, message)| message.as_str()), expected);
}

#[test]
fn d143_repaired_state_labels_name_the_secret() {
    let mut facts = scene(&[]);
    facts.events = Fact::Found(vec![Event {
        reason: "StateLabelsRepaired".into(),
        note: "put back captf.io/managed on Secret tfstate-default-x".into(),
        at: Some(ago(30)),
        first: Some(ago(30)),
    }]);
    let expected =
        "put back captf.io/managed on Secret tfstate-default-x: somebody strips them, find out who";
    assert_eq!(
        warnings(&facts),
        [("StateLabelsRepaired", expected.to_owned())]
    );
}

#[rstest]
#[case("captf.io/abandon-infrastructure", "spec.deletionPolicy: Retain")]
#[case("captf.io/approve-plan", "spec.approved of the TerraformPlan")]
#[case(
    "captf.io/approve-destructive-plan",
    "spec.approved of the TerraformPlan"
)]
fn d125_an_annotation_of_an_older_version_has_no_effect(#[case] key: &str, #[case] instead: &str) {
    let mut facts = scene(&[]);
    let annotations = &mut facts.object.metadata.annotations;
    annotations.insert(key.into(), "u1".into());
    let expected = format!("the annotation {key} has no effect: use {instead}");
    assert_eq!(warnings(&facts), [("RemovedAnnotation", expected)]);
}
