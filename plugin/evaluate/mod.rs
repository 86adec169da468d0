//! What a lease's state means to a person: the operator's verdict, why the holder is absent, and
//! when the lease is free by itself (cli.md §5).
//!
//! Whether a lease is free is decided by [`crate::lease::judge`] alone. This module only tells
//! apart what is the same to the operator, and puts times to it. It is pure.

mod facts;
mod report;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::lease::{Evidence, GRACE, HolderJob, HolderPod, Judgement, LeaseState, judge};
use crate::plugin::report::{At, Frees, FreesKind, Warning};
use crate::plugin::time;
pub(crate) use facts::{
    Fact, HolderFacts, JobState, LeaseFacts, LivePod, OwnerFacts, waiting_operation,
};
pub(crate) use report::{holder_operation, holder_parts, is_hash, job_report, report};

/// Termination grace of a runner pod, in seconds: it may run on that long after its deadline.
pub(crate) const POD_STOP_SECONDS: i64 = 600;

/// A time difference up to this is no skew: the `Date` header and `managedFields` have whole seconds.
const SKEW_SECONDS: i64 = 5;

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
            // the lease, so a wait on one's own absent holder means that the name changed. A fenced
            // holder did exist: it was deleted, and the wait was for its pods.
            Some(owner)
                if owner.waits("WaitingForRunLease").is_some()
                    && held_by_owner(facts)
                    && !facts.fenced =>
            {
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
        State::Stopping if old_pods_bound(facts).is_some() => Frees {
            expected: expected_stop(state, facts).map(|time| At(time.min(backstop_at))),
            ..bound(FreesKind::PodStop, None, old_pods_bound(facts), true)
        },
        State::Held | State::Stopping => Frees {
            expected: expected_stop(state, facts).map(|time| At(time.min(backstop_at))),
            ..bound(FreesKind::PodStop, None, Some(backstop_at), true)
        },
        State::Unknown => bound(FreesKind::Unknown, None, Some(backstop_at), true),
    }
}

/// By when the pods of an earlier Job of the holder's name no longer count: their own age, because the
/// lease is refreshed meanwhile (cli.md §5, D142). While a Job runs nobody refreshes its lease; one
/// refreshed after a pod was made is being waited for under the same Job name.
pub(crate) fn old_pods_bound(facts: &LeaseFacts) -> Option<Timestamp> {
    if facts.job != Fact::Absent {
        return None;
    }
    let pods = facts.pods.found()?;
    pods.iter()
        .find(|pod| facts.view.acquired_at > pod.created)?;
    let newest = pods.iter().map(|pod| pod.created).max()?;
    Some(later(newest, facts.view.backstop))
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
