//! What a lease's state means to a person: the operator's verdict, why the holder is absent, and
//! when the lease is free by itself (cli.md §5).
//!
//! Whether a lease is free is decided by [`crate::lease::judge`] alone. This module only tells
//! apart what is the same to the operator, and puts times to it. It is pure.

use jiff::{SignedDuration, Timestamp};

use super::read::JobRow;
use super::read::wire::{Condition, JobItem, LeaseItem};
use super::report::{
    At, Backstop, Frees, FreesKind, HolderParts, JobReport, LeaseReport, OwnerReport, PodsReport,
    Waiter, Warning,
};
use super::time;
use crate::jobs::facts;
use crate::lease::{
    Evidence, GRACE, HolderJob, HolderPod, Judgement, LeaseState, LeaseView, judge,
};
use crate::names::{Kind, Op, ParsedJobName};

/// Termination grace of a runner pod, in seconds: it may run on that long after its deadline.
pub(crate) const POD_STOP_SECONDS: i64 = 600;

/// A time difference up to this is no skew: the `Date` header and `managedFields` have whole seconds.
const SKEW_SECONDS: i64 = 5;

/// How much older than the grace a lease must be before it may be released by hand: the server's
/// clock is known to two seconds (cli.md §9.2).
const RELEASE_MARGIN_SECONDS: i64 = 2;

/// A fact that was asked for, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact<T> {
    /// Nobody asked.
    NotRead,
    /// The read failed; the text says how.
    Unreadable(String),
    /// The API server has no such object.
    Absent,
    /// What it answered.
    Found(T),
}

impl<T> Fact<T> {
    /// The value, when there is one.
    pub(crate) fn found(&self) -> Option<&T> {
        match self {
            Self::Found(value) => Some(value),
            _ => None,
        }
    }
}

/// A holder's Job as far as it was read: from the object, or from a table row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderFacts {
    /// What it does.
    pub(crate) state: JobState,
    /// Its uid, when the object was read.
    pub(crate) uid: Option<String>,
    /// When it was created, when the object was read.
    pub(crate) created: Option<Timestamp>,
    /// When it started.
    pub(crate) started: Option<Timestamp>,
    /// `activeDeadlineSeconds`.
    pub(crate) deadline_seconds: Option<i64>,
    /// When it finished.
    pub(crate) finished: Option<Timestamp>,
    /// Pods that are Pending or Running, and ready ones, by the Job's own count.
    pub(crate) active_and_ready: Option<(i64, i64)>,
}

/// What a Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    /// Condition Complete is True.
    Complete,
    /// Condition Failed is True.
    Failed,
    /// Unfinished.
    Running,
    /// Unfinished: held back.
    Suspended,
    /// Unfinished: its pods are being ended first.
    Ending,
    /// Unfinished: being deleted.
    Deleting,
}

impl JobState {
    /// Only Complete and Failed count as finished (leases.md §4).
    pub(crate) fn is_finished(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }

    /// The word in reports.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::Running => "Running",
            Self::Suspended => "Suspended",
            Self::Ending => "Ending",
            Self::Deleting => "Deleting",
        }
    }
}

impl From<JobRow> for HolderFacts {
    fn from(row: JobRow) -> Self {
        Self {
            state: match row {
                JobRow::Complete => JobState::Complete,
                JobRow::Failed => JobState::Failed,
                JobRow::Running => JobState::Running,
                JobRow::Suspended => JobState::Suspended,
                JobRow::Terminating => JobState::Deleting,
                JobRow::Ending => JobState::Ending,
            },
            uid: None,
            created: None,
            started: None,
            deadline_seconds: None,
            finished: None,
            active_and_ready: None,
        }
    }
}

