//! The value types of flags: how each is read from the command line and printed in the `FLAG:` lines.

use std::collections::BTreeMap;

use super::duration::GoDuration;

/// A type a flag can have.
pub(super) trait FlagValue: Sized + Default {
    /// Whether the flag may stand without a value, which then is `true`.
    const BOOLEAN: bool = false;
    /// What stands for the value in the help text.
    const VALUE_NAME: &'static str;

    /// Reads the texts given for the flag, in order, never empty. Errors continue the sentence "the value ...".
    fn parse(texts: &[&str]) -> Result<Self, String>;

    /// The value as Go's flag library prints it.
    fn show(&self) -> String;
}

/// The text that counts when a flag that takes one value is repeated: the last.
fn last<'a>(texts: &[&'a str]) -> &'a str {
    texts.last().copied().unwrap_or_default()
}

impl FlagValue for bool {
    const BOOLEAN: bool = true;
    const VALUE_NAME: &'static str = "true|false";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        match last(texts) {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err("is neither true nor false".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagValue for i64 {
    const VALUE_NAME: &'static str = "int";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        integer(last(texts)).ok_or_else(|| "is not a whole number".to_owned())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A whole number as Go reads one with base 0: decimal, `0x`, `0o`, `0b`, with an optional sign.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((radix, lower.strip_prefix(prefix)?)))
        .or_else(|| Some((8, lower.strip_prefix('0').filter(|rest| !rest.is_empty())?)))
        .unwrap_or((10, lower.as_str()));
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

impl FlagValue for GoDuration {
    const VALUE_NAME: &'static str = "duration";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        last(texts)
            .parse::<Self>()
            .map_err(|error| error.to_string())
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagValue for String {
    const VALUE_NAME: &'static str = "string";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        Ok(last(texts).to_owned())
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl FlagValue for Vec<String> {
    const VALUE_NAME: &'static str = "strings";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        Ok(items(texts).map(str::to_owned).collect())
    }

    fn show(&self) -> String {
        format!("[{}]", self.join(","))
    }
}

impl FlagValue for Vec<i64> {
    const VALUE_NAME: &'static str = "ints";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        items(texts)
            .map(|item| {
                integer(item.trim())
                    .ok_or_else(|| format!("has the item {item:?}, which is not a whole number"))
            })
            .collect()
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(i64::to_string).collect();
        format!("[{}]", items.join(","))
    }
}

/// The items of a list flag: commas separate them, and every repetition adds its own.
fn items<'a>(texts: &[&'a str]) -> impl Iterator<Item = &'a str> {
    texts
        .iter()
        .filter(|text| !text.is_empty())
        .flat_map(|text| text.split(','))
        .collect::<Vec<_>>()
        .into_iter()
}

/// `Name=true,Other=false`: which feature gates are switched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct GateMap(pub(super) BTreeMap<String, bool>);

impl FlagValue for GateMap {
    const VALUE_NAME: &'static str = "name=true|false,...";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        items(texts)
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| {
                let (name, value) = item
                    .split_once('=')
                    .ok_or_else(|| format!("has the item {item:?}, which lacks =true or =false"))?;
                let value = bool::parse(&[value.trim()]).map_err(|_| {
                    format!("has the item {item:?}, which is neither true nor false")
                })?;
                Ok((name.trim().to_owned(), value))
            })
            .collect::<Result<_, String>>()
            .map(Self)
    }

    fn show(&self) -> String {
        let items: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        items.join(",")
    }
}

/// A Kubernetes quantity such as `64Mi`; kept as written, because no flag of this type changes anything here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Quantity(pub(super) String);

impl FlagValue for Quantity {
    const VALUE_NAME: &'static str = "quantity";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        let text = last(texts);
        let number = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = number
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(number.len());
        let (digits, suffix) = number.split_at(end);
        let number_is_valid =
            digits.contains(|c: char| c.is_ascii_digit()) && digits.matches('.').count() <= 1;
        let exponent_is_valid = || {
            suffix
                .strip_prefix(['e', 'E'])
                .map(|exponent| exponent.strip_prefix(['+', '-']).unwrap_or(exponent))
                .is_some_and(|exponent| {
                    !exponent.is_empty() && exponent.bytes().all(|byte| byte.is_ascii_digit())
                })
        };
        const SUFFIXES: [&str; 16] = [
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
        ];
        if number_is_valid && (SUFFIXES.contains(&suffix) || exponent_is_valid()) {
            Ok(Self(text.to_owned()))
        } else {
            Err("is not a quantity such as 0, 512Ki or 1M".to_owned())
        }
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// `--version`: bare, `raw`, or a version to report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum VersionValue {
    /// Nothing is printed, the built-in version is reported.
    #[default]
    Unset,
    /// Print one line and end.
    Line,
    /// Print all that is known about the build and end.
    Raw,
    /// Run, reporting this version.
    Report(String),
}

impl FlagValue for VersionValue {
    const BOOLEAN: bool = true;
    const VALUE_NAME: &'static str = "true|raw|vX.Y.Z";

    fn parse(texts: &[&str]) -> Result<Self, String> {
        match last(texts) {
            "raw" => Ok(Self::Raw),
            version if version.starts_with('v') => Ok(Self::Report(version.to_owned())),
            other => match bool::parse(&[other]) {
                Ok(true) => Ok(Self::Line),
                Ok(false) => Ok(Self::Unset),
                Err(_) => {
                    Err("is none of true, false, raw and a version such as v1.2.3".to_owned())
                }
            },
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Unset => "false".to_owned(),
            Self::Line => "true".to_owned(),
            Self::Raw => "raw".to_owned(),
            Self::Report(version) => version.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("10", Some(10))]
    #[case("-1", Some(-1))]
    #[case("+7", Some(7))]
    #[case("0", Some(0))]
    #[case("0x10", Some(16))]
    #[case("010", Some(8))]
    #[case("--1", None)]
    #[case("1.5", None)]
    #[case("ten", None)]
    #[case("", None)]
    fn integers_read_as_go_reads_them(#[case] text: &str, #[case] expected: Option<i64>) {
        assert_eq!(i64::parse(&[text]).ok(), expected);
    }

    #[rstest]
    #[case("0", true)]
    #[case("64Mi", true)]
    #[case("1.5Gi", true)]
    #[case("1e3", true)]
    #[case("100m", true)]
    #[case("Mi", false)]
    #[case("1Mib", false)]
    #[case("", false)]
    fn quantities_are_told_from_other_text(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(Quantity::parse(&[text]).is_ok(), valid);
    }

    #[test]
    fn the_last_of_a_repeated_flag_counts_and_lists_add_up() {
        assert_eq!(String::parse(&["a", "b"]).unwrap(), "b");
        assert_eq!(
            Vec::<String>::parse(&["a,b", "c"]).unwrap(),
            ["a", "b", "c"]
        );
    }

    #[rstest]
    #[case("true", VersionValue::Line)]
    #[case("false", VersionValue::Unset)]
    #[case("raw", VersionValue::Raw)]
    #[case("v1.2.3", VersionValue::Report("v1.2.3".to_owned()))]
    fn version_forms(#[case] text: &str, #[case] expected: VersionValue) {
        assert_eq!(VersionValue::parse(&[text]).unwrap(), expected);
    }
}
