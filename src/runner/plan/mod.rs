//! What a plan would do, read from `show -json` (runner.md §6.2).

mod effect;
mod fingerprint;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

pub(super) use fingerprint::PlanKey;

use super::result::{DriftReport, PlanReport};

/// Most addresses that a drift report lists (R-18).
const DRIFT_ADDRESSES: usize = 20;
/// Most resources that a plan report lists (R-19).
const PLAN_RESOURCES: usize = 50;

/// The parts of a plan document that the runner reads. It holds every value of the plan in clear text, so it is never
/// logged (R-61).
#[derive(Deserialize)]
pub(super) struct Plan {
    #[serde(default, deserialize_with = "null_is_empty")]
    resource_changes: Vec<ResourceChange>,
    #[serde(default, deserialize_with = "null_is_empty")]
    output_changes: BTreeMap<String, Change>,
    #[serde(default)]
    prior_state: Option<PriorState>,
}

/// The planned change of one resource instance.
#[derive(Deserialize)]
pub(super) struct ResourceChange {
    address: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    previous_address: String,
    change: Change,
}

/// A change of a resource instance or of an output.
#[derive(Deserialize)]
pub(super) struct Change {
    #[serde(default, deserialize_with = "null_is_empty")]
    actions: Vec<String>,
    #[serde(default)]
    importing: Option<Box<RawValue>>,
    #[serde(default)]
    pub(super) before: Value,
    #[serde(default)]
    pub(super) after: Value,
    #[serde(default)]
    after_unknown: Value,
    #[serde(default)]
    pub(super) before_sensitive: Value,
    #[serde(default)]
    pub(super) after_sensitive: Value,
}

#[derive(Deserialize)]
struct PriorState {
    #[serde(default)]
    values: Option<StateValues>,
}

#[derive(Deserialize)]
struct StateValues {
    #[serde(default)]
    root_module: Option<StateModule>,
}

/// A module of the state that the plan started from.
#[derive(Deserialize)]
struct StateModule {
    #[serde(default, deserialize_with = "null_is_empty")]
    resources: Vec<StateResource>,
    #[serde(default, deserialize_with = "null_is_empty")]
    child_modules: Vec<StateModule>,
}

/// A resource instance of the state that the plan started from.
#[derive(Deserialize)]
pub(super) struct StateResource {
    #[serde(default)]
    mode: String,
    #[serde(default)]
    pub(super) values: Value,
    #[serde(default)]
    pub(super) sensitive_values: Value,
}

/// Go writes an empty collection as `null`.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What a change counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Create,
    Update,
    Replace,
    Delete,
    Nothing,
}

impl Change {
    fn has(&self, action: &str) -> bool {
        self.actions.iter().any(|a| a == action)
    }

    fn is_exactly(&self, action: &str) -> bool {
        self.actions == [action]
    }

    fn is_no_op(&self) -> bool {
        self.actions.is_empty() || self.is_exactly("no-op")
    }

    /// A change is counted once: as a replacement when it creates and deletes (runner.md §6.2).
    fn counted(&self) -> Counted {
        match (self.has("create"), self.has("delete")) {
            (true, true) => Counted::Replace,
            (true, false) => Counted::Create,
            (false, true) => Counted::Delete,
            (false, false) if self.has("update") => Counted::Update,
            (false, false) => Counted::Nothing,
        }
    }
}

impl ResourceChange {
    fn imports(&self) -> bool {
        self.change.importing.is_some()
    }

    fn moves(&self) -> bool {
        !self.previous_address.is_empty()
    }

    /// The words after the address in a plan report: the action unless it is a no-op, then `import`, then `move`.
    fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        if self.change.counted() == Counted::Replace {
            labels.push("replace".to_owned());
        } else if !self.change.is_no_op() {
            labels.push(self.change.actions.join(","));
        }
        labels.extend(self.imports().then(|| "import".to_owned()));
        labels.extend(self.moves().then(|| "move".to_owned()));
        labels
    }
}

impl Plan {
    /// Reads a plan document.
    ///
    /// # Errors
    /// When the bytes are not a plan. The error names a position only: a plan's values are secrets.
    pub(super) fn parse(document: &[u8]) -> Result<Self, UnreadablePlan> {
        Ok(serde_json::from_slice(document)?)
    }

