//! Whether the current inputs are applied: `InputsApplied` and `Reconciling` (lifecycle.md §14.5,
//! conditions-events.md §3.11).

use crate::api::conditions::{InputsApplied, Reconciling, State as _, Status, Verdict};

/// What the two conditions rest on. They are not computed while the object is deleting or paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputsView {
    /// An apply runs.
    ApplyRuns {
        /// Its Job.
        job: String,
    },
    /// The pass ended before the state was read.
    StateNotRead {
        /// The stored condition still says that an apply runs.
        stale: bool,
    },
    /// The state was read.
    Read {
        /// A TerraformPlan waits.
        awaits_approval: bool,
        /// Why the current inputs cannot be built, if they cannot.
        gate: Option<String>,
        /// The newest apply failed and none succeeded since.
        last_apply_failed: bool,
        /// The state exists, with the hash of the current inputs (an immutable kind: with any hash).
        applied: bool,
    },
}

/// The condition `InputsApplied`; `None` leaves it as it is.
#[must_use]
pub fn inputs_applied(view: &InputsView) -> Option<Verdict> {
    let verdict =
        match view {
            InputsView::ApplyRuns { job } => {
                InputsApplied::ApplyRunning.with(format!("Job {job} applies them"))
            }
            InputsView::StateNotRead { stale: false } => return None,
            InputsView::StateNotRead { stale: true } => InputsApplied::InputsUnavailable
                .with("the apply ended, and its state was not read yet"),
            InputsView::Read {
                awaits_approval: true,
                ..
            } => InputsApplied::AwaitingApproval.with("a TerraformPlan waits for its approval"),
            InputsView::Read {
                applied: false,
                gate: Some(gate),
                ..
            } => InputsApplied::InputsUnavailable.with(gate.clone()),
            InputsView::Read {
                last_apply_failed: true,
                ..
            } => InputsApplied::InputsApplyFailed
                .with("the newest apply failed and none has succeeded since"),
            InputsView::Read { applied: false, .. } => InputsApplied::ApplyPending
                .with("the current inputs are not applied, and no Job runs"),
            InputsView::Read { applied: true, .. } => InputsApplied::InputsApplied.plain(),
        };
    Some(verdict)
}

/// The condition `Reconciling` that follows from `InputsApplied`: something waits to be applied. A
/// failed apply is deliberately not that.
#[must_use]
pub fn reconciling(inputs_applied: &Verdict) -> Verdict {
    let waits = inputs_applied.status() == Status::False
        && [
            InputsApplied::ApplyPending,
            InputsApplied::AwaitingApproval,
            InputsApplied::ApplyRunning,
        ]
        .iter()
        .any(|state| state.reason() == inputs_applied.reason());
    if waits {
        Reconciling::InputsNotApplied.with(format!(
            "{}: {}",
            inputs_applied.reason(),
            inputs_applied.message()
        ))
    } else {
        Reconciling::Reconciled.plain()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rstest::rstest;

    use super::{InputsView, inputs_applied, reconciling};

    fn read(
        awaits_approval: bool,
        gate: bool,
        last_apply_failed: bool,
        applied: bool,
    ) -> InputsView {
        InputsView::Read {
            awaits_approval,
            gate: gate.then(|| "gate".to_owned()),
            last_apply_failed,
            applied,
        }
    }

    #[rstest]
    #[case(InputsView::ApplyRuns { job: "j".into() }, "False/ApplyRunning", "True/InputsNotApplied")]
    #[case(InputsView::StateNotRead { stale: true }, "Unknown/InputsUnavailable", "False/Reconciled")]
    #[case(
        read(true, true, true, false),
        "False/AwaitingApproval",
        "True/InputsNotApplied"
    )]
    #[case(
        read(false, true, true, false),
        "Unknown/InputsUnavailable",
        "False/Reconciled"
    )]
    #[case(
        read(false, false, true, true),
        "False/InputsApplyFailed",
        "False/Reconciled"
    )]
    #[case(
        read(false, false, false, false),
        "False/ApplyPending",
        "True/InputsNotApplied"
    )]
    #[case(
        read(false, true, false, true),
        "True/InputsApplied",
        "False/Reconciled"
    )]
    fn the_first_match_says_whether_the_inputs_are_applied(
        #[case] view: InputsView,
        #[case] applied: &str,
        #[case] reconciles: &str,
    ) {
        let verdict = inputs_applied(&view).unwrap();
        assert_eq!(
            format!("{}/{}", verdict.status(), verdict.reason()),
            applied
        );
        let reconciling = reconciling(&verdict);
        assert_eq!(
            format!("{}/{}", reconciling.status(), reconciling.reason()),
            reconciles
        );
    }

    #[test]
    fn a_pass_that_read_no_state_leaves_the_condition() {
        assert_eq!(
            inputs_applied(&InputsView::StateNotRead { stale: false }),
            None
        );
    }
}
