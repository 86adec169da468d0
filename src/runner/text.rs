//! Cleaning text that runtimes print.

/// The first line of a text, without the spaces around it.
pub(super) fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default().trim_end()
}

/// A text without ANSI escape sequences (`ESC [`, digits and semicolons, a letter).
pub(super) fn strip_ansi(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\x1b[") {
        let sequence = &rest[at + 2..];
        let end = sequence
            .find(|c: char| !c.is_ascii_digit() && c != ';')
            .unwrap_or(sequence.len());
        match sequence[end..].chars().next() {
            Some(letter) if letter.is_ascii_alphabetic() => {
                out.push_str(&rest[..at]);
                rest = &sequence[end + 1..];
            }
            _ => {
                out.push_str(&rest[..at + 2]);
                rest = sequence;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_removed_and_other_escapes_stay() {
        assert_eq!(
            strip_ansi("\x1b[31m│\x1b[0m \x1b[1;4mError\x1b[0m: x\x1b["),
            "│ Error: x\x1b["
        );
        assert_eq!(strip_ansi("\x1b[é"), "\x1b[é");
    }
}
