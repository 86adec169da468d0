//! What is written into the election Lease, and when a foreign one may be taken over.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use tokio::time::Instant;

/// Who writes.
#[derive(Debug, Clone)]
pub(super) struct Claimant {
    pub(super) identity: String,
    pub(super) lease_duration: Duration,
}

/// The holder of a Lease; empty when nobody holds it.
pub(super) fn holder(lease: &Lease) -> &str {
    lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref())
        .unwrap_or_default()
}

impl Claimant {
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        holder(lease) == self.identity
    }

    /// A Lease where there was none.
    pub(super) fn first(&self, name: &str, now: Timestamp) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(self.spec(now, now, 0)),
        }
    }

    /// Our Lease, renewed: since when it is ours and how often it changed hands stay.
    pub(super) fn renewed(&self, lease: Lease, now: Timestamp) -> Lease {
        let old = lease.spec.clone().unwrap_or_default();
        let acquired = old.acquire_time.map_or(now, |time| time.0);
        with_spec(
            lease,
            self.spec(acquired, now, old.lease_transitions.unwrap_or_default()),
        )
    }

    /// A Lease that was another's or nobody's: one more change of hands.
    pub(super) fn taken_over(&self, lease: Lease, now: Timestamp) -> Lease {
        let transitions = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_transitions)
            .unwrap_or_default();
        with_spec(lease, self.spec(now, now, transitions.saturating_add(1)))
    }

    /// Nobody's Lease, to be taken at once.
    pub(super) fn released(&self, lease: Lease, now: Timestamp) -> Lease {
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: transitions,
            ..LeaseSpec::default()
        };
        with_spec(lease, spec)
    }

    fn spec(&self, acquired: Timestamp, now: Timestamp, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(
                i32::try_from(self.lease_duration.as_secs())
                    .unwrap_or(i32::MAX)
                    .max(1),
            ),
            acquire_time: Some(MicroTime(acquired)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }
}

fn with_spec(lease: Lease, spec: LeaseSpec) -> Lease {
    Lease {
        spec: Some(spec),
        ..lease
    }
}

/// Since when the Lease is as it is, on this process's own clock.
#[derive(Debug, Default)]
pub(super) struct Seen {
    last: Option<(LeaseSpec, Instant)>,
}

impl Seen {
    /// Takes in the Lease as it was read or written.
    pub(super) fn observe(&mut self, lease: &Lease) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.last.as_ref().is_none_or(|(last, _)| *last != spec) {
            self.last = Some((spec, Instant::now()));
        }
    }

    /// A Lease without a holder may be taken at once; a foreign one once it has not changed for its own
    /// duration, for `default` if it names none (engineering.md §4.3).
    pub(super) fn may_be_taken(&self, lease: &Lease, default: Duration) -> bool {
        if holder(lease).is_empty() {
            return true;
        }
        let named = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds);
        let duration = named
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(default, Duration::from_secs);
        self.last
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() >= duration)
    }
}
