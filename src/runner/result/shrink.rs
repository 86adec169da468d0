//! Fitting a result into a termination message (runner.md §10).

use super::{ErrorReport, PlanReport, RunResult};
use crate::runner::gojson;

/// Most bytes of a termination message. Of a longer one the kubelet keeps the end, which is no document any more.
const MAX_BYTES: usize = 4096;
/// Tails shorter than this many bytes are dropped rather than halved once more.
const LEAST_TAIL: usize = 16;

impl RunResult {
    /// Encodes the document in at most [`MAX_BYTES`] bytes, leaving out the least needed first: changes, failed
    /// resources, the error's text from its start, the plan's resources, the addresses of the drift, the steps
    /// between the first and the last. A plan's fingerprint and counts are never left out (R-51).
    #[must_use]
    pub(crate) fn to_message(&self) -> Vec<u8> {
        let mut document = self.clone();
        while let Err(Oversized) = document.encode() {
            if !document.shrink() {
                return self.minimal().encode().unwrap_or_default();
            }
        }
        document.encode().unwrap_or_default()
    }

    fn encode(&self) -> Result<Vec<u8>, Oversized> {
        gojson::to_vec(self)
            .ok()
            .filter(|bytes| bytes.len() <= MAX_BYTES)
            .ok_or(Oversized)
    }

    /// Takes the next thing out; false when nothing is left to take.
    fn shrink(&mut self) -> bool {
        if self.changes.take().is_some() {
            return true;
        }
        if let Some(error) = &mut self.error {
            if !error.resources.is_empty() {
                error.resources.clear();
                return true;
            }
            if !error.tail.is_empty() {
                error.tail = second_half(&error.tail);
                return true;
            }
        }
        if let Some(plan) = self.plan.as_mut().filter(|plan| !plan.resources.is_empty()) {
            plan.resources.truncate(plan.resources.len() / 2);
            plan.truncated = true;
            return true;
        }
        if let Some(drift) = self
            .drift
            .as_mut()
            .filter(|drift| drift.resources.is_some())
        {
            drift.resources = None;
            return true;
        }
        if self.steps.len() > 2 {
            self.steps.remove(1);
            return true;
        }
        false
    }

    /// What is left when nothing else fits.
    fn minimal(&self) -> Self {
        Self {
            error: self.error.as_ref().map(|error| ErrorReport {
                kind: error.kind,
                step: None,
                tail: String::new(),
                resources: Vec::new(),
            }),
            plan: self.plan.clone().map(|plan| PlanReport {
                truncated: plan.truncated || !plan.resources.is_empty(),
                resources: Vec::new(),
                ..plan
            }),
            ..Self::new(&self.op)
        }
    }
}

/// The document does not fit.
struct Oversized;

