//! What a plan means for its run: go on, be done, or stop (runner.md §6.1).

use super::failure::Failure;
use super::plan::{Plan, PlanKey, UnreadablePlan};
use super::redact::Redactor;
use super::request::{Gate, Operation};
use super::result::{Changes, DriftReport, PlanReport, RunResult};
use super::steps::StepName;
use super::summary;
use crate::names::EMPTY_PLAN_HASH;

/// The plan found nothing to do, which ends its run: a drift check finds no drift, a plan is empty, an apply has
/// nothing to apply. An apply of an approved plan stops all the same when something else was approved.
pub(super) fn of_empty_plan(
    operation: &Operation,
    redactor: &Redactor,
    result: &mut RunResult,
) -> Result<(), Failure> {
    let empty = PlanReport {
        hash: EMPTY_PLAN_HASH.to_owned(),
        ..PlanReport::default()
    };
    match operation {
        Operation::Drift => {
            result.drift = Some(DriftReport {
                resources: Some(Vec::new()),
                ..DriftReport::default()
            });
        }
        Operation::Plan => result.plan = Some(empty),
        Operation::Apply(Gate::Expected(approved)) if approved != EMPTY_PLAN_HASH => {
            return Err(changed_plan(approved, empty, redactor, result));
        }
        _ => result.changes = Some(Changes::default()),
    }
    Ok(())
}

