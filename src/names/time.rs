//! Times that go into names, and the spread of periodic work (naming.md §5.3, §9).

use std::time::Duration;

use jiff::Timestamp;

/// RFC 3339 in UTC with whole seconds and the suffix `Z`; empty when unset (naming.md §5.3).
#[must_use]
pub fn stamp(time: Option<Timestamp>) -> String {
    time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// How far this object's periodic work is shifted: FNV-1a of its UID modulo a tenth of the interval,
/// in nanoseconds; zero without a UID (naming.md §9). The same object is always shifted alike, so a
/// restarted manager does not run everything at once.
#[must_use]
pub fn jitter(uid: &str, interval: Duration) -> Duration {
    let bound = u64::try_from(interval.as_nanos() / 10).unwrap_or(u64::MAX);
    if uid.is_empty() || bound == 0 {
        return Duration::ZERO;
    }
    Duration::from_nanos(fnv1a(uid.as_bytes()) % bound)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    const UID: &str = "5f1d3c2a-0000-4000-8000-00000000000a";

    #[rstest]
    #[case(UID, 1800, 95_156_988_671)]
    #[case(UID, 300, 5_156_988_671)]
    #[case(UID, 30, 2_156_988_671)]
    #[case(UID, 15, 656_988_671)]
    #[case("uid-1", 1800, 51_401_775_683)]
    #[case("uid-1", 60, 3_401_775_683)]
    #[case("", 1800, 0)]
    #[case("uid-1", 0, 0)]
    fn jitter_worked_examples(#[case] uid: &str, #[case] seconds: u64, #[case] nanos: u64) {
        assert_eq!(
            jitter(uid, Duration::from_secs(seconds)),
            Duration::from_nanos(nanos)
        );
    }

    #[rstest]
    #[case(UID, 3_657_898_175_156_988_671)]
    #[case("uid-1", 9_974_083_551_401_775_683)]
    fn fnv_of_the_worked_examples(#[case] uid: &str, #[case] expected: u64) {
        assert_eq!(fnv1a(uid.as_bytes()), expected);
    }

    #[test]
    fn an_interval_below_ten_nanoseconds_has_no_jitter() {
        assert_eq!(jitter("uid-1", Duration::from_nanos(9)), Duration::ZERO);
    }

    #[test]
    fn stamp_is_whole_seconds_in_utc_and_empty_when_unset() {
        let time: Timestamp = "2026-10-01T14:00:00.999+02:00".parse().unwrap();
        assert_eq!(stamp(Some(time)), "2026-10-01T12:00:00Z");
        assert_eq!(stamp(None), "");
    }
}
