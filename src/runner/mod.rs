//! The process in every Job's pod: `kubectl-captf runner` (runner.md).
//!
//! `copy` puts this executable where the module image's container can run it. `run` takes one operation from its flags
//! to a result document:
//!
//! 1. `args` is what was typed, `request` what it means;
//! 2. `prepare` checks the inputs (`layout`) and makes the working folder (`workdir`), the environment
//!    (`environment`) and the list of secret values (`secrets`, `redact`) ready;
//! 3. `engine` runs the `steps` of the operation, each as one `process` whose `output` is redacted, and lets
//!    the `verdict` about a `plan` stop it;
//! 4. the `result` is written where the kubelet reads it, and `events` tell the progress meanwhile.

mod args;
mod copy;
mod duration;
mod engine;
mod environment;
mod events;
mod failure;
mod gojson;
mod hmac;
mod layout;
mod lines;
mod logging;
mod messages;
mod output;
mod plan;
mod prepare;
mod process;
mod redact;
mod request;
mod restore;
mod result;
mod secrets;
mod steps;
mod stop;
mod summary;
mod text;
mod verdict;
mod workdir;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use args::{Cli, Command, RunArgs, VersionFlag};
use events::Events;
use failure::Failure;
use request::{InvalidRequest, Request};
use result::{ErrorKind, ErrorReport, RunResult};
use stop::Stop;

use crate::text::cut;

pub use args::RunnerArgs;

/// How the runner ends. The runtime's own exit code never becomes the process's (runner.md §9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Success,
    Failure,
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
        })
    }
}

/// Runs the runner with these arguments. Builds its own runtime where it needs one, so it must not be called inside
/// another.
#[must_use]
pub fn main(args: RunnerArgs) -> ExitCode {
    dispatch(&args).into()
}

fn dispatch(args: &RunnerArgs) -> Exit {
    let cli = match args.parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(args, &error),
    };
    match cli.version {
        None | Some(VersionFlag::Off) => {}
        Some(flag) => return print_version(&flag),
    }
    let logging = match cli.logging.settings() {
        Ok(logging) => logging,
        Err(error) => return refuse(args, &error.to_string()),
    };
    logging.start();
    match cli.command {
        None => refuse_arguments(args, &Cli::missing_command()),
        Some(Command::Version) => print_version(&VersionFlag::Raw),
        Some(Command::Copy { dest }) => match copy::copy_self(&dest) {
            Ok(()) => Exit::Success,
            Err(error) => {
                tracing::error!(%error, "the runner cannot be copied");
                Exit::Failure
            }
        },
        Some(Command::Run(run)) => match Request::new(&run) {
            Ok(request) => run_request(&request, &run.result),
            Err(InvalidRequest::Operation(op)) => refuse_operation(&run, &op),
            Err(error) => refuse(args, &error.to_string()),
        },
    }
}

/// The command line is no command line, or asks for help.
fn refuse_arguments(args: &RunnerArgs, error: &clap::Error) -> Exit {
    // A closed standard error is no reason to leave no result.
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Success;
    }
    if args.asks_for_run() {
        leave_flags_result(&args.result_path(), args::sentence(error));
    }
    Exit::Usage
}

/// The flags make no sense.
fn refuse(args: &RunnerArgs, message: &str) -> Exit {
    let _ = writeln!(io::stderr(), "error: {message}");
    if args.asks_for_run() {
        leave_flags_result(&args.result_path(), message.to_owned());
    }
    Exit::Usage
}

fn leave_flags_result(path: &Path, tail: String) {
    let mut result = RunResult::new("");
    result.error = Some(usage_error("flags", tail));
    leave(path, &result);
}

/// The operation is unknown. The result carries it, with the step by which metrics know this case.
fn refuse_operation(run: &RunArgs, op: &str) -> Exit {
    let message = InvalidRequest::Operation(op.to_owned()).to_string();
    let _ = writeln!(io::stderr(), "error: {message}");
    let mut result = RunResult::new(cut(op, 64));
    result.image.reference.clone_from(&run.image);
    result.runtime.command.clone_from(&run.bin);
    result.error = Some(usage_error("plan", message));
    leave(&run.result, &result);
    Exit::Usage
}

fn usage_error(step: &str, tail: String) -> ErrorReport {
    let tail = cut(&tail, summary::MAX_BYTES).to_owned();
    ErrorReport {
        kind: ErrorKind::Step,
        step: Some(step.to_owned()),
        tail,
        resources: Vec::new(),
    }
}

/// Does the request and leaves its result, whatever happens.
fn run_request(request: &Request, result_path: &Path) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure =
                Failure::prepare(format!("the runner cannot start its event loop: {error}"));
            return leave_outcome(result_path, &failed(request, failure));
        }
    };
    // The panic's text may hold anything, so the result says only that there was one.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(run_and_leave(request, result_path))
    }));
    outcome.unwrap_or_else(|_| {
        let failure = Failure::prepare(
            "the runner stopped at an error of its own; its log tells more".to_owned(),
        );
        leave_outcome(result_path, &failed(request, failure))
    })
}

async fn run_and_leave(request: &Request, result_path: &Path) -> Exit {
    let stop = match Stop::on_signals(request.stop_timeout) {
        Ok(stop) => stop,
        Err(error) => {
            let failure = Failure::prepare(format!("the runner cannot catch signals: {error}"));
            return leave_outcome(result_path, &failed(request, failure));
        }
    };
    let events = Events::start(request);
    let result = engine::run(request, &stop, &events).await;
    let exit = leave_outcome(result_path, &result);
    events.close().await;
    exit
}

fn failed(request: &Request, failure: Failure) -> RunResult {
    let mut result = request.empty_result();
    result.error = Some(failure.into());
    result
}

/// A run that succeeded has failed when nobody can know.
fn leave_outcome(path: &Path, result: &RunResult) -> Exit {
    if leave(path, result) && result.error.is_none() {
        Exit::Success
    } else {
        Exit::Failure
    }
}

/// Writes the result; false when that is not possible.
fn leave(path: &Path, result: &RunResult) -> bool {
    match write_result(path, &result.to_message()) {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "the result cannot be written");
            false
        }
    }
}

/// In a pod the file is a bind mount that belongs to root: it can be truncated and written, but neither replaced nor
/// given another mode (runner.md §10).
fn write_result(path: &Path, message: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(message)?;
    match file.sync_all() {
        // A pipe or a terminal has nothing to sync.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn print_version(flag: &VersionFlag) -> Exit {
    let version = crate::VERSION;
    let line = match flag {
        VersionFlag::As(reported) => format!("runner {reported}"),
        VersionFlag::Raw => format!(
            "runner {version} ({} {}, {})",
            std::env::consts::OS,
            std::env::consts::ARCH,
            crate::COMMIT.unwrap_or("unknown commit")
        ),
        VersionFlag::Print | VersionFlag::Off => format!("runner {version}"),
    };
    match writeln!(io::stdout(), "{line}") {
        // A reader that has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Exit::Failure,
        _ => Exit::Success,
    }
}