impl From<&JobItem> for HolderFacts {
    fn from(job: &JobItem) -> Self {
        let created = job.metadata.creation_timestamp.unwrap_or_default();
        let ending = |kind: &str| {
            let mut conditions = job.status.conditions.iter().flatten();
            conditions.any(|condition| condition.type_ == kind && condition.status == "True")
        };
        let finished = facts::finish(Some(&job.status), created);
        let state = match finished {
            facts::JobState::Complete { .. } => JobState::Complete,
            facts::JobState::Failed { .. } => JobState::Failed,
            facts::JobState::Unfinished if job.metadata.deletion_timestamp.is_some() => {
                JobState::Deleting
            }
            facts::JobState::Unfinished
                if ending("FailureTarget") || ending("SuccessCriteriaMet") =>
            {
                JobState::Ending
            }
            facts::JobState::Unfinished if job.spec.suspend => JobState::Suspended,
            facts::JobState::Unfinished => JobState::Running,
        };
        let count = |pods: Option<i32>| i64::from(pods.unwrap_or_default());
        Self {
            state,
            uid: Some(job.metadata.uid.clone()),
            created: job.metadata.creation_timestamp,
            started: job.status.start_time.as_ref().map(|time| time.0),
            deadline_seconds: job.spec.active_deadline_seconds,
            finished: finished.finished_at(),
            active_and_ready: Some((count(job.status.active), count(job.status.ready))),
        }
    }
}

impl HolderFacts {
    /// When Kubernetes stops it.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        Some(time::plus(self.started?, self.deadline_seconds?))
    }

    /// The Job in a report, without its name.
    pub(crate) fn report(&self) -> JobReport {
        JobReport {
            name: None,
            exists: true,
            state: Some(self.state.as_str()),
            start_time: self.started.map(At),
            deadline: self.deadline().map(At),
            finished_at: self.finished.map(At),
        }
    }
}

/// A pod of a holder's Job that has neither succeeded nor failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LivePod {
    /// Name.
    pub(crate) name: String,
    /// When it was created.
    pub(crate) created: Timestamp,
    /// When it must be gone, once somebody asked for its deletion: the grace is included.
    pub(crate) stops: Option<Timestamp>,
}

/// Everything that is known about one lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseFacts {
    /// The lease.
    pub(crate) view: LeaseView,
    /// Its newest write, by the API server's clock.
    pub(crate) written_at: Option<Timestamp>,
    /// Whether the fence wrote it again after it was taken (leases.md §6.7).
    pub(crate) fenced: bool,
    /// Whether it carries the operator's own label.
    pub(crate) managed: bool,
    /// The holder's Job.
    pub(crate) job: Fact<HolderFacts>,
    /// The live pods of that Job; `Found` may be empty.
    pub(crate) pods: Fact<Vec<LivePod>>,
    /// The object it belongs to.
    pub(crate) owner: Fact<OwnerFacts>,
}

impl LeaseFacts {
    /// A lease of which nothing else was read yet.
    pub(crate) fn unread(item: &LeaseItem) -> Self {
        Self {
            view: item.view(),
            written_at: item.written_at(),
            fenced: item.is_fenced(),
            managed: item.is_managed(),
            job: Fact::NotRead,
            pods: Fact::NotRead,
            owner: Fact::NotRead,
        }
    }
}

/// What a lease's owner says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerFacts {
    /// Its real name.
    pub(crate) name: String,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
}

/// The conditions on which an operation waits, and the operations they stand for (leases.md §7).
const WAIT_CONDITIONS: [(&str, &str); 3] = [
    ("ApplyJobSucceeded", "apply"),
    ("DriftJobSucceeded", "drift"),
    ("RestoreJobSucceeded", "restore"),
];

impl OwnerFacts {
    /// The wait with this reason, if the object reports one.
    pub(crate) fn waits(&self, reason: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| {
            condition.reason == reason
                && condition.status == "Unknown"
                && WAIT_CONDITIONS
                    .iter()
                    .any(|(kind, _)| *kind == condition.kind)
        })
    }
}

/// The operation whose wait a condition reports.
pub(crate) fn waiting_operation(condition: &Condition) -> &'static str {
    WAIT_CONDITIONS
        .iter()
        .find(|(kind, _)| *kind == condition.kind)
        .map_or("", |(_, operation)| operation)
}

