//! Reading Terraform's state lock and what is known of its holder (README decision 13).

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;

use crate::api::conditions::Verdict;
use crate::client::{Access, ApiError, Deletion, Guard};
use crate::operator::secrets::Owner;
use crate::state::{HeldLock, LockFacts, LockLease, LockVerdict, PodFact, read_lock};

/// Whether the watch of runner pods saw the pod of this name in phase Succeeded or Failed before it
/// went (README decision 12).
pub type SeenEnded<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

/// A lock that somebody holds, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedLock {
    /// The Lease as read.
    pub lease: LockLease,
    /// The lock.
    pub held: HeldLock,
    /// What it means for the next Job.
    pub verdict: LockVerdict,
}

impl JudgedLock {
    /// The ID that the next Job unlocks with, when the holder is proven gone (S-8).
    #[must_use]
    pub fn force_unlock_id(&self) -> Option<&str> {
        match &self.verdict {
            LockVerdict::Stale { lock_id } => Some(lock_id),
            _ => None,
        }
    }

    /// `StateReadable=False/StateLocked`, when there is something to report.
    #[must_use]
    pub fn report(&self) -> Option<Verdict> {
        self.held.report(&self.verdict)
    }
}

/// Reads and judges the lock of `owner`'s state; `None` when nobody holds it. Only while no Job of the
/// object is active. `effective_deadline` is what a Job of the object would get now.
///
/// # Errors
/// When a read fails: nothing is proven then.
pub async fn judge_lock(
    access: &Access,
    owner: &Owner,
    effective_deadline: Duration,
    seen_ended: SeenEnded<'_>,
) -> Result<Option<JudgedLock>, ApiError> {
    let api = access.api::<Lease>(owner.namespace());
    let lease = access
        .get(&api, &owner.key.suffix().lock_lease())
        .await?
        .map(LockLease::from);
    let Some(held) = read_lock(&owner.key, lease.as_ref()) else {
        return Ok(None);
    };
    let facts = match held.own_pod() {
        None => None,
        Some((pod, job)) => Some(LockFacts {
            pod: pod_fact(access, owner.namespace(), pod, seen_ended).await?,
            job_deadline: job_deadline(access, owner.namespace(), job).await?,
            effective_deadline,
            now: access.now(),
        }),
    };
    let verdict = held.judge(facts.as_ref());
    Ok(lease.map(|lease| JudgedLock {
        lease,
        held,
        verdict,
    }))
}

async fn pod_fact(
    access: &Access,
    namespace: &str,
    pod: &str,
    seen_ended: SeenEnded<'_>,
) -> Result<PodFact, ApiError> {
    let Some(found) = access.get(&access.api::<Pod>(namespace), pod).await? else {
        return Ok(if seen_ended(pod) {
            PodFact::Ended
        } else {
            PodFact::Absent
        });
    };
    let phase = found
        .status
        .and_then(|status| status.phase)
        .unwrap_or_default();
    Ok(if matches!(phase.as_str(), "Succeeded" | "Failed") {
        PodFact::Ended
    } else {
        PodFact::Alive
    })
}

async fn job_deadline(
    access: &Access,
    namespace: &str,
    job: &str,
) -> Result<Option<Duration>, ApiError> {
    let found = access.get(&access.api::<Job>(namespace), job).await?;
    let seconds = found
        .and_then(|job| job.spec)
        .and_then(|spec| spec.active_deadline_seconds);
    Ok(seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs))
}

/// Deletes a lock Lease that is proven stale while no state Secret exists: then neither `init` nor
/// `force-unlock` of any Job could ever succeed, so this one case is the operator's to end (S-8). The
/// Lease must still be exactly the one judged. `true` when this call deleted it: event `ForceUnlocked`.
///
/// # Errors
/// Any failed call but a lost race.
pub async fn delete_stale_lock(
    access: &Access,
    owner: &Owner,
    lock: &JudgedLock,
) -> Result<bool, ApiError> {
    if lock.force_unlock_id().is_none() {
        return Ok(false);
    }
    let guard = Guard {
        uid: lock.lease.uid.clone(),
        resource_version: Some(lock.lease.resource_version.clone()),
    };
    let api = access.api::<Lease>(owner.namespace());
    let deletion = access
        .delete(&api, &owner.key.suffix().lock_lease(), &guard)
        .await?;
    Ok(deletion == Deletion::Deleted)
}
