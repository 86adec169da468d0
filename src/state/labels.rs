//! The labels that keep a state visible to Terraform (README decision 14, S-1).

use serde_json::{Value, json};

use super::secret::SecretMeta;
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

/// What must be put back on one state Secret before a Job may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRepair {
    /// The Secret.
    pub secret: String,
    /// Its faults, sorted by key; never empty.
    pub faults: Vec<LabelFault>,
    /// Merge patch, guarded by the UID and resourceVersion that were read.
    pub patch: Value,
}

impl LabelRepair {
    /// The message of `StateReadable=False/StateInconsistent` when the patch was refused: no Job
    /// starts until the label is back (README decision 14, conditions-events.md §1.1).
    #[must_use]
    pub fn refused(&self, error: &str) -> String {
        let Some(fault) = self.faults.first() else {
            return String::new();
        };
        let found = fault
            .found
            .as_ref()
            .map_or_else(|| "is missing".to_owned(), |found| format!("is {found:?}"));
        format!(
            "label {} of Secret {} {found}, must be {:?}, and could not be put back: {error}; no Job \
             starts, because Terraform would not see the state and overwrite it: set that label, or \
             let the operator set it",
            fault.key, self.secret, fault.wanted
        )
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
    secrets: &[SecretMeta],
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

fn repair(secret: &SecretMeta, wanted: &Labels) -> Option<LabelRepair> {
    let faults: Vec<LabelFault> = wanted
        .iter()
        .filter(|(key, value)| secret.labels.get(*key) != Some(value))
        .map(|(key, value)| LabelFault {
            key: key.clone(),
            wanted: value.clone(),
            found: secret.labels.get(key).cloned(),
        })
        .collect();
    if faults.is_empty() {
        return None;
    }
    let labels: Labels = faults
        .iter()
        .map(|fault| (fault.key.clone(), fault.wanted.clone()))
        .collect();
    Some(LabelRepair {
        secret: secret.name.clone(),
        faults,
        patch: json!({"metadata": {
            "uid": secret.uid,
            "resourceVersion": secret.resource_version,
            "labels": labels,
        }}),
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
            format!("Secret {}: {}", repair.secret, keys.join(", "))
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
    fn written_by_terraform() -> SecretMeta {
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
        SecretMeta {
            name: BASE.into(),
            uid: "u-1".into(),
            resource_version: "42".into(),
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..SecretMeta::default()
        }
    }

    #[test]
    fn a_secret_as_terraform_wrote_it_needs_no_repair() {
        assert_eq!(
            label_repairs(&object(), "prod", &[written_by_terraform()]),
            []
        );
    }

    #[test]
    fn other_labels_do_no_harm() {
        let mut secret = written_by_terraform();
        secret
            .labels
            .insert("captf.io/retained-from-uid".into(), "u-0".into());
        assert_eq!(label_repairs(&object(), "prod", &[secret]), []);
    }

    #[test]
    fn a_missing_label_is_put_back_by_a_guarded_patch() {
        let mut secret = written_by_terraform();
        secret.labels.remove("clusterctl.cluster.x-k8s.io/move");
        let repairs = label_repairs(&object(), "prod", &[secret]);
        assert_eq!(repairs.len(), 1);
        assert_eq!(
            repairs[0].patch,
            json!({"metadata": {
                "uid": "u-1",
                "resourceVersion": "42",
                "labels": {"clusterctl.cluster.x-k8s.io/move": ""},
            }})
        );
        assert_eq!(
            repair_note(&repairs),
            "Labels that Terraform finds the state by were missing or changed and were put back: \
             Secret tfstate-default-f66792f9106e7299-c: clusterctl.cluster.x-k8s.io/move"
        );
    }

    #[test]
    fn a_changed_cluster_label_of_the_object_is_this_case_too() {
        let repairs = label_repairs(&object(), "renamed", &[written_by_terraform()]);
        assert_eq!(
            repairs[0].faults,
            [LabelFault {
                key: "cluster.x-k8s.io/cluster-name".into(),
                wanted: "renamed".into(),
                found: Some("prod".into()),
            }]
        );
    }

    #[test]
    fn every_label_terraform_selects_with_is_checked() {
        for key in written_by_terraform().labels.keys() {
            let mut secret = written_by_terraform();
            secret.labels.insert(key.clone(), "changed".into());
            let repairs = label_repairs(&object(), "prod", &[secret]);
            assert_eq!(repairs[0].faults[0].key, *key);
        }
    }

    #[test]
    fn a_refused_repair_names_label_and_secret_first() {
        let mut secret = written_by_terraform();
        secret.labels.remove("captf.io/managed");
        let message = label_repairs(&object(), "prod", &[secret])[0].refused("forbidden");
        assert!(
            message.starts_with(
                "label captf.io/managed of Secret tfstate-default-f66792f9106e7299-c is missing, \
                 must be \"true\", and could not be put back: forbidden; "
            ),
            "{message}"
        );
    }
}
