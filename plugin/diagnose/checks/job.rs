//! A Job is the work: what it does, and why its pod does not start or end (diagnosis.md, section E).

use jiff::Timestamp;

use super::{Finding, link, short};
use crate::jobs::facts::JobFacts;
use crate::jobs::pod::{ContainerFacts, PodPhase};
use crate::jobs::pull::is_pull_failure;
use crate::jobs::stuck;
use crate::names::Op;
use crate::plugin::diagnose::facts::{Facts, PodView};
use crate::plugin::diagnose::report::{
    Action, By, Evidence, LeaseLink, Next, Node, PodLink, Verdict,
};
use crate::plugin::evaluate::{Fact, HolderFacts, JobState, POD_STOP_SECONDS, State};
use crate::plugin::report::{At, Warning};
use crate::plugin::time;

/// From this age on a Job whose per-run Secret is missing is deleted (jobs.md §10).
const STUCK_SECONDS: i64 = 60;
/// From this age on a container that cannot be created makes its Job be deleted (jobs.md §10).
const CONFIG_SECONDS: i64 = 120;

/// The object's Job runs, or a pod of its Job still stops.
pub(crate) fn running(facts: &Facts) -> Option<Finding> {
    active(facts).or_else(|| stopping(facts))
}

/// What is odd about the Job that runs: it runs on while the object is paused, or no run lease names it.
pub(crate) fn warnings(facts: &Facts) -> Vec<Warning> {
    let Some(job) = facts.with_history(|history| history.active().cloned()) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    if super::gates::paused(facts).is_some() {
        let runs_on = format!(
            "its Job {} runs on: a pause stops nothing that runs",
            job.name
        );
        warnings.push(Warning::new("JobRunning", runs_on));
    }
    let lease = match &facts.run_lease {
        Fact::Absent => Some("is missing".to_owned()),
        Fact::Found(lease) if lease.view.holder != job.name => {
            Some(format!("names another holder, {:?}", lease.view.holder))
        }
        _ => None,
    };
    if let Some(lease) = lease {
        let unguarded = format!(
            "Job {} runs, but its run lease {lease}: only the state lock keeps a second run away",
            job.name
        );
        warnings.push(Warning::new("JobEvidence", unguarded));
    }
    warnings
}

fn active(facts: &Facts) -> Option<Finding> {
    let job = facts.with_history(|history| history.active().cloned())?;
    let recorded = facts
        .object
        .status
        .active_job
        .as_ref()
        .is_some_and(|active| active.name == job.name);
    // A Job that the waiting manager does not know as its own is what it waits for.
    if super::lease::is_waiting(facts) && !recorded {
        return None;
    }
    let item = facts.job(&job.name)?;
    let holder = HolderFacts::from(item);
    let pod = newest(facts, &job);
    let stage = Stage::of(facts, &job, &holder, pod);
    let operation = job.op.map_or("", Op::as_str);
    let attempt = job
        .attempt
        .map(|attempt| format!(" attempt {attempt}"))
        .unwrap_or_default();
    let deleting =
        facts.object.metadata.deletion_timestamp.is_some() && job.op != Some(Op::Destroy);
    let row = if deleting && stage.row == "D54" {
        "D111"
    } else {
        stage.row
    };

    let mut finding = Finding::new(
        facts,
        stage.verdict,
        row,
        stage.code,
        format!("{operation}{attempt} {}", stage.summary),
    )
    .head(|first| {
        first.operation = Some(operation.to_owned());
        first.job = Some(Some(crate::plugin::report::JobReport {
            name: Some(job.name.clone()),
            ..holder.report()
        }));
        first.evidence.push(job_evidence(&job, facts.now));
        first.lease = facts
            .judged(&facts.run_lease)
            .map(|(lease, evaluation)| LeaseLink::new(lease, &evaluation));
    });
    finding.operation = Some(operation.to_owned());
    if let Some(pod) = pod {
        finding = finding.because(pod_link(facts, row, stage.code, pod, &stage.pod_message));
    }
    finding = stage
        .next
        .into_iter()
        .fold(bounds(facts, finding, &job.name, &holder), Finding::then);
    let logs = format!(
        "kubectl logs job/{} -n {} -c source -f",
        job.name, facts.object.metadata.namespace
    );
    finding = match pod {
        Some(pod) if pod.facts.source.has_started() => {
            finding.action(Action::optional("WatchLogs", "if it looks stuck").command(&logs))
        }
        Some(pod) => finding.action(Action::optional("Inspect", "look at its pod").command(
            &format!(
                "kubectl describe pod {} -n {}",
                pod.facts.name, facts.object.metadata.namespace
            ),
        )),
        None => finding.action(
            Action::optional("Inspect", "look at the Job's events").command(&format!(
                "kubectl describe job {} -n {}",
                job.name, facts.object.metadata.namespace
            )),
        ),
    };
    finding = stage.actions.into_iter().fold(finding, Finding::action);
    Some(finding.never(stage.never))
}

