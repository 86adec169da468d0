//! Every flag of the manager, defined once: name, default, type, group and help.
//!
//! The command line, the help text, the `FLAG:` lines, the warnings about flags without effect and the validation all
//! come from these definitions (manager.md §1.1).

use std::marker::PhantomData;

use super::duration::GoDuration;
use super::values::{FlagValue, GateMap, Quantity, VersionValue};

/// The headings of the help text, in their order.
pub(super) mod group {
    pub(in super::super) const GENERIC: &str = "Generic flags";
    pub(in super::super) const LEADER_ELECTION: &str = "Leader election flags";
    pub(in super::super) const WEBHOOK: &str = "Webhook flags";
    pub(in super::super) const RUNNER: &str = "Runner flags";
    pub(in super::super) const IMAGE_INSPECTION: &str = "Image inspection flags";
    pub(in super::super) const DIAGNOSTICS: &str = "Diagnostics flags";
    pub(in super::super) const LOGS: &str = "Logs flags";
    pub(in super::super) const FEATURE_GATES: &str = "Feature gates flags";
    pub(in super::super) const GLOBAL: &str = "Global flags";
}

/// What the command line needs to know about a flag, whatever its type.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlagSpec {
    pub(super) name: &'static str,
    pub(super) short: Option<char>,
    pub(super) group: &'static str,
    pub(super) default: &'static str,
    pub(super) help: &'static str,
    /// Why the flag is accepted without changing anything; `None` for a flag that works.
    pub(super) no_effect: Option<&'static str>,
    pub(super) boolean: bool,
    pub(super) value_name: &'static str,
    /// The value as the `FLAG:` lines print it; text that is no such value is printed as it stands.
    pub(super) show: fn(&[&str]) -> String,
}

/// A flag whose value is a `T`.
pub(super) struct Flag<T> {
    pub(super) spec: FlagSpec,
    value: PhantomData<fn() -> T>,
}

impl<T: FlagValue> Flag<T> {
    const fn new(
        group: &'static str,
        name: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        let spec = FlagSpec {
            name,
            short: None,
            group,
            default,
            help,
            no_effect: None,
            boolean: T::BOOLEAN,
            value_name: T::VALUE_NAME,
            show: show::<T>,
        };
        Self {
            spec,
            value: PhantomData,
        }
    }

    const fn short(mut self, short: char) -> Self {
        self.spec.short = Some(short);
        self
    }

    const fn without_effect(mut self, why: &'static str) -> Self {
        self.spec.no_effect = Some(why);
        self
    }
}

fn show<T: FlagValue>(texts: &[&str]) -> String {
    T::parse(texts).map_or_else(
        |_| texts.last().copied().unwrap_or_default().to_owned(),
        |value| value.show(),
    )
}

