//! `/healthz` and `/readyz`, served by every replica, leading or not (manager.md §2).
//!
//! Answers are those of the usual Kubernetes health handlers: `ok`, or a list of checks with `?verbose`
//! and after a failure; `?exclude=NAME` leaves checks out; each check has a path of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::diagnostics;
use super::metrics::Metrics;
use super::settings::{ListenAddress, Settings};
use crate::client::Access;

/// A server of the manager that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not of this machine.
    #[error("cannot listen on {address} (--{flag}): {source}")]
    Listen {
        /// The flag that names the address.
        flag: &'static str,
        /// The address.
        address: ListenAddress,
        /// Why not.
        source: std::io::Error,
    },
    /// The certificate of the diagnostics server.
    #[error("the diagnostics server has no certificate: {0}")]
    Certificate(#[from] super::tls::CertificateError),
}

/// Starts what every replica serves, in tasks of `background`: health, and metrics unless switched off.
/// `access` asks the API server who may read metrics.
///
/// # Errors
/// When an address cannot be listened on or a certificate cannot be used.
pub async fn serve(
    settings: &Settings,
    metrics: &Metrics,
    access: &Access,
    background: &mut JoinSet<()>,
) -> Result<(), ServeError> {
    if let Some(address) = &settings.health_address {
        let listener = listen("health-addr", address).await?;
        tracing::info!(%address, "serving health");
        background.spawn(async move {
            // Ends only with the process: a failed accept is retried inside.
            let _ = axum::serve(listener, router(&Checks::default())).await;
        });
    }
    if let Some(diagnostics) = &settings.diagnostics {
        let listener = listen("diagnostics-address", &diagnostics.address).await?;
        tracing::info!(address = %diagnostics.address, insecure = diagnostics.insecure, "serving metrics");
        diagnostics::serve(
            listener,
            diagnostics,
            &settings.tls,
            metrics,
            access,
            background,
        )?;
    }
    Ok(())
}

/// Listens on an address; without a host on every address, of both families where the system has both.
async fn listen(flag: &'static str, address: &ListenAddress) -> Result<TcpListener, ServeError> {
    let bound = match address.host.as_deref() {
        Some(host) => TcpListener::bind((host, address.port)).await,
        None => match TcpListener::bind(SocketAddr::from(([0_u16; 8], address.port))).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind(SocketAddr::from(([0_u8; 4], address.port))).await,
        },
    };
    bound.map_err(|source| ServeError::Listen {
        flag,
        address: address.clone(),
        source,
    })
}

