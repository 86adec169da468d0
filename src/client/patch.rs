//! The difference of two versions of an object as a JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// What turns `base` into `next`; `None` when they are equal. A member that `next` lacks becomes
/// `null`, a list is replaced as a whole.
#[must_use]
pub fn merge_diff(base: &Value, next: &Value) -> Option<Value> {
    if base == next {
        return None;
    }
    let (Value::Object(base), Value::Object(next)) = (base, next) else {
        return Some(next.clone());
    };
    let removed = base
        .keys()
        .filter(|key| !next.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = next.iter().filter_map(|(key, value)| {
        let difference = base
            .get(key)
            .map_or_else(|| Some(value.clone()), |old| merge_diff(old, value));
        Some((key.clone(), difference?))
    });
    Some(Value::Object(removed.chain(changed).collect::<Map<_, _>>()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::merge_diff;

    #[test]
    fn equal_documents_need_no_patch() {
        assert_eq!(
            merge_diff(&json!({"a": {"b": [1]}}), &json!({"a": {"b": [1]}})),
            None
        );
    }

    #[test]
    fn only_what_differs_is_in_the_patch() {
        let base = json!({"a": {"x": 1, "y": 2}, "gone": true, "list": [1, 2]});
        let next = json!({"a": {"x": 1, "y": 3}, "list": [2], "new": {"z": 0}});
        let patch = json!({"a": {"y": 3}, "gone": null, "list": [2], "new": {"z": 0}});
        assert_eq!(merge_diff(&base, &next), Some(patch));
    }
}