pub(super) const NAMESPACE: Flag<String> = Flag::new(
    group::GENERIC,
    "namespace",
    "",
    "Watch this namespace only; all when empty. TerraformClusterIdentities are watched everywhere",
);
pub(super) const WATCH_FILTER: Flag<String> = Flag::new(
    group::GENERIC,
    "watch-filter",
    "",
    "Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value; all when empty",
);
pub(super) const SYNC_PERIOD: Flag<GoDuration> = Flag::new(
    group::GENERIC,
    "sync-period",
    "10m",
    "How often every known object is reconciled again and orphans are swept",
);
pub(super) const CLUSTER_CONCURRENCY: Flag<i64> = Flag::new(
    group::GENERIC,
    "terraformcluster-concurrency",
    "10",
    "TerraformClusters reconciled at once",
);
pub(super) const MACHINE_CONCURRENCY: Flag<i64> = Flag::new(
    group::GENERIC,
    "terraformmachine-concurrency",
    "10",
    "TerraformMachines reconciled at once",
);
pub(super) const MACHINE_POOL_CONCURRENCY: Flag<i64> = Flag::new(
    group::GENERIC,
    "terraformmachinepool-concurrency",
    "10",
    "TerraformMachinePools reconciled at once",
);
pub(super) const MACHINE_TEMPLATE_CONCURRENCY: Flag<i64> = Flag::new(
    group::GENERIC,
    "terraformmachinetemplate-concurrency",
    "10",
    "TerraformMachineTemplates reconciled at once",
);
pub(super) const IDENTITY_CONCURRENCY: Flag<i64> = Flag::new(
    group::GENERIC,
    "terraformclusteridentity-concurrency",
    "4",
    "TerraformClusterIdentities reconciled at once",
);
pub(super) const HEALTH_ADDR: Flag<String> = Flag::new(
    group::GENERIC,
    "health-addr",
    ":9440",
    "Address that serves /healthz and /readyz; off when empty or 0",
);
pub(super) const PROFILER_ADDRESS: Flag<String> = Flag::new(
    group::GENERIC,
    "profiler-address",
    "",
    "Address of a Go profiler",
)
.without_effect("this manager has no Go profiler");
pub(super) const KUBECONFIG: Flag<String> = Flag::new(
    group::GENERIC,
    "kubeconfig",
    "",
    "Kubeconfig file of the management cluster; when empty $KUBECONFIG, else the pod's own ServiceAccount",
);

pub(super) const LEADER_ELECT: Flag<bool> = Flag::new(
    group::LEADER_ELECTION,
    "leader-elect",
    "false",
    "Reconcile only while holding the Lease controller-leader-election-captf; needed with more than one replica",
);
pub(super) const LEASE_DURATION: Flag<GoDuration> = Flag::new(
    group::LEADER_ELECTION,
    "leader-elect-lease-duration",
    "15s",
    "How long a candidate waits for a silent leader before it takes over",
);
pub(super) const RENEW_DEADLINE: Flag<GoDuration> = Flag::new(
    group::LEADER_ELECTION,
    "leader-elect-renew-deadline",
    "10s",
    "How long the leader may fail to renew before it gives up and exits",
);
pub(super) const RETRY_PERIOD: Flag<GoDuration> = Flag::new(
    group::LEADER_ELECTION,
    "leader-elect-retry-period",
    "2s",
    "How often the leader renews and a candidate tries",
);
pub(super) const RELEASE_ON_EXIT: Flag<bool> = Flag::new(
    group::LEADER_ELECTION,
    "leader-elect-release-on-exit",
    "false",
    "Release the Lease on a clean stop, so that a candidate takes over at once; needs --leader-elect",
);

pub(super) const WEBHOOK_PORT: Flag<i64> = Flag::new(
    group::WEBHOOK,
    "webhook-port",
    "9443",
    "Port of the admission webhooks",
);
pub(super) const WEBHOOK_CERT_DIR: Flag<String> = Flag::new(
    group::WEBHOOK,
    "webhook-cert-dir",
    "/tmp/k8s-webhook-server/serving-certs/",
    "Folder of the webhooks' serving certificate",
);
pub(super) const WEBHOOK_CERT_NAME: Flag<String> = Flag::new(
    group::WEBHOOK,
    "webhook-cert-name",
    "tls.crt",
    "File of the certificate in --webhook-cert-dir",
);
pub(super) const WEBHOOK_KEY_NAME: Flag<String> = Flag::new(
    group::WEBHOOK,
    "webhook-key-name",
    "tls.key",
    "File of the key in --webhook-cert-dir",
);

