//! How long a key that failed stays away.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1_000);

/// 5 ms after the first failure, twice as long after each further one, at most 1,000 s
/// (engineering.md §4.4).
pub(super) fn delay_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1);
    2_u32
        .checked_pow(doublings)
        .and_then(|factor| FIRST.checked_mul(factor))
        .map_or(LONGEST, |delay| delay.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(1, Duration::from_millis(5))]
    #[case(2, Duration::from_millis(10))]
    #[case(3, Duration::from_millis(20))]
    #[case(17, Duration::from_millis(327_680))]
    #[case(18, Duration::from_millis(655_360))]
    #[case(19, Duration::from_secs(1_000))]
    #[case(u32::MAX, Duration::from_secs(1_000))]
    fn the_delay_doubles_from_5_ms_to_1000_s(#[case] failures: u32, #[case] expected: Duration) {
        assert_eq!(delay_after(failures), expected);
    }
}
