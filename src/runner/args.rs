//! What is typed: the runner's own command tree (runner.md §1).
//!
//! The arguments reach the runner unparsed, because an argument that is wrong must end in a result document (R-1,
//! R-50), and because flag names accept `_` for `-`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, Parser};

use super::logging::LoggingArgs;

/// The file that the kubelet reads the result from.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Arguments of `kubectl-captf runner`: `copy <dest>`, `run --op=<op> …` or `version`, with their flags.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct RunnerArgs {
    /// `copy <dest>`, `run --op=<op> ...` or `version`; `--help` tells more
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true, num_args = 0..)]
    arguments: Vec<OsString>,
}

impl RunnerArgs {
    /// The arguments that follow the name of the command.
    #[must_use]
    pub fn new(arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            arguments: arguments.into_iter().collect(),
        }
    }

    /// Parses the arguments.
    pub(super) fn parse(&self) -> Result<Cli, clap::Error> {
        let name = OsString::from("runner");
        Cli::try_parse_from(std::iter::once(name).chain(with_dashes(&self.arguments)))
    }

    /// Whether these arguments ask for an operation, however wrong they are otherwise.
    pub(super) fn asks_for_run(&self) -> bool {
        self.arguments
            .iter()
            .find(|a| ["run", "copy", "version"].iter().any(|name| a == name))
            .is_some_and(|a| a == "run")
    }

    /// Where the result goes when the arguments cannot be parsed: the last `--result`, if one can be made out.
    pub(super) fn result_path(&self) -> PathBuf {
        let arguments: Vec<OsString> = with_dashes(&self.arguments).collect();
        let mut path = None;
        for (at, argument) in arguments.iter().enumerate() {
            if argument == "--result" {
                path = arguments.get(at + 1).map(PathBuf::from).or(path);
            } else if let Some(value) = argument.to_str().and_then(|a| a.strip_prefix("--result="))
            {
                path = Some(PathBuf::from(value));
            }
        }
        path.unwrap_or_else(|| PathBuf::from(TERMINATION_LOG))
    }
}

/// The arguments with `-` for every `_` in the names of long flags.
fn with_dashes(arguments: &[OsString]) -> impl Iterator<Item = OsString> {
    arguments.iter().map(|argument| match argument.to_str() {
        Some(text) if text.starts_with("--") => {
            let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
            OsString::from(format!("{}{value}", name.replace('_', "-")))
        }
        _ => argument.clone(),
    })
}

/// Run one Terraform or OpenTofu operation inside the pod of a Job.
#[derive(Debug, Parser)]
#[command(
    name = "runner",
    args_override_self = true,
    disable_help_subcommand = true
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) logging: LoggingArgs,
    /// Print the version and exit
    #[arg(long, value_name = "true|raw|vX.Y.Z", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = version_flag)]
    pub(super) version: Option<VersionFlag>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

impl Cli {
    /// The error of a command line that names no command.
    pub(super) fn missing_command() -> clap::Error {
        Self::command().error(
            clap::error::ErrorKind::MissingSubcommand,
            "a command is needed: copy, run or version",
        )
    }
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Copy this executable to a file that every image can run
    Copy {
        /// The file to write, with mode 0755
        dest: PathBuf,
    },
    /// Run one operation and leave its result
    Run(Box<RunArgs>),
    /// Print name and build information
    Version,
}

