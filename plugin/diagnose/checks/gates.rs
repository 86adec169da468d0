//! The gates before an operation: pause, owner, credentials; and what comes after it: outputs.

use jiff::Timestamp;

use super::{Finding, from_row, from_unknown_reason, not_true, recheck, short};
use crate::api::conditions::ConditionType;
use crate::api::keys::annotations;
use crate::owner::{self, ClusterOwner};
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::diagnose::rows;
use crate::plugin::evaluate::Fact;
use crate::plugin::time;

/// So long after its mark a move has deleted the object.
const MOVE_SECONDS: i64 = 120;
const NEVER_UNPAUSE: &str = "unpause while a clusterctl move runs";

/// The object is paused, by itself, by its Cluster, or by a move (D14, D15, D151).
pub(crate) fn paused(facts: &Facts) -> Option<Finding> {
    let meta = facts.object.metadata.object_meta();
    let cluster = facts.cluster.found();
    let by = owner::paused(&meta, cluster.is_some_and(|cluster| cluster.spec.paused));
    let condition = facts
        .condition(ConditionType::Paused)
        .filter(|condition| condition.status == "True");
    // The facts outrank the condition; it alone decides only where its cause cannot be read.
    if by.is_none() && (condition.is_none() || !matches!(facts.cluster, Fact::Unreadable(_))) {
        return None;
    }
    let by_cluster = cluster.is_some_and(|cluster| cluster.spec.paused);
    let moving = being_moved(facts);
    let cut_off = moving == Some(Move::CutOff);
    let (row, code, verdict) = if cut_off {
        ("D151", "MoveCutOff", Verdict::NeedsAction)
    } else if by_cluster {
        ("D15", "Paused", Verdict::Paused)
    } else {
        ("D14", "Paused", Verdict::Paused)
    };
    let summary = match by {
        Some(why) => format!("nothing starts while it is paused: {why}"),
        None => "nothing starts while it is paused".to_owned(),
    };
    let mut finding = Finding::new(facts, verdict, row, code, summary);
    if let Some(condition) = condition {
        finding = finding.said_by(condition, facts);
    }
    if let Some(Move::UnderWay { until }) = moving {
        let gone = Next::new(
            "Moved",
            By::User,
            short(facts),
            "the move has deleted it here, or was cut off",
        );
        return Some(finding.then(gone.by_time(until)).never(NEVER_UNPAUSE));
    }
    let needs = Next::new(
        "Needs",
        By::User,
        short(facts),
        "no bound: needs somebody who ends the pause",
    );
    let (what, command) = if cut_off {
        ("run the same move again, and keep this Cluster paused", "")
    } else if by_cluster {
        (
            "unpause the Cluster once no clusterctl move runs",
            "kubectl patch cluster.cluster.x-k8s.io {cluster} -n {ns} --type=merge -p {\"spec\":{\"paused\":null}}",
        )
    } else {
        (
            "end the pause",
            "kubectl annotate terraformcluster {name} -n {ns} cluster.x-k8s.io/paused-",
        )
    };
    let action = Action::required("Unpause", what);
    let command = super::fill(facts, command);
    let action = if command.is_empty() {
        action
    } else {
        action.command(&command)
    };
    Some(finding.then(needs).action(action).never(NEVER_UNPAUSE))
}

/// How far a move of the object to another management cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// It was marked just now; by then clusterctl has deleted it.
    UnderWay { until: Timestamp },
    /// It was marked and is still there (D151).
    CutOff,
}

/// What the annotation `delete-for-move` says: a move that is still not through 2 min after that write
/// was cut off (cli.md §7.2, row 3). A mark whose time is not shown is an old one.
fn being_moved(facts: &Facts) -> Option<Move> {
    let object = &facts.object.metadata;
    object.annotation(annotations::DELETE_FOR_MOVE)?;
    let until = object
        .annotation_written_at(annotations::DELETE_FOR_MOVE)
        .map(|written| time::plus(written, MOVE_SECONDS));
    Some(match until {
        Some(until) if facts.now < until => Move::UnderWay { until },
        _ => Move::CutOff,
    })
}

