//! Hiding secret values in text (runner.md §11).

use std::collections::{HashMap, HashSet};

use super::gojson;

/// What stands in the place of a secret value.
const REPLACEMENT: &str = "(sensitive)";
/// Shorter values are not hidden: they would be found everywhere.
const LEAST_VALUE: usize = 4;

/// Secret values, with the least length of their lines that is hidden on its own.
#[derive(Default)]
pub(super) struct Secrets {
    values: HashMap<String, usize>,
}

impl Secrets {
    /// Adds a value each line of which is a secret as well.
    pub(super) fn add(&mut self, value: &str) {
        self.add_with_lines_of(value, LEAST_VALUE);
    }

    /// Adds a value of which only lines of at least `least_line` bytes are secrets on their own. For a value that is
    /// added twice the larger minimum counts.
    pub(super) fn add_with_lines_of(&mut self, value: &str, least_line: usize) {
        if value.len() >= LEAST_VALUE {
            let least = self.values.entry(value.to_owned()).or_insert(least_line);
            *least = least_line.max(*least);
        }
    }

    /// All texts to be hidden: the values, their lines, and both as JSON writes them.
    fn texts(&self) -> HashSet<String> {
        let mut lines: HashMap<&str, usize> = HashMap::new();
        for (value, least_line) in self
            .values
            .iter()
            .filter(|(value, _)| value.contains(['\r', '\n']))
        {
            for line in value.split(['\r', '\n']).map(str::trim) {
                let least = lines.entry(line).or_insert(*least_line);
                *least = (*least).max(*least_line);
            }
        }
        let lines = lines
            .into_iter()
            .filter(|(line, least)| line.len() >= *least)
            .map(|(line, _)| line);
        let mut texts = HashSet::new();
        for text in self.values.keys().map(String::as_str).chain(lines) {
            texts.extend(json_forms(text));
            texts.insert(text.to_owned());
        }
        texts
    }
}

/// A text as it stands inside JSON strings, as encoders with and without HTML escaping write it.
fn json_forms(text: &str) -> impl Iterator<Item = String> {
    let inside = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).ok()?;
        Some(text.get(1..text.len().checked_sub(1)?)?.to_owned())
    };
    let forms = [serde_json::to_vec(text).ok(), gojson::to_vec(&text).ok()];
    forms.into_iter().flatten().filter_map(inside)
}

/// Replaces secret values in texts.
#[derive(Default)]
pub(super) struct Redactor {
    /// The texts to hide by their first bytes, longest first.
    by_start: HashMap<[u8; LEAST_VALUE], Vec<String>>,
}

impl Redactor {
    /// A redactor of these values.
    pub(super) fn new(secrets: &Secrets) -> Self {
        let mut by_start: HashMap<[u8; LEAST_VALUE], Vec<String>> = HashMap::new();
        for text in secrets.texts() {
            if let Some(start) = text.as_bytes().first_chunk() {
                by_start.entry(*start).or_default().push(text);
            }
        }
        for texts in by_start.values_mut() {
            texts.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        }
        Self { by_start }
    }

    /// The text without secret values. The leftmost value is replaced first, at one place the longest.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut kept_from, mut at) = (0, 0);
        while let Some(start) = text.as_bytes().get(at..).and_then(<[u8]>::first_chunk) {
            let found = self.by_start.get(start).and_then(|texts| {
                texts
                    .iter()
                    .find(|secret| text.as_bytes()[at..].starts_with(secret.as_bytes()))
            });
            match found {
                Some(secret) => {
                    // Both ends are boundaries of characters: a whole text was found.
                    out.push_str(&text[kept_from..at]);
                    out.push_str(REPLACEMENT);
                    at += secret.len();
                    kept_from = at;
                }
                None => at += 1,
            }
        }
        out.push_str(&text[kept_from..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        let mut secrets = Secrets::default();
        for value in values {
            secrets.add(value);
        }
        Redactor::new(&secrets)
    }

    #[test]
    fn the_longest_value_wins_and_the_leftmost_comes_first() {
        let redactor = redactor(&["pass", "password", "wordy"]);
        assert_eq!(
            redactor.redact("a password, a passwordy"),
            "a (sensitive), a (sensitive)y"
        );
        assert_eq!(
            redactor.redact("pas wordy pass"),
            "pas (sensitive) (sensitive)"
        );
    }

    #[test]
    fn values_below_four_bytes_stay() {
        assert_eq!(redactor(&["abc", ""]).redact("abc"), "abc");
        assert_eq!(
            redactor(&["abcd"]).redact("abcdabcd"),
            "(sensitive)(sensitive)"
        );
    }

    #[test]
    fn the_json_form_of_a_value_is_hidden() {
        let redactor = redactor(&["a\"b<c\\d"]);
        assert_eq!(
            redactor.redact(r#"{"x":"a\"b<c\\d"}"#),
            r#"{"x":"(sensitive)"}"#
        );
        assert_eq!(
            redactor.redact(r#"{"x":"a\"b\u003cc\\d"}"#),
            r#"{"x":"(sensitive)"}"#
        );
    }

    #[test]
    fn lines_of_a_value_are_hidden_on_their_own() {
        let redactor = redactor(&["first line\r\n  second  \nabc\n"]);
        assert_eq!(
            redactor.redact("first line|second|abc"),
            "(sensitive)|(sensitive)|abc"
        );
        assert_eq!(
            redactor.redact("first line\r\n  second  \nabc\n."),
            "(sensitive)."
        );
    }

    #[test]
    fn short_lines_of_some_values_stay() {
        let mut secrets = Secrets::default();
        secrets.add_with_lines_of("packages:\n  - a-long-package-name\n", 16);
        let redactor = Redactor::new(&secrets);
        assert_eq!(
            redactor.redact("packages: a - a-long-package-name"),
            "packages: a (sensitive)"
        );
    }

    #[test]
    fn the_larger_minimum_counts_for_lines_that_are_added_twice() {
        let mut secrets = Secrets::default();
        secrets.add("packages:\nsecret-one");
        secrets.add_with_lines_of("packages:\nof a kind", 16);
        let redactor = Redactor::new(&secrets);
        assert_eq!(
            redactor.redact("packages: secret-one"),
            "packages: (sensitive)"
        );
    }

    #[test]
    fn a_value_that_is_also_a_short_line_is_hidden() {
        let mut secrets = Secrets::default();
        secrets.add("hunter2x");
        secrets.add_with_lines_of("user\nhunter2x\n", 16);
        assert_eq!(Redactor::new(&secrets).redact("hunter2x"), "(sensitive)");
    }

    #[test]
    fn characters_of_several_bytes_are_kept() {
        assert_eq!(redactor(&["éèàü"]).redact("àéèàüé"), "à(sensitive)é");
        assert_eq!(redactor(&[]).redact("é"), "é");
    }
}
