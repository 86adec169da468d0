//! Giving leases back (seed: Release; leases.md §8).

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;

use super::{Claims, Leases};
use crate::client::{ApiError, Deletion, Guard};
use crate::lease::{Claim, Evidence, LeaseView, ReleaseMoment, may_release};
use crate::names::{ObjectKey, key};

impl Leases {
    /// Gives back those of `claims` (of one Job) that its name holds, if that is
    /// safe: the leases are read first, then the Job, then its pods, and each is
    /// deleted with the uid and resourceVersion of the first read, so that a lease
    /// another Job took in the meantime stays.
    ///
    /// A failure to release is only logged: a lease whose Job finished is free
    /// anyway, and the next Job takes it over (seed: Release).
    pub async fn release(&self, claims: &[&Claim], moment: ReleaseMoment) {
        if let Err(error) = self.try_release(claims, moment).await {
            tracing::warn!(error = %error, "a lease could not be given back");
        }
    }

    /// R2 and R3: gives back both leases of a start that created no Job.
    pub async fn give_back(&self, claims: &Claims) {
        let both: Vec<&Claim> = std::iter::once(&claims.run)
            .chain(&claims.cluster)
            .collect();
        self.release(&both, ReleaseMoment::Unstarted).await;
    }

    async fn try_release(&self, claims: &[&Claim], moment: ReleaseMoment) -> Result<(), ApiError> {
        let Some(first) = claims.first() else {
            return Ok(());
        };
        let (namespace, holder) = (first.namespace.as_str(), first.holder.as_str());
        let mut held = Vec::new();
        for claim in claims {
            let lease = self.read(namespace, &claim.lease).await?;
            held.extend(lease.filter(|lease| LeaseView::read(lease).holder == holder));
        }
        if held.is_empty() {
            return Ok(());
        }
        let job = Evidence::Read(self.holder_job(namespace, holder).await?);
        let pods = Evidence::Read(self.holder_pods(namespace, holder).await?);
        if !may_release(moment, &job, &pods, self.access.now(), first.backstop) {
            tracing::debug!(
                job = holder,
                "the Job or a pod of it may still run: its leases stay"
            );
            return Ok(());
        }
        let api = self.access.api::<Lease>(namespace);
        for lease in held {
            let name = lease.metadata.name.clone().unwrap_or_default();
            if self
                .access
                .delete(&api, &name, &Guard::exact(&lease))
                .await?
                == Deletion::Deleted
            {
                tracing::debug!(lease = name, job = holder, "gave the lease back");
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
