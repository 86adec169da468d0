//! One run from its first check to its result (runner.md §2, §7).

use std::ffi::OsString;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::events::{Events, Note};
use super::failure::Failure;
use super::output::{StandardError, StandardOutput};
use super::plan::Plan;
use super::prepare::{Prepared, prepare};
use super::process::{Ended, Process};
use super::redact::Redactor;
use super::request::Request;
use super::restore;
use super::result::{Changes, RunResult, Seconds, StepReport};
use super::secrets;
use super::steps::{Output, Step, StepName, push_errored_state, steps};
use super::stop::Stop;
use super::summary::{self, FailedStep};
use super::verdict::{self, PlanStop};
use crate::text::cut;

/// What a failed apply or destroy leaves when it could not write its state.
const ERRORED_STATE: &str = "errored.tfstate";
/// What the push of such a state gets at least, once the run was stopped. It must end, with the result written, before
/// the pod's grace does.
const LEAST_PUSH_TIME: Duration = Duration::from_secs(10);

/// Most bytes of a version that a runtime says it has.
const MAX_VERSION: usize = 64;

/// Does what the request asks for. The result says how it went.
pub(super) async fn run(request: &Request, stop: &Stop, events: &Events) -> RunResult {
    let started = Instant::now();
    let mut run = Run {
        request,
        stop,
        events,
        result: request.empty_result(),
    };
    let outcome = match prepare(request) {
        Ok(prepared) => run.perform(prepared).await,
        Err(failure) => Err(failure),
    };
    run.finish(outcome, Seconds::rounded(started.elapsed()))
}

struct Run<'a> {
    request: &'a Request,
    stop: &'a Stop,
    events: &'a Events,
    result: RunResult,
}

/// A step that ended well.
struct Success {
    exit: i32,
    stdout: Vec<u8>,
    changes: Option<Changes>,
}

