//! The manager process: from its flags to a clean stop (manager.md §1, §8).

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::ObjectMeta;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::cache::{Caches, Wake};
use super::context::{Context, Options};
use super::controller::{self, CLUSTER_CONTROLLER};
use super::election::{self, Elector, Leadership, Term};
use super::events::{Events, Publisher};
use super::leases::Leases;
use super::metrics::{self, BuildInfo, Metrics};
use super::queue::WorkQueue;
use super::settings::{InvalidFlags, ManagerArgs, Settings, VersionRequest};
use super::start::Starter;
use super::state::StateReader;
use super::{health, logging, skew, watch};
use crate::client::{Access, Clock, ConnectError, connect};
use crate::names::ObjectKey;

/// How long one request to the API server may take. Well below half the grace of a lease, so that a
/// create that was sent in time also ends in time (leases.md §6.6).
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// How long running passes may go on after the stop was asked for (manager.md §8).
const GRACEFUL: Duration = Duration::from_secs(20);

/// Why a manager does not start or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// Flags or environment.
    #[error("{0}; kubectl-captf manager --help lists the flags")]
    Flags(#[from] InvalidFlags),
    /// The kubeconfig cannot be used.
    #[error(
        "the kubeconfig {path} cannot be used: {}; correct it, or name another one with --kubeconfig or $KUBECONFIG",
        unusable(.source)
    )]
    Kubeconfig {
        /// The file, or the files of `$KUBECONFIG`.
        path: String,
        /// Why not; its own text may quote the file.
        source: Box<KubeconfigError>,
    },
    /// No kubeconfig was named, and this is no pod.
    #[error(
        "no API server is known: {0}; name a kubeconfig with --kubeconfig or $KUBECONFIG, or run in a pod"
    )]
    NoCluster(#[source] Box<kube::config::InClusterError>),
    /// The client cannot be built.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Serve(#[from] health::ServeError),
    /// The process cannot be set up.
    #[error("the process cannot be set up: {0}")]
    Process(#[from] std::io::Error),
    /// The leader's Lease was lost: another manager may act from now on.
    #[error(
        "the leader election was lost: {0}; this process ends so that it cannot act beside another leader"
    )]
    LeadershipLost(String),
    /// A watch or a server ended, which runs as long as the process.
    #[error(
        "a background task ended unexpectedly: {0}; this process ends so that it does not work on with old data"
    )]
    Background(String),
}

