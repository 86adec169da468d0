//! The state cannot be read, or is locked (diagnosis.md, section G, D144 to D147).

use super::{Finding, from_row, from_unknown_reason, recheck, short};
use crate::api::conditions::ConditionType;
use crate::api::keys::annotations;
use crate::plugin::diagnose::facts::Facts;
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::diagnose::rows;
use crate::plugin::evaluate::Fact;
use crate::plugin::read::wire::Condition;
use crate::state::{HeldLock, LockVerdict};
use crate::unknown_outcome;

/// Everything about the state that keeps an operation from starting or succeeding.
pub(crate) fn unreadable(facts: &Facts) -> Option<Finding> {
    if facts.is_retaining() {
        return None;
    }
    locked_without_state(facts).or_else(|| {
        let condition = facts.condition(ConditionType::StateReadable)?;
        if condition.status != "False" {
            return None;
        }
        Some(match condition.reason.as_str() {
            "StateLocked" => locked(facts, condition),
            "StateInconsistent" if condition.message.starts_with("label ") => {
                labels(facts, condition)
            }
            // A deletion leaves another object's state where it is, and goes on (deletion.md §7).
            "RetainedStateFound" if deleting(facts) => return None,
            reason => match rows::row(ConditionType::StateReadable, reason) {
                Some(row) => held(facts, from_row(facts, row, condition)),
                None => from_unknown_reason(facts, condition),
            },
        })
    })
}

/// Whether the object is being deleted: then an unreadable state holds the deletion.
fn deleting(facts: &Facts) -> bool {
    facts.object.metadata.deletion_timestamp.is_some()
}

/// A state that holds whatever comes next, with what could end that.
fn held(facts: &Facts, mut finding: Finding) -> Finding {
    let restorable = matches!(
        finding.code.as_str(),
        "StateLost" | "StateCorrupt" | "StateInconsistent" | "ApplyOutcomeUnknown"
    );
    if let Some(backup) = facts
        .object
        .status
        .state_backups
        .iter()
        .map(|backup| backup.serial)
        .max()
        && restorable
    {
        let command = format!(
            "kubectl annotate terraformcluster {{name}} -n {{ns}} captf.io/restore-state={backup}"
        );
        let restore = Action::required("Restore", "restore the newest backup")
            .command(&super::fill(facts, &command));
        finding = finding.action(restore);
    } else if restorable && finding.code != "ApplyOutcomeUnknown" {
        finding = finding.action(Action::required(
            "PutBack",
            "no backup is listed: put its state Secrets back from a copy of your own, or import the resources into a \
             new state",
        ));
    }
    if finding.code == "ApplyOutcomeUnknown"
        && let Some(job) = unconfirmed(facts)
    {
        let command = format!(
            "kubectl annotate terraformcluster {{name}} -n {{ns}} {}={job}",
            annotations::CONFIRM_NO_RESOURCES
        );
        finding.actions.retain(|action| action.code != "Remedy");
        let confirm = Action::required(
            "Confirm",
            "look at the cloud; if nothing was made, confirm it",
        );
        finding = finding.action(confirm.command(&super::fill(facts, &command)));
    }
    if deleting(facts) {
        finding.verdict = Verdict::DeletionHeld;
        if restorable {
            finding.row = Some("D113");
            finding = finding.head(|first| first.row = Some("D113"));
        }
        return finding
            .action(super::deletion::retain(
                facts,
                "or keep the infrastructure and let the object go",
            ))
            .never("strip the finalizer: it is the only record");
    }
    if restorable {
        let retain = super::deletion::retain(
            facts,
            "to let go of the infrastructure: set this, then delete the object; what runs goes on, managed by nobody",
        );
        finding = finding.action(Action {
            required: false,
            ..retain
        });
    }
    finding
}

/// The Job whose outcome is unknown. Its record lies in a Secret that the plugin does not read, so the
/// condition's message is the source.
fn unconfirmed(facts: &Facts) -> Option<&str> {
    unknown_outcome::job(&facts.condition(ConditionType::StateReadable)?.message)
}

/// A label of a state Secret cannot be put back (D144).
fn labels(facts: &Facts, condition: &Condition) -> Finding {
    let summary = "a label of its state Secret cannot be put back";
    let mut finding = Finding::new(facts, Verdict::NeedsAction, "D144", "StateLabels", summary)
        .said_by(condition, facts)
        .head(|first| first.message.clone_from(&condition.message))
        .then(Next::new(
            "Needs",
            By::User,
            short(facts),
            "no bound: needs exactly that label back; the state is intact",
        ))
        .then(recheck(short(facts), 60))
        .action(Action::required(
            "Label",
            "lift what refuses the label, or set exactly the one that the condition names",
        ))
        .never("restore a backup: the state is intact");
    if deleting(facts) {
        finding.verdict = Verdict::DeletionHeld;
    }
    finding
}

