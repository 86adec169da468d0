//! The labels that keep a state visible to Terraform (README decision 14, S-1).

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::secret::secret_name;
use crate::api::conditions::{State as _, StateReadable, Verdict};
use crate::names::{Labels, ObjectKey, backend_labels, state_selector};

/// Label that the backend sets beside its own three.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "terraform");

/// One label of a state Secret that is not as Terraform will look for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelFault {
    /// The label's key.
    pub key: String,
    /// The value Terraform selects with.
    pub wanted: String,
    /// The value found, `None` when the label is missing.
    pub found: Option<String>,
}

/// What must be put back on one state Secret before a Job may start, by a patch that holds only while
/// the Secret is what was read.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelRepair {
    /// The Secret as it was read.
    pub secret: ObjectMeta,
    /// Its faults, sorted by key; never empty.
    pub faults: Vec<LabelFault>,
}

impl LabelRepair {
    /// The labels to set.
    #[must_use]
    pub fn labels(&self) -> Labels {
        self.faults
            .iter()
            .map(|fault| (fault.key.clone(), fault.wanted.clone()))
            .collect()
    }

    /// What the condition `StateReadable` says when the patch was refused: no Job starts until the
    /// label is back (README decision 14, conditions-events.md §1.1).
    #[must_use]
    pub fn refused(&self, error: &str) -> Verdict {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        let secret = secret_name(&self.secret);
        StateReadable::StateInconsistent.with(format!(
            "label {} of Secret {secret} could not be put back: {error}; wanted: {}; no Job starts, \
             because Terraform would not see the state and overwrite it: set the label, or let the \
             operator set it",
            self.faults.first().map_or("", |fault| &fault.key),
            faults.join(", "),
        ))
    }
}

impl fmt::Display for LabelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}", self.key, self.wanted)?;
        match &self.found {
            Some(found) => write!(f, " (found {found:?})"),
            None => f.write_str(" (missing)"),
        }
    }
}

/// Which state Secrets lack a label that Terraform selects its state with, or hold another value.
///
/// `secrets` must be found live and by NAME: one that lost a label is found by no selector.
/// Terraform lists its state with the whole map it was given plus its own labels and overwrites what
/// it does not see, so all of them are checked (README decision 14, S-1). Other labels do no harm.
#[must_use]
pub fn label_repairs(
    object: &ObjectKey,
    cluster: &str,
    secrets: &[ObjectMeta],
) -> Vec<LabelRepair> {
    let wanted = selected_with(object, cluster);
    secrets
        .iter()
        .filter_map(|secret| repair(secret, &wanted))
        .collect()
}

fn selected_with(object: &ObjectKey, cluster: &str) -> Labels {
    let mut labels = backend_labels(object.kind, &object.name, cluster);
    labels.extend(state_selector(&object.suffix()));
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    labels
}

fn repair(secret: &ObjectMeta, wanted: &Labels) -> Option<LabelRepair> {
    let found = |key: &String| secret.labels.as_ref().and_then(|labels| labels.get(key));
    let faults: Vec<LabelFault> = wanted
        .iter()
        .filter(|(key, value)| found(key) != Some(value))
        .map(|(key, value)| LabelFault {
            key: key.clone(),
            wanted: value.clone(),
            found: found(key).cloned(),
        })
        .collect();
    (!faults.is_empty()).then(|| LabelRepair {
        secret: secret.clone(),
        faults,
    })
}

