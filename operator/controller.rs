//! A controller: workers that take keys from a queue and run passes (engineering.md §4.4).

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::cluster::{self, PassError, Requeue};
use super::context::Context;
use super::metrics::{ControllerMetrics, PassResult};
use super::queue::{Outcome, WorkQueue};
use crate::names::ObjectKey;
use crate::owner;

/// Name of the controller of TerraformClusters, in logs and metrics.
pub const CLUSTER_CONTROLLER: &str = "terraformcluster";

/// Starts `workers` workers of the TerraformCluster controller; they end when the queue is shut down and
/// their pass is over.
pub fn start(
    context: &Context,
    queue: &WorkQueue<ObjectKey>,
    metrics: &ControllerMetrics,
    workers: usize,
) -> JoinSet<()> {
    let mut running = JoinSet::new();
    for _ in 0..workers {
        running.spawn(work(context.clone(), queue.clone(), metrics.clone()));
    }
    running
}

async fn work(context: Context, queue: WorkQueue<ObjectKey>, metrics: ControllerMetrics) {
    while let Some(item) = queue.next().await {
        let outcome = run(&context, item.key(), &metrics).await;
        item.finish(outcome);
    }
}

/// One pass, with its span, its time and its panic caught: a panic is an error of this object, never the
/// end of the operator.
async fn run(context: &Context, key: &ObjectKey, metrics: &ControllerMetrics) -> Outcome {
    context.caches.shows_own_writes(key).await;
    let _busy = metrics.pass_started();
    let begun = Instant::now();
    let span = span(key, cluster_of(context, key));
    let pass = cluster::reconcile(context, &key.namespace, &key.name).instrument(span.clone());
    let ended = AssertUnwindSafe(pass).catch_unwind().await;
    let _entered = span.enter();
    let (outcome, result) = judge(ended, metrics);
    metrics.pass_ended(result, begun.elapsed());
    outcome
}

/// What every line of a pass carries (manager.md §7). `cluster` is the name of the owning Cluster.
fn span(key: &ObjectKey, cluster: Option<String>) -> tracing::Span {
    let full = |name: &str| format!("{}/{name}", key.namespace);
    tracing::info_span!(
        "reconcile",
        controller = CLUSTER_CONTROLLER,
        namespace = key.namespace,
        name = key.name,
        TerraformCluster = full(&key.name),
        Cluster = cluster.map(|cluster| full(&cluster)),
        reconcile_id = pass_number(),
    )
}

fn cluster_of(context: &Context, key: &ObjectKey) -> Option<String> {
    let object = context
        .caches
        .terraform_cluster(&key.namespace, &key.name)?;
    Some(owner::cluster_name(&object.metadata)).filter(|cluster| !cluster.is_empty())
}

fn judge(
    ended: Result<Result<Requeue, PassError>, Box<dyn Any + Send>>,
    metrics: &ControllerMetrics,
) -> (Outcome, PassResult) {
    match ended {
        Ok(Ok(None)) => (Outcome::Done, PassResult::Success),
        Ok(Ok(Some(after))) => (
            Outcome::DoneAgainAfter(after.max(Duration::from_millis(1))),
            PassResult::RequeueAfter,
        ),
        Ok(Err(error)) if error.is_conflict() => {
            tracing::debug!(error = %error, "the object changed during the pass; the next one reads it anew");
            (Outcome::Failed, PassResult::Error)
        }
        Ok(Err(error)) => {
            tracing::error!(error = %error, "Reconciler error");
            (Outcome::Failed, PassResult::Error)
        }
        Err(panic) => {
            metrics.pass_panicked();
            tracing::error!(panic = panic_text(&panic), "a pass panicked");
            (Outcome::Failed, PassResult::Error)
        }
    }
}

fn panic_text(panic: &Box<dyn Any + Send>) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

fn pass_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;
    use crate::operator::logging::testing::written;

    #[test]
    fn a_line_of_a_pass_names_object_and_cluster_as_kubernetes_components_do() {
        let key = ObjectKey::new(Kind::TerraformCluster, "team-a", "prod-infra");
        let line = written(0, || {
            span(&key, Some("prod".to_owned())).in_scope(|| tracing::info!("something happened"));
        });
        for part in [
            r#"controller="terraformcluster""#,
            r#" namespace="team-a""#,
            r#" name="prod-infra""#,
            r#" TerraformCluster="team-a/prod-infra""#,
            r#" Cluster="team-a/prod""#,
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }
}
