//! The TerraformCluster controller: read, decide, act, one status patch (lifecycle.md §4 to §14).

mod begin;
mod decision;
mod deletion;
mod hand;
mod inputs;
mod jobs;
mod measure;
mod object;
mod ownership;
mod pass;
mod preamble;
mod provisions;
mod state;
mod status;

use std::time::Duration;

use kube::core::ResourceExt as _;

use crate::api::TerraformCluster;
use crate::api::capi::Cluster;
use crate::client::ApiError;
use crate::lease::WAIT_REQUEUE;
use crate::names::{Kind, ObjectKey};
use crate::operator::context::Context;
use crate::operator::start::StartError;
use crate::owner;

use object::Working;
use pass::Pass;
use preamble::Preamble;

/// When the next pass comes by itself; `None` = only on an event.
pub type Requeue = Option<Duration>;

/// When an object comes back that somebody wrote during its preamble (lifecycle.md §1).
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// A pass that failed; the queue's backoff says when the next one comes.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A Job could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl PassError {
    /// A lost race: somebody wrote the object since it was read. The next pass reads it anew.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Api(error) | Self::Start(StartError::Api(error)) => error.is_conflict(),
            Self::Start(_) => false,
        }
    }
}

/// One pass over the object `namespace/name`.
///
/// # Errors
/// When a request fails; what was finished before is persisted as far as the status patch succeeded.
pub async fn reconcile(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Requeue, PassError> {
    let Some(read) = context.caches.terraform_cluster(namespace, name) else {
        let key = ObjectKey::new(Kind::TerraformCluster, namespace, name);
        context.metrics.object_gone(&key);
        return Ok(None);
    };
    let mut object = Working::new(TerraformCluster::clone(&read));
    let now = context.access.now();
    let before = object.reported().conditions.clone();
    let cluster = owning_cluster(context, &object).await?;
    let requeue = match preamble::run(&context.access, &mut object, cluster, now).await? {
        Preamble::Stop => None,
        Preamble::Wait => Some(WAIT_REQUEUE),
        Preamble::Again => return Ok(Some(AFTER_CONFLICT)),
        Preamble::Go(ownership) => {
            return Box::pin(Pass::new(context, object, *ownership, before, now).run()).await;
        }
    };
    object.note_writes(&context.caches);
    measure::object(&context.metrics, &object, None, None);
    status::announce(context, &object, &before);
    Ok(requeue)
}

/// The Cluster that the owner reference names: from the cache, and live when the cache lacks it, since
/// "gone" closes a gate.
async fn owning_cluster(context: &Context, object: &Working) -> Result<Option<Cluster>, ApiError> {
    let Some(reference) = owner::cluster_reference(object.meta()) else {
        return Ok(None);
    };
    let namespace = object.next.namespace().unwrap_or_default();
    if let Some(cluster) = context.caches.cluster(&namespace, &reference.name) {
        return Ok(Some(Cluster::clone(&cluster)));
    }
    context
        .access
        .get(&context.access.api::<Cluster>(&namespace), &reference.name)
        .await
}
