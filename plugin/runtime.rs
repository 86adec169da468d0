//! The asynchronous part of a command: one thread, ended by Ctrl-C.

use super::error::Error;
use super::exit::Exit;
use super::settings::Settings;

/// Runs a command to its end, or until SIGINT.
///
/// # Errors
///
/// The command's, and a runtime that cannot be made.
pub(crate) fn block_on(
    settings: &Settings,
    command: impl Future<Output = Result<Exit, Error>>,
) -> Result<Exit, Error> {
    log(settings.verbosity);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Internal(error.to_string()))?;
    runtime.block_on(async {
        tokio::select! {
            done = command => done,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    })
}

/// Sends the log to standard error at the level of `-v`; without the flag there is none.
fn log(verbosity: u8) {
    let level = match verbosity {
        0..=3 => return,
        4..=5 => "info",
        6..=7 => "debug",
        8.. => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::new(format!("captf={level}"));
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter);
    // Only a test that runs two commands in one process has a log already.
    let _ = log.with_target(false).try_init();
}
