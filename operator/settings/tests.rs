#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use rstest::rstest;

use super::*;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: ManagerArgs,
}

const IMAGE: &str = "--runner-image=ghcr.io/captf-io/manager:v0.1.0";

fn args(line: &[&str]) -> ManagerArgs {
    let line = dashed_flag_names(line.iter().map(OsString::from));
    Line::try_parse_from(line)
        .map_err(|error| error.to_string())
        .unwrap()
        .args
}

fn with_environment(line: &[&str], env: &[(&str, &str)]) -> Result<Settings, InvalidFlags> {
    let env: BTreeMap<&str, &str> = env.iter().copied().collect();
    args(line).settings(&|name| env.get(name).map(|value| (*value).to_owned()))
}

/// The settings of a command line that also names a runner image, in a pod that knows its own user.
fn settings(line: &[&str]) -> Result<Settings, InvalidFlags> {
    let line: Vec<&str> = [IMAGE].iter().chain(line).copied().collect();
    with_environment(
        &line,
        &[
            ("POD_NAMESPACE", "captf-system"),
            ("SERVICE_ACCOUNT_NAME", "captf-controller-manager"),
        ],
    )
}

fn violations(line: &[&str]) -> Vec<String> {
    settings(line).map_or_else(|invalid| invalid.violations().to_vec(), |_| Vec::new())
}

/// Name, type and default of every flag, as manager.md §1.1 lists them.
const FLAGS: [(&str, &str, &str); 44] = [
    ("namespace", "string", ""),
    ("watch-filter", "string", ""),
    ("sync-period", "duration", "10m0s"),
    ("terraformcluster-concurrency", "int", "10"),
    ("terraformmachine-concurrency", "int", "10"),
    ("terraformmachinepool-concurrency", "int", "10"),
    ("terraformmachinetemplate-concurrency", "int", "10"),
    ("terraformclusteridentity-concurrency", "int", "4"),
    ("health-addr", "string", ":9440"),
    ("profiler-address", "string", ""),
    ("kubeconfig", "string", ""),
    ("leader-elect", "bool", "false"),
    ("leader-elect-lease-duration", "duration", "15s"),
    ("leader-elect-renew-deadline", "duration", "10s"),
    ("leader-elect-retry-period", "duration", "2s"),
    ("leader-elect-release-on-exit", "bool", "false"),
    ("webhook-port", "int", "9443"),
    (
        "webhook-cert-dir",
        "string",
        "/tmp/k8s-webhook-server/serving-certs/",
    ),
    ("webhook-cert-name", "string", "tls.crt"),
    ("webhook-key-name", "string", "tls.key"),
    ("runner-image", "string", ""),
    ("runner-events", "bool", "true"),
    ("drift-default-interval", "duration", "30m0s"),
    ("cluster-operation-gate", "bool", "true"),
    ("max-active-jobs", "int", "200"),
    ("cluster-max-active-jobs", "int", "20"),
    ("state-backups", "int", "5"),
    ("image-inspect-allow-private-registries", "bool", "false"),
    ("image-inspect-allowed-registries", "strings", "[]"),
    ("diagnostics-address", "string", ":8443"),
    ("insecure-diagnostics", "bool", "false"),
    ("tls-min-version", "string", "VersionTLS12"),
    ("tls-cipher-suites", "strings", "[]"),
    ("tls-curve-preferences", "ints", "[]"),
    ("logging-format", "string", "text"),
    ("v", "int", "2"),
    ("vmodule", "string", ""),
    ("log-flush-frequency", "duration", "5s"),
    ("log-json-split-stream", "bool", "false"),
    ("log-text-split-stream", "bool", "false"),
    ("log-json-info-buffer-size", "quantity", "0"),
    ("log-text-info-buffer-size", "quantity", "0"),
    ("feature-gates", "gates", ""),
    ("version", "version", "false"),
];

#[test]
fn every_flag_of_the_table_exists_with_its_default_and_no_other() {
    let mut expected: Vec<String> = FLAGS
        .iter()
        .map(|(name, _, default)| format!("FLAG: --{name}={default:?}"))
        .collect();
    expected.sort_by_key(|line| line.split('=').next().unwrap_or_default().to_owned());
    let mut lines = args(&[]).flag_lines();
    lines.sort_by_key(|line| line.split('=').next().unwrap_or_default().to_owned());
    assert_eq!(lines, expected);
}

