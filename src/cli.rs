//! The command line: which of the program's three lives is meant, and the plugin's commands.
//!
//! This is the only module that knows both wings. Everything that is typed is defined by clap
//! types (here, and with the command they belong to); what they mean is resolved once, into
//! settings, before anything runs.

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args as _, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::operator;
use crate::operator::settings::{ManagerArgs, dashed_flag_names};
use crate::plugin::completion::CompletionArgs;
use crate::plugin::leases::LeasesArgs;
use crate::plugin::version::VersionArgs;
use crate::plugin::why::WhyArgs;
use crate::plugin::{self, Error, Exit, GlobalArgs, Settings};
use crate::runner::{self, RunnerArgs};

/// What follows every help text.
const AFTER_HELP: &str = "Global flags such as --context and --namespace: kubectl captf options\n\
    Help of a command: kubectl captf COMMAND --help";

/// Explain and release CAPTF leases and waits
#[derive(Parser, Debug)]
#[command(
    name = "kubectl-captf",
    bin_name = "kubectl captf",
    version,
    about = "Explains what CAPTF does: leases, waits and what happens next",
    after_help = AFTER_HELP,
    subcommand_value_name = "COMMAND",
    subcommand_help_heading = "Commands"
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,

    #[command(subcommand)]
    command: Command,
}

/// The plugin's commands.
#[derive(Subcommand, Debug)]
enum Command {
    /// List run and cluster leases, their state and expiry
    #[command(visible_aliases = ["lease", "ls"], after_help = "\
Examples:
  kubectl captf leases -n team-a
  kubectl captf leases -A -o wide
  kubectl captf leases --for cluster/demo --waiters
  kubectl captf leases -A --expiring-within 30m")]
    Leases(LeasesArgs),

    /// Explain why an object waits, and what happens next
    #[command(
        visible_alias = "explain-wait",
        after_help = "\
Examples:
  kubectl captf why terraformcluster/demo -n team-a
  kubectl captf why cluster demo -n team-a
  kubectl captf why tfc/demo -n team-a -o json --exit-code"
    )]
    Why(WhyArgs),

    /// Print the version
    Version(VersionArgs),

    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  source <(kubectl captf completion bash)
  kubectl captf completion fish > ~/.config/fish/completions/kubectl-captf.fish
  kubectl captf completion install")]
    Completion(CompletionArgs),

    /// List the global flags
    Options,

    /// Run the operator (in the cluster; it has flags of its own)
    #[command(disable_help_flag = true)]
    Manager(OwnFlags),

    /// Run one operation in the pod of a Job
    #[command(disable_help_flag = true, hide = true)]
    Runner(OwnFlags),
}

/// The arguments of a life that parses its own. Only a flag before its name brings them here.
#[derive(clap::Args, Debug)]
struct OwnFlags {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    args: Vec<OsString>,
}

/// Which life is meant.
enum Entry {
    /// The operator, with the arguments after `manager`.
    Manager(Vec<OsString>),
    /// The process in a Job's pod, with the arguments after `runner`.
    Runner(Vec<OsString>),
    /// A command for a person.
    Plugin {
        /// The name in help texts.
        program: String,
        /// The arguments, without the program.
        args: Vec<OsString>,
    },
    /// Completion of these words, the last of which may be empty.
    Complete(Vec<String>),
}

impl Entry {
    /// Decides by the name of the program, then by the first argument (cli.md §2).
    fn of(argv: Vec<OsString>) -> Self {
        let mut argv = argv.into_iter();
        let name = argv
            .next()
            .map(|program| base_name(&program))
            .unwrap_or_default();
        let args: Vec<OsString> = argv.collect();
        let first = args
            .first()
            .and_then(|arg| arg.to_str())
            .unwrap_or_default();
        match (name.as_str(), first) {
            ("kubectl_complete-captf", _) => Self::Complete(words(&args)),
            ("manager", _) => Self::Manager(args),
            ("runner", _) => Self::Runner(args),
            (_, "__complete") => {
                let after = if args.get(1).is_some_and(|arg| arg == "--") {
                    2
                } else {
                    1
                };
                Self::Complete(words(args.get(after..).unwrap_or_default()))
            }
            (_, "manager") => Self::Manager(args.into_iter().skip(1).collect()),
            (_, "runner") => Self::Runner(args.into_iter().skip(1).collect()),
            (_, "help") if args.get(1).is_some_and(|arg| arg == "manager") => {
                Self::Manager(vec!["--help".into()])
            }
            (_, "help") if args.get(1).is_some_and(|arg| arg == "runner") => {
                Self::Runner(vec!["--help".into()])
            }
            _ => Self::Plugin {
                program: if name.starts_with("kubectl-") {
                    "kubectl captf".to_owned()
                } else {
                    name
                },
                args,
            },
        }
    }
}