/// The note of the event `StateLabelsRepaired`, one for all Secrets of a pass: Secret names and label
/// keys (conditions-events.md §7).
#[must_use]
pub fn repair_note(repairs: &[LabelRepair]) -> String {
    let secrets: Vec<String> = repairs
        .iter()
        .map(|repair| {
            let keys: Vec<&str> = repair
                .faults
                .iter()
                .map(|fault| fault.key.as_str())
                .collect();
            format!(
                "Secret {}: {}",
                secret_name(&repair.secret),
                keys.join(", ")
            )
        })
        .collect();
    format!(
        "Labels that Terraform finds the state by were missing or changed and were put back: {}",
        secrets.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Kind;

    const BASE: &str = "tfstate-default-f66792f9106e7299-c";

    fn object() -> ObjectKey {
        ObjectKey::new(Kind::TerraformCluster, "team-a", "prod")
    }

    /// A state Secret with the labels that Terraform itself writes.
    fn written_by_terraform() -> ObjectMeta {
        let labels = [
            ("app.kubernetes.io/managed-by", "terraform"),
            (
                "captf.infrastructure.cluster.x-k8s.io/owner-kind",
                "TerraformCluster",
            ),
            ("captf.infrastructure.cluster.x-k8s.io/owner-name", "prod"),
            ("captf.io/managed", "true"),
            ("cluster.x-k8s.io/cluster-name", "prod"),
            ("clusterctl.cluster.x-k8s.io/move", ""),
            ("tfstate", "true"),
            ("tfstateSecretSuffix", "f66792f9106e7299-c"),
            ("tfstateWorkspace", "default"),
        ];
        ObjectMeta {
            name: Some(BASE.into()),
            uid: Some("u-1".into()),
            resource_version: Some("42".into()),
            labels: Some(
                labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        }
    }

    /// The same with one label changed, or removed.
    fn with_label(key: &str, value: Option<&str>) -> ObjectMeta {
        let mut secret = written_by_terraform();
        let labels = secret.labels.get_or_insert_default();
        match value {
            Some(value) => labels.insert(key.into(), value.into()),
            None => labels.remove(key),
        };
        secret
    }

    fn repairs(cluster: &str, secret: ObjectMeta) -> Vec<LabelRepair> {
        label_repairs(&object(), cluster, &[secret])
    }

    #[test]
    fn a_secret_as_terraform_wrote_it_needs_no_repair() {
        assert_eq!(repairs("prod", written_by_terraform()), []);
    }

    #[test]
    fn other_labels_do_no_harm() {
        let secret = with_label("captf.io/retained-from-uid", Some("u-0"));
        assert_eq!(repairs("prod", secret), []);
    }

    #[test]
    fn a_missing_label_is_put_back_on_the_secret_that_was_read() {
        let secret = with_label("clusterctl.cluster.x-k8s.io/move", None);
        let repairs = repairs("prod", secret);
        assert_eq!(repairs.len(), 1);
        assert_eq!(repairs[0].secret.resource_version.as_deref(), Some("42"));
        assert_eq!(
            repairs[0].labels(),
            Labels::from([("clusterctl.cluster.x-k8s.io/move".into(), String::new())])
        );
        assert_eq!(
            repair_note(&repairs),
            "Labels that Terraform finds the state by were missing or changed and were put back: \
             Secret tfstate-default-f66792f9106e7299-c: clusterctl.cluster.x-k8s.io/move"
        );
    }

    #[test]
    fn a_changed_cluster_label_of_the_object_is_this_case_too() {
        assert_eq!(
            repairs("renamed", written_by_terraform())[0].faults,
            [LabelFault {
                key: "cluster.x-k8s.io/cluster-name".into(),
                wanted: "renamed".into(),
                found: Some("prod".into()),
            }]
        );
    }

    #[test]
    fn every_label_terraform_selects_with_is_checked() {
        for key in written_by_terraform().labels.unwrap_or_default().keys() {
            let repairs = repairs("prod", with_label(key, Some("changed")));
            assert_eq!(repairs[0].faults[0].key, *key);
        }
        let bare = ObjectMeta {
            labels: None,
            ..written_by_terraform()
        };
        assert_eq!(repairs("prod", bare)[0].faults.len(), 9);
    }

    #[test]
    fn a_refused_repair_names_label_and_secret_first_then_error_and_value() {
        let verdict = repairs("prod", with_label("captf.io/managed", None))[0].refused("forbidden");
        assert_eq!(verdict.reason(), "StateInconsistent");
        assert_eq!(
            verdict.message(),
            "label captf.io/managed of Secret tfstate-default-f66792f9106e7299-c could not be put \
             back: forbidden; wanted: captf.io/managed=\"true\" (missing); no Job starts, because \
             Terraform would not see the state and overwrite it: set the label, or let the operator \
             set it"
        );
    }
}
