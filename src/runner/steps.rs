//! The steps of every operation and their exact command lines (runner.md §6).

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::request::{Gate, Operation, Request};

/// The variables file, relative to the folder that steps run in.
const VARIABLES: &str = "-var-file=terraform.tfvars.json";
/// Messages with which `force-unlock` may fail: the lock it was to remove is gone already.
const ALREADY_UNLOCKED: [&str; 2] = ["state is already unlocked", "does not match existing lock"];

/// The names of steps, as results, events and metrics know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepName {
    Init,
    ForceUnlock,
    Validate,
    Plan,
    ShowJson,
    Apply,
    Destroy,
    ApplyRefreshOnly,
    StatePush,
    StateList,
}

impl StepName {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::ForceUnlock => "force-unlock",
            Self::Validate => "validate",
            Self::Plan => "plan",
            Self::ShowJson => "show-json",
            Self::Apply => "apply",
            Self::Destroy => "destroy",
            Self::ApplyRefreshOnly => "apply-refresh-only",
            Self::StatePush => "state-push",
            Self::StateList => "state-list",
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What becomes of a step's standard output (R-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// To the log as it comes.
    Log,
    /// Kept, and to the log.
    CaptureAndLog,
    /// Kept, never to the log: plans hold all values.
    Capture,
    /// Machine-readable messages: rendered to the log, diagnostics kept.
    Messages,
}

/// One call of the runtime.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: StepName,
    /// Arguments after the runtime's own command.
    pub(super) arguments: Vec<OsString>,
}

