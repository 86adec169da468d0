//! Reading a value by the shape the contract expects, with problems that never quote it
//! (contract.md §5).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::problem::Problem;
use crate::state::Output;

/// A rule that a value breaks, in words.
pub(super) type Broken = String;

/// Reads one output by the contract's shape; null and absent are `None`.
pub(super) fn field<T>(
    outputs: &BTreeMap<String, Output>,
    name: &str,
    read: fn(&Value) -> Result<T, Broken>,
) -> Result<Option<T>, Problem> {
    let Some(raw) = outputs.get(name).and_then(Output::known) else {
        return Ok(None);
    };
    let invalid = |rule: Broken| Problem::invalid(name, rule);
    let value: Value = serde_json::from_str(raw.get())
        .map_err(|_| invalid("it is nested too deeply or holds half a character".to_owned()))?;
    read(&value).map(Some).map_err(invalid)
}

/// Reads one output that may be neither null nor absent. Terraform writes no entry for a null root
/// output, so an absent one is missing only once an apply has succeeded (C-13a, C-14).
pub(super) fn required<T>(
    outputs: &BTreeMap<String, Output>,
    name: &str,
    applied: bool,
    read: fn(&Value) -> Result<T, Broken>,
) -> Result<T, Problem> {
    field(outputs, name, read)?.ok_or_else(|| {
        if outputs.contains_key(name) || !applied {
            Problem::pending(name)
        } else {
            Problem::missing(name)
        }
    })
}

/// A value and the words for where it is.
pub(super) struct At<'a> {
    place: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    /// The output itself.
    pub(super) fn output(value: &'a Value) -> Self {
        Self {
            place: "it".to_owned(),
            value,
        }
    }

    fn is_not(&self, shape: &str) -> Broken {
        format!("{} is not {shape}", self.place)
    }

    /// Fails with `rule` unless `holds`.
    pub(super) fn require(&self, holds: bool, rule: &str) -> Result<(), Broken> {
        holds
            .then_some(())
            .ok_or_else(|| format!("{} {rule}", self.place))
    }

    fn object(&self) -> Result<&'a Map<String, Value>, Broken> {
        self.value
            .as_object()
            .ok_or_else(|| self.is_not("an object"))
    }

    fn inside(&self, name: &str) -> String {
        match self.place.as_str() {
            "it" => name.to_owned(),
            place => format!("{name} of {place}"),
        }
    }

    /// An attribute that must be there; it may be null. Other attributes are ignored.
    pub(super) fn attribute(&self, name: &str) -> Result<At<'a>, Broken> {
        let place = self.inside(name);
        match self.object()?.get(name) {
            Some(value) => Ok(At { place, value }),
            None => Err(format!("{place} is missing")),
        }
    }

    /// An attribute that may be absent or null.
    pub(super) fn optional(&self, name: &str) -> Result<Option<At<'a>>, Broken> {
        let value = self.object()?.get(name);
        Ok(value.filter(|value| !value.is_null()).map(|value| At {
            place: self.inside(name),
            value,
        }))
    }

    /// The elements of a list, counted from 1 in messages.
    pub(super) fn list(&self, element: &str) -> Result<Vec<At<'a>>, Broken> {
        let items = self.value.as_array().ok_or_else(|| self.is_not("a list"))?;
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, value)| At {
                place: format!("{element} {}", index + 1),
                value,
            })
            .collect())
    }

    pub(super) fn string(&self) -> Result<&'a str, Broken> {
        self.value.as_str().ok_or_else(|| self.is_not("a string"))
    }

    /// The text, empty when null.
    pub(super) fn string_or_null(&self) -> Result<&'a str, Broken> {
        if self.value.is_null() {
            Ok("")
        } else {
            self.string()
        }
    }

    pub(super) fn bool(&self) -> Result<bool, Broken> {
        self.value
            .as_bool()
            .ok_or_else(|| self.is_not("true or false"))
    }

    /// A whole number of 64 bits, 0 when null.
    pub(super) fn integer_or_null(&self) -> Result<i64, Broken> {
        match self.value {
            Value::Null => Ok(0),
            Value::Number(number) => number.as_i64().ok_or_else(|| self.is_not("a whole number")),
            _ => Err(self.is_not("a number")),
        }
    }

    /// A map of strings.
    pub(super) fn strings(&self) -> Result<BTreeMap<String, String>, Broken> {
        self.object()?
            .iter()
            .map(|(key, value)| {
                let text = value
                    .as_str()
                    .ok_or_else(|| self.is_not("a map of strings"))?;
                Ok((key.clone(), text.to_owned()))
            })
            .collect()
    }

    /// A text of `min` to `max` characters, as Kubernetes counts them.
    pub(super) fn text(&self, min: usize, max: usize) -> Result<&'a str, Broken> {
        let text = self.string()?;
        let length = text.chars().count();
        self.require(
            (min..=max).contains(&length),
            &format!("has not {min} to {max} characters"),
        )?;
        Ok(text)
    }
}
