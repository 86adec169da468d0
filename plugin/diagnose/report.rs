//! What `why` reports (cli.md §8, `WhyReport`).

use serde::Serialize;

use crate::plugin::evaluate::{Evaluation, LeaseFacts};
use crate::plugin::report::{API_VERSION, At, Frees, JobReport, Metadata, Warning};

/// What kind of answer it is (cli.md §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Verdict {
    /// Nothing is due.
    Idle,
    /// A Job runs.
    Running,
    /// It ends by itself.
    Waiting,
    /// It failed and is tried again.
    BackingOff,
    /// A person must act.
    NeedsAction,
    /// The deletion is held because of the state.
    DeletionHeld,
    /// Somebody paused it.
    Paused,
    /// No manager acts on it.
    Unreconciled,
    /// What is needed for an answer cannot be read.
    Unknown,
}

impl Verdict {
    /// The word of the headline.
    pub(crate) const fn headline(self) -> &'static str {
        match self {
            Self::Idle => "IDLE",
            Self::Running => "RUNNING",
            Self::Waiting => "WAITING",
            Self::BackingOff => "BACKING OFF",
            Self::NeedsAction => "NEEDS ACTION",
            Self::DeletionHeld => "DELETION HELD",
            Self::Paused => "PAUSED",
            Self::Unreconciled => "UNRECONCILED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// Names an object in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ObjectRef {
    /// Kind.
    pub(crate) kind: String,
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
}

impl ObjectRef {
    /// `terraformcluster/demo`.
    pub(crate) fn short(&self) -> String {
        format!("{}/{}", self.kind.to_ascii_lowercase(), self.name)
    }
}

/// The object that the report is about.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subject {
    /// Kind.
    pub(crate) kind: &'static str,
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// UID.
    pub(crate) uid: String,
    /// Generation of its spec.
    pub(crate) generation: i64,
    /// Generation the manager has seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    /// Its cluster, empty when unknown.
    pub(crate) cluster_name: String,
}

/// Since when it is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Since {
    /// The time.
    pub(crate) time: At,
    /// `event`, or `condition`: then it is so for at most that long.
    pub(crate) source: &'static str,
    /// Whether the time is exact.
    pub(crate) exact: bool,
}

/// A lease in a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseLink {
    /// Name.
    pub(crate) name: String,
    /// `run` or `cluster`.
    #[serde(rename = "type")]
    pub(crate) scope: String,
    /// State.
    pub(crate) state: &'static str,
    /// Whether the operator would take it over.
    pub(crate) free: Option<bool>,
    /// Job that holds it.
    pub(crate) holder: String,
    /// When it was taken or last refreshed.
    pub(crate) acquired_at: At,
    /// When it is free by itself.
    pub(crate) frees: Frees,
}

impl LeaseLink {
    /// A lease with its verdict.
    pub(crate) fn new(facts: &LeaseFacts, evaluation: &Evaluation) -> Self {
        Self {
            name: facts.view.name.clone(),
            scope: facts.view.lease.clone(),
            state: evaluation.state.as_str(),
            free: evaluation.free,
            holder: facts.view.holder.clone(),
            acquired_at: At(facts.view.acquired_at),
            frees: evaluation.frees.clone(),
        }
    }
}

/// A pod in a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodLink {
    /// Name.
    pub(crate) name: String,
    /// Phase.
    pub(crate) phase: &'static str,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// Why it does not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<String>,
    /// When its deletion was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stopping_since: Option<At>,
    /// When it is expected to be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stops: Option<At>,
}

/// The hash-change gap (cli.md §7.4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gap {
    /// `InputsChanged`, `OperationChanged` or `HistoryChanged`.
    pub(crate) cause: &'static str,
    /// Hash in the holder's name.
    pub(crate) old_hash6: String,
    /// Seconds until the leases are free.
    pub(crate) remaining_seconds: i64,
    /// When they are free.
    pub(crate) free_at: At,
    /// By when the manager takes them over.
    pub(crate) takeover_latest: At,
    /// The other leases of the same holder.
    pub(crate) also_held: Vec<String>,
}

/// One fact of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Evidence {
    /// Kind of the object it was read from.
    pub(crate) kind: &'static str,
    /// Its name.
    #[serde(rename = "ref")]
    pub(crate) reference: String,
    /// Field.
    pub(crate) field: String,
    /// Value.
    pub(crate) value: String,
    /// When it became so, or when it was read.
    pub(crate) observed_at: At,
}