/// File name of a program without its extension.
fn base_name(program: &OsString) -> String {
    let name = Path::new(program).file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn words(args: &[OsString]) -> Vec<String> {
    args.iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    // TLS needs a provider before the first client; a second installation changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Entry::of(std::env::args_os().collect()) {
        Entry::Manager(args) => manager(args),
        Entry::Runner(args) => runner::main(RunnerArgs::new(args)),
        Entry::Complete(words) => finish(plugin::complete(&completion_tree(), &words)),
        Entry::Plugin { program, args } => finish(guarded(|| plugin_command(&program, args))),
    }
}

/// The plugin's commands.
fn tree() -> clap::Command {
    Cli::command().mut_subcommands(with_boolean_values)
}

/// Lets every boolean flag take `--flag` and `--flag=true|false` (cli.md §3).
fn with_boolean_values(command: clap::Command) -> clap::Command {
    command
        .mut_subcommands(with_boolean_values)
        .mut_args(|arg| match arg.get_action() {
            ArgAction::SetTrue => arg
                .action(ArgAction::Set)
                .num_args(0..=1)
                .require_equals(true)
                .value_name("true|false")
                .default_value("false")
                .default_missing_value("true")
                .hide_default_value(true)
                .hide_possible_values(true),
            _ => arg,
        })
}

/// The tree that completion walks: the manager's flags stand where they are typed.
fn completion_tree() -> clap::Command {
    tree().mut_subcommand("manager", ManagerArgs::augment_args)
}

/// Runs a plugin command; a panic is an error of one line like any other (cli.md §11).
fn guarded(command: impl FnOnce() -> Result<Exit, Error>) -> Result<Exit, Error> {
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            tracing::error!(%place, "panic");
        }
    }));
    let done = std::panic::catch_unwind(AssertUnwindSafe(command));
    drop(std::panic::take_hook());
    done.unwrap_or(Err(Error::Panicked))
}

/// The operator. Its flags are spelled with `-` or `_`, and `--version` means more than clap's.
fn manager(args: Vec<OsString>) -> ExitCode {
    let typed = std::iter::once(OsString::from("manager")).chain(dashed_flag_names(args));
    let matches = ManagerArgs::augment_args(clap::Command::new("manager"))
        .about("Runs the operator")
        .try_get_matches_from(typed);
    match matches.and_then(|matches| ManagerArgs::from_arg_matches(&matches)) {
        Ok(args) => operator::manager::main(args),
        Err(said) => {
            // clap knows whether this is help for stdout or a complaint for stderr.
            let _ = said.print();
            ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(1))
        }
    }
}

/// Says what went wrong, and turns the result into the process's exit code.
fn finish(result: Result<Exit, Error>) -> ExitCode {
    result
        .unwrap_or_else(|error| {
            plugin::complain(&error);
            error.exit()
        })
        .into()
}

fn plugin_command(program: &str, args: Vec<OsString>) -> Result<Exit, Error> {
    let mut tree = tree().bin_name(program.to_owned());
    if args.is_empty() || args == ["help"] {
        plugin::print(&tree.render_help().to_string())?;
        return Ok(Exit::Done);
    }
    let typed = std::iter::once(OsString::from(program)).chain(args);
    let matches = match tree.clone().try_get_matches_from(typed) {
        Ok(matches) => matches,
        Err(said) if !said.use_stderr() => {
            plugin::print(&said.to_string())?;
            return Ok(Exit::Done);
        }
        Err(refused) => return Err(usage_error(program, &refused)),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|error| usage_error(program, &error))?;
    match cli.command {
        Command::Version(args) if args.client => plugin::version::client(&args),
        Command::Version(args) => {
            let settings = Settings::try_from(cli.global)?;
            plugin::block_on(&settings.clone(), plugin::version::run(&args, settings))
        }
        Command::Completion(args) => plugin::completion::run(&args),
        Command::Options => options(),
        Command::Manager(OwnFlags { args }) => Err(own_flags(program, "manager", &args)),
        Command::Runner(OwnFlags { args }) => Err(own_flags(program, "runner", &args)),
        Command::Leases(args) => {
            let settings = Settings::try_from(cli.global)?;
            plugin::block_on(&settings.clone(), plugin::leases::run(&args, settings))
        }
        Command::Why(args) => {
            let settings = Settings::try_from(cli.global)?;
            plugin::block_on(&settings.clone(), plugin::why::run(&args, settings))
        }
    }
}