/// The states that people tell apart (cli.md §5); the first three of the held ones are one to the
/// operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No holder.
    Free,
    /// Older than its backstop.
    PastBackstop,
    /// A waiting cluster's intent, refreshed about every 30 s.
    Reserved,
    /// Its owner waits for it under another Job name.
    HashGap,
    /// A manager is about to create the Job, or died before it did.
    Starting,
    /// The Job is finished or gone, a pod of it still runs.
    Stopping,
    /// The Job never came, the grace is over.
    HolderMissing,
    /// The Job finished.
    HolderFinished,
    /// The Job runs.
    Held,
    /// A read failed.
    Unknown,
}

impl State {
    /// Every state, in the order of cli.md §5.
    pub(crate) const ALL: [Self; 10] = [
        Self::Free,
        Self::PastBackstop,
        Self::Reserved,
        Self::HashGap,
        Self::Starting,
        Self::Stopping,
        Self::HolderMissing,
        Self::HolderFinished,
        Self::Held,
        Self::Unknown,
    ];

    /// The word in tables and reports.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "Free",
            Self::PastBackstop => "PastBackstop",
            Self::Reserved => "Reserved",
            Self::HashGap => "HashGap",
            Self::Starting => "Starting",
            Self::Stopping => "Stopping",
            Self::HolderMissing => "HolderMissing",
            Self::HolderFinished => "HolderFinished",
            Self::Held => "Held",
            Self::Unknown => "Unknown",
        }
    }
}

/// A lease with its verdict.
#[derive(Clone, Debug)]
pub(crate) struct Evaluation {
    /// The state.
    pub(crate) state: State,
    /// Sub-state.
    pub(crate) detail: Option<&'static str>,
    /// Whether the operator would take it over.
    pub(crate) free: Option<bool>,
    /// When it is free by itself.
    pub(crate) frees: Frees,
    /// When it is free whatever its holder does.
    pub(crate) backstop_at: Timestamp,
    /// Names of its live pods.
    pub(crate) pods: Vec<String>,
    /// The read that failed.
    pub(crate) error: Option<String>,
    /// What is odd about it.
    pub(crate) warnings: Vec<Warning>,
}

/// Judges a lease by the operator's rule and adds what a person needs to know.
pub(crate) fn evaluate(facts: &LeaseFacts, now: Timestamp) -> Evaluation {
    let judged = judge(
        &facts.view,
        now,
        &job_evidence(&facts.job),
        &pod_evidence(&facts.pods),
    );
    let (state, error) = match judged {
        Judgement::State(LeaseState::Unknown { error }) => (State::Unknown, Some(error)),
        Judgement::NeedJob | Judgement::NeedPods => (State::Unknown, None),
        Judgement::State(state) => (shown(&state, facts), None),
    };
    let backstop_at = later(facts.view.acquired_at, facts.view.backstop);
    Evaluation {
        state,
        detail: detail(state, facts),
        free: free(state),
        frees: frees(state, facts, backstop_at),
        backstop_at,
        pods: live_names(&facts.pods),
        warnings: warnings(state, facts, now),
        error,
    }
}

fn job_evidence(job: &Fact<HolderFacts>) -> Evidence<HolderJob> {
    match job {
        Fact::NotRead => Evidence::NotRead,
        Fact::Unreadable(error) => Evidence::Failed(error.clone()),
        Fact::Absent => Evidence::Read(HolderJob::Absent),
        Fact::Found(job) if job.state.is_finished() => Evidence::Read(HolderJob::Finished),
        Fact::Found(_) => Evidence::Read(HolderJob::Unfinished),
    }
}

fn pod_evidence(pods: &Fact<Vec<LivePod>>) -> Evidence<Vec<HolderPod>> {
    match pods {
        Fact::NotRead => Evidence::NotRead,
        Fact::Unreadable(error) => Evidence::Failed(error.clone()),
        Fact::Absent => Evidence::Read(Vec::new()),
        // The list was selected by phase, so the phase itself was not fetched.
        Fact::Found(pods) => Evidence::Read(
            pods.iter()
                .map(|pod| HolderPod {
                    name: pod.name.clone(),
                    phase: String::new(),
                    created: pod.created,
                })
                .collect(),
        ),
    }
}