impl Step {
    fn new<A: Into<OsString>>(name: StepName, arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            name,
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    pub(super) fn output(&self) -> Output {
        match self.name {
            StepName::ShowJson => Output::Capture,
            StepName::Validate | StepName::StateList => Output::CaptureAndLog,
            StepName::Apply | StepName::Destroy => Output::Messages,
            _ => Output::Log,
        }
    }

    /// Whether the step ended well: with an exit code of its list, or with a message that means the same (R-23).
    pub(super) fn accepts(&self, exit: i32, stderr: &str) -> bool {
        match (self.name, exit) {
            (_, 0) | (StepName::Plan, 2) => true,
            (StepName::ForceUnlock, _) => ALREADY_UNLOCKED
                .iter()
                .any(|message| stderr.contains(message)),
            _ => false,
        }
    }
}

/// The plan file of the run's `plan` step.
fn plan_file(request: &Request) -> PathBuf {
    request.workdir.join(match request.operation {
        Operation::Apply(_) => "apply.tfplan",
        _ => "plan.tfplan",
    })
}

/// The state that a restore pushes.
pub(super) fn restored_state(request: &Request) -> PathBuf {
    request.workdir.join("restore.tfstate")
}

/// The steps of a run, in order. `force-unlock` follows `init`, because it needs an initialised backend (R-11); destroy
/// is neither validated nor guarded (R-14).
pub(super) fn steps(request: &Request) -> Vec<Step> {
    let mut steps = vec![init(request)];
    if let Some(lock) = &request.force_unlock {
        steps.push(Step::new(
            StepName::ForceUnlock,
            ["force-unlock", "-force", lock],
        ));
    }
    match &request.operation {
        Operation::Apply(Gate::Open) => {
            steps.extend([validate(), changing(request, StepName::Apply)]);
        }
        Operation::Apply(Gate::Guarded { .. } | Gate::Expected(_)) => {
            steps.extend([
                validate(),
                plan(request),
                show(request),
                apply_plan(request),
            ]);
        }
        Operation::Plan => steps.extend([validate(), plan(request), show(request)]),
        Operation::Destroy => steps.push(changing(request, StepName::Destroy)),
        Operation::Refresh => steps.push(refresh(request)),
        Operation::Drift => steps.extend([refresh(request), plan(request), show(request)]),
        Operation::Restore { .. } => steps.extend([
            restore(request),
            Step::new(StepName::StateList, ["state", "list"]),
        ]),
    }
    steps
}

/// The lock timeout, cut to whole seconds.
fn lock_timeout(request: &Request) -> String {
    format!("-lock-timeout={}s", request.lock_timeout.as_secs())
}

/// A command with the common flags, then its own.
fn common<A: Into<OsString>>(
    request: &Request,
    command: &str,
    own: impl IntoIterator<Item = A>,
) -> Vec<OsString> {
    let common = [
        command.into(),
        "-input=false".into(),
        "-no-color".into(),
        lock_timeout(request).into(),
    ];
    common
        .into_iter()
        .chain(own.into_iter().map(Into::into))
        .collect()
}

fn init(request: &Request) -> Step {
    let backend = request
        .backend_config
        .iter()
        .map(|setting| format!("-backend-config={setting}"));
    Step::new(StepName::Init, common(request, "init", backend))
}

fn validate() -> Step {
    Step::new(StepName::Validate, ["validate", "-json", "-no-color"])
}

/// An apply or destroy of the inputs as they are. It prints machine-readable messages, since its failures are told by
/// them alone.
fn changing(request: &Request, name: StepName) -> Step {
    Step::new(
        name,
        common(
            request,
            name.as_str(),
            ["-json", "-auto-approve", VARIABLES],
        ),
    )
}

fn apply_plan(request: &Request) -> Step {
    Step::new(
        StepName::Apply,
        common(
            request,
            "apply",
            ["-json".into(), plan_file(request).into_os_string()],
        ),
    )
}

fn refresh(request: &Request) -> Step {
    Step::new(
        StepName::ApplyRefreshOnly,
        common(
            request,
            "apply",
            ["-refresh-only", "-auto-approve", VARIABLES],
        ),
    )
}

fn plan(request: &Request) -> Step {
    let mut own: Vec<OsString> = vec!["-detailed-exitcode".into()];
    if request.operation == Operation::Drift {
        // The refresh before it has just read everything.
        own.push("-refresh=false".into());
    }
    own.push(VARIABLES.into());
    own.push(flag_with_path("-out=", plan_file(request)));
    Step::new(StepName::Plan, common(request, "plan", own))
}

fn show(request: &Request) -> Step {
    Step::new(
        StepName::ShowJson,
        [
            "show".into(),
            "-json".into(),
            "-no-color".into(),
            plan_file(request).into_os_string(),
        ],
    )
}

fn restore(request: &Request) -> Step {
    let arguments = [
        "state".into(),
        "push".into(),
        "-force".into(),
        lock_timeout(request).into(),
    ];
    Step::new(
        StepName::StatePush,
        arguments
            .into_iter()
            .chain([restored_state(request).into_os_string()]),
    )
}

/// The push of a state that a failed apply or destroy could not write. Without `-input`, which runtimes refuse here.
pub(super) fn push_errored_state(request: &Request, file: PathBuf) -> Step {
    Step::new(
        StepName::StatePush,
        [
            "state".into(),
            "push".into(),
            lock_timeout(request).into(),
            file.into_os_string(),
        ],
    )
}

fn flag_with_path(flag: &str, path: PathBuf) -> OsString {
    let mut argument = OsString::from(flag);
    argument.push(path);
    argument
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;

    use super::super::request::tests::request;
    use super::*;

    /// The command lines of a run as people write them.
    fn lines(flags: &[&str]) -> Vec<String> {
        let jobs = [
            "--lock-timeout=300s",
            "--backend-config=secret_suffix=s-c",
            r#"--backend-config=labels={"a"="b"}"#,
        ];
        steps(&request(&[&jobs[..], flags].concat()).unwrap())
            .iter()
            .map(|step| {
                let words: Vec<_> = step.arguments.iter().map(|a| a.to_str().unwrap()).collect();
                format!("{}: {}", step.name, words.join(" "))
            })
            .collect()
    }

    const INIT: &str = concat!(
        "init: init -input=false -no-color -lock-timeout=300s ",
        r#"-backend-config=secret_suffix=s-c -backend-config=labels={"a"="b"}"#
    );
    const VALIDATE: &str = "validate: validate -json -no-color";

    #[test]
    fn apply() {
        assert_eq!(
            lines(&["--op=apply"]),
            [
                INIT,
                VALIDATE,
                "apply: apply -input=false -no-color -lock-timeout=300s -json -auto-approve -var-file=terraform.tfvars.json",
            ]
        );
    }

    #[rstest]
    #[case("--guard-deletes")]
    #[case("--expect-plan=p2:00")]
    fn gated_apply(#[case] flag: &str) {
        assert_eq!(
            lines(&["--op=apply", flag]),
            [
                INIT,
                VALIDATE,
                "plan: plan -input=false -no-color -lock-timeout=300s -detailed-exitcode -var-file=terraform.tfvars.json -out=/captf/work/apply.tfplan",
                "show-json: show -json -no-color /captf/work/apply.tfplan",
                "apply: apply -input=false -no-color -lock-timeout=300s -json /captf/work/apply.tfplan",
            ]
        );
    }

    #[test]
    fn force_unlock_follows_init() {
        assert_eq!(
            lines(&["--op=apply", "--force-unlock=5c6e"])[1],
            "force-unlock: force-unlock -force 5c6e"
        );
        assert_eq!(lines(&["--op=destroy", "--force-unlock=5c6e"]).len(), 3);
    }

    #[test]
    fn destroy_is_not_validated() {
        assert_eq!(
            lines(&["--op=destroy"]),
            [
                INIT,
                "destroy: destroy -input=false -no-color -lock-timeout=300s -json -auto-approve -var-file=terraform.tfvars.json",
            ]
        );
    }

    #[test]
    fn refresh_and_drift() {
        let refresh = "apply-refresh-only: apply -input=false -no-color -lock-timeout=300s -refresh-only -auto-approve -var-file=terraform.tfvars.json";
        assert_eq!(lines(&["--op=refresh"]), [INIT, refresh]);
        assert_eq!(
            lines(&["--op=drift"]),
            [
                INIT,
                refresh,
                "plan: plan -input=false -no-color -lock-timeout=300s -detailed-exitcode -refresh=false -var-file=terraform.tfvars.json -out=/captf/work/plan.tfplan",
                "show-json: show -json -no-color /captf/work/plan.tfplan",
            ]
        );
    }

    #[test]
    fn plan() {
        assert_eq!(
            lines(&["--op=plan"]),
            [
                INIT,
                VALIDATE,
                "plan: plan -input=false -no-color -lock-timeout=300s -detailed-exitcode -var-file=terraform.tfvars.json -out=/captf/work/plan.tfplan",
                "show-json: show -json -no-color /captf/work/plan.tfplan",
            ]
        );
    }

    #[test]
    fn restore() {
        assert_eq!(
            lines(&["--op=restore", "--restore-chunks=1"]),
            [
                INIT,
                "state-push: state push -force -lock-timeout=300s /captf/work/restore.tfstate",
                "state-list: state list",
            ]
        );
    }

    #[test]
    fn an_errored_state_is_pushed_without_input_and_force() {
        let request = request(&["--op=apply", "--lock-timeout=1m0.9s"]).unwrap();
        assert_eq!(
            push_errored_state(&request, request.root().join("errored.tfstate")).arguments,
            [
                "state",
                "push",
                "-lock-timeout=60s",
                "/captf/work/root/errored.tfstate"
            ]
        );
    }

    #[test]
    fn only_a_plan_may_exit_with_two() {
        for step in steps(&request(&["--op=apply", "--guard-deletes"]).unwrap()) {
            assert!(step.accepts(0, ""));
            assert_eq!(
                step.accepts(2, ""),
                step.name == StepName::Plan,
                "{}",
                step.name
            );
            assert!(
                !step.accepts(1, "state is already unlocked"),
                "{}",
                step.name
            );
        }
    }

    #[test]
    fn a_lock_that_is_gone_is_unlocked() {
        let step = Step::new(StepName::ForceUnlock, ["x"]);
        assert!(step.accepts(1, "Failed to unlock state: state is already unlocked"));
        assert!(step.accepts(1, "lock id \"x\" does not match existing lock"));
        assert!(!step.accepts(1, "Failed to unlock state: forbidden"));
    }

    #[test]
    fn plans_are_never_logged() {
        let output = |name| Step::new(name, ["x"]).output();
        assert_eq!(output(StepName::ShowJson), Output::Capture);
        assert_eq!(output(StepName::Validate), Output::CaptureAndLog);
        assert_eq!(output(StepName::Init), Output::Log);
        assert_eq!(output(StepName::Apply), Output::Messages);
        assert_eq!(output(StepName::ApplyRefreshOnly), Output::Log);
    }
}