    /// The plan as the result document reports it, under its fingerprint (R-19).
    ///
    /// # Errors
    /// When the plan cannot be fingerprinted.
    pub(super) fn report(&self, key: &PlanKey) -> Result<PlanReport, UnreadablePlan> {
        let count = |kind| {
            self.resource_changes
                .iter()
                .filter(|r| r.change.counted() == kind)
                .count()
        };
        let mut listed: Vec<(&str, String)> = self
            .resource_changes
            .iter()
            .filter_map(|r| {
                let labels = r.labels();
                (!labels.is_empty()).then(|| (r.address.as_str(), labels.join(", ")))
            })
            .collect();
        listed.sort();
        Ok(PlanReport {
            hash: fingerprint::hash(self, key)?,
            create: count(Counted::Create),
            update: count(Counted::Update),
            replace: count(Counted::Replace),
            delete: count(Counted::Delete),
            output_changes: self
                .output_changes
                .values()
                .filter(|c| !c.is_no_op())
                .count(),
            import: self.resource_changes.iter().filter(|r| r.imports()).count(),
            moved: self.resource_changes.iter().filter(|r| r.moves()).count(),
            forget: self
                .resource_changes
                .iter()
                .filter(|r| r.change.has("forget"))
                .count(),
            truncated: listed.len() > PLAN_RESOURCES,
            resources: listed
                .into_iter()
                .take(PLAN_RESOURCES)
                .map(|(address, labels)| format!("{address} ({labels})"))
                .collect(),
        })
    }

    /// How much the plan changes, as one line of text without values.
    pub(super) fn counts(&self) -> String {
        let count = |kind| {
            self.resource_changes
                .iter()
                .filter(|r| r.change.counted() == kind)
                .count()
        };
        format!(
            "{} to create, {} to update, {} to replace, {} to delete",
            count(Counted::Create),
            count(Counted::Update),
            count(Counted::Replace),
            count(Counted::Delete)
        )
    }

    /// The difference between state and infrastructure: drift is what would be created, updated, replaced or deleted.
    /// Output changes, imports, moves and reads are not drift (R-18).
    pub(super) fn drift(&self) -> DriftReport {
        let drifted: Vec<_> = self
            .resource_changes
            .iter()
            .filter(|r| r.change.counted() != Counted::Nothing)
            .collect();
        let count = |kind| {
            drifted
                .iter()
                .filter(|r| r.change.counted() == kind)
                .count()
        };
        DriftReport {
            detected: !drifted.is_empty(),
            create: count(Counted::Create),
            update: count(Counted::Update),
            replace: count(Counted::Replace),
            delete: count(Counted::Delete),
            resources: Some(
                drifted
                    .iter()
                    .take(DRIFT_ADDRESSES)
                    .map(|r| r.address.clone())
                    .collect(),
            ),
        }
    }

    /// Every change that deletes something, as `<address> (delete)` or `<address> (replace)`, in plan order (R-16).
    pub(super) fn destructive(&self) -> Vec<String> {
        self.resource_changes
            .iter()
            .filter(|r| r.change.has("delete"))
            .map(|r| match r.change.counted() {
                Counted::Replace => format!("{} (replace)", r.address),
                _ => format!("{} (delete)", r.address),
            })
            .collect()
    }

    /// The changes of all resource instances, no-ops included.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.resource_changes.iter().map(|r| &r.change)
    }

    /// The data resources of the state that the plan started from, in all modules.
    pub(super) fn data_resources(&self) -> Vec<&StateResource> {
        let root = self
            .prior_state
            .as_ref()
            .and_then(|s| s.values.as_ref())
            .and_then(|v| v.root_module.as_ref());
        let mut found = Vec::new();
        let mut modules: Vec<&StateModule> = root.into_iter().collect();
        while let Some(module) = modules.pop() {
            found.extend(module.resources.iter().filter(|r| r.mode == "data"));
            modules.extend(&module.child_modules);
        }
        found
    }
}

