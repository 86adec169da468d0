//! A door between a manager and the API server: it notes every request and lets a rule act between the
//! API server's answer and the manager's hearing of it.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::testbed::Bed;

/// A request that went through, and the answer's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    pub(crate) method: Method,
    /// With the name of a created object at its end, without the query.
    pub(crate) path: String,
    pub(crate) code: StatusCode,
}

impl Passage {
    /// Reads change nothing; everything else is a write.
    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// Whether the path names this resource (plural).
    pub(crate) fn touches(&self, resource: &str) -> bool {
        self.path.split('/').any(|part| part == resource)
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// What happens once the API server has answered; the manager hears of it afterwards.
pub(crate) type Rule = dyn Fn(&Passage) -> Option<BoxFuture<'static, ()>> + Send + Sync;

/// The door. It closes when it is dropped.
pub(crate) struct Proxy {
    door: Arc<Door>,
    kubeconfig: PathBuf,
    server: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

struct Door {
    client: kube::Client,
    rule: Box<Rule>,
    log: Mutex<Vec<Passage>>,
}

impl Proxy {
    /// Opens a door to the bed's API server on 127.0.0.1, with the manager's rights.
    pub(crate) async fn open(
        bed: &Bed,
        rule: impl Fn(&Passage) -> Option<BoxFuture<'static, ()>> + Send + Sync + 'static,
    ) -> Self {
        let mut config = bed.manager_config().await;
        // What the manager sent once is forwarded once.
        config.default_retry = false;
        let door = Arc::new(Door {
            client: kube::Client::try_from(config).expect("the bed's kubeconfig makes a client"),
            rule: Box::new(rule),
            log: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(
            &kubeconfig,
            kubeconfig_of(&format!("http://{address}")).to_string(),
        )
        .unwrap();
        let router = Router::new().fallback(pass).with_state(Arc::clone(&door));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self {
            door,
            kubeconfig,
            server,
            _folder: folder,
        }
    }

    /// For the manager: leads through this door.
    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// Every request that was answered so far.
    pub(crate) fn passages(&self) -> Vec<Passage> {
        self.door.log.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A kubeconfig (JSON is YAML) for a server that asks for no credentials.
pub(crate) fn kubeconfig_of(server: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    })
}

async fn pass(State(door): State<Arc<Door>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let path = full_path(&parts, &body);
    let forwarded = forwarded(&parts, body.to_vec());
    let answer = match door.client.send(forwarded).await {
        Ok(answer) => answer,
        Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    };
    let passage = Passage {
        method: parts.method,
        path,
        code: answer.status(),
    };
    let then = (door.rule)(&passage);
    door.log.lock().unwrap().push(passage);
    if let Some(then) = then {
        then.await;
    }
    // The body streams on: a watch stays a watch.
    answer.map(Body::new)
}

/// The path, and for a create the name from the body: which of two Secrets it was matters here.
fn full_path(parts: &Parts, body: &[u8]) -> String {
    let path = parts.uri.path().to_owned();
    if parts.method != Method::POST {
        return path;
    }
    let object: Value = serde_json::from_slice(body).unwrap_or_default();
    match object["metadata"]["name"].as_str() {
        Some(name) => format!("{path}/{name}"),
        None => path,
    }
}

fn forwarded(parts: &Parts, body: Vec<u8>) -> http::Request<kube::client::Body> {
    let mut forwarded = http::Request::builder()
        .method(&parts.method)
        .uri(parts.uri.path_and_query().map_or("/", |path| path.as_str()));
    for name in [ACCEPT, CONTENT_TYPE] {
        if let Some(value) = parts.headers.get(&name) {
            forwarded = forwarded.header(name, value);
        }
    }
    forwarded
        .body(kube::client::Body::from(body))
        .expect("it was a request before")
}