/// One link of the chain of causes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    /// Its number.
    pub(crate) node: usize,
    /// The number of the link it explains.
    pub(crate) parent: Option<usize>,
    /// Row of diagnosis.md.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<&'static str>,
    /// What it is.
    pub(crate) code: String,
    /// The object it is about.
    pub(crate) object: ObjectRef,
    /// The operation it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<String>,
    /// The lease that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<LeaseLink>,
    /// The Job that decides; `null` when it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<Option<JobReport>>,
    /// The pod that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<PodLink>,
    /// Details of the hash-change gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gap: Option<Gap>,
    /// The sentence.
    pub(crate) message: String,
    /// The facts it follows from.
    pub(crate) evidence: Vec<Evidence>,
    /// What is odd.
    pub(crate) warnings: Vec<Warning>,
}

/// Who makes the next thing happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// The clock.
    Time,
    /// Kubernetes.
    Kubernetes,
    /// The manager.
    Manager,
    /// A person.
    User,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Next {
    /// What it is.
    pub(crate) code: &'static str,
    /// Who makes it happen.
    pub(crate) by: By,
    /// What it happens to.
    pub(crate) object: String,
    /// Not before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) earliest: Option<At>,
    /// Expected, while the node is alive; no promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected: Option<At>,
    /// At the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latest: Option<At>,
    /// Whether the bound follows from fixed rules.
    pub(crate) certain: bool,
    /// The sentence, without its time.
    pub(crate) message: String,
}

impl Next {
    /// Something without a time of its own.
    pub(crate) fn new(
        code: &'static str,
        by: By,
        object: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            by,
            object: object.into(),
            earliest: None,
            expected: None,
            latest: None,
            certain: false,
            message: message.into(),
        }
    }

    /// It happens exactly then.
    pub(crate) fn at(self, time: jiff::Timestamp) -> Self {
        Self {
            earliest: Some(At(time)),
            latest: Some(At(time)),
            certain: true,
            ..self
        }
    }

    /// It happens by then, if its actor is there.
    pub(crate) fn by_time(self, latest: jiff::Timestamp) -> Self {
        Self {
            latest: Some(At(latest)),
            ..self
        }
    }

    /// It happens then at the latest, by fixed rules.
    pub(crate) fn at_the_latest(self, latest: jiff::Timestamp) -> Self {
        Self {
            latest: Some(At(latest)),
            certain: true,
            ..self
        }
    }

    /// It is expected then, and may come later.
    pub(crate) fn expected_at(self, time: jiff::Timestamp) -> Self {
        Self {
            expected: Some(At(time)),
            ..self
        }
    }
}

/// Something to do or to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Action {
    /// What it is.
    pub(crate) code: &'static str,
    /// Whether nothing goes on without it.
    pub(crate) required: bool,
    /// What it does, in a few words.
    pub(crate) description: String,
    /// The command as an argument vector; absent where no command can do it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) command: Vec<String>,
}

impl Action {
    /// Something without which nothing goes on.
    pub(crate) fn required(code: &'static str, description: impl Into<String>) -> Self {
        Self {
            code,
            required: true,
            description: description.into(),
            command: Vec::new(),
        }
    }

    /// Something that may help.
    pub(crate) fn optional(code: &'static str, description: impl Into<String>) -> Self {
        Self {
            required: false,
            ..Self::required(code, description)
        }
    }

    /// With this command, its words separated by blanks.
    pub(crate) fn command(self, words: &str) -> Self {
        Self {
            command: words.split(' ').map(str::to_owned).collect(),
            ..self
        }
    }
}

/// Which link is the root cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Root {
    /// Number of the link.
    pub(crate) node: usize,
    /// Its code.
    pub(crate) code: String,
}

/// `kubectl captf why OBJECT -o json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyReport {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) metadata: Metadata,
    pub(crate) object: Subject,
    pub(crate) verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<&'static str>,
    pub(crate) code: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<String>,
    pub(crate) summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Since>,
    pub(crate) root: Root,
    pub(crate) chain: Vec<Node>,
    pub(crate) next: Vec<Next>,
    pub(crate) actions: Vec<Action>,
    pub(crate) do_not: Vec<&'static str>,
}

/// The reports of several objects.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyReportList {
    api_version: &'static str,
    kind: &'static str,
    items: Vec<WhyReport>,
}

impl WhyReportList {
    /// Several reports, in the order of the arguments.
    pub(crate) fn new(items: Vec<WhyReport>) -> Self {
        Self {
            api_version: API_VERSION,
            kind: "WhyReportList",
            items,
        }
    }
}
