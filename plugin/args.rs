//! Flags that every plugin command takes (cli.md §3), as they are typed.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use jiff::SignedDuration;

use super::output::Format;

/// Heading of the flags that name the cluster and the user.
const CONNECTION: &str = "Connection flags";
/// Heading of the flags that shape the answer.
const DISPLAY: &str = "Display flags";

/// The global flags: the same names and meanings as `kubectl options`, and a few of our own.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct GlobalArgs {
    /// Path to the kubeconfig file
    #[arg(long, global = true, value_name = "PATH", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", env = "KUBECTL_CAPTF_CONTEXT", hide_env = true, help_heading = CONNECTION, hide_short_help = true)]
    pub(super) context: Option<String>,

    /// Cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) cluster: Option<String>,

    /// User of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) user: Option<String>,

    /// Namespace to look in
    #[arg(short, long, global = true, value_name = "NS", env = "KUBECTL_CAPTF_NAMESPACE", hide_env = true, help_heading = CONNECTION, hide_short_help = true)]
    pub(super) namespace: Option<String>,

    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) server: Option<String>,

    /// Server name to check the server's certificate against
    #[arg(long, global = true, value_name = "NAME", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) tls_server_name: Option<String>,

    /// Do not check the server's certificate
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) insecure_skip_tls_verify: Option<bool>,

    /// Certificate file of the authority that signed the server's certificate
    #[arg(long, global = true, value_name = "PATH", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) certificate_authority: Option<PathBuf>,

    /// Client certificate file
    #[arg(long, global = true, value_name = "PATH", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) client_certificate: Option<PathBuf>,

    /// Client key file
    #[arg(long, global = true, value_name = "PATH", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) client_key: Option<PathBuf>,

    /// Bearer token
    #[arg(long, global = true, value_name = "TOKEN", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) token: Option<String>,

    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) as_user: Option<String>,

    /// Group to impersonate (repeatable)
    #[arg(long, global = true, value_name = "GROUP", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) as_group: Vec<String>,

    /// UID to impersonate
    #[arg(long, global = true, value_name = "UID", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) as_uid: Option<String>,

    /// Extra field to impersonate (repeatable)
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) as_user_extra: Vec<String>,

    /// Limit of one request, as 30s or 1m30s; 0 is no limit
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", help_heading = CONNECTION, hide_short_help = true)]
    pub(super) request_timeout: Limit,

    /// Accepted for kubectl's sake: answers are never compressed
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false", help_heading = CONNECTION, hide = true)]
    pub(super) disable_compression: Option<bool>,

    /// Accepted for kubectl's sake: nothing is cached
    #[arg(long, global = true, value_name = "PATH", hide = true)]
    pub(super) cache_dir: Option<PathBuf>,

    /// Accepted for kubectl's sake: versions are compared by `version`
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    pub(super) match_server_version: Option<bool>,

    /// Accepted for kubectl's sake: no profile is written
    #[arg(long, global = true, value_name = "NAME", hide = true)]
    pub(super) profile: Option<String>,

    /// Accepted for kubectl's sake: no profile is written
    #[arg(long, global = true, value_name = "PATH", hide = true)]
    pub(super) profile_output: Option<PathBuf>,

    /// Accepted for kubectl's sake: log lines are written at once
    #[arg(long, global = true, value_name = "DURATION", hide = true)]
    pub(super) log_flush_frequency: Option<Limit>,

    /// When to colour the output
    #[arg(long, global = true, value_enum, default_value_t, env = "KUBECTL_CAPTF_COLOR", hide_env = true, help_heading = DISPLAY, hide_short_help = true)]
    pub(super) color: ColourChoice,

    /// How to print times
    #[arg(long, global = true, value_enum, default_value_t, env = "KUBECTL_CAPTF_TIME", hide_env = true, help_heading = DISPLAY, hide_short_help = true)]
    pub(super) time: TimeChoice,

    /// Draw trees with ASCII characters only
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_default_value = true, hide_possible_values = true, help_heading = DISPLAY, hide_short_help = true)]
    pub(super) ascii: bool,

    /// Log level on stderr: 4 totals, 6 each request, 8 headers
    #[arg(short = 'v', long = "v", global = true, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = DISPLAY, hide_short_help = true)]
    pub(super) verbosity: u8,

    /// A partial answer is an error
    #[arg(long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", hide_default_value = true, hide_possible_values = true, help_heading = DISPLAY, hide_short_help = true)]
    pub(super) warnings_as_errors: bool,
}

/// Output format of a command (cli.md §3).
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArg {
    /// Output format: table, wide, json, yaml or name
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        default_value = "table",
        env = "KUBECTL_CAPTF_OUTPUT",
        hide_env = true
    )]
    pub(super) output: Format,
}

/// When to colour (cli.md §13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal
    #[default]
    Auto,
    /// Also in a pipe
    Always,
    /// Not at all
    Never,
}

/// How to print times (cli.md §12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeChoice {
    /// As an age or a countdown
    #[default]
    Relative,
    /// As RFC 3339 in UTC
    Utc,
    /// As RFC 3339 with the offset of this machine's time zone, or of TZ
    Local,
}

/// A duration as Go writes it (`1m30s`), or a bare number of seconds; zero means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(super) Option<Duration>);

impl Default for Limit {
    fn default() -> Self {
        Self(Some(Duration::from_secs(30)))
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let length = parse_duration(text)?;
        Ok(Self((!length.is_zero()).then_some(length)))
    }
}

/// Parses a Go duration or a bare number of seconds.
///
/// # Errors
///
/// Anything else, and negative durations.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let wrong = || format!("\"{text}\" is no duration; write 30s, 1m30s or a number of seconds");
    // Go knows only these units; jiff would also take "minutes" or "days".
    let plain = text
        .chars()
        .all(|c| c.is_ascii_digit() || ".hmsunµ".contains(c));
    if !plain {
        return Err(wrong());
    }
    let length: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(length).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Limit, parse_duration};
    use std::time::Duration;

    #[test]
    fn request_timeout_takes_go_durations_and_seconds() {
        assert_eq!(parse_duration("1m30s").unwrap(), Duration::from_secs(90));
        assert_eq!(parse_duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_duration("45").unwrap(), Duration::from_secs(45));
    }

    #[test]
    fn request_timeout_zero_is_no_limit() {
        assert_eq!("0".parse::<Limit>().unwrap().0, None);
        assert_eq!("0s".parse::<Limit>().unwrap().0, None);
    }

    #[test]
    fn request_timeout_refuses_what_go_refuses() {
        for text in ["", "soon", "-3s", "2 minutes", "1d", "30 s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