#[test]
fn every_flag_parses_in_each_of_its_forms() {
    for (name, kind, _) in FLAGS {
        let value = match kind {
            "string" | "strings" => "x",
            "int" | "ints" => "7",
            "duration" => "7s",
            "bool" | "version" => "true",
            "quantity" => "7Mi",
            "gates" => "AllAlpha=true",
            other => panic!("{other}"),
        };
        let underscored = format!("--{}", name.replace('-', "_"));
        let mut forms = vec![
            vec![format!("--{name}={value}")],
            vec![format!("{underscored}={value}")],
        ];
        if matches!(kind, "bool" | "version") {
            forms.push(vec![format!("--{name}")]);
        } else {
            forms.push(vec![format!("--{name}"), value.to_owned()]);
            forms.push(vec![underscored, value.to_owned()]);
        }
        let shown = match kind {
            "strings" => "[x]",
            "ints" => "[7]",
            _ => value,
        };
        for form in forms {
            let form: Vec<&str> = form.iter().map(String::as_str).collect();
            let line = format!("FLAG: --{name}={shown:?}");
            assert!(
                args(&form).flag_lines().contains(&line),
                "{form:?} gives no {line}"
            );
        }
    }
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let workers = |number| NonZeroUsize::new(number).unwrap();
    assert_eq!(
        settings(&[]).unwrap(),
        Settings {
            scope: WatchScope {
                namespace: None,
                filter: None
            },
            sync_period: Duration::from_secs(600),
            concurrency: Concurrency {
                cluster: workers(10),
                machine: workers(10),
                machine_pool: workers(10),
                machine_template: workers(10),
                identity: workers(4),
            },
            health_address: Some(ListenAddress {
                host: None,
                port: 9440
            }),
            kubeconfig: None,
            election: None,
            webhook: WebhookServing {
                port: 9443,
                cert_dir: PathBuf::from("/tmp/k8s-webhook-server/serving-certs/"),
                cert_name: "tls.crt".to_owned(),
                key_name: "tls.key".to_owned(),
            },
            runner: Runner {
                image: "ghcr.io/captf-io/manager:v0.1.0".to_owned(),
                events: true
            },
            drift_default_interval: Duration::from_secs(1_800),
            cluster_operation_gate: true,
            job_limits: JobLimits {
                global: 200,
                per_cluster: 20
            },
            state_backups: 5,
            image_inspection: ImageInspection {
                allow_private_registries: false,
                allowed_registries: vec![]
            },
            diagnostics: Some(Diagnostics {
                address: ListenAddress {
                    host: None,
                    port: 8443
                },
                insecure: false
            }),
            tls: TlsSettings {
                min_version: TlsVersion::Tls12,
                cipher_suites: vec![],
                groups: vec![]
            },
            logging: LoggingSettings {
                format: LogFormat::Text,
                verbosity: 2
            },
            manager_user: Some(
                "system:serviceaccount:captf-system:captf-controller-manager".to_owned()
            ),
            pod_namespace: Some("captf-system".to_owned()),
            reported_version: None,
            warnings: vec![],
        }
    );
}

#[test]
fn the_arguments_of_the_shipped_deployment_are_accepted() {
    let shipped = [
        "--leader-elect",
        "--diagnostics-address=:8443",
        "--insecure-diagnostics=false",
        "--webhook-port=9443",
    ];
    let settings = with_environment(
        &shipped,
        &[
            ("CAPTF_MANAGER_IMAGE", "ghcr.io/captf-io/manager:v0.1.0"),
            ("POD_NAMESPACE", "captf-system"),
            ("SERVICE_ACCOUNT_NAME", "captf-controller-manager"),
            ("GOMEMLIMIT", "536870912"),
        ],
    )
    .unwrap();
    let election = Election {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        release_on_exit: false,
    };
    assert_eq!(settings.election, Some(election));
    assert_eq!(settings.runner.image, "ghcr.io/captf-io/manager:v0.1.0");
    assert!(settings.warnings.is_empty());
}

