//! The fence before every per-run Secret (decision 3; leases.md §6.7).
//!
//! A pod cannot start before its per-run Secret exists. Whoever is about to create
//! one proves with a write, after the Job exists, that the leases still name it: a
//! read would not make the late write of another manager conflict.

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::{Claims, Held, Leases, RunningJobs};
use crate::client::{ApiError, Class};
use crate::lease::{Claim, FENCE_VALID, HolderPod, LeaseView, confirmed, counts_for_old_pods};

/// Reads live whether the object or its Cluster is paused now (decision 16: paused
/// inside the fence is refused).
pub type PauseCheck<'a> = &'a (dyn Fn() -> BoxFuture<'a, Result<bool, ApiError>> + Send + Sync);

/// What the fence said.
#[derive(Debug)]
pub enum Fenced {
    /// The per-run Secret may be created, until [`Fenced::expired`].
    Passed {
        /// When the fence's first request was sent.
        since: Instant,
    },
    /// It must not be created, for this reason.
    Refused(String),
    /// Another pass works on the very same Job.
    AnotherPass,
}

impl Fenced {
    /// The Secret must follow within ten seconds of the fence's first request.
    #[must_use]
    pub fn expired(since: Instant) -> bool {
        since.elapsed() >= FENCE_VALID
    }
}

enum Confirmed {
    Yes,
    Refused(String),
    AnotherPass,
}

impl Leases {
    /// Runs the fence for the Job `uid` of the claims' holder. `seen` are the
    /// leases as this pass last saw them; an adopted Job has none, and they are
    /// read.
    ///
    /// # Errors
    /// When a read or write fails: nothing is deleted, leases stay, the next pass
    /// repairs.
    pub async fn fence(
        &self,
        claims: &Claims,
        uid: &str,
        seen: Option<&Held>,
        running: RunningJobs<'_>,
        paused: PauseCheck<'_>,
    ) -> Result<Fenced, ApiError> {
        let since = Instant::now();
        let leases = std::iter::once((&claims.run, seen.map(|held| &held.run))).chain(
            claims
                .cluster
                .as_ref()
                .map(|claim| (claim, seen.and_then(|held| held.cluster.as_ref()))),
        );
        for (claim, lease) in leases {
            match self.confirm(claim, uid, lease).await? {
                Confirmed::Yes => {}
                Confirmed::Refused(why) => return Ok(Fenced::Refused(why)),
                Confirmed::AnotherPass => return Ok(Fenced::AnotherPass),
            }
        }
        if let Some(claim) = &claims.cluster {
            let mut holders = self
                .live_machine_operations(&claim.namespace, &claim.cluster, self.access.now())
                .await?;
            holders.extend(running());
            if let Some(holder) = holders.first() {
                return Ok(Fenced::Refused(format!(
                    "Job {holder} of a machine or pool runs"
                )));
            }
        }
        if let Some(pod) = self.pod_of_another_job(&claims.run, uid).await? {
            return Ok(Fenced::Refused(format!(
                "pod {pod} of an earlier Job of this name has not ended"
            )));
        }
        if paused().await? {
            return Ok(Fenced::Refused(
                "the object or its Cluster is paused".to_owned(),
            ));
        }
        Ok(Fenced::Passed { since })
    }

    /// The guarded write on one lease: sets the Job's uid and nothing else.
    async fn confirm(
        &self,
        claim: &Claim,
        uid: &str,
        seen: Option<&Lease>,
    ) -> Result<Confirmed, ApiError> {
        let read;
        let lease = match seen {
            Some(lease) => lease,
            None => match self.read(&claim.namespace, &claim.lease).await? {
                Some(lease) => {
                    read = lease;
                    &read
                }
                None => return Ok(refused_gone(claim)),
            },
        };
        if LeaseView::read(lease).holder != claim.holder.as_str() {
            return Ok(refused_other(claim, &LeaseView::read(lease).holder));
        }
        let api = self.access.api::<Lease>(&claim.namespace);
        match self.access.update(&api, &confirmed(lease, uid)).await {
            Ok(_) => Ok(Confirmed::Yes),
            Err(error) if error.class() == Class::NotFound => Ok(refused_gone(claim)),
            Err(error) if error.class() == Class::Conflict => {
                Ok(match self.read(&claim.namespace, &claim.lease).await? {
                    None => refused_gone(claim),
                    Some(lease) => match LeaseView::read(&lease).holder {
                        holder if holder == claim.holder.as_str() => Confirmed::AnotherPass,
                        holder => refused_other(claim, &holder),
                    },
                })
            }
            Err(error) => Err(error),
        }
    }

    async fn pod_of_another_job(
        &self,
        claim: &Claim,
        uid: &str,
    ) -> Result<Option<String>, ApiError> {
        let now = self.access.now();
        let pods = self
            .pods_of(&claim.namespace, claim.holder.as_str())
            .await?;
        Ok(pods
            .iter()
            .filter(|pod| !controlled_by(pod, uid))
            .map(HolderPod::of)
            .find(|pod| counts_for_old_pods(pod, now, claim.backstop))
            .map(|pod| pod.name))
    }
}

fn controlled_by(pod: &k8s_openapi::api::core::v1::Pod, uid: &str) -> bool {
    pod.metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn refused_gone(claim: &Claim) -> Confirmed {
    Confirmed::Refused(format!("the lease {} is gone", claim.lease))
}

fn refused_other(claim: &Claim, holder: &str) -> Confirmed {
    Confirmed::Refused(format!("the lease {} is now held by {holder}", claim.lease))
}
