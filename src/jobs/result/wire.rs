//! The document as it is written, and its way into capped values.

use serde::Deserialize;

use crate::text::cut;

use super::{
    Changes, Drift, ErrorKind, Plan, RESOURCE_MAX, RESOURCES_MAX, RunError, RunResult,
    STEP_NAME_MAX, STEPS_MAX, SUMMARY_MAX, Step,
};

#[derive(Deserialize)]
pub(super) struct Wire {
    pub(super) version: i64,
    #[serde(default)]
    image: Option<WireImage>,
    #[serde(default)]
    runtime: Option<WireRuntime>,
    #[serde(default)]
    steps: Option<Vec<WireStep>>,
    #[serde(default)]
    drift: Option<WireDrift>,
    #[serde(default)]
    error: Option<WireError>,
    #[serde(default)]
    changes: Option<WireChanges>,
    #[serde(default)]
    plan: Option<WirePlan>,
}

#[derive(Deserialize)]
struct WireImage {
    #[serde(rename = "ref", default)]
    reference: Option<String>,
}

#[derive(Deserialize)]
struct WireRuntime {
    #[serde(default)]
    version: Option<String>,
}

#[derive(Deserialize)]
struct WireStep {
    name: String,
    #[serde(default)]
    exit: i32,
    #[serde(default)]
    seconds: f64,
}

#[derive(Deserialize)]
struct WireError {
    kind: String,
    #[serde(default)]
    step: Option<String>,
    #[serde(default)]
    tail: Option<String>,
    #[serde(default)]
    resources: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct WireChanges {
    add: i64,
    change: i64,
    destroy: i64,
    import: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireDrift {
    create: i32,
    update: i32,
    replace: i32,
    delete: i32,
    resources: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WirePlan {
    hash: String,
    create: i32,
    update: i32,
    replace: i32,
    delete: i32,
    output_changes: i32,
    import: i32,
    #[serde(rename = "move")]
    moved: i32,
    forget: i32,
    resources: Option<Vec<String>>,
    truncated: bool,
}

impl Wire {
    pub(super) fn into_result(self) -> RunResult {
        RunResult {
            image: self
                .image
                .and_then(|image| image.reference)
                .unwrap_or_default(),
            runtime_version: self
                .runtime
                .and_then(|runtime| runtime.version)
                .map(|version| cut(&version, STEP_NAME_MAX).to_owned())
                .unwrap_or_default(),
            steps: self
                .steps
                .unwrap_or_default()
                .into_iter()
                .take(STEPS_MAX)
                .map(WireStep::into_step)
                .collect(),
            error: self.error.map(WireError::into_error),
            changes: self.changes.map(|changes| Changes {
                add: changes.add,
                change: changes.change,
                destroy: changes.destroy,
                import: changes.import,
            }),
            drift: self.drift.map(|drift| Drift {
                create: drift.create,
                update: drift.update,
                replace: drift.replace,
                delete: drift.delete,
                resources: drift.resources.unwrap_or_default(),
            }),
            plan: self.plan.and_then(WirePlan::into_plan),
        }
    }
}

impl WireStep {
    fn into_step(self) -> Step {
        Step {
            name: cut(&self.name, STEP_NAME_MAX).to_owned(),
            exit_code: self.exit,
            milliseconds: milliseconds(self.seconds),
        }
    }
}

impl WireError {
    fn into_error(self) -> RunError {
        RunError {
            kind: ErrorKind::parse(&self.kind),
            step: self
                .step
                .filter(|step| !step.is_empty())
                .map(|step| cut(&step, STEP_NAME_MAX).to_owned()),
            summary: cut(&self.tail.unwrap_or_default(), SUMMARY_MAX).to_owned(),
            resources: self
                .resources
                .unwrap_or_default()
                .iter()
                .filter(|resource| !resource.is_empty())
                .take(RESOURCES_MAX)
                .map(|resource| cut(resource, RESOURCE_MAX).to_owned())
                .collect(),
        }
    }
}

impl WirePlan {
    /// A plan without a fingerprint cannot be told from another one: it is no plan (B27).
    fn into_plan(self) -> Option<Plan> {
        (!self.hash.is_empty()).then(|| Plan {
            hash: self.hash,
            create: self.create,
            update: self.update,
            replace: self.replace,
            delete: self.delete,
            output_changes: self.output_changes,
            import: self.import,
            moved: self.moved,
            forget: self.forget,
            resources: self.resources.unwrap_or_default(),
            truncated: self.truncated,
        })
    }
}

/// Seconds with a fraction as whole milliseconds; negative or absurd values read as zero or as the
/// largest duration a day-long Job could have.
#[allow(clippy::cast_possible_truncation)]
fn milliseconds(seconds: f64) -> i64 {
    const MAX: f64 = 604_800_000.0;
    let milliseconds = (seconds * 1000.0).round();
    if milliseconds.is_nan() {
        return 0;
    }
    milliseconds.clamp(0.0, MAX) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_durations_are_bounded() {
        assert_eq!(milliseconds(-1.0), 0);
        assert_eq!(milliseconds(f64::NAN), 0);
        assert_eq!(milliseconds(1e300), 604_800_000);
        assert_eq!(milliseconds(0.1), 100);
    }
}
