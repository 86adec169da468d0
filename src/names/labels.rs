//! Label values, the label sets the operator writes, and their rendering for Terraform's backend
//! (naming.md §4, §5.7; annotations-labels.md §4).

use std::collections::BTreeMap;

use super::digest::short_hash;
use super::job::JobName;
use super::object::{Kind, ObjectKey, Op, Suffix};

/// A set of labels, sorted by key.
pub type Labels = BTreeMap<String, String>;

/// Longest value Kubernetes allows for a label.
const LABEL_VALUE_MAX: usize = 63;

/// The label keys that the sets below are made of.
pub mod key {
    /// Full kind of the owning object.
    pub const OWNER_KIND: &str = "captf.infrastructure.cluster.x-k8s.io/owner-kind";
    /// [`label_value`](super::label_value) of the owning object's name.
    pub const OWNER_NAME: &str = "captf.infrastructure.cluster.x-k8s.io/owner-name";
    /// Operation of a Job and its pod.
    pub const OP: &str = "captf.infrastructure.cluster.x-k8s.io/op";
    /// Attempt number of a Job and its pod, decimal.
    pub const ATTEMPT: &str = "captf.infrastructure.cluster.x-k8s.io/attempt";
    /// Marks everything the manager owns, with the value `true`.
    pub const MANAGED: &str = "captf.io/managed";
    /// Marks a Lease as the operator's own: `run` or `cluster`.
    pub const LEASE: &str = "captf.io/lease";
    /// Cluster API's label with the Cluster's name.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// Makes `clusterctl move` take a Secret along; the value is empty.
    pub const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";
    /// Set by Terraform's backend on state Secrets and the lock Lease: `true`.
    pub const TFSTATE: &str = "tfstate";
    /// Set by Terraform's backend: the state suffix.
    pub const TFSTATE_SUFFIX: &str = "tfstateSecretSuffix";
    /// Set by Terraform's backend: the workspace, always `default`.
    pub const TFSTATE_WORKSPACE: &str = "tfstateWorkspace";
}

/// The name when it fits a label (63 bytes), else the first 16 hexadecimal digits of its SHA-256.
/// Used wherever a name is written to a label or selected by one (naming.md §4, B7).
#[must_use]
pub fn label_value(name: &str) -> String {
    if name.len() <= LABEL_VALUE_MAX {
        name.to_owned()
    } else {
        short_hash(name)
    }
}

fn labels<const N: usize>(pairs: [(&str, String); N]) -> Labels {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Managed, owner kind and owner name: the labels of inputs records and plan keys, and the selector
/// of everything an object owns.
#[must_use]
pub fn owner_labels(kind: Kind, name: &str) -> Labels {
    labels([
        (key::OWNER_KIND, kind.to_string()),
        (key::OWNER_NAME, label_value(name)),
        (key::MANAGED, "true".to_owned()),
    ])
}

fn cluster_labels(kind: Kind, name: &str, cluster: &str) -> Labels {
    let mut set = owner_labels(kind, name);
    set.insert(key::CLUSTER_NAME.to_owned(), label_value(cluster));
    set
}

/// The labels of a Job and, identically, of its pod template; `cluster` is empty when unknown
/// (naming.md §5.7).
#[must_use]
pub fn job_labels(kind: Kind, name: &str, cluster: &str, op: Op, attempt: i32) -> Labels {
    let mut set = cluster_labels(kind, name, cluster);
    set.extend(labels([
        (key::OP, op.to_string()),
        (key::ATTEMPT, attempt.to_string()),
    ]));
    set
}

/// The labels given to Terraform's backend, which copies them to every state Secret and to its lock
/// Lease. Frozen: Terraform selects state with the whole map, so a changed map means "no state"
/// (naming.md §5.7, S-1).
#[must_use]
pub fn backend_labels(kind: Kind, name: &str, cluster: &str) -> Labels {
    let mut set = cluster_labels(kind, name, cluster);
    set.insert(key::MOVE.to_owned(), String::new());
    set
}

/// Which of the two leases a Lease is (seed: The two leases).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseScope {
    /// The run lease of one object.
    Run,
    /// The write lease of one Cluster.
    Cluster,
}

impl LeaseScope {
    /// The value of the label `captf.io/lease`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Cluster => "cluster",
        }
    }
}

/// The labels of a run or cluster lease (seed: The two leases).
#[must_use]
pub fn lease_labels(scope: LeaseScope, kind: Kind, name: &str, cluster: &str) -> Labels {
    let mut set = cluster_labels(kind, name, cluster);
    set.insert(key::LEASE.to_owned(), scope.as_str().to_owned());
    set
}

/// The operator's selector for the state Secrets of one suffix. It does not use the backend map, so
/// that a Secret which lost one of those labels is still found (state-secrets.md §1.4).
#[must_use]
pub fn state_selector(suffix: &Suffix) -> Labels {
    labels([
        (key::TFSTATE, "true".to_owned()),
        (key::TFSTATE_SUFFIX, suffix.to_string()),
        (key::TFSTATE_WORKSPACE, "default".to_owned()),
    ])
}

