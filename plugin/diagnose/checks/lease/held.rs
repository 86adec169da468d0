//! The lease is held: by a Job, by pods of one, by one to come, or by a name that never will (D37 to D44, D142).

use super::{lease_ref, named_job, starts, title};
use crate::lease::{GRACE, WAIT_REQUEUE};
use crate::names::ParsedJobName;
use crate::plugin::diagnose::checks::{Finding, job, link, operation, recheck, short};
use crate::plugin::diagnose::facts::{Facts, PodView};
use crate::plugin::diagnose::report::{Action, By, Gap, Next, Node, Verdict};
use crate::plugin::evaluate::{
    Evaluation, Fact, HolderFacts, JobState, LeaseFacts, evaluate, holder_parts, old_pods_bound,
};
use crate::plugin::report::At;
use crate::plugin::time;

pub(crate) const KEEP_LEASE: &str =
    "delete or edit the lease: two Jobs could then run on one state";

/// D37, D42, D44: the holder's Job has not finished.
pub(crate) fn held(
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
pub(crate) fn frees_at_backstop(
    finding: Finding,
    lease: &LeaseFacts,
    evaluation: &Evaluation,
) -> Finding {
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

pub(crate) fn holder_link(
    facts: &Facts,
    row: &'static str,
    lease: &LeaseFacts,
    found: &HolderFacts,
) -> Node {
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
pub(crate) fn stopping(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let holder = lease.view.holder.as_str();
    let pods: Vec<&PodView> = facts
        .pods_of(holder)
        .filter(|pod| !pod.facts.phase.is_terminal())
        .collect();
    let old_pods = old_pods_bound(lease);
    let (row, code, summary) = if old_pods.is_some() {
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
    let bound = old_pods.unwrap_or(evaluation.backstop_at);
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

pub(crate) fn stop_text(pod: &PodView) -> String {
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
pub(crate) fn gap(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
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
pub(crate) fn gap_cause(facts: &Facts, lease: &LeaseFacts) -> &'static str {
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

pub(crate) fn grace_seconds() -> i64 {
    i64::try_from(GRACE.as_secs()).unwrap_or(i64::MAX)
}

pub(crate) fn requeue_seconds() -> i64 {
    i64::try_from(WAIT_REQUEUE.as_secs()).unwrap_or(i64::MAX)
}

/// D39: the holder's Job is not there yet, within the grace.
pub(crate) fn starting_holder(
    facts: &Facts,
    lease: &LeaseFacts,
    evaluation: &Evaluation,
) -> Finding {
    let holder = &lease.view.holder;
    let summary = if lease.fenced {
        format!("Job {holder} was deleted, and is about to be created again")
    } else {
        format!("Job {holder} is about to be created")
    };
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

/// The lease or its evidence cannot be read.
pub(crate) fn unreadable(facts: &Facts, lease: Option<&LeaseFacts>, error: &str) -> Finding {
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
