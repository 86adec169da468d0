//! Running one process of the runtime (runner.md §7.1).

use std::ffi::OsString;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::environment::Variables;
use super::stop::Stop;

/// What output of a process that has ended may take to arrive, whatever the time.
const DRAIN: Duration = Duration::from_secs(1);
/// Bytes read from a pipe at once.
const CHUNK: usize = 32 * 1024;

/// Takes what a process prints.
pub(super) trait Sink {
    /// The next bytes.
    fn take(&mut self, chunk: &[u8]);
    /// No more will come.
    fn end(&mut self);
}

/// A process to run.
pub(super) struct Process<'a> {
    /// Program and leading arguments.
    pub(super) command: &'a [String],
    pub(super) arguments: &'a [OsString],
    pub(super) folder: &'a Path,
    pub(super) variables: &'a Variables,
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code; 1 when it did not start or a signal ended it.
    pub(super) exit: i32,
    /// Why it did not start, or what ended it.
    pub(super) error: Option<String>,
    pub(super) duration: Duration,
}

impl Process<'_> {
    /// Runs the process to its end, in a process group of its own, so that a terminal's Ctrl-C reaches the runner
    /// alone. A requested stop becomes one SIGTERM to the process itself, never to its group, whose provider
    /// plugins must live; after the grace it is killed.
    pub(super) async fn run(
        &self,
        stop: &Stop,
        stdout: &mut impl Sink,
        stderr: &mut impl Sink,
    ) -> Ended {
        let started = Instant::now();
        let result = match self.spawn() {
            Ok(mut child) => {
                let pumps = {
                    let (out, err) = (child.stdout.take(), child.stderr.take());
                    async { tokio::join!(pump(out, stdout), pump(err, stderr)) }
                };
                supervise(&mut child, stop, pumps).await
            }
            Err(error) => Err(error),
        };
        stdout.end();
        stderr.end();
        let (exit, error) = match result {
            Ok(status) => exit_of(status),
            Err(error) => (1, Some(error)),
        };
        Ended {
            exit,
            error,
            duration: started.elapsed(),
        }
    }

    fn spawn(&self) -> Result<Child, String> {
        let (program, leading) = self
            .command
            .split_first()
            .ok_or("the runtime command is empty")?;
        Command::new(program)
            .args(leading)
            .args(self.arguments)
            .current_dir(self.folder)
            .env_clear()
            .envs(self.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start {program}: {e}"))
    }
}

/// Waits for the process and for the end of its output. Output that stays open, because something the process started
/// holds it, is waited for no longer than the grace.
async fn supervise<T>(
    child: &mut Child,
    stop: &Stop,
    pumps: impl Future<Output = T>,
) -> Result<ExitStatus, String> {
    let mut pumps = pin!(pumps);
    let mut output_open = true;
    let mut asked = false;
    let mut killed = false;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        // A killed process is waited for alone: what it left behind may hold its output for ever.
        let give_up_at = match (&ended, stop.kill_at()) {
            (Some((status, _)), _) if killed && !status.success() => {
                return Err(not_stopped(stop.grace()));
            }
            (Some((status, _)), _) if !output_open || killed => return Ok(*status),
            (Some((_, at)), kill_at) => {
                Some(kill_at.unwrap_or(*at + stop.grace()).max(*at + DRAIN))
            }
            (None, kill_at) => kill_at.filter(|_| !killed),
        };
        tokio::select! {
            _ = &mut pumps, if output_open => output_open = false,
            status = child.wait(), if ended.is_none() => {
                let status = status.map_err(|e| format!("cannot wait for the runtime: {e}"))?;
                ended = Some((status, Instant::now()));
            }
            () = stop.requested(), if !asked => {
                asked = true;
                terminate(child);
            }
            () = sleep_until(give_up_at) => {
                if let Some((status, _)) = ended {
                    return Ok(status);
                }
                killed = true;
                child.start_kill().map_err(|e| format!("cannot kill the runtime: {e}"))?;
            }
        }
    }
}

fn not_stopped(grace: Duration) -> String {
    format!(
        "the runtime did not stop within {} s and was killed; it may have left its state lock behind",
        grace.as_secs()
    )
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends one SIGTERM to the process. One that has ended already needs none.
fn terminate(child: &Child) {
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, Signal::TERM)) {
        tracing::warn!(%error, "the runtime cannot be asked to stop");
    }
}

/// The exit code, and an error for an end by a signal.
fn exit_of(status: ExitStatus) -> (i32, Option<String>) {
    match (status.code(), status.signal()) {
        (Some(code), _) => (code, None),
        (None, Some(signal)) => (1, Some(format!("the runtime was ended by signal {signal}"))),
        (None, None) => (1, Some("the runtime ended without an exit code".to_owned())),
    }
}

async fn pump(pipe: Option<impl AsyncRead + Unpin>, sink: &mut impl Sink) {
    let Some(mut pipe) = pipe else { return };
    let mut chunk = vec![0; CHUNK];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        sink.take(&chunk[..length]);
    }
}