/// The refusal of global flags before a command that has none (cli.md §10).
fn own_flags(program: &str, command: &str, args: &[OsString]) -> Error {
    let args: String = args
        .iter()
        .map(|arg| format!(" {}", arg.to_string_lossy()))
        .collect();
    Error::usage(
        format!("{command} takes no flags before its name"),
        format!("{program} {command}{args}"),
    )
}

/// The global flags as a command without anything else.
#[derive(Parser, Debug)]
#[command(
    name = "options",
    help_template = "These flags can be given to any command:\n\n{all-args}\n",
    disable_help_flag = true
)]
struct Options {
    #[command(flatten)]
    global: GlobalArgs,
}

fn options() -> Result<Exit, Error> {
    plugin::print(&Options::command().render_long_help().to_string())?;
    Ok(Exit::Done)
}

/// clap's error as one sentence and one hint (cli.md §15).
fn usage_error(program: &str, error: &clap::Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let nearest = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.last().cloned(),
        _ => None,
    };
    let canonical = |word: String| {
        tree()
            .find_subcommand(&word)
            .map_or(word, |command| command.get_name().to_owned())
    };
    let help = format!("{program} --help");
    match error.kind() {
        ErrorKind::InvalidSubcommand => Error::usage(
            format!(
                "unknown command \"{}\"",
                text(ContextKind::InvalidSubcommand)
            ),
            nearest(ContextKind::SuggestedSubcommand)
                .map_or(help, |command| format!("{program} {}", canonical(command))),
        ),
        ErrorKind::UnknownArgument => Error::usage(
            format!("unknown argument \"{}\"", text(ContextKind::InvalidArg)),
            nearest(ContextKind::SuggestedArg).map_or(help, |flag| format!("did you mean {flag}?")),
        ),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = text(ContextKind::InvalidValue);
            let flag = text(ContextKind::InvalidArg);
            match (
                error.get(ContextKind::ValidValue),
                std::error::Error::source(error),
            ) {
                (Some(ContextValue::Strings(known)), _) if value.is_empty() => Error::usage(
                    format!("{flag} needs a value"),
                    format!("one of {}", known.join(", ")),
                ),
                (Some(ContextValue::Strings(known)), _) => Error::usage(
                    format!("\"{value}\" is no value of {flag}"),
                    format!("one of {}", known.join(", ")),
                ),
                (_, Some(why)) => Error::usage(format!("{flag}: {why}"), help),
                _ => Error::usage(format!("{flag} needs a value"), help),
            }
        }
        ErrorKind::MissingRequiredArgument => Error::usage(
            format!("{} is missing", text(ContextKind::InvalidArg)),
            help,
        ),
        ErrorKind::MissingSubcommand => Error::usage("a command is missing", help),
        ErrorKind::ArgumentConflict => Error::usage(
            format!(
                "{} and {} exclude each other",
                text(ContextKind::InvalidArg),
                text(ContextKind::PriorArg)
            ),
            help,
        ),
        _ => {
            let rendered = error.to_string();
            let line = rendered.lines().next().unwrap_or_default();
            Error::usage(line.trim_start_matches("error: "), help)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Cli, Entry, Exit, FromArgMatches as _, OsString, guarded, tree, usage_error};

    #[test]
    fn the_command_tree_is_consistent() {
        tree().debug_assert();
    }

    #[test]
    fn a_boolean_flag_takes_a_value_after_an_equals_sign() {
        let asked = |args: &[&str]| {
            let argv = std::iter::once("kubectl captf").chain(args.iter().copied());
            let matches = tree().try_get_matches_from(argv).unwrap();
            format!("{:?}", Cli::from_arg_matches(&matches).unwrap().command)
        };
        for (command, flag) in [
            ("leases", "free"),
            ("leases", "stale"),
            ("leases", "waiters"),
            ("leases", "all-namespaces"),
            ("leases", "no-headers"),
            ("leases", "ignore-not-found"),
            ("why", "exit-code"),
        ] {
            let field = flag.replace('-', "_");
            let given = |text: &str| asked(&[command, &format!("--{flag}{text}"), "demo"]);
            assert!(given("").contains(&format!("{field}: true")), "{flag}");
            assert!(given("=true").contains(&format!("{field}: true")), "{flag}");
            assert!(
                given("=false").contains(&format!("{field}: false")),
                "{flag}"
            );
        }
        assert!(asked(&["leases", "-Ao", "json"]).contains("all_namespaces: true"));
        assert!(asked(&["leases"]).contains("all_namespaces: false"));
    }

    #[test]
    fn a_panic_is_one_line_and_a_failure() {
        let error = guarded(|| panic!("a secret detail")).unwrap_err();
        assert_eq!(error.to_string(), "internal error");
        assert_eq!(error.exit(), Exit::Failed);
        assert!(error.hint().unwrap().contains("report"));
    }

    fn entry(argv: &[&str]) -> Entry {
        Entry::of(argv.iter().map(OsString::from).collect())
    }

    #[test]
    fn help_says_how_the_program_was_called() {
        let called = |argv: &[&str]| match entry(argv) {
            Entry::Plugin { program, .. } => program,
            Entry::Complete(_) => "completion".into(),
            Entry::Manager(_) => "manager".into(),
            Entry::Runner(_) => "runner".into(),
        };
        assert_eq!(called(&["/manager", "--leader-elect"]), "manager");
        assert_eq!(called(&["/kubectl-captf", "manager"]), "manager");
        assert_eq!(called(&["/captf/bin/runner", "run"]), "runner");
        assert_eq!(
            called(&["/usr/bin/kubectl-captf", "leases"]),
            "kubectl captf"
        );
        assert_eq!(called(&["./captf.exe"]), "captf");
    }

    #[test]
    fn the_completion_name_and_the_hidden_command_complete_the_same_words() {
        let asked = |argv: &[&str]| match entry(argv) {
            Entry::Complete(words) => words,
            _ => vec!["no completion".into()],
        };
        assert_eq!(
            asked(&["/usr/bin/kubectl_complete-captf", "why", ""]),
            ["why", ""]
        );
        assert_eq!(
            asked(&["kubectl-captf", "__complete", "--", "why", ""]),
            ["why", ""]
        );
    }

    // runner.md §1: completion is disabled, an unknown command is an error
    #[test]
    fn only_the_plugin_completes() {
        let runner = entry(&["/captf/bin/runner", "__complete", "--", "why", ""]);
        assert!(matches!(runner, Entry::Runner(args) if args[0] == "__complete"));
        let manager = entry(&["/manager", "__complete", "why"]);
        assert!(matches!(manager, Entry::Manager(args) if args[0] == "__complete"));
    }

    fn refused(args: &[&str]) -> String {
        let argv = std::iter::once("kubectl captf").chain(args.iter().copied());
        let error = tree().try_get_matches_from(argv).unwrap_err();
        let error = usage_error("kubectl captf", &error);
        format!("{error} | {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn an_unknown_command_names_the_nearest() {
        assert_eq!(
            refused(&["leasse"]),
            "unknown command \"leasse\" | kubectl captf leases"
        );
    }

    #[test]
    fn an_unknown_flag_names_the_nearest() {
        let said = refused(&["leases", "--all-namespace"]);
        assert_eq!(
            said,
            "unknown argument \"--all-namespace\" | did you mean --all-namespaces?"
        );
    }

    #[test]
    fn a_bad_value_names_the_flag_and_the_known_ones() {
        let said = refused(&["leases", "-o", "xml"]);
        assert!(
            said.contains("choose table, wide, json, yaml or name"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
        let said = refused(&["leases", "--color", "pink"]);
        assert!(said.ends_with("one of auto, always, never"), "{said}");
    }

    #[test]
    fn a_missing_argument_is_one_sentence() {
        assert!(refused(&["completion"]).starts_with("<SHELL> is missing"));
    }
}