/// The output of `show -json` is not a plan.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "the plan that show -json printed cannot be read (line {line}, column {column}); nothing was applied"
)]
pub(super) struct UnreadablePlan {
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for UnreadablePlan {
    fn from(error: serde_json::Error) -> Self {
        Self {
            line: error.line(),
            column: error.column(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::names::EMPTY_PLAN_HASH;

    fn plan(document: &Value) -> Plan {
        Plan::parse(document.to_string().as_bytes()).unwrap()
    }

    fn key() -> PlanKey {
        PlanKey::from_bytes((0..32).collect()).unwrap()
    }

    fn change(address: &str, actions: &[&str]) -> Value {
        json!({"address": address, "change": {"actions": actions}})
    }

    #[test]
    fn both_replace_orders_count_as_one_replacement() {
        let plan = plan(&json!({"resource_changes": [
            change("a", &["delete", "create"]),
            change("b", &["create", "delete"]),
            change("c", &["create"]),
            change("d", &["update"]),
            change("e", &["delete"]),
            change("f", &["read"]),
            change("g", &["no-op"]),
        ]}));
        let report = plan.report(&key()).unwrap();
        assert_eq!(
            (report.create, report.update, report.replace, report.delete),
            (1, 1, 2, 1)
        );
        assert_eq!(
            plan.destructive(),
            ["a (replace)", "b (replace)", "e (delete)"]
        );
    }

    #[test]
    fn the_report_lists_labelled_changes_by_address() {
        let plan = plan(&json!({"resource_changes": [
            {"address": "z", "previous_address": "y", "change": {"actions": ["no-op"], "importing": {"id": "1"}}},
            change("n", &["no-op"]),
            change("b", &["create", "delete"]),
            change("a", &["forget"]),
        ], "output_changes": {"o": {"actions": ["update"]}, "p": {"actions": ["no-op"]}}}));
        let report = plan.report(&key()).unwrap();
        assert_eq!(
            report.resources,
            ["a (forget)", "b (replace)", "z (import, move)"]
        );
        assert_eq!(
            (
                report.import,
                report.moved,
                report.forget,
                report.output_changes
            ),
            (1, 1, 1, 1)
        );
        assert!(!report.truncated);
    }

    #[test]
    fn the_report_stops_after_fifty_resources() {
        let changes: Vec<Value> = (0..51)
            .map(|i| change(&format!("r{i:02}"), &["create"]))
            .collect();
        let report = plan(&json!({"resource_changes": changes}))
            .report(&key())
            .unwrap();
        assert_eq!(report.resources.len(), 50);
        assert_eq!(report.resources.last().unwrap(), "r49 (create)");
        assert!(report.truncated);
    }

    #[test]
    fn outputs_imports_moves_and_reads_are_not_drift() {
        let drift = plan(&json!({"resource_changes": [
            {"address": "z", "previous_address": "y", "change": {"actions": ["no-op"], "importing": {}}},
            change("r", &["read"]),
        ], "output_changes": {"o": {"actions": ["create"]}}}))
        .drift();
        assert!(!drift.detected);
        assert_eq!(drift.resources.unwrap(), Vec::<String>::new());
    }

    #[test]
    fn drift_lists_twenty_addresses_in_plan_order() {
        let changes: Vec<Value> = (0..25)
            .rev()
            .map(|i| change(&format!("r{i:02}"), &["update"]))
            .collect();
        let drift = plan(&json!({"resource_changes": changes})).drift();
        assert!(drift.detected);
        assert_eq!(drift.update, 25);
        let resources = drift.resources.unwrap();
        assert_eq!((resources.len(), resources[0].as_str()), (20, "r24"));
    }

    #[test]
    fn null_collections_are_empty() {
        let plan =
            plan(&json!({"resource_changes": null, "output_changes": null, "prior_state": null}));
        assert_eq!(plan.report(&key()).unwrap().hash, EMPTY_PLAN_HASH);
    }

    #[test]
    fn an_unreadable_plan_is_described_without_its_text() {
        let error = Plan::parse(b"{\"resource_changes\": \"hunter2\"}")
            .err()
            .unwrap();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn data_resources_of_nested_modules_are_found() {
        let plan = plan(&json!({"prior_state": {"values": {"root_module": {
            "resources": [{"mode": "managed", "values": {"a": "1"}}],
            "child_modules": [{"child_modules": [{"resources": [{"mode": "data", "values": {"b": "2"}}]}]}],
        }}}}));
        let values: Vec<_> = plan
            .data_resources()
            .iter()
            .map(|r| r.values.clone())
            .collect();
        assert_eq!(values, [json!({"b": "2"})]);
    }
}