/// The map as one argument of Terraform's `-backend-config`: keys sorted, Go-quoted strings, no
/// spaces: `{"k"="v","k2"="v2"}` (naming.md §5.7).
#[must_use]
pub fn render_label_map(labels: &Labels) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{}={}", quoted(key), quoted(value)))
        .collect();
    format!("{{{}}}", pairs.join(","))
}

/// Label keys and values are printable ASCII, where only these two characters need an escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl ObjectKey {
    /// [`owner_labels`] of this object.
    #[must_use]
    pub fn owner_labels(&self) -> Labels {
        owner_labels(self.kind, &self.name)
    }

    /// [`job_labels`] of this object.
    #[must_use]
    pub fn job_labels(&self, cluster: &str, op: Op, attempt: i32) -> Labels {
        job_labels(self.kind, &self.name, cluster, op, attempt)
    }

    /// [`backend_labels`] of this object.
    #[must_use]
    pub fn backend_labels(&self, cluster: &str) -> Labels {
        backend_labels(self.kind, &self.name, cluster)
    }

    /// Whether both owner labels name this object; one alone never does (annotations-labels.md §4).
    #[must_use]
    pub fn owns(&self, labels: &Labels) -> bool {
        labels.get(key::OWNER_KIND).map(String::as_str) == Some(self.kind.as_str())
            && labels.get(key::OWNER_NAME) == Some(&label_value(&self.name))
    }

    /// Whether `job` is a Job name of this object.
    #[must_use]
    pub fn owns_job_name(&self, job: &JobName) -> bool {
        job.parse()
            .is_some_and(|parsed| parsed.belongs_to(self.kind, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("prod", "prod")]
    #[case(&"x".repeat(63), &"x".repeat(63))]
    #[case(&"x".repeat(64), "7ce100971f64e700")]
    #[case(&"n".repeat(200), "1be63cc0bde6bd45")]
    #[case(
        "a-very-long-machine-name-that-cannot-fit-in-a-job-name-0123456789",
        "783ecd3801659632"
    )]
    fn label_value_keeps_63_characters_and_hashes_64(#[case] name: &str, #[case] expected: &str) {
        assert_eq!(label_value(name), expected);
    }

    #[test]
    fn backend_map_rendering_is_the_golden_argument() {
        let map = backend_labels(Kind::TerraformMachine, "prod-md-0-abcde", "prod");
        assert_eq!(
            render_label_map(&map),
            r#"{"captf.infrastructure.cluster.x-k8s.io/owner-kind"="TerraformMachine","captf.infrastructure.cluster.x-k8s.io/owner-name"="prod-md-0-abcde","captf.io/managed"="true","cluster.x-k8s.io/cluster-name"="prod","clusterctl.cluster.x-k8s.io/move"=""}"#
        );
    }

    #[test]
    fn job_labels_are_the_six_of_the_table() {
        let set = job_labels(Kind::TerraformCluster, "prod", "", Op::Plan, 12);
        let expected: Labels = [
            (
                "captf.infrastructure.cluster.x-k8s.io/owner-kind",
                "TerraformCluster",
            ),
            ("captf.infrastructure.cluster.x-k8s.io/owner-name", "prod"),
            ("cluster.x-k8s.io/cluster-name", ""),
            ("captf.io/managed", "true"),
            ("captf.infrastructure.cluster.x-k8s.io/op", "plan"),
            ("captf.infrastructure.cluster.x-k8s.io/attempt", "12"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        assert_eq!(set, expected);
    }

    #[test]
    fn lease_labels_carry_scope_owner_and_cluster() {
        let set = lease_labels(LeaseScope::Cluster, Kind::TerraformCluster, "prod", "prod");
        let expected: Labels = [
            ("captf.io/lease", "cluster"),
            (
                "captf.infrastructure.cluster.x-k8s.io/owner-kind",
                "TerraformCluster",
            ),
            ("captf.infrastructure.cluster.x-k8s.io/owner-name", "prod"),
            ("cluster.x-k8s.io/cluster-name", "prod"),
            ("captf.io/managed", "true"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        assert_eq!(set, expected);
    }

    #[test]
    fn state_is_selected_by_the_labels_the_backend_sets_itself() {
        let suffix = Suffix::new("team-a", Kind::TerraformCluster, "prod");
        let expected: Labels = [
            ("tfstate", "true"),
            ("tfstateSecretSuffix", "f66792f9106e7299-c"),
            ("tfstateWorkspace", "default"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        assert_eq!(state_selector(&suffix), expected);
    }

    #[test]
    fn an_object_is_ours_only_when_both_owner_labels_name_it() {
        let key = ObjectKey::new(Kind::TerraformCluster, "team-a", "n".repeat(64));
        let mut set = key.owner_labels();
        assert!(key.owns(&set));
        set.insert(
            super::key::OWNER_KIND.to_owned(),
            "TerraformMachine".to_owned(),
        );
        assert!(!key.owns(&set));
        set.remove(super::key::OWNER_KIND);
        assert!(!key.owns(&set));
    }

    #[test]
    fn a_job_name_of_another_kind_is_not_the_objects() {
        let key = ObjectKey::new(Kind::TerraformCluster, "team-a", "web");
        assert!(key.owns_job_name(&JobName::new("captf-c-web-apply-a1-abc123")));
        assert!(!key.owns_job_name(&JobName::new("captf-m-web-apply-a1-abc123")));
    }
}
