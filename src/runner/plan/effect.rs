//! The canonical effect of one change: what its fingerprint covers (runner.md §6.3).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Change, ResourceChange};
use crate::runner::gojson;

/// What a change does, reduced to what must be the same for two plans to be the same. Field order is part of the
/// encoding.
#[derive(Serialize, Default)]
pub(super) struct Effect<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    importing: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_address: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_unknown: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_sensitive: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<PathChange<'a>>,
}

/// One place at which a value changes.
#[derive(Serialize)]
struct PathChange<'a> {
    path: Vec<Segment<'a>>,
    before: &'a Value,
    after: &'a Value,
    #[serde(skip_serializing_if = "is_false")]
    before_absent: bool,
    #[serde(skip_serializing_if = "is_false")]
    after_absent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_sensitive: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_sensitive: Option<Value>,
}

/// A step into a value.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

/// Serde's skip predicates take references.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The effect of a resource change: that of its values, and where it comes from.
pub(super) fn of_resource(resource: &ResourceChange) -> Effect<'_> {
    Effect {
        previous_address: resource
            .moves()
            .then_some(resource.previous_address.as_str()),
        ..of_output(&resource.change)
    }
}

/// The effect of a change of values. A creation or read is described by its result, a deletion by nothing, anything
/// else by the places that change.
pub(super) fn of_output(change: &Change) -> Effect<'_> {
    // A raw value that was parsed once compacts without an error.
    let importing = change
        .importing
        .as_deref()
        .and_then(|raw| gojson::compact(raw).ok());
    if change.is_exactly("create") || change.is_exactly("read") {
        return Effect {
            importing,
            after: Some(&change.after).filter(|value| !value.is_null()),
            after_unknown: normalised(Some(&change.after_unknown)),
            after_sensitive: normalised(Some(&change.after_sensitive)),
            ..Effect::default()
        };
    }
    let mut paths = Vec::new();
    if !change.is_exactly("delete") && !change.is_exactly("forget") {
        let whole = Place {
            before: Some(&change.before),
            after: Some(&change.after),
            unknown: Some(&change.after_unknown),
            before_sensitive: Some(&change.before_sensitive),
            after_sensitive: Some(&change.after_sensitive),
        };
        walk(&mut Vec::new(), whole, &mut paths);
    }
    Effect {
        importing,
        paths,
        ..Effect::default()
    }
}

/// The two values at one place with their markers; an absent value or marker is `None`.
#[derive(Clone, Copy)]
struct Place<'a> {
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    unknown: Option<&'a Value>,
    before_sensitive: Option<&'a Value>,
    after_sensitive: Option<&'a Value>,
}

impl<'a> Place<'a> {
    /// The place one step further in.
    fn at(self, segment: Segment<'_>) -> Self {
        Self {
            before: self.before.and_then(|value| member(value, segment)),
            after: self.after.and_then(|value| member(value, segment)),
            unknown: self.unknown.and_then(|marker| descend(marker, segment)),
            before_sensitive: self
                .before_sensitive
                .and_then(|marker| descend(marker, segment)),
            after_sensitive: self
                .after_sensitive
                .and_then(|marker| descend(marker, segment)),
        }
    }

    /// The steps that lead further in, when both sides are containers of one sort and not both empty.
    fn members(self) -> Option<Vec<Segment<'a>>> {
        match (self.before?, self.after?) {
            (Value::Object(before), Value::Object(after))
                if !before.is_empty() || !after.is_empty() =>
            {
                let marked = self.unknown.and_then(Value::as_object);
                let keys: BTreeSet<&str> = before
                    .keys()
                    .chain(after.keys())
                    .chain(marked.into_iter().flat_map(|m| m.keys()))
                    .map(String::as_str)
                    .collect();
                Some(keys.into_iter().map(Segment::Key).collect())
            }
            (Value::Array(before), Value::Array(after))
                if !before.is_empty() || !after.is_empty() =>
            {
                let marked = self.unknown.and_then(Value::as_array).map_or(0, Vec::len);
                let length = before.len().max(after.len()).max(marked);
                Some((0..length).map(Segment::Index).collect())
            }
            _ => None,
        }
    }

    /// Whether a place without further members changes.
    fn changes(self) -> bool {
        normalised(self.unknown).is_some()
            || self.before.is_some() != self.after.is_some()
            || self.before.unwrap_or(&Value::Null) != self.after.unwrap_or(&Value::Null)
            || normalised(self.before_sensitive) != normalised(self.after_sensitive)
    }
}

fn walk<'a>(path: &mut Vec<Segment<'a>>, place: Place<'a>, found: &mut Vec<PathChange<'a>>) {
    if place.unknown == Some(&Value::Bool(true)) {
        // The values cannot be told, so neither can their absence.
        found.push(PathChange {
            path: path.clone(),
            before: &Value::Null,
            after: &Value::Null,
            before_absent: false,
            after_absent: false,
            unknown: Some(Value::Bool(true)),
            before_sensitive: normalised(place.before_sensitive),
            after_sensitive: normalised(place.after_sensitive),
        });
    } else if let Some(members) = place.members() {
        for segment in members {
            path.push(segment);
            walk(path, place.at(segment), found);
            path.pop();
        }
    } else if place.changes() {
        found.push(PathChange {
            path: path.clone(),
            before: place.before.unwrap_or(&Value::Null),
            after: place.after.unwrap_or(&Value::Null),
            before_absent: place.before.is_none(),
            after_absent: place.after.is_none(),
            unknown: normalised(place.unknown),
            before_sensitive: normalised(place.before_sensitive),
            after_sensitive: normalised(place.after_sensitive),
        });
    }
}

