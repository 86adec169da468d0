//! The checks of `why`, one file per theme. Each is a pure function of the facts.

pub(crate) mod deletion;
pub(crate) mod gates;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod manager;
pub(crate) mod notes;
pub(crate) mod outcome;
pub(crate) mod state;

use super::facts::Facts;
use super::report::{Action, By, Evidence, Next, Node, ObjectRef, Verdict};
use super::rows::{Ends, Row};
use crate::api::conditions::ConditionType;
use crate::names::Kind;
use crate::owner;
use crate::plugin::read::wire::Condition;
use crate::plugin::report::At;

/// What a check found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// What kind of answer it is.
    pub(crate) verdict: Verdict,
    /// Row of diagnosis.md.
    pub(crate) row: Option<&'static str>,
    /// What it is, in one word.
    pub(crate) code: String,
    /// The operation that it is about.
    pub(crate) operation: Option<String>,
    /// The headline, without the object and without times.
    pub(crate) summary: String,
    /// Condition and reason that date it.
    pub(crate) since: Option<(String, String)>,
    /// The chain of causes.
    pub(crate) chain: Vec<Node>,
    /// The root cause in the chain; the last link when not said.
    pub(crate) root: Option<usize>,
    /// What happens next.
    pub(crate) next: Vec<Next>,
    /// What can be done.
    pub(crate) actions: Vec<Action>,
    /// What must not be done.
    pub(crate) do_not: Vec<&'static str>,
}

impl Finding {
    /// A finding with one link, about the object itself.
    pub(crate) fn new(
        facts: &Facts,
        verdict: Verdict,
        row: &'static str,
        code: impl Into<String>,
        summary: impl Into<String>,
    ) -> Self {
        let (code, summary) = (code.into(), summary.into());
        let mut first = link(facts, None, Some(row), code.as_str(), summary.as_str());
        first.operation = Some(operation(facts));
        Self {
            verdict,
            row: Some(row),
            operation: first.operation.clone(),
            chain: vec![first],
            root: None,
            since: None,
            next: Vec::new(),
            actions: Vec::new(),
            do_not: Vec::new(),
            code,
            summary,
        }
    }

    /// The first link.
    pub(crate) fn head(mut self, change: impl FnOnce(&mut Node)) -> Self {
        if let Some(first) = self.chain.first_mut() {
            change(first);
        }
        self
    }

    /// Decided by this condition.
    pub(crate) fn said_by(mut self, condition: &Condition, facts: &Facts) -> Self {
        self.since = Some((condition.kind.clone(), condition.reason.clone()));
        let fact = condition_evidence(facts, condition);
        self.head(|first| first.evidence.push(fact))
    }

    /// One more link, explaining the last one.
    pub(crate) fn because(mut self, mut node: Node) -> Self {
        node.node = self.chain.len();
        node.parent = self.chain.len().checked_sub(1);
        self.chain.push(node);
        self
    }

    /// One more link, explaining the first one.
    pub(crate) fn because_of_first(mut self, mut node: Node) -> Self {
        node.node = self.chain.len();
        node.parent = Some(0);
        self.chain.push(node);
        self
    }

    /// Something that happens next.
    pub(crate) fn then(mut self, next: Next) -> Self {
        self.next.push(next);
        self
    }

    /// Something that can be done.
    pub(crate) fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Something that must not be done.
    pub(crate) fn never(mut self, what: &'static str) -> Self {
        self.do_not.push(what);
        self
    }
}

