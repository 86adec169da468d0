//! The manager's log: one line per event on standard error, as klog writes it or as JSON
//! (manager.md §7).
//!
//! What is logged never holds Secret data, variables, outputs or a kubeconfig; and of the libraries
//! below only what cannot hold an answer of the API server is let through.

mod format;
#[cfg(test)]
pub(in crate::operator) mod testing;

use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::settings::{LogFormat, LoggingSettings};
use format::{Json, Klog};

/// Events of this target hold rendered inputs, without their values; they are written at verbosity 5.
pub const RENDERED: &str = "captf::rendered";

/// Switches the verbosity of the running process.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Installs the log of the process.
///
/// # Errors
/// When a log is installed already.
pub fn install(settings: LoggingSettings) -> Result<(), TryInitError> {
    let (filter, handle) = reload::Layer::new(filter(settings.verbosity));
    let subscriber = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    match settings.format {
        LogFormat::Text => subscriber
            .with(lines.fmt_fields(format::Fields).event_format(Klog))
            .try_init()?,
        LogFormat::Json => subscriber
            .with(lines.fmt_fields(format::Fields).event_format(Json))
            .try_init()?,
    }
    // The first log of the process is the one that stays.
    let _ = FILTER.set(handle);
    Ok(())
}

/// Changes the verbosity of the running process; without an installed log it changes nothing.
pub fn set_verbosity(verbosity: u32) {
    if let Some(handle) = FILTER.get() {
        match handle.reload(filter(verbosity)) {
            Ok(()) => tracing::info!(verbosity, "the verbosity of the log was changed"),
            Err(error) => {
                tracing::warn!(error = %error, "the verbosity of the log could not be changed")
            }
        }
    }
}

/// What a verbosity lets through. Errors, warnings and what cannot be undone (info) always; from 2 the
/// normal flow (debug), from 4 debugging (trace), from 5 rendered inputs. Of libraries warnings, from 6
/// more; of kube's client never more than errors, because it warns with whole answers in the text.
fn filter(verbosity: u32) -> EnvFilter {
    let ours = match verbosity {
        0 | 1 => "info",
        2 | 3 => "debug",
        _ => "trace",
    };
    let rendered = if verbosity >= 5 { "trace" } else { "off" };
    let libraries = if verbosity >= 6 { "debug" } else { "warn" };
    EnvFilter::new(format!(
        "{libraries},captf={ours},{RENDERED}={rendered},kube_client=error"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "warn,captf=info,captf::rendered=off,kube_client=error")]
    #[case(2, "warn,captf=debug,captf::rendered=off,kube_client=error")]
    #[case(4, "warn,captf=trace,captf::rendered=off,kube_client=error")]
    #[case(5, "warn,captf=trace,captf::rendered=trace,kube_client=error")]
    #[case(9, "debug,captf=trace,captf::rendered=trace,kube_client=error")]
    fn verbosity_decides_what_is_written(#[case] verbosity: u32, #[case] directives: &str) {
        let sorted = |text: &str| {
            let mut parts: Vec<String> = text.split(',').map(str::to_owned).collect();
            parts.sort();
            parts
        };
        assert_eq!(sorted(&filter(verbosity).to_string()), sorted(directives));
    }
}
