//! The order of the checks, and the report of the first that applies (cli.md §7.2).

use super::checks::{self, Finding};
use super::facts::Facts;
use super::report::{Root, Since, Subject, Verdict, WhyReport};
use crate::names::Kind;
use crate::owner;
use crate::plugin::report::{API_VERSION, At, Metadata, Warning};

/// A check: what it finds, if it applies.
type Check = fn(&Facts) -> Option<Finding>;

/// The checks in the order of diagnosis.md §1.2; the first that applies is the head of the chain.
const CHECKS: [Check; 15] = [
    checks::gates::managed_elsewhere,
    checks::manager::unreconciled,
    checks::gates::paused,
    checks::deletion::deleting,
    checks::job::running,
    checks::gates::restore,
    checks::state::unreadable,
    checks::gates::dependencies,
    checks::gates::credentials,
    checks::lease::waiting,
    checks::lease::starting,
    checks::outcome::failed,
    checks::gates::outputs,
    checks::gates::health,
    checks::gates::endpoint,
];

/// Explains the object.
pub(crate) fn diagnose(facts: &Facts, metadata: Metadata) -> WhyReport {
    let mut findings = CHECKS.iter().filter_map(|check| check(facts));
    let mut head = findings
        .next()
        .unwrap_or_else(|| checks::outcome::idle(facts));
    let later: Vec<Warning> = findings
        .filter(|finding| finding.code != head.code && is_trouble(finding.verdict))
        .map(|finding| Warning {
            code: "AlsoTrue",
            message: finding.summary,
        })
        .collect();
    if let Some(first) = head.chain.first_mut() {
        first.warnings.extend(checks::manager::warnings(facts));
        first.warnings.extend(checks::outcome::warnings(facts));
        first.warnings.extend(checks::job::warnings(facts));
        first.warnings.extend(checks::notes::warnings(facts));
        first.warnings.extend(later);
    }
    report(facts, head, metadata)
}

/// Whether a later finding is worth a line beside the head.
fn is_trouble(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::NeedsAction | Verdict::BackingOff | Verdict::DeletionHeld
    )
}

fn report(facts: &Facts, head: Finding, metadata: Metadata) -> WhyReport {
    let meta = &facts.object.metadata;
    let root = head.chain.len().saturating_sub(1);
    let root = head.root.unwrap_or(root);
    WhyReport {
        api_version: API_VERSION,
        kind: "WhyReport",
        metadata,
        object: Subject {
            kind: Kind::TerraformCluster.as_str(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            generation: meta.generation,
            observed_generation: facts.object.status.observed_generation,
            cluster_name: owner::cluster_name(&meta.object_meta()),
        },
        verdict: head.verdict,
        row: head.row,
        since: head
            .since
            .as_ref()
            .and_then(|(kind, reason)| since(facts, kind, reason)),
        root: Root {
            node: root,
            code: head
                .chain
                .get(root)
                .map_or_else(|| head.code.clone(), |node| node.code.clone()),
        },
        code: head.code,
        operation: head.operation,
        summary: head.summary,
        chain: head.chain,
        next: head.next,
        actions: head.actions,
        do_not: head.do_not,
    }
}

/// Since when a condition has this reason: several reasons share one transition time, so an event
/// with the reason is exact and the condition only a bound (cli.md §7.2).
fn since(facts: &Facts, kind: &str, reason: &str) -> Option<Since> {
    if let Some(at) = facts.event(reason).and_then(|event| event.at) {
        return Some(Since {
            time: At(at),
            source: "event",
            exact: true,
        });
    }
    let mut conditions = facts.object.status.conditions.iter();
    let condition = conditions.find(|condition| condition.kind == kind)?;
    let time = condition.last_transition_time?;
    Some(Since {
        time: At(time),
        source: "condition",
        exact: false,
    })
}