// manager.md §16 B1
#[test]
fn an_empty_runner_image_without_environment_names_both() {
    let refused = with_environment(&[], &[]).unwrap_err().to_string();
    assert!(
        refused.contains("--runner-image") && refused.contains("CAPTF_MANAGER_IMAGE"),
        "{refused}"
    );
}

#[test]
fn the_flag_outranks_the_environment_for_the_runner_image() {
    let env = [("CAPTF_MANAGER_IMAGE", "ghcr.io/other:v1")];
    assert_eq!(
        with_environment(&[IMAGE], &env).unwrap().runner.image,
        "ghcr.io/captf-io/manager:v0.1.0"
    );
}

// manager.md §16 B2
#[test]
fn all_invalid_flags_are_reported_together() {
    let line = [
        "--sync-period=0",
        "--terraformcluster-concurrency=0",
        "--max-active-jobs=many",
        "--drift-default-interval=-5m",
        "extra",
    ];
    let refused = settings(&line).unwrap_err();
    assert_eq!(
        refused.violations(),
        [
            r#"manager takes no arguments, got ["extra"]"#,
            "--sync-period must be longer than 0, is 0s",
            "--terraformcluster-concurrency must be 1 or more, is 0",
            "--drift-default-interval must be longer than 0, is -5m0s",
            r#"--max-active-jobs: "many" is not a whole number"#,
        ]
    );
    assert!(refused.to_string().starts_with("invalid flags: "));
}

// manager.md §16 B3
#[test]
fn underscores_are_accepted_for_dashes_in_flag_names() {
    assert!(settings(&["--leader_elect"]).unwrap().election.is_some());
}

#[test]
fn underscores_in_values_and_after_the_separator_stay() {
    let rewritten = dashed_flag_names(["--a_b=c_d", "e_f", "--", "--g_h"].map(OsString::from));
    assert_eq!(
        rewritten,
        ["--a-b=c_d", "e_f", "--", "--g_h"].map(OsString::from)
    );
}

// manager.md §16 B4
#[rstest]
#[case(&[("SERVICE_ACCOUNT_NAME", "captf-controller-manager")])]
#[case(&[("POD_NAMESPACE", "captf-system")])]
#[case(&[("POD_NAMESPACE", ""), ("SERVICE_ACCOUNT_NAME", "captf-controller-manager")])]
fn an_unknown_manager_user_warns_and_starts(#[case] env: &[(&str, &str)]) {
    let settings = with_environment(&[IMAGE], env).unwrap();
    assert_eq!(settings.manager_user, None);
    assert!(
        settings.warnings[0].contains("POD_NAMESPACE or SERVICE_ACCOUNT_NAME is not set"),
        "{:?}",
        settings.warnings
    );
}

// manager.md §16 B14
#[test]
fn a_negative_job_limit_is_refused_and_zero_sets_none() {
    assert_eq!(
        violations(&["--max-active-jobs=-1"]),
        ["--max-active-jobs must be 0 or more, is -1"]
    );
    assert_eq!(
        violations(&["--cluster-max-active-jobs", "-1"]),
        ["--cluster-max-active-jobs must be 0 or more, is -1"]
    );
    let limits = settings(&["--max-active-jobs=0", "--cluster-max-active-jobs=0"])
        .unwrap()
        .job_limits;
    assert_eq!(
        limits,
        JobLimits {
            global: 0,
            per_cluster: 0
        }
    );
}

// manager.md §16 B15
#[test]
fn registries_are_normalized_and_paths_refused() {
    let inspection =
        settings(&["--image-inspect-allowed-registries=docker.io, GHCR.io,,reg.example:5000"])
            .unwrap()
            .image_inspection;
    assert_eq!(
        inspection.allowed_registries,
        ["index.docker.io", "ghcr.io", "reg.example:5000"]
    );
    assert_eq!(
        violations(&["--image-inspect-allowed-registries=ghcr.io/x,user@ghcr.io"]),
        [
            r#"--image-inspect-allowed-registries: "ghcr.io/x" is not a registry host: it has a path; give the host only"#,
            r#"--image-inspect-allowed-registries: "user@ghcr.io" is not a registry host: it has an @; give the host only"#,
        ]
    );
}