/// Tells apart what the operator treats alike: why a holder within its grace has no Job yet.
fn shown(state: &LeaseState, facts: &LeaseFacts) -> State {
    match state {
        LeaseState::FreeNoHolder => State::Free,
        LeaseState::FreeBackstop => State::PastBackstop,
        LeaseState::FreeHolderFinished => State::HolderFinished,
        LeaseState::FreeHolderAbsent => State::HolderMissing,
        LeaseState::HeldRunning => State::Held,
        LeaseState::HeldPods { .. } => State::Stopping,
        LeaseState::Unknown { .. } => State::Unknown,
        LeaseState::HeldGrace { .. } => match facts.owner.found() {
            Some(owner) if owner.waits("WaitingForMachineOperations").is_some() => State::Reserved,
            // A manager that died with the same inputs would compute the same name and refresh
            // the lease, so a wait on one's own absent holder means that the name changed.
            Some(owner) if owner.waits("WaitingForRunLease").is_some() && held_by_owner(facts) => {
                State::HashGap
            }
            _ => State::Starting,
        },
    }
}

/// Whether the holder's name is one that the lease's owner gives its Jobs.
fn held_by_owner(facts: &LeaseFacts) -> bool {
    holder_parts(facts).is_some_and(|parts| parts.matches_owner)
}

/// The holder's name taken apart.
pub(crate) fn holder_parts(facts: &LeaseFacts) -> Option<HolderParts> {
    let parts = ParsedJobName::parse(&facts.view.holder)?;
    let name = facts
        .owner
        .found()
        .map_or(facts.view.owner_name.as_str(), |owner| &owner.name);
    let matches_owner = facts
        .view
        .owner_kind
        .parse::<Kind>()
        .is_ok_and(|kind| parts.belongs_to(kind, name));
    Some(HolderParts {
        kind_short: parts.kind.short(),
        operation: parts.op.as_str(),
        attempt: parts.attempt,
        hash6: parts.hash6,
        matches_owner,
    })
}

fn free(state: State) -> Option<bool> {
    match state {
        State::Free | State::PastBackstop | State::HolderMissing | State::HolderFinished => {
            Some(true)
        }
        State::Reserved | State::HashGap | State::Starting | State::Stopping | State::Held => {
            Some(false)
        }
        State::Unknown => None,
    }
}

fn free_reason(state: State) -> Option<&'static str> {
    match state {
        State::Free => Some("NoHolder"),
        State::PastBackstop => Some("Backstop"),
        State::HolderMissing => Some("HolderMissing"),
        State::HolderFinished => Some("HolderFinished"),
        _ => None,
    }
}

fn detail(state: State, facts: &LeaseFacts) -> Option<&'static str> {
    match state {
        State::Held => Some(held_detail(facts)),
        State::Starting if matches!(facts.owner, Fact::Unreadable(_)) => Some("OwnerUnreadable"),
        _ => None,
    }
}

fn held_detail(facts: &LeaseFacts) -> &'static str {
    let job = facts.job.found();
    let no_pod = matches!(&facts.pods, Fact::Found(pods) if pods.is_empty());
    match job.map(|job| job.state) {
        Some(JobState::Suspended) => "Suspended",
        Some(JobState::Ending) => "Ending",
        Some(JobState::Deleting) => "Deleting",
        _ if no_pod => "NoPod",
        _ => match job.and_then(|job| job.active_and_ready) {
            Some((0, _)) => "NoPod",
            Some((_, 0)) => "PodPending",
            _ => "Running",
        },
    }
}

fn frees(state: State, facts: &LeaseFacts, backstop_at: Timestamp) -> Frees {
    let bound = |kind, earliest: Option<Timestamp>, latest: Option<Timestamp>, certain| Frees {
        kind,
        earliest: earliest.map(At),
        expected: None,
        latest: latest.map(|time| At(time.min(backstop_at))),
        certain,
    };
    match state {
        State::Free | State::PastBackstop | State::HolderMissing | State::HolderFinished => {
            bound(FreesKind::Now, None, None, true)
        }
        State::Reserved => bound(FreesKind::Refreshed, None, None, false),
        State::HashGap | State::Starting => {
            let acquired = facts.view.acquired_at;
            // Another manager compares with its own clock, which may lag behind the server's.
            let reference = facts
                .written_at
                .map_or(acquired, |written| written.max(acquired));
            bound(
                FreesKind::Grace,
                Some(later(acquired, GRACE)),
                Some(later(reference, GRACE)),
                true,
            )
        }
        State::Held | State::Stopping => Frees {
            expected: expected_stop(state, facts).map(|time| At(time.min(backstop_at))),
            ..bound(FreesKind::PodStop, None, Some(backstop_at), true)
        },
        State::Unknown => bound(FreesKind::Unknown, None, Some(backstop_at), true),
    }
}

