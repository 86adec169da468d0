#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;

const TIMES: Election = Election {
    lease_duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
    release_on_exit: false,
};

/// What the API server answers next.
enum Answer {
    Status(u16, Value),
    Silence,
}

#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<(Method, Value)>>>,
}

impl Server {
    fn answering(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            seen: Arc::default(),
        }
    }

    fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// Method and body of every request so far.
    fn seen(&self) -> Vec<(Method, Value)> {
        self.seen.lock().unwrap().clone()
    }

    fn methods(&self) -> Vec<Method> {
        self.seen().into_iter().map(|(method, _)| method).collect()
    }

    /// A client; without a further answer a request hangs.
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                server.seen.lock().unwrap().push((method, body));
                let answer = server.answers.lock().unwrap().pop_front();
                match answer {
                    Some(Answer::Status(status, body)) => {
                        let body = Body::from(body.to_string().into_bytes());
                        Ok::<_, std::convert::Infallible>(
                            Response::builder().status(status).body(body).unwrap(),
                        )
                    }
                    Some(Answer::Silence) | None => pending().await,
                }
            }
        });
        kube::Client::new(service, "default")
    }

    fn elector(&self, times: Election) -> Elector {
        Elector::named(self.client(), "captf-system", times, "me".to_owned())
    }
}

fn lease(holder: &str, renewed: &str, version: &str) -> Value {
    json!({
        "metadata": {"name": LEASE, "namespace": "captf-system", "resourceVersion": version, "uid": "u"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": "2026-10-01T12:00:00.000000Z", "renewTime": renewed
        }
    })
}

const EARLY: &str = "2026-10-01T12:00:00.000000Z";
const LATER: &str = "2026-10-01T12:00:02.000000Z";

fn found(holder: &str) -> Answer {
    Answer::Status(200, lease(holder, EARLY, "7"))
}

fn written() -> Answer {
    Answer::Status(200, lease("me", LATER, "8"))
}

fn failure(code: u16, reason: &str) -> Answer {
    Answer::Status(
        code,
        json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason}),
    )
}

async fn attempt(server: &Server) -> Result<Attempt, ApiError> {
    server.elector(TIMES).attempt(&mut Seen::default()).await
}

