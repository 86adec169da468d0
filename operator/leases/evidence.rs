//! Live reads that the rules ask for: a holder's Job, its pods, whole judgements.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;

use super::Leases;
use crate::client::ApiError;
use crate::lease::{Evidence, HolderJob, HolderPod, Judgement, LeaseState, LeaseView, judge};

/// The label the Job controller puts on a Job's pods.
const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";

impl Leases {
    /// The state of a lease by the free rule, reading no more than the rule asks
    /// for (leases.md §4).
    ///
    /// # Errors
    /// When a read fails: an error is not "free".
    pub async fn state(&self, lease: &LeaseView, now: Timestamp) -> Result<LeaseState, ApiError> {
        let (mut job, mut pods) = (Evidence::NotRead, Evidence::NotRead);
        loop {
            match judge(lease, now, &job, &pods) {
                Judgement::NeedJob => {
                    job = Evidence::Read(self.holder_job(&lease.namespace, &lease.holder).await?);
                }
                Judgement::NeedPods => {
                    pods = Evidence::Read(self.holder_pods(&lease.namespace, &lease.holder).await?);
                }
                Judgement::State(state) => return Ok(state),
            }
        }
    }

    /// Reads a Lease live.
    ///
    /// # Errors
    /// When the read fails for another reason than absence.
    pub async fn read(&self, namespace: &str, name: &str) -> Result<Option<Lease>, ApiError> {
        self.access
            .get(&self.access.api::<Lease>(namespace), name)
            .await
    }

    /// Is the lease there and not free (leases.md §4, `live`)? Answers with its
    /// holder.
    ///
    /// # Errors
    /// When a read fails.
    pub async fn live_holder(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>, ApiError> {
        let Some(lease) = self.read(namespace, name).await? else {
            return Ok(None);
        };
        let view = LeaseView::read(&lease);
        let state = self.state(&view, self.access.now()).await?;
        Ok((!state.is_free()).then_some(view.holder))
    }

    pub(super) async fn holder_job(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<HolderJob, ApiError> {
        let job = self
            .access
            .get(&self.access.api::<Job>(namespace), name)
            .await?;
        Ok(HolderJob::of(job.as_ref()))
    }

    pub(super) async fn holder_pods(
        &self,
        namespace: &str,
        job: &str,
    ) -> Result<Vec<HolderPod>, ApiError> {
        Ok(self
            .pods_of(namespace, job)
            .await?
            .iter()
            .map(HolderPod::of)
            .collect())
    }

    pub(super) async fn pods_of(&self, namespace: &str, job: &str) -> Result<Vec<Pod>, ApiError> {
        let selection = ListParams::default().labels(&format!("{JOB_NAME_LABEL}={job}"));
        self.access
            .list(&self.access.api::<Pod>(namespace), &selection)
            .await
    }
}
