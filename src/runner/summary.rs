//! One short text for people about a failure, without secrets (runner.md §7.2, R-17).

use serde::Deserialize;

use super::messages::{Diagnostic, Messages};
use super::redact::Redactor;
use super::result::PlanReport;
use super::steps::StepName;
use super::text::{first_line, strip_ansi};
use crate::text::cut;

/// Most bytes of a summary.
pub(super) const MAX_BYTES: usize = 512;
/// Most failed resources that are listed.
const MAX_RESOURCES: usize = 10;

/// A step that failed, with what it printed.
pub(super) struct FailedStep<'a> {
    pub(super) name: StepName,
    pub(super) exit: i32,
    /// Why it did not start, or how it ended if not with an exit code.
    pub(super) error: Option<&'a str>,
    pub(super) stdout: &'a [u8],
    pub(super) stderr: &'a str,
    pub(super) messages: &'a Messages,
}

/// The summary of a failed step: its diagnostics if it prints them for machines, else the errors on standard error,
/// else its name and exit code.
pub(super) fn of_step(step: &FailedStep<'_>, redactor: &Redactor) -> String {
    let diagnostics = match step.name {
        StepName::Validate => validate_errors(step.stdout),
        _ => step.messages.errors.clone(),
    };
    let summary = of_diagnostics(&diagnostics, redactor)
        .or_else(|| of_stderr(step.name, step.stderr, redactor))
        .unwrap_or_else(|| redactor.redact(&fallback(step)));
    cut(&summary, MAX_BYTES).to_owned()
}

/// The errors in the output of `validate -json`.
fn validate_errors(stdout: &[u8]) -> Vec<Diagnostic> {
    #[derive(Deserialize, Default)]
    struct Validation {
        #[serde(default)]
        diagnostics: Vec<Diagnostic>,
    }
    let validation: Validation = serde_json::from_slice(stdout).unwrap_or_default();
    validation
        .diagnostics
        .into_iter()
        .filter(Diagnostic::is_error)
        .collect()
}

