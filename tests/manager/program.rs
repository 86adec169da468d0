//! The built binary as `kubectl-captf manager`, a process of the test.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use crate::testbed::{Bed, World, wait};

/// The image that holds the runner; on level 1 nobody pulls it.
pub(crate) const RUNNER_IMAGE: &str = "registry.example.com/captf:v1";

/// A manager process; it ends with the test.
pub(crate) struct Manager {
    child: Arc<Mutex<Child>>,
    health: u16,
    diagnostics: u16,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

/// Ends a manager as a power cut does, from wherever it is held.
#[derive(Clone)]
pub(crate) struct Sword(Arc<Mutex<Child>>);

impl Sword {
    /// SIGKILL; the process is gone when this returns.
    pub(crate) fn strike(&self) {
        let mut child = self.0.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// The binary with these arguments after `manager` and nothing of the caller's environment.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-captf"));
    command
        .arg("manager")
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent");
    command
}

/// Runs a manager that is expected not to start, and returns what it said.
pub(crate) fn refused(arguments: &[&str]) -> Output {
    command(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

impl Manager {
    /// Starts a manager of the test's namespace, whose election Lease is there, too.
    pub(crate) fn start(bed: &Bed, world: &World, arguments: &[&str]) -> Self {
        Self::through(bed.manager_kubeconfig(), &world.namespace, arguments)
    }

    /// The same with another way to the API server.
    pub(crate) fn through(kubeconfig: &Path, namespace: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (health, diagnostics) = (free_port(), free_port());
        let child = command(&[
            &format!("--kubeconfig={}", kubeconfig.display()),
            &format!("--namespace={namespace}"),
            &format!("--health-addr=127.0.0.1:{health}"),
            &format!("--diagnostics-address=127.0.0.1:{diagnostics}"),
            &format!("--runner-image={RUNNER_IMAGE}"),
        ])
        .args(arguments)
        .env("POD_NAMESPACE", namespace)
        .env("SERVICE_ACCOUNT_NAME", "captf-controller-manager")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
        Self {
            child: Arc::new(Mutex::new(child)),
            health,
            diagnostics,
            log,
            _folder: folder,
        }
    }

    /// What ends it from elsewhere.
    pub(crate) fn sword(&self) -> Sword {
        Sword(Arc::clone(&self.child))
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How it ended, if it did.
    pub(crate) fn end(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Waits until the log holds `text`.
    pub(crate) async fn logged(&self, text: &str) {
        wait::until(
            &format!("the log to say {text:?}"),
            wait::LIMIT,
            async || {
                let ended = self.end();
                wait::so(self.log().contains(text), || {
                    format!("ended: {ended:?}, log:\n{}", self.log())
                })
            },
        )
        .await;
    }

    /// Waits until it makes passes.
    pub(crate) async fn works(&self) {
        self.logged("starting workers").await;
    }

    pub(crate) async fn ended(&self) -> ExitStatus {
        wait::until("the manager to end", wait::LIMIT, async || {
            self.end().ok_or_else(|| self.log())
        })
        .await
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child.lock().unwrap());
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&self) -> ExitStatus {
        self.signal(rustix::process::Signal::TERM);
        self.ended().await
    }

    /// GET of a path of the health server: status and body.
    pub(crate) async fn health(&self, path: &str) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}", self.health);
        get(&url, path, None).await.unwrap()
    }

    pub(crate) async fn metrics(&self, token: Option<&str>) -> (u16, String) {
        let url = format!("https://127.0.0.1:{}", self.diagnostics);
        get(&url, "/metrics", token).await.unwrap()
    }

    /// GET of `/metrics` of a manager with `--insecure-diagnostics`.
    pub(crate) async fn plain_metrics(&self) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}", self.diagnostics);
        get(&url, "/metrics", None).await.unwrap()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.sword().strike();
    }
}

async fn get(url: &str, path: &str, token: Option<&str>) -> Result<(u16, String), String> {
    let mut config = kube::Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    let response = client
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let body = response
        .into_body()
        .collect_bytes()
        .await
        .map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
