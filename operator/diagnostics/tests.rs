#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::client::Clock;
use crate::operator::metrics::BuildInfo;

/// An API server that knows the token `good` as a user who may `get /metrics`, and `other` as one who
/// may nothing. It notes what it is asked.
fn api_server() -> (Access, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let notes = Arc::clone(&notes);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            notes.lock().unwrap().push(review["spec"].clone());
            review["status"] = match review["kind"].as_str().unwrap() {
                "TokenReview" => match review["spec"]["token"].as_str().unwrap() {
                    "good" => {
                        json!({"authenticated": true, "user": {"username": "prometheus", "groups": ["g"]}})
                    }
                    "other" => json!({"authenticated": true, "user": {"username": "nobody"}}),
                    _ => json!({"authenticated": false}),
                },
                _ => {
                    let of = &review["spec"];
                    let allowed = of["user"] == "prometheus"
                        && of["nonResourceAttributes"]
                            == json!({"verb": "get", "path": "/metrics"});
                    json!({"allowed": allowed})
                }
            };
            let answer = kube::client::Body::from(review.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(
                http::Response::builder().status(201).body(answer).unwrap(),
            )
        }
    });
    let client = kube::Client::new(service, "default");
    (
        Access::new(client, Clock::system(), Duration::from_secs(5)),
        asked,
    )
}

fn metrics() -> Metrics {
    Metrics::new(BuildInfo {
        version: "v1.2.3",
        commit: "abc",
    })
}

async fn ask(
    router: Router,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = router
        .oneshot(request.body(Body::from(body.to_owned())).unwrap())
        .await
        .unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1_000_000).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

// metrics-alerts.md §9 B8
#[rstest]
#[case(None, 401)]
#[case(Some("forged"), 401)]
#[case(Some("other"), 403)]
#[case(Some("good"), 200)]
#[tokio::test]
async fn metrics_need_a_token_with_the_right(#[case] token: Option<&str>, #[case] status: u16) {
    let (access, _) = api_server();
    assert_eq!(
        ask(guarded(&metrics(), &access), "GET", "/metrics", token, "")
            .await
            .0,
        status
    );
}

#[tokio::test]
async fn a_request_without_a_token_asks_nobody() {
    let (access, asked) = api_server();
    ask(guarded(&metrics(), &access), "GET", "/metrics", None, "").await;
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_right_is_judged_for_the_user_of_the_token_on_the_path_itself() {
    let (access, asked) = api_server();
    let (status, _) = ask(
        guarded(&metrics(), &access),
        "PUT",
        "/debug/flags/v",
        Some("good"),
        "4",
    )
    .await;
    assert_eq!(status, 403);
    let expected = json!({
        "user": "prometheus", "groups": ["g"], "nonResourceAttributes": {"verb": "put", "path": "/debug/flags/v"}
    });
    assert_eq!(asked.lock().unwrap()[1], expected);
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_not_told_to_strangers() {
    let (access, _) = api_server();
    assert_eq!(
        ask(guarded(&metrics(), &access), "GET", "/secret", None, "")
            .await
            .0,
        401
    );
}

// metrics-alerts.md §9 B9
#[tokio::test]
async fn insecure_diagnostics_serve_metrics_only() {
    let (status, text) = ask(open(&metrics()), "GET", "/metrics", None, "").await;
    assert_eq!(status, 200);
    assert!(text.contains("captf_build_info{"), "{text}");
    assert_eq!(
        ask(open(&metrics()), "PUT", "/debug/flags/v", None, "4")
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn a_verbosity_that_is_no_number_is_refused() {
    let response = set_verbosity("loud".to_owned()).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}