/// Runs `kubectl-captf manager`.
#[must_use]
pub fn main(args: ManagerArgs) -> ExitCode {
    if let Some(request) = args.version_request() {
        return print_version(
            request,
            &args
                .reported_version()
                .unwrap_or_else(|| crate::VERSION.to_owned()),
        );
    }
    if let Err(error) = args.logging().map(logging::install) {
        return fail(&error.into());
    }
    for line in args.flag_lines() {
        tracing::info!("{line}");
    }
    let settings = match args.settings(&|name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => return fail(&error.into()),
    };
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!(
        version = settings
            .reported_version
            .as_deref()
            .unwrap_or(crate::VERSION),
        commit = crate::COMMIT.unwrap_or("unknown"),
        contract = crate::inputs::CONTRACT_VERSION,
        "starting"
    );
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ManagerError::from)
        .and_then(|runtime| runtime.block_on(run(settings)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// One line, or all that is known about the build (manager.md §1).
fn print_version(request: VersionRequest, version: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let printed = match request {
        VersionRequest::Line => writeln!(out, "manager {version}"),
        VersionRequest::Raw => {
            let build = BuildInfo {
                version,
                commit: crate::COMMIT.unwrap_or("unknown"),
            };
            writeln!(out, "{build:?}")
        }
    };
    // Whoever asked and closed the pipe has what they wanted.
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn fail(error: &ManagerError) -> ExitCode {
    // The log may not be there yet, and whoever started the process reads stderr.
    eprintln!("kubectl-captf manager: {error}");
    ExitCode::FAILURE
}

/// Runs the manager until it is told to stop.
///
/// # Errors
/// When it cannot start, or lost the election.
pub async fn run(settings: Settings) -> Result<(), ManagerError> {
    let mut signals = Signals::new()?;
    let config = kube_config(&settings).await?;
    let version = settings
        .reported_version
        .as_deref()
        .unwrap_or(crate::VERSION);
    let metrics = Metrics::new(BuildInfo {
        version,
        commit: crate::COMMIT.unwrap_or("unknown"),
    });
    let clock = Clock::system();
    metrics.track_clock(clock.clone());
    let candidate = candidate(&settings, &config, &clock)?;
    let term = candidate
        .as_ref()
        .map_or_else(Term::unlimited, Elector::term);
    let Clients {
        passes: access,
        reviews,
        watches,
    } = clients(&config, &clock, &metrics, &term)?;

    let queue: WorkQueue<ObjectKey> = WorkQueue::new(metrics.queue(CLUSTER_CONTROLLER));
    let caches = Caches::new(settings.scope.clone());
    let wake: Arc<dyn Wake> = Arc::new(queue.clone());
    let counted = Arc::clone(&caches);
    metrics.track_active_jobs(move || counted.active_jobs());
    let mut background = caches.watch(&watches, &wake);
    health::serve(&settings, &metrics, &reviews, &mut background).await?;

    let (events, publisher) = Events::start(access.clone(), instance());
    let context = context(&settings, access, &caches, events, metrics.clone());
    let leadership = tokio::select! {
        leadership = lead(candidate) => leadership,
        () = signals.stop() => return Ok(()),
        ended = ended(&mut background) => return Err(ended),
    };
    tokio::select! {
        () = caches.synced() => {}
        () = signals.stop() => {
            // No pass has run, so that another manager may lead at once (manager.md §8).
            leadership.release_if_asked().await;
            return Ok(());
        }
        lost = leadership.lost() => return Err(ManagerError::LeadershipLost(lost)),
        ended = ended(&mut background) => return Err(ended),
    }
    let skew = tokio::spawn(skew::watch(
        clock,
        context.events.clone(),
        settings.pod_namespace.clone().map(own_pod),
    ));
    background.spawn(Arc::clone(&caches).resync(settings.sync_period, Arc::clone(&wake)));
    let workers = settings.concurrency.cluster.get();
    tracing::info!(controller = CLUSTER_CONTROLLER, workers, "starting workers");
    let passes = controller::start(
        &context,
        &queue,
        &metrics.controller(CLUSTER_CONTROLLER, workers),
        workers,
    );
    drop(context);
    tokio::select! {
        () = signals.stop() => {}
        lost = leadership.lost() => return Err(ManagerError::LeadershipLost(lost)),
        ended = ended(&mut background) => return Err(ended),
    }
    skew.abort();
    stop(&mut signals, &queue, passes, publisher, leadership).await;
    Ok(())
}

/// Takes no more work, lets running passes end, writes what is left to say (manager.md §8).
async fn stop(
    signals: &mut Signals,
    queue: &WorkQueue<ObjectKey>,
    mut passes: JoinSet<()>,
    publisher: Publisher,
    leadership: Leadership,
) {
    tracing::info!(
        "stopping: running passes have {} s to end",
        GRACEFUL.as_secs()
    );
    queue.shut_down();
    let ended = async { while passes.join_next().await.is_some() {} };
    tokio::select! {
        ended = timeout(GRACEFUL, ended) => match ended {
            Ok(()) => {
                publisher.flush().await;
                leadership.release_if_asked().await;
            }
            // A pass that still runs may still write: the Lease stays and expires.
            Err(_) => tracing::warn!("a pass did not end in time; it is left where it is"),
        },
        () = signals.stop() => {
            tracing::warn!("a second signal: stopping at once");
            std::process::exit(1);
        }
    }
}

/// Ways to the API server, each request counted.
struct Clients {
    /// For passes: sends writes only while this process leads.
    passes: Access,
    /// Asks who may read metrics, leading or not.
    reviews: Access,
    /// For watches: notices a connection that fell silent.
    watches: kube::Client,
}

fn clients(
    config: &kube::Config,
    clock: &Clock,
    metrics: &Metrics,
    term: &Term,
) -> Result<Clients, ConnectError> {
    let host = config
        .cluster_url
        .authority()
        .map(ToString::to_string)
        .unwrap_or_default();
    let client = metrics::counted(connect(config, clock)?, metrics, &host);
    let watches = connect(&watch::client_config(config.clone()), clock)?;
    Ok(Clients {
        passes: Access::new(
            election::fenced(client.clone(), term),
            clock.clone(),
            REQUEST_LIMIT,
        ),
        reviews: Access::new(client, clock.clone(), REQUEST_LIMIT),
        watches: metrics::counted(watches, metrics, &host),
    })
}

/// The candidate of the election, unless there is none.
fn candidate(
    settings: &Settings,
    config: &kube::Config,
    clock: &Clock,
) -> Result<Option<Elector>, ManagerError> {
    let Some(election) = settings.election else {
        return Ok(None);
    };
    let namespace = election::namespace(settings.pod_namespace.as_deref());
    // A client of its own: a stuck pass must not keep the leader from renewing.
    let elector = Elector::new(connect(config, clock)?, &namespace, election);
    tracing::info!(identity = elector.identity(), namespace, "waiting to lead");
    Ok(Some(elector))
}

async fn lead(candidate: Option<Elector>) -> Leadership {
    match candidate {
        Some(elector) => elector.lead().await,
        None => Leadership::unchallenged(),
    }
}

/// Waits until a task ends that must run as long as the process: it panicked.
async fn ended(background: &mut JoinSet<()>) -> ManagerError {
    match background.join_next().await {
        Some(Err(error)) => ManagerError::Background(error.to_string()),
        Some(Ok(())) => ManagerError::Background("it returned".to_owned()),
        None => std::future::pending().await,
    }
}

fn context(
    settings: &Settings,
    access: Access,
    caches: &Arc<Caches>,
    events: Events,
    metrics: Metrics,
) -> Context {
    let leases = Leases::new(access.clone());
    Context {
        starter: Starter::new(access.clone(), leases.clone()),
        leases,
        access,
        caches: Arc::clone(caches),
        states: Arc::new(StateReader::default()),
        events,
        metrics: Arc::new(metrics),
        options: Arc::new(Options {
            runner_image: settings.runner.image.clone(),
            runner_events: settings.runner.events,
            cluster_operation_gate: settings.cluster_operation_gate,
            max_active_jobs: settings.job_limits.global,
            cluster_max_active_jobs: settings.job_limits.per_cluster,
        }),
    }
}

/// `--kubeconfig`, else `$KUBECONFIG`, else the pod's ServiceAccount (manager.md §1.1).
async fn kube_config(settings: &Settings) -> Result<kube::Config, ManagerError> {
    let unusable = |path: &OsStr| {
        let path = path.to_string_lossy().into_owned();
        move |error| ManagerError::Kubeconfig {
            path,
            source: Box::new(error),
        }
    };
    let options = KubeConfigOptions::default();
    let listed = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
    let mut config = if let Some(path) = &settings.kubeconfig {
        let unusable = unusable(path.as_os_str());
        let kubeconfig = Kubeconfig::read_from(path).map_err(unusable.clone())?;
        kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(unusable)?
    } else if let Some(files) = listed {
        kube::Config::from_kubeconfig(&options)
            .await
            .map_err(unusable(&files))?
    } else {
        kube::Config::incluster().map_err(|error| ManagerError::NoCluster(Box::new(error)))?
    };
    config.default_retry = false;
    Ok(config)
}

/// What is wrong with a kubeconfig, without a word of its text: credentials may stand next to the fault,
/// and the parser quotes the lines around it.
fn unusable(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(cause, _) => cause.to_string(),
        KubeconfigError::Parse(cause) => match cause.location() {
            Some(at) => format!(
                "it is not the YAML of a kubeconfig (line {}, column {})",
                at.line(),
                at.column()
            ),
            None => "it is not the YAML of a kubeconfig".to_owned(),
        },
        other => other.to_string(),
    }
}

/// Who reports: the pod's name, which is its host name.
fn instance() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The pod this process runs in: its host name is the pod's name.
fn own_pod(namespace: String) -> Pod {
    let metadata = ObjectMeta {
        name: Some(instance()),
        namespace: Some(namespace),
        ..ObjectMeta::default()
    };
    Pod {
        metadata,
        ..Pod::default()
    }
}

/// The signals that stop the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
