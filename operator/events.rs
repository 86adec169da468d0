//! Publishing Events for people (conditions-events.md §6; engineering.md §4.7).
//!
//! In the background and bounded: an Event that cannot be written is logged and lost, and never fails or
//! delays a pass. Each is a new object: what is published marks a change, and aggregating by reason
//! would keep the note of the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ObjectMeta, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::Access;
use crate::events::EventData;

/// Events that wait to be written; more than a burst of passes produces.
const BACKLOG: usize = 1024;

/// How long a stopping manager goes on writing Events.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// The name under which the manager reports.
const CONTROLLER: &str = "captf-manager";

/// Namespace of Events about cluster-scoped objects.
const CLUSTER_SCOPED: &str = "default";

/// Where passes put their Events. Clones share the backlog.
#[derive(Debug, Clone)]
pub struct Events {
    backlog: mpsc::Sender<Event>,
    access: Access,
    instance: String,
    /// Nanosecond of the newest name, so that no two Events of this process have the same.
    last: Arc<AtomicI64>,
}

/// The writer behind [`Events`].
#[derive(Debug)]
pub struct Publisher {
    task: JoinHandle<()>,
}

impl Events {
    /// Starts writing Events in the background; `instance` names this process, for example its pod.
    #[must_use]
    pub fn start(access: Access, instance: String) -> (Self, Publisher) {
        let (backlog, mut waiting) = mpsc::channel::<Event>(BACKLOG);
        let writer = access.clone();
        let task = tokio::spawn(async move {
            while let Some(event) = waiting.recv().await {
                let namespace = event.metadata.namespace.clone().unwrap_or_default();
                if let Err(error) = writer
                    .create(&writer.api::<Event>(&namespace), &event)
                    .await
                {
                    tracing::warn!(reason = event.reason, error = %error, "an Event could not be written");
                }
            }
        });
        (
            Self {
                backlog,
                access,
                instance,
                last: Arc::default(),
            },
            Publisher { task },
        )
    }

    /// Publishes an Event about `object`.
    pub fn publish<K: Resource<DynamicType = ()>>(&self, object: &K, event: EventData) {
        let now = self.access.now();
        let event = build(object, event, &self.instance, now, self.unique(now));
        if let Err(error) = self.backlog.try_send(event) {
            tracing::warn!(error = %error, "an Event was dropped: too many wait to be written");
        }
    }
}

impl Events {
    /// The nanosecond of `now`, or the next that names no Event of this process yet.
    fn unique(&self, now: Timestamp) -> i64 {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or_default();
        let next = |last: i64| now.max(last.saturating_add(1));
        match self
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(next(last))
            }) {
            Ok(last) | Err(last) => next(last),
        }
    }
}

impl Publisher {
    /// Waits until what was published is written, for two seconds at most. Every [`Events`] handle must
    /// be dropped before.
    pub async fn flush(self) {
        if tokio::time::timeout(FLUSH_LIMIT, self.task).await.is_err() {
            tracing::warn!("some Events were not written before the stop");
        }
    }
}

fn build<K: Resource<DynamicType = ()>>(
    object: &K,
    data: EventData,
    instance: &str,
    now: Timestamp,
    unique: i64,
) -> Event {
    let meta = object.meta();
    let namespace = meta
        .namespace
        .clone()
        .unwrap_or_else(|| CLUSTER_SCOPED.to_owned());
    let name = meta.name.clone().unwrap_or_default();
    let related = data.related.map(|job| ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(job.name),
        uid: Some(job.uid),
        ..ObjectReference::default()
    });
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{unique:x}", head(&name))),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: Some(data.severity.as_str().to_owned()),
        reason: Some(data.reason.to_owned()),
        action: Some(data.action.to_owned()),
        note: Some(data.note),
        regarding: Some(object.object_ref(&())),
        related,
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

/// As much of the object's name as leaves room for the time in a name of 253 characters.
fn head(name: &str) -> &str {
    let end = name.len().min(220);
    name.get(..end).unwrap_or(name).trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use std::time::Duration;

    use super::{Events, build};
    use crate::api::TerraformCluster;
    use crate::client::{Access, Clock};
    use crate::events::{EventData, RelatedJob};

    #[test]
    fn an_event_names_object_job_and_reporter() {
        let object: TerraformCluster = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
            "metadata": {"name": "prod", "namespace": "team-a", "uid": "u"}, "spec": {"source": {"image": "i"}}
        }))
        .unwrap();
        let data = EventData::warning("JobFailed", "note").about(RelatedJob {
            name: "captf-c-prod-apply-a1-dbb569".into(),
            uid: "j".into(),
        });
        let now = "2026-10-01T12:00:00Z".parse().unwrap();
        let event = build(&object, data, "captf-0", now, 0x18da_660b_2be0_8000);
        let written = serde_json::to_value(&event).unwrap();
        assert_eq!(
            written,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event",
                "metadata": {"name": "prod.18da660b2be08000", "namespace": "team-a"},
                "eventTime": "2026-10-01T12:00:00.000000Z",
                "type": "Warning", "reason": "JobFailed", "action": "Reconcile", "note": "note",
                "regarding": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                    "name": "prod", "namespace": "team-a", "uid": "u"
                },
                "related": {
                    "apiVersion": "batch/v1", "kind": "Job", "name": "captf-c-prod-apply-a1-dbb569",
                    "namespace": "team-a", "uid": "j"
                },
                "reportingController": "captf-manager", "reportingInstance": "captf-0"
            })
        );
    }

    #[tokio::test]
    async fn two_events_of_one_moment_have_two_names() {
        let client = kube::Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| {
                std::future::pending::<
                    Result<http::Response<kube::client::Body>, std::convert::Infallible>,
                >()
            }),
            "default",
        );
        let access = Access::new(client, Clock::system(), Duration::from_secs(1));
        let (events, _publisher) = Events::start(access, "captf-0".to_owned());
        let now = "2026-10-01T12:00:00Z".parse().unwrap();
        let names = [events.unique(now), events.unique(now), events.unique(now)];
        assert!(names[0] < names[1] && names[1] < names[2], "{names:?}");
    }
}