/// When the holder is expected to have stopped, as long as its node is alive.
fn expected_stop(state: State, facts: &LeaseFacts) -> Option<Timestamp> {
    if state == State::Held {
        let deadline = facts.job.found()?.deadline()?;
        return Some(time::plus(deadline, POD_STOP_SECONDS));
    }
    // An orphaned pod, which nobody asked to stop, promises nothing.
    facts
        .pods
        .found()?
        .iter()
        .map(|pod| pod.stops)
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

fn warnings(state: State, facts: &LeaseFacts, now: Timestamp) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !facts.managed {
        warnings.push(Warning::new(
            "Unmanaged",
            "it lacks the label captf.io/managed=true: somebody else wrote it",
        ));
    }
    if let Some(skew) = clock_skew(facts, now) {
        warnings.push(Warning::new(
            "ManagerClockSkew",
            format!("the manager's clock is {skew}s off"),
        ));
    }
    if state == State::HolderMissing
        && facts
            .owner
            .found()
            .is_some_and(|owner| owner.waits("WaitingForMachineOperations").is_some())
    {
        let age = time::age_seconds(now, facts.view.acquired_at);
        warnings.push(Warning::new(
            "ReservationLapsed",
            format!("not refreshed for {age}s: the manager is not reconciling this cluster"),
        ));
    }
    let job_runs = facts
        .job
        .found()
        .is_some_and(|job| !job.state.is_finished());
    if state == State::PastBackstop && (job_runs || !live_names(&facts.pods).is_empty()) {
        warnings.push(Warning::new(
            "HolderAlive",
            "it is free by its backstop, but its holder still runs: two Terraform runs could overlap",
        ));
    }
    warnings
}

/// Seconds between the manager's time of the last take and the API server's time of that write.
fn clock_skew(facts: &LeaseFacts, now: Timestamp) -> Option<i64> {
    let acquired = facts.view.acquired_at;
    let ahead = time::age_seconds(acquired, now);
    if ahead > SKEW_SECONDS {
        return Some(ahead);
    }
    let apart = time::age_seconds(facts.written_at?, acquired);
    // A lease confirmed for its Job was written again after it was taken: that is no skew.
    let skewed = apart < -SKEW_SECONDS || (apart > SKEW_SECONDS && !facts.fenced);
    skewed.then_some(apart.abs())
}

fn live_names(pods: &Fact<Vec<LivePod>>) -> Vec<String> {
    let mut names: Vec<String> = pods
        .found()
        .into_iter()
        .flatten()
        .map(|pod| pod.name.clone())
        .collect();
    names.sort();
    names
}

fn later(time: Timestamp, by: std::time::Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// Why a lease may not be given back by hand; nothing when it may (cli.md §9.2). Stricter than the
/// free rule, because nobody fences the person.
pub(crate) fn refusal(
    evaluation: &Evaluation,
    facts: &LeaseFacts,
    now: Timestamp,
) -> Option<&'static str> {
    let reference = facts
        .written_at
        .map_or(facts.view.acquired_at, |at| at.max(facts.view.acquired_at));
    let grace = SignedDuration::try_from(GRACE).unwrap_or(SignedDuration::MAX);
    let young =
        now.duration_since(reference) <= grace + SignedDuration::from_secs(RELEASE_MARGIN_SECONDS);
    match evaluation.state {
        _ if !facts.managed => Some("NotCaptfLease"),
        State::Held => Some("HolderLive"),
        State::Stopping => Some("HolderStopping"),
        State::Starting | State::Reserved | State::HashGap => Some("WithinGrace"),
        State::Unknown => Some("Unverifiable"),
        State::PastBackstop => match (&facts.job, &facts.pods) {
            (Fact::Unreadable(_) | Fact::NotRead, _) | (_, Fact::Unreadable(_) | Fact::NotRead) => {
                Some("Unverifiable")
            }
            (Fact::Found(job), _) if !job.state.is_finished() => Some("PastBackstopLive"),
            _ if !evaluation.pods.is_empty() => Some("PastBackstopLive"),
            _ => young.then_some("WithinGrace"),
        },
        // A finished Job proves that its create is over.
        State::HolderFinished => None,
        State::Free | State::HolderMissing => young.then_some("WithinGrace"),
    }
}

