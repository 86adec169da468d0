//! What is asked for: the flags of `run`, validated once. Nothing after this fails because of a flag.

use std::path::PathBuf;
use std::time::Duration;

use super::args::RunArgs;
use super::duration::{self, InvalidDuration};
use super::result::RunResult;

/// The stop timeout where the flag says zero.
const DEFAULT_STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// One run.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) operation: Operation,
    /// Program and leading arguments of the runtime.
    pub(super) runtime: Vec<String>,
    pub(super) image: String,
    pub(super) module: PathBuf,
    pub(super) providers: PathBuf,
    pub(super) workdir: PathBuf,
    pub(super) config: PathBuf,
    pub(super) backend_config: Vec<String>,
    pub(super) lock_timeout: Duration,
    pub(super) stop_timeout: Duration,
    /// The ID of a stale state lock.
    pub(super) force_unlock: Option<String>,
    pub(super) plan_key_file: PathBuf,
    /// The object that events are about; `None` sends none.
    pub(super) event_object: Option<ObjectReference>,
    pub(super) job_name: String,
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Apply(Gate),
    Destroy,
    Refresh,
    Drift,
    Plan,
    Restore {
        /// Chunks of the backup.
        chunks: u32,
        /// Resources that the backup recorded.
        resources: u64,
    },
}

/// What an apply has to pass before it changes anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing.
    Open,
    /// Its plan must not delete anything, unless deletions were approved for these inputs.
    Guarded {
        /// Whether they were.
        deletes_approved: bool,
    },
    /// Its plan must be the approved one. Its deletions are approved with it.
    Expected(String),
}

impl Operation {
    /// The operation's word on the command line and in the result.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Apply(_) => "apply",
            Self::Destroy => "destroy",
            Self::Refresh => "refresh",
            Self::Drift => "drift",
            Self::Plan => "plan",
            Self::Restore { .. } => "restore",
        }
    }

    /// Whether the run fingerprints a plan and so needs the plan key.
    pub(super) fn fingerprints(&self) -> bool {
        match self {
            Self::Plan => true,
            Self::Apply(gate) => *gate != Gate::Open,
            _ => false,
        }
    }
}

/// The object that events are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Why a request makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum InvalidRequest {
    #[error("--op: {0:?} is none of apply, destroy, refresh, drift, restore and plan")]
    Operation(String),
    #[error("--{0}: {1}")]
    Duration(&'static str, InvalidDuration),
    #[error("--event-object: {0:?} is not <apiVersion>/<kind>/<namespace>/<name>/<uid>")]
    EventObject(String),
}

impl Request {
    /// The meaning of the flags.
    ///
    /// # Errors
    /// When a flag's value has none.
    pub(super) fn new(args: &RunArgs) -> Result<Self, InvalidRequest> {
        let operation = operation(args)?;
        let wait =
            |name, text: &str| duration::parse(text).map_err(|e| InvalidRequest::Duration(name, e));
        let stop_timeout = wait("stop-timeout", &args.stop_timeout)?;
        Ok(Self {
            operation,
            runtime: args.bin.clone(),
            image: args.image.clone(),
            module: args.module.clone(),
            providers: args.providers.clone(),
            workdir: args.workdir.clone(),
            config: args.config.clone(),
            backend_config: args.backend_config.clone(),
            lock_timeout: wait("lock-timeout", &args.lock_timeout)?,
            stop_timeout: if stop_timeout.is_zero() {
                DEFAULT_STOP_TIMEOUT
            } else {
                stop_timeout
            },
            force_unlock: (!args.force_unlock.is_empty()).then(|| args.force_unlock.clone()),
            plan_key_file: args.plan_key_file.clone(),
            event_object: object_reference(&args.event_object)?,
            job_name: args.job_name.clone(),
        })
    }

    /// The result of a run that did nothing yet.
    pub(super) fn empty_result(&self) -> RunResult {
        let mut result = RunResult::new(self.operation.name());
        result.image.reference.clone_from(&self.image);
        result.image.providers_mirror = self.providers.is_dir();
        result.runtime.command.clone_from(&self.runtime);
        result
    }

    /// The folder that every step runs in.
    pub(super) fn root(&self) -> PathBuf {
        self.workdir.join("root")
    }
}

fn operation(args: &RunArgs) -> Result<Operation, InvalidRequest> {
    Ok(match args.op.as_str() {
        "apply" => Operation::Apply(gate(args)),
        "destroy" => Operation::Destroy,
        "refresh" => Operation::Refresh,
        "drift" => Operation::Drift,
        "plan" => Operation::Plan,
        "restore" => Operation::Restore {
            chunks: args.restore_chunks,
            resources: args.restore_resources,
        },
        other => return Err(InvalidRequest::Operation(other.to_owned())),
    })
}

/// An expected plan rules out everything else; deletions are approved iff the approved hash is not empty and is that
/// of the inputs.
fn gate(args: &RunArgs) -> Gate {
    if !args.expect_plan.is_empty() {
        Gate::Expected(args.expect_plan.clone())
    } else if args.guard_deletes {
        let approved = &args.allow_deletes_hash;
        Gate::Guarded {
            deletes_approved: !approved.is_empty() && *approved == args.inputs_hash,
        }
    } else {
        Gate::Open
    }
}

