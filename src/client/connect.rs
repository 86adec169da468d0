//! Builds the client: TCP_NODELAY, connect limit, clock offset, no retries.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, Uri};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::jiff::fmt::rfc2822;
use kube::client::{Body, ConfigExt as _};
use tower::{BoxError, Layer, Service, ServiceBuilder};

use super::{Clock, proxy};

/// How long a TCP and TLS handshake may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// What the API server's audit log calls this program (cli.md §16).
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("kubectl-captf/", env!("CARGO_PKG_VERSION")));

/// The client could not be built from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its certificates or credentials cannot be loaded.
    #[error("the kubeconfig cannot be used: {0}")]
    Configuration(#[source] Box<kube::Error>),
    /// The proxy's URL names no scheme that is spoken here.
    #[error("proxy {0} is none: its URL must begin with http://, https:// or socks5://")]
    UnknownProxy(String),
}

impl From<kube::Error> for ConnectError {
    fn from(error: kube::Error) -> Self {
        Self::Configuration(Box::new(error))
    }
}

/// A client for `config` that feeds `clock` with the `Date` of every answer.
///
/// kube's own stack leaves Nagle's algorithm on (44 ms on the first request of a
/// connection) and would repeat refused writes; this one does neither. A proxy is used as kube does it,
/// with the exceptions of `NO_PROXY`.
///
/// # Errors
/// When the configuration's certificates or credentials cannot be loaded, or its proxy is of no known
/// kind.
pub fn connect(config: &kube::Config, clock: &Clock) -> Result<kube::Client, ConnectError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let Some(url) = proxy::proxy_of(config, |name| std::env::var(name).ok()) else {
        return stack(config, clock, tcp);
    };
    match url.scheme_str() {
        Some("socks5") => stack(config, clock, SocksV5::new(url, tcp)),
        Some("http") => stack(config, clock, tunnel(url, tcp)),
        Some("https") => {
            let secured = config.rustls_https_connector_with_connector(tcp)?;
            stack(config, clock, tunnel(url, secured))
        }
        _ => Err(ConnectError::UnknownProxy(proxy::bare(&url))),
    }
}

/// A tunnel through an HTTP proxy, with the user and password of its URL.
fn tunnel<C>(url: Uri, connector: C) -> Tunnel<C> {
    let authorization = proxy::authorization(&url);
    let tunnel = Tunnel::new(url, connector);
    match authorization {
        Some(value) => tunnel.with_auth(value),
        None => tunnel,
    }
}

/// TLS, limits and headers over a way to open connections.
fn stack<C>(
    config: &kube::Config,
    clock: &Clock,
    connector: C,
) -> Result<kube::Client, ConnectError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let tls = config.rustls_https_connector_with_connector(connector)?;
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
        .map_request(|mut request: Request<Body>| {
            let headers = request.headers_mut();
            headers.insert(http::header::USER_AGENT, USER_AGENT);
            request
        })
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
