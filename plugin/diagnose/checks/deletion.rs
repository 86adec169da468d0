//! A deleting object: what its destroy waits for (diagnosis.md, section J).

use super::{Finding, from_row, gates, job, lease, short, state};
use crate::api::conditions::ConditionType;
use crate::api::keys::finalizers;
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::diagnose::rows;

/// The first reason why the object is still there.
pub(crate) fn deleting(facts: &Facts) -> Option<Finding> {
    facts.object.metadata.deletion_timestamp?;
    dependents(facts)
        .or_else(|| job::running(facts))
        .or_else(|| lease::waiting(facts))
        .or_else(|| state::unreadable(facts))
        .or_else(|| gates::credentials(facts))
        .or_else(|| destroy_failed(facts))
        .or_else(|| other_finalizers(facts))
        .or_else(|| lease::starting(facts))
}

fn dependents(facts: &Facts) -> Option<Finding> {
    let blocked = facts.condition(ConditionType::DeletionBlocked)?;
    if blocked.status != "True" {
        return None;
    }
    Some(
        Finding::new(
            facts,
            Verdict::Waiting,
            "D110",
            "DependentsExist",
            "its deletion waits for the machines and pools of its cluster",
        )
        .said_by(blocked, facts)
        .head(|first| first.message.clone_from(&blocked.message))
        .then(Next::new(
            "Needs",
            By::Kubernetes,
            short(facts),
            "no bound: needs them gone",
        ))
        .never("delete TerraformMachines directly"),
    )
}

fn destroy_failed(facts: &Facts) -> Option<Finding> {
    let condition = facts.condition(ConditionType::ApplyJobSucceeded)?;
    if let Some(row) = rows::row(ConditionType::ApplyJobSucceeded, &condition.reason)
        && condition.reason == "IdentityNotAllowed"
    {
        return Some(from_row(facts, row, condition));
    }
    super::outcome::failed(facts)
}

fn other_finalizers(facts: &Facts) -> Option<Finding> {
    let others = &facts.object.metadata.finalizers;
    if others.is_empty()
        || others
            .iter()
            .any(|finalizer| finalizer == finalizers::CLUSTER)
    {
        return None;
    }
    let summary = format!(
        "another controller keeps it: finalizer {}",
        others.join(", ")
    );
    Some(
        Finding::new(facts, Verdict::Waiting, "D120", "OtherFinalizer", summary)
            .then(Next::new(
                "Needs",
                By::User,
                short(facts),
                "no bound: needs the controller of that finalizer",
            ))
            .action(
                Action::optional("Look", "look at its finalizers").command(&super::fill(
                    facts,
                    "kubectl get terraformcluster {name} -n {ns} -o yaml",
                )),
            ),
    )
}
