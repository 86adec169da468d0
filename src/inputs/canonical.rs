//! Canonical JSON: the one text that equal values are hashed as (naming.md §7, inputs.md §4.1).

use std::collections::BTreeMap;

use super::json::{Json, JsonError, write_string};

/// Which numbers a canonical text may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Integer literals only; anything else is an error. Used for contract inputs.
    Integers,
    /// Any JSON number, as it is written, so that `1.5` and `1.50` differ. Used for user variables
    /// and the exports hash.
    Any,
}

/// Why a value has no canonical text. Names the place, never the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// A number with a fraction or an exponent.
    #[error(
        "only integer numbers can be hashed, and {path} is written with a fraction or an exponent: \
         write it as an integer or as a string"
    )]
    NotAnInteger {
        /// Keys and indexes that lead to the number.
        path: String,
    },
    /// A raw text that cannot be followed.
    #[error("{path} cannot be hashed: {problem}")]
    Unreadable {
        /// Keys and indexes that lead to the text.
        path: String,
        /// What is wrong with it.
        problem: JsonError,
    },
}

/// The canonical text of `value`: no white space, keys sorted by bytes, of repeated keys the last
/// one, strings escaped as in the generated files, numbers as written.
///
/// # Errors
/// On a number that `numbers` does not allow, and on raw text that cannot be followed.
pub fn canonical(value: &Json, numbers: Numbers) -> Result<String, CanonicalError> {
    let mut writer = Writer {
        out: String::new(),
        path: Vec::new(),
        numbers,
    };
    writer.write(value)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    path: Vec<String>,
    numbers: Numbers,
}

impl Writer {
    fn write(&mut self, value: &Json) -> Result<(), CanonicalError> {
        match value {
            Json::Null => self.out.push_str("null"),
            Json::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Json::Number(text) => self.number(text)?,
            Json::String(text) => write_string(&mut self.out, text),
            Json::Array(items) => self.array(items)?,
            Json::Object(entries) => self.object(entries)?,
            Json::Raw(raw) => {
                let parsed = Json::parse(raw).map_err(|problem| CanonicalError::Unreadable {
                    path: self.place(),
                    problem,
                })?;
                self.write(&parsed)?;
            }
        }
        Ok(())
    }

    fn number(&mut self, text: &str) -> Result<(), CanonicalError> {
        if self.numbers == Numbers::Integers && !is_integer_literal(text) {
            return Err(CanonicalError::NotAnInteger { path: self.place() });
        }
        self.out.push_str(text);
        Ok(())
    }

    fn array(&mut self, items: &[Json]) -> Result<(), CanonicalError> {
        self.out.push('[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.below(format!("[{index}]"), item)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self, entries: &[(String, Json)]) -> Result<(), CanonicalError> {
        let sorted: BTreeMap<&str, &Json> = entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
            .collect();
        self.out.push('{');
        for (index, (key, value)) in sorted.into_iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            write_string(&mut self.out, key);
            self.out.push(':');
            self.below(format!(".{key}"), value)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn below(&mut self, step: String, value: &Json) -> Result<(), CanonicalError> {
        self.path.push(step);
        self.write(value)?;
        self.path.pop();
        Ok(())
    }

    fn place(&self) -> String {
        if self.path.is_empty() {
            "the value".to_owned()
        } else {
            self.path.concat().trim_start_matches('.').to_owned()
        }
    }
}

/// `^-?(0|[1-9][0-9]*)$`: the only numbers that have one spelling (naming.md §7).
fn is_integer_literal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits == "0"
        || (digits.starts_with(|first: char| ('1'..='9').contains(&first))
            && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> Json {
        Json::Raw(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[rstest]
    #[case(
        r#"{"b":1,"a":["<&>",true,null],"c":{"y":-2,"x":0}}"#,
        r#"{"a":["<&>",true,null],"b":1,"c":{"x":0,"y":-2}}"#
    )]
    #[case(
        r#"{"n":123456789012345678901234567890}"#,
        r#"{"n":123456789012345678901234567890}"#
    )]
    #[case(r#"{"a":1,"a":2}"#, r#"{"a":2}"#)]
    #[case(r#" { "z" : [ ] , "a" : { } } "#, r#"{"a":{},"z":[]}"#)]
    #[case("-0", "-0")]
    #[case("\"\u{2028}\\u003c\\/\"", r#""\u2028</""#)]
    #[case(r#"{"_":1,"Z":2,"a":3}"#, r#"{"Z":2,"_":1,"a":3}"#)]
    fn canonical_form(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(canonical(&raw(text), Numbers::Integers).unwrap(), expected);
    }

    #[rstest]
    #[case("1.5", "the value")]
    #[case("1e3", "the value")]
    #[case(r#"{"x":[2.0]}"#, "x[0]")]
    #[case(r#"{"a":{"b":[1,{"c":1E2}]}}"#, "a.b[1].c")]
    fn only_integer_numbers_can_be_hashed(#[case] text: &str, #[case] path: &str) {
        let error = canonical(&raw(text), Numbers::Integers).unwrap_err();
        assert_eq!(error, CanonicalError::NotAnInteger { path: path.into() });
        assert!(
            error
                .to_string()
                .starts_with("only integer numbers can be hashed")
        );
    }

    #[test]
    fn any_number_is_kept_as_written() {
        assert_eq!(
            canonical(&raw("[1.5,1.50,1e3,1E+3,2.0]"), Numbers::Any).unwrap(),
            "[1.5,1.50,1e3,1E+3,2.0]"
        );
    }
}
