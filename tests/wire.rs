//! A server of prepared answers that checks each request word by word.

use std::collections::VecDeque;
use std::time::Duration;

use captf::client::{Access, Clock};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

/// One expected request and its answer.
pub(crate) struct Exchange {
    line: String,
    body: Value,
    status: u16,
    answer: Value,
}

/// Expects `line`, `VERB PATH` without our field manager, with ` (metadata)` behind it when only
/// metadata is asked for; the answer is 200 with an empty object until told otherwise.
pub(crate) fn expect(line: &str) -> Exchange {
    Exchange {
        line: line.to_owned(),
        body: Value::Null,
        status: 200,
        answer: json!({}),
    }
}

impl Exchange {
    /// The exact body.
    pub(crate) fn with(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    /// Answers with this object.
    pub(crate) fn answer(mut self, object: Value) -> Self {
        self.answer = object;
        self
    }

    /// Answers with the object that was sent.
    pub(crate) fn echo(mut self) -> Self {
        self.answer = self.body.clone();
        self
    }

    /// Answers with a failure.
    pub(crate) fn fail(mut self, status: u16, reason: &str) -> Self {
        self.status = status;
        self.answer = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "reason": reason, "code": status, "message": format!("the server says {reason}")
        });
        self
    }
}

/// Runs `work` against the script and checks that every exchange took place, in order.
pub(crate) async fn play<T>(
    script: impl IntoIterator<Item = Exchange>,
    work: impl AsyncFnOnce(&Access) -> T,
) -> T {
    let (service, mut handle) = tower_test::mock::pair::<Request<Body>, Response<Body>>();
    let mut script: VecDeque<Exchange> = script.into_iter().collect();
    let server = tokio::spawn(async move {
        while let Some((request, reply)) = handle.next_request().await {
            let line = line(&request);
            let bytes = request.into_body().collect_bytes().await.unwrap();
            let body = if bytes.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(&bytes).unwrap()
            };
            let Some(expected) = script.pop_front() else {
                panic!("nothing more was expected, but: {line} {body}");
            };
            assert_eq!(line, expected.line);
            assert_eq!(body, expected.body, "body of {line}");
            let answer = serde_json::to_vec(&expected.answer).unwrap();
            reply.send_response(
                Response::builder()
                    .status(expected.status)
                    .body(Body::from(answer))
                    .unwrap(),
            );
        }
        assert!(
            script.is_empty(),
            "never asked for: {:?}",
            script.iter().map(|e| &e.line).collect::<Vec<_>>()
        );
    });
    let access = Access::new(
        kube::Client::new(service, "default"),
        Clock::system(),
        Duration::from_secs(5),
    );
    let result = work(&access).await;
    drop(access);
    server.await.unwrap();
    result
}

fn line(request: &Request<Body>) -> String {
    let accept = request
        .headers()
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok());
    let metadata = if accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata")) {
        " (metadata)"
    } else {
        ""
    };
    let path = request.uri().path();
    let query: Vec<&str> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|part| {
            !part.is_empty() && !part.starts_with("fieldManager=") && !part.starts_with("limit=")
        })
        .collect();
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{}", query.join("&"))
    };
    format!("{} {path}{query}{metadata}", request.method())
}