/// The lease as reports show it.
pub(crate) fn report(
    facts: &LeaseFacts,
    evaluation: &Evaluation,
    waiters: Option<Vec<Waiter>>,
    now: Timestamp,
) -> LeaseReport {
    let view = &facts.view;
    let refusal = refusal(evaluation, facts, now);
    let has_holder = !view.holder.is_empty();
    LeaseReport {
        namespace: view.namespace.clone(),
        name: view.name.clone(),
        uid: view.uid.clone(),
        resource_version: view.resource_version.clone(),
        scope: view.lease.clone(),
        owner: OwnerReport {
            kind: view.owner_kind.clone(),
            name: owner_name(facts),
            cluster_name: view.cluster.clone(),
            exists: match facts.owner {
                Fact::Found(_) => Some(true),
                Fact::Absent => Some(false),
                Fact::NotRead | Fact::Unreadable(_) => None,
            },
        },
        operation: view.op.clone(),
        mutating: view.op.parse::<Op>().is_ok_and(Op::mutating),
        holder: view.holder.clone(),
        holder_parts: holder_parts(facts),
        acquired_at: At(view.acquired_at),
        age_seconds: time::age_seconds(now, view.acquired_at),
        grace_seconds: GRACE.as_secs(),
        backstop: Backstop {
            seconds: view.backstop.as_secs(),
            at: At(evaluation.backstop_at),
            expired: now > evaluation.backstop_at,
        },
        state: evaluation.state.as_str(),
        detail: evaluation.detail,
        free: evaluation.free,
        free_reason: free_reason(evaluation.state),
        releasable: refusal.is_none(),
        refusal,
        frees: evaluation.frees.clone(),
        job: has_holder.then(|| job_report(&facts.job)),
        pods: has_holder.then(|| pods_report(&facts.pods)),
        waiters,
        warnings: evaluation.warnings.clone(),
    }
}

/// The owner's real name, or `~` and the hash that its label carries (cli.md B17).
pub(crate) fn owner_name(facts: &LeaseFacts) -> String {
    let label = &facts.view.owner_name;
    match facts.owner.found() {
        Some(owner) => owner.name.clone(),
        // Without the object nobody can tell a hash from a short name of the same form.
        None if is_hash(label) => format!("~{label}"),
        None => label.clone(),
    }
}

/// Whether a label value has the form that stands for a name over 63 characters.
pub(crate) fn is_hash(label: &str) -> bool {
    label.len() == 16
        && label
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// What a lease is held for, in a few words: `apply of TerraformCluster demo`.
pub(crate) fn holder_operation(view: &LeaseView) -> String {
    if view.holder.is_empty() {
        return "free".to_owned();
    }
    format!("{} of {} {}", view.op, view.owner_kind, view.owner_name)
}

/// The holder's Job in a report; nothing when it could not be read.
pub(crate) fn job_report(job: &Fact<HolderFacts>) -> Option<JobReport> {
    match job {
        Fact::Found(job) => Some(job.report()),
        Fact::Absent => Some(JobReport {
            name: None,
            exists: false,
            state: None,
            start_time: None,
            deadline: None,
            finished_at: None,
        }),
        Fact::NotRead | Fact::Unreadable(_) => None,
    }
}

fn pods_report(pods: &Fact<Vec<LivePod>>) -> Option<PodsReport> {
    match pods {
        Fact::NotRead | Fact::Unreadable(_) => None,
        Fact::Absent | Fact::Found(_) => {
            let names = live_names(pods);
            Some(PodsReport {
                running: names.len(),
                names,
            })
        }
    }
}
