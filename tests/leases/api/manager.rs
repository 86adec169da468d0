//! A manager's hands on the leases, without the passes around them.

use captf::client::{Access, ApiError, Clock, connect};
use captf::lease::Claim;
use captf::names::{JobName, Kind, LeaseScope, Op};
use captf::operator::leases::{Acquired, Claims, Fenced, Held, HeldBy, Leases, Taken};
use futures::FutureExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;

use crate::operator::hand::duration;
use crate::operator::harness::standing_clock;
use crate::testbed::fault::Faults;
use crate::testbed::{Bed, World};

/// The Job that the tests take leases for.
pub(super) const OURS: &str = "captf-c-prod-apply-a1-0aced0";

pub(super) struct Manager {
    pub(super) leases: Leases,
    pub(super) clock: Clock,
    world: World,
}

impl Manager {
    /// A manager whose clock stands at `now` until the test moves it, and whose requests meet `faults`.
    pub(super) async fn at(bed: &Bed, world: &World, now: Timestamp, faults: &Faults) -> Self {
        let clock = standing_clock(now);
        let client = connect(&bed.manager_config().await, &Clock::system()).unwrap();
        let access = Access::new(faults.around(client), clock.clone(), duration(60));
        Self {
            leases: Leases::new(access),
            clock,
            world: world.clone(),
        }
    }

    /// What this manager writes to take a lease of the TerraformCluster `prod` for a Job with the default deadline.
    pub(super) fn claim(&self, scope: LeaseScope, holder: &str) -> Claim {
        let lease = match scope {
            LeaseScope::Run => self.world.run_lease("prod"),
            LeaseScope::Cluster => self.world.cluster_lease("prod"),
        };
        Claim {
            scope,
            lease,
            namespace: self.world.namespace.clone(),
            holder: JobName::new(holder),
            op: Op::Apply,
            owner_kind: Kind::TerraformCluster,
            owner_name: "prod".to_owned(),
            cluster: "prod".to_owned(),
            backstop: duration(4500),
        }
    }

    /// Run lease and cluster write lease of the TerraformCluster `prod`.
    pub(super) fn claims(&self, holder: &str) -> Claims {
        Claims {
            run: self.claim(LeaseScope::Run, holder),
            cluster: Some(self.claim(LeaseScope::Cluster, holder)),
        }
    }

    /// Tries to take the run lease of `prod` at `now`.
    pub(super) async fn acquire(&self, holder: &str, now: Timestamp) -> Result<Acquired, ApiError> {
        self.leases
            .acquire(&self.claim(LeaseScope::Run, holder), now)
            .await
    }

    /// Takes both leases; no Job of a machine runs.
    pub(super) async fn take(&self, holder: &str) -> Result<Taken, ApiError> {
        self.leases.take(&self.claims(holder), &Vec::new).await
    }

    /// The look at the leases just before the create.
    pub(super) async fn ensure_fresh(&self, holder: &str, held: Held) -> Result<Taken, ApiError> {
        self.leases
            .ensure_fresh(&self.claims(holder), held, &Vec::new)
            .await
    }

    /// The fence of a Job; nothing is paused.
    pub(super) async fn fence(
        &self,
        holder: &str,
        uid: &str,
        held: Option<&Held>,
    ) -> Result<Fenced, ApiError> {
        let paused = || async { Ok(false) }.boxed();
        self.leases
            .fence(&self.claims(holder), uid, held, &Vec::new, &paused)
            .await
    }

    /// Gives both leases back, after a start that created no Job.
    pub(super) async fn release_unstarted(&self, holder: &str) {
        self.leases.give_back(&self.claims(holder)).await;
    }

    /// Gives both leases back, in the pass that counts the Job.
    pub(super) async fn release_finished(&self, holder: &str) {
        let (run, cluster) = (
            self.world.run_lease("prod"),
            self.world.cluster_lease("prod"),
        );
        let held = HeldBy {
            namespace: &self.world.namespace,
            job: &JobName::new(holder),
            leases: &[&run, &cluster],
        };
        self.leases
            .release(held, captf::lease::ReleaseMoment::Finished)
            .await;
    }
}

/// The lease that was taken.
pub(super) fn taken(acquired: Result<Acquired, ApiError>) -> Lease {
    match acquired {
        Ok(Acquired::Ours { lease, .. }) => *lease,
        other => panic!("not taken: {other:?}"),
    }
}

/// Whose turn it is instead; empty when a race was lost.
pub(super) fn busy(acquired: Result<Acquired, ApiError>) -> String {
    match acquired {
        Ok(Acquired::Busy { holder }) => holder,
        other => panic!("not busy: {other:?}"),
    }
}

/// The leases that were taken.
pub(super) fn went(taken: Result<Taken, ApiError>) -> Held {
    match taken {
        Ok(Taken::Go(held)) => *held,
        other => panic!("no way to go on: {other:?}"),
    }
}

/// Why a start was put off.
pub(super) fn deferred(taken: Result<Taken, ApiError>) -> String {
    match taken {
        Ok(Taken::Defer(why)) => why,
        other => panic!("not deferred: {other:?}"),
    }
}
