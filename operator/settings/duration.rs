//! Durations as Go writes them: `30m`, `1h30m`, `1.5h`, `500ms`, a bare `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A duration flag: nanoseconds, signed, because `-5s` parses and only then is refused by the rule of its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct GoDuration(i128);

impl GoDuration {
    pub(super) const ZERO: Self = Self(0);

    /// The same length as an unsigned duration, or `None` for a negative one.
    pub(super) fn unsigned(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// Whether `self` > `other` × `tenths` / 10, exactly.
    pub(super) fn exceeds_tenths_of(self, other: Self, tenths: i128) -> bool {
        self.0 * 10 > other.0 * tenths
    }
}

/// Why a text is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidDuration {
    #[error("is not a duration such as 30m, 90s or 1h30m")]
    Syntax,
    #[error("has no unit; write for example {0}s or {0}m")]
    MissingUnit(String),
    #[error("is longer than a duration can be (about 292 years)")]
    TooLong,
}

impl FromStr for GoDuration {
    type Err = InvalidDuration;

    /// Go's `time.ParseDuration`: an optional sign, then numbers with a unit each; `0` needs no unit.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(InvalidDuration::Syntax);
        }
        let mut total = 0_i128;
        while !rest.is_empty() {
            let number_end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let (number, after) = rest.split_at(number_end);
            let unit_end = after
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            if unit.is_empty() {
                return Err(if number.is_empty() {
                    InvalidDuration::Syntax
                } else {
                    InvalidDuration::MissingUnit(number.to_owned())
                });
            }
            let unit = unit_nanos(unit).ok_or(InvalidDuration::Syntax)?;
            total = total
                .checked_add(scaled(number, unit)?)
                .ok_or(InvalidDuration::TooLong)?;
            if total > i128::from(i64::MAX) {
                return Err(InvalidDuration::TooLong);
            }
            rest = after;
        }
        Ok(Self(if negative { -total } else { total }))
    }
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// `number` × `unit` in nanoseconds; what is below a nanosecond is cut, as in Go.
fn scaled(number: &str, unit: i128) -> Result<i128, InvalidDuration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(InvalidDuration::Syntax);
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| InvalidDuration::TooLong)?
    };
    let mut nanos = whole.checked_mul(unit).ok_or(InvalidDuration::TooLong)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        nanos += i128::from(digit.to_digit(10).unwrap_or(0)) * place;
    }
    Ok(nanos)
}

impl fmt::Display for GoDuration {
    /// Go's `Duration.String`: `1h0m0s`, `1m30s`, `1.5s`, `500ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        let second = NANOS_PER_SECOND.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < second {
            let (unit, name) = if nanos < 1_000 {
                (1, "ns")
            } else if nanos < 1_000_000 {
                (1_000, "µs")
            } else {
                (1_000_000, "ms")
            };
            return write!(f, "{}{name}", decimal(nanos, unit));
        }
        let (hours, minutes) = (nanos / (3_600 * second), nanos / (60 * second) % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", decimal(nanos % (60 * second), second))
    }
}

/// `nanos` / `unit` with as many decimals as it has.
fn decimal(nanos: u128, unit: u128) -> String {
    let (whole, mut rest) = (nanos / unit, nanos % unit);
    let mut text = whole.to_string();
    if rest > 0 {
        text.push('.');
        let mut place = unit / 10;
        while rest > 0 {
            text.push_str(&(rest / place).to_string());
            rest %= place;
            place /= 10;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0", Duration::ZERO)]
    #[case("+0", Duration::ZERO)]
    #[case("0s", Duration::ZERO)]
    #[case("30m", Duration::from_secs(1_800))]
    #[case("90s", Duration::from_secs(90))]
    #[case("1h30m", Duration::from_secs(5_400))]
    #[case("1.5h", Duration::from_secs(5_400))]
    #[case(".5s", Duration::from_millis(500))]
    #[case("1.s", Duration::from_secs(1))]
    #[case("500ms", Duration::from_millis(500))]
    #[case("100us", Duration::from_micros(100))]
    #[case("100µs", Duration::from_micros(100))]
    #[case("2m0.5s", Duration::from_millis(120_500))]
    fn go_durations_parse(#[case] text: &str, #[case] expected: Duration) {
        assert_eq!(
            text.parse::<GoDuration>().unwrap().unsigned().unwrap(),
            expected
        );
    }

    #[rstest]
    #[case("")]
    #[case("-")]
    #[case("abc")]
    #[case("1d")]
    #[case("1 h")]
    #[case("s")]
    #[case("1.2.3s")]
    #[case(".s")]
    fn what_go_refuses_is_refused(#[case] text: &str) {
        assert_eq!(text.parse::<GoDuration>(), Err(InvalidDuration::Syntax));
    }

    #[test]
    fn a_number_without_a_unit_says_so() {
        assert_eq!(
            "15".parse::<GoDuration>(),
            Err(InvalidDuration::MissingUnit("15".to_owned()))
        );
    }

    #[test]
    fn more_than_292_years_is_refused() {
        assert_eq!(
            "2562048h".parse::<GoDuration>(),
            Err(InvalidDuration::TooLong)
        );
        assert_eq!(
            "99999999999999999999999999999999999999999999h".parse::<GoDuration>(),
            Err(InvalidDuration::TooLong)
        );
    }

    #[test]
    fn a_negative_duration_parses_but_has_no_unsigned_form() {
        assert_eq!("-3s".parse::<GoDuration>().unwrap().unsigned(), None);
    }

    #[rstest]
    #[case("0", "0s")]
    #[case("10m", "10m0s")]
    #[case("1h", "1h0m0s")]
    #[case("90s", "1m30s")]
    #[case("1.5s", "1.5s")]
    #[case("500ms", "500ms")]
    #[case("1500us", "1.5ms")]
    #[case("7ns", "7ns")]
    #[case("-3s", "-3s")]
    fn durations_print_as_go_prints_them(#[case] text: &str, #[case] printed: &str) {
        assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), printed);
    }
}
