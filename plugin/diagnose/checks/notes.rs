//! What is odd beside the headline: clocks, labels, and annotations of older versions.

use crate::api::keys::annotations;
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::report::Warning;

/// Annotations without effect, each with what replaced it (annotations-labels.md §10).
const REMOVED: [(&str, &str); 3] = [
    (
        annotations::REMOVED_APPROVE_DESTRUCTIVE_PLAN,
        "spec.approved of the TerraformPlan",
    ),
    (
        annotations::REMOVED_APPROVE_PLAN,
        "spec.approved of the TerraformPlan",
    ),
    (
        annotations::REMOVED_ABANDON_INFRASTRUCTURE,
        "spec.deletionPolicy: Retain",
    ),
];

/// The manager's clock (D138), repaired state labels (D143), annotations without effect (D125).
pub(crate) fn warnings(facts: &Facts) -> Vec<Warning> {
    let skew = [&facts.run_lease, &facts.cluster_lease]
        .into_iter()
        .filter_map(|lease| facts.judged(lease))
        .flat_map(|(_, evaluation)| evaluation.warnings)
        .find(|warning| warning.code == "ManagerClockSkew");
    let repaired = facts.event("StateLabelsRepaired").map(|event| {
        let message = if event.note.is_empty() {
            "labels of its state Secrets were put back".to_owned()
        } else {
            event.note.clone()
        };
        Warning::new(
            "StateLabelsRepaired",
            format!("{message}: somebody strips them, find out who"),
        )
    });
    let object = &facts.object.metadata;
    let removed = REMOVED
        .iter()
        .filter(|(key, _)| object.annotation(key).is_some())
        .map(|(key, instead)| {
            let message = format!("the annotation {key} has no effect: use {instead}");
            Warning::new("RemovedAnnotation", message)
        });
    skew.into_iter().chain(repaired).chain(removed).collect()
}