#[rstest]
#[case(&["--sync-period=0s"], "--sync-period must be longer than 0, is 0s")]
#[case(&["--sync-period=10"], r#"--sync-period: "10" has no unit; write for example 10s or 10m"#)]
#[case(&["--terraformmachine-concurrency=-3"], "--terraformmachine-concurrency must be 1 or more, is -3")]
#[case(&["--terraformmachinepool-concurrency=0"], "--terraformmachinepool-concurrency must be 1 or more, is 0")]
#[case(&["--terraformmachinetemplate-concurrency=0"], "--terraformmachinetemplate-concurrency must be 1 or more, is 0")]
#[case(&["--terraformclusteridentity-concurrency=0"], "--terraformclusteridentity-concurrency must be 1 or more, is 0")]
#[case(&["--health-addr=nowhere"], r#"--health-addr: "nowhere" is not an address such as :8443 or 127.0.0.1:8443"#)]
#[case(&["--diagnostics-address=:65536"], r#"--diagnostics-address: ":65536" is not an address such as :8443 or 127.0.0.1:8443"#)]
#[case(&["--drift-default-interval=0"], "--drift-default-interval must be longer than 0, is 0s")]
#[case(&["--state-backups=-1"], "--state-backups must be 0 or more, is -1")]
#[case(&["--webhook-port=70000"], "--webhook-port must be a TCP port, is 70000")]
#[case(&["--runner-image=UPPER"], r#"--runner-image: "UPPER" is not an image reference: its path may have lower-case letters, digits and single separators (. _ __ -) between them only"#)]
#[case(&["--runner-events=maybe"], r#"--runner-events: "maybe" is neither true nor false"#)]
#[case(&["--leader-elect-release-on-exit"], "--leader-elect-release-on-exit needs --leader-elect: without an election there is nothing to release")]
#[case(&["--leader-elect", "--leader-elect-lease-duration=10s"], "--leader-elect-lease-duration (10s) must be longer than --leader-elect-renew-deadline (10s)")]
#[case(&["--leader-elect", "--leader-elect-retry-period=9s"], "--leader-elect-renew-deadline (10s) must be longer than 1.2 times --leader-elect-retry-period (9s)")]
#[case(&["--leader-elect", "--leader-elect-retry-period=0"], "--leader-elect-retry-period must be longer than 0, is 0s")]
#[case(&["--tls-min-version=1.2"], r#"--tls-min-version: "1.2" is none of VersionTLS10, VersionTLS11, VersionTLS12 and VersionTLS13"#)]
#[case(&["--tls-cipher-suites=TLS_NULL"], r#"--tls-cipher-suites: "TLS_NULL" is not a known cipher suite"#)]
#[case(&["--tls-curve-preferences=1"], "--tls-curve-preferences: 1 is not a known key exchange group")]
#[case(&["--logging-format=xml"], r#"--logging-format: "xml" is neither text nor json"#)]
#[case(&["-v=-1"], "--v must be 0 or more, is -1")]
#[case(&["--vmodule=queue"], r#"--vmodule: "queue" is not of the form pattern=N"#)]
#[case(&["--vmodule=queue=4", "--logging-format=json"], "--vmodule works with --logging-format=text only")]
#[case(&["--log-json-split-stream"], "--log-json-split-stream needs the feature gate LoggingAlphaOptions")]
#[case(&["--log-text-split-stream"], "--log-text-split-stream needs the feature gate LoggingAlphaOptions")]
#[case(&["--log-json-info-buffer-size=64Ki"], "--log-json-info-buffer-size needs the feature gate LoggingAlphaOptions")]
#[case(&["--log-text-info-buffer-size=64Ki"], "--log-text-info-buffer-size needs the feature gate LoggingAlphaOptions")]
#[case(&["--log-flush-frequency=soon"], r#"--log-flush-frequency: "soon" is not a duration such as 30m, 90s or 1h30m"#)]
#[case(&["--feature-gates=Magic=true"], r#"--feature-gates: there is no gate "Magic"; known are AllAlpha, AllBeta, ContextualLogging, LoggingAlphaOptions, LoggingBetaOptions"#)]
#[case(&["--feature-gates=LoggingBetaOptions=false", "--logging-format=json"], "--logging-format=json needs the feature gate LoggingBetaOptions")]
#[case(&["--version=now"], r#"--version: "now" is none of true, false, raw and a version such as v1.2.3"#)]
#[case(&["version", "x"], r#"manager takes no arguments, got ["version", "x"]"#)]
fn a_broken_rule_is_named(#[case] line: &[&str], #[case] violation: &str) {
    assert_eq!(violations(line), [violation]);
}

