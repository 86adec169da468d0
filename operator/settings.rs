//! The manager's settings: flags and environment, read once, judged once (manager.md §1).
//!
//! [`ManagerArgs`] holds what was typed. [`ManagerArgs::settings`] turns it into [`Settings`], in which every value
//! keeps the rule of its flag, or into one [`InvalidFlags`] that names every rule broken. Nothing after that looks at
//! a flag again.

mod args;
mod check;
mod duration;
mod flags;
mod image;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub use args::{ManagerArgs, VersionRequest, dashed_flag_names};

use check::Checker;

/// Everything the manager was told, valid as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Which objects are watched and reconciled.
    pub scope: WatchScope,
    /// Interval of the resync of every known object and of the orphan sweep; longer than zero.
    pub sync_period: Duration,
    /// Reconciles in flight, per kind.
    pub concurrency: Concurrency,
    /// Where `/healthz` and `/readyz` are served; `None` switches them off.
    pub health_address: Option<ListenAddress>,
    /// Kubeconfig file named by the flag; `None` leaves the choice to `$KUBECONFIG` and the pod's ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The leader election; `None` leads at once and takes no Lease.
    pub election: Option<Election>,
    /// Where and with which files the admission webhooks are served.
    pub webhook: WebhookServing,
    /// What Jobs inject into a module's pod.
    pub runner: Runner,
    /// Interval of drift checks where neither the object nor its cluster sets one; longer than zero.
    pub drift_default_interval: Duration,
    /// Whether a cluster's apply, destroy and restore are kept apart from its machines' (leases.md §9).
    pub cluster_operation_gate: bool,
    /// How many Jobs may run at once.
    pub job_limits: JobLimits,
    /// Backups kept per object; 0 takes none.
    pub state_backups: u32,
    /// Which registries an image may be inspected in.
    pub image_inspection: ImageInspection,
    /// Where and how metrics are served; `None` switches them off.
    pub diagnostics: Option<Diagnostics>,
    /// TLS of webhooks and metrics.
    pub tls: TlsSettings,
    /// Form and verbosity of the log.
    pub logging: LoggingSettings,
    /// The user name the manager has at the API server; `None` when the environment does not tell (manager.md §1.2).
    pub manager_user: Option<String>,
    /// Namespace of the manager's own pod, from `POD_NAMESPACE`; `None` outside a cluster.
    pub pod_namespace: Option<String>,
    /// The version to report instead of the built-in one, from `--version=vX.Y.Z`.
    pub reported_version: Option<String>,
    /// What a start should warn about once: flags without effect here, and what the environment lacks.
    pub warnings: Vec<String>,
}

/// Which objects are watched and reconciled (manager.md §4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchScope {
    /// The only namespace to watch; `None` watches all.
    pub namespace: Option<String>,
    /// Required value of the label `cluster.x-k8s.io/watch-filter`; `None` requires nothing.
    pub filter: Option<String>,
}

/// Reconciles in flight, per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concurrency {
    /// TerraformClusters.
    pub cluster: NonZeroUsize,
    /// TerraformMachines.
    pub machine: NonZeroUsize,
    /// TerraformMachinePools.
    pub machine_pool: NonZeroUsize,
    /// TerraformMachineTemplates.
    pub machine_template: NonZeroUsize,
    /// TerraformClusterIdentities.
    pub identity: NonZeroUsize,
}

/// A TCP address to listen on, as Go writes one: `:8443`, `127.0.0.1:8443`, `[::1]:8443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// Host name or address without brackets; `None` listens on every address.
    pub host: Option<String>,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.as_deref() {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

/// Times of the leader election, with lease duration > renew deadline > 1.2 × retry period > 0 (failover.md §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Election {
    /// How long a candidate waits for a silent leader.
    pub lease_duration: Duration,
    /// How long the leader may fail to renew before it has lost.
    pub renew_deadline: Duration,
    /// How often the leader renews and a candidate tries.
    pub retry_period: Duration,
    /// Whether a clean stop releases the Lease.
    pub release_on_exit: bool,
}

