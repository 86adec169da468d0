//! Builds the client: TCP_NODELAY, connect limit, clock offset, no retries.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::jiff::fmt::rfc2822;
use kube::client::{Body, ConfigExt as _};
use tower::{BoxError, Layer, Service, ServiceBuilder};

use super::Clock;

/// How long a TCP and TLS handshake may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The client could not be built from its configuration.
#[derive(Debug, thiserror::Error)]
#[error("the kubeconfig cannot be used: {0}")]
pub struct ConnectError(#[source] Box<kube::Error>);

impl From<kube::Error> for ConnectError {
    fn from(error: kube::Error) -> Self {
        Self(Box::new(error))
    }
}

/// A client for `config` that feeds `clock` with the `Date` of every answer.
///
/// kube's own stack leaves Nagle's algorithm on (44 ms on the first request of a
/// connection) and would repeat refused writes; this one does neither.
///
/// # Errors
/// When the configuration's certificates or credentials cannot be loaded.
pub fn connect(config: &kube::Config, clock: &Clock) -> Result<kube::Client, ConnectError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let mut limited = TimeoutConnector::new(tls);
    limited.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT_LIMIT)));
    limited.set_read_timeout(config.read_timeout);
    limited.set_write_timeout(config.write_timeout);
    let hyper =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(limited);
    let service = ServiceBuilder::new()
        .layer(ClockLayer {
            clock: clock.clone(),
        })
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(hyper);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// Reads the `Date` of every answer into the clock (leases.md §12).
#[derive(Clone)]
struct ClockLayer {
    clock: Clock,
}

impl<S> Layer<S> for ClockLayer {
    type Service = ClockService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ClockService {
            inner,
            clock: self.clock.clone(),
        }
    }
}

#[derive(Clone)]
struct ClockService<S> {
    inner: S,
    clock: Clock,
}

impl<S, Out> Service<Request<Body>> for ClockService<S>
where
    S: Service<Request<Body>, Response = Response<Out>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Out>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let clock = self.clock.clone();
        let sent = clock.raw();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let response = answer.await?;
            let date = response
                .headers()
                .get(http::header::DATE)
                .and_then(|value| value.to_str().ok());
            if let Some(date) = date.and_then(|text| rfc2822::parse(text).ok()) {
                clock.observe(date.timestamp(), sent, clock.raw());
            }
            Ok(response)
        })
    }
}