/// The flags of `run`, as typed. [`super::request::Request`] is their meaning.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Operation: apply, destroy, refresh, drift, restore or plan
    #[arg(long)]
    pub(super) op: String,
    /// Runtime command, one flag per element
    #[arg(long, value_name = "WORD", default_value = "/captf/runtime")]
    pub(super) bin: Vec<String>,
    /// Image reference, echoed in the result
    #[arg(long, default_value = "")]
    pub(super) image: String,
    /// Folder of the module
    #[arg(long, default_value = "/captf/module")]
    pub(super) module: PathBuf,
    /// Folder of the provider mirror, if the image has one
    #[arg(long, default_value = "/captf/providers")]
    pub(super) providers: PathBuf,
    /// Working folder
    #[arg(long, default_value = "/captf/work")]
    pub(super) workdir: PathBuf,
    /// Folder of the inputs
    #[arg(long, default_value = "/captf/config")]
    pub(super) config: PathBuf,
    /// Setting of the state backend, key=value, one flag each
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) backend_config: Vec<String>,
    /// How long the runtime waits for the state lock
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub(super) lock_timeout: String,
    /// How long an interrupted runtime may take to save its state
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub(super) stop_timeout: String,
    /// ID of a stale state lock to remove
    #[arg(long, value_name = "ID", default_value = "")]
    pub(super) force_unlock: String,
    /// Stop an apply whose plan deletes or replaces something
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = go_bool)]
    pub(super) guard_deletes: bool,
    /// Hash that an approval of these inputs must name
    #[arg(long, value_name = "HASH", default_value = "")]
    pub(super) inputs_hash: String,
    /// Approved inputs hash: a plan of these inputs may delete
    #[arg(long, value_name = "HASH", default_value = "")]
    pub(super) allow_deletes_hash: String,
    /// Fingerprint of the approved plan
    #[arg(long, value_name = "HASH", default_value = "")]
    pub(super) expect_plan: String,
    /// File with the key of plan fingerprints
    #[arg(long, value_name = "FILE", default_value = "/captf/plan-key/key")]
    pub(super) plan_key_file: PathBuf,
    /// Number of backup chunks to restore
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) restore_chunks: u32,
    /// Number of resources that the backup recorded
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(super) restore_resources: u64,
    /// Object that events are about: apiVersion/kind/namespace/name/uid
    #[arg(long, value_name = "OBJECT", default_value = "")]
    pub(super) event_object: String,
    /// Job that events name as related
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(super) job_name: String,
    /// File to write the result to
    #[arg(long, value_name = "FILE", default_value = TERMINATION_LOG)]
    pub(super) result: PathBuf,
}

/// The value of `--version`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VersionFlag {
    /// `--version=false`: nothing is asked for.
    Off,
    /// Print one line.
    Print,
    /// Print the build information.
    Raw,
    /// Print this version instead of the real one.
    As(String),
}

fn version_flag(text: &str) -> Result<VersionFlag, String> {
    match text {
        "raw" => Ok(VersionFlag::Raw),
        version
            if version
                .strip_prefix('v')
                .is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit())) =>
        {
            Ok(VersionFlag::As(version.to_owned()))
        }
        other => go_bool(other)
            .map(|on| {
                if on {
                    VersionFlag::Print
                } else {
                    VersionFlag::Off
                }
            })
            .map_err(|_| "neither true, false, raw nor a version such as v1.2.3".to_owned()),
    }
}

/// A boolean as Go's flags read it.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

