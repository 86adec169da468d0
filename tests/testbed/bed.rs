//! One bed: a supervisor that lives as long as this process holds its standard input.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::Deserialize;

use super::account::Account;
use super::fault::Faults;
use super::programs;

/// What a bed consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// etcd, API server, controller manager.
    ControlPlane,
    /// The same and a node, a registry, Services.
    Node,
}

/// How much of Cluster API a bed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterApi {
    Definitions,
    /// The core controllers run, too; their webhooks are not registered.
    Controllers,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) level: Level,
    pub(crate) cluster_api: ClusterApi,
    /// Write an audit log ([`Ready::audit_log`]).
    pub(crate) audit: bool,
}

impl Options {
    pub(crate) fn control_plane() -> Self {
        Self {
            level: Level::ControlPlane,
            cluster_api: ClusterApi::Definitions,
            audit: false,
        }
    }

    pub(crate) fn node() -> Self {
        Self {
            level: Level::Node,
            cluster_api: ClusterApi::Controllers,
            audit: false,
        }
    }
}

/// The line that the supervisor prints when every part of the bed works.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ready {
    /// Part of the names of what a bed has outside of its folder, as its cgroups `captf-<id>`.
    pub(crate) id: String,
    pub(crate) dir: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) pid: u32,
    /// Reaches the API server from this process and its children.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) server: String,
    /// Reaches it from pods and from Cluster API's controllers.
    pub(crate) inside_kubeconfig: PathBuf,
    /// `127.0.0.1:PORT`, takes pushes; empty on level 1.
    #[serde(default)]
    pub(crate) registry: String,
    /// The same registry in the image references of pods.
    #[serde(default)]
    pub(crate) inside_registry: String,
    control: PathBuf,
    pub(crate) audit_log: Option<PathBuf>,
    /// After how many milliseconds each step was done.
    pub(crate) milliseconds: std::collections::BTreeMap<String, u64>,
}

/// A running bed. Dropping it ends it and waits until nothing of it is left.
#[derive(Debug)]
pub(crate) struct Bed {
    options: Options,
    ready: Ready,
    supervisor: Child,
    // The bed ends when this closes, which the kernel does for a process that is killed.
    life: Option<ChildStdin>,
    account: Account,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Kubelet,
    Proxy,
    Containerd,
    Registry,
    ClusterApi,
}

impl Component {
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::Containerd => "containerd",
            Self::Registry => "registry",
            Self::ClusterApi => "cluster-api",
        }
    }
}

/// What can be done to a component; each is done when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Start,
    /// SIGTERM, and SIGKILL after 10 s.
    Stop,
    Kill,
    /// SIGSTOP: connections stay open and nothing is answered.
    Pause,
    Resume,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

impl Bed {
    /// Starts a bed and returns when it is ready. Blocks: seconds, or minutes when its programs are not built yet.
    pub(crate) fn start(options: Options) -> Result<Self, String> {
        let mut supervisor = Command::new(programs::folder()?.join("testbed"))
            .args(arguments(options))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the test bed's supervisor did not start: {error}"))?;
        let life = supervisor.stdin.take();
        let mut line = String::new();
        if let Some(output) = supervisor.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(|error| format!("the supervisor's answer: {error}"))?;
        }
        match serde_json::from_str(&line) {
            Ok(ready) => Ok(Self {
                options,
                ready,
                supervisor,
                life,
                account: Account::default(),
            }),
            Err(_) => {
                let status = supervisor.wait().map_err(|error| error.to_string())?;
                Err(format!(
                    "the test bed did not start ({status}); its supervisor says why on standard error"
                ))
            }
        }
    }

    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.ready.kubeconfig
    }

    /// Whether Cluster API's controllers run, which set owner references and labels.
    pub(crate) fn has_cluster_api_controllers(&self) -> bool {
        self.options.cluster_api == ClusterApi::Controllers
    }

    /// The administrator's configuration.
    pub(crate) async fn config(&self) -> kube::Config {
        // Another test may have installed it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig =
            Kubeconfig::read_from(self.kubeconfig()).expect("the bed wrote its kubeconfig");
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("the bed's kubeconfig is complete")
    }

    /// A new client of the administrator. Its connections belong to the runtime of the test that asks for it.
    pub(crate) async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config().await).expect("the bed's kubeconfig makes a client")
    }

    /// A client whose requests pass through `faults`, with no retries of its own below them.
    pub(crate) async fn client_through(&self, faults: &Faults) -> kube::Client {
        let mut config = self.config().await;
        config.default_retry = false;
        faults.around(kube::Client::try_from(config).expect("the bed's kubeconfig makes a client"))
    }

    /// Does something to one component.
    pub(crate) fn control(&self, action: Action, component: Component) -> Result<(), String> {
        let request = serde_json::json!({"command": action.name(), "component": component.name()});
        let answer = self
            .ask(&request)
            .map_err(|error| format!("the bed's control socket: {error}"))?;
        match answer.get("error").and_then(serde_json::Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(()),
        }
    }

    fn ask(&self, request: &serde_json::Value) -> std::io::Result<serde_json::Value> {
        let mut connection = UnixStream::connect(&self.ready.control)?;
        connection.set_read_timeout(Some(Duration::from_secs(30)))?;
        writeln!(connection, "{request}")?;
        let mut line = String::new();
        BufReader::new(connection).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// `kubectl`, part of the bed's own binary, with the bed's kubeconfig.
    pub(crate) fn kubectl(&self) -> Command {
        let folder = programs::folder().expect("the bed runs, so its programs are built");
        let mut command = Command::new(folder.join("testbed"));
        command
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig());
        command
    }

    /// Ends the bed as its owner's death would and says how long it took.
    pub(crate) fn end(mut self) -> Duration {
        let begin = Instant::now();
        self.close();
        begin.elapsed()
    }

    fn close(&mut self) {
        drop(self.life.take());
        if let Err(error) = self.supervisor.wait() {
            panic!("the test bed's supervisor: {error}");
        }
    }
}

/// Removes what beds left whose supervisor was killed; starting a bed does it, too.
pub(crate) fn sweep() -> Result<(), String> {
    let status = Command::new(programs::folder()?.join("testbed"))
        .arg("sweep")
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("testbed sweep: {other:?}")),
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.life.is_some() {
            self.close();
        }
    }
}

fn arguments(options: Options) -> Vec<String> {
    let level = match options.level {
        Level::ControlPlane => "1",
        Level::Node => "2",
    };
    let cluster_api = match options.cluster_api {
        ClusterApi::Definitions => "crds",
        ClusterApi::Controllers => "controllers",
    };
    let mut arguments: Vec<String> = ["up", "--level", level, "--cluster-api", cluster_api]
        .map(Into::into)
        .to_vec();
    let definitions = programs::repository().join("operator/manifests/crds");
    if definitions.is_dir() {
        arguments.extend(["--crds".to_owned(), definitions.display().to_string()]);
    }
    if let Some(logs) = std::env::var_os("CAPTF_TESTBED_LOGS") {
        let folder = Path::new(&logs).join(format!("level-{level}-{}", std::process::id()));
        arguments.extend(["--logs".to_owned(), folder.display().to_string()]);
    }
    if options.audit {
        arguments.push("--audit".to_owned());
    }
    arguments
}