/// Where the admission webhooks are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookServing {
    /// TCP port.
    pub port: u16,
    /// Folder of the serving certificate.
    pub cert_dir: PathBuf,
    /// File name of the certificate.
    pub cert_name: String,
    /// File name of the key.
    pub key_name: String,
}

/// What Jobs inject into a module's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Reference of the image that holds `/runner`.
    pub image: String,
    /// Whether runners post their progress as Events.
    pub events: bool,
}

/// How many Jobs may run at once; 0 sets no limit (jobs.md §11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// In all namespaces together.
    pub global: i32,
    /// For one TerraformCluster with its machines and pools, unless its `spec.maxActiveJobs` says otherwise.
    pub per_cluster: i32,
}

/// Which registries an image may be inspected in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageInspection {
    /// Whether registries at loopback, link-local and private addresses are allowed.
    pub allow_private_registries: bool,
    /// Registry hosts, normalized; empty allows every host that passes the address check.
    pub allowed_registries: Vec<String>,
}

/// Where and how metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// Address to listen on.
    pub address: ListenAddress,
    /// Plain HTTP without authentication, and without the endpoint that changes the log level.
    pub insecure: bool,
}

/// TLS of webhooks and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsSettings {
    /// Lowest version offered.
    pub min_version: TlsVersion,
    /// IANA names of the TLS 1.2 cipher suites to offer; empty offers all that are built in.
    pub cipher_suites: Vec<String>,
    /// IANA numbers of the key exchange groups to offer; empty offers all that are built in.
    pub groups: Vec<u16>,
}

/// Lowest TLS version offered; TLS 1.0 and 1.1 are not built in and count as 1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVersion {
    /// TLS 1.2 and 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// Form and verbosity of the log (manager.md §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggingSettings {
    /// Form of a line.
    pub format: LogFormat,
    /// klog verbosity: 0 errors and what cannot be undone, 2 normal flow, 4 debugging, 5 rendered inputs.
    pub verbosity: u32,
}

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// klog's text lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Every rule that the flags and the environment break, reported together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFlags(Vec<String>);

impl InvalidFlags {
    /// One sentence per broken rule, in the order of the flags.
    #[must_use]
    pub fn violations(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for InvalidFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid flags: {}", self.0.join("; "))
    }
}

impl std::error::Error for InvalidFlags {}

impl ManagerArgs {
    /// Form and verbosity of the log alone, so that the log works before the other flags are judged.
    ///
    /// # Errors
    /// Every rule that the logging flags break.
    pub fn logging(&self) -> Result<LoggingSettings, InvalidFlags> {
        let mut check = Checker::new(self);
        let logging = check.logging();
        check.verdict().map(|()| logging)
    }

    /// Judges flags and environment together; `env` answers with the value of an environment variable.
    ///
    /// # Errors
    /// Every rule broken, in one error.
    pub fn settings(self, env: &dyn Fn(&str) -> Option<String>) -> Result<Settings, InvalidFlags> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let mut check = Checker::new(&self);
        check.no_arguments();
        let settings = Settings {
            scope: check.scope(),
            sync_period: check.positive(&flags::SYNC_PERIOD),
            concurrency: check.concurrency(),
            health_address: check.listen_address(&flags::HEALTH_ADDR),
            kubeconfig: check.optional(&flags::KUBECONFIG).map(PathBuf::from),
            election: check.election(),
            webhook: check.webhook(),
            runner: check.runner(env("CAPTF_MANAGER_IMAGE")),
            drift_default_interval: check.positive(&flags::DRIFT_DEFAULT_INTERVAL),
            cluster_operation_gate: check.value(&flags::CLUSTER_OPERATION_GATE),
            job_limits: check.job_limits(),
            state_backups: check.count(&flags::STATE_BACKUPS),
            image_inspection: check.image_inspection(),
            diagnostics: check.diagnostics(),
            tls: check.tls(),
            logging: check.logging(),
            manager_user: check.manager_user(env("POD_NAMESPACE"), env("SERVICE_ACCOUNT_NAME")),
            pod_namespace: env("POD_NAMESPACE"),
            reported_version: self.reported_version(),
            warnings: check.take_warnings(),
        };
        check.verdict().map(|()| settings)
    }
}
