//! Periodic work: refreshes and drift checks (jobs.md §4).

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::names::{Op, jitter};

use super::kinds::refreshes_after_apply;
use super::{Cause, Decision, Input, Reason, Run, Standing, StateView, start};

/// Refresh interval while members of a pool join or leave, and the first one while health is pending.
const CONVERGING: Duration = Duration::from_secs(30);
/// Longest refresh interval while health is pending.
const PENDING_MAX: Duration = Duration::from_secs(300);

/// One entry of the schedule.
#[derive(Debug, Clone, Copy)]
struct Entry {
    op: Op,
    cause: Cause,
    /// Nothing = due now.
    due: Option<Timestamp>,
}

/// The first entry that is due starts; else the pass comes back at the soonest deadline
/// (jobs.md §4).
///
/// An entry whose operation is in backoff lets the ones after it go first: a backoff of one operation
/// does not delay another (jobs.md §8.1). `standing` is an apply that waits meanwhile: it bounds the
/// requeue and gives the reason.
pub(super) fn next(input: &Input, standing: Option<Standing>) -> Decision {
    let waiting = standing.and_then(|standing| standing.waiting);
    let mut soonest = standing.map(|standing| standing.requeue);
    let mut in_backoff = None;
    for entry in entries(input) {
        let left = entry
            .due
            .map_or(SignedDuration::ZERO, |due| due.duration_since(input.now));
        if left.is_positive() {
            soonest = sooner(soonest, left);
            continue;
        }
        match input.backoff(entry.op) {
            None => {
                return Decision {
                    waiting,
                    ..start(Run::plain(entry.op), entry.cause)
                };
            }
            Some(left) => {
                soonest = sooner(soonest, left);
                in_backoff = in_backoff.or(Some(Reason::Backoff(entry.cause)));
            }
        }
    }
    let reason = standing
        .map(|standing| standing.reason)
        .or(in_backoff)
        .unwrap_or(Reason::UpToDate);
    Decision {
        waiting,
        ..Decision::rest(reason, soonest)
    }
}

fn sooner(soonest: Option<SignedDuration>, left: SignedDuration) -> Option<SignedDuration> {
    Some(soonest.map_or(left, |soonest| soonest.min(left)))
}

/// The entries in their order (jobs.md §4, table).
fn entries(input: &Input) -> Vec<Entry> {
    let schedule = &input.schedule;
    let refresh = |cause, due| Entry {
        op: Op::Refresh,
        cause,
        due,
    };
    let mut entries = Vec::new();
    if refresh_after_apply_is_due(input) {
        entries.push(refresh(Cause::RefreshAfterApply, None));
    }
    let since_refresh = |interval| {
        schedule
            .last_refresh
            .map(|last| spread(input, last, interval))
    };
    if schedule.converging {
        entries.push(refresh(
            Cause::MembershipConverging,
            since_refresh(CONVERGING),
        ));
    } else if matches!(input.state, StateView::Present { pending: true, .. }) {
        let interval = pending_interval(schedule.pending_refreshes);
        entries.push(refresh(Cause::HealthPending, since_refresh(interval)));
    }
    let periodic = [
        (
            Op::Refresh,
            Cause::MembershipRefreshDue,
            schedule.last_refresh,
            schedule.membership_interval,
        ),
        (
            Op::Refresh,
            Cause::HealthCheckDue,
            schedule.last_refresh,
            schedule.health_interval,
        ),
        (
            Op::Drift,
            Cause::DriftDue,
            schedule.last_drift_check,
            schedule.drift_interval,
        ),
    ];
    for (op, cause, last, interval) in periodic {
        if !interval.is_zero() {
            let due = Some(spread(input, base(input, last), interval));
            entries.push(Entry { op, cause, due });
        }
    }
    entries
}

/// The kind wants a refresh after each apply and none ran since the newest success (jobs.md §4, 1).
fn refresh_after_apply_is_due(input: &Input) -> bool {
    let schedule = &input.schedule;
    refreshes_after_apply(input.kind)
        && schedule.last_apply_succeeded.is_some_and(|applied| {
            schedule
                .last_refresh
                .is_none_or(|refreshed| refreshed < applied)
        })
}

/// Refresh interval after n pending samples in a row: 30 s doubled per sample after the first, 5 min at
/// most (J16, B32).
fn pending_interval(samples: u32) -> Duration {
    // Four doublings already pass five minutes.
    let doublings = samples.saturating_sub(1).min(4);
    PENDING_MAX.min(CONVERGING * (1 << doublings))
}

/// Where an interval starts: its own last run, else the newest successful apply, else the creation of the
/// object (jobs.md §4; B31, J19).
fn base(input: &Input, last: Option<Timestamp>) -> Timestamp {
    last.or(input.schedule.last_apply_succeeded)
        .unwrap_or(input.created)
}

/// A deadline one interval and this object's jitter after `from`.
fn spread(input: &Input, from: Timestamp, interval: Duration) -> Timestamp {
    from.saturating_add(interval + jitter(&input.uid, interval))
        .unwrap_or(Timestamp::MAX)
}
