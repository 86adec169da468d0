//! Progress as Kubernetes events, best effort (runner.md §12).
//!
//! Events are sent beside the run: a slow or unreachable API server never delays a step or the result.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference as CoreReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client, Config};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::request::{ObjectReference, Request};
use crate::client::{Clock, connect};
use crate::text::cut;

/// Who reports.
const CONTROLLER: &str = "captf.io/runner";
/// Most bytes of an event's note.
const MAX_NOTE: usize = 1024;
/// Most bytes of the object's name inside an event's name.
const MAX_NAME: usize = 200;
/// Most bytes of action and reporting instance.
const MAX_FIELD: usize = 128;
/// How long one event may take.
const POST_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the events that are left may take once the result is written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// After this many failures in a row no more events are sent.
const MAX_FAILURES: u32 = 3;

/// Something to tell about the run.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) reason: &'static str,
    pub(super) warning: bool,
    /// The operation or the step.
    pub(super) action: &'static str,
    /// Redacted.
    pub(super) text: String,
}

/// The way to the API server.
pub(super) struct Events {
    sender: Option<UnboundedSender<(Timestamp, Note)>>,
    worker: Option<JoinHandle<()>>,
    clock: Clock,
}

impl Events {
    /// Events about the request's object; none without one, or outside a cluster. Must be called inside a runtime.
    pub(super) fn start(request: &Request) -> Self {
        let target = request.event_object.clone().map(|object| Target {
            object,
            job_name: request.job_name.clone(),
            instance: std::env::var("HOSTNAME").unwrap_or_default(),
        });
        match target {
            Some(target) if in_cluster() => Self::sending(target, connect_in_cluster),
            _ => Self {
                sender: None,
                worker: None,
                clock: Clock::system(),
            },
        }
    }

    fn sending(
        target: Target,
        new_client: impl Fn() -> Result<Client, String> + Send + Sync + 'static,
    ) -> Self {
        let (sender, receiver) = unbounded_channel();
        let worker = tokio::spawn(send_all(target, receiver, new_client));
        Self {
            sender: Some(sender),
            worker: Some(worker),
            clock: Clock::system(),
        }
    }

    /// Sends a note, some time.
    pub(super) fn send(&self, note: Note) {
        if let Some(sender) = &self.sender {
            // Fails only when sending was given up.
            let _ = sender.send((self.clock.raw(), note));
        }
    }

    /// Sends what is left, within a limit.
    pub(super) async fn close(self) {
        drop(self.sender);
        if let Some(worker) = self.worker {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, worker).await;
        }
    }
}

/// Whether the pod has what a client needs.
fn in_cluster() -> bool {
    Config::incluster().is_ok()
}

/// A client with the token as it is now: tokens are renewed in place.
fn connect_in_cluster() -> Result<Client, String> {
    let config = Config::incluster().map_err(|e| e.to_string())?;
    connect(&config, &Clock::system()).map_err(|e| e.to_string())
}

/// What events are about.
struct Target {
    object: ObjectReference,
    job_name: String,
    instance: String,
}

async fn send_all(
    target: Target,
    mut notes: UnboundedReceiver<(Timestamp, Note)>,
    new_client: impl Fn() -> Result<Client, String>,
) {
    let mut names = Names::default();
    let mut failures = 0;
    let mut told = false;
    while let Some((at, note)) = notes.recv().await {
        let event = target.event(&names.next(&target.object.name, at), at, note);
        match post(&target.object.namespace, &event, &new_client).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                if !told {
                    tracing::warn!(%error, "an event about this run cannot be sent; the run goes on");
                    told = true;
                }
            }
        }
        if failures == MAX_FAILURES {
            return;
        }
    }
}

async fn post(
    namespace: &str,
    event: &Event,
    new_client: impl Fn() -> Result<Client, String>,
) -> Result<(), String> {
    let api: Api<Event> = Api::namespaced(new_client()?, namespace);
    match tokio::time::timeout(POST_TIMEOUT, api.create(&PostParams::default(), event)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", POST_TIMEOUT.as_secs())),
    }
}

/// Names events so that no two of a run are the same.
#[derive(Default)]
struct Names {
    last: i128,
}

impl Names {
    /// `<object name>.<hexadecimal nanoseconds>`, strictly increasing.
    fn next(&mut self, object: &str, at: Timestamp) -> String {
        self.last = at.as_nanosecond().max(self.last + 1);
        format!(
            "{}.{:x}",
            cut(object, MAX_NAME).trim_end_matches(['-', '.']),
            self.last
        )
    }
}