#[tokio::test(start_paused = true)]
async fn a_missing_lease_is_created() {
    let server = Server::answering([
        failure(404, "NotFound"),
        Answer::Status(201, lease("me", EARLY, "1")),
    ]);
    assert_eq!(attempt(&server).await.unwrap(), Attempt::Held);
    let (method, body) = server.seen().pop().unwrap();
    assert_eq!(method, Method::POST);
    assert_eq!(body["metadata"], json!({"name": LEASE}));
    assert_eq!(body["spec"]["holderIdentity"], "me");
    assert_eq!(body["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(body["spec"]["leaseTransitions"], 0);
    assert_eq!(body["spec"]["acquireTime"], body["spec"]["renewTime"]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_keeps_the_acquire_time_and_the_transitions() {
    let server = Server::answering([found("me"), written()]);
    assert_eq!(attempt(&server).await.unwrap(), Attempt::Held);
    let (method, body) = server.seen().pop().unwrap();
    assert_eq!(method, Method::PUT);
    assert_eq!(
        (
            &body["metadata"]["resourceVersion"],
            &body["metadata"]["uid"]
        ),
        (&json!("7"), &json!("u"))
    );
    assert_eq!(body["spec"]["acquireTime"], EARLY);
    assert_eq!(body["spec"]["leaseTransitions"], 3);
    assert_ne!(body["spec"]["renewTime"], EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_holds_is_left_alone() {
    let server = Server::answering([found("other")]);
    assert_eq!(
        attempt(&server).await.unwrap(),
        Attempt::Foreign("other".to_owned())
    );
    assert_eq!(server.methods(), [Method::GET]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_a_holder_is_taken_at_once() {
    let server = Server::answering([found(""), written()]);
    assert_eq!(attempt(&server).await.unwrap(), Attempt::Held);
    assert_eq!(
        server.seen().pop().unwrap().1["spec"]["leaseTransitions"],
        4
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_did_not_change_for_its_duration_is_taken_over() {
    let server = Server::answering([found("other"), found("other"), found("other"), written()]);
    let (elector, mut seen) = (server.elector(TIMES), Seen::default());
    let foreign = Attempt::Foreign("other".to_owned());
    assert_eq!(elector.attempt(&mut seen).await.unwrap(), foreign);
    advance(Duration::from_millis(14_999)).await;
    assert_eq!(elector.attempt(&mut seen).await.unwrap(), foreign);
    advance(Duration::from_millis(1)).await;
    assert_eq!(elector.attempt(&mut seen).await.unwrap(), Attempt::Held);
    let body = server.seen().pop().unwrap().1;
    assert_eq!(
        (
            &body["spec"]["holderIdentity"],
            &body["spec"]["leaseTransitions"]
        ),
        (&json!("me"), &json!(4))
    );
    assert_eq!(body["spec"]["acquireTime"], body["spec"]["renewTime"]);
}

#[tokio::test(start_paused = true)]
async fn a_renewed_lease_starts_the_wait_anew_whatever_its_times_say() {
    let renewed = Answer::Status(200, lease("other", LATER, "8"));
    let server = Server::answering([
        found("other"),
        renewed,
        Answer::Status(200, lease("other", LATER, "8")),
    ]);
    let (elector, mut seen) = (server.elector(TIMES), Seen::default());
    elector.attempt(&mut seen).await.unwrap();
    advance(Duration::from_secs(14)).await;
    elector.attempt(&mut seen).await.unwrap();
    advance(Duration::from_secs(14)).await;
    assert_eq!(
        elector.attempt(&mut seen).await.unwrap(),
        Attempt::Foreign("other".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_an_error_and_no_leadership() {
    let server = Server::answering([found(""), failure(409, "Conflict")]);
    assert!(attempt(&server).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_tries_again_until_it_leads() {
    let server = Server::answering([
        failure(500, "InternalError"),
        found("other"),
        found(""),
        written(),
    ]);
    let elector = server.elector(TIMES);
    let term = elector.term();
    assert!(!term.lasts(), "nothing may be written before");
    let start = Instant::now();
    let leadership = elector.lead().await;
    assert!(term.lasts());
    // Two waits of 2 s with up to 2.4 s of jitter each.
    assert!(
        (4.0..8.8).contains(&start.elapsed().as_secs_f64()),
        "{:?}",
        start.elapsed()
    );
    drop(leadership);
}

/// A process that leads since now.
async fn leading(server: &Server, times: Election) -> (Leadership, Term) {
    server.then([found("me"), written()]);
    let elector = server.elector(times);
    let term = elector.term();
    (elector.lead().await, term)
}

// manager.md §16 B8
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_has_lost_at_the_deadline() {
    let server = Server::default();
    let (leadership, term) = leading(&server, TIMES).await;
    let start = Instant::now();
    let why = leadership.lost().await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert!(why.contains("could not be renewed for 10s"), "{why}");
    assert!(!term.lasts());
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_the_last_success() {
    let server = Server::default();
    let (leadership, _) = leading(&server, TIMES).await;
    let start = Instant::now();
    server.then([
        failure(500, "InternalError"),
        found("me"),
        written(),
        Answer::Silence,
    ]);
    leadership.lost().await;
    // Fails at 2 s, renews at 4 s, and then no more.
    assert_eq!(start.elapsed(), Duration::from_secs(14));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_reads_another_holder_has_lost_at_once() {
    let server = Server::default();
    let (leadership, _) = leading(&server, TIMES).await;
    server.then([found("other")]);
    let start = Instant::now();
    let why = leadership.lost().await;
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(
        why,
        "other holds the Lease controller-leader-election-captf"
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_stopped_past_the_deadline_sends_nothing_more() {
    let server = Server::default();
    let (leadership, term) = leading(&server, TIMES).await;
    tokio::task::yield_now().await;
    let before = server.seen().len();
    advance(Duration::from_secs(40)).await;
    assert!(!term.lasts(), "before anything had time to notice");
    leadership.lost().await;
    assert_eq!(server.seen().len(), before);
}

#[tokio::test(start_paused = true)]
async fn the_lease_stays_on_a_clean_stop() {
    let server = Server::default();
    let (leadership, term) = leading(&server, TIMES).await;
    let before = server.seen().len();
    leadership.release_if_asked().await;
    assert_eq!(server.seen().len(), before);
    assert!(!term.lasts());
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_emptied_on_a_clean_stop_when_asked() {
    let server = Server::default();
    let times = Election {
        release_on_exit: true,
        ..TIMES
    };
    let (leadership, _) = leading(&server, times).await;
    server.then([found("me"), written()]);
    leadership.release_if_asked().await;
    let (method, body) = server.seen().pop().unwrap();
    assert_eq!(method, Method::PUT);
    assert_eq!(body["spec"]["holderIdentity"], "");
    assert_eq!(body["spec"]["leaseDurationSeconds"], 1);
    assert_eq!(body["spec"]["leaseTransitions"], 3);
}

#[tokio::test(start_paused = true)]
async fn anothers_lease_is_not_released() {
    let server = Server::default();
    let times = Election {
        release_on_exit: true,
        ..TIMES
    };
    let (leadership, _) = leading(&server, times).await;
    server.then([found("other")]);
    leadership.release_if_asked().await;
    assert_eq!(server.methods().pop(), Some(Method::GET));
}

#[tokio::test(start_paused = true)]
async fn writes_are_sent_only_during_the_term_and_reads_always() {
    let server = Server::default();
    let term = Term::not_begun();
    let access = Access::new(
        fenced(server.client(), &term),
        Clock::system(),
        Duration::from_secs(5),
    );
    let api = access.api::<Lease>("ns");
    let lease: Lease = serde_json::from_value(lease("x", EARLY, "1")).unwrap();
    let refused = access.create(&api, &lease).await.unwrap_err().to_string();
    assert!(refused.contains("this manager does not lead"), "{refused}");
    assert!(server.seen().is_empty());
    server.then([found("x")]);
    access.get(&api, LEASE).await.unwrap();
    term.extend(Instant::now() + Duration::from_secs(10));
    server.then([written()]);
    access.create(&api, &lease).await.unwrap();
    advance(Duration::from_secs(10)).await;
    access.create(&api, &lease).await.unwrap_err();
    assert_eq!(server.methods(), [Method::GET, Method::POST]);
}

#[test]
fn the_namespace_is_the_pods() {
    assert_eq!(namespace(Some("captf-other")), "captf-other");
}
