//! Durations as Go writes them on a command line: `300s`, `1h30m`, `1.5h`, a bare `0`.

use std::time::Duration;

/// Why a text is not the length of a wait.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum InvalidDuration {
    /// Not in Go's notation.
    #[error("not a duration such as 300s, 5m or 1h30m")]
    Syntax,
    /// Below zero.
    #[error("a duration must not be negative")]
    Negative,
    /// More than Go can hold (about 292 years).
    #[error("the duration is too long")]
    TooLong,
}

/// Parses a duration of zero or more.
///
/// # Errors
/// When the text is not a Go duration, is negative, or is longer than a Go duration can be.
pub(super) fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    if let Some(positive) = text.strip_prefix('-') {
        return parse(positive).and(Err(InvalidDuration::Negative));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(InvalidDuration::Syntax);
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, after) = split_where(after, |c| c.is_ascii_digit() || c == '.');
        nanos = nanos.saturating_add(scaled(number, unit_nanos(unit)?)?);
        rest = after;
    }
    match i64::try_from(nanos) {
        Ok(nanos) => Ok(Duration::from_nanos(nanos.unsigned_abs())),
        Err(_) => Err(InvalidDuration::TooLong),
    }
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Result<u128, InvalidDuration> {
    match unit {
        "ns" => Ok(1),
        "us" | "µs" | "μs" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" => Ok(1_000_000_000),
        "m" => Ok(60_000_000_000),
        "h" => Ok(3_600_000_000_000),
        _ => Err(InvalidDuration::Syntax),
    }
}

/// `number` × `unit`; what is below a nanosecond is cut.
fn scaled(number: &str, unit: u128) -> Result<u128, InvalidDuration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(InvalidDuration::Syntax);
    }
    let whole: u128 = match whole {
        "" => 0,
        digits => digits.parse().map_err(|_| InvalidDuration::TooLong)?,
    };
    let mut nanos = whole.saturating_mul(unit);
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.saturating_add(place * u128::from(digit - b'0'));
    }
    Ok(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", 0),
            ("+5s", 5_000),
            ("300s", 300_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("500ms", 500),
            ("2m0.5s", 120_500),
            ("1us", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text).map(|d| d.as_millis()), Ok(millis), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in ["", "5", "s", "1d", "1 s", ".s", "1..2s", "five", "1sm"] {
            assert_eq!(parse(text), Err(InvalidDuration::Syntax), "{text}");
        }
        assert_eq!(parse("-5s"), Err(InvalidDuration::Negative));
        assert_eq!(parse("3000000h"), Err(InvalidDuration::TooLong));
    }
}
