//! Giving leases back (seed: Release; leases.md §8).

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;

use super::{Claims, Leases};
use crate::client::{ApiError, Deletion, Guard};
use crate::lease::{Evidence, LeaseView, ReleaseMoment, may_release};
use crate::names::{JobName, ObjectKey, key};

/// The leases that a Job may hold, by name; they are given back together.
#[derive(Debug, Clone, Copy)]
pub struct HeldBy<'a> {
    /// Namespace of the Job and its leases.
    pub namespace: &'a str,
    /// The Job.
    pub job: &'a JobName,
    /// Names of the run lease and, for a cluster, the cluster write lease.
    pub leases: &'a [&'a str],
}

impl HeldBy<'_> {
    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.job)
    }
}

impl Leases {
    /// Gives back those of the leases that the Job's name holds, if that is safe: the leases are read
    /// first, then the Job, then its pods, and each is deleted with the uid and resourceVersion of the
    /// first read, so that a lease another Job took in the meantime stays.
    ///
    /// A failure to release is only logged: a lease whose Job finished is free anyway, and the next Job
    /// takes it over (seed: Release).
    pub async fn release(&self, held: HeldBy<'_>, moment: ReleaseMoment) {
        if let Err(error) = self.try_release(held, moment).await {
            tracing::warn!(Job = held.full_name(), error = %error, "the leases of a Job could not be given back");
        }
    }

    /// R2 and R3: gives back both leases of a start that created no Job.
    pub async fn give_back(&self, claims: &Claims) {
        let names = claims.lease_names();
        let held = HeldBy {
            namespace: &claims.run.namespace,
            job: &claims.run.holder,
            leases: &names,
        };
        self.release(held, ReleaseMoment::Unstarted).await;
    }

    async fn try_release(&self, held: HeldBy<'_>, moment: ReleaseMoment) -> Result<(), ApiError> {
        let mut ours = Vec::new();
        for name in held.leases {
            let lease = self.read(held.namespace, name).await?;
            ours.extend(lease.filter(|lease| LeaseView::read(lease).holder == held.job.as_str()));
        }
        let Some(first) = ours.first() else {
            return Ok(());
        };
        let backstop = LeaseView::read(first).backstop;
        let job = Evidence::Read(self.holder_job(held.namespace, held.job.as_str()).await?);
        let pods = Evidence::Read(self.holder_pods(held.namespace, held.job.as_str()).await?);
        if !may_release(moment, &job, &pods, self.access.now(), backstop) {
            tracing::debug!(
                Job = held.full_name(),
                "the Job or a pod of it may still run: its leases stay"
            );
            return Ok(());
        }
        let api = self.access.api::<Lease>(held.namespace);
        for lease in ours {
            let name = lease.metadata.name.clone().unwrap_or_default();
            if self
                .access
                .delete(&api, &name, &Guard::exact(&lease))
                .await?
                == Deletion::Deleted
            {
                tracing::debug!(lease = name, Job = held.full_name(), "gave the lease back");
            }
        }
        Ok(())
    }

    /// R4: deletes every run and cluster lease with the object's owner labels,
    /// whoever holds it, when the object is cleaned up. The backend's state lock
    /// carries the same owner labels but not `captf.io/lease`, and stays.
    ///
    /// # Errors
    /// When the list or a delete fails.
    pub async fn delete_all_of(&self, object: &ObjectKey) -> Result<(), ApiError> {
        let mut selector = vec![key::LEASE.to_owned()];
        selector.extend(
            object
                .owner_labels()
                .iter()
                .map(|(key, value)| format!("{key}={value}")),
        );
        let api = self.access.api::<Lease>(&object.namespace);
        let selection = ListParams::default().labels(&selector.join(","));
        for lease in self.access.list(&api, &selection).await? {
            let (name, uid) = (
                lease.metadata.name.unwrap_or_default(),
                lease.metadata.uid.unwrap_or_default(),
            );
            self.access.delete(&api, &name, &Guard::uid(&uid)).await?;
        }
        Ok(())
    }
}
