//! JSON bytes exactly as Go's default encoder writes them.
//!
//! Plan fingerprints are compared between versions of the runner, and the size limit of the result counts encoded
//! bytes, so both depend on one encoding (runner.md §6.3, §10): compact, object keys sorted, numbers with their
//! original text, and the characters `<`, `>`, `&`, U+2028 and U+2029 escaped.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;

use crate::inputs::json;

/// Encodes a value as Go's `json.Marshal` would.
///
/// # Errors
/// Only what the value's own `Serialize` reports; writing to memory does not fail.
pub(super) fn to_vec(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, HtmlEscaping))?;
    Ok(bytes)
}

/// A raw value as [`to_vec`] writes it inside another: without whitespace, but with its own key order and number text.
///
/// # Errors
/// When `raw` is not valid JSON.
pub(super) fn compact(raw: &RawValue) -> serde_json::Result<Box<RawValue>> {
    // What is escaped occurs inside strings only.
    let mut out = String::with_capacity(raw.get().len());
    for c in json::compact(raw).chars() {
        match html_escape(c) {
            Some(escape) => out.push_str(escape),
            None => out.push(c),
        }
    }
    RawValue::from_string(out)
}

/// The escape of a character that only an HTML-safe encoder escapes.
fn html_escape(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("\\u003c"),
        '>' => Some("\\u003e"),
        '&' => Some("\\u0026"),
        '\u{2028}' => Some("\\u2028"),
        '\u{2029}' => Some("\\u2029"),
        _ => None,
    }
}

/// A compact formatter that escapes what Go escapes.
struct HtmlEscaping;

impl Formatter for HtmlEscaping {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut plain_from = 0;
        for (at, c) in fragment.char_indices() {
            if let Some(escape) = html_escape(c) {
                writer.write_all(&fragment.as_bytes()[plain_from..at])?;
                writer.write_all(escape.as_bytes())?;
                plain_from = at + c.len_utf8();
            }
        }
        writer.write_all(&fragment.as_bytes()[plain_from..])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn html_characters_and_line_separators_are_escaped() {
        let bytes =
            to_vec(&json!({"b": "<a href=\"x\">&\u{2028}\u{2029}\u{7f}\n", "a<": 1})).unwrap();
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "{\"a\\u003c\":1,\"b\":\"\\u003ca href=\\\"x\\\"\\u003e\\u0026\\u2028\\u2029\u{7f}\\n\"}"
        );
    }

    #[test]
    fn numbers_keep_their_text() {
        let value: Value =
            serde_json::from_str("[1.50, 1e+30, -0, 12345678901234567890123]").unwrap();
        assert_eq!(
            to_vec(&value).unwrap(),
            b"[1.50,1e+30,-0,12345678901234567890123]"
        );
    }

    #[test]
    fn a_raw_value_keeps_its_key_order() {
        let raw: Box<RawValue> = serde_json::from_str(
            "{ \"unknown\" : true ,\n \"id\": \"a \\\" < b\\\\\", \"c\":[ 1.0 ] }",
        )
        .unwrap();
        assert_eq!(
            compact(&raw).unwrap().get(),
            "{\"unknown\":true,\"id\":\"a \\\" \\u003c b\\\\\",\"c\":[1.0]}"
        );
    }
}
