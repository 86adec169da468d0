//! The runtime's machine-readable messages (`-json`), rendered back to text (runner.md §7.3).

use std::collections::VecDeque;

use serde::Deserialize;

use super::result::Changes;
use super::text::strip_ansi;

/// Longer lines are no summary of changes.
const MAX_SUMMARY_LINE: usize = 512;

/// Where a rendered line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// A diagnostic of the runtime.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Diagnostic {
    #[serde(default)]
    severity: String,
    #[serde(default)]
    pub(super) summary: String,
    #[serde(default)]
    pub(super) detail: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    snippet: Option<Snippet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Snippet {
    #[serde(default)]
    context: Option<String>,
}

impl Diagnostic {
    pub(super) fn is_error(&self) -> bool {
        self.severity == "error"
    }

    /// `Error: …`, the address and the detail, as the runtime writes them for people.
    fn render(&self, word: &str) -> String {
        let mut text = format!("{word}: {}\n", self.summary);
        if !self.address.is_empty() {
            text.push_str(&format!("\n  with {}\n", self.address));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!("\n{}\n", self.detail));
        }
        text
    }

    /// The resource whose block the diagnostic points into: `resource "T" "N"` is `T.N`, `data "T" "N"` is
    /// `data.T.N`.
    fn address_of_block(&self) -> Option<String> {
        let context = self.snippet.as_ref()?.context.as_deref()?;
        let (block, rest) = context.split_once(' ')?;
        let (kind, name) = rest
            .strip_prefix('"')?
            .strip_suffix('"')?
            .split_once("\" \"")?;
        if kind.contains('"') || name.contains('"') {
            return None;
        }
        match block {
            "resource" => Some(format!("{kind}.{name}")),
            "data" => Some(format!("data.{kind}.{name}")),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "@message")]
    text: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    diagnostic: Option<Diagnostic>,
    #[serde(default)]
    hook: Option<Hook>,
}

#[derive(Deserialize)]
struct Hook {
    #[serde(default)]
    resource: Option<HookResource>,
}

#[derive(Deserialize)]
struct HookResource {
    #[serde(default)]
    addr: String,
}

/// What the messages of one step told.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Its errors, in order.
    pub(super) errors: Vec<Diagnostic>,
    /// The resources whose apply failed, in order.
    failed: Vec<String>,
    /// The last summary of changes.
    pub(super) changes: Option<Changes>,
}

impl Messages {
    /// Takes a line of output and returns the text to show. A line that is no message is shown as it is: a runtime may
    /// ignore `-json`.
    pub(super) fn line(&mut self, line: &str) -> (Stream, String) {
        let Ok(message) = serde_json::from_str::<Message>(line) else {
            self.note_changes(line);
            return (Stream::Out, strip_ansi(line));
        };
        match (message.kind.as_str(), message.diagnostic) {
            ("diagnostic", Some(diagnostic)) if diagnostic.is_error() => {
                let text = strip_ansi(&diagnostic.render("Error"));
                self.errors.push(diagnostic);
                (Stream::Err, text)
            }
            ("diagnostic", Some(diagnostic)) if diagnostic.severity == "warning" => {
                (Stream::Out, strip_ansi(&diagnostic.render("Warning")))
            }
            (kind, _) => {
                if kind == "apply_errored" {
                    self.failed.extend(
                        message
                            .hook
                            .and_then(|hook| hook.resource)
                            .map(|resource| resource.addr),
                    );
                }
                self.note_changes(&message.text);
                (Stream::Out, strip_ansi(&message.text))
            }
        }
    }

    fn note_changes(&mut self, line: &str) {
        if line.len() <= MAX_SUMMARY_LINE {
            self.changes = parse_changes(&strip_ansi(line)).or(self.changes);
        }
    }

    /// The errors that belong to a resource, with its address: the diagnostic's own; else the next resource whose
    /// apply failed and that no other diagnostic names; else the block that the diagnostic points into.
    pub(super) fn failed_resources(&self) -> Vec<(String, &Diagnostic)> {
        let mut unnamed: VecDeque<&String> = self
            .failed
            .iter()
            .filter(|address| !address.is_empty())
            .collect();
        for address in self
            .errors
            .iter()
            .map(|error| &error.address)
            .filter(|address| !address.is_empty())
        {
            if let Some(at) = unnamed.iter().position(|failed| *failed == address) {
                unnamed.remove(at);
            }
        }
        let mut address_of = |error: &Diagnostic| {
            if error.address.is_empty() {
                unnamed
                    .pop_front()
                    .cloned()
                    .or_else(|| error.address_of_block())
            } else {
                Some(error.address.clone())
            }
        };
        self.errors
            .iter()
            .filter_map(|error| Some((address_of(error)?, error)))
            .collect()
    }
}

/// The counts in the line with which an apply or a destroy ends.
fn parse_changes(line: &str) -> Option<Changes> {
    if let Some(rest) = line.strip_prefix("Destroy complete! Resources: ") {
        let (destroy, _) = counted(rest, "destroyed")?;
        return Some(Changes {
            destroy,
            ..Changes::default()
        });
    }
    let rest = line.strip_prefix("Apply complete! Resources: ")?;
    let (import, rest) = counted(rest, "imported, ").unwrap_or((0, rest));
    let (add, rest) = counted(rest, "added, ")?;
    let (change, rest) = counted(rest, "changed, ")?;
    let (destroy, _) = counted(rest, "destroyed")?;
    Some(Changes {
        add,
        change,
        destroy,
        import,
    })
}

