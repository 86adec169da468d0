//! What finished Jobs left: read once, recorded, counted exactly once (jobs.md §7; failover.md C13 to
//! C18).
//!
//! The results live in the status patch of the pass. Only after that patch succeeded are the Jobs
//! marked ([`mark_bookkept`]); a lost patch makes the next pass read them again.

mod read;
mod settle;

use k8s_openapi::api::batch::v1::Job;
use serde_json::json;

pub use read::{JobsRead, pods_of, read};
pub use settle::{Settled, settle};

use crate::client::{Access, ApiError};
use crate::jobs::facts::JobFacts;
use crate::jobs::history::History;

/// Marks the finished Jobs that this pass read, now that the status patch which records them succeeded.
/// Failures are logged: such a Job is read again next time.
pub async fn mark_bookkept(access: &Access, namespace: &str, history: &History<'_>) {
    for finished in history.unread() {
        let patch = json!({"metadata": {"uid": finished.job.uid, "annotations": finished.marks()}});
        match access
            .patch(&access.api::<Job>(namespace), &finished.job.name, &patch)
            .await
        {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                tracing::warn!(Job = format!("{namespace}/{}", finished.job.name), error = %error, "a Job could not be marked bookkept")
            }
        }
    }
}

/// Deletes Jobs that no limit keeps (jobs.md §7.5).
///
/// # Errors
/// The first delete that fails.
pub async fn prune(access: &Access, namespace: &str, jobs: &[&JobFacts]) -> Result<(), ApiError> {
    for job in jobs {
        let guard = crate::client::Guard::uid(&job.uid);
        access
            .delete(&access.api::<Job>(namespace), &job.name, &guard)
            .await?;
    }
    Ok(())
}
