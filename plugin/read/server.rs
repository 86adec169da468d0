//! The API server as the plugin sees it: read-only requests with a limit, a retry and a clear error.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::AsyncReadExt;
use http::StatusCode;
use jiff::Timestamp;
use kube::Client;
use kube::client::AuthError;
use kube::config::ExecConfig;
use serde::de::DeserializeOwned;

use super::request::{Request, Resource};
use crate::client::{Clock, ConnectError, connect, proxy_in_use};
use crate::plugin::colour::printable;
use crate::plugin::connect::Target;
use crate::plugin::error::{Error, clause, last_cause};

/// Media type of objects.
const OBJECTS: &str = "application/json";
/// Media type of lists that carry metadata only.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
/// Media type of tables.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// How often a read is tried when the server is busy or the connection breaks (cli.md §16.6).
const TRIES: u32 = 4;

/// Objects in one page of a list, unless `--chunk-size` says otherwise.
pub(crate) const PAGE: u32 = 500;

/// Bytes of a body that are read at once.
const PIECE: usize = 16 * 1024;

/// In which form an answer is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects themselves.
    Objects,
    /// Their metadata.
    Metadata,
    /// Printed columns.
    Table,
}

impl Form {
    const fn accept(self) -> &'static str {
        match self {
            Self::Objects => OBJECTS,
            Self::Metadata => METADATA_LIST,
            Self::Table => TABLE,
        }
    }
}

/// The query of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    /// Label selector.
    pub(crate) labels: String,
    /// Field selector.
    pub(crate) fields: String,
    /// Objects per page; 0 is all at once.
    pub(crate) limit: u32,
    /// Where the list goes on.
    pub(crate) token: Option<String>,
    /// Leave the objects out of a table.
    pub(crate) rows_only: bool,
    /// An answer from the server's cache is good enough.
    pub(crate) cached: bool,
}

impl Query {
    /// Everything that carries these labels, in pages.
    pub(crate) fn labelled(labels: impl Into<String>) -> Self {
        Self {
            labels: labels.into(),
            limit: PAGE,
            ..Self::default()
        }
    }

    fn encode(&self) -> String {
        let limit = (self.limit > 0).then(|| self.limit.to_string());
        let pairs = [
            (
                "labelSelector",
                (!self.labels.is_empty()).then_some(self.labels.as_str()),
            ),
            (
                "fieldSelector",
                (!self.fields.is_empty()).then_some(self.fields.as_str()),
            ),
            ("limit", limit.as_deref()),
            ("continue", self.token.as_deref()),
            ("includeObject", self.rows_only.then_some("None")),
            ("resourceVersion", self.cached.then_some("0")),
        ];
        let given = pairs.iter().filter_map(|(key, value)| {
            value.map(|value| format!("{key}={}", percent_encoded(value)))
        });
        given.collect::<Vec<_>>().join("&")
    }
}

/// Escapes what a query value may not hold as it is.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~=,/!:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A configuration that makes no client: mostly a credential plugin that is missing or fails.
fn unusable(error: &ConnectError, plugin: Option<ExecConfig>) -> Error {
    let plugin = plugin.unwrap_or_default();
    let command = plugin.command.unwrap_or_default();
    let failed = |why: String, install| Error::CredentialPlugin {
        command: command.clone(),
        why,
        install,
    };
    match auth_error(error) {
        Some(AuthError::AuthExecStart(cause)) if cause.kind() == std::io::ErrorKind::NotFound => {
            failed("not found".into(), plugin.install_hint.clone())
        }
        Some(AuthError::AuthExecStart(cause)) => {
            failed(format!("cannot be started: {}", last_cause(cause)), None)
        }
        Some(AuthError::AuthExecRun { out, .. }) => {
            let mut why = match out.status.code() {
                Some(code) => format!("exited {code}"),
                None => "was killed".into(),
            };
            let said = String::from_utf8_lossy(&out.stderr);
            if let Some(line) = said.lines().rfind(|line| !line.trim().is_empty()) {
                why = format!("{why}: {}", printable(line.trim()));
            }
            failed(why, None)
        }
        Some(
            AuthError::AuthExecParse(_) | AuthError::AuthExec(_) | AuthError::ExecPluginFailed,
        ) if !command.is_empty() => failed("printed no credentials".into(), None),
        _ => Error::Configuration {
            why: last_cause(error),
        },
    }
}