/// Whoever else manages the infrastructure: this manager writes nothing to the object until it is
/// deleted (lifecycle.md §4).
pub(crate) fn managed_elsewhere(facts: &Facts) -> Option<Finding> {
    let object = &facts.object.metadata;
    object.annotation(annotations::MANAGED_BY)?;
    if object.deletion_timestamp.is_some() {
        return None;
    }
    let summary = "nothing is done here: the annotation cluster.x-k8s.io/managed-by says that something else manages its \
                   infrastructure";
    let mut finding = Finding::new(facts, Verdict::Idle, "D17", "ManagedElsewhere", summary);
    finding.row = None;
    finding.operation = None;
    Some(
        finding
            .head(|first| {
                first.row = None;
                first.operation = None;
            })
            .then(Next::new(
                "Needs",
                By::User,
                short(facts),
                "no bound: needs that annotation gone",
            )),
    )
}

/// Whether the owner gate is closed: such a pass says so and sees nothing else of the object
/// (lifecycle.md §4).
pub(crate) fn owner_gate_is_closed(facts: &Facts) -> bool {
    not_true(facts, ConditionType::DependenciesReady)
        .is_some_and(|condition| is_about_owner(&condition.reason))
}

fn is_about_owner(reason: &str) -> bool {
    matches!(
        reason,
        "WaitingForOwner" | "OwnerMismatch" | "OwnerNotFound"
    )
}

/// A restore that was asked for and cannot be done (D93, D94).
pub(crate) fn restore(facts: &Facts) -> Option<Finding> {
    let condition = facts.condition(ConditionType::RestoreJobSucceeded)?;
    let row = rows::row(ConditionType::RestoreJobSucceeded, &condition.reason)?;
    (condition.status == "False").then(|| from_row(facts, row, condition))
}

/// Owner and variables (D18 to D27). The owner is judged anew by the operator's rule, so an answer
/// never repeats what the Cluster has settled meanwhile.
pub(crate) fn dependencies(facts: &Facts) -> Option<Finding> {
    let condition = not_true(facts, ConditionType::DependenciesReady)?;
    let finding = match rows::row(ConditionType::DependenciesReady, &condition.reason) {
        Some(row) => from_row(facts, row, condition),
        None => from_unknown_reason(facts, condition),
    };
    let about_owner = is_about_owner(&condition.reason);
    let meta = facts.object.metadata.object_meta();
    let found = match &facts.cluster {
        Fact::Found(cluster) => Some(cluster),
        Fact::Absent => None,
        Fact::NotRead | Fact::Unreadable(_) => return Some(finding),
    };
    match owner::cluster_owner(&meta, found) {
        ClusterOwner::Valid(_) if about_owner => Some(settled(facts, condition)),
        ClusterOwner::Mismatch { name, why } => {
            let said = format!("Cluster {name}: {}", why.describe());
            Some(finding.head(|first| first.message = said))
        }
        _ => Some(finding),
    }
}

/// The condition is from the last pass; what it waited for is there.
fn settled(facts: &Facts, condition: &crate::plugin::read::wire::Condition) -> Finding {
    Finding::new(
        facts,
        Verdict::Waiting,
        "D18",
        "ConditionStale",
        "its owner is there now; the condition is from the last pass",
    )
    .said_by(condition, facts)
    .then(recheck(short(facts), 30))
}

/// Identity, mirror and runner identity; the first that is not True wins (D28 to D36).
pub(crate) fn credentials(facts: &Facts) -> Option<Finding> {
    let kinds = [
        ConditionType::IdentityAllowed,
        ConditionType::CredentialsMirrored,
        ConditionType::RunnerRbacReady,
    ];
    let (kind, condition) = kinds
        .into_iter()
        .find_map(|kind| not_true(facts, kind).map(|condition| (kind, condition)))?;
    Some(match rows::row(kind, &condition.reason) {
        Some(row) => from_row(facts, row, condition),
        None => from_unknown_reason(facts, condition),
    })
}

/// Outputs of what was applied (D96).
pub(crate) fn outputs(facts: &Facts) -> Option<Finding> {
    known_row(facts, ConditionType::OutputsValid)
}

/// What the module reports of its infrastructure (D100, D101).
pub(crate) fn health(facts: &Facts) -> Option<Finding> {
    known_row(facts, ConditionType::InfrastructureHealthy)
}

/// The endpoint of the control plane (D107).
pub(crate) fn endpoint(facts: &Facts) -> Option<Finding> {
    known_row(facts, ConditionType::EndpointAvailable)
}

/// A condition that is not True, when a row knows its reason; others are no trouble.
fn known_row(facts: &Facts, kind: ConditionType) -> Option<Finding> {
    let condition = not_true(facts, kind)?;
    let row = rows::row(kind, &condition.reason)?;
    Some(from_row(facts, row, condition))
}
