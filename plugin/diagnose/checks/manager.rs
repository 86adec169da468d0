//! Does anybody act on the object? (diagnosis.md, section A, D148, D149)

use k8s_openapi::api::core::v1::Pod;

use super::{Finding, gates, recheck, short};
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::gather::{ELECTION_MARGIN_SECONDS, election_expired_for};
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::evaluate::Fact;
use crate::plugin::report::Warning;
use crate::plugin::time;

/// A generation this long unseen is not merely late.
const UNSEEN_SECONDS: i64 = 120;
/// A leader is new for this long: it passes over every object first.
const NEW_LEADER_SECONDS: i64 = 60;

/// Nobody reconciles the object: the election Lease ran out, no condition was ever set, or its
/// newest generation is not seen.
pub(crate) fn unreconciled(facts: &Facts) -> Option<Finding> {
    not_leading(facts)
        .or_else(|| never_seen(facts))
        .or_else(|| not_seen_again(facts))
        .or_else(|| lapsed(facts))
}

fn not_leading(facts: &Facts) -> Option<Finding> {
    let election = facts.election.found()?;
    let expired = election_expired_for(election, facts.now);
    if expired.is_none_or(|seconds| seconds <= ELECTION_MARGIN_SECONDS) {
        return None;
    }
    let pods = facts.manager_pods.found();
    let (row, code, summary) = match pods.map(Vec::as_slice) {
        Some([]) => ("D1", "ManagerNotLeading", "no manager runs: it has no pod"),
        Some(pods) if pods.iter().any(is_restarting) => (
            "D149",
            "ManagerUnreachable",
            "the manager cannot reach the API server: its pods restart",
        ),
        Some(pods) if !pods.iter().any(is_ready) => (
            "D1",
            "ManagerNotLeading",
            "no manager runs: none of its pods is ready",
        ),
        _ => (
            "D2",
            "ManagerNotLeading",
            "no manager leads: the election Lease has run out",
        ),
    };
    let logs = "kubectl logs -n captf-system -l control-plane=controller-manager --tail=50";
    let pods = "kubectl get pods -n captf-system -l control-plane=controller-manager";
    Some(
        Finding::new(facts, Verdict::Unreconciled, row, code, summary)
            .then(Next::new(
                "Needs",
                By::User,
                "manager",
                "no bound: needs a manager that leads; running Jobs go on, nothing new starts",
            ))
            .action(Action::required("Look", "look at the manager's pods").command(pods))
            .action(Action::required("Look", "read what it says").command(logs))
            .never("delete leases or Jobs \"to help\""),
    )
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_restarting(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default();
    !is_ready(pod) && statuses.iter().any(|status| status.restart_count > 0)
}

fn never_seen(facts: &Facts) -> Option<Finding> {
    if !facts.object.status.conditions.is_empty() {
        return None;
    }
    Some(
        Finding::new(
            facts,
            Verdict::Unreconciled,
            "D4",
            "NotReconciled",
            "no manager has looked at it yet",
        )
        .then(Next::new(
            "Needs",
            By::User,
            "manager",
            "no bound: needs a manager that watches this namespace (--namespace, --watch-filter)",
        ))
        .action(
            Action::required("Look", "look at the manager and its flags")
                .command("kubectl get deployment captf-controller-manager -n captf-system -o yaml"),
        )
        .never("start a second manager with another --namespace beside the first"),
    )
}

fn not_seen_again(facts: &Facts) -> Option<Finding> {
    if gates::owner_gate_is_closed(facts) {
        return None;
    }
    let meta = &facts.object.metadata;
    let seen = facts.object.status.observed_generation?;
    let written = meta.spec_written_at()?;
    if meta.generation <= seen || time::age_seconds(facts.now, written) <= UNSEEN_SECONDS {
        return None;
    }
    let summary = format!(
        "its generation {} is not seen, the manager is at {seen}",
        meta.generation
    );
    Some(
        Finding::new(facts, Verdict::Unreconciled, "D1", "NotReconciled", summary)
            .then(Next::new(
                "Needs",
                By::User,
                "manager",
                "no bound: needs a manager that acts",
            ))
            .action(
                Action::required("Look", "look at the manager's pods").command(
                    "kubectl get pods -n captf-system -l control-plane=controller-manager",
                ),
            ),
    )
}

/// A waiting cluster refreshes its leases every 30 s; one that does not is not being reconciled.
fn lapsed(facts: &Facts) -> Option<Finding> {
    let (_, evaluation) = facts.judged(&facts.run_lease)?;
    let warning = evaluation
        .warnings
        .into_iter()
        .find(|warning| warning.code == "ReservationLapsed")?;
    Some(
        Finding::new(
            facts,
            Verdict::Unreconciled,
            "D40",
            "ReservationLapsed",
            "the manager does not refresh its leases any more",
        )
        .head(|first| first.message.clone_from(&warning.message))
        .then(recheck(short(facts), 30))
        .action(
            Action::required("Look", "look at the manager's pods")
                .command("kubectl get pods -n captf-system -l control-plane=controller-manager"),
        )
        .never("delete the lease"),
    )
}

/// A new leader takes over, or one was just lost: everything takes a little longer.
pub(crate) fn warnings(facts: &Facts) -> Vec<Warning> {
    let Fact::Found(election) = &facts.election else {
        return Vec::new();
    };
    let expired = election_expired_for(election, facts.now)
        .is_some_and(|seconds| seconds <= ELECTION_MARGIN_SECONDS);
    let new = election
        .acquired
        .is_some_and(|acquired| time::age_seconds(facts.now, acquired) < NEW_LEADER_SECONDS);
    if expired || new {
        vec![Warning::new(
            "LeaderChanging",
            "a new leader takes over: it passes over every object first",
        )]
    } else {
        Vec::new()
    }
}
