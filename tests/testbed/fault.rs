//! Faults between a client and the API server: one layer around a whole client that notes every request and lets a
//! plan decide what happens to it (engineering.md §7.6).

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use tower::{BoxError, Service};

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;
type Answer = Result<Response<AnswerBody>, BoxError>;
type Plan = dyn Fn(&Seen) -> Fault + Send + Sync;

/// What happens to one request.
pub(crate) enum Fault {
    Pass,
    /// The connection fails before anything is sent: the server never sees it.
    Before,
    /// The server executes it, then the connection fails.
    LostAnswer,
    /// It reaches the server twice, as through a proxy that repeats; the answer is the second one's.
    Twice,
    /// It is sent this much later; a caller that gives up before has sent nothing.
    Delay(Duration),
    /// It is never sent and never answered.
    HangBefore,
    /// The server executes it and the answer never arrives.
    HangAfter,
    /// It is not sent; the answer is a `Status` with this code and reason.
    Status(StatusCode, &'static str),
    /// This runs to its end before it is sent.
    First(BoxFuture<'static, ()>),
    /// This runs to its end after the server has answered and before the client hears of it.
    Then(BoxFuture<'static, ()>),
    /// The answer's body stops after this many bytes: a watch that breaks.
    CutBody(usize, Cut),
}

/// How a cut body goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Error,
    End,
    /// It falls silent for ever.
    Silence,
}

/// One request as the layer saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Without the question mark; empty when there is none.
    pub(crate) query: String,
}

impl Seen {
    /// Whether it has this method and touches this resource (plural), its namespace and name aside.
    pub(crate) fn touches(&self, method: &Method, resource: &str) -> bool {
        self.method == *method && self.path.split('/').any(|part| part == resource)
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.query.split('&').any(|part| part == "watch=true")
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.query.is_empty() { "" } else { "?" };
        write!(
            f,
            "{} {} {}{mark}{}",
            self.number, self.method, self.path, self.query
        )
    }
}

/// A plan and the log of the requests that it decided on. Clones share both.
#[derive(Clone)]
pub(crate) struct Faults {
    plan: Arc<Plan>,
    log: Arc<Mutex<Vec<Seen>>>,
}

impl Faults {
    pub(crate) fn new(plan: impl Fn(&Seen) -> Fault + Send + Sync + 'static) -> Self {
        Self {
            plan: Arc::new(plan),
            log: Arc::default(),
        }
    }

    /// No fault, only the log.
    pub(crate) fn none() -> Self {
        Self::new(|_| Fault::Pass)
    }

    /// A fault for the n-th request (counted from 1), once.
    pub(crate) fn at(number: usize, fault: impl Fn() -> Fault + Send + Sync + 'static) -> Self {
        Self::new(move |seen| {
            if seen.number == number {
                fault()
            } else {
                Fault::Pass
            }
        })
    }

    /// A fault for the first request with this method that touches this resource.
    pub(crate) fn first(
        method: Method,
        resource: &'static str,
        fault: impl Fn() -> Fault + Send + Sync + 'static,
    ) -> Self {
        let done = Mutex::new(false);
        Self::new(move |seen| {
            let mut done = done.lock().unwrap();
            if *done || !seen.touches(&method, resource) {
                return Fault::Pass;
            }
            *done = true;
            fault()
        })
    }

    /// The same client with this layer outermost: above its retries, below nothing.
    pub(crate) fn around(&self, client: kube::Client) -> kube::Client {
        let namespace = client.default_namespace().to_owned();
        kube::Client::new(
            FaultService {
                faults: self.clone(),
                client,
            },
            namespace,
        )
    }

    /// Every request so far, in the order of their start.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.log.lock().unwrap().clone()
    }

    /// How many requests with this method touched this resource.
    pub(crate) fn count(&self, method: &Method, resource: &str) -> usize {
        self.requests()
            .iter()
            .filter(|seen| seen.touches(method, resource))
            .count()
    }

    fn note(&self, request: &Request<Body>) -> Seen {
        let mut log = self.log.lock().unwrap();
        let seen = Seen {
            number: log.len() + 1,
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
        };
        log.push(seen.clone());
        seen
    }
}

struct FaultService {
    faults: Faults,
    client: kube::Client,
}

impl Service<Request<Body>> for FaultService {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let seen = self.faults.note(&request);
        let fault = (self.faults.plan)(&seen);
        Box::pin(answer(self.client.clone(), request, fault))
    }
}

async fn answer(client: kube::Client, request: Request<Body>, fault: Fault) -> Answer {
    match fault {
        Fault::Pass => send(&client, request).await,
        Fault::Before => Err(reset()),
        Fault::HangBefore => std::future::pending().await,
        Fault::Status(code, reason) => status(code, reason),
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            send(&client, request).await
        }
        Fault::First(first) => {
            first.await;
            send(&client, request).await
        }
        Fault::Then(then) => {
            let answer = send(&client, request).await;
            then.await;
            answer
        }
        Fault::LostAnswer => {
            send(&client, request).await?;
            Err(reset())
        }
        Fault::Twice => twice(&client, request).await,
        Fault::HangAfter => {
            send(&client, request).await?;
            std::future::pending().await
        }
        Fault::CutBody(bytes, how) => {
            let response = send(&client, request).await?;
            Ok(response.map(|body| {
                CutBody {
                    body,
                    left: bytes,
                    how,
                }
                .boxed_unsync()
            }))
        }
    }
}

async fn send(client: &kube::Client, request: Request<Body>) -> Answer {
    let response = client.send(request).await?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

async fn twice(client: &kube::Client, request: Request<Body>) -> Answer {
    let (parts, body) = request.into_parts();
    let bytes = body.collect_bytes().await?;
    let first = Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    send(client, first).await?;
    send(client, Request::from_parts(parts, Body::from(bytes))).await
}

fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

fn status(code: StatusCode, reason: &str) -> Answer {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "answered by the fault layer", "reason": reason, "code": code.as_u16(),
    });
    let body = Full::new(Bytes::from(body.to_string()))
        .map_err(|never| match never {})
        .boxed_unsync();
    let response = Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json");
    Ok(response.body(body)?)
}

/// A body that ends too early.
struct CutBody {
    body: AnswerBody,
    left: usize,
    how: Cut,
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return match self.how {
                Cut::Error => Poll::Ready(Some(Err(reset()))),
                Cut::End => Poll::Ready(None),
                Cut::Silence => Poll::Pending,
            };
        }
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        let Ok(mut data) = frame.into_data() else {
            return Poll::Ready(None);
        };
        data.truncate(self.left);
        self.left -= data.len();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}