/// A number and a word at the start of a text, and what follows.
fn counted<'a>(text: &'a str, word: &str) -> Option<(usize, &'a str)> {
    let (number, rest) = text.split_once(' ')?;
    Some((number.parse().ok()?, rest.strip_prefix(word)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn error(summary: &str, address: &str) -> String {
        json!({"@level": "error", "@message": format!("Error: {summary}"), "type": "diagnostic",
            "diagnostic": {"severity": "error", "summary": summary, "detail": "first\nsecond", "address": address}})
        .to_string()
    }

    fn errored(address: &str) -> String {
        json!({"@message": format!("{address}: Creation errored after 0s"), "type": "apply_errored",
            "hook": {"resource": {"addr": address}}})
        .to_string()
    }

    fn resources(lines: &[String]) -> Vec<(String, String)> {
        let mut messages = Messages::default();
        for line in lines {
            messages.line(line);
        }
        messages
            .failed_resources()
            .into_iter()
            .map(|(address, d)| (address, d.summary.clone()))
            .collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    }

    #[test]
    fn a_message_is_shown_as_its_text() {
        let line = r#"{"@level":"info","@message":"Terraform 1.11.4","@module":"terraform.ui","type":"version"}"#;
        assert_eq!(
            Messages::default().line(line),
            (Stream::Out, "Terraform 1.11.4".to_owned())
        );
    }

    #[test]
    fn what_is_no_message_passes_through_without_colours() {
        for (line, shown) in [
            ("plain", "plain"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
            ("\x1b[1mbold\x1b[0m", "bold"),
        ] {
            assert_eq!(
                Messages::default().line(line),
                (Stream::Out, shown.to_owned())
            );
        }
    }

    #[test]
    fn an_error_is_rendered_with_address_and_detail_to_standard_error() {
        let mut messages = Messages::default();
        assert_eq!(
            messages.line(&error("local-exec provisioner error", "terraform_data.x")),
            (
                Stream::Err,
                "Error: local-exec provisioner error\n\n  with terraform_data.x\n\nfirst\nsecond\n"
                    .to_owned()
            )
        );
        assert_eq!(messages.errors.len(), 1);
    }

    #[test]
    fn a_warning_is_no_error() {
        let mut messages = Messages::default();
        let line = json!({"@message": "Warning: old", "type": "diagnostic",
            "diagnostic": {"severity": "warning", "summary": "old", "detail": ""}});
        assert_eq!(
            messages.line(&line.to_string()),
            (Stream::Out, "Warning: old\n".to_owned())
        );
        assert!(messages.errors.is_empty());
    }

    #[test]
    fn the_last_summary_of_changes_counts() {
        let mut messages = Messages::default();
        messages.line("Apply complete! Resources: 1 added, 0 changed, 0 destroyed.");
        let line = json!({"@message": "Apply complete! Resources: 4 imported, 1 added, 2 changed, 3 destroyed.",
            "type": "change_summary"});
        messages.line(&line.to_string());
        messages.line("Apply complete! Resources: none");
        assert_eq!(
            messages.changes,
            Some(Changes {
                add: 1,
                change: 2,
                destroy: 3,
                import: 4
            })
        );
    }

    #[test]
    fn summaries_are_recognised_by_their_start() {
        let changes = |add, change, destroy| {
            Some(Changes {
                add,
                change,
                destroy,
                import: 0,
            })
        };
        assert_eq!(
            parse_changes("Destroy complete! Resources: 7 destroyed.\r"),
            changes(0, 0, 7)
        );
        assert_eq!(
            parse_changes(
                "Apply complete! Resources: 1 added, 0 changed, 2 destroyed, 3 forgotten."
            ),
            changes(1, 0, 2)
        );
        assert_eq!(
            parse_changes("Plan: 1 to add, 0 to change, 0 to destroy."),
            None
        );
        let mut messages = Messages::default();
        messages.line("\x1b[1m\x1b[32mDestroy complete! Resources: 1 destroyed.\x1b[0m");
        assert_eq!(messages.changes, changes(0, 0, 1));
        messages.line(&format!(
            "Destroy complete! Resources: 2 destroyed.{}",
            " ".repeat(512)
        ));
        assert_eq!(messages.changes, changes(0, 0, 1));
    }

    #[test]
    fn a_diagnostic_has_its_own_address_first() {
        assert_eq!(
            resources(&[
                errored("a"),
                errored("b"),
                error("of b", "b"),
                error("unnamed", "")
            ]),
            pairs(&[("b", "of b"), ("a", "unnamed")])
        );
    }

    #[test]
    fn a_diagnostic_without_any_address_is_left_out() {
        assert_eq!(
            resources(&[error("lock", ""), error("of a", "a"), errored("a")]),
            pairs(&[("a", "of a")])
        );
    }

    #[test]
    fn the_block_that_a_diagnostic_points_into_names_the_resource() {
        let at = |context: &str| {
            json!({"@message": "x", "type": "diagnostic", "diagnostic": {"severity": "error", "summary": "s",
                "snippet": {"context": context}}})
            .to_string()
        };
        assert_eq!(
            resources(&[
                at(r#"resource "terraform_data" "lb""#),
                at(r#"data "x" "y""#),
                at(r#"module "role""#),
                at(r#"resource "a" "b" "c""#),
            ]),
            pairs(&[("terraform_data.lb", "s"), ("data.x.y", "s")])
        );
    }
}