fn member<'a>(value: &'a Value, segment: Segment<'_>) -> Option<&'a Value> {
    match segment {
        Segment::Key(key) => value.as_object()?.get(key),
        Segment::Index(index) => value.as_array()?.get(index),
    }
}

/// The marker of a member: a bool marks every member, a container marks by key or index.
fn descend<'a>(marker: &'a Value, segment: Segment<'_>) -> Option<&'a Value> {
    if marker.is_boolean() {
        Some(marker)
    } else {
        member(marker, segment)
    }
}

/// A marker reduced to what it marks: `true` stays, an object keeps only marking members, an array keeps its length;
/// what marks nothing is nothing.
fn normalised(marker: Option<&Value>) -> Option<Value> {
    match marker? {
        Value::Bool(true) => Some(Value::Bool(true)),
        Value::Object(members) => {
            let marking: serde_json::Map<String, Value> = members
                .iter()
                .filter_map(|(key, member)| Some((key.clone(), normalised(Some(member))?)))
                .collect();
            (!marking.is_empty()).then_some(Value::Object(marking))
        }
        Value::Array(items) => {
            let items: Vec<Option<Value>> =
                items.iter().map(|item| normalised(Some(item))).collect();
            items
                .iter()
                .any(Option::is_some)
                .then(|| Value::Array(items.into_iter().map(Option::unwrap_or_default).collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn effect_of(change: &str) -> String {
        let change: Change = serde_json::from_str(change).unwrap();
        String::from_utf8(gojson::to_vec(&of_output(&change)).unwrap()).unwrap()
    }

    #[test]
    fn a_deletion_has_no_effect_object() {
        assert_eq!(
            effect_of(r#"{"actions":["delete"],"before":{"a":1},"after":null}"#),
            "{}"
        );
        assert_eq!(
            effect_of(r#"{"actions":["forget"],"before":{"a":1},"after":null}"#),
            "{}"
        );
    }

    #[test]
    fn a_creation_is_described_by_its_result() {
        assert_eq!(
            effect_of(
                r#"{"actions":["create"],"before":null,"after":{"b":[],"a":1.50},
                    "after_unknown":{"id":true,"b":[false],"c":{}},"after_sensitive":{"a":false}}"#
            ),
            r#"{"after":{"a":1.50,"b":[]},"after_unknown":{"id":true}}"#
        );
    }

    #[test]
    fn an_empty_object_is_written_and_null_is_not() {
        assert_eq!(
            effect_of(r#"{"actions":["create"],"after":{}}"#),
            r#"{"after":{}}"#
        );
        assert_eq!(effect_of(r#"{"actions":["create"],"after":null}"#), "{}");
    }

    #[test]
    fn an_update_lists_only_the_places_that_change() {
        assert_eq!(
            effect_of(
                r#"{"actions":["update"],"before":{"input":{"size":1,"same":true},"gone":1},
                    "after":{"input":{"size":2,"same":true},"new":null}}"#
            ),
            concat!(
                r#"{"paths":[{"path":["gone"],"before":1,"after":null,"after_absent":true},"#,
                r#"{"path":["input","size"],"before":1,"after":2},"#,
                r#"{"path":["new"],"before":null,"after":null,"before_absent":true}]}"#
            )
        );
    }

    #[test]
    fn an_unknown_place_hides_its_values() {
        assert_eq!(
            effect_of(
                r#"{"actions":["delete","create"],"before":{"id":"a","l":[1]},"after":{"l":[1]},
                    "after_unknown":{"id":true,"l":[false,true]},"before_sensitive":{"id":true},"after_sensitive":true}"#
            ),
            concat!(
                r#"{"paths":[{"path":["id"],"before":null,"after":null,"unknown":true,"before_sensitive":true,"after_sensitive":true},"#,
                r#"{"path":["l",0],"before":1,"after":1,"after_sensitive":true},"#,
                r#"{"path":["l",1],"before":null,"after":null,"unknown":true,"after_sensitive":true}]}"#
            )
        );
    }

    #[test]
    fn a_change_of_sensitivity_alone_is_a_change() {
        assert_eq!(
            effect_of(
                r#"{"actions":["update"],"before":{"a":"x"},"after":{"a":"x"},"after_sensitive":{"a":true}}"#
            ),
            r#"{"paths":[{"path":["a"],"before":"x","after":"x","after_sensitive":true}]}"#
        );
    }

    #[test]
    fn a_value_that_becomes_a_container_is_one_place() {
        assert_eq!(
            effect_of(r#"{"actions":["update"],"before":null,"after":{"a":{"b":"<"}}}"#),
            r#"{"paths":[{"path":[],"before":null,"after":{"a":{"b":"\u003c"}}}]}"#
        );
    }

    #[test]
    fn an_import_is_part_of_the_effect() {
        assert_eq!(
            effect_of(
                r#"{"actions":["no-op"],"importing":{ "unknown": true, "id": "i" },"before":{"a":1},"after":{"a":1}}"#
            ),
            r#"{"importing":{"unknown":true,"id":"i"}}"#
        );
    }

    #[test]
    fn a_move_is_part_of_the_effect() {
        let moved: ResourceChange = serde_json::from_value(
            json!({"address": "b", "previous_address": "a", "change": {"actions": ["no-op"]}}),
        )
        .unwrap();
        assert_eq!(
            gojson::to_vec(&of_resource(&moved)).unwrap(),
            br#"{"previous_address":"a"}"#
        );
    }

    #[test]
    fn numbers_differ_by_their_text() {
        assert_eq!(
            effect_of(r#"{"actions":["update"],"before":{"n":1.5},"after":{"n":1.50}}"#),
            r#"{"paths":[{"path":["n"],"before":1.5,"after":1.50}]}"#
        );
    }
}
