//! An operation waits for a lease, or is about to take one (diagnosis.md, section D).

mod free;
mod held;
mod machines;
mod start;

use crate::api::conditions::ConditionType;
use crate::api::keys::annotations;
use crate::jobs::moved;
use crate::lease::WAIT_REQUEUE;
use crate::names::cluster_write_lease;
use crate::owner;
use crate::plugin::diagnose::checks::{
    Finding, fill, from_row, from_unknown_reason, operation, short,
};
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{Action, By, Evidence, LeaseLink, Next, Verdict};
use crate::plugin::diagnose::rows;
use crate::plugin::evaluate::{
    Evaluation, Fact, LeaseFacts, State, evaluate, job_report, waiting_operation,
};
use crate::plugin::read::wire::Condition;
use crate::plugin::report::{At, JobReport};
use free::{cleared, lost_race, past_backstop, takeover};
use held::{gap, held, starting_holder, unreadable};
use machines::{job_slot, machine_operations};

pub(crate) use held::stopping;
pub(crate) use start::starting;

/// The phrase of a lost race, which tools may match (leases.md §7).
const LOST_RACE: &str = "another manager took it first";

/// The condition on which an operation of the object waits.
fn wait(facts: &Facts) -> Option<&Condition> {
    [
        ConditionType::ApplyJobSucceeded,
        ConditionType::RestoreJobSucceeded,
        ConditionType::DriftJobSucceeded,
    ]
    .into_iter()
    .filter_map(|kind| facts.condition(kind))
    .find(|condition| condition.status == "Unknown" && condition.reason.starts_with("WaitingFor"))
}

/// A Job may still run where the object was moved from (README, decision 16; the row is ours).
fn moved_job(facts: &Facts, condition: &Condition) -> Finding {
    let object = &facts.object.metadata;
    let mark = object.annotation(annotations::BLOCK_MOVE);
    let Some(until) = moved::moved_job(mark, &object.uid, facts.now) else {
        return cleared(facts, None).said_by(condition, facts);
    };
    let finding = Finding::new(
        facts,
        Verdict::Waiting,
        "D154",
        "WaitingForMovedJob",
        "a Job may still run where it was moved from",
    )
    .said_by(condition, facts);
    let passes = Next::new(
        "Passes",
        By::Time,
        short(facts),
        "that Job cannot run any longer than this",
    );
    let remedy =
        "look at the Job where the object was moved from; once it has ended, take the mark off";
    let command = fill(
        facts,
        "kubectl annotate terraformcluster {name} -n {ns} clusterctl.cluster.x-k8s.io/block-move-",
    );
    finding
        .then(passes.at_the_latest(until))
        .action(Action::optional("TakeMarkOff", remedy).command(&command))
        .never("take the mark off while that Job runs")
}

/// Whether some operation of the object waits.
pub(crate) fn is_waiting(facts: &Facts) -> bool {
    wait(facts).is_some()
}

/// Waits for leases, slots and approvals; the live lease outranks the message, which may be up to
/// one pass old (cli.md §7.3).
pub(crate) fn waiting(facts: &Facts) -> Option<Finding> {
    if let Some(condition) = wait(facts) {
        return Some(match condition.reason.as_str() {
            "WaitingForRunLease" => run_lease(facts, condition),
            "WaitingForMachineOperations" => machine_operations(facts, condition),
            "WaitingForJobSlot" => job_slot(facts, condition),
            "WaitingForMovedJob" => moved_job(facts, condition),
            _ => from_unknown_reason(facts, condition),
        });
    }
    approval(facts)
}

/// The approval that an apply waits for.
fn approval(facts: &Facts) -> Option<Finding> {
    let condition = facts.condition(ConditionType::ApplyJobSucceeded)?;
    let waits = matches!(
        condition.reason.as_str(),
        "PlanAwaitingApproval" | "PlanChanged" | "DestructivePlanBlocked"
    );
    let row = rows::row(ConditionType::ApplyJobSucceeded, &condition.reason).filter(|_| waits)?;
    Some(from_row(facts, row, condition))
}