/// The lock by its holder: proven ended, own and unproven, or somebody else's (D82 to D84, D145).
fn locked(facts: &Facts, condition: &Condition) -> Finding {
    let said = |finding: Finding| {
        finding
            .said_by(condition, facts)
            .head(|first| first.message.clone_from(&condition.message))
    };
    let object = short(facts);
    let next_job = || {
        Next::new(
            "Unlock",
            By::Manager,
            object.as_str(),
            "the next Job that is due unlocks it",
        )
    };
    let lock = lock_name(facts);
    match &facts.lock {
        Fact::Found((_, LockVerdict::Stale { .. })) => said(Finding::new(
            facts,
            Verdict::Waiting,
            "D82",
            "StateLocked",
            "its state is locked by a runner pod that has ended",
        ))
        .then(next_job())
        .never("delete the lock Lease"),
        Fact::Found((held, LockVerdict::Unproven { stale_after })) => {
            let mut finding = said(Finding::new(
                facts,
                Verdict::Waiting,
                "D145",
                "LockUnproven",
                "its state is locked by its own pod, whose end nobody saw",
            ));
            finding = match stale_after {
                Some(time) => finding.then(
                    Next::new(
                        "LockStale",
                        By::Time,
                        lock.as_str(),
                        "the lock counts as stale",
                    )
                    .at(*time),
                ),
                None => finding.then(Next::new(
                    "Needs",
                    By::User,
                    lock.as_str(),
                    "no bound: the lock's age is unknown",
                )),
            };
            finding
                .then(next_job())
                .action(
                    Action::optional("Inspect", holder_hint(held)).command(&inspect(facts, &lock)),
                )
                .never("unlock because \"the pod is gone\": Terraform may still run on its node")
        }
        Fact::Found((held, LockVerdict::Foreign)) => said(Finding::new(
            facts,
            Verdict::NeedsAction,
            if held
                .info
                .as_ref()
                .is_some_and(|info| info.who.contains('@'))
            {
                "D83"
            } else {
                "D84"
            },
            "StateLocked",
            "its state is locked by somebody who is no runner of this object",
        ))
        .then(Next::new(
            "Needs",
            By::User,
            lock.as_str(),
            "no bound: needs its holder to finish",
        ))
        .then(recheck(object.clone(), 600))
        .action(Action::required("Ask", "ask the holder to finish").command(&inspect(facts, &lock)))
        .never("force-unlock a lock whose holder lives, or delete the Lease"),
        Fact::Found((_, LockVerdict::Live)) | Fact::Absent => said(Finding::new(
            facts,
            Verdict::Waiting,
            "D81",
            "ConditionStale",
            "its state is not locked by anybody else any more; the condition is from the last pass",
        ))
        .then(recheck(object, 600)),
        Fact::NotRead | Fact::Unreadable(_) => said(Finding::new(
            facts,
            Verdict::NeedsAction,
            "D83",
            "StateLocked",
            "its state is locked",
        ))
        .then(recheck(object, 600))
        .action(
            Action::required("Inspect", "find the holder of the lock")
                .command(&inspect(facts, &lock)),
        )
        .never("delete the lock Lease"),
    }
}

/// A lock beside which no state exists: neither init nor force-unlock works (D146).
fn locked_without_state(facts: &Facts) -> Option<Finding> {
    let error = facts.object.status.last_run.as_ref()?.error.as_ref()?;
    let condition = facts.condition(ConditionType::StateReadable)?;
    let (_, verdict) = facts.lock.found()?;
    let stateless = matches!(
        condition.reason.as_str(),
        "StateNotFound" | "StateLost" | "ApplyOutcomeUnknown"
    );
    if error.step != "init" || !stateless || *verdict == LockVerdict::Live {
        return None;
    }
    let lock = lock_name(facts);
    let stale = matches!(verdict, LockVerdict::Stale { .. });
    let verdict = if stale {
        Verdict::Waiting
    } else {
        Verdict::NeedsAction
    };
    let summary = "its state is locked while no state exists, so each Job fails in init";
    let finding =
        Finding::new(facts, verdict, "D146", "LockWithoutState", summary).said_by(condition, facts);
    Some(if stale {
        finding.then(Next::new(
            "Unlock",
            By::Manager,
            short(facts),
            "the manager removes the lock before the next Job",
        ))
    } else {
        finding
            .then(Next::new(
                "Needs",
                By::User,
                lock.as_str(),
                "no bound: needs proof that the lock's holder has ended",
            ))
            .action(
                Action::required("Inspect", "find the holder of the lock")
                    .command(&inspect(facts, &lock)),
            )
    })
}

fn lock_name(facts: &Facts) -> String {
    format!("lease/{}", facts.key().suffix().lock_lease())
}

fn inspect(facts: &Facts, lock: &str) -> String {
    format!(
        "kubectl get {lock} -n {} -o yaml",
        facts.object.metadata.namespace
    )
}

fn holder_hint(lock: &HeldLock) -> String {
    let who = lock.info.as_ref().map_or("", |info| info.who.as_str());
    format!("make sure that the process of {who} has ended")
}