/// When the Job is stopped, when its pod is expected to end, and when its lease is free at the latest.
pub(crate) fn bounds(facts: &Facts, finding: Finding, job: &str, holder: &HolderFacts) -> Finding {
    let mut finding = finding;
    if let Some(deadline) = holder.deadline().filter(|deadline| *deadline > facts.now) {
        finding = finding
            .then(
                Next::new(
                    "JobStops",
                    By::Kubernetes,
                    format!("job/{job}"),
                    format!("job {job} is stopped at its deadline"),
                )
                .at(deadline),
            )
            .then(
                Next::new(
                    "PodStops",
                    By::Kubernetes,
                    format!("job/{job}"),
                    "its pod has ended (pod stop, node alive)",
                )
                .expected_at(time::plus(deadline, POD_STOP_SECONDS)),
            );
    }
    match facts.judged(&facts.run_lease) {
        Some((lease, evaluation))
            if lease.view.holder == job && evaluation.state == State::Held =>
        {
            finding.then(
                Next::new(
                    "LeaseFrees",
                    By::Time,
                    format!("lease/{}", lease.view.name),
                    "its lease is free (backstop)",
                )
                .at_the_latest(evaluation.backstop_at),
            )
        }
        _ => finding,
    }
}

fn newest<'a>(facts: &'a Facts, job: &JobFacts) -> Option<&'a PodView> {
    let made = facts
        .pods
        .found()?
        .iter()
        .filter(|pod| pod.facts.is_of(&job.uid));
    made.max_by_key(|pod| (pod.facts.created, pod.facts.name.as_str()))
}

fn job_evidence(job: &JobFacts, now: Timestamp) -> Evidence {
    Evidence {
        kind: "Job",
        reference: job.name.clone(),
        field: "status".into(),
        value: "Unfinished".into(),
        observed_at: At(now),
    }
}

/// How far the Job's pod is.
struct Stage {
    verdict: Verdict,
    row: &'static str,
    code: &'static str,
    summary: String,
    pod_message: String,
    next: Vec<Next>,
    actions: Vec<Action>,
    never: &'static str,
}

impl Stage {
    fn new(
        row: &'static str,
        code: &'static str,
        summary: impl Into<String>,
        pod_message: impl Into<String>,
    ) -> Self {
        Self {
            verdict: Verdict::Running,
            row,
            code,
            summary: summary.into(),
            pod_message: pod_message.into(),
            next: Vec::new(),
            actions: Vec::new(),
            never: "delete the running Job: part of its change may be applied already",
        }
    }

    fn of(facts: &Facts, job: &JobFacts, holder: &HolderFacts, pod: Option<&PodView>) -> Self {
        let Some(pod) = pod else {
            return Self::without_pod(facts, job);
        };
        if lost(facts, pod) {
            return Self::lost(facts, pod);
        }
        match pod.facts.phase {
            PodPhase::Pending => Self::pending(facts, job, pod),
            _ if holder.state == JobState::Ending || pod.stops.is_some() => {
                Self::ending(holder, pod)
            }
            PodPhase::Running => Self::new("D54", "JobRunning", "runs", step(facts, pod)),
            PodPhase::Succeeded | PodPhase::Failed => Self::new(
                "D54",
                "JobRunning",
                "is about to finish: its pod has ended",
                "has ended",
            ),
            PodPhase::Unknown => Self::new(
                "D54",
                "JobRunning",
                "runs, but its node does not answer",
                "is on a node that does not answer",
            ),
        }
    }

