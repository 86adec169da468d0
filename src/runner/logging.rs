//! The logging flags, and the log itself: lines on standard error (runner.md §1, R-26).

use std::collections::BTreeMap;

use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use super::args::go_bool;
use super::duration;

/// The gates that logging flags depend on, and what they are unless set.
const FEATURE_GATES: [(&str, bool); 5] = [
    ("AllAlpha", false),
    ("AllBeta", false),
    ("ContextualLogging", true),
    ("LoggingAlphaOptions", false),
    ("LoggingBetaOptions", true),
];

/// The flags of Kubernetes' component logging, as typed. Those without a meaning here are checked and ignored.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct LoggingArgs {
    /// Feature gates, name=true|false, separated by commas
    #[arg(long, global = true, value_name = "GATES", default_value = "")]
    feature_gates: Vec<String>,
    /// Longest time between log flushes (no effect: lines are written at once)
    #[arg(long, global = true, value_name = "DURATION", default_value = "5s")]
    log_flush_frequency: String,
    /// Size of the buffer of info lines (alpha, no effect)
    #[arg(long, global = true, value_name = "QUANTITY", default_value = "0")]
    log_json_info_buffer_size: String,
    /// Info lines to standard output (alpha, no effect)
    #[arg(long, global = true, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = go_bool)]
    log_json_split_stream: bool,
    /// Size of the buffer of info lines (alpha, no effect)
    #[arg(long, global = true, value_name = "QUANTITY", default_value = "0")]
    log_text_info_buffer_size: String,
    /// Info lines to standard output (alpha, no effect)
    #[arg(long, global = true, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = go_bool)]
    log_text_split_stream: bool,
    /// Format of the log: text or json
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    logging_format: String,
    /// Verbosity of the log
    #[arg(
        short = 'v',
        long = "v",
        global = true,
        value_name = "LEVEL",
        default_value_t = 0
    )]
    verbosity: u32,
    /// Verbosity by file, pattern=N, separated by commas (text only, no effect)
    #[arg(long, global = true, value_name = "PATTERNS", default_value = "")]
    vmodule: String,
}

/// Why the logging flags cannot be used together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum InvalidLogging {
    #[error("--logging-format: {0:?} is neither text nor json")]
    Format(String),
    #[error("--log-flush-frequency: {0}")]
    FlushFrequency(duration::InvalidDuration),
    #[error("--{0}: {1:?} is not a quantity such as 0 or 64Ki")]
    BufferSize(&'static str, String),
    #[error("--{0} needs the feature gate LoggingAlphaOptions")]
    Alpha(&'static str),
    #[error("--feature-gates: {0:?} is not of the form name=true|false")]
    Gate(String),
    #[error("--feature-gates: there is no gate {0:?}")]
    UnknownGate(String),
    #[error("--logging-format=json needs the feature gate LoggingBetaOptions")]
    JsonNeedsBeta,
    #[error("--vmodule: {0:?} is not of the form pattern=N")]
    Module(String),
    #[error("--vmodule works with --logging-format=text only")]
    ModuleNeedsText,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

/// The log as the flags ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Logging {
    format: Format,
    level: LevelFilter,
}

impl LoggingArgs {
    /// Checks the flags together.
    pub(super) fn settings(&self) -> Result<Logging, InvalidLogging> {
        let format = match self.logging_format.as_str() {
            "text" => Format::Text,
            "json" => Format::Json,
            other => return Err(InvalidLogging::Format(other.to_owned())),
        };
        duration::parse(&self.log_flush_frequency).map_err(InvalidLogging::FlushFrequency)?;
        let gates = self.gates()?;
        let on = |name, all| {
            gates
                .get(name)
                .or_else(|| gates.get(all))
                .copied()
                .unwrap_or(default_of(name))
        };
        if format == Format::Json && !on("LoggingBetaOptions", "AllBeta") {
            return Err(InvalidLogging::JsonNeedsBeta);
        }
        for (name, changed) in self.alpha_flags()? {
            if changed && !on("LoggingAlphaOptions", "AllAlpha") {
                return Err(InvalidLogging::Alpha(name));
            }
        }
        self.check_modules(format)?;
        let level = match self.verbosity {
            0..=3 => LevelFilter::INFO,
            4..=5 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        Ok(Logging { format, level })
    }

    fn gates(&self) -> Result<BTreeMap<&str, bool>, InvalidLogging> {
        let mut gates = BTreeMap::new();
        for gate in self
            .feature_gates
            .iter()
            .flat_map(|list| list.split(','))
            .filter(|gate| !gate.is_empty())
        {
            let malformed = || InvalidLogging::Gate(gate.to_owned());
            let (name, value) = gate.split_once('=').ok_or_else(malformed)?;
            if !FEATURE_GATES.iter().any(|(known, _)| *known == name) {
                return Err(InvalidLogging::UnknownGate(name.to_owned()));
            }
            gates.insert(name, go_bool(value).map_err(|_| malformed())?);
        }
        Ok(gates)
    }

    /// The alpha flags, and whether each differs from its default.
    fn alpha_flags(&self) -> Result<[(&'static str, bool); 4], InvalidLogging> {
        let json = ("log-json-info-buffer-size", &self.log_json_info_buffer_size);
        let text = ("log-text-info-buffer-size", &self.log_text_info_buffer_size);
        for (name, size) in [json, text] {
            if !is_quantity(size) {
                return Err(InvalidLogging::BufferSize(name, size.clone()));
            }
        }
        let not_zero = |size: &str| size.contains(|c: char| ('1'..='9').contains(&c));
        Ok([
            (json.0, not_zero(json.1)),
            (text.0, not_zero(text.1)),
            ("log-json-split-stream", self.log_json_split_stream),
            ("log-text-split-stream", self.log_text_split_stream),
        ])
    }

    fn check_modules(&self, format: Format) -> Result<(), InvalidLogging> {
        for pattern in self
            .vmodule
            .split(',')
            .filter(|pattern| !pattern.is_empty())
        {
            if format == Format::Json {
                return Err(InvalidLogging::ModuleNeedsText);
            }
            let valid = pattern
                .split_once('=')
                .is_some_and(|(file, level)| !file.is_empty() && level.parse::<u32>().is_ok());
            if !valid {
                return Err(InvalidLogging::Module(pattern.to_owned()));
            }
        }
        Ok(())
    }
}

fn default_of(gate: &str) -> bool {
    FEATURE_GATES.iter().any(|(name, on)| *name == gate && *on)
}

/// Whether a text is a Kubernetes quantity: digits, at most one point, a suffix.
fn is_quantity(text: &str) -> bool {
    let (number, suffix) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len()),
    );
    let known = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ]
    .contains(&suffix);
    known && number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() <= 1
}

