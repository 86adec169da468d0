//! Taking the leases for a Job (seed: Taking a lease, The operation gate;
//! leases.md §5, §6).

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::ResourceExt as _;

use super::{Claims, Held, HeldBy, Leases, RunningJobs};
use crate::client::{ApiError, Class};
use crate::lease::{
    Claim, FRESH, HolderJob, LeaseView, OldPods, ReleaseMoment, Wait, old_pods, refreshed_for,
    taken,
};
use crate::names::{Kind, LeaseScope, Op, key, label_value};

/// What one try to take one lease did. A lost race is never retried within the pass.
#[derive(Debug)]
pub enum Acquired {
    /// Written with our holder.
    Ours {
        /// The Lease as the API server stored it.
        lease: Box<Lease>,
        /// It named this Job already; the write refreshed it.
        again: bool,
    },
    /// Somebody else's turn.
    Busy {
        /// The Job that holds it, empty when a race was lost.
        holder: String,
    },
}

/// What taking the leases of a start ended in.
#[derive(Debug)]
pub enum Taken {
    /// Both leases are ours and nothing on the other side of the gate runs.
    Go(Box<Held>),
    /// The operation waits, with a condition.
    Wait(Wait),
    /// Not now and not worth a condition: come back in 5 s.
    Defer(String),
}

