//! A deleting object: what its destroy waits for (diagnosis.md, section J).

use super::{Finding, from_row, gates, job, lease, recheck, short, state};
use crate::api::conditions::ConditionType;
use crate::api::keys::finalizers;
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::diagnose::rows;

/// A deletion that nothing holds is looked at again within the longest backoff of a failing pass.
const RETRY_SECONDS: i64 = 600;

/// The first reason why the object is still there.
pub(crate) fn deleting(facts: &Facts) -> Option<Finding> {
    facts.object.metadata.deletion_timestamp?;
    let first = dependents(facts).or_else(|| job::running(facts));
    if facts.is_retaining() {
        return first
            .or_else(|| other_finalizers(facts))
            .or_else(|| Some(going(facts)));
    }
    first
        .or_else(|| lease::waiting(facts))
        .or_else(|| state::unreadable(facts))
        .or_else(|| gates::credentials(facts))
        .or_else(|| destroy_failed(facts))
        .or_else(|| other_finalizers(facts))
        .or_else(|| lease::starting(facts))
        .or_else(|| Some(going(facts)))
}

/// Nothing else holds it: what the manager says of the deletion, or that it goes on.
fn going(facts: &Facts) -> Finding {
    let said = facts
        .condition(ConditionType::Deleting)
        .filter(|condition| condition.status == "True");
    let message = said.map_or("", |condition| condition.message.as_str());
    let held_up = !message.is_empty() && !facts.is_retaining();
    let (verdict, summary) = if held_up {
        (Verdict::NeedsAction, "its deletion is held up")
    } else {
        (Verdict::Waiting, "its deletion goes on")
    };
    let mut finding = Finding::new(facts, verdict, "D117", "Deleting", summary);
    finding.row = None;
    finding = finding.head(|first| {
        first.row = None;
        if held_up {
            first.message = message.to_owned();
        }
    });
    finding = finding.then(recheck(short(facts), RETRY_SECONDS));
    if held_up {
        let what =
            "keep the infrastructure and let the object go, if what holds it up cannot be ended";
        finding = finding.action(retain(facts, what));
    }
    match said {
        Some(condition) => finding.said_by(condition, facts),
        None => finding,
    }
    .never("strip the finalizer")
}

/// The way out of every deletion that is held: the infrastructure stays, the object goes.
pub(super) fn retain(facts: &Facts, what: &str) -> Action {
    let command = "kubectl patch terraformcluster {name} -n {ns} --type=merge -p {\"spec\":{\"deletionPolicy\":\"Retain\"}}";
    Action::required("Retain", what).command(&super::fill(facts, command))
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