/// The plan has something to do. A plan and a drift check report it; an apply goes on, unless its gate stops it.
pub(super) fn of_plan(
    operation: &Operation,
    plan: &Plan,
    key: Option<&PlanKey>,
    redactor: &Redactor,
    result: &mut RunResult,
) -> Result<(), PlanStop> {
    // The key of a run that fingerprints was read before its first step.
    let report = || key.map(|key| plan.report(key)).transpose();
    match operation {
        Operation::Drift => result.drift = Some(plan.drift()),
        Operation::Plan => result.plan = report()?,
        Operation::Apply(Gate::Expected(approved)) => {
            let planned = report()?.unwrap_or_default();
            if planned.hash != *approved {
                return Err(changed_plan(approved, planned, redactor, result).into());
            }
        }
        Operation::Apply(Gate::Guarded {
            deletes_approved: false,
        }) => {
            let destructive = plan.destructive();
            if !destructive.is_empty() {
                result.plan = report()?;
                return Err(Failure::blocked(summary::of_blocked(&destructive, redactor)).into());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Why a run does not go on after its plan.
pub(super) enum PlanStop {
    /// The plan cannot be read or fingerprinted: the step that printed it has failed.
    Unreadable(UnreadablePlan),
    /// The gate stops it.
    Gate(Failure),
}

impl From<UnreadablePlan> for PlanStop {
    fn from(error: UnreadablePlan) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Failure> for PlanStop {
    fn from(failure: Failure) -> Self {
        Self::Gate(failure)
    }
}

fn changed_plan(
    approved: &str,
    planned: PlanReport,
    redactor: &Redactor,
    result: &mut RunResult,
) -> Failure {
    let failure = Failure::plan_changed(summary::of_changed_plan(approved, &planned, redactor));
    result.plan = Some(planned);
    failure
}

/// A restored state that manages nothing although its backup recorded resources is not the backup.
pub(super) fn of_state_list(operation: &Operation, manages_something: bool) -> Result<(), Failure> {
    match operation {
        Operation::Restore { resources, .. } if *resources > 0 && !manages_something => {
            Err(Failure::step(
                StepName::StateList,
                format!(
                    "the restored state manages nothing, although its backup recorded {resources} resources"
                ),
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::super::result::ErrorKind;
    use super::*;

    fn key() -> PlanKey {
        PlanKey::from_bytes((0..32).collect()).unwrap()
    }

    fn plan(actions: &[&str]) -> Plan {
        let document = json!({"resource_changes": [
            {"address": "module.role.terraform_data.lb", "change": {"actions": actions}}]});
        Plan::parse(document.to_string().as_bytes()).unwrap()
    }

    /// The fingerprint of a plan that deletes `module.role.terraform_data.lb` (runner.md §6.3).
    const DELETES: &str = "p2:75b6f4519491e5a5ecc11b1d3bcbf1c42e007c924b38cde2e385697d48603d9d";

    fn expected(hash: &str) -> Operation {
        Operation::Apply(Gate::Expected(hash.to_owned()))
    }

    fn guarded(deletes_approved: bool) -> Operation {
        Operation::Apply(Gate::Guarded { deletes_approved })
    }

    /// The kind of failure with which this plan stops this run, and the run's result.
    fn verdict(operation: &Operation, actions: &[&str]) -> (Option<ErrorKind>, RunResult) {
        let mut result = RunResult::new("x");
        let stop = of_plan(
            operation,
            &plan(actions),
            Some(&key()),
            &Redactor::default(),
            &mut result,
        );
        let kind = stop.err().map(|stop| match stop {
            PlanStop::Gate(failure) => failure.kind,
            PlanStop::Unreadable(error) => panic!("{error}"),
        });
        (kind, result)
    }

    fn empty_verdict(operation: &Operation) -> (Option<ErrorKind>, RunResult) {
        let mut result = RunResult::new("x");
        let stop = of_empty_plan(operation, &Redactor::default(), &mut result);
        (stop.err().map(|failure| failure.kind), result)
    }

    #[test]
    fn a_guarded_apply_stops_before_a_deletion() {
        for actions in [
            &["delete"][..],
            &["delete", "create"],
            &["create", "delete"],
        ] {
            let (kind, result) = verdict(&guarded(false), actions);
            assert_eq!(kind, Some(ErrorKind::Blocked));
            assert!(
                result.plan.unwrap().hash.starts_with("p2:"),
                "a block carries the plan"
            );
        }
    }

    #[test]
    fn a_guarded_apply_goes_on_without_a_deletion_or_with_approval() {
        for (operation, actions) in [
            (guarded(false), &["update"][..]),
            (guarded(true), &["delete"]),
        ] {
            let (kind, result) = verdict(&operation, actions);
            assert_eq!((kind, result.plan), (None, None));
        }
    }

    #[test]
    fn the_approved_plan_is_applied_with_its_deletions() {
        assert_eq!(
            verdict(&expected(DELETES), &["delete"]),
            (None, RunResult::new("x"))
        );
    }

    #[test]
    fn another_plan_than_the_approved_one_is_not_applied() {
        let (kind, result) = verdict(&expected("p2:00"), &["delete"]);
        assert_eq!(
            (kind, result.plan.unwrap().hash.as_str()),
            (Some(ErrorKind::PlanChanged), DELETES)
        );
    }

    #[test]
    fn a_plan_and_a_drift_check_report() {
        let (kind, result) = verdict(&Operation::Plan, &["delete"]);
        assert_eq!((kind, result.plan.unwrap().hash.as_str()), (None, DELETES));
        let (kind, result) = verdict(&Operation::Drift, &["update"]);
        assert_eq!((kind, result.drift.unwrap().update), (None, 1));
    }

    #[test]
    fn an_empty_plan_ends_the_run_well() {
        for operation in [guarded(false), expected(EMPTY_PLAN_HASH)] {
            let (kind, result) = empty_verdict(&operation);
            assert_eq!(
                (kind, result.changes, result.plan),
                (None, Some(Changes::default()), None)
            );
        }
        let (kind, result) = empty_verdict(&Operation::Plan);
        assert_eq!(
            (kind, result.plan.unwrap().hash.as_str()),
            (None, EMPTY_PLAN_HASH)
        );
        let (kind, result) = empty_verdict(&Operation::Drift);
        assert_eq!((kind, result.drift.unwrap().detected), (None, false));
    }

    #[test]
    fn an_empty_plan_is_not_the_one_that_was_approved() {
        let (kind, result) = empty_verdict(&expected(DELETES));
        assert_eq!(
            (kind, result.plan.unwrap().hash.as_str()),
            (Some(ErrorKind::PlanChanged), EMPTY_PLAN_HASH)
        );
    }

    #[test]
    fn a_restored_state_must_manage_something_if_its_backup_did() {
        let restore = |resources| Operation::Restore {
            chunks: 1,
            resources,
        };
        assert!(of_state_list(&restore(3), false).is_err());
        assert!(of_state_list(&restore(3), true).is_ok());
        assert!(of_state_list(&restore(0), false).is_ok());
    }
}