/// A check that can fail.
type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// What `/readyz` looks at besides that this process answers.
#[derive(Clone, Default)]
pub struct Checks {
    ready: Vec<(&'static str, Check)>,
}

impl Checks {
    /// Adds a check to `/readyz`, which fails while `check` is false.
    #[must_use]
    pub fn ready_when(
        mut self,
        name: &'static str,
        check: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.ready.push((name, Arc::new(check)));
        self
    }
}

/// The routes of both endpoints.
pub fn router(checks: &Checks) -> Router {
    let ping: (&'static str, Check) = ("ping", Arc::new(|| true));
    let ready = if checks.ready.is_empty() {
        vec![ping.clone()]
    } else {
        checks.ready.clone()
    };
    Router::new()
        .merge(endpoint("/healthz", Endpoint::new(vec![ping])))
        .merge(endpoint("/readyz", Endpoint::new(ready)))
}

#[derive(Clone)]
struct Endpoint {
    checks: Arc<[(&'static str, Check)]>,
}

impl Endpoint {
    fn new(checks: Vec<(&'static str, Check)>) -> Self {
        Self {
            checks: checks.into(),
        }
    }
}

fn endpoint(path: &str, endpoint: Endpoint) -> Router {
    Router::new()
        .route(path, get(all))
        .route(&format!("{path}/"), get(all))
        .route(&format!("{path}/{{check}}"), get(one))
        .with_state(endpoint)
}

async fn all(State(endpoint): State<Endpoint>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let parameters = || {
        query
            .split('&')
            .filter_map(|part| part.split_once('=').or(Some((part, ""))))
    };
    let verbose = parameters().any(|(name, _)| name == "verbose");
    let excluded: Vec<&str> = parameters()
        .filter(|(name, _)| *name == "exclude")
        .map(|(_, value)| value)
        .collect();
    report(&endpoint, verbose, &excluded)
}

fn report(endpoint: &Endpoint, verbose: bool, excluded: &[&str]) -> Response {
    let mut lines = String::new();
    let mut healthy = true;
    for (name, check) in endpoint.checks.iter() {
        if excluded.contains(name) {
            lines += &format!("[+]{name} excluded: ok\n");
        } else if check() {
            lines += &format!("[+]{name} ok\n");
        } else {
            healthy = false;
            lines += &format!("[-]{name} failed: reason withheld\n");
        }
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !endpoint.checks.iter().any(|(known, _)| known == *name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        lines += &format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(", ")
        );
    }
    match (healthy, verbose) {
        (true, false) => text(StatusCode::OK, "ok".to_owned()),
        (true, true) => text(StatusCode::OK, lines + "healthz check passed\n"),
        (false, _) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            lines + "healthz check failed\n",
        ),
    }
}

async fn one(State(endpoint): State<Endpoint>, Path(name): Path<String>) -> Response {
    match endpoint.checks.iter().find(|(known, _)| *known == name) {
        None => text(
            StatusCode::NOT_FOUND,
            format!("there is no check {name:?}\n"),
        ),
        Some((_, check)) if check() => text(StatusCode::OK, "ok".to_owned()),
        Some(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("[-]{name} failed: reason withheld\n"),
        ),
    }
}

fn text(status: StatusCode, body: String) -> Response {
    const NO_SNIFF: HeaderName = header::X_CONTENT_TYPE_OPTIONS;
    (
        status,
        [
            (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
            (NO_SNIFF, "nosniff"),
        ],
        body,
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use rstest::rstest;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(checks: &Checks, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(checks).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[rstest]
    #[case("/healthz", "ok")]
    #[case("/healthz/", "ok")]
    #[case("/healthz/ping", "ok")]
    #[case("/healthz?verbose", "[+]ping ok\nhealthz check passed\n")]
    #[case("/healthz?verbose=true", "[+]ping ok\nhealthz check passed\n")]
    #[case("/readyz", "ok")]
    #[case("/readyz?verbose", "[+]ping ok\nhealthz check passed\n")]
    #[case(
        "/readyz?exclude=ping&verbose",
        "[+]ping excluded: ok\nhealthz check passed\n"
    )]
    #[tokio::test]
    async fn a_process_that_answers_is_alive_and_ready(#[case] path: &str, #[case] body: &str) {
        assert_eq!(ask(&Checks::default(), path).await, (200, body.to_owned()));
    }

    // manager.md §16 B5
    #[tokio::test]
    async fn a_failing_check_fails_readiness_but_not_health() {
        let checks = Checks::default().ready_when("webhook", || false);
        let failed = "[-]webhook failed: reason withheld\nhealthz check failed\n";
        assert_eq!(ask(&checks, "/readyz").await, (500, failed.to_owned()));
        assert_eq!(ask(&checks, "/readyz/webhook").await.0, 500);
        assert_eq!(
            ask(&checks, "/readyz?exclude=webhook").await,
            (200, "ok".to_owned())
        );
        assert_eq!(ask(&checks, "/healthz").await, (200, "ok".to_owned()));
    }

    #[tokio::test]
    async fn an_unknown_check_is_not_found() {
        assert_eq!(ask(&Checks::default(), "/readyz/webhook").await.0, 404);
        let warned = "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nhealthz check passed\n";
        assert_eq!(
            ask(&Checks::default(), "/readyz?verbose&exclude=x").await,
            (200, warned.to_owned())
        );
    }
}
