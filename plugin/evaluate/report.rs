//! A judged lease as reports show it, and why it may not be given back by hand.

use jiff::{SignedDuration, Timestamp};

use super::facts::{Fact, HolderFacts, LeaseFacts, LivePod};
use super::{Evaluation, State, live_names};
use crate::lease::{GRACE, LeaseView};
use crate::names::{Kind, Op, ParsedJobName};
use crate::plugin::report::{
    At, Backstop, HolderParts, JobReport, LeaseReport, OwnerReport, PodsReport, Waiter,
};
use crate::plugin::time;

/// How much older than the grace a lease must be before it may be released by hand: the server's
/// clock is known to two seconds (cli.md §9.2).
pub(super) const RELEASE_MARGIN_SECONDS: i64 = 2;

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

pub(super) fn pods_report(pods: &Fact<Vec<LivePod>>) -> Option<PodsReport> {
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

pub(super) fn free_reason(state: State) -> Option<&'static str> {
    match state {
        State::Free => Some("NoHolder"),
        State::PastBackstop => Some("Backstop"),
        State::HolderMissing => Some("HolderMissing"),
        State::HolderFinished => Some("HolderFinished"),
        _ => None,
    }
}
