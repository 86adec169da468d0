//! Which namespaces may use an identity (api.md §10, rbac-security.md §7).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::api::AllowedNamespaces;

/// What `allowedNamespaces` says about a namespace whose labels are not known yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ByName<'a> {
    /// Listed, or every namespace is allowed: existing or not.
    Allowed,
    /// Neither listed nor selectable.
    Denied,
    /// The namespace's labels decide.
    ByLabels(&'a LabelSelector),
}

/// Decides by name as far as that goes: unset denies, a listed name is allowed, `selector: {}` allows
/// every namespace, any other selector needs the labels. List and selector are a union.
#[must_use]
pub fn by_name<'a>(allowed: Option<&'a AllowedNamespaces>, namespace: &str) -> ByName<'a> {
    let Some(allowed) = allowed else {
        return ByName::Denied;
    };
    if allowed.list.iter().any(|listed| listed == namespace) {
        return ByName::Allowed;
    }
    match &allowed.selector {
        None => ByName::Denied,
        Some(selector) if is_empty(selector) => ByName::Allowed,
        Some(selector) => ByName::ByLabels(selector),
    }
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector
        .match_labels
        .as_ref()
        .is_none_or(BTreeMap::is_empty)
        && selector
            .match_expressions
            .as_ref()
            .is_none_or(Vec::is_empty)
}

/// Whether the labels of a namespace match. An invalid selector, stored before the webhook could
/// refuse it, matches nothing.
#[must_use]
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut pairs = selector.match_labels.iter().flatten();
    let mut requirements = selector.match_expressions.iter().flatten();
    pairs.all(|(key, value)| labels.get(key) == Some(value))
        && requirements.all(|requirement| satisfies(requirement, labels).unwrap_or(false))
}

/// `None` when the requirement is invalid.
fn satisfies(
    requirement: &LabelSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> Option<bool> {
    if !is_label_key(&requirement.key) {
        return None;
    }
    let found = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_one_of = || found.is_some_and(|value| values.contains(value));
    match (requirement.operator.as_str(), values.is_empty()) {
        ("In", false) => Some(is_one_of()),
        ("NotIn", false) => Some(!is_one_of()),
        ("Exists", true) => Some(found.is_some()),
        ("DoesNotExist", true) => Some(found.is_none()),
        _ => None,
    }
}

/// `[prefix/]name`: the name at most 63 characters, letters, digits, `-`, `_` and `.` between two
/// letters or digits; the prefix a DNS name.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let ends_well = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let dns = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    name.len() <= 63
        && ends_well(name)
        && name.chars().all(inside)
        && prefix.is_none_or(|prefix| {
            prefix.len() <= 253 && ends_well(prefix) && prefix.chars().all(dns)
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Decides as a pass does: by name, then by the labels `{"tenant": "a"}`; `None` when the
    /// namespace does not exist.
    fn allows(allowed: Value, exists: bool) -> bool {
        let allowed: Option<AllowedNamespaces> =
            serde_json::from_value(allowed).unwrap_or_default();
        let labels = BTreeMap::from([("tenant".to_owned(), "a".to_owned())]);
        match by_name(allowed.as_ref(), "team-a") {
            ByName::Allowed => true,
            ByName::Denied => false,
            ByName::ByLabels(selector) => exists && matches(selector, &labels),
        }
    }

    #[test]
    fn the_truth_table_of_allowed_namespaces() {
        for (allowed, expected) in [
            (json!(null), false),
            (json!({"list": ["team-a"]}), true),
            (json!({"list": ["team-b"]}), false),
            (json!({"selector": {}}), true),
            (json!({"selector": {"matchLabels": {"tenant": "a"}}}), true),
            (json!({"selector": {"matchLabels": {"tenant": "b"}}}), false),
            (
                json!({"list": ["team-a"], "selector": {"matchLabels": {"tenant": "b"}}}),
                true,
            ),
            (
                json!({"list": ["team-b"], "selector": {"matchLabels": {"tenant": "a"}}}),
                true,
            ),
            (
                json!({"list": ["team-b"], "selector": {"matchLabels": {"tenant": "b"}}}),
                false,
            ),
            (json!({}), false),
        ] {
            assert_eq!(allows(allowed.clone(), true), expected, "{allowed}");
        }
    }

    #[test]
    fn a_missing_namespace_is_denied_but_for_list_and_the_empty_selector() {
        assert!(!allows(
            json!({"selector": {"matchLabels": {"tenant": "a"}}}),
            false
        ));
        assert!(allows(json!({"selector": {}}), false));
        assert!(allows(json!({"list": ["team-a"]}), false));
    }

    #[test]
    fn every_operator_means_what_kubernetes_says() {
        for (key, operator, values, expected) in [
            ("tenant", "In", vec!["a", "b"], true),
            ("tenant", "In", vec!["b"], false),
            ("other", "In", vec!["a"], false),
            ("tenant", "NotIn", vec!["a"], false),
            ("tenant", "NotIn", vec!["b"], true),
            ("other", "NotIn", vec!["a"], true),
            ("tenant", "Exists", vec![], true),
            ("other", "Exists", vec![], false),
            ("tenant", "DoesNotExist", vec![], false),
            ("other", "DoesNotExist", vec![], true),
        ] {
            let selector = json!({"selector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
            assert_eq!(allows(selector.clone(), true), expected, "{selector}");
        }
    }

    #[test]
    fn an_invalid_selector_denies() {
        for (key, operator, values) in [
            ("tenant", "NotIn", vec![]),
            ("tenant", "Exists", vec!["a"]),
            ("other", "DoesNotExist", vec!["a"]),
            ("other", "Unlike", vec!["a"]),
            ("-other", "DoesNotExist", vec![]),
            ("a b", "NotIn", vec!["a"]),
            ("", "DoesNotExist", vec![]),
            ("Upper/other", "DoesNotExist", vec![]),
        ] {
            let selector = json!({"selector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}});
            assert!(!allows(selector.clone(), true), "{selector}");
        }
    }
}
