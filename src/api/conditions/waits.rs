//! Waits as conditions (seed: The wait reasons). A wait is Unknown, creates no Job and counts for no
//! backoff.

use super::{ApplyJobSucceeded, DriftJobSucceeded, RestoreJobSucceeded, State, Verdict};
use crate::lease::Wait;
use crate::names::Op;

/// A wait for a lease on the condition that belongs to the operation: `ApplyJobSucceeded` for apply,
/// destroy and plan, `DriftJobSucceeded` for refresh and drift, which can only wait for the run
/// lease, `RestoreJobSucceeded` for restore (seed: The wait reasons).
#[must_use]
pub fn waits_for_lease(op: Op, wait: &Wait) -> Verdict {
    let message = wait.message(op);
    match op {
        Op::Apply | Op::Destroy | Op::Plan => match wait {
            Wait::RunLease { .. } => ApplyJobSucceeded::WaitingForRunLease,
            Wait::ClusterOperation { .. } => ApplyJobSucceeded::WaitingForClusterOperation,
            Wait::MachineOperations { .. } => ApplyJobSucceeded::WaitingForMachineOperations,
        }
        .with(message),
        Op::Refresh | Op::Drift => DriftJobSucceeded::WaitingForRunLease.with(message),
        Op::Restore => match wait {
            Wait::RunLease { .. } => RestoreJobSucceeded::WaitingForRunLease,
            Wait::ClusterOperation { .. } => RestoreJobSucceeded::WaitingForClusterOperation,
            Wait::MachineOperations { .. } => RestoreJobSucceeded::WaitingForMachineOperations,
        }
        .with(message),
    }
}

/// A wait for a Job slot on the condition that belongs to the operation. The message names the limit
/// and its scope, never the running count, which would rewrite the status of every waiter
/// (conditions-events.md §3.7).
#[must_use]
pub fn waits_for_job_slot(op: Op, message: impl Into<String>) -> Verdict {
    match op {
        Op::Apply | Op::Destroy | Op::Plan => ApplyJobSucceeded::WaitingForJobSlot.with(message),
        Op::Refresh | Op::Drift => DriftJobSucceeded::WaitingForJobSlot.with(message),
        Op::Restore => RestoreJobSucceeded::WaitingForJobSlot.with(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::conditions::Status;

    fn cluster_operation() -> Wait {
        Wait::ClusterOperation {
            holder: "job-a".to_owned(),
            cluster: "prod".to_owned(),
        }
    }

    fn machine_operations() -> Wait {
        Wait::MachineOperations {
            holders: vec!["job-a".to_owned()],
        }
    }

    fn said(verdict: &Verdict) -> (&'static str, Status, &'static str) {
        (
            verdict.condition().as_str(),
            verdict.status(),
            verdict.reason(),
        )
    }

    #[test]
    fn apply_destroy_and_plan_wait_on_apply_job_succeeded() {
        for op in [Op::Apply, Op::Destroy, Op::Plan] {
            let verdict = waits_for_lease(op, &machine_operations());
            let expected = (
                "ApplyJobSucceeded",
                Status::Unknown,
                "WaitingForMachineOperations",
            );
            assert_eq!(said(&verdict), expected);
            assert!(verdict.message().contains("job-a"), "{}", verdict.message());
        }
    }

    #[test]
    fn restore_waits_on_restore_job_succeeded() {
        let verdict = waits_for_lease(Op::Restore, &cluster_operation());
        let expected = (
            "RestoreJobSucceeded",
            Status::Unknown,
            "WaitingForClusterOperation",
        );
        assert_eq!(said(&verdict), expected);
    }

    #[test]
    fn refresh_and_drift_wait_on_drift_job_succeeded() {
        for op in [Op::Refresh, Op::Drift] {
            let verdict = waits_for_job_slot(op, "limit 5 in all");
            let expected = ("DriftJobSucceeded", Status::Unknown, "WaitingForJobSlot");
            assert_eq!(said(&verdict), expected);
        }
    }
}
