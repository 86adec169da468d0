//! What the decision rests on, and what it says in the conditions (lifecycle.md §12, §14.3, §14.5).

use super::inputs;
use super::pass::Pass;
use super::state::StateRead;
use crate::api::ApplyPolicy;
use crate::api::conditions::{self, ConditionType, InputsApplied};
use crate::decide::{
    Approvals, BlockedApply, Decision, Input, InputsView, Schedule, StateView, inputs_applied,
    reconciling,
};
use crate::jobs::backoff::FailedLimit;
use crate::jobs::history::{ApplyRecords, History};
use crate::jobs::report;
use crate::names::{InputsHash, Op};

impl Pass<'_> {
    /// Records besides the Jobs that keep an apply due.
    pub(super) fn apply_records(&self) -> ApplyRecords {
        ApplyRecords {
            partial_exports: false,
            interrupted_apply: self.records.interrupted_apply().is_some(),
        }
    }

    /// Everything the decision depends on.
    pub(super) fn decision_input(
        &self,
        history: &History<'_>,
        state: &StateRead,
        built: Option<&inputs::Built>,
    ) -> Input {
        let policy = self.policy();
        let status = self.object.reported();
        Input {
            kind: self.key().kind,
            uid: self.object.uid().to_owned(),
            created: self
                .object
                .meta()
                .creation_timestamp
                .as_ref()
                .map_or(self.now, |time| time.0),
            now: self.now,
            life: self.life(),
            job_active: false,
            restore_requested: false,
            state: state.view.clone(),
            current_hash: built.map(|built| built.hash.clone()).unwrap_or_default(),
            failures: Op::ALL
                .into_iter()
                .map(|op| (op, history.failures(op)))
                .collect(),
            failed_limit: FailedLimit::new(policy.failed_jobs_history_limit),
            last_apply_failed: history.last_apply_failed(self.apply_records()),
            remediate: false,
            remediation_failures: 0,
            approvals: Approvals {
                manual: self.object.next.spec.apply_policy == Some(ApplyPolicy::Manual),
                blocked: history.blocked().map(|blocked| BlockedApply {
                    inputs_hash: InputsHash::new(blocked.inputs_hash.unwrap_or_default()),
                    approval_hash: InputsHash::new(blocked.approval_hash.unwrap_or_default()),
                    at: blocked.at,
                }),
                ..Approvals::default()
            },
            schedule: Schedule {
                last_refresh: status.last_refresh.as_ref().map(|time| time.0),
                last_drift_check: status.last_drift_check.as_ref().map(|time| time.0),
                last_apply_succeeded: history.newest_success(Op::Apply).map(|newest| newest.at),
                pending_refreshes: 0,
                ..Schedule::default()
            },
        }
    }

    /// `InputsApplied` and `Reconciling` after the state was read (lifecycle.md §14.5).
    pub(super) fn report_inputs(
        &mut self,
        history: &History<'_>,
        state: &StateRead,
        built: Option<&inputs::Built>,
        decision: &Decision,
    ) {
        let applied = match &state.view {
            StateView::Present { inputs_hash, .. } => {
                !inputs_hash.is_empty() && built.is_some_and(|built| built.hash == *inputs_hash)
            }
            StateView::Absent => false,
            // Not read: the end of the pass says so.
            StateView::Held => return,
        };
        self.report_block(history, built);
        self.report_inputs_applied(&InputsView::Read {
            awaits_approval: decision.waiting.is_some(),
            gate: self.closed_gate(built),
            last_apply_failed: history.last_apply_failed(self.apply_records()),
            applied,
        });
    }

    /// A blocked apply whose inputs are not due any more blocks nothing (lifecycle.md §14.3).
    fn report_block(&mut self, history: &History<'_>, built: Option<&inputs::Built>) {
        let Some(built) = built else { return };
        let status = self.object.reported();
        let stored = conditions::get(&status.conditions, ConditionType::ApplyJobSucceeded);
        let verdict = report::block(
            history,
            stored,
            status.last_run.as_ref(),
            built.hash.as_str(),
        );
        if let Some(verdict) = verdict {
            self.object.set(verdict, self.now);
        }
    }

    /// The pass ended before the state was read: `InputsApplied` stays as it is, but for an apply that is
    /// said to run and does not.
    pub(super) fn report_inputs_unread(&mut self, history: &History<'_>) {
        let stale = history.active().is_none()
            && conditions::is(
                &self.object.reported().conditions,
                InputsApplied::ApplyRunning,
            );
        self.report_inputs_applied(&InputsView::StateNotRead { stale });
    }

    fn closed_gate(&self, built: Option<&inputs::Built>) -> Option<String> {
        if built.is_some() {
            return None;
        }
        let gate = conditions::get(
            &self.object.reported().conditions,
            ConditionType::DependenciesReady,
        )?;
        Some(format!("{}: {}", gate.reason, gate.message))
    }

    /// Sets both conditions; not while deleting or paused.
    pub(super) fn report_inputs_applied(&mut self, view: &InputsView) {
        if self.object.deleting() || self.paused.is_some() {
            return;
        }
        self.inputs_reported = true;
        if let Some(verdict) = inputs_applied(view) {
            let reconciling = reconciling(&verdict);
            self.object.set(verdict, self.now);
            self.object.set(reconciling, self.now);
        }
    }
}
