//! A cluster's exports: what its machines and pools are given, their hash, and the published copy
//! (inputs.md §2, §4.4; contract.md §5.3).

use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use super::canonical::{CanonicalError, Numbers, canonical};
use super::hash::sum;
use super::json::{Json, JsonError, compact};

/// Most bytes of compact JSON that are published in `status.exports`.
pub const PUBLISHED_EXPORTS_MAX: usize = 65_536;

/// The value of a cluster's output `exports`, kept as it is written; `{}` when it is null or absent.
#[derive(Clone, Default)]
pub struct Exports(Option<Box<RawValue>>);

impl Exports {
    /// The output as a state holds it.
    #[must_use]
    pub fn new(output: Option<&RawValue>) -> Self {
        Self(
            output
                .filter(|value| value.get() != "null")
                .map(ToOwned::to_owned),
        )
    }

    /// Reads recorded exports; nothing, white space and `null` are `{}`.
    ///
    /// # Errors
    /// When the text is not JSON.
    pub fn parse(text: &str) -> Result<Self, CanonicalError> {
        if text.trim_matches([' ', '\t', '\n', '\r']).is_empty() {
            return Ok(Self::default());
        }
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|_| CanonicalError::Unreadable {
                path: "exports".to_owned(),
                problem: JsonError::Malformed,
            })?;
        Ok(Self::new(Some(raw)))
    }

    /// The exports as they are written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().map_or("{}", RawValue::get)
    }

    /// The exports as a value of the generated files and of the inputs hash.
    pub(super) fn json(&self) -> Json {
        self.0
            .clone()
            .map_or_else(|| Json::Object(Vec::new()), Json::Raw)
    }

    /// Their hash; any number is allowed, so `1.5` and `1.50` differ (inputs.md §4.4).
    ///
    /// # Errors
    /// When they are nested too deeply or hold a string that names no character.
    pub fn hash(&self) -> Result<String, CanonicalError> {
        canonical(&self.json(), Numbers::Any).map(|text| sum(&text))
    }

    /// Whether they can be part of a consumer's inputs: whole numbers only. Otherwise consumers wait
    /// with `WaitingForClusterExports` (inputs.md §2.1).
    ///
    /// # Errors
    /// The path of the number that cannot be hashed.
    pub fn check_hashable(&self) -> Result<(), CanonicalError> {
        let exports = Json::object([("exports", self.json())]);
        canonical(&exports, Numbers::Integers).map(drop)
    }

    /// The copy for `status.exports`.
    ///
    /// # Errors
    /// When the compact form exceeds 65536 bytes or cannot be part of an object.
    pub fn published(&self) -> Result<Value, NotPublished> {
        let text = self.0.as_deref().map_or_else(|| "{}".to_owned(), compact);
        let bytes = text.len();
        if bytes > PUBLISHED_EXPORTS_MAX {
            return Err(NotPublished::TooLarge { bytes });
        }
        serde_json::from_str(&text).map_err(|_| NotPublished::Unreadable)
    }
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exports({} bytes)", self.as_str().len())
    }
}

/// Why exports are not published: the note of the Warning event `ExportsNotPublished`, while
/// `status.exports` is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPublished {
    /// They are too large.
    #[error(
        "the output exports is {bytes} bytes as compact JSON, more than {PUBLISHED_EXPORTS_MAX}: \
         status.exports is empty; machines and pools read the state and are not concerned"
    )]
    TooLarge {
        /// Bytes of the compact form.
        bytes: usize,
    },
    /// They are nested too deeply, or hold a string that names no character.
    #[error(
        "the output exports is nested too deeply or holds half a character: status.exports is empty"
    )]
    Unreadable,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn exports(text: &str) -> Exports {
        Exports::parse(text).unwrap()
    }

    const EXPORTS: &str = r#"{"network_id":"net-1","subnets":["a","b"],"mtu":1500}"#;

    #[rstest]
    #[case(
        "{}",
        "h2:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )]
    #[case(
        "null",
        "h2:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )]
    #[case(
        "",
        "h2:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )]
    #[case(
        " \n",
        "h2:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )]
    #[case(
        EXPORTS,
        "h2:6b391921d8f29ffd1ab31552d693202b4c18a2e6254e3f4d2e003ed0ef1541df"
    )]
    fn exports_hash_worked_examples(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(exports(text).hash().unwrap(), expected);
    }

    #[test]
    fn exports_that_are_not_json_are_an_error() {
        assert!(Exports::parse("{").is_err());
        assert!(Exports::parse("{} {}").is_err());
    }

    #[test]
    fn any_number_is_hashed_as_written_but_only_whole_ones_can_be_inputs() {
        assert_ne!(exports("1.5").hash(), exports("1.50").hash());
        let error = exports(r#"{"a":{"ratio":1.5}}"#)
            .check_hashable()
            .unwrap_err();
        assert_eq!(
            error,
            CanonicalError::NotAnInteger {
                path: "exports.a.ratio".into()
            }
        );
        exports(EXPORTS).check_hashable().unwrap();
    }

    #[test]
    fn exports_are_given_on_verbatim_and_null_as_an_empty_object() {
        let text = "{\"b\": 1.50,\n \"a\": []}";
        assert_eq!(exports(text).as_str(), text);
        assert_eq!(Exports::new(Some(RawValue::NULL)).as_str(), "{}");
        assert_eq!(Exports::new(None).as_str(), "{}");
    }

    #[rstest]
    #[case("null", json!({}))]
    #[case("{}", json!({}))]
    #[case("[1, 2]", json!([1, 2]))]
    #[case("\"text\"", json!("text"))]
    #[case("7", json!(7))]
    #[case("true", json!(true))]
    fn any_json_is_published(#[case] text: &str, #[case] expected: Value) {
        assert_eq!(exports(text).published(), Ok(expected));
    }

    #[test]
    fn exports_of_65536_compact_bytes_are_published_and_65537_are_not() {
        let of = |bytes: usize| exports(&format!("{{ \"a\" : \"{}\" }}", "x".repeat(bytes - 8)));
        assert!(of(65_536).published().is_ok());
        assert_eq!(
            of(65_537).published(),
            Err(NotPublished::TooLarge { bytes: 65_537 })
        );
    }

    #[test]
    fn exports_nested_too_deeply_are_not_published() {
        let deep = exports(&format!("{}{}", "[".repeat(1000), "]".repeat(1000)));
        assert_eq!(deep.published(), Err(NotPublished::Unreadable));
    }
}
