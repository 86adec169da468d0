//! Which finished Jobs are deleted (jobs.md §7.5).

use crate::names::Op;

use super::facts::JobFacts;
use super::history::{Finished, History};

/// How many finished Jobs per operation are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Successes kept.
    pub successful: usize,
    /// Failures kept.
    pub failed: usize,
}

impl HistoryLimits {
    /// The limits of a policy: 3 when unset, below 0 counts as 0.
    #[must_use]
    pub fn new(successful: Option<i32>, failed: Option<i32>) -> Self {
        let limit = |value: Option<i32>| usize::try_from(value.unwrap_or(3)).unwrap_or(0);
        Self {
            successful: limit(successful),
            failed: limit(failed),
        }
    }
}

/// The finished Jobs to delete, running ones are never touched.
///
/// Per operation, by creation newest first (ties by name): the first `successful` successes and the
/// first `failed` failures stay; always the newest success, and the newest failure when no success of
/// the operation is newer, because backoff counts it (J12).
#[must_use]
pub fn prune<'a>(history: &History<'a>, limits: HistoryLimits) -> Vec<&'a JobFacts> {
    Op::ALL
        .into_iter()
        .flat_map(|op| prune_op(history, op, limits))
        .collect()
}

fn prune_op<'a>(history: &History<'a>, op: Op, limits: HistoryLimits) -> Vec<&'a JobFacts> {
    let mut jobs: Vec<&Finished<'a>> = history
        .finished()
        .iter()
        .filter(|finished| finished.op == op)
        .collect();
    jobs.sort_by(|a, b| {
        b.job
            .created
            .cmp(&a.job.created)
            .then_with(|| b.job.name.cmp(&a.job.name))
    });
    let (mut successes, mut failures) = (0, 0);
    let mut surplus = Vec::new();
    for finished in jobs {
        let keep = if finished.outcome.is_success() {
            successes += 1;
            successes <= limits.successful.max(1)
        } else {
            failures += 1;
            failures <= limits.failed || (failures == 1 && successes == 0)
        };
        if !keep {
            surplus.push(finished.job);
        }
    }
    surplus
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::jobs::history::Readings;
    use crate::jobs::testing::{JobBuilder, OWNER};

    fn pruned(jobs: &[JobFacts], successful: i32, failed: i32) -> Vec<i32> {
        let readings = Readings::new();
        let history = History::new(jobs, OWNER, &readings, None);
        let mut attempts: Vec<i32> =
            prune(&history, HistoryLimits::new(Some(successful), Some(failed)))
                .iter()
                .filter_map(|job| job.attempt)
                .collect();
        attempts.sort_unstable();
        attempts
    }

    fn failed(attempt: i32, created: &str) -> JobFacts {
        JobBuilder::new(Op::Apply, attempt)
            .created(created)
            .failed("13:00")
            .bookkept()
            .build()
    }

    fn complete(attempt: i32, created: &str) -> JobFacts {
        JobBuilder::new(Op::Apply, attempt)
            .created(created)
            .complete("13:00")
            .bookkept()
            .build()
    }

    #[test]
    fn the_newest_three_successes_and_failures_stay() {
        let jobs: Vec<JobFacts> = (1..=5)
            .map(|n| complete(n, &format!("12:0{n}")))
            .chain((6..=9).map(|n| failed(n, &format!("12:0{n}"))))
            .collect();
        assert_eq!(pruned(&jobs, 3, 3), [1, 2, 6]);
    }

    #[test]
    fn j12_with_limit_0_newest_success_and_unresolved_newest_failure_stay() {
        let jobs = [
            complete(1, "12:01"),
            complete(2, "12:02"),
            failed(3, "12:03"),
            failed(4, "12:04"),
        ];
        assert_eq!(pruned(&jobs, 0, 0), [1, 3]);
    }

    #[test]
    fn a_failure_older_than_a_success_goes_with_limit_0() {
        let jobs = [failed(1, "12:01"), complete(2, "12:02")];
        assert_eq!(pruned(&jobs, 0, 0), [1]);
    }

    #[test]
    fn running_jobs_are_never_pruned() {
        let jobs = [JobBuilder::new(Op::Apply, 1).build(), complete(2, "12:02")];
        assert_eq!(pruned(&jobs, 0, 0), Vec::<i32>::new());
    }

    #[test]
    fn each_operation_is_pruned_by_itself() {
        let mut jobs = vec![complete(1, "12:01")];
        jobs.push(
            JobBuilder::new(Op::Drift, 7)
                .created("12:02")
                .complete("13:00")
                .build(),
        );
        assert_eq!(pruned(&jobs, 0, 0), Vec::<i32>::new());
    }

    #[test]
    fn negative_limits_count_as_0() {
        assert_eq!(
            HistoryLimits::new(Some(-1), Some(-5)),
            HistoryLimits {
                successful: 0,
                failed: 0
            }
        );
    }

    #[test]
    fn unset_limits_are_3() {
        assert_eq!(
            HistoryLimits::new(None, None),
            HistoryLimits {
                successful: 3,
                failed: 3
            }
        );
    }
}