fn run_lease(facts: &Facts, condition: &Condition) -> Finding {
    let about_cluster =
        cluster_lease_name(facts).is_some_and(|name| condition.message.contains(&name));
    let lease = if about_cluster {
        &facts.cluster_lease
    } else {
        &facts.run_lease
    };
    let finding = match lease {
        Fact::Unreadable(error)
        | Fact::Found(LeaseFacts {
            job: Fact::Unreadable(error),
            ..
        }) => unreadable(facts, lease.found(), error),
        Fact::NotRead => unreadable(facts, None, "the lease was not read"),
        Fact::Absent if condition.message.contains(LOST_RACE) => lost_race(facts),
        Fact::Absent => cleared(facts, None),
        Fact::Found(lease) => {
            let evaluation = evaluate(lease, facts.now);
            match evaluation.state {
                State::Free if condition.message.contains(LOST_RACE) => lost_race(facts),
                State::Free => cleared(facts, Some((lease, &evaluation))),
                State::Held => held(facts, lease, &evaluation, about_cluster),
                State::Stopping => stopping(facts, lease, &evaluation),
                State::HashGap => gap(facts, lease, &evaluation),
                State::Starting | State::Reserved => starting_holder(facts, lease, &evaluation),
                State::HolderMissing | State::HolderFinished => takeover(facts, lease, &evaluation),
                State::PastBackstop => past_backstop(facts, lease, &evaluation),
                State::Unknown => unreadable(
                    facts,
                    Some(lease),
                    evaluation.error.as_deref().unwrap_or_default(),
                ),
            }
        }
    };
    let waits = waiting_operation(condition);
    let finding = finding.said_by(condition, facts).of_operation(waits);
    match lease.found() {
        Some(lease) => finding.not_started(waits, lease),
        None => finding,
    }
}

impl Finding {
    fn of_operation(mut self, operation: &str) -> Self {
        self.operation = Some(operation.to_owned());
        let operation = operation.to_owned();
        self.head(|first| first.operation = Some(operation))
    }

    /// Says in the first link that the operation has not started, and why. A link that says more
    /// than the headline keeps its words.
    fn not_started(self, operation: &str, lease: &LeaseFacts) -> Self {
        let summary = self.summary.clone();
        let (title, name) = (title(lease), &lease.view.holder);
        self.head(|first| {
            if first.message == summary
                && let Some(link) = &first.lease
            {
                let by = if name.is_empty() {
                    String::new()
                } else {
                    format!(", holder {name}")
                };
                first.message = format!("{operation} not started: {title} is {}{by}", link.state);
            }
        })
    }

    /// Puts a lease and its holder's Job into the first link.
    fn with_lease(self, facts: &LeaseFacts, evaluation: &Evaluation) -> Self {
        let (lease, job) = (LeaseLink::new(facts, evaluation), named_job(facts));
        let evidence = lease_evidence(facts, evaluation);
        self.head(|first| {
            first.lease = Some(lease);
            first.job = job;
            first.evidence.extend(evidence);
        })
    }
}

fn named_job(facts: &LeaseFacts) -> Option<Option<JobReport>> {
    (!facts.view.holder.is_empty()).then(|| {
        job_report(&facts.job).map(|report| JobReport {
            name: Some(facts.view.holder.clone()),
            ..report
        })
    })
}

fn lease_evidence(facts: &LeaseFacts, evaluation: &Evaluation) -> Vec<Evidence> {
    let mut evidence = vec![Evidence {
        kind: "Lease",
        reference: facts.view.name.clone(),
        field: "spec.holderIdentity".into(),
        value: facts.view.holder.clone(),
        observed_at: At(facts.view.acquired_at),
    }];
    let value = match &facts.job {
        Fact::Absent => "NotFound",
        Fact::Found(job) => job.state.as_str(),
        Fact::NotRead | Fact::Unreadable(_) => return evidence,
    };
    evidence.push(Evidence {
        kind: "Job",
        reference: facts.view.holder.clone(),
        field: String::new(),
        value: value.into(),
        observed_at: At(facts
            .job
            .found()
            .and_then(|job| job.finished)
            .unwrap_or(facts.view.acquired_at)),
    });
    evidence.extend(evaluation.pods.iter().map(|pod| Evidence {
        kind: "Pod",
        reference: pod.clone(),
        field: "status.phase".into(),
        value: "neither Succeeded nor Failed".into(),
        observed_at: At(facts.view.acquired_at),
    }));
    evidence
}

fn cluster_lease_name(facts: &Facts) -> Option<String> {
    let meta = &facts.object.metadata;
    cluster_write_lease(&meta.namespace, &owner::cluster_name(&meta.object_meta()))
}

fn lease_ref(lease: &LeaseFacts) -> String {
    format!("lease/{}", lease.view.name)
}

/// How a headline names the lease.
fn title(lease: &LeaseFacts) -> &'static str {
    if lease.view.lease == "cluster" {
        "the cluster write lease"
    } else {
        "its run lease"
    }
}

fn starts(facts: &Facts) -> Next {
    let message = format!(
        "then within {}s the manager starts the {} of {}",
        WAIT_REQUEUE.as_secs(),
        operation(facts),
        short(facts)
    );
    Next::new("OperationStarts", By::Manager, short(facts), message)
}