impl Leases {
    /// Takes one lease by creating it, or by updating it with the resourceVersion
    /// just read when it is ours or free (seed: Taking a lease; leases.md §5).
    ///
    /// # Errors
    /// Any failure but a lost race; nothing is known about the lease then.
    pub async fn acquire(&self, claim: &Claim, now: Timestamp) -> Result<Acquired, ApiError> {
        let api = self.access.api::<Lease>(&claim.namespace);
        match self.access.create(&api, &taken(claim, now)).await {
            Ok(lease) => {
                return Ok(Acquired::Ours {
                    lease: Box::new(lease),
                    again: false,
                });
            }
            Err(error) if error.class() == Class::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let Some(existing) = self.access.get(&api, &claim.lease).await? else {
            return Ok(Acquired::Busy {
                holder: String::new(),
            });
        };
        let view = LeaseView::read(&existing);
        let again = view.holder == claim.holder.as_str();
        if !again && !self.state(&view, now).await?.is_free() {
            return Ok(Acquired::Busy {
                holder: view.holder,
            });
        }
        match self
            .access
            .update(&api, &refreshed_for(claim, &existing, now))
            .await
        {
            Ok(lease) => {
                if !again && !view.holder.is_empty() {
                    tracing::info!(
                        lease = claim.lease,
                        holder = claim.holder.as_str(),
                        previous = view.holder,
                        "took the lease over from a Job that finished or never started"
                    );
                }
                Ok(Acquired::Ours {
                    lease: Box::new(lease),
                    again,
                })
            }
            Err(error) if matches!(error.class(), Class::Conflict | Class::NotFound) => {
                Ok(Acquired::Busy {
                    holder: String::new(),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the run lease, then passes the gate (leases.md §6). Leases that must
    /// not stay are given back before this returns.
    ///
    /// # Errors
    /// When a read or write fails. A failed gate has given back what this Job name
    /// holds, as far as that was safe; pods of the deleted Job that could not be
    /// read may still run, so the lease stays then.
    pub async fn take(&self, claims: &Claims, running: RunningJobs<'_>) -> Result<Taken, ApiError> {
        let now = self.access.now();
        let (run, again) = match self.acquire(&claims.run, now).await? {
            Acquired::Ours { lease, again } => (*lease, again),
            Acquired::Busy { holder } => return Ok(Taken::Wait(wait_for(&claims.run, holder))),
        };
        if again && let Some(held_up) = self.old_pods(&claims.run, now).await? {
            return Ok(held_up);
        }
        match self.gate(claims, now, running).await {
            Ok(Gate::Open(cluster)) => Ok(Taken::Go(Box::new(Held {
                run,
                cluster: cluster.map(|lease| *lease),
            }))),
            Ok(Gate::Closed(wait)) => {
                if !wait.keeps_leases() {
                    let held = HeldBy {
                        namespace: &claims.run.namespace,
                        job: &claims.run.holder,
                        leases: &[&claims.run.lease],
                    };
                    self.release(held, ReleaseMoment::Unstarted).await;
                }
                Ok(Taken::Wait(wait))
            }
            Err(error) => {
                self.give_back(claims).await;
                Err(error)
            }
        }
    }

    /// Immediately before the create: the run lease must still be ours and younger
    /// than half the grace, else both are taken again (leases.md §6.6). The
    /// cluster lease is taken after the run lease, so the run lease's age bounds
    /// both.
    ///
    /// # Errors
    /// When a read or write fails.
    pub async fn ensure_fresh(
        &self,
        claims: &Claims,
        held: Held,
        running: RunningJobs<'_>,
    ) -> Result<Taken, ApiError> {
        let now = self.access.now();
        let lease = self.read(&claims.run.namespace, &claims.run.lease).await?;
        if let Some(lease) = lease {
            let view = LeaseView::read(&lease);
            if view.holder != claims.run.holder.as_str() {
                return Ok(Taken::Defer(format!(
                    "the run lease {} is now held by {}",
                    view.name, view.holder
                )));
            }
            if view.age(now) < FRESH.try_into().unwrap_or_default() {
                return Ok(Taken::Go(Box::new(Held {
                    run: lease,
                    cluster: held.cluster,
                })));
            }
        }
        match self.take(claims, running).await? {
            Taken::Go(held)
                if self.access.now().duration_since(now) < FRESH.try_into().unwrap_or_default() =>
            {
                Ok(Taken::Go(held))
            }
            Taken::Go(_) => Ok(Taken::Defer(
                "taking the leases again took too long".to_owned(),
            )),
            Taken::Wait(wait) => Ok(Taken::Defer(wait.message(claims.run.op))),
            deferred @ Taken::Defer(_) => Ok(deferred),
        }
    }

    /// A lease that named this Job already may be that of a deleted Job whose pods
    /// still run Terraform, and the retry has its name (leases.md §6, `oldPods`).
    async fn old_pods(&self, claim: &Claim, now: Timestamp) -> Result<Option<Taken>, ApiError> {
        let job = claim.holder.as_str();
        if self.holder_job(&claim.namespace, job).await? != HolderJob::Absent {
            return Ok(None);
        }
        let pods = self.holder_pods(&claim.namespace, job).await?;
        Ok(match old_pods(&pods, now, claim.backstop) {
            OldPods::None => None,
            OldPods::Running => Some(Taken::Wait(wait_for(claim, job.to_owned()))),
            OldPods::Pending => Some(Taken::Defer(format!(
                "a pod of the deleted Job {job} has not ended"
            ))),
        })
    }

    /// The cluster's side of the gate: write the cluster lease, then look at the
    /// machines' and pools' run leases (leases.md §6.1). The write precedes the
    /// read on both sides, so at least one of the two sees the other.
    async fn gate(
        &self,
        claims: &Claims,
        now: Timestamp,
        running: RunningJobs<'_>,
    ) -> Result<Gate, ApiError> {
        let Some(claim) = &claims.cluster else {
            return Ok(Gate::Open(None));
        };
        let lease = match self.acquire(claim, now).await? {
            Acquired::Ours { lease, .. } => lease,
            Acquired::Busy { holder } => return Ok(Gate::Closed(wait_for(claim, holder))),
        };
        let mut holders = self
            .live_machine_operations(&claim.namespace, &claim.cluster, now)
            .await?;
        if holders.is_empty() {
            holders = running();
        }
        Ok(if holders.is_empty() {
            Gate::Open(Some(lease))
        } else {
            Gate::Closed(Wait::MachineOperations { holders })
        })
    }

    /// Jobs of machines and pools of the cluster that apply, destroy or restore
    /// (leases.md §6.3), sorted.
    ///
    /// # Errors
    /// When the list or any judgement fails: a conflict cannot be ruled out then.
    pub async fn live_machine_operations(
        &self,
        namespace: &str,
        cluster: &str,
        now: Timestamp,
    ) -> Result<Vec<String>, ApiError> {
        let selection = ListParams::default().labels(&format!(
            "{}={},{}={},{}=true",
            key::LEASE,
            LeaseScope::Run.as_str(),
            key::CLUSTER_NAME,
            label_value(cluster),
            key::MANAGED
        ));
        let leases = self
            .access
            .list(&self.access.api::<Lease>(namespace), &selection)
            .await?;
        let mut holders = Vec::new();
        for lease in &leases {
            let view = LeaseView::read(lease);
            let mutating = view.op.parse::<Op>().is_ok_and(Op::mutating);
            let machine = lease
                .labels()
                .get(key::OWNER_KIND)
                .is_some_and(|kind| kind != Kind::TerraformCluster.as_str());
            if machine && mutating && !self.state(&view, now).await?.is_free() {
                holders.push(view.holder);
            }
        }
        holders.sort();
        Ok(holders)
    }
}

enum Gate {
    Open(Option<Box<Lease>>),
    Closed(Wait),
}

fn wait_for(claim: &Claim, holder: String) -> Wait {
    Wait::RunLease {
        scope: claim.scope,
        lease: claim.lease.clone(),
        holder,
    }
}
