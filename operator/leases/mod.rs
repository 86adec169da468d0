//! Acting on the two leases: take, gate, fence, give back (seed: Leases and the
//! Operation Gate; leases.md §4 to §8).
//!
//! Every decision is a function of [`crate::lease`]; this module reads what it asks
//! for, live, and writes with the uid and resourceVersion it read.

mod evidence;
mod fence;
mod release;
mod take;

use k8s_openapi::api::coordination::v1::Lease;

use crate::client::Access;
use crate::lease::Claim;

pub use fence::{Fenced, PauseCheck};
pub use release::HeldBy;
pub use take::{Acquired, Taken};

/// The leases that one start takes: the run lease, and for a mutating operation of
/// a cluster behind the gate the cluster write lease, in this order.
#[derive(Debug, Clone)]
pub struct Claims {
    /// The object's run lease.
    pub run: Claim,
    /// The cluster write lease; only a TerraformCluster takes it.
    pub cluster: Option<Claim>,
}

impl Claims {
    /// Names of the leases, run lease first.
    #[must_use]
    pub fn lease_names(&self) -> Vec<&str> {
        std::iter::once(&self.run)
            .chain(&self.cluster)
            .map(|claim| claim.lease.as_str())
            .collect()
    }
}

/// The leases as this pass last wrote or read them.
#[derive(Debug, Clone)]
pub struct Held {
    /// The run lease.
    pub run: Lease,
    /// The cluster write lease, when it was claimed.
    pub cluster: Option<Lease>,
}

/// Names of unfinished mutating Jobs on the other side of the gate, from the Job
/// cache (leases.md §6.4): a module can tamper with Leases, not with Jobs.
pub type RunningJobs<'a> = &'a (dyn Fn() -> Vec<String> + Send + Sync);

/// The operator's hands on Leases.
#[derive(Debug, Clone)]
pub struct Leases {
    access: Access,
}

impl Leases {
    /// Acts through `access`.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self { access }
    }
}