fn auth_error(error: &ConnectError) -> Option<&AuthError> {
    match error {
        ConnectError::Configuration(error) => match error.as_ref() {
            kube::Error::Auth(error) => Some(error),
            _ => None,
        },
        ConnectError::UnknownProxy(_) => None,
    }
}

/// A connection to one API server.
pub(crate) struct ApiServer {
    client: Client,
    url: String,
    proxy: Option<String>,
    context: Option<String>,
    namespace: String,
    limit: Option<Duration>,
    clock: Clock,
    requests: AtomicUsize,
}

impl ApiServer {
    /// A client for the resolved cluster. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Certificates or credentials that cannot be loaded.
    pub(crate) fn new(target: Target, limit: Option<Duration>) -> Result<Self, Error> {
        let Target { config, context } = target;
        let url = config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned();
        let namespace = config.default_namespace.clone();
        let proxy = proxy_in_use(&config);
        let clock = Clock::system();
        let client =
            connect(&config, &clock).map_err(|error| unusable(&error, config.auth_info.exec))?;
        Ok(Self {
            client,
            url,
            proxy,
            context,
            namespace,
            limit,
            clock,
            requests: AtomicUsize::new(0),
        })
    }

    /// The API server's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The API server's clock minus ours, in whole seconds; less than 2 s counts as none.
    pub(crate) fn skew_seconds(&self) -> i64 {
        let ahead = self.clock.now().as_millisecond() - self.clock.raw().as_millisecond();
        (ahead + 500).div_euclid(1000)
    }

    /// The context's name, if there is one.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The namespace that the context or the pod stands in.
    pub(crate) fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// Requests sent so far, repeated ones included.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// One object, or nothing when it does not exist.
    ///
    /// # Errors
    ///
    /// Every failure but the object's absence; [`Error::NotServed`] when the resource is unknown.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let request = Request::get(resource, namespace, name);
        match self.read(&request, "", Form::Objects, |_| ()).await? {
            Some(body) => decode(&request, &body).map(Some),
            None => Ok(None),
        }
    }

    /// The body of one list answer. `chunk` sees what has arrived so far after each piece.
    ///
    /// # Errors
    ///
    /// As [`ApiServer::get`].
    pub(crate) async fn list_bytes(
        &self,
        request: &Request,
        query: &Query,
        form: Form,
        chunk: impl FnMut(&[u8]),
    ) -> Result<Vec<u8>, Error> {
        let body = self.read(request, &query.encode(), form, chunk).await?;
        body.ok_or_else(|| Error::NotServed {
            request: Box::new(request.clone()),
        })
    }

    /// Sends one read, again when the server is busy or the connection broke.
    async fn read(
        &self,
        request: &Request,
        query: &str,
        form: Form,
        mut chunk: impl FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut tried = 1;
        loop {
            let attempt = self.limited(request, self.once(request, query, form, &mut chunk));
            match attempt.await {
                Ok(body) => return Ok(Some(body)),
                Err(Failure::Absent) => return Ok(None),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Again { error, after }) => {
                    if tried == TRIES {
                        return Err(error);
                    }
                    tokio::time::sleep(after.unwrap_or_else(|| pause(tried))).await;
                    tried += 1;
                }
            }
        }
    }

    /// Puts `--request-timeout` around headers and body.
    async fn limited<T>(
        &self,
        request: &Request,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self.limit {
            None => answer.await,
            Some(limit) => tokio::time::timeout(limit, answer)
                .await
                .unwrap_or_else(|_| {
                    Err(Failure::Final(Error::TimedOut {
                        request: Box::new(request.clone()),
                        seconds: limit.as_secs(),
                    }))
                }),
        }
    }

    async fn once(
        &self,
        request: &Request,
        query: &str,
        form: Form,
        chunk: &mut impl FnMut(&[u8]),
    ) -> Result<Vec<u8>, Failure> {
        let path = request.path();
        let uri = if query.is_empty() {
            path
        } else {
            format!("{path}?{query}")
        };
        let sent = http::Request::get(&uri)
            .header(http::header::ACCEPT, form.accept())
            .body(Vec::new())
            .map_err(|error| Failure::Final(Error::Internal(error.to_string())))?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let answer = self.client.request_stream(sent).await;
        tracing::debug!(
            method = "GET",
            uri,
            ms = started.elapsed().as_millis(),
            ok = answer.is_ok()
        );
        let mut stream = Box::pin(answer.map_err(|error| self.failure(request, &error))?);
        let mut body = Vec::new();
        let mut piece = vec![0_u8; PIECE];
        loop {
            let broken = |error: std::io::Error| Failure::Again {
                error: self.unreachable(&error),
                after: None,
            };
            match stream.read(&mut piece).await.map_err(broken)? {
                0 => return Ok(body),
                length => {
                    body.extend_from_slice(&piece[..length]);
                    chunk(&body);
                }
            }
        }
    }

    fn failure(&self, request: &Request, error: &kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => self.refusal(request, status),
            other if is_certificate(other) => Failure::Final(Error::Untrusted {
                server: self.url.clone(),
                why: last_cause(other),
            }),
            other => {
                let error = self.unreachable(other);
                if was_reset(other) {
                    Failure::Again { error, after: None }
                } else {
                    Failure::Final(error)
                }
            }
        }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        Error::Unreachable {
            server: self.url.clone(),
            proxy: self.proxy.clone(),
            context: self.context.clone(),
            why: last_cause(error),
        }
    }

    fn refusal(&self, request: &Request, status: &kube::core::Status) -> Failure {
        let answer = || Error::Answer {
            request: Box::new(request.clone()),
            code: status.code,
            reason: if status.details.is_some() || status.is_failure() && status.code != 404 {
                clause_of_reason(&status.reason)
            } else {
                String::new()
            },
        };
        match StatusCode::from_u16(status.code).unwrap_or_default() {
            // An unknown path is answered in plain text, an absent object with its name.
            StatusCode::NOT_FOUND if status.details.is_none() => Failure::Final(Error::NotServed {
                request: Box::new(request.clone()),
            }),
            StatusCode::NOT_FOUND => Failure::Absent,
            StatusCode::UNAUTHORIZED => Failure::Final(Error::NotAuthenticated {
                context: self.context.clone(),
            }),
            StatusCode::FORBIDDEN => {
                tracing::debug!(message = status.message, "forbidden");
                Failure::Final(Error::Forbidden {
                    request: Box::new(request.clone()),
                })
            }
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let seconds = status
                    .details
                    .as_ref()
                    .map_or(0, |details| details.retry_after_seconds);
                let after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
                Failure::Again {
                    error: answer(),
                    after,
                }
            }
            _ => Failure::Final(answer()),
        }
    }
}