impl Target {
    fn event(&self, name: &str, at: Timestamp, note: Note) -> Event {
        let instance = if self.instance.is_empty() {
            "unknown"
        } else {
            &self.instance
        };
        Event {
            action: Some(cut(note.action, MAX_FIELD).to_owned()),
            event_time: Some(MicroTime(at)),
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.object.namespace.clone()),
                ..ObjectMeta::default()
            },
            note: Some(cut(&note.text, MAX_NOTE).to_owned()),
            reason: Some(note.reason.to_owned()),
            regarding: Some(CoreReference {
                api_version: Some(self.object.api_version.clone()),
                kind: Some(self.object.kind.clone()),
                name: Some(self.object.name.clone()),
                namespace: Some(self.object.namespace.clone()),
                uid: Some(self.object.uid.clone()),
                ..CoreReference::default()
            }),
            related: (!self.job_name.is_empty()).then(|| CoreReference {
                api_version: Some("batch/v1".to_owned()),
                kind: Some("Job".to_owned()),
                name: Some(self.job_name.clone()),
                namespace: Some(self.object.namespace.clone()),
                ..CoreReference::default()
            }),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(cut(instance, MAX_FIELD).to_owned()),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tower_test::mock::{Handle, pair};

    use super::*;

    fn target() -> Target {
        Target {
            object: ObjectReference {
                api_version: "infrastructure.cluster.x-k8s.io/v1alpha1".to_owned(),
                kind: "TerraformCluster".to_owned(),
                namespace: "team-a".to_owned(),
                name: "prod".to_owned(),
                uid: "u1".to_owned(),
            },
            job_name: "captf-c-prod-apply-a1-44bb70".to_owned(),
            instance: "captf-c-prod-apply-a1-44bb70-x4k8d".to_owned(),
        }
    }

    fn note(text: &str) -> Note {
        Note {
            reason: "StepFailed",
            warning: true,
            action: "apply",
            text: text.to_owned(),
        }
    }

    fn time() -> Timestamp {
        Timestamp::from_nanosecond(1_767_225_600_123_456_789).unwrap()
    }

    /// Sends notes to an API server that answers each with this status, and returns the requests it saw.
    async fn sent(notes: usize, status: u16) -> Vec<(String, serde_json::Value)> {
        let (service, mut handle): (_, Handle<Request<Body>, Response<Body>>) = pair();
        let client = Client::new(service, "default");
        let server = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some((request, send)) = handle.next_request().await {
                let line = format!("{} {}", request.method(), request.uri());
                let body = request.into_body().collect_bytes().await.unwrap();
                seen.push((line, serde_json::from_slice(&body).unwrap()));
                let answer = if status == 201 {
                    body.to_vec()
                } else {
                    b"{}".to_vec()
                };
                send.send_response(
                    Response::builder()
                        .status(status)
                        .body(Body::from(answer))
                        .unwrap(),
                );
            }
            seen
        });
        let events = Events::sending(target(), move || Ok(client.clone()));
        for index in 0..notes {
            events.send(note(&index.to_string()));
        }
        events.close().await;
        server.await.unwrap()
    }

    #[test]
    fn an_event_names_object_job_and_pod() {
        let event = target().event("prod.1", time(), note("step apply failed"));
        assert_eq!(
            serde_json::to_value(event).unwrap(),
            json!({
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "prod.1", "namespace": "team-a"},
                "eventTime": "2026-01-01T00:00:00.123456Z",
                "reportingController": "captf.io/runner",
                "reportingInstance": "captf-c-prod-apply-a1-44bb70-x4k8d",
                "action": "apply",
                "reason": "StepFailed",
                "type": "Warning",
                "note": "step apply failed",
                "regarding": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
                    "namespace": "team-a", "name": "prod", "uid": "u1"},
                "related": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team-a",
                    "name": "captf-c-prod-apply-a1-44bb70"},
            })
        );
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let event = target().event("prod.1", time(), note(&"é".repeat(600)));
        assert_eq!(event.note.unwrap(), "é".repeat(512));
    }

    #[test]
    fn names_increase_even_when_the_clock_does_not() {
        let mut names = Names::default();
        assert_eq!(names.next("prod", time()), "prod.18867251f555cd15");
        assert_eq!(names.next("prod", time()), "prod.18867251f555cd16");
        assert!(
            names
                .next(&format!("{}-.", "a".repeat(199)), time())
                .starts_with(&format!("{}.", "a".repeat(199)))
        );
    }

    #[tokio::test]
    async fn every_event_is_posted_in_order() {
        let seen = sent(4, 201).await;
        let notes: Vec<_> = seen
            .iter()
            .map(|(_, body)| body["note"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(notes, ["0", "1", "2", "3"]);
        assert_eq!(
            seen[0].0,
            "POST /apis/events.k8s.io/v1/namespaces/team-a/events?"
        );
    }

    #[tokio::test]
    async fn after_three_failures_no_more_events_are_sent() {
        assert_eq!(sent(5, 403).await.len(), 3);
    }
}
