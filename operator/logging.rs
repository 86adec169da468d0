//! The manager's log: structured lines on stderr (manager.md §7).

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt;

use super::settings::{LogFormat, LoggingSettings};

/// Libraries that would log whole answers, Secrets among them, or every connection.
const QUIET: &str = "kube_client=error,kube_runtime=error,hyper=warn,hyper_util=warn,rustls=warn,tower=warn,h2=warn";

/// Installs the log of the process.
///
/// # Errors
/// When a log is installed already.
pub fn install(settings: LoggingSettings) -> Result<(), tracing_subscriber::util::TryInitError> {
    use tracing_subscriber::util::SubscriberInitExt as _;
    let lines = fmt()
        .with_env_filter(filter(settings.verbosity))
        .with_writer(std::io::stderr)
        .with_target(false);
    match settings.format {
        LogFormat::Text => lines.with_ansi(false).finish().try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .finish()
            .try_init(),
    }
}

/// klog's verbosity as levels: 0 and 1 keep warnings and errors, 2 and 3 the normal flow, 4 debugging,
/// 6 and above everything.
fn filter(verbosity: u32) -> EnvFilter {
    let level = match verbosity {
        0 | 1 => "warn",
        2 | 3 => "info",
        4 | 5 => "debug",
        _ => "trace",
    };
    EnvFilter::new(format!("{level},{QUIET}"))
}