#[rstest]
#[case("--profiler-address=:6060")]
#[case("--vmodule=queue=4")]
#[case("--log-flush-frequency=1s")]
#[case("--tls-min-version=VersionTLS10")]
fn what_is_accepted_without_effect_warns_once(#[case] flag: &str) {
    let warnings = settings(&[flag]).unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with(flag.split('=').next().unwrap()),
        "{warnings:?}"
    );
}

#[test]
fn alpha_log_options_are_accepted_with_their_gate() {
    for gate in [
        "--feature-gates=LoggingAlphaOptions=true",
        "--feature-gates=AllAlpha=true",
    ] {
        assert!(
            settings(&[
                gate,
                "--log-json-split-stream",
                "--log-text-info-buffer-size=64Ki"
            ])
            .is_ok()
        );
    }
}

#[test]
fn lists_and_numbers_reach_the_tls_settings() {
    let line = [
        "--tls-min-version=VersionTLS13",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "--tls-curve-preferences=29,23",
    ];
    let expected = TlsSettings {
        min_version: TlsVersion::Tls13,
        cipher_suites: vec!["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned()],
        groups: vec![29, 23],
    };
    assert_eq!(settings(&line).unwrap().tls, expected);
}

#[rstest]
#[case("127.0.0.1:0", Some(("127.0.0.1", 0)))]
#[case("[::1]:8443", Some(("::1", 8443)))]
#[case("localhost:80", Some(("localhost", 80)))]
#[case("", None)]
#[case("0", None)]
fn listen_addresses(#[case] text: &str, #[case] expected: Option<(&str, u16)>) {
    let address = settings(&[&format!("--health-addr={text}")])
        .unwrap()
        .health_address;
    assert_eq!(
        address
            .as_ref()
            .map(|address| (address.host.as_deref().unwrap_or_default(), address.port)),
        expected
    );
}

#[test]
fn an_empty_argument_is_none() {
    assert!(settings(&[""]).is_ok());
}

#[test]
fn a_boolean_takes_no_separate_value() {
    assert_eq!(
        violations(&["--leader-elect", "false"]),
        [r#"manager takes no arguments, got ["false"]"#]
    );
}

#[rstest]
#[case(&["version"], Some(VersionRequest::Line))]
#[case(&["--version"], Some(VersionRequest::Line))]
#[case(&["--version=true"], Some(VersionRequest::Line))]
#[case(&["--version=raw"], Some(VersionRequest::Raw))]
#[case(&["--version=false"], None)]
#[case(&["--version=v9.9.9"], None)]
#[case(&[], None)]
fn version_requests(#[case] line: &[&str], #[case] expected: Option<VersionRequest>) {
    assert_eq!(args(line).version_request(), expected);
}

#[test]
fn a_version_to_report_is_kept() {
    assert_eq!(
        args(&["--version=v9.9.9"]).reported_version().as_deref(),
        Some("v9.9.9")
    );
}

#[test]
fn the_logging_flags_are_judged_alone_first() {
    let line = args(&["--logging-format=json", "-v", "4", "--sync-period=0"]);
    assert_eq!(
        line.logging().unwrap(),
        LoggingSettings {
            format: LogFormat::Json,
            verbosity: 4
        }
    );
    assert!(args(&["--logging-format=xml"]).logging().is_err());
}

#[test]
fn help_groups_the_flags() {
    let help = <Line as clap::CommandFactory>::command()
        .render_long_help()
        .to_string();
    let headings = [
        "Generic flags:",
        "Leader election flags:",
        "Webhook flags:",
        "Runner flags:",
        "Image inspection flags:",
        "Diagnostics flags:",
        "Logs flags:",
        "Feature gates flags:",
        "Global flags:",
    ];
    let places: Vec<Option<usize>> = headings.iter().map(|heading| help.find(heading)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?} in\n{help}"
    );
}