/// The later half of a text, from a character boundary on; nothing of a text that is short already.
fn second_half(text: &str) -> String {
    let from = (text.len().div_ceil(2)..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    let half = &text[from..];
    if half.len() < LEAST_TAIL {
        String::new()
    } else {
        half.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::{
        Changes, DriftReport, ErrorKind, ImageReport, RuntimeReport, Seconds, StepReport,
    };
    use super::*;
    use crate::jobs::result as read;

    fn step(name: &str) -> StepReport {
        StepReport {
            name: name.to_owned(),
            exit: 0,
            seconds: Seconds::rounded(Duration::from_millis(300)),
        }
    }

    fn failed(tail: &str) -> ErrorReport {
        ErrorReport {
            kind: ErrorKind::Step,
            step: Some("apply".to_owned()),
            tail: tail.to_owned(),
            resources: Vec::new(),
        }
    }

    /// The message of a result, read back.
    fn message(result: &RunResult) -> Value {
        let bytes = result.to_message();
        assert!(bytes.len() <= 4096, "{} bytes", bytes.len());
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn fields_are_written_in_the_specified_order() {
        let result = RunResult {
            image: ImageReport {
                reference: "r/m:1".to_owned(),
                providers_mirror: true,
            },
            runtime: RuntimeReport {
                command: vec!["/captf/runtime".to_owned()],
                version: "1.11.4".to_owned(),
            },
            steps: vec![step("init")],
            error: Some(failed("Error: x")),
            changes: Some(Changes {
                add: 1,
                ..Changes::default()
            }),
            plan: Some(PlanReport {
                hash: "p2:00".to_owned(),
                moved: 1,
                ..PlanReport::default()
            }),
            ..RunResult::new("apply")
        };
        assert_eq!(
            String::from_utf8(result.to_message()).unwrap(),
            concat!(
                r#"{"version":1,"op":"apply","image":{"ref":"r/m:1","providersMirror":true},"#,
                r#""runtime":{"command":["/captf/runtime"],"version":"1.11.4"},"#,
                r#""steps":[{"name":"init","exit":0,"seconds":0.3}],"drift":null,"#,
                r#""error":{"kind":"step","step":"apply","tail":"Error: x"},"#,
                r#""changes":{"add":1,"change":0,"destroy":0},"#,
                r#""plan":{"hash":"p2:00","create":0,"update":0,"delete":0,"move":1}}"#
            )
        );
    }

    #[test]
    fn the_operator_reads_what_the_runner_writes() {
        let result = RunResult {
            steps: vec![step("init")],
            error: Some(ErrorReport {
                kind: ErrorKind::PlanChanged,
                resources: vec!["r: x".to_owned()],
                ..failed("Error: x")
            }),
            changes: Some(Changes {
                add: 1,
                import: 2,
                ..Changes::default()
            }),
            plan: Some(PlanReport {
                hash: "p2:00".to_owned(),
                moved: 1,
                output_changes: 2,
                ..PlanReport::default()
            }),
            ..RunResult::new("apply")
        };
        let message = String::from_utf8(result.to_message()).unwrap();
        let read = read::RunResult::parse(&message).unwrap();
        assert_eq!(read.steps[0].milliseconds, 300);
        let error = read.error.unwrap();
        assert_eq!(error.kind, read::ErrorKind::PlanChanged);
        assert_eq!(
            (error.summary.as_str(), error.resources[0].as_str()),
            ("Error: x", "r: x")
        );
        assert_eq!(read.changes.map(|c| (c.add, c.import)), Some((1, 2)));
        let plan = read.plan.unwrap();
        assert_eq!((plan.moved, plan.output_changes), (1, 2));
    }

    #[test]
    fn an_empty_result_lists_no_steps() {
        assert_eq!(
            String::from_utf8(RunResult::new("").to_message()).unwrap(),
            concat!(
                r#"{"version":1,"op":"","image":{"ref":"","providersMirror":false},"#,
                r#""runtime":{"command":[],"version":""},"steps":[],"drift":null,"error":null}"#
            )
        );
    }

    #[test]
    fn seconds_are_rounded_half_up_to_a_tenth() {
        let text = |millis| Seconds::rounded(Duration::from_millis(millis)).to_string();
        assert_eq!(
            [0, 49, 50, 149, 150, 1000, 12_340].map(text),
            ["0", "0", "0.1", "0.1", "0.2", "1", "12.3"]
        );
    }

    #[test]
    fn changes_and_resources_go_before_the_text_of_the_error() {
        let result = RunResult {
            error: Some(ErrorReport {
                resources: vec!["r".repeat(500); 9],
                ..failed(&"t".repeat(400))
            }),
            changes: Some(Changes::default()),
            ..RunResult::new("apply")
        };
        let message = message(&result);
        assert_eq!(message.get("changes"), None);
        assert_eq!(message["error"].get("resources"), None);
        assert_eq!(message["error"]["tail"], "t".repeat(400));
    }

    #[test]
    fn the_text_of_the_error_keeps_its_end() {
        let result = RunResult {
            error: Some(failed(&format!("{}the end", "x".repeat(5000)))),
            ..RunResult::new("apply")
        };
        assert_eq!(
            message(&result)["error"]["tail"],
            format!("{}the end", "x".repeat(2496))
        );
    }

    #[test]
    fn the_limit_counts_escaped_bytes() {
        // 1000 characters that take six bytes each.
        let result = RunResult {
            error: Some(failed(&"<".repeat(1000))),
            ..RunResult::new("apply")
        };
        assert_eq!(message(&result)["error"]["tail"], "<".repeat(500));
    }

    #[test]
    fn a_plan_keeps_its_hash_and_counts_whatever_else_goes() {
        let result = RunResult {
            error: Some(failed(&"t".repeat(400))),
            plan: Some(PlanReport {
                hash: "p2:00".to_owned(),
                delete: 50,
                resources: (0..50)
                    .map(|i| format!("{i:02}{}", "a".repeat(300)))
                    .collect(),
                ..PlanReport::default()
            }),
            ..RunResult::new("plan")
        };
        let plan = &message(&result)["plan"];
        assert_eq!(
            (&plan["hash"], &plan["delete"], &plan["truncated"]),
            (&json!("p2:00"), &json!(50), &json!(true))
        );
        let kept = plan["resources"].as_array().unwrap();
        assert_eq!(kept.len(), 12);
        assert!(
            kept[11].as_str().unwrap().starts_with("11"),
            "the first half is kept"
        );
    }

    #[test]
    fn steps_between_the_first_and_the_last_go_after_the_drift() {
        let result = RunResult {
            steps: (0..100)
                .map(|i| step(&format!("step-with-a-long-name-{i:02}")))
                .collect(),
            drift: Some(DriftReport {
                detected: true,
                update: 3,
                resources: Some(vec!["a".to_owned()]),
                ..DriftReport::default()
            }),
            ..RunResult::new("drift")
        };
        let message = message(&result);
        assert_eq!(
            (&message["drift"]["resources"], &message["drift"]["update"]),
            (&Value::Null, &json!(3))
        );
        let steps = message["steps"].as_array().unwrap();
        assert!(steps.len() >= 2 && steps.len() < 100);
        assert_eq!(steps[0]["name"], "step-with-a-long-name-00");
        assert_eq!(steps[steps.len() - 1]["name"], "step-with-a-long-name-99");
    }

    #[test]
    fn the_least_document_has_the_kind_and_the_plan() {
        let result = RunResult {
            image: ImageReport {
                reference: "i".repeat(5000),
                providers_mirror: false,
            },
            error: Some(ErrorReport {
                kind: ErrorKind::Blocked,
                ..failed("text of some length")
            }),
            plan: Some(PlanReport {
                hash: "p2:00".to_owned(),
                replace: 1,
                ..PlanReport::default()
            }),
            ..RunResult::new("apply")
        };
        let message = message(&result);
        assert_eq!(message["error"]["kind"], "blocked");
        assert_eq!(
            (&message["plan"]["hash"], &message["plan"]["replace"]),
            (&json!("p2:00"), &json!(1))
        );
        assert_eq!(message["image"]["ref"], "");
    }
}