/// The object in a report.
pub(crate) fn subject(facts: &Facts) -> ObjectRef {
    let meta = &facts.object.metadata;
    ObjectRef {
        kind: Kind::TerraformCluster.as_str().to_owned(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
    }
}

/// `terraformcluster/demo`.
pub(crate) fn short(facts: &Facts) -> String {
    subject(facts).short()
}

/// A link about the object itself.
pub(crate) fn link(
    facts: &Facts,
    parent: Option<usize>,
    row: Option<&'static str>,
    code: &str,
    message: &str,
) -> Node {
    Node {
        node: 0,
        parent,
        row,
        code: code.to_owned(),
        object: subject(facts),
        operation: None,
        lease: None,
        job: None,
        pod: None,
        gap: None,
        message: message.to_owned(),
        evidence: Vec::new(),
        warnings: Vec::new(),
    }
}

/// The operation that is due or runs: a deleting object wants its destroy.
pub(crate) fn operation(facts: &Facts) -> String {
    if facts.object.metadata.deletion_timestamp.is_some() {
        "destroy"
    } else {
        "apply"
    }
    .to_owned()
}

/// A condition as a fact of the report.
pub(crate) fn condition_evidence(facts: &Facts, condition: &Condition) -> Evidence {
    Evidence {
        kind: "Condition",
        reference: format!(
            "{}/{}",
            Kind::TerraformCluster.as_str(),
            facts.object.metadata.name
        ),
        field: condition.kind.clone(),
        value: format!("{}/{}", condition.status, condition.reason),
        observed_at: At(condition.last_transition_time.unwrap_or(facts.now)),
    }
}

/// A condition that is False or Unknown.
pub(crate) fn not_true(facts: &Facts, kind: ConditionType) -> Option<&Condition> {
    facts
        .condition(kind)
        .filter(|condition| condition.status != "True")
}

/// The finding of a row: its headline is the row's, its message the condition's.
pub(crate) fn from_row(facts: &Facts, row: &'static Row, condition: &Condition) -> Finding {
    let mut finding = Finding::new(
        facts,
        row.verdict,
        row.id,
        condition.reason.as_str(),
        row.summary,
    )
    .said_by(condition, facts)
    .head(|first| {
        if !condition.message.is_empty() {
            first.message.clone_from(&condition.message);
        }
    });
    let object = short(facts);
    let (seconds, needs) = match row.ends {
        Ends::Recheck(seconds) => (seconds, None),
        Ends::Needs(what, seconds) => (seconds, Some(what)),
    };
    if let Some(what) = needs {
        let needed = Next::new(
            "Needs",
            By::User,
            object.as_str(),
            format!("no bound: needs {what}"),
        );
        finding = finding.then(needed);
    }
    finding = finding.then(recheck(object, seconds));
    let required = row.verdict != Verdict::Waiting;
    for (description, command) in row.remedy {
        let action = if required {
            Action::required("Remedy", *description)
        } else {
            Action::optional("Look", *description)
        };
        let command = fill(facts, command);
        finding = finding.action(if command.is_empty() {
            action
        } else {
            action.command(&command)
        });
    }
    match row.never {
        Some(never) => finding.never(never),
        None => finding,
    }
}

/// A finding of a condition that no row knows: its reason and message as they are.
pub(crate) fn from_unknown_reason(facts: &Facts, condition: &Condition) -> Finding {
    let summary = if condition.message.is_empty() {
        format!(
            "{} is {}: {}",
            condition.kind, condition.status, condition.reason
        )
    } else {
        condition.message.clone()
    };
    let mut finding = Finding::new(
        facts,
        Verdict::Waiting,
        "D17",
        condition.reason.as_str(),
        summary,
    )
    .said_by(condition, facts)
    .then(recheck(short(facts), 600));
    finding.row = None;
    finding.head(|first| first.row = None)
}

/// The manager looks again by then.
pub(crate) fn recheck(object: String, seconds: i64) -> Next {
    let length = crate::plugin::time::short(seconds);
    Next::new(
        "Recheck",
        By::Manager,
        object,
        format!("the manager checks again within {length}"),
    )
}

/// Puts the object's names into a command.
pub(crate) fn fill(facts: &Facts, command: &str) -> String {
    let meta = &facts.object.metadata;
    let identity = facts
        .object
        .spec
        .identity_ref
        .as_ref()
        .map_or("", |identity| &identity.name);
    command
        .replace("{ns}", &meta.namespace)
        .replace("{name}", &meta.name)
        .replace("{identity}", identity)
        .replace("{cluster}", &owner::cluster_name(&meta.object_meta()))
}
