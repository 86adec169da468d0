//! When an operation that failed may run again (jobs.md §8.1).

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// Delay after the first failure.
const BASE: SignedDuration = SignedDuration::from_mins(1);
/// Longest delay.
const MAX: SignedDuration = SignedDuration::from_mins(10);

/// How many failures in a row are retried quickly: `failedJobsHistoryLimit`, 3 when unset, at least 1
/// (jobs.md §7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedLimit(u32);

impl FailedLimit {
    /// The effective limit of a policy's value.
    #[must_use]
    pub fn new(configured: Option<i32>) -> Self {
        let limit = configured.unwrap_or(3).max(1);
        Self(u32::try_from(limit).unwrap_or(1))
    }

    /// The limit as a number, at least 1.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for FailedLimit {
    fn default() -> Self {
        Self::new(None)
    }
}

/// The counted failures of one operation since its newest success (jobs.md §7.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailureRun {
    /// How many.
    pub count: u32,
    /// When the newest of them finished.
    pub last: Option<Timestamp>,
}

/// Delay after `failures` failures in a row: 1 min, doubled per failure, 10 min at most and from the
/// limit on; retries never end (jobs.md §8.1).
#[must_use]
pub fn delay(limit: FailedLimit, failures: u32) -> SignedDuration {
    if failures == 0 {
        return SignedDuration::ZERO;
    }
    if failures >= limit.get() {
        return MAX;
    }
    // Four doublings already pass ten minutes, so a larger exponent changes nothing.
    let doublings = (failures - 1).min(4);
    MAX.min(BASE * (1 << doublings))
}

/// When the operation may run again, counted from its newest counted failure; nothing without one.
#[must_use]
pub fn until(limit: FailedLimit, run: FailureRun) -> Option<Timestamp> {
    let last = run.last.filter(|_| run.count > 0)?;
    Some(
        last.saturating_add(delay(limit, run.count))
            .unwrap_or(Timestamp::MAX),
    )
}

/// What is left of the backoff; nothing when the operation may run now.
#[must_use]
pub fn remaining(limit: FailedLimit, run: FailureRun, now: Timestamp) -> Option<SignedDuration> {
    let remaining = until(limit, run)?.duration_since(now);
    remaining.is_positive().then_some(remaining)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, [10, 10, 10, 10, 10])]
    #[case(1, [10, 10, 10, 10, 10])]
    #[case(3, [1, 2, 10, 10, 10])]
    #[case(5, [1, 2, 4, 8, 10])]
    fn delay_table(#[case] limit: i32, #[case] minutes: [i64; 5]) {
        let limit = FailedLimit::new(Some(limit));
        let delays = [1, 2, 3, 4, 5].map(|failures| delay(limit, failures).as_mins());
        assert_eq!(delays, minutes);
    }

    #[test]
    fn the_default_limit_is_three() {
        assert_eq!(FailedLimit::default().get(), 3);
    }

    #[test]
    fn an_effective_limit_is_at_least_one() {
        assert_eq!(FailedLimit::new(Some(0)).get(), 1);
        assert_eq!(FailedLimit::new(Some(-4)).get(), 1);
    }

    #[test]
    fn doubling_stays_below_the_maximum_under_a_large_limit() {
        assert_eq!(delay(FailedLimit::new(Some(100)), 50).as_mins(), 10);
        assert_eq!(delay(FailedLimit::new(Some(100)), 4).as_mins(), 8);
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn backoff_counts_from_the_newest_failure() {
        let run = FailureRun {
            count: 2,
            last: Some(at("2026-10-01T12:00:00Z")),
        };
        let limit = FailedLimit::default();
        assert_eq!(
            remaining(limit, run, at("2026-10-01T12:00:30Z")),
            Some(SignedDuration::from_secs(90))
        );
        assert_eq!(remaining(limit, run, at("2026-10-01T12:02:00Z")), None);
    }

    #[test]
    fn without_a_failure_there_is_no_backoff() {
        let now = at("2026-10-01T12:00:00Z");
        assert_eq!(
            remaining(FailedLimit::default(), FailureRun::default(), now),
            None
        );
    }
}
