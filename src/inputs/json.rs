//! JSON as Terraform's files and hashes need it: keys in their own order, numbers as they were
//! written, and the exact string escapes of Go's encoder (inputs.md §3.1, §4.1).
//!
//! The usual value type sorts keys and its writer leaves U+2028 as it is, which would give other
//! bytes and so other hashes; hence this small tree with its own writers.

use std::fmt::{self, Write as _};

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Levels of arrays and objects that are followed before a text counts as hostile. The runner reads the
/// files with `serde_json`, which follows 127, to hide their secrets (runner.md §11): less than that stays
/// room for what is around a value.
const MAX_DEPTH: usize = 120;

/// A JSON value in which order and number text are kept.
///
/// There is no `Debug` output of content, because values may be secret.
#[derive(Clone)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it was written.
    Number(String),
    /// A string, decoded.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object; a key may occur more than once, then the last one counts.
    Object(Vec<(String, Json)>),
    /// Text that came from outside and goes on as it is but for white space (I-17).
    Raw(Box<RawValue>),
}

/// A text that cannot be followed as JSON. It says nothing of the text, which may be secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// A string holds an escape that names no character.
    #[error("it is not valid JSON")]
    Malformed,
    /// More than 120 levels.
    #[error("it is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl Json {
    /// Builds an object in the given order.
    pub fn object<K: Into<String>>(entries: impl IntoIterator<Item = (K, Json)>) -> Self {
        Self::Object(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    /// An array of strings.
    pub fn strings<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::Array(
            items
                .into_iter()
                .map(|item| Self::from(item.as_ref()))
                .collect(),
        )
    }

    /// The string, or `null` when there is none.
    #[must_use]
    pub fn or_null(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }

    /// Follows a raw text into a tree. Number text, key order and repeated keys are kept.
    ///
    /// # Errors
    /// When a string's escapes name no character, or the nesting exceeds 120 levels.
    pub fn parse(raw: &RawValue) -> Result<Self, JsonError> {
        parse(raw, MAX_DEPTH)
    }

    /// The value with two spaces of indentation per level, as in the generated files: `": "` after
    /// keys, empty collections on one line, no newline at the end (inputs.md §3.1).
    #[must_use]
    pub fn to_pretty(&self) -> String {
        let mut out = String::new();
        write_pretty(&mut out, self, 0);
        out
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json(..)")
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i32> for Json {
    fn from(value: i32) -> Self {
        Self::Number(value.to_string())
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::String(text.clone()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(map) => Self::object(
                map.iter()
                    .map(|(key, value)| (key.clone(), Self::from(value))),
            ),
        }
    }
}

fn parse(raw: &RawValue, depth: usize) -> Result<Json, JsonError> {
    let text = raw.get();
    match text.as_bytes().first() {
        Some(b'n') => Ok(Json::Null),
        Some(b't') => Ok(Json::Bool(true)),
        Some(b'f') => Ok(Json::Bool(false)),
        Some(b'"') => serde_json::from_str(text)
            .map(Json::String)
            .map_err(|_| JsonError::Malformed),
        Some(b'[') => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            let items: Vec<&RawValue> =
                serde_json::from_str(text).map_err(|_| JsonError::Malformed)?;
            let items: Result<_, _> = items.into_iter().map(|item| parse(item, depth)).collect();
            items.map(Json::Array)
        }
        Some(b'{') => {
            let depth = depth.checked_sub(1).ok_or(JsonError::TooDeep)?;
            let entries = members(text).map_err(|_| JsonError::Malformed)?;
            let entries: Result<_, _> = entries
                .into_iter()
                .map(|(key, value)| parse(value, depth).map(|value| (key, value)))
                .collect();
            entries.map(Json::Object)
        }
        _ => Ok(Json::Number(text.to_owned())),
    }
}

/// Keys and raw values of an object, in the order of the text.
fn members(text: &str) -> serde_json::Result<Vec<(String, &RawValue)>> {
    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    serde_json::Deserializer::from_str(text).deserialize_map(Members)
}

/// Writes `text` as a JSON string with the escapes of Go's encoder, HTML escaping off
/// (inputs.md §3.1): the short escapes, other controls as `\u00xx`, U+2028 and U+2029 always
/// escaped, everything else as it is.
pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn write_pretty(out: &mut String, value: &Json, level: usize) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(text) => out.push_str(text),
        Json::String(text) => write_string(out, text),
        Json::Array(items) if items.is_empty() => out.push_str("[]"),
        Json::Object(entries) if entries.is_empty() => out.push_str("{}"),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index, level + 1);
                write_pretty(out, item, level + 1);
            }
            new_line(out, level);
            out.push(']');
        }
        Json::Object(entries) => {
            out.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                separate(out, index, level + 1);
                write_string(out, key);
                out.push_str(": ");
                write_pretty(out, value, level + 1);
            }
            new_line(out, level);
            out.push('}');
        }
        Json::Raw(raw) => reindent(out, raw.get(), level),
    }
}