pub(super) const RUNNER_IMAGE: Flag<String> = Flag::new(
    group::RUNNER,
    "runner-image",
    "",
    "Image with /runner, which every Job injects into its module's pod; when empty $CAPTF_MANAGER_IMAGE",
);
pub(super) const RUNNER_EVENTS: Flag<bool> = Flag::new(
    group::RUNNER,
    "runner-events",
    "true",
    "Whether runners post their progress as Events",
);
pub(super) const DRIFT_DEFAULT_INTERVAL: Flag<GoDuration> = Flag::new(
    group::RUNNER,
    "drift-default-interval",
    "30m",
    "How often drift is looked for where neither the object nor its cluster says so",
);
pub(super) const CLUSTER_OPERATION_GATE: Flag<bool> = Flag::new(
    group::RUNNER,
    "cluster-operation-gate",
    "true",
    "Keep a cluster's apply, destroy and restore apart from those of its machines and pools",
);
pub(super) const MAX_ACTIVE_JOBS: Flag<i64> = Flag::new(
    group::RUNNER,
    "max-active-jobs",
    "200",
    "Jobs running at once in all namespaces; 0 sets no limit",
);
pub(super) const CLUSTER_MAX_ACTIVE_JOBS: Flag<i64> = Flag::new(
    group::RUNNER,
    "cluster-max-active-jobs",
    "20",
    "Jobs running at once for one TerraformCluster with its machines and pools; 0 sets no limit, spec.maxActiveJobs overrides",
);
pub(super) const STATE_BACKUPS: Flag<i64> = Flag::new(
    group::RUNNER,
    "state-backups",
    "5",
    "State backups kept per object; 0 takes none and leaves those that exist",
);

pub(super) const INSPECT_ALLOW_PRIVATE: Flag<bool> = Flag::new(
    group::IMAGE_INSPECTION,
    "image-inspect-allow-private-registries",
    "false",
    "Inspect images also in registries at loopback, link-local and private addresses",
);
pub(super) const INSPECT_REGISTRIES: Flag<Vec<String>> = Flag::new(
    group::IMAGE_INSPECTION,
    "image-inspect-allowed-registries",
    "",
    "Registries (host or host:port) whose images may be inspected; any when empty",
);

pub(super) const DIAGNOSTICS_ADDRESS: Flag<String> = Flag::new(
    group::DIAGNOSTICS,
    "diagnostics-address",
    ":8443",
    "Address that serves /metrics; off when empty or 0",
);
pub(super) const INSECURE_DIAGNOSTICS: Flag<bool> = Flag::new(
    group::DIAGNOSTICS,
    "insecure-diagnostics",
    "false",
    "Serve /metrics over plain HTTP to anybody, without the endpoint that changes the log level",
);
pub(super) const TLS_MIN_VERSION: Flag<String> = Flag::new(
    group::DIAGNOSTICS,
    "tls-min-version",
    "VersionTLS12",
    "Lowest TLS version of webhooks and metrics: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13",
);
pub(super) const TLS_CIPHER_SUITES: Flag<Vec<String>> = Flag::new(
    group::DIAGNOSTICS,
    "tls-cipher-suites",
    "",
    "TLS 1.2 cipher suites of webhooks and metrics, by their IANA names; the built-in ones when empty",
);
pub(super) const TLS_CURVES: Flag<Vec<i64>> = Flag::new(
    group::DIAGNOSTICS,
    "tls-curve-preferences",
    "",
    "Key exchange groups of webhooks and metrics, by their IANA numbers; the built-in ones when empty",
);

