//! An operation waits for a lease, or is about to take one (diagnosis.md, section D).

use super::{Finding, from_row, job, link, operation, recheck, short};
use crate::api::conditions::ConditionType;
use crate::lease::{GRACE, WAIT_REQUEUE};
use crate::names::{ParsedJobName, cluster_write_lease};
use crate::owner;
use crate::plugin::diagnose::facts::{Facts, PodView};
use crate::plugin::diagnose::report::{Action, By, Evidence, Gap, LeaseLink, Next, Node, Verdict};
use crate::plugin::diagnose::rows;
use crate::plugin::evaluate::{
    Evaluation, Fact, HolderFacts, JobState, LeaseFacts, State, evaluate, holder_parts, job_report,
    waiting_operation,
};
use crate::plugin::read::wire::Condition;
use crate::plugin::report::{At, JobReport};
use crate::plugin::time;

/// The phrase of a lost race, which tools may match (leases.md §7).
const LOST_RACE: &str = "another manager took it first";
/// A deferred start is tried again after this long.
const DEFER_SECONDS: i64 = 5;

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

/// Whether some operation of the object waits.
pub(super) fn is_waiting(facts: &Facts) -> bool {
    wait(facts).is_some()
}

/// Waits for leases, slots and approvals; the live lease outranks the message, which may be up to
/// one pass old (cli.md §7.3).
pub(in super::super) fn waiting(facts: &Facts) -> Option<Finding> {
    if let Some(condition) = wait(facts) {
        return Some(match condition.reason.as_str() {
            "WaitingForRunLease" => run_lease(facts, condition),
            "WaitingForMachineOperations" => machine_operations(facts, condition),
            "WaitingForJobSlot" => job_slot(facts, condition),
            _ => super::from_unknown_reason(facts, condition),
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

const KEEP_LEASE: &str = "delete or edit the lease: two Jobs could then run on one state";

/// D37, D42, D44: the holder's Job has not finished.
fn held(
    facts: &Facts,
    lease: &LeaseFacts,
    evaluation: &Evaluation,
    about_cluster: bool,
) -> Finding {
    let holder = &lease.view.holder;
    let ending = lease
        .job
        .found()
        .is_some_and(|job| job.state == JobState::Ending);
    let (row, summary) = match (ending, about_cluster) {
        (true, _) => (
            "D42",
            format!(
                "{} is held by {holder}, which was stopped and is still ending",
                title(lease)
            ),
        ),
        (false, true) => (
            "D44",
            format!("another operation holds the cluster write lease: {holder}"),
        ),
        (false, false) => ("D37", format!("it waits for its own Job {holder}")),
    };
    let finding = Finding::new(facts, Verdict::Waiting, row, "JobRunning", summary)
        .with_lease(lease, evaluation);
    let finding = match lease.job.found() {
        Some(found) => {
            let finding = finding.head(|first| first.job = None);
            let finding = finding.because(holder_link(facts, row, lease, found));
            if about_cluster {
                finding
            } else {
                job::bounds(facts, finding, holder, found)
            }
        }
        None => finding,
    };
    let namespace = &facts.object.metadata.namespace;
    frees_at_backstop(finding, lease, evaluation)
        .then(starts(facts))
        .action(
            Action::optional("WatchLogs", "if that Job looks stuck").command(&format!(
                "kubectl logs job/{holder} -n {namespace} -c source -f"
            )),
        )
        .never(KEEP_LEASE)
}

/// Adds the backstop, unless a bound of the Job has said it.
fn frees_at_backstop(finding: Finding, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    if finding.next.iter().any(|next| next.code == "LeaseFrees") {
        return finding;
    }
    finding.then(
        Next::new(
            "LeaseFrees",
            By::Time,
            lease_ref(lease),
            format!("{} is free (backstop)", title(lease)),
        )
        .at_the_latest(evaluation.backstop_at),
    )
}

fn holder_link(facts: &Facts, row: &'static str, lease: &LeaseFacts, found: &HolderFacts) -> Node {
    let operation =
        ParsedJobName::parse(&lease.view.holder).map(|parts| parts.op.as_str().to_owned());
    let running = if found.state == JobState::Ending {
        "is ending"
    } else {
        "runs"
    };
    let message = match &operation {
        Some(operation) => format!("{operation} {running}"),
        None => running.to_owned(),
    };
    let mut node = link(facts, None, Some(row), "JobRunning", &message);
    node.object.kind = "Job".to_owned();
    node.object.name.clone_from(&lease.view.holder);
    node.operation = operation;
    node.job = named_job(lease);
    node
}

/// D38, D142: the Job is finished or gone, and a pod of it has not ended.
pub(super) fn stopping(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let holder = lease.view.holder.as_str();
    let pods: Vec<&PodView> = facts
        .pods_of(holder)
        .filter(|pod| !pod.facts.phase.is_terminal())
        .collect();
    // While a Job runs nobody refreshes its lease; one refreshed after the pod was made is being
    // waited for under the same Job name.
    let refreshed = lease.job == Fact::Absent
        && pods
            .iter()
            .any(|pod| lease.view.acquired_at > pod.facts.created);
    let (row, code, summary) = if refreshed {
        (
            "D142",
            "OldPods",
            "a pod of an earlier Job of this name still runs",
        )
    } else if lease.job == Fact::Absent {
        (
            "D38",
            "JobStopping",
            "a pod of its deleted Job is still stopping",
        )
    } else {
        (
            "D38",
            "JobStopping",
            "a pod of its finished Job is still stopping",
        )
    };
    let mut finding =
        Finding::new(facts, Verdict::Waiting, row, code, summary).with_lease(lease, evaluation);
    for pod in &pods {
        finding = finding.because_of_first(job::pod_link(facts, row, code, pod, &stop_text(pod)));
    }
    let backstop = i64::try_from(lease.view.backstop.as_secs()).unwrap_or(i64::MAX);
    for pod in &pods {
        let reference = format!("pod/{}", pod.facts.name);
        finding = match pod.stops {
            Some(stops) => finding.then(
                Next::new(
                    "PodStops",
                    By::Kubernetes,
                    reference,
                    "it has ended (600s grace, node alive)",
                )
                .expected_at(stops),
            ),
            None => finding
                .then(Next::new(
                    "Needs",
                    By::Kubernetes,
                    reference,
                    "its Terraform run ends by itself: nobody asked it to stop",
                ))
                .action(
                    Action::optional("StopPod", "end it cleanly, if it must not go on").command(
                        &format!(
                            "kubectl delete pod {} -n {}",
                            pod.facts.name, facts.object.metadata.namespace
                        ),
                    ),
                ),
        };
    }
    let newest = pods.iter().map(|pod| pod.facts.created).max();
    let bound = match newest {
        Some(created) if refreshed => time::plus(created, backstop),
        _ => evaluation.backstop_at,
    };
    finding
        .then(
            Next::new(
                "LeaseFrees",
                By::Time,
                lease_ref(lease),
                "it no longer counts (backstop)",
            )
            .at_the_latest(bound),
        )
        .then(starts(facts))
        .never("force-delete the pod (--grace-period=0): its process may still write the state")
}

fn stop_text(pod: &PodView) -> String {
    let node = if pod.node.is_empty() {
        String::new()
    } else {
        format!(" on {}", pod.node)
    };
    if pod.stops.is_some() {
        format!("terminating{node}")
    } else {
        format!("running{node}, not asked to stop")
    }
}

/// D41: the object's own leases are held under an older Job name.
fn gap(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let free_at = time::plus(lease.view.acquired_at, grace_seconds());
    let others: Vec<(&LeaseFacts, Evaluation)> = [&facts.run_lease, &facts.cluster_lease]
        .into_iter()
        .filter_map(|other| facts.judged(other))
        .filter(|(other, evaluation)| {
            other.view.name != lease.view.name
                && other.view.holder == lease.view.holder
                && evaluation.free == Some(false)
        })
        .collect();
    let latest = others
        .iter()
        .map(|(other, _)| time::plus(other.view.acquired_at, grace_seconds()))
        .fold(free_at, jiff::Timestamp::max);
    let parts = holder_parts(lease);
    let takeover = time::plus(latest, requeue_seconds());
    let detail = Gap {
        cause: gap_cause(facts, lease),
        old_hash6: parts.map(|parts| parts.hash6).unwrap_or_default(),
        remaining_seconds: time::left_seconds(facts.now, latest).max(0),
        free_at: At(latest),
        takeover_latest: At(takeover),
        also_held: others
            .iter()
            .map(|(other, _)| other.view.name.clone())
            .collect(),
    };
    let both = !detail.also_held.is_empty();
    let (summary, frees) = if both {
        (
            "its own leases are held under an older Job name (hash-change gap)",
            "both leases become free: holder missing for more than 60s",
        )
    } else {
        (
            "its own lease is held under an older Job name (hash-change gap)",
            "the lease becomes free: holder missing for more than 60s",
        )
    };
    Finding::new(facts, Verdict::Waiting, "D41", "HashGap", summary)
        .with_lease(lease, evaluation)
        .head(|first| {
            first.message = format!(
                "Job {} does not exist and never will: the name changed while the object waited",
                lease.view.holder
            );
            first.gap = Some(detail);
        })
        .then(Next::new("LeaseFrees", By::Time, lease_ref(lease), frees).at(latest))
        .then(Next {
            earliest: Some(At(latest)),
            ..Next::new(
                "OperationStarts",
                By::Manager,
                short(facts),
                "the manager takes over under the new name, or after at most one machine operation that slips in",
            )
            .by_time(takeover)
        })
        .never(KEEP_LEASE)
}

/// What changed, as far as the names tell.
fn gap_cause(facts: &Facts, lease: &LeaseFacts) -> &'static str {
    let Some(parts) = ParsedJobName::parse(&lease.view.holder) else {
        return "InputsChanged";
    };
    let wanted = operation(facts);
    if parts.op.as_str() != wanted {
        return "OperationChanged";
    }
    let next = facts.with_history(|history| history.next_attempt(parts.op));
    if parts.attempt == next {
        "InputsChanged"
    } else {
        "HistoryChanged"
    }
}

fn grace_seconds() -> i64 {
    i64::try_from(GRACE.as_secs()).unwrap_or(i64::MAX)
}

fn requeue_seconds() -> i64 {
    i64::try_from(WAIT_REQUEUE.as_secs()).unwrap_or(i64::MAX)
}

/// D39: the holder's Job is not there yet, within the grace.
fn starting_holder(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let summary = format!("Job {} is about to be created", lease.view.holder);
    let latest = evaluation
        .frees
        .latest
        .map_or(evaluation.backstop_at, |latest| latest.0);
    Finding::new(facts, Verdict::Waiting, "D39", "Starting", summary)
        .with_lease(lease, evaluation)
        .then(
            Next::new(
                "LeaseFrees",
                By::Time,
                lease_ref(lease),
                "the Job exists, or the lease is free and the next pass (within 30s) takes it over",
            )
            .at_the_latest(latest),
        )
        .never(KEEP_LEASE)
}

/// D40: the lease is free by the rule; the next pass takes it over.
fn takeover(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let missing = evaluation.state == State::HolderMissing;
    let (code, summary) = if missing {
        (
            "HolderMissing",
            format!("{} is free: the holder never started", title(lease)),
        )
    } else {
        (
            "HolderFinished",
            format!("{} is free: the holder has finished", title(lease)),
        )
    };
    Finding::new(facts, Verdict::Waiting, "D40", code, summary)
        .with_lease(lease, evaluation)
        .then(Next::new(
            "OperationStarts",
            By::Manager,
            short(facts),
            "within 30s the next pass takes the lease over; if it does not, the manager is not reconciling",
        ))
}

/// D43: free by its backstop, whatever its holder does.
fn past_backstop(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let alive = evaluation
        .warnings
        .iter()
        .any(|warning| warning.code == "HolderAlive");
    let summary = if alive {
        format!(
            "{} is free by its backstop, but its holder is still there",
            title(lease)
        )
    } else {
        format!("{} is free by its backstop", title(lease))
    };
    let mut finding = Finding::new(facts, Verdict::Waiting, "D43", "PastBackstop", summary)
        .with_lease(lease, evaluation);
    let pods: Vec<&PodView> = facts
        .pods_of(&lease.view.holder)
        .filter(|pod| !pod.facts.phase.is_terminal())
        .collect();
    for pod in &pods {
        finding = finding.because_of_first(job::pod_link(
            facts,
            "D43",
            "PastBackstop",
            pod,
            &stop_text(pod),
        ));
    }
    finding = finding
        .head(|first| {
            first.warnings.extend(
                evaluation
                    .warnings
                    .iter()
                    .filter(|warning| warning.code == "HolderAlive")
                    .cloned(),
            );
        })
        .then(Next::new(
            "OperationStarts",
            By::Manager,
            short(facts),
            "within 30s the manager takes the lease over, whatever its holder does",
        ));
    match pods.first() {
        Some(pod) => finding.action(
            Action::optional("Inspect", "look at the old pod and its node first").command(
                &format!(
                    "kubectl get pod {} -n {} -o wide",
                    pod.facts.name, facts.object.metadata.namespace
                ),
            ),
        ),
        None => finding,
    }
}

/// The wait is from the last pass: nothing blocks any more.
fn cleared(facts: &Facts, lease: Option<(&LeaseFacts, &Evaluation)>) -> Finding {
    let finding = Finding::new(
        facts,
        Verdict::Waiting,
        "D40",
        "Cleared",
        "nothing blocks it any more; the condition is from the last pass",
    );
    let finding = match lease {
        Some((lease, evaluation)) => finding.with_lease(lease, evaluation),
        None => finding,
    };
    finding.then(Next::new(
        "OperationStarts",
        By::Manager,
        short(facts),
        format!("within 30s the next pass starts the {}", operation(facts)),
    ))
}

/// D45: somebody else was first.
fn lost_race(facts: &Facts) -> Finding {
    Finding::new(
        facts,
        Verdict::Waiting,
        "D45",
        "LostRace",
        "another manager instance took the lease first",
    )
    .then(Next::new(
        "Recheck",
        By::Manager,
        short(facts),
        "within 30s it tries again",
    ))
}

/// The lease or its evidence cannot be read.
fn unreadable(facts: &Facts, lease: Option<&LeaseFacts>, error: &str) -> Finding {
    let summary = match lease {
        Some(lease) => format!(
            "{} is held by {}; whether that runs cannot be read",
            title(lease),
            lease.view.holder
        ),
        None => "the lease that it waits for cannot be read".to_owned(),
    };
    let mut finding = Finding::new(facts, Verdict::Unknown, "D37", "Unreadable", summary);
    finding.row = None;
    let message = error.to_owned();
    finding = finding.head(|first| {
        first.row = None;
        if !message.is_empty() {
            first.message = message;
        }
    });
    match lease {
        Some(lease) => {
            let evaluation = evaluate(lease, facts.now);
            let finding = finding.with_lease(lease, &evaluation);
            frees_at_backstop(finding, lease, &evaluation)
        }
        None => finding.then(recheck(short(facts), 30)),
    }
}

/// D48, D49: machines and pools change something; the cluster keeps its leases and goes next.
fn machine_operations(facts: &Facts, condition: &Condition) -> Finding {
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

fn machine_link(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Node {
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
fn job_slot(facts: &Facts, condition: &Condition) -> Finding {
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

/// An operation is due and no wait is reported: the lease tells how far the start is (D39, D40,
/// D139).
pub(in super::super) fn starting(facts: &Facts) -> Option<Finding> {
    if is_waiting(facts) || super::outcome::in_backoff(facts) {
        return None;
    }
    match facts.judged(&facts.run_lease) {
        Some((lease, evaluation)) => match evaluation.state {
            State::Starting | State::Reserved | State::HashGap => {
                Some(starting_holder(facts, lease, &evaluation))
            }
            State::HolderMissing => Some(takeover(facts, lease, &evaluation)),
            State::HolderFinished if uncounted(facts, lease) => {
                Some(counting(facts, lease, &evaluation))
            }
            State::PastBackstop => Some(past_backstop(facts, lease, &evaluation)),
            State::Held => foreign_holder(facts, lease, &evaluation),
            State::Unknown => Some(unreadable(
                facts,
                Some(lease),
                evaluation.error.as_deref().unwrap_or_default(),
            )),
            State::Free | State::HolderFinished | State::Stopping => due(facts),
        },
        None => due(facts),
    }
}

/// The finished holder's result is not in the status yet.
fn uncounted(facts: &Facts, lease: &LeaseFacts) -> bool {
    facts.with_history(|history| {
        history
            .job(&lease.view.holder)
            .is_some_and(|job| !job.is_bookkept())
    })
}

fn counting(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let summary = format!(
        "its Job {} has finished and is being counted",
        lease.view.holder
    );
    Finding::new(facts, Verdict::Waiting, "D40", "HolderFinished", summary)
        .with_lease(lease, evaluation)
        .then(Next::new(
            "Recheck",
            By::Manager,
            short(facts),
            "the next pass records its result and gives the lease back",
        ))
}

/// The lease is held by a Job that is not among the object's own: another manager's view.
fn foreign_holder(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Option<Finding> {
    let own = facts.job(&lease.view.holder).is_some();
    (!own).then(|| held(facts, lease, evaluation, false))
}

/// The inputs are not applied, nothing waits and nothing runs.
fn due(facts: &Facts) -> Option<Finding> {
    let pending = match facts.condition(ConditionType::InputsApplied) {
        Some(condition) => condition.reason == "ApplyPending",
        None => facts
            .condition(ConditionType::ApplyJobSucceeded)
            .is_some_and(|condition| condition.reason == "NoApplyYet"),
    };
    if !pending {
        return None;
    }
    let summary = format!("the {} is due and is being started", operation(facts));
    Some(
        Finding::new(facts, Verdict::Waiting, "D139", "StartDeferred", summary)
            .then(recheck(short(facts), DEFER_SECONDS))
            .never("delete the lease or a Job"),
    )
}
