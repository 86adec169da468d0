//! Texts for people: cut to the limits of the API, durations as they are read aloud.

use k8s_openapi::jiff::SignedDuration;

/// The longest start of `text` of at most `max` bytes that ends between two characters.
#[must_use]
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A duration in whole seconds, in the form `1h2m3s` without leading or trailing parts that are zero;
/// `0s` for none and for negative ones.
#[must_use]
pub fn duration(duration: SignedDuration) -> String {
    let seconds = duration
        .round(k8s_openapi::jiff::Unit::Second)
        .unwrap_or(duration)
        .as_secs()
        .max(0);
    let parts = [
        (seconds / 3600, 'h'),
        (seconds / 60 % 60, 'm'),
        (seconds % 60, 's'),
    ];
    let text: String = parts
        .into_iter()
        .filter(|(value, _)| *value > 0)
        .map(|(value, unit)| format!("{value}{unit}"))
        .collect();
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, "0s")]
    #[case(-5, 0, "0s")]
    #[case(59, 400_000_000, "59s")]
    #[case(59, 600_000_000, "1m")]
    #[case(3723, 0, "1h2m3s")]
    #[case(600, 0, "10m")]
    fn durations_are_whole_seconds(#[case] secs: i64, #[case] nanos: i32, #[case] text: &str) {
        assert_eq!(duration(SignedDuration::new(secs, nanos)), text);
    }

    #[test]
    fn a_short_text_is_kept() {
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn a_multi_byte_character_at_the_limit_is_left_out() {
        let text = format!("{}é tail", "x".repeat(511));
        assert_eq!(cut(&text, 512), "x".repeat(511));
    }
}
