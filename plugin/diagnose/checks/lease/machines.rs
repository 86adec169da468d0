//! A cluster waits for its machines and pools, or for a free Job slot (D48 to D52).

use super::free::cleared;
use super::{named_job, starts};
use crate::plugin::diagnose::checks::{Finding, link, short};
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{By, LeaseLink, Next, Node, Verdict};
use crate::plugin::evaluate::{Evaluation, LeaseFacts, State, evaluate};
use crate::plugin::read::wire::Condition;

/// D48, D49: machines and pools change something; the cluster keeps its leases and goes next.
pub(crate) fn machine_operations(facts: &Facts, condition: &Condition) -> Finding {
    let held: Vec<(&LeaseFacts, Evaluation)> = facts
        .machine_leases
        .found()
        .into_iter()
        .flatten()
        .map(|lease| (lease, evaluate(lease, facts.now)))
        .filter(|(_, evaluation)| evaluation.free != Some(true))
        .collect();
    if held.is_empty() && facts.machine_leases.found().is_some() {
        return cleared(facts, None).said_by(condition, facts);
    }
    let summary = match held.len() {
        0 => "it waits for operations of its machines and pools".to_owned(),
        1 => "it waits for 1 machine or pool operation".to_owned(),
        count => format!("it waits for {count} machine and pool operations"),
    };
    let mut finding = Finding::new(
        facts,
        Verdict::Waiting,
        "D48",
        "WaitingForMachineOperations",
        summary,
    )
    .said_by(condition, facts);
    if let Some((lease, evaluation)) = facts.judged(&facts.run_lease) {
        finding = finding.with_lease(lease, &evaluation);
    }
    let meta = &facts.object.metadata;
    if facts
        .object
        .status
        .observed_generation
        .is_some_and(|seen| meta.generation > seen)
    {
        finding = finding.head(|first| {
            first.warnings.push(crate::plugin::report::Warning::new(
                "ConditionStale",
                "the spec changed while it waits: expect the hash-change gap at the next pass",
            ));
        });
    }
    for (lease, evaluation) in &held {
        finding = finding.because_of_first(machine_link(facts, lease, evaluation));
    }
    let last = held
        .iter()
        .map(|(_, evaluation)| evaluation.backstop_at)
        .max();
    if let Some(last) = last {
        finding = finding.then(
            Next::new(
                "LeaseFrees",
                By::Time,
                "leases of its machines and pools",
                "the last of their leases is free (backstop)",
            )
            .at_the_latest(last),
        );
    }
    finding
        .then(starts(facts))
        .never("stop machine Jobs, or delete the cluster write lease")
}

pub(crate) fn machine_link(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Node {
    let running = evaluation.state == State::Held;
    let (row, code) = if running {
        ("D48", "JobRunning")
    } else {
        ("D49", evaluation.state.as_str())
    };
    let what = match evaluation.state {
        State::Held => "runs",
        State::Starting => "is about to start",
        State::Stopping => "has ended, a pod of it has not",
        _ => "may run: its evidence cannot be read",
    };
    let mut node = link(
        facts,
        None,
        Some(row),
        code,
        &format!("{} {what}", lease.view.op),
    );
    node.object.kind.clone_from(&lease.view.owner_kind);
    node.object.name.clone_from(&lease.view.owner_name);
    node.operation = Some(lease.view.op.clone());
    node.lease = Some(LeaseLink::new(lease, evaluation));
    node.job = named_job(lease);
    node
}

/// D51, D52: no free slot.
pub(crate) fn job_slot(facts: &Facts, condition: &Condition) -> Finding {
    let everywhere = condition.message.contains("in all");
    let row = if everywhere { "D51" } else { "D52" };
    Finding::new(
        facts,
        Verdict::Waiting,
        row,
        "WaitingForJobSlot",
        "it waits for a free Job slot",
    )
    .said_by(condition, facts)
    .head(|first| first.message.clone_from(&condition.message))
    .then(Next::new(
        "Recheck",
        By::Manager,
        short(facts),
        "the manager checks again within 17s",
    ))
    .never("delete running Jobs")
}
