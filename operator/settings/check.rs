//! The rule of every flag. A broken rule is noted and a harmless value stands in, so that all of them are found.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::args::ManagerArgs;
use super::duration::GoDuration;
use super::flags::{self, Flag};
use super::image;
use super::values::{FlagValue, GateMap, Quantity};
use super::{
    Concurrency, Diagnostics, Election, ImageInspection, InvalidFlags, JobLimits, ListenAddress,
    LogFormat, LoggingSettings, Runner, TlsSettings, TlsVersion, WatchScope, WebhookServing,
};

/// Webhook port that 0 stands for, as in the manager this one replaces.
const DEFAULT_WEBHOOK_PORT: u16 = 9443;

/// The cipher suites Go's TLS library knows, safe or not, and two older spellings.
const CIPHER_SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// P-256, P-384, P-521, X25519, and the three hybrids with ML-KEM.
const KEY_EXCHANGE_GROUPS: [u16; 7] = [23, 24, 25, 29, 4587, 4588, 4589];

const FEATURE_GATES: [&str; 5] = [
    "AllAlpha",
    "AllBeta",
    "ContextualLogging",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
];

/// Reads flags one by one and remembers what is wrong with them.
pub(super) struct Checker<'a> {
    args: &'a ManagerArgs,
    violations: Vec<String>,
    warnings: Vec<String>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(args: &'a ManagerArgs) -> Self {
        let warnings = flags::ALL
            .iter()
            .filter(|spec| args.names(spec))
            .filter_map(|spec| {
                Some(format!(
                    "--{} has no effect: {}",
                    spec.name, spec.no_effect?
                ))
            })
            .collect();
        Self {
            args,
            violations: Vec::new(),
            warnings,
        }
    }

    pub(super) fn verdict(self) -> Result<(), InvalidFlags> {
        if self.violations.is_empty() {
            Ok(())
        } else {
            Err(InvalidFlags(self.violations))
        }
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn refuse(&mut self, violation: impl Into<String>) {
        self.violations.push(violation.into());
    }

    fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    pub(super) fn no_arguments(&mut self) {
        let unexpected = self.args.unexpected_arguments();
        if !unexpected.is_empty() {
            self.refuse(format!("manager takes no arguments, got {unexpected:?}"));
        }
        self.value(&flags::VERSION);
    }

    pub(super) fn value<T: FlagValue>(&mut self, flag: &Flag<T>) -> T {
        self.args.parse(flag).unwrap_or_else(|invalid| {
            self.refuse(invalid.to_string());
            T::default()
        })
    }

    pub(super) fn optional(&mut self, flag: &Flag<String>) -> Option<String> {
        Some(self.value(flag)).filter(|text| !text.is_empty())
    }

    pub(super) fn positive(&mut self, flag: &Flag<GoDuration>) -> Duration {
        match self.args.parse(flag) {
            Err(invalid) => self.refuse(invalid.to_string()),
            Ok(duration) => match duration.unsigned().filter(|length| !length.is_zero()) {
                Some(length) => return length,
                None => self.refuse(format!(
                    "--{} must be longer than 0, is {duration}",
                    flag.spec.name
                )),
            },
        }
        Duration::from_secs(1)
    }

    /// A number of things, 0 or more.
    pub(super) fn count(&mut self, flag: &Flag<i64>) -> u32 {
        match self.args.parse(flag) {
            Err(invalid) => self.refuse(invalid.to_string()),
            Ok(number) if number < 0 => self.refuse(format!(
                "--{} must be 0 or more, is {number}",
                flag.spec.name
            )),
            // More than four billion of anything counted here is as good as that many.
            Ok(number) => return u32::try_from(number).unwrap_or(u32::MAX),
        }
        0
    }

    fn limit(&mut self, flag: &Flag<i64>) -> i32 {
        i32::try_from(self.count(flag)).unwrap_or(i32::MAX)
    }

    fn workers(&mut self, flag: &Flag<i64>) -> NonZeroUsize {
        match self.args.parse(flag) {
            Err(invalid) => self.refuse(invalid.to_string()),
            Ok(number) => match usize::try_from(number).ok().and_then(NonZeroUsize::new) {
                Some(workers) => return workers,
                None => self.refuse(format!(
                    "--{} must be 1 or more, is {number}",
                    flag.spec.name
                )),
            },
        }
        NonZeroUsize::MIN
    }

    pub(super) fn listen_address(&mut self, flag: &Flag<String>) -> Option<ListenAddress> {
        let text = self.value(flag);
        if text.is_empty() || text == "0" {
            return None;
        }
        let address = listen_address(&text);
        if address.is_none() {
            self.refuse(format!(
                "--{}: {text:?} is not an address such as :8443 or 127.0.0.1:8443",
                flag.spec.name
            ));
        }
        address
    }

    pub(super) fn scope(&mut self) -> WatchScope {
        WatchScope {
            namespace: self.optional(&flags::NAMESPACE),
            filter: self.optional(&flags::WATCH_FILTER),
        }
    }

    pub(super) fn concurrency(&mut self) -> Concurrency {
        Concurrency {
            cluster: self.workers(&flags::CLUSTER_CONCURRENCY),
            machine: self.workers(&flags::MACHINE_CONCURRENCY),
            machine_pool: self.workers(&flags::MACHINE_POOL_CONCURRENCY),
            machine_template: self.workers(&flags::MACHINE_TEMPLATE_CONCURRENCY),
            identity: self.workers(&flags::IDENTITY_CONCURRENCY),
        }
    }

    /// Lease duration > renew deadline > 1.2 × retry period > 0, checked only with `--leader-elect` (manager.md §1.1).
    pub(super) fn election(&mut self) -> Option<Election> {
        let elect = self.value(&flags::LEADER_ELECT);
        let release_on_exit = self.value(&flags::RELEASE_ON_EXIT);
        let lease = self.value(&flags::LEASE_DURATION);
        let deadline = self.value(&flags::RENEW_DEADLINE);
        let retry = self.value(&flags::RETRY_PERIOD);
        if !elect {
            if release_on_exit {
                self.refuse("--leader-elect-release-on-exit needs --leader-elect: without an election there is nothing to release");
            }
            return None;
        }
        if lease <= deadline {
            self.refuse(format!("--leader-elect-lease-duration ({lease}) must be longer than --leader-elect-renew-deadline ({deadline})"));
        }
        if !deadline.exceeds_tenths_of(retry, 12) {
            self.refuse(format!(
                "--leader-elect-renew-deadline ({deadline}) must be longer than 1.2 times --leader-elect-retry-period ({retry})"
            ));
        }
        if retry <= GoDuration::ZERO {
            self.refuse(format!(
                "--leader-elect-retry-period must be longer than 0, is {retry}"
            ));
        }
        Some(Election {
            lease_duration: lease.unsigned()?,
            renew_deadline: deadline.unsigned()?,
            retry_period: retry.unsigned()?,
            release_on_exit,
        })
    }

    pub(super) fn webhook(&mut self) -> WebhookServing {
        let port = match self.value(&flags::WEBHOOK_PORT) {
            0 => DEFAULT_WEBHOOK_PORT,
            number => u16::try_from(number).unwrap_or_else(|_| {
                self.refuse(format!(
                    "--{} must be a TCP port, is {number}",
                    flags::WEBHOOK_PORT.spec.name
                ));
                DEFAULT_WEBHOOK_PORT
            }),
        };
        WebhookServing {
            port,
            cert_dir: PathBuf::from(self.value(&flags::WEBHOOK_CERT_DIR)),
            cert_name: self.value(&flags::WEBHOOK_CERT_NAME),
            key_name: self.value(&flags::WEBHOOK_KEY_NAME),
        }
    }

    pub(super) fn runner(&mut self, manager_image: Option<String>) -> Runner {
        let events = self.value(&flags::RUNNER_EVENTS);
        let given = self.optional(&flags::RUNNER_IMAGE);
        let source = if given.is_some() {
            "--runner-image"
        } else {
            "$CAPTF_MANAGER_IMAGE"
        };
        let image = given.or(manager_image).unwrap_or_default();
        if image.is_empty() {
            self.refuse(
                "--runner-image is empty and the environment variable CAPTF_MANAGER_IMAGE is not set: name the image that holds /runner in one of them",
            );
        } else if let Err(why) = image::check_reference(&image) {
            self.refuse(format!(
                "{source}: {image:?} is not an image reference: {why}"
            ));
        }
        Runner { image, events }
    }

    pub(super) fn job_limits(&mut self) -> JobLimits {
        JobLimits {
            global: self.limit(&flags::MAX_ACTIVE_JOBS),
            per_cluster: self.limit(&flags::CLUSTER_MAX_ACTIVE_JOBS),
        }
    }

    pub(super) fn image_inspection(&mut self) -> ImageInspection {
        let allow_private_registries = self.value(&flags::INSPECT_ALLOW_PRIVATE);
        let mut allowed_registries = Vec::new();
        for entry in self.value(&flags::INSPECT_REGISTRIES) {
            match image::registry_host(&entry) {
                Ok(host) => allowed_registries.extend(host),
                Err(why) => self.refuse(format!(
                    "--image-inspect-allowed-registries: {entry:?} is not a registry host: {why}"
                )),
            }
        }
        ImageInspection {
            allow_private_registries,
            allowed_registries,
        }
    }

    pub(super) fn diagnostics(&mut self) -> Option<Diagnostics> {
        let insecure = self.value(&flags::INSECURE_DIAGNOSTICS);
        let address = self.listen_address(&flags::DIAGNOSTICS_ADDRESS)?;
        Some(Diagnostics { address, insecure })
    }

    pub(super) fn tls(&mut self) -> TlsSettings {
        let min_version = match self.value(&flags::TLS_MIN_VERSION).as_str() {
            "" | "VersionTLS12" => TlsVersion::Tls12,
            "VersionTLS13" => TlsVersion::Tls13,
            old @ ("VersionTLS10" | "VersionTLS11") => {
                self.warn(format!("--tls-min-version={old} counts as VersionTLS12: older versions are not built in"));
                TlsVersion::Tls12
            }
            other => {
                self.refuse(format!("--tls-min-version: {other:?} is none of VersionTLS10, VersionTLS11, VersionTLS12 and VersionTLS13"));
                TlsVersion::Tls12
            }
        };
        let cipher_suites = self.value(&flags::TLS_CIPHER_SUITES);
        for suite in cipher_suites
            .iter()
            .filter(|suite| !CIPHER_SUITES.contains(&suite.as_str()))
        {
            self.refuse(format!(
                "--tls-cipher-suites: {suite:?} is not a known cipher suite"
            ));
        }
        let mut groups = Vec::new();
        for number in self.value(&flags::TLS_CURVES) {
            match u16::try_from(number)
                .ok()
                .filter(|group| KEY_EXCHANGE_GROUPS.contains(group))
            {
                Some(group) => groups.push(group),
                None => self.refuse(format!(
                    "--tls-curve-preferences: {number} is not a known key exchange group"
                )),
            }
        }
        TlsSettings {
            min_version,
            cipher_suites,
            groups,
        }
    }

    /// The logging flags, with the rules of Kubernetes' component logging.
    pub(super) fn logging(&mut self) -> LoggingSettings {
        let format = match self.value(&flags::LOGGING_FORMAT).as_str() {
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            other => {
                self.refuse(format!(
                    "--logging-format: {other:?} is neither text nor json"
                ));
                LogFormat::Text
            }
        };
        let verbosity = self.count(&flags::VERBOSITY);
        let gates = self.feature_gates();
        self.vmodule(format);
        self.value(&flags::LOG_FLUSH_FREQUENCY);
        if format == LogFormat::Json && !gates.beta_options {
            self.refuse("--logging-format=json needs the feature gate LoggingBetaOptions");
        }
        for flag in [&flags::LOG_JSON_SPLIT_STREAM, &flags::LOG_TEXT_SPLIT_STREAM] {
            let changed = self.value(flag);
            self.needs_alpha(flag.spec.name, changed, gates);
        }
        for flag in [&flags::LOG_JSON_INFO_BUFFER, &flags::LOG_TEXT_INFO_BUFFER] {
            let Quantity(size) = self.value(flag);
            self.needs_alpha(
                flag.spec.name,
                size.contains(|c: char| ('1'..='9').contains(&c)),
                gates,
            );
        }
        LoggingSettings { format, verbosity }
    }

    fn needs_alpha(&mut self, name: &str, changed: bool, gates: LoggingGates) {
        if changed && !gates.alpha_options {
            self.refuse(format!(
                "--{name} needs the feature gate LoggingAlphaOptions"
            ));
        }
    }

    fn vmodule(&mut self, format: LogFormat) {
        let text = self.value(&flags::VMODULE);
        let patterns: Vec<&str> = text
            .split(',')
            .filter(|pattern| !pattern.is_empty())
            .collect();
        if !patterns.is_empty() && format == LogFormat::Json {
            self.refuse("--vmodule works with --logging-format=text only");
        }
        for pattern in patterns {
            let valid = pattern
                .split_once('=')
                .is_some_and(|(file, level)| !file.is_empty() && level.parse::<u32>().is_ok());
            if !valid {
                self.refuse(format!(
                    "--vmodule: {pattern:?} is not of the form pattern=N"
                ));
            }
        }
    }

    fn feature_gates(&mut self) -> LoggingGates {
        let GateMap(gates) = self.value(&flags::FEATURE_GATES);
        for name in gates
            .keys()
            .filter(|name| !FEATURE_GATES.contains(&name.as_str()))
        {
            self.refuse(format!(
                "--feature-gates: there is no gate {name:?}; known are {}",
                FEATURE_GATES.join(", ")
            ));
        }
        let on = |name: &str, all: &str, default: bool| {
            gates
                .get(name)
                .or_else(|| gates.get(all))
                .copied()
                .unwrap_or(default)
        };
        LoggingGates {
            alpha_options: on("LoggingAlphaOptions", "AllAlpha", false),
            beta_options: on("LoggingBetaOptions", "AllBeta", true),
        }
    }

    /// `system:serviceaccount:<namespace>:<name>` when the environment names both (manager.md §1.2).
    pub(super) fn manager_user(
        &mut self,
        namespace: Option<String>,
        account: Option<String>,
    ) -> Option<String> {
        let user = namespace
            .zip(account)
            .map(|(namespace, account)| format!("system:serviceaccount:{namespace}:{account}"));
        if user.is_none() {
            self.warn(
                "POD_NAMESPACE or SERVICE_ACCOUNT_NAME is not set, so the manager does not know its own user: \
                 admission will refuse the spec.providerID it writes, and no machine will finish provisioning",
            );
        }
        user
    }
}

#[derive(Debug, Clone, Copy)]
struct LoggingGates {
    alpha_options: bool,
    beta_options: bool,
}

fn listen_address(text: &str) -> Option<ListenAddress> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    Some(ListenAddress {
        host: Some(host.to_owned()).filter(|host| !host.is_empty()),
        port,
    })
}