/// The last four fields from the right; what is left is the API version, which may hold a slash.
fn object_reference(text: &str) -> Result<Option<ObjectReference>, InvalidRequest> {
    if text.is_empty() {
        return Ok(None);
    }
    let fields: Vec<&str> = text.rsplitn(5, '/').collect();
    match fields[..] {
        [uid, name, namespace, kind, api_version]
            if fields.iter().all(|field| !field.is_empty()) =>
        {
            Ok(Some(ObjectReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
            }))
        }
        _ => Err(InvalidRequest::EventObject(text.to_owned())),
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use std::ffi::OsString;

    use super::super::args::{Command, RunnerArgs};
    use super::*;

    /// A request with these flags after `run`.
    pub(in crate::runner) fn request(flags: &[&str]) -> Result<Request, InvalidRequest> {
        let arguments = std::iter::once(&"run").chain(flags).map(OsString::from);
        match RunnerArgs::new(arguments).parse().unwrap().command {
            Some(Command::Run(args)) => Request::new(&args),
            other => panic!("not a run: {other:?}"),
        }
    }

    fn gate_of(flags: &[&str]) -> Operation {
        request(&[&["--op=apply"], flags].concat())
            .unwrap()
            .operation
    }

    #[test]
    fn deletes_are_approved_only_for_these_inputs() {
        let guarded = |deletes_approved| Operation::Apply(Gate::Guarded { deletes_approved });
        assert_eq!(gate_of(&["--guard-deletes"]), guarded(false));
        assert_eq!(
            gate_of(&["--guard-deletes", "--inputs-hash=h2:1"]),
            guarded(false)
        );
        assert_eq!(
            gate_of(&[
                "--guard-deletes",
                "--inputs-hash=h2:1",
                "--allow-deletes-hash=h2:2"
            ]),
            guarded(false)
        );
        assert_eq!(
            gate_of(&[
                "--guard-deletes",
                "--inputs-hash=h2:1",
                "--allow-deletes-hash=h2:1"
            ]),
            guarded(true)
        );
        assert_eq!(
            gate_of(&["--inputs-hash=h2:1"]),
            Operation::Apply(Gate::Open)
        );
    }

    #[test]
    fn an_expected_plan_takes_the_place_of_the_guard() {
        assert_eq!(
            gate_of(&["--guard-deletes", "--expect-plan=p2:1"]),
            Operation::Apply(Gate::Expected("p2:1".to_owned()))
        );
    }

    #[test]
    fn only_plans_and_gated_applies_fingerprint() {
        let fingerprints = |flags: &[&str]| request(flags).unwrap().operation.fingerprints();
        assert!(fingerprints(&["--op=plan"]));
        assert!(fingerprints(&["--op=apply", "--guard-deletes"]));
        assert!(fingerprints(&["--op=apply", "--expect-plan=p2:1"]));
        assert!(!fingerprints(&["--op=apply"]));
        assert!(!fingerprints(&["--op=drift"]));
        assert!(!fingerprints(&["--op=destroy", "--guard-deletes"]));
    }

    #[test]
    fn the_api_version_of_an_event_object_may_hold_a_slash() {
        let object = request(&[
            "--op=apply",
            "--event-object=infrastructure.cluster.x-k8s.io/v1alpha1/TerraformCluster/ns/c/u",
        ])
        .unwrap()
        .event_object
        .unwrap();
        assert_eq!(
            object.api_version,
            "infrastructure.cluster.x-k8s.io/v1alpha1"
        );
        assert_eq!(
            (object.kind.as_str(), object.namespace.as_str()),
            ("TerraformCluster", "ns")
        );
        assert_eq!((object.name.as_str(), object.uid.as_str()), ("c", "u"));
        assert!(request(&["--op=apply", "--event-object=v1/Pod/ns/p/u"]).is_ok());
        for wrong in ["v1/Pod/ns/p/", "Pod/ns/p/u", "/Pod/ns/p/u", "x"] {
            assert!(
                request(&["--op=apply", &format!("--event-object={wrong}")]).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_stop_timeout_of_zero_is_a_minute() {
        assert_eq!(
            request(&["--op=apply", "--stop-timeout=0"])
                .unwrap()
                .stop_timeout,
            Duration::from_secs(60)
        );
        assert_eq!(
            request(&["--op=apply", "--stop-timeout=570s"])
                .unwrap()
                .stop_timeout,
            Duration::from_secs(570)
        );
    }

    #[test]
    fn unknown_operations_and_bad_durations_are_refused() {
        assert_eq!(
            request(&["--op=explode"]).unwrap_err(),
            InvalidRequest::Operation("explode".to_owned())
        );
        assert!(
            request(&["--op=apply", "--lock-timeout=5"])
                .unwrap_err()
                .to_string()
                .starts_with("--lock-timeout: ")
        );
    }
}