impl Run<'_> {
    async fn perform(&mut self, mut prepared: Prepared) -> Result<(), Failure> {
        self.result.runtime.version = self.runtime_version(&prepared).await;
        let (op, image, version) = (self.op(), &self.request.image, &self.result.runtime.version);
        self.tell(
            "RunStarted",
            op,
            format!("{op} of {image} starts, runtime version {version}"),
        );
        for step in steps(self.request) {
            let success = self.step(&step, &prepared).await?;
            match step.name {
                StepName::Plan if success.exit == 0 => {
                    return verdict::of_empty_plan(
                        &self.request.operation,
                        &prepared.redactor,
                        &mut self.result,
                    );
                }
                StepName::ShowJson => self.judge_plan(&success.stdout, &mut prepared)?,
                StepName::Apply | StepName::Destroy => {
                    self.note_changes(step.name, success.changes)
                }
                StepName::StateList => {
                    let managed =
                        restore::lists_managed_resource(&String::from_utf8_lossy(&success.stdout));
                    verdict::of_state_list(&self.request.operation, managed)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Decides by the plan whether the run goes on.
    fn judge_plan(&mut self, document: &[u8], prepared: &mut Prepared) -> Result<(), Failure> {
        self.read_plan(document, prepared)
            .map_err(|stop| match stop {
                PlanStop::Gate(failure) => failure,
                PlanStop::Unreadable(error) => {
                    let name = StepName::ShowJson;
                    self.warn(
                        "StepFailed",
                        name.as_str(),
                        format!("step {name} failed: {error}"),
                    );
                    Failure::step(name, error.to_string()).interrupted_if(self.stop.is_requested())
                }
            })
    }

    /// Reads the plan and hides its secrets from here on.
    fn read_plan(&mut self, document: &[u8], prepared: &mut Prepared) -> Result<(), PlanStop> {
        let plan = Plan::parse(document)?;
        secrets::add_plan(&mut prepared.secrets, &plan);
        prepared.redactor = Redactor::new(&prepared.secrets);
        self.tell("PlanSummary", StepName::ShowJson.as_str(), plan.counts());
        let key = prepared.key.as_ref();
        verdict::of_plan(
            &self.request.operation,
            &plan,
            key,
            &prepared.redactor,
            &mut self.result,
        )
    }

    fn note_changes(&mut self, step: StepName, changes: Option<Changes>) {
        let Some(changes) = changes else { return };
        self.result.changes = Some(changes);
        let Changes {
            add,
            change,
            destroy,
            import,
        } = changes;
        let imported = if import == 0 {
            String::new()
        } else {
            format!(", {import} imported")
        };
        let text = format!("{add} added, {change} changed, {destroy} destroyed{imported}");
        self.tell("ResourcesChanged", step.as_str(), text);
    }

    /// Runs a step and pushes the state that it may have left unwritten.
    async fn step(&mut self, step: &Step, prepared: &Prepared) -> Result<Success, Failure> {
        let failure = match self.execute(step, prepared, self.stop).await {
            Ok(success) => return Ok(success),
            Err(failure) => failure,
        };
        let errored = self.request.root().join(ERRORED_STATE);
        if matches!(step.name, StepName::Apply | StepName::Destroy) && errored.exists() {
            let push = push_errored_state(self.request, errored);
            // The failure that left the state is the one to report; this one was told where it happened.
            let _ = self.execute(&push, prepared, &self.push_limit()).await;
        }
        Err(failure)
    }

    /// The push is bounded by the stop timeout, and of a stopped run by what is left of it.
    fn push_limit(&self) -> Stop {
        let now = Instant::now();
        Stop::at(match self.stop.kill_at() {
            Some(kill_at) => kill_at.max(now + LEAST_PUSH_TIME),
            None => now + self.stop.grace(),
        })
    }

    async fn execute(
        &mut self,
        step: &Step,
        prepared: &Prepared,
        stop: &Stop,
    ) -> Result<Success, Failure> {
        let name = step.name;
        tracing::info!(step = %name, "step starts");
        self.tell("StepStarted", name.as_str(), format!("step {name} starts"));
        let redactor = &prepared.redactor;
        let mut stdout = StandardOutput::new(step.output(), redactor);
        let mut stderr = StandardError::new(redactor);
        let ended = self
            .process(&step.arguments, prepared)
            .run(stop, &mut stdout, &mut stderr)
            .await;
        let seconds = Seconds::rounded(ended.duration);
        tracing::info!(step = %name, exit = ended.exit, %seconds, "step ended");
        self.result.steps.push(StepReport {
            name: name.as_str().to_owned(),
            exit: ended.exit,
            seconds,
        });
        let tail = stderr.tail.text();
        if ended.error.is_none() && step.accepts(ended.exit, &tail) {
            let text = format!(
                "step {name} succeeded, exit code {}, {seconds} s",
                ended.exit
            );
            self.tell("StepSucceeded", name.as_str(), text);
            return Ok(Success {
                exit: ended.exit,
                stdout: stdout.captured,
                changes: stdout.messages.changes,
            });
        }
        let failure = failure(name, &ended, &stdout, &tail, redactor)
            .interrupted_if(self.stop.is_requested());
        let text = format!(
            "step {name} failed, exit code {}, {seconds} s: {}",
            ended.exit, failure.tail
        );
        self.warn("StepFailed", name.as_str(), text);
        Err(failure)
    }

    fn process<'p>(&'p self, arguments: &'p [OsString], prepared: &'p Prepared) -> Process<'p> {
        Process {
            command: &self.request.runtime,
            arguments,
            folder: &prepared.root,
            variables: &prepared.environment.variables,
        }
    }

    /// What the runtime says its version is; nothing when it does not say.
    async fn runtime_version(&self, prepared: &Prepared) -> String {
        #[derive(Deserialize, Default)]
        struct Version {
            #[serde(default)]
            terraform_version: String,
        }
        let arguments = ["version".into(), "-json".into()];
        let mut stdout = StandardOutput::new(Output::Capture, &prepared.redactor);
        let mut stderr = StandardError::new(&prepared.redactor);
        self.process(&arguments, prepared)
            .run(self.stop, &mut stdout, &mut stderr)
            .await;
        let version: Version = serde_json::from_slice(&stdout.captured).unwrap_or_default();
        cut(
            &prepared.redactor.redact(&version.terraform_version),
            MAX_VERSION,
        )
        .to_owned()
    }

    /// Puts the outcome into the result and tells it.
    fn finish(mut self, outcome: Result<(), Failure>, seconds: Seconds) -> RunResult {
        let op = self.op();
        match outcome {
            Ok(()) => {
                tracing::info!(op, %seconds, "run succeeded");
                self.tell(
                    "RunFinished",
                    op,
                    format!("{op} succeeded in {seconds} s, exit code 0"),
                );
            }
            Err(failure) => {
                let (kind, summary) = (failure.kind, &failure.tail);
                tracing::error!(op, %seconds, %kind, %summary, "run ended without success");
                let text = format!("{op} ended after {seconds} s, exit code 1, {kind}: {summary}");
                self.warn("RunFinished", op, text);
                self.result.error = Some(failure.into());
            }
        }
        self.result
    }

    fn op(&self) -> &'static str {
        self.request.operation.name()
    }

    fn tell(&self, reason: &'static str, action: &'static str, text: String) {
        self.events.send(Note {
            reason,
            action,
            text,
            warning: false,
        });
    }

    fn warn(&self, reason: &'static str, action: &'static str, text: String) {
        self.events.send(Note {
            reason,
            action,
            text,
            warning: true,
        });
    }
}

/// A failed step, for people.
fn failure(
    name: StepName,
    ended: &Ended,
    stdout: &StandardOutput<'_>,
    stderr: &str,
    redactor: &Redactor,
) -> Failure {
    let step = FailedStep {
        name,
        exit: ended.exit,
        error: ended.error.as_deref(),
        stdout: &stdout.captured,
        stderr,
        messages: &stdout.messages,
    };
    Failure::step(name, summary::of_step(&step, redactor))
        .with_resources(summary::failed_resources(&stdout.messages, redactor))
}
