//! The manager's command line as typed, before any of it is judged.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::flags::{self, Flag, FlagSpec};
use super::values::{FlagValue, VersionValue};

const ARGUMENTS: &str = "arguments";

/// What was typed after `manager`. [`super::Settings`] is what it means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagerArgs {
    given: BTreeMap<&'static str, Vec<String>>,
    arguments: Vec<String>,
}

/// What `manager version` and `--version` ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRequest {
    /// One line `manager <version>`.
    Line,
    /// Everything known about the build.
    Raw,
}

impl ManagerArgs {
    /// The version output that was asked for instead of a start (manager.md §1).
    ///
    /// A `--version` that cannot be read asks for nothing here; [`Self::settings`](Self::settings) refuses it.
    #[must_use]
    pub fn version_request(&self) -> Option<VersionRequest> {
        if self.arguments.iter().map(String::as_str).eq(["version"]) {
            return Some(VersionRequest::Line);
        }
        match self.parse(&flags::VERSION) {
            Ok(VersionValue::Line) => Some(VersionRequest::Line),
            Ok(VersionValue::Raw) => Some(VersionRequest::Raw),
            Ok(VersionValue::Unset | VersionValue::Report(_)) | Err(_) => None,
        }
    }

    /// The version that `--version=vX.Y.Z` wants reported in place of the built-in one.
    #[must_use]
    pub fn reported_version(&self) -> Option<String> {
        match self.parse(&flags::VERSION) {
            Ok(VersionValue::Report(version)) => Some(version),
            _ => None,
        }
    }

    /// The lines `FLAG: --name="value"` that a start logs, one per flag, sorted by name (manager.md §1).
    ///
    /// No flag of the manager takes a secret, so every value is printed.
    #[must_use]
    pub fn flag_lines(&self) -> Vec<String> {
        let mut specs: Vec<&FlagSpec> = flags::ALL.iter().collect();
        specs.sort_by_key(|spec| spec.name);
        specs
            .into_iter()
            .map(|spec| format!("FLAG: --{}={:?}", spec.name, (spec.show)(&self.texts(spec))))
            .collect()
    }

    /// The positional arguments that are not empty; the manager takes none.
    pub(super) fn unexpected_arguments(&self) -> Vec<&str> {
        self.arguments
            .iter()
            .map(String::as_str)
            .filter(|argument| !argument.is_empty())
            .collect()
    }

    /// Whether the command line names the flag, with whatever value.
    pub(super) fn names(&self, spec: &FlagSpec) -> bool {
        self.given.contains_key(spec.name)
    }

    pub(super) fn parse<T: FlagValue>(&self, flag: &Flag<T>) -> Result<T, InvalidValue> {
        let texts = self.texts(&flag.spec);
        T::parse(&texts).map_err(|why| InvalidValue {
            name: flag.spec.name,
            text: texts.join(","),
            why,
        })
    }

    /// What was given for a flag, or its default; never empty.
    fn texts(&self, spec: &FlagSpec) -> Vec<&str> {
        self.given.get(spec.name).map_or_else(
            || vec![spec.default],
            |texts| texts.iter().map(String::as_str).collect(),
        )
    }
}

/// A value that its flag's type cannot hold.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{name}: {text:?} {why}")]
pub(super) struct InvalidValue {
    name: &'static str,
    text: String,
    why: String,
}

impl clap::FromArgMatches for ManagerArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for spec in flags::ALL {
            if let Some(texts) = matches.get_many::<String>(spec.name) {
                self.given.insert(spec.name, texts.cloned().collect());
            }
        }
        if let Some(arguments) = matches.get_many::<String>(ARGUMENTS) {
            self.arguments = arguments.cloned().collect();
        }
        Ok(())
    }
}

impl clap::Args for ManagerArgs {
    fn augment_args(command: Command) -> Command {
        let arguments = Arg::new(ARGUMENTS)
            .num_args(0..)
            .action(ArgAction::Append)
            .hide(true);
        flags::ALL
            .iter()
            .map(clap_arg)
            .fold(command, Command::arg)
            .arg(arguments)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn clap_arg(spec: &FlagSpec) -> Arg {
    let help = if spec.default.is_empty() || spec.default == "false" {
        spec.help.to_owned()
    } else {
        format!("{} (default {})", spec.help, spec.default)
    };
    let arg = Arg::new(spec.name)
        .long(spec.name)
        .value_name(spec.value_name)
        .help(help)
        .help_heading(spec.group)
        .action(ArgAction::Append)
        .allow_hyphen_values(true);
    let arg = match spec.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    if spec.boolean {
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
    } else {
        arg.num_args(1)
    }
}

/// `_` is accepted for `-` in flag names (manager.md §1): rewrites the names of `--long_flags`, nothing else.
///
/// Takes the arguments after `manager`. Values stay as they are, and so does everything after `--`.
pub fn dashed_flag_names(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut only_positional = false;
    arguments
        .into_iter()
        .map(|argument| {
            only_positional |= argument == "--";
            match argument.to_str() {
                Some(text) if !only_positional && text.starts_with("--") => {
                    let name_end = text.find('=').unwrap_or(text.len());
                    let (name, value) = text.split_at(name_end);
                    OsString::from(format!("{}{value}", name.replace('_', "-")))
                }
                _ => argument,
            }
        })
        .collect()
}