fn of_diagnostics(errors: &[Diagnostic], redactor: &Redactor) -> Option<String> {
    let lines: Vec<String> = errors
        .iter()
        .map(|error| {
            let (summary, detail) = (
                redactor.redact(&error.summary),
                redactor.redact(&error.detail),
            );
            match first_line(&detail) {
                "" => format!("Error: {summary}"),
                detail => format!("Error: {summary}: {detail}"),
            }
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The lines on standard error that tell an error. Some commands print theirs without the usual word.
fn of_stderr(step: StepName, stderr: &str, redactor: &Redactor) -> Option<String> {
    let clean = redactor.redact(&strip_ansi(stderr));
    let lines: Vec<&str> = clean
        .lines()
        .map(|line| line.strip_prefix("│ ").unwrap_or(line))
        .collect();
    let errors: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| line.starts_with("Error: "))
        .collect();
    if !errors.is_empty() {
        return Some(errors.join("\n"));
    }
    let tells_without_prefix = matches!(
        step,
        StepName::ForceUnlock | StepName::StatePush | StepName::StateList
    );
    let failure = lines
        .iter()
        .find(|line| line.starts_with("Failed to "))
        .filter(|_| tells_without_prefix)?;
    Some((*failure).to_owned())
}

fn fallback(step: &FailedStep<'_>) -> String {
    match step.error {
        Some(error) => format!("step {} failed: {error}", step.name),
        None => format!("step {} failed with exit code {}", step.name, step.exit),
    }
}

/// The resources that failed, as `<address>: <first line of the summary>`.
pub(super) fn failed_resources(messages: &Messages, redactor: &Redactor) -> Vec<String> {
    let mut resources: Vec<String> = Vec::new();
    for (address, error) in messages.failed_resources() {
        let summary = redactor.redact(&strip_ansi(&error.summary));
        let entry = format!("{}: {}", redactor.redact(&address), first_line(&summary));
        let entry = cut(&entry, MAX_BYTES).to_owned();
        if !resources.contains(&entry) {
            resources.push(entry);
        }
    }
    resources.truncate(MAX_RESOURCES);
    resources
}

/// Why a guarded apply stopped: how many resources it would delete, and as many of them as fit.
pub(super) fn of_blocked(destructive: &[String], redactor: &Redactor) -> String {
    let count = destructive.len();
    let noun = if count == 1 { "resource" } else { "resources" };
    let mut summary = format!("nothing was applied: the plan deletes or replaces {count} {noun}: ");
    for (listed, address) in destructive.iter().enumerate() {
        let separator = if listed == 0 { "" } else { ", " };
        let entry = format!("{separator}{}", redactor.redact(address));
        let left = count - listed - 1;
        // Room for what must follow if this is the last address that fits.
        let tail = if left == 0 {
            String::new()
        } else {
            format!(" and {left} more")
        };
        if summary.len() + entry.len() + tail.len() > MAX_BYTES {
            let joint = if listed == 0 { "" } else { " and " };
            let rest = if listed == 0 {
                format!("{count} in all")
            } else {
                format!("{} more", left + 1)
            };
            summary.push_str(&format!("{joint}{rest}"));
            return summary;
        }
        summary.push_str(&entry);
    }
    summary
}

/// Why an approved apply stopped.
pub(super) fn of_changed_plan(approved: &str, plan: &PlanReport, redactor: &Redactor) -> String {
    let summary = format!(
        "nothing was applied: the plan is not the approved one any more; approved {approved}, planned {} \
         ({} to create, {} to update, {} to replace, {} to delete)",
        plan.hash, plan.create, plan.update, plan.replace, plan.delete
    );
    cut(&redactor.redact(&summary), MAX_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::redact::Secrets;
    use super::*;

    fn redactor() -> Redactor {
        let mut secrets = Secrets::default();
        secrets.add("planted-secret");
        Redactor::new(&secrets)
    }

    fn summary(name: StepName, stdout: &str, stderr: &str) -> String {
        let messages = Messages::default();
        let step = FailedStep {
            name,
            exit: 1,
            error: None,
            stdout: stdout.as_bytes(),
            stderr,
            messages: &messages,
        };
        of_step(&step, &redactor())
    }

    #[test]
    fn validate_is_told_by_its_diagnostics() {
        let stdout = r#"{"valid":false,"diagnostics":[
            {"severity":"warning","summary":"old","detail":"x"},
            {"severity":"error","summary":"Unsupported argument","detail":"An argument named \"planted-secret\" is not expected here.\nMore."},
            {"severity":"error","summary":"No detail","detail":""}]}"#;
        assert_eq!(
            summary(StepName::Validate, stdout, "Error: not this"),
            "Error: Unsupported argument: An argument named \"(sensitive)\" is not expected here.\nError: No detail"
        );
    }

    #[test]
    fn only_the_error_lines_of_standard_error_are_told() {
        let stderr = "noise planted-secret\n\n\x1b[31m│\x1b[0m \x1b[1mError: \x1b[0mno planted-secret\n│ detail\nError: second\n";
        assert_eq!(
            summary(StepName::Init, "", stderr),
            "Error: no (sensitive)\nError: second"
        );
    }

    #[test]
    fn state_commands_tell_failures_without_the_word_error() {
        let stderr = "Failed to write state: newer\nFailed to again\n";
        assert_eq!(
            summary(StepName::StatePush, "", stderr),
            "Failed to write state: newer"
        );
        assert_eq!(
            summary(StepName::Init, "", stderr),
            "step init failed with exit code 1"
        );
    }

    #[test]
    fn a_step_that_did_not_start_says_why() {
        let messages = Messages::default();
        let step = FailedStep {
            name: StepName::Init,
            exit: 1,
            error: Some("cannot start /x: No such file"),
            stdout: b"",
            stderr: "",
            messages: &messages,
        };
        assert_eq!(
            of_step(&step, &redactor()),
            "step init failed: cannot start /x: No such file"
        );
    }

    #[test]
    fn a_summary_is_cut_after_it_is_redacted() {
        let stderr = format!("Error: {}planted-secret", "x".repeat(500));
        let summary = summary(StepName::Init, "", &stderr);
        assert_eq!(summary, format!("Error: {}(sens", "x".repeat(500)));
    }

    #[test]
    fn a_block_lists_what_fits_and_counts_the_rest() {
        assert_eq!(
            of_blocked(
                &["a (delete)".to_owned(), "b (replace)".to_owned()],
                &redactor()
            ),
            "nothing was applied: the plan deletes or replaces 2 resources: a (delete), b (replace)"
        );
        let many: Vec<String> = (0..40)
            .map(|i| format!("terraform_data.{i:02} (delete)"))
            .collect();
        let summary = of_blocked(&many, &redactor());
        assert!(summary.len() <= 512, "{} bytes", summary.len());
        assert!(
            summary.ends_with("terraform_data.14 (delete) and 25 more"),
            "{summary}"
        );
        let long = of_blocked(&["x".repeat(600), "y".to_owned()], &redactor());
        assert_eq!(
            long,
            "nothing was applied: the plan deletes or replaces 2 resources: 2 in all"
        );
    }

    #[test]
    fn failed_resources_are_listed_once_and_ten_at_most() {
        let mut messages = Messages::default();
        for i in [1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] {
            messages.line(&format!(
                r#"{{"@message":"x","type":"diagnostic","diagnostic":{{"severity":"error","summary":"planted-secret\nmore","address":"r{i}"}}}}"#
            ));
        }
        let resources = failed_resources(&messages, &redactor());
        assert_eq!(resources.len(), 10);
        assert_eq!(
            (resources[0].as_str(), resources[9].as_str()),
            ("r1: (sensitive)", "r10: (sensitive)")
        );
    }
}
