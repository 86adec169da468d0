//! The lease is free and the next pass takes it over (D40, D43, D45).

use super::held::stop_text;
use super::title;
use crate::plugin::diagnose::checks::{Finding, job, operation, short};
use crate::plugin::diagnose::facts::{Facts, PodView};
use crate::plugin::diagnose::report::{Action, By, Next, Verdict};
use crate::plugin::evaluate::{Evaluation, LeaseFacts, State};

/// D40: the lease is free by the rule; the next pass takes it over.
pub(crate) fn takeover(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let missing = evaluation.state == State::HolderMissing;
    let (code, summary) = if missing {
        (
            "HolderMissing",
            format!("{} is free: the holder never started", title(lease)),
        )
    } else {
        (
            "HolderFinished",
            format!("{} is free: the holder has finished", title(lease)),
        )
    };
    Finding::new(facts, Verdict::Waiting, "D40", code, summary)
        .with_lease(lease, evaluation)
        .then(Next::new(
            "OperationStarts",
            By::Manager,
            short(facts),
            "within 30s the next pass takes the lease over; if it does not, the manager is not reconciling",
        ))
}

/// D43: free by its backstop, whatever its holder does.
pub(crate) fn past_backstop(facts: &Facts, lease: &LeaseFacts, evaluation: &Evaluation) -> Finding {
    let alive = evaluation
        .warnings
        .iter()
        .any(|warning| warning.code == "HolderAlive");
    let summary = if alive {
        format!(
            "{} is free by its backstop, but its holder is still there",
            title(lease)
        )
    } else {
        format!("{} is free by its backstop", title(lease))
    };
    let mut finding = Finding::new(facts, Verdict::Waiting, "D43", "PastBackstop", summary)
        .with_lease(lease, evaluation);
    let pods: Vec<&PodView> = facts
        .pods_of(&lease.view.holder)
        .filter(|pod| !pod.facts.phase.is_terminal())
        .collect();
    for pod in &pods {
        finding = finding.because_of_first(job::pod_link(
            facts,
            "D43",
            "PastBackstop",
            pod,
            &stop_text(pod),
        ));
    }
    finding = finding
        .head(|first| {
            first.warnings.extend(
                evaluation
                    .warnings
                    .iter()
                    .filter(|warning| warning.code == "HolderAlive")
                    .cloned(),
            );
        })
        .then(Next::new(
            "OperationStarts",
            By::Manager,
            short(facts),
            "within 30s the manager takes the lease over, whatever its holder does",
        ));
    match pods.first() {
        Some(pod) => finding.action(
            Action::optional("Inspect", "look at the old pod and its node first").command(
                &format!(
                    "kubectl get pod {} -n {} -o wide",
                    pod.facts.name, facts.object.metadata.namespace
                ),
            ),
        ),
        None => finding,
    }
}

/// The wait is from the last pass: nothing blocks any more.
pub(crate) fn cleared(facts: &Facts, lease: Option<(&LeaseFacts, &Evaluation)>) -> Finding {
    let finding = Finding::new(
        facts,
        Verdict::Waiting,
        "D40",
        "Cleared",
        "nothing blocks it any more; the condition is from the last pass",
    );
    let finding = match lease {
        Some((lease, evaluation)) => finding.with_lease(lease, evaluation),
        None => finding,
    };
    finding.then(Next::new(
        "OperationStarts",
        By::Manager,
        short(facts),
        format!("within 30s the next pass starts the {}", operation(facts)),
    ))
}

/// D45: somebody else was first.
pub(crate) fn lost_race(facts: &Facts) -> Finding {
    Finding::new(
        facts,
        Verdict::Waiting,
        "D45",
        "LostRace",
        "another manager instance took the lease first",
    )
    .then(Next::new(
        "Recheck",
        By::Manager,
        short(facts),
        "within 30s it tries again",
    ))
}