    fn without_pod(facts: &Facts, job: &JobFacts) -> Self {
        let age = time::age_seconds(facts.now, job.created);
        if age < STUCK_SECONDS {
            return Self::new(
                "D54",
                "PodPending",
                "has just started: its Job has no pod yet",
                "",
            );
        }
        let mut stage = Self::new(
            "D62",
            "PodPending",
            "does not get a pod: its Job's events say why",
            "",
        );
        stage.actions.push(Action::optional(
            "Policy",
            "usual causes: quota, LimitRange, Pod Security, a missing ServiceAccount",
        ));
        stage
    }

    fn pending(facts: &Facts, job: &JobFacts, pod: &PodView) -> Self {
        let age = time::age_seconds(facts.now, job.created);
        if let Some(message) = &pod.unschedulable {
            let mut stage = Self::new(
                "D55",
                "PodUnschedulable",
                "waits for a node",
                format!("cannot be scheduled: {message}"),
            );
            stage.actions.push(Action::optional(
                "Capacity",
                "usual causes: capacity, taints, spec.jobs.resources",
            ));
            return stage;
        }
        for (container, row) in [(&pod.facts.source, None), (&pod.facts.runner, Some("D57"))] {
            if let Some((reason, message)) = container
                .waiting()
                .filter(|(reason, _)| is_pull_failure(reason))
            {
                return Self::pull(job, row, reason, message, &pod.facts.image);
            }
        }
        if let Some(why) = stuck::config_failure(job, std::slice::from_ref(&pod.facts), facts.now) {
            return Self::config(job, &why);
        }
        if pod.facts.never_started() && lacks_secret(facts, &job.name) {
            return Self::unarmed(job, age);
        }
        let doing = if pod.node.is_empty() {
            "is not on a node yet".to_owned()
        } else {
            waiting_text(&pod.facts.runner, &pod.facts.source)
        };
        Self::new(
            "D54",
            "PodPending",
            "starts: its pod is being prepared",
            doing,
        )
    }

    fn pull(
        job: &JobFacts,
        row: Option<&'static str>,
        reason: &str,
        message: &str,
        image: &str,
    ) -> Self {
        let fixed = matches!(job.op, Some(Op::Apply | Op::Plan));
        let row = row.unwrap_or(if fixed { "D56" } else { "D58" });
        let detail = if message.is_empty() {
            String::new()
        } else {
            format!(": {message}")
        };
        let what = if row == "D57" {
            "the runner image"
        } else {
            image
        };
        let mut stage = Self::new(
            row,
            "ImagePull",
            format!("cannot start: {what} cannot be pulled"),
            format!("{reason}{detail}"),
        );
        let (description, required) = match row {
            "D57" => ("fix --runner-image, its mirror or its pull Secret", true),
            "D56" => (
                "fix spec.source.image or spec.jobs.imagePullSecrets, or push the image",
                true,
            ),
            _ => (
                "push the image back; another one is tried where there is one",
                false,
            ),
        };
        stage.actions.push(if required {
            Action::required("Image", description)
        } else {
            Action::optional("Image", description)
        });
        stage
    }

    fn config(job: &JobFacts, why: &str) -> Self {
        let mut stage = Self::new(
            "D61",
            "JobStuck",
            "cannot start: the kubelet cannot create its container",
            why,
        );
        stage.verdict = Verdict::Waiting;
        stage.next.push(
            Next::new(
                "JobDeleted",
                By::Manager,
                format!("job/{}", job.name),
                "the manager deletes the Job and starts again",
            )
            .by_time(time::plus(job.created, CONFIG_SECONDS + 30)),
        );
        stage
    }

    fn unarmed(job: &JobFacts, age: i64) -> Self {
        let (row, code, summary) = if age < STUCK_SECONDS {
            (
                "D140",
                "NotArmed",
                "is not armed: its per-run Secret is not there yet",
            )
        } else {
            (
                "D60",
                "JobStuck",
                "cannot start: its per-run Secret is missing",
            )
        };
        let mut stage = Self::new(row, code, summary, "waits for the Secret of its Job");
        stage.verdict = Verdict::Waiting;
        stage.never = "create the Secret, or delete the Job";
        stage.next.push(
            Next::new(
                "JobDeleted",
                By::Manager,
                format!("job/{}", job.name),
                "the manager completes the Job, or deletes it and starts again",
            )
            .by_time(time::plus(job.created, 2 * STUCK_SECONDS)),
        );
        stage
    }