fn separate(out: &mut String, index: usize, level: usize) {
    if index > 0 {
        out.push(',');
    }
    new_line(out, level);
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    for _ in 0..level {
        out.push_str("  ");
    }
}

/// Valid JSON cut into tokens: strings and scalars whole, punctuation alone, white space dropped.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let length = match rest.as_bytes().first()? {
            b'"' => string_length(rest),
            b'{' | b'}' | b'[' | b']' | b':' | b',' => 1,
            _ => rest
                .find([',', '}', ']', ':', ' ', '\t', '\n', '\r'])
                .unwrap_or(rest.len()),
        };
        let (token, tail) = rest.split_at(length);
        rest = tail;
        Some(token)
    })
}

/// Bytes of the string literal that `text` starts with, both quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Writes raw JSON with the indentation of the generated files and nothing else changed (I-17).
fn reindent(out: &mut String, text: &str, level: usize) {
    let mut level = level;
    let mut tokens = tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                if let Some(close @ ("}" | "]")) = tokens.peek().copied() {
                    out.push_str(close);
                    tokens.next();
                } else {
                    level += 1;
                    new_line(out, level);
                }
            }
            "}" | "]" => {
                level = level.saturating_sub(1);
                new_line(out, level);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                new_line(out, level);
            }
            ":" => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
}

/// Raw JSON without white space, all else as it is written.
#[must_use]
pub fn compact(raw: &RawValue) -> String {
    tokens(raw.get()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[rstest]
    #[case("\"\\", r#""\"\\""#)]
    #[case("\u{8}\u{c}\n\r\t", r#""\b\f\n\r\t""#)]
    #[case("\u{0}\u{1f}", r#""\u0000\u001f""#)]
    #[case("\u{2028}\u{2029}", r#""\u2028\u2029""#)]
    #[case("<>&\u{7f}é", "\"<>&\u{7f}é\"")]
    fn strings_are_escaped_as_the_table_says(#[case] text: &str, #[case] expected: &str) {
        let mut out = String::new();
        write_string(&mut out, text);
        assert_eq!(out, expected);
    }

    #[test]
    fn raw_values_keep_key_order_number_text_and_escapes() {
        let value = Json::object([(
            "exports",
            Json::Raw(raw(
                r#"{"z":1.50,"a":[],"m":{ },"s":"\u003c, }","z":[1e3,null]}"#,
            )),
        )]);
        assert_eq!(
            value.to_pretty(),
            r#"{
  "exports": {
    "z": 1.50,
    "a": [],
    "m": {},
    "s": "\u003c, }",
    "z": [
      1e3,
      null
    ]
  }
}"#
        );
    }

    #[test]
    fn compact_drops_white_space_outside_strings_only() {
        assert_eq!(
            compact(&raw("{ \"a b\" : [ 1 ,\n\t\"x \\\" y\" ] , \"c\":-2 }")),
            r#"{"a b":[1,"x \" y"],"c":-2}"#
        );
    }

    #[test]
    fn nesting_beyond_the_limit_is_an_error_not_a_crash() {
        let deep = |levels: usize| raw(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
        assert!(Json::parse(&deep(120)).is_ok());
        assert_eq!(Json::parse(&deep(121)).unwrap_err(), JsonError::TooDeep);
        assert_eq!(Json::parse(&deep(100_000)).unwrap_err(), JsonError::TooDeep);
    }

    #[test]
    fn half_a_surrogate_pair_is_malformed() {
        assert_eq!(
            Json::parse(&raw(r#"["\ud800"]"#)).unwrap_err(),
            JsonError::Malformed
        );
    }
}