impl Logging {
    /// Starts the log. Where the process has one already, that one stays.
    pub(super) fn start(self) {
        // Libraries tell errors only: the client's warnings quote whole answers.
        let filter = EnvFilter::new(format!("error,captf={}", self.level));
        let builder = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_env_filter(filter)
            .with_target(false);
        let started = match self.format {
            Format::Text => builder.with_ansi(false).try_init(),
            Format::Json => builder.json().try_init(),
        };
        if started.is_err() {
            tracing::debug!(
                "the process has a log already, the runner's logging flags have no effect"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        logging: LoggingArgs,
    }

    fn settings(flags: &[&str]) -> Result<Logging, InvalidLogging> {
        Only::try_parse_from(std::iter::once(&"x").chain(flags))
            .unwrap()
            .logging
            .settings()
    }

    #[test]
    fn the_defaults_are_text_at_info() {
        assert_eq!(
            settings(&[]),
            Ok(Logging {
                format: Format::Text,
                level: LevelFilter::INFO
            })
        );
    }

    #[rstest]
    #[case(&["--logging-format=json", "-v", "4"])]
    #[case(&["--feature-gates=AllAlpha=true", "--log-text-split-stream", "--log-json-info-buffer-size=64Ki"])]
    #[case(&["--feature-gates=LoggingAlphaOptions=1,ContextualLogging=false", "--log-json-split-stream=true"])]
    #[case(&["--vmodule=a=1,b*=2", "--log-flush-frequency=0"])]
    fn what_component_logging_accepts_is_accepted(#[case] flags: &[&str]) {
        assert!(settings(flags).is_ok(), "{:?}", settings(flags));
    }

    #[rstest]
    #[case(&["--logging-format=yaml"], "neither text nor json")]
    #[case(&["--feature-gates=Fusion=true"], "no gate")]
    #[case(&["--feature-gates=AllAlpha"], "name=true|false")]
    #[case(&["--log-text-split-stream"], "LoggingAlphaOptions")]
    #[case(&["--log-json-info-buffer-size=big"], "quantity")]
    #[case(&["--log-flush-frequency=soon"], "duration")]
    #[case(&["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"], "LoggingBetaOptions")]
    #[case(&["--logging-format=json", "--vmodule=a=1"], "text only")]
    #[case(&["--vmodule=a"], "pattern=N")]
    fn what_it_refuses_is_refused(#[case] flags: &[&str], #[case] part: &str) {
        let error = settings(flags).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