    fn ending(holder: &HolderFacts, pod: &PodView) -> Self {
        let summary = match holder.state {
            JobState::Ending => "was stopped at its deadline, its pod is still ending",
            _ => "is being stopped, its pod is still ending",
        };
        let node = if pod.node.is_empty() {
            String::new()
        } else {
            format!(" on {}", pod.node)
        };
        let mut stage = Self::new(
            "D42",
            "JobRunning",
            summary,
            format!("is terminating{node}"),
        );
        if let Some(stops) = pod.stops {
            stage.next.push(
                Next::new(
                    "PodStops",
                    By::Kubernetes,
                    format!("pod/{}", pod.facts.name),
                    "it has ended (node alive)",
                )
                .expected_at(stops),
            );
        }
        stage.never = "force-delete the pod: its process may still write the state";
        stage
    }

    fn lost(facts: &Facts, pod: &PodView) -> Self {
        let mut stage = Self::new(
            "D153",
            "NodeLost",
            "is on a lost node",
            format!(
                "is {:?} on node {}, whose kubelet does not answer",
                pod.facts.phase, pod.node
            ),
        );
        stage.verdict = Verdict::NeedsAction;
        stage.actions.push(
            Action::required(
                "Node",
                "bring the node back; only when its machine is surely OFF, delete the Node",
            )
            .command(&format!("kubectl get node {} -o wide", pod.node)),
        );
        stage.never = "delete Node or pod while the machine may run";
        stage.next.push(Next::new(
            "Needs",
            By::User,
            short(facts),
            "no bound before the backstop: needs the node",
        ));
        stage
    }
}

/// The pod's node is not ready, and the pod should have ended or reported.
fn lost(facts: &Facts, pod: &PodView) -> bool {
    let node = facts.node.found().filter(|node| node.name == pod.node);
    node.and_then(|node| node.ready.as_ref())
        .is_some_and(|(status, _)| status != "True")
}

/// The newest thing that the runner said about its work.
fn step(facts: &Facts, pod: &PodView) -> String {
    let steps = facts.events.found().into_iter().flatten();
    let newest =
        steps.filter(|event| event.reason == "StepStarted" && event.at >= Some(pod.facts.created));
    match newest.max_by_key(|event| event.at) {
        Some(event) => format!("runs: {}", event.note),
        None => "runs".to_owned(),
    }
}

fn waiting_text(runner: &ContainerFacts, source: &ContainerFacts) -> String {
    match runner.waiting().or_else(|| source.waiting()) {
        Some((reason, _)) if !reason.is_empty() => format!("waits: {reason}"),
        _ => "is being prepared".to_owned(),
    }
}

/// The kubelet says that it cannot mount the Job's own Secret. The Secret itself is not read.
fn lacks_secret(facts: &Facts, job: &str) -> bool {
    let secret = crate::names::per_run_secret(&crate::names::JobName::new(job));
    let mut events = facts.pod_events.found().into_iter().flatten();
    events.any(|event| event.reason == "FailedMount" && event.note.contains(&secret))
}

/// A link about a pod.
pub(crate) fn pod_link(
    facts: &Facts,
    row: &'static str,
    code: &str,
    pod: &PodView,
    message: &str,
) -> Node {
    let mut node = link(facts, None, Some(row), code, message);
    node.object.kind = "Pod".to_owned();
    node.object.name.clone_from(&pod.facts.name);
    node.pod = Some(pod_report(pod));
    node
}

fn pod_report(pod: &PodView) -> PodLink {
    let waiting = pod
        .facts
        .source
        .waiting()
        .or_else(|| pod.facts.runner.waiting());
    PodLink {
        name: pod.facts.name.clone(),
        phase: match pod.facts.phase {
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
            PodPhase::Unknown => "Unknown",
        },
        node: (!pod.node.is_empty()).then(|| pod.node.clone()),
        waiting: waiting
            .map(|(reason, _)| reason.to_owned())
            .filter(|reason| !reason.is_empty()),
        stopping_since: pod.stopping_since.map(At),
        stops: pod.stops.map(At),
    }
}

/// The Job of the object's own lease is finished or gone, and a pod of it has not ended (D38).
fn stopping(facts: &Facts) -> Option<Finding> {
    let (lease, evaluation) = facts.judged(&facts.run_lease)?;
    if evaluation.state != State::Stopping || super::lease::is_waiting(facts) {
        return None;
    }
    Some(super::lease::stopping(facts, lease, &evaluation))
}