/// What `clap` has to say, without the usage lines: one sentence for the result document.
pub(super) fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\nUsage:")
        .next()
        .unwrap_or_default()
        .split("\n\nFor more")
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn args(arguments: &[&str]) -> RunnerArgs {
        RunnerArgs::new(arguments.iter().map(OsString::from))
    }

    fn run(arguments: &[&str]) -> RunArgs {
        match args(arguments).parse().unwrap().command {
            Some(Command::Run(run)) => *run,
            other => panic!("not a run: {other:?}"),
        }
    }

    /// jobs.md §6.1: what a guarded apply passes, in its order.
    #[test]
    fn the_arguments_of_a_job_parse() {
        let run = run(&[
            "run",
            "--op=apply",
            "--bin=/captf/runtime",
            "--image=registry.example/noop-cluster:v1",
            "--module=/captf/module",
            "--providers=/captf/providers",
            "--workdir=/captf/work",
            "--config=/captf/config",
            "--lock-timeout=300s",
            "--stop-timeout=570s",
            "--backend-config=secret_suffix=f66792f9106e7299-c",
            "--backend-config=namespace=team-a",
            "--backend-config=in_cluster_config=true",
            r#"--backend-config=labels={"captf.io/managed"="true","cluster.x-k8s.io/cluster-name"="prod"}"#,
            "--force-unlock=5c6e",
            "--guard-deletes",
            "--inputs-hash=h2:00",
            "--allow-deletes-hash=h2:00",
            "--expect-plan=p2:00",
            "--restore-chunks=2",
            "--restore-resources=7",
            "--plan-key-file=/captf/plan-key/key",
            "--event-object=infrastructure.cluster.x-k8s.io/v1alpha1/TerraformCluster/team-a/prod/5f1d",
            "--job-name=captf-c-prod-apply-a1-44bb70",
        ]);
        assert_eq!(run.op, "apply");
        assert_eq!(run.bin, ["/captf/runtime"]);
        assert_eq!(run.backend_config.len(), 4);
        assert_eq!(
            run.backend_config[3],
            r#"labels={"captf.io/managed"="true","cluster.x-k8s.io/cluster-name"="prod"}"#
        );
        assert!(run.guard_deletes);
        assert_eq!((run.restore_chunks, run.restore_resources), (2, 7));
        assert_eq!(run.result, PathBuf::from("/dev/termination-log"));
    }

    #[test]
    fn flag_names_accept_underscores_and_values_keep_them() {
        let run = run(&[
            "run",
            "--op=apply",
            "--lock_timeout=1s",
            "--backend_config=secret_suffix=a_b",
        ]);
        assert_eq!(run.lock_timeout, "1s");
        assert_eq!(run.backend_config, ["secret_suffix=a_b"]);
    }

    #[test]
    fn booleans_are_go_booleans_and_the_last_flag_wins() {
        assert!(
            !run(&[
                "run",
                "--op=apply",
                "--guard-deletes",
                "--guard-deletes=false"
            ])
            .guard_deletes
        );
        assert!(run(&["run", "--op=apply", "--guard-deletes=1"]).guard_deletes);
        assert!(
            args(&["run", "--op=apply", "--guard-deletes=yes"])
                .parse()
                .is_err()
        );
    }

    #[test]
    fn the_runtime_command_is_a_list() {
        assert_eq!(
            run(&["run", "--op=apply", "--bin=/bin/sh", "--bin=/fake"]).bin,
            ["/bin/sh", "/fake"]
        );
    }

    #[test]
    fn what_is_not_a_command_line_is_refused_in_one_sentence() {
        for (wrong, part) in [
            (&["run"][..], "--op"),
            (&["run", "--op=apply", "extra"], "'extra'"),
            (&["run", "--op=apply", "--nonsense"], "--nonsense"),
            (&["copy"], "DEST"),
            (&["copy", "a", "b"], "'b'"),
            (&["dance"], "'dance'"),
            (&["--version=perhaps"], "perhaps"),
        ] {
            let message = sentence(&args(wrong).parse().unwrap_err());
            assert!(
                message.contains(part) && !message.contains("Usage"),
                "{wrong:?}: {message}"
            );
        }
    }

    #[test]
    fn the_result_path_is_found_in_wrong_arguments() {
        let path = |arguments: &[&str]| args(arguments).result_path();
        assert_eq!(
            path(&["run", "--nonsense", "--result=/a", "--result", "/b"]),
            PathBuf::from("/b")
        );
        assert_eq!(
            path(&["run", "--nonsense"]),
            PathBuf::from("/dev/termination-log")
        );
        assert!(args(&["-v=2", "run", "--nonsense"]).asks_for_run());
        assert!(!args(&["copy", "run"]).asks_for_run());
    }

    #[test]
    fn the_version_flag_has_three_forms() {
        let flag = |argument| args(&[argument]).parse().unwrap().version;
        assert_eq!(flag("--version"), Some(VersionFlag::Print));
        assert_eq!(flag("--version=raw"), Some(VersionFlag::Raw));
        assert_eq!(
            flag("--version=v9.9.9"),
            Some(VersionFlag::As("v9.9.9".to_owned()))
        );
    }
}
