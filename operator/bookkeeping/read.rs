//! Reading the Jobs of one object and what their pods left.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::ResourceExt as _;

use crate::api::keys::labels;
use crate::client::{Access, ApiError};
use crate::jobs::facts::JobFacts;
use crate::jobs::history::{History, Readings};
use crate::jobs::outcome::{LockVersion, Reading};
use crate::jobs::pod::PodFacts;
use crate::names::{ObjectKey, Op};
use crate::operator::cache::Caches;

/// The Jobs of one object as this pass sees them.
#[derive(Debug, Default)]
pub struct JobsRead {
    /// From the cache, the owner's and its namesakes'.
    pub jobs: Vec<JobFacts>,
    /// What was read of finished Jobs that are not bookkept, by uid.
    pub readings: Readings,
    /// The state lock, when a failed apply left nothing else to judge by.
    pub lock: Option<LockVersion>,
}

impl JobsRead {
    /// Sorted and judged.
    #[must_use]
    pub fn history(&self, uid: &str) -> History<'_> {
        History::new(&self.jobs, uid, &self.readings, self.lock.as_ref())
    }
}

/// Reads the object's Jobs from the cache, and live the pods of those whose result is not recorded yet;
/// a pod that is gone is answered by what the pod watch last saw (decision 12).
///
/// # Errors
/// When a list of pods fails: a result that could not be read is not a missing one.
pub async fn read(
    access: &Access,
    caches: &Caches,
    object: &ObjectKey,
    uid: &str,
) -> Result<JobsRead, ApiError> {
    loop {
        let read = read_once(access, caches, object, uid).await?;
        // The mark came in between: what was remembered of the pods is dropped with it.
        let marked = |job: &JobFacts| job.is_bookkept() && read.readings.contains_key(&job.uid);
        if !caches.jobs_of(object).iter().any(marked) {
            return Ok(read);
        }
    }
}

async fn read_once(
    access: &Access,
    caches: &Caches,
    object: &ObjectKey,
    uid: &str,
) -> Result<JobsRead, ApiError> {
    let mut read = JobsRead {
        jobs: caches.jobs_of(object),
        ..JobsRead::default()
    };
    let unread = |job: &&JobFacts| {
        job.is_controlled_by(uid) && job.state.is_finished() && !job.is_bookkept()
    };
    let mut lock_matters = false;
    for job in read.jobs.iter().filter(unread) {
        let pods = pods_of(access, &object.namespace, &job.name).await?;
        let mut reading = Reading::of(&job.uid, &pods);
        if reading.pod.is_none()
            && let Some(seen) = caches.last_seen_pod(&job.uid)
        {
            reading = Reading::of(&job.uid, &[seen]);
        }
        lock_matters |= job.op == Some(Op::Apply) && reading.pod.is_none();
        read.readings.insert(job.uid.clone(), reading);
    }
    if lock_matters {
        read.lock = lock_version(access, object).await;
    }
    Ok(read)
}

/// The pods of a Job name, live.
///
/// # Errors
/// When the list fails.
pub async fn pods_of(
    access: &Access,
    namespace: &str,
    job: &str,
) -> Result<Vec<PodFacts>, ApiError> {
    let selection = ListParams::default().labels(&format!("{}={job}", labels::BATCH_JOB_NAME));
    let pods = access
        .list(&access.api::<Pod>(namespace), &selection)
        .await?;
    Ok(pods.iter().map(PodFacts::from).collect())
}

/// The state lock's resourceVersion; a failed read proves nothing and clears nobody.
async fn lock_version(access: &Access, object: &ObjectKey) -> Option<LockVersion> {
    let api = access.api::<Lease>(&object.namespace);
    match access.get(&api, &object.suffix().lock_lease()).await {
        Ok(None) => Some(LockVersion::Absent),
        Ok(Some(lease)) => Some(LockVersion::At(
            lease.resource_version().unwrap_or_default(),
        )),
        Err(_) => None,
    }
}
