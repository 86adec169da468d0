#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::TerraformCluster;
use crate::operator::cache::Typed;

type Wired = Guarded<Typed<TerraformCluster>>;

fn cluster(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
        "metadata": {
            "name": name, "namespace": "ns", "resourceVersion": version, "uid": "u",
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
        },
        "spec": {"source": {"image": "ghcr.io/example/module:v1"}}
    })
}

fn broken(name: &str, version: &str) -> Value {
    let mut object = cluster(name, version);
    object["spec"] = json!({"source": "not an object"});
    object
}

fn decoded(object: &Value) -> Wired {
    serde_json::from_str(&object.to_string()).unwrap()
}

/// What a subscriber was told, as words.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Subscriber<TerraformCluster> for Told {
    fn changed(&self, change: &Change<TerraformCluster>, priority: Priority) {
        let name = change.latest().metadata.name.clone().unwrap();
        let what = match change {
            Change::Added(_) => "added",
            Change::Updated { .. } => "updated",
            Change::Deleted(_) => "deleted",
        };
        self.0
            .lock()
            .unwrap()
            .push(format!("{what} {name} {priority:?}"));
    }
}

impl Told {
    fn words(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn feed(
    store: &Store<TerraformCluster>,
    told: &Told,
    events: impl IntoIterator<Item = watcher::Event<Wired>>,
) {
    for event in events {
        take_in(event, store, told);
    }
}

#[test]
fn the_first_list_is_of_low_priority_and_events_are_not() {
    let (store, told) = (Store::default(), Told::default());
    let (listed, written) = (decoded(&cluster("a", "1")), decoded(&cluster("a", "2")));
    feed(
        &store,
        &told,
        [
            watcher::Event::Init,
            watcher::Event::InitApply(listed),
            watcher::Event::InitDone,
            watcher::Event::Apply(written.clone()),
            watcher::Event::Delete(written),
        ],
    );
    assert_eq!(
        told.words(),
        ["added a Low", "updated a Normal", "deleted a Normal"]
    );
}

#[test]
fn a_later_list_brings_what_was_missed() {
    let (store, told) = (Store::default(), Told::default());
    let list = |names: &[&str]| {
        let mut events = vec![watcher::Event::Init];
        events.extend(
            names
                .iter()
                .map(|name| watcher::Event::InitApply(decoded(&cluster(name, "1")))),
        );
        events.push(watcher::Event::InitDone);
        events
    };
    feed(&store, &told, list(&["a", "b"]));
    feed(&store, &told, list(&["b", "c"]));
    assert_eq!(told.words()[2..], ["added c Normal", "deleted a Normal"]);
}

// engineering.md P5
#[test]
fn an_object_that_does_not_decode_stops_nothing() {
    let (store, told) = (Store::default(), Told::default());
    feed(
        &store,
        &told,
        [
            watcher::Event::Init,
            watcher::Event::InitApply(decoded(&broken("x", "1"))),
            watcher::Event::InitApply(decoded(&cluster("a", "1"))),
            watcher::Event::InitDone,
            watcher::Event::Apply(decoded(&broken("a", "2"))),
        ],
    );
    assert_eq!(told.words(), ["added a Low"]);
    assert!(
        store.get("ns", "a").is_some(),
        "the last state that decoded stays"
    );
    feed(
        &store,
        &told,
        [watcher::Event::Delete(decoded(&broken("a", "3")))],
    );
    assert_eq!(told.words(), ["added a Low", "deleted a Normal"]);
}

#[test]
fn what_does_not_decode_names_itself_and_why() {
    let object = decoded(&broken("x", "1")).decoded().unwrap_err();
    assert_eq!(object.name(), crate::operator::cache::Name::new("ns", "x"));
    let text = object.to_string();
    assert!(
        text.starts_with("TerraformCluster ns/x: ") && text.contains("not an object"),
        "{text}"
    );
}

#[test]
fn managed_fields_are_not_kept() {
    let view = decoded(&cluster("a", "1")).decoded().unwrap().view();
    assert_eq!(view.metadata.managed_fields, None);
    assert_eq!(view.metadata.uid.as_deref(), Some("u"));
}

/// An API server that gives these answers in this order and then hangs.
fn server(answers: Vec<(u16, String)>) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let service = tower::service_fn(move |request: Request<Body>| {
        requests.lock().unwrap().push(request.uri().to_string());
        let answer = answers.lock().unwrap().next();
        async move {
            match answer {
                Some((status, body)) => Ok::<_, std::convert::Infallible>(
                    Response::builder()
                        .status(status)
                        .body(Body::from(body.into_bytes()))
                        .unwrap(),
                ),
                None => std::future::pending().await,
            }
        }
    });
    (kube::Client::new(service, "default"), seen)
}

/// Waits until `done`, at most a minute of the paused clock.
async fn until(done: impl Fn() -> bool, seen: impl Fn() -> String) {
    for _ in 0..6_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a minute; seen: {}", seen());
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "9"}, "items": items}).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_list_with_a_broken_object_and_a_watch_fill_the_store() {
    // As the API server writes it: the type comes first.
    let event = format!(r#"{{"type":"ADDED","object":{}}}"#, cluster("b", "10"));
    let (client, seen) = server(vec![
        (200, list(&[broken("x", "1"), cluster("a", "2")])),
        (200, format!("{event}\n")),
    ]);
    let (store, told) = (
        Arc::new(Store::<TerraformCluster>::default()),
        Told::default(),
    );
    let watch = tokio::spawn(keep(
        Api::<Wired>::all(client),
        Some("l=v"),
        Arc::clone(&store),
        told.clone(),
    ));
    store.synced().await;
    until(
        || store.get("ns", "b").is_some(),
        || format!("{:?}", told.words()),
    )
    .await;
    assert_eq!(told.words(), ["added a Low", "added b Normal"]);
    let path = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/terraformclusters?";
    let requests = seen.lock().unwrap().clone();
    assert_eq!(requests[0], format!("{path}&labelSelector=l%3Dv&limit=100"));
    assert!(
        requests[1].starts_with(path) && requests[1].contains("&resourceVersion=9"),
        "{requests:?}"
    );
    watch.abort();
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_waited_for_without_a_hot_loop() {
    let missing = (404, "404 page not found\n".to_owned());
    let (client, seen) = server(vec![
        missing.clone(),
        missing.clone(),
        missing,
        (200, list(&[cluster("a", "1")])),
    ]);
    let store = Arc::new(Store::<TerraformCluster>::default());
    let start = tokio::time::Instant::now();
    let watch = tokio::spawn(keep(
        Api::<Wired>::all(client),
        None,
        Arc::clone(&store),
        Told::default(),
    ));
    store.synced().await;
    assert!(
        start.elapsed() >= Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let lists = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|request| !request.contains("watch=true"))
        .count();
    assert_eq!(lists, 4);
    watch.abort();
}

fn status(code: u16) -> watcher::Error {
    let status = kube::core::Status::failure("no", "reason").with_code(code);
    watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)))
}

#[rstest]
#[case(
    404,
    "the API server does not serve TerraformCluster of infrastructure.cluster.x-k8s.io/v1alpha1: install the CustomResourceDefinition terraformclusters.infrastructure.cluster.x-k8s.io; nothing of this kind is reconciled until then"
)]
#[case(
    403,
    "the manager may not list and watch terraformclusters.infrastructure.cluster.x-k8s.io: install its ClusterRole and binding"
)]
fn an_error_names_the_remedy(#[case] code: u16, #[case] expected: &str) {
    let text = Trouble::of::<Typed<TerraformCluster>>().explain(&status(code));
    assert!(text.starts_with(expected), "{text}");
}
