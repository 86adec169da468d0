//! The two leases that decide who may start a Job: the run lease and the cluster
//! write lease (seed: Leases and the Operation Gate; leases.md).
//!
//! Pure rules over facts that somebody else read. The operator acts by them, the
//! plugin explains by them and the model of the protocol runs them: there is one
//! function per rule, and no second opinion.

mod holder;
mod object;
mod release;
mod rule;
mod wait;

use std::time::Duration;

pub use holder::{HolderJob, HolderPod, OldPods, counts_for_old_pods, old_pods};
pub use object::{
    Claim, LEASE_ACQUIRED_AT, LEASE_JOB_UID, LEASE_OP, LeaseView, confirmed, refreshed_for, taken,
};
pub use release::{ReleaseMoment, may_release};
pub use rule::{Evidence, Judgement, LeaseState, judge};
pub use wait::{MAX_NAMED_HOLDERS, Wait};

/// How long a holder whose Job does not exist keeps the lease (seed: one minute).
pub const GRACE: Duration = Duration::from_secs(60);

/// The backstop beyond the holder's deadline: the pod's termination grace period
/// and five minutes (seed: 600 seconds plus five minutes).
pub const BACKSTOP_EXTRA: Duration = Duration::from_secs(900);

/// The backstop of a lease that records none: the default deadline of one hour
/// plus [`BACKSTOP_EXTRA`] (seed: 4500 seconds).
pub const DEFAULT_BACKSTOP: Duration = Duration::from_secs(4500);

/// A lease younger than this needs no refresh before the Job create (leases.md §6.6).
pub const FRESH: Duration = Duration::from_secs(30);

/// When a pass that waits for a lease comes back (seed: requeues in 30 seconds).
pub const WAIT_REQUEUE: Duration = Duration::from_secs(30);

/// When a deferred start comes back (leases.md §6.6).
pub const DEFER_REQUEUE: Duration = Duration::from_secs(5);

/// The per-run Secret must follow the fence's first request within this
/// (leases.md §6.7), on a monotonic clock.
pub const FENCE_VALID: Duration = Duration::from_secs(10);

/// The backstop of a holder with this `activeDeadlineSeconds` (seed: Grace and backstop).
#[must_use]
pub fn backstop_of_deadline(deadline: Duration) -> Duration {
    deadline + BACKSTOP_EXTRA
}