/// kube's own words for an answer that is no `Status` are no reason.
fn clause_of_reason(reason: &str) -> String {
    if reason.contains(' ') {
        String::new()
    } else {
        reason.to_owned()
    }
}

/// Why one try failed.
enum Failure {
    /// The object does not exist.
    Absent,
    /// Trying again would not help.
    Final(Error),
    /// Trying again may help, after this time.
    Again {
        error: Error,
        after: Option<Duration>,
    },
}

/// Decodes a body, naming the request when it is not what the API promises.
pub(crate) fn decode<T: DeserializeOwned>(request: &Request, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Undecodable {
        request: Box::new(request.clone()),
        why: clause(&error.to_string()),
    })
}

/// 0.2 s, 0.4 s, 0.8 s, each stretched by up to a half so that many callers do not return at once.
fn pause(tried: u32) -> Duration {
    let base = Duration::from_millis(100 << tried.min(6));
    let spread = u32::try_from(RandomState::new().hash_one(tried) % 50).unwrap_or_default();
    base + base * spread / 100
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |cause| cause.source())
}

fn is_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(|cause| {
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(|io| io.get_ref())
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(
            inner.or_else(|| cause.downcast_ref::<rustls::Error>()),
            Some(rustls::Error::InvalidCertificate(_))
        )
    })
}

fn was_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    causes(error).any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| {
            matches!(
                io.kind(),
                std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::UnexpectedEof
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn a_selector_is_escaped_in_the_query() {
        let query = Query {
            labels: "captf.io/lease in (run, cluster),a!=b".into(),
            limit: 500,
            token: Some("abc=".into()),
            ..Query::default()
        };
        assert_eq!(
            query.encode(),
            "labelSelector=captf.io/lease%20in%20%28run,%20cluster%29,a!=b&limit=500&continue=abc="
        );
    }
}
