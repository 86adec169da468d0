//! Times as text: Kubernetes' own short form for ages and countdowns, RFC 3339 otherwise (cli.md §12).

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::args::TimeChoice;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A length of time in whole seconds, in the form that kubectl prints ages in.
pub(crate) fn short(seconds: i64) -> String {
    let pair = |big: i64, unit: char, small: i64, part: char| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{part}")
        }
    };
    match seconds {
        ..=119 => format!("{}s", seconds.max(0)),
        120..600 => pair(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds / YEAR, 'y', seconds % YEAR / DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Whole seconds from `then` to `now`, rounded down.
pub(crate) fn age_seconds(now: Timestamp, then: Timestamp) -> i64 {
    floor(now.duration_since(then))
}

/// Whole seconds from `now` to `then`, rounded up: nothing is shown as over before it is.
pub(crate) fn left_seconds(now: Timestamp, then: Timestamp) -> i64 {
    -floor(now.duration_since(then))
}

/// An age: `12m`; a time up to 2 s ahead is `0s`, one further ahead says so (cli.md §12).
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    match age_seconds(now, then) {
        seconds if seconds >= -2 => short(seconds),
        seconds => format!("in the future ({}s)", -seconds),
    }
}

/// `in 38s`, or `45m ago` when it is past.
pub(crate) fn countdown(now: Timestamp, then: Timestamp) -> String {
    let left = left_seconds(now, then);
    if left > 0 {
        format!("in {}", short(left))
    } else {
        format!("{} ago", short(age_seconds(now, then)))
    }
}

/// RFC 3339, whole seconds: with the offset of the local time zone where that is asked for, else in
/// UTC.
pub(crate) fn absolute(time: Timestamp, choice: TimeChoice) -> String {
    match choice {
        TimeChoice::Local => in_zone(time, &TimeZone::system()),
        TimeChoice::Relative | TimeChoice::Utc => format!("{:.0}", whole(time)),
    }
}

/// With a numeric offset: `2026-11-30T17:00:00+01:00`.
fn in_zone(time: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(time);
    format!("{:.0}", whole(time).display_with_offset(offset))
}

/// The time of day, for sentences that have said the countdown already: `16:48:00Z`.
pub(crate) fn clock_time(time: Timestamp, choice: TimeChoice) -> String {
    let text = absolute(time, choice);
    text.split_once('T')
        .map_or_else(|| text.clone(), |(_, clock)| clock.to_owned())
}

/// `time` cut to whole seconds.
pub(crate) fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// `time` cut to milliseconds, the resolution of the reports (cli.md §8).
pub(crate) fn millis(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

/// `time` moved by `seconds`, kept within the calendar.
pub(crate) fn plus(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(time)
}

/// Rounded towards the past.
fn floor(length: SignedDuration) -> i64 {
    let seconds = length.as_secs();
    if length.subsec_nanos() < 0 {
        seconds - 1
    } else {
        seconds
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{TimeChoice, TimeZone, absolute, age, clock_time, countdown, in_zone, plus, short};
    use jiff::Timestamp;
    use rstest::rstest;

    #[rstest]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(135, "2m15s")]
    #[case(599, "9m59s")]
    #[case(600, "10m")]
    #[case(4488, "74m")]
    #[case(10_800, "3h")]
    #[case(12_000, "3h20m")]
    #[case(104_400, "29h")]
    #[case(180_000, "2d2h")]
    #[case(864_000, "10d")]
    #[case(63_072_000, "2y")]
    #[case(66_528_000, "2y40d")]
    #[case(252_288_000, "8y")]
    fn ages_print_as_kubernetes_prints_them(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(short(seconds), expected);
    }

    fn noon() -> Timestamp {
        "2026-11-30T16:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_countdown_is_rounded_up() {
        let soon: Timestamp = "2026-11-30T16:00:18.001Z".parse().unwrap();
        assert_eq!(countdown(noon(), soon), "in 19s");
    }

    #[test]
    fn a_time_that_has_passed_is_ago() {
        assert_eq!(countdown(noon(), plus(noon(), -2700)), "45m ago");
        assert_eq!(countdown(noon(), noon()), "0s ago");
    }

    #[test]
    fn a_small_negative_age_is_zero_and_a_large_one_says_so() {
        assert_eq!(age(noon(), plus(noon(), 2)), "0s");
        assert_eq!(age(noon(), plus(noon(), 94)), "in the future (94s)");
    }

    #[test]
    fn absolute_times_are_utc_whole_seconds() {
        let time: Timestamp = "2026-11-30T15:59:48.987Z".parse().unwrap();
        for choice in [TimeChoice::Utc, TimeChoice::Relative] {
            assert_eq!(absolute(time, choice), "2026-11-30T15:59:48Z");
            assert_eq!(clock_time(time, choice), "15:59:48Z");
        }
    }

    #[test]
    fn local_times_have_a_numeric_offset() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        assert_eq!(in_zone(noon(), &zone), "2026-11-30T17:00:00+01:00");
        let summer: Timestamp = "2026-07-01T12:00:00.9Z".parse().unwrap();
        assert_eq!(in_zone(summer, &zone), "2026-07-01T14:00:00+02:00");
    }
}
