//! Terraform's state as it lies in Secrets: reading it, keeping its labels, adopting it.

use crate::names::Labels;

/// A label set as the text of a selector.
#[must_use]
pub fn selector_text(labels: &Labels) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    pairs.join(",")
}