pub(super) const LOGGING_FORMAT: Flag<String> = Flag::new(
    group::LOGS,
    "logging-format",
    "text",
    "Form of the log: text or json",
);
pub(super) const VERBOSITY: Flag<i64> = Flag::new(
    group::LOGS,
    "v",
    "2",
    "Verbosity: 0 errors and what cannot be undone, 2 normal flow, 4 debugging, 5 rendered inputs without values",
)
.short('v');
pub(super) const VMODULE: Flag<String> = Flag::new(
    group::LOGS,
    "vmodule",
    "",
    "pattern=N,...: verbosity per file, text format only",
)
.without_effect("the verbosity is the same for all files");
pub(super) const LOG_FLUSH_FREQUENCY: Flag<GoDuration> = Flag::new(
    group::LOGS,
    "log-flush-frequency",
    "5s",
    "How often the log is flushed",
)
.without_effect("every line is written at once");
const NO_SPLIT_STREAM: &str = "the whole log goes to standard error";
const NO_INFO_BUFFER: &str = "every line is written at once";
pub(super) const LOG_JSON_SPLIT_STREAM: Flag<bool> = Flag::new(
    group::LOGS,
    "log-json-split-stream",
    "false",
    "Alpha: information to standard output",
)
.without_effect(NO_SPLIT_STREAM);
pub(super) const LOG_TEXT_SPLIT_STREAM: Flag<bool> = Flag::new(
    group::LOGS,
    "log-text-split-stream",
    "false",
    "Alpha: information to standard output",
)
.without_effect(NO_SPLIT_STREAM);
pub(super) const LOG_JSON_INFO_BUFFER: Flag<Quantity> = Flag::new(
    group::LOGS,
    "log-json-info-buffer-size",
    "0",
    "Alpha: buffer of the split stream",
)
.without_effect(NO_INFO_BUFFER);
pub(super) const LOG_TEXT_INFO_BUFFER: Flag<Quantity> = Flag::new(
    group::LOGS,
    "log-text-info-buffer-size",
    "0",
    "Alpha: buffer of the split stream",
)
.without_effect(NO_INFO_BUFFER);

pub(super) const FEATURE_GATES: Flag<GateMap> = Flag::new(
    group::FEATURE_GATES,
    "feature-gates",
    "",
    "AllAlpha, AllBeta, ContextualLogging, LoggingAlphaOptions, LoggingBetaOptions, each =true or =false",
);

pub(super) const VERSION: Flag<VersionValue> = Flag::new(
    group::GLOBAL,
    "version",
    "false",
    "Print the version and end; raw prints all that is known about the build, vX.Y.Z sets the version to report",
);

/// Every flag, in the order of the help text.
pub(super) const ALL: &[FlagSpec] = &[
    NAMESPACE.spec,
    WATCH_FILTER.spec,
    SYNC_PERIOD.spec,
    CLUSTER_CONCURRENCY.spec,
    MACHINE_CONCURRENCY.spec,
    MACHINE_POOL_CONCURRENCY.spec,
    MACHINE_TEMPLATE_CONCURRENCY.spec,
    IDENTITY_CONCURRENCY.spec,
    HEALTH_ADDR.spec,
    PROFILER_ADDRESS.spec,
    KUBECONFIG.spec,
    LEADER_ELECT.spec,
    LEASE_DURATION.spec,
    RENEW_DEADLINE.spec,
    RETRY_PERIOD.spec,
    RELEASE_ON_EXIT.spec,
    WEBHOOK_PORT.spec,
    WEBHOOK_CERT_DIR.spec,
    WEBHOOK_CERT_NAME.spec,
    WEBHOOK_KEY_NAME.spec,
    RUNNER_IMAGE.spec,
    RUNNER_EVENTS.spec,
    DRIFT_DEFAULT_INTERVAL.spec,
    CLUSTER_OPERATION_GATE.spec,
    MAX_ACTIVE_JOBS.spec,
    CLUSTER_MAX_ACTIVE_JOBS.spec,
    STATE_BACKUPS.spec,
    INSPECT_ALLOW_PRIVATE.spec,
    INSPECT_REGISTRIES.spec,
    DIAGNOSTICS_ADDRESS.spec,
    INSECURE_DIAGNOSTICS.spec,
    TLS_MIN_VERSION.spec,
    TLS_CIPHER_SUITES.spec,
    TLS_CURVES.spec,
    LOGGING_FORMAT.spec,
    VERBOSITY.spec,
    VMODULE.spec,
    LOG_FLUSH_FREQUENCY.spec,
    LOG_JSON_SPLIT_STREAM.spec,
    LOG_TEXT_SPLIT_STREAM.spec,
    LOG_JSON_INFO_BUFFER.spec,
    LOG_TEXT_INFO_BUFFER.spec,
    FEATURE_GATES.spec,
    VERSION.spec,
];
