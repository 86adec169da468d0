//! What an object is: kind, key, operation, state suffix, and the names that hang on the suffix.

use std::fmt;
use std::str::FromStr;

use super::digest::short_hash;

/// A workload kind: the three kinds whose infrastructure Terraform makes (naming.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Infrastructure of a Cluster API Cluster.
    TerraformCluster,
    /// Infrastructure of a Cluster API Machine.
    TerraformMachine,
    /// Infrastructure of a Cluster API MachinePool.
    TerraformMachinePool,
}

/// A kind that no name is derived for; never answered with a silent default (naming.md §1).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind {0:?}: expected TerraformCluster, TerraformMachine or TerraformMachinePool")]
pub struct UnknownKind(pub String);

impl Kind {
    /// All kinds, in the order of the specification's tables.
    pub const ALL: [Self; 3] = [
        Self::TerraformCluster,
        Self::TerraformMachine,
        Self::TerraformMachinePool,
    ];

    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TerraformCluster => "TerraformCluster",
            Self::TerraformMachine => "TerraformMachine",
            Self::TerraformMachinePool => "TerraformMachinePool",
        }
    }

    /// The short name inside suffixes, Job and Secret names: `c`, `m` or `mp` (naming.md §1).
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::TerraformCluster => "c",
            Self::TerraformMachine => "m",
            Self::TerraformMachinePool => "mp",
        }
    }

    /// The kind whose short name is `short`, if any.
    #[must_use]
    pub fn from_short(short: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.short() == short)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// An operation: what one Job runs (jobs.md §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Init, validate, apply.
    Apply,
    /// Init, validate, plan.
    Plan,
    /// Init, destroy.
    Destroy,
    /// Init, refresh-only apply.
    Refresh,
    /// Refresh-only apply, then a plan that looks for differences.
    Drift,
    /// Pushes a state backup.
    Restore,
}

/// A word that names no operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation {0:?}: expected apply, plan, destroy, refresh, drift or restore")]
pub struct UnknownOp(pub String);

impl Op {
    /// All operations.
    pub const ALL: [Self; 6] = [
        Self::Apply,
        Self::Plan,
        Self::Destroy,
        Self::Refresh,
        Self::Drift,
        Self::Restore,
    ];

    /// The word used in Job names, labels and annotations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Plan => "plan",
            Self::Destroy => "destroy",
            Self::Refresh => "refresh",
            Self::Drift => "drift",
            Self::Restore => "restore",
        }
    }

    /// Apply, destroy and restore change infrastructure or state, so the operation gate keeps a
    /// cluster's apart from its machines' ones; the others take the run lease only (seed: The
    /// operation gate).
    #[must_use]
    pub const fn mutating(self) -> bool {
        matches!(self, Self::Apply | Self::Destroy | Self::Restore)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Op {
    type Err = UnknownOp;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|op| op.as_str() == text)
            .ok_or_else(|| UnknownOp(text.to_owned()))
    }
}

/// Kind, namespace and name: the identity of a workload object that survives `clusterctl move`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The workload kind.
    pub kind: Kind,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl ObjectKey {
    /// Names one object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object's state suffix.
    #[must_use]
    pub fn suffix(&self) -> Suffix {
        Suffix::new(&self.namespace, self.kind, &self.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The state suffix: 16 hexadecimal digits of the object's identity, `-`, the short kind.
///
/// It never ends in `-<digits>`, because Terraform reads the last segment of a state Secret's name
/// as a chunk index; and no UID or label goes in, so a moved or restored object finds its state
/// again (naming.md §2, B1, B2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Suffix(String);

impl Suffix {
    /// `hex(sha256(namespace/kind/name))[:16]-short` (naming.md §2).
    #[must_use]
    pub fn new(namespace: &str, kind: Kind, name: &str) -> Self {
        let identity = short_hash(&format!("{namespace}/{kind}/{name}"));
        Self(format!("{identity}-{}", kind.short()))
    }

    /// The suffix as text, as published in `status.stateSecretSuffix`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The Secret that holds the state, or its first chunk.
    #[must_use]
    pub fn base_state_secret(&self) -> String {
        format!("tfstate-default-{self}")
    }

    /// The Secret of chunk `index`, which counts from 1; 0 is the base Secret.
    #[must_use]
    pub fn state_secret(&self, index: usize) -> String {
        match index {
            0 => self.base_state_secret(),
            _ => format!("{}-part-{index}", self.base_state_secret()),
        }
    }

    /// The Lease that Terraform's backend locks the state with.
    #[must_use]
    pub fn lock_lease(&self) -> String {
        format!("lock-tfstate-default-{self}")
    }

    /// The run lease: one Job at a time per object (seed: The two leases).
    #[must_use]
    pub fn run_lease(&self) -> String {
        format!("captf-run-{self}")
    }

    /// The base Secret of the backup of state `serial` (naming.md §6).
    #[must_use]
    pub fn state_backup(&self, serial: u64) -> String {
        format!("captf-state-backup-{self}-{serial}")
    }
}

impl fmt::Display for Suffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The name of the Cluster an object belongs to: its `cluster.x-k8s.io/cluster-name` label when
/// non-empty, else the owner Cluster's name, else unknown, which is the empty string (naming.md §3).
#[must_use]
pub fn cluster_name<'a>(label: Option<&'a str>, owner: Option<&'a str>) -> &'a str {
    label
        .filter(|name| !name.is_empty())
        .or(owner)
        .unwrap_or_default()
}

/// The cluster write lease of a Cluster, always 30 characters; `None` when the cluster is unknown,
/// because without a name there is neither a cluster lease nor a gate (naming.md §3).
#[must_use]
pub fn cluster_write_lease(namespace: &str, cluster: &str) -> Option<String> {
    (!cluster.is_empty()).then(|| {
        format!(
            "captf-cluster-{}",
            short_hash(&format!("{namespace}/{cluster}"))
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("team-a", Kind::TerraformCluster, "prod", "f66792f9106e7299-c")]
    #[case(
        "team-a",
        Kind::TerraformMachine,
        "prod-md-0-abcde",
        "284c64cfc4f5db6e-m"
    )]
    #[case(
        "team-a",
        Kind::TerraformMachinePool,
        "prod-mp-0",
        "fdadd9db672a38c7-mp"
    )]
    #[case("default", Kind::TerraformCluster, "c1", "3f6c665eb6eaf3a5-c")]
    #[case("ns", Kind::TerraformMachine, "m1", "e568aa154685e2ff-m")]
    #[case("default", Kind::TerraformCluster, "demo", "0b41ac905b337e94-c")]
    fn suffix_worked_examples(
        #[case] namespace: &str,
        #[case] kind: Kind,
        #[case] name: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(Suffix::new(namespace, kind, name).as_str(), expected);
        assert_eq!(
            ObjectKey::new(kind, namespace, name).suffix().as_str(),
            expected
        );
    }

    #[rstest]
    #[case(Kind::TerraformCluster, "demo", "captf-run-6d0be5af00180804-c", 28)]
    #[case(
        Kind::TerraformMachine,
        "demo-md-0-x7k2p",
        "captf-run-093d1f499cf34636-m",
        28
    )]
    #[case(
        Kind::TerraformMachinePool,
        "demo-pool-0",
        "captf-run-06972c935d0a9951-mp",
        29
    )]
    fn run_lease_worked_examples(
        #[case] kind: Kind,
        #[case] name: &str,
        #[case] expected: &str,
        #[case] length: usize,
    ) {
        let lease = Suffix::new("team-a", kind, name).run_lease();
        assert_eq!(lease, expected);
        assert_eq!(lease.len(), length);
    }

    #[test]
    fn names_derived_from_the_suffix() {
        let suffix = Suffix::new("team-a", Kind::TerraformCluster, "demo");
        assert_eq!(
            suffix.lock_lease(),
            "lock-tfstate-default-6d0be5af00180804-c"
        );
        assert_eq!(
            suffix.base_state_secret(),
            "tfstate-default-6d0be5af00180804-c"
        );
        assert_eq!(suffix.state_secret(0), "tfstate-default-6d0be5af00180804-c");
        assert_eq!(
            suffix.state_secret(2),
            "tfstate-default-6d0be5af00180804-c-part-2"
        );
        assert_eq!(
            suffix.state_backup(7),
            "captf-state-backup-6d0be5af00180804-c-7"
        );
    }

    #[rstest]
    #[case("team-a", "prod", "captf-cluster-687e6377eb6e7c06")]
    #[case("default", "c1", "captf-cluster-3a4ba0ad328f407b")]
    #[case("team-a", "demo", "captf-cluster-1960e37ce9a93a17")]
    #[case("default", "capi-quickstart", "captf-cluster-c6e99286a5e3e8e2")]
    fn cluster_write_lease_worked_examples(
        #[case] namespace: &str,
        #[case] cluster: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(
            cluster_write_lease(namespace, cluster).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn unknown_cluster_has_no_write_lease() {
        assert_eq!(cluster_write_lease("team-a", ""), None);
    }

    #[rstest]
    #[case(Some("label"), Some("owner"), "label")]
    #[case(Some(""), Some("owner"), "owner")]
    #[case(None, Some("owner"), "owner")]
    #[case(Some(""), None, "")]
    #[case(None, None, "")]
    fn cluster_name_is_the_label_else_the_owner_else_unknown(
        #[case] label: Option<&str>,
        #[case] owner: Option<&str>,
        #[case] expected: &str,
    ) {
        assert_eq!(cluster_name(label, owner), expected);
    }

    #[test]
    fn an_unknown_kind_is_an_error() {
        assert_eq!(
            "TerraformThing".parse::<Kind>().unwrap_err().to_string(),
            "unknown kind \"TerraformThing\": expected TerraformCluster, TerraformMachine or \
             TerraformMachinePool"
        );
        assert_eq!(Kind::from_short("x"), None);
    }

    #[rstest]
    #[case(Op::Apply, true)]
    #[case(Op::Destroy, true)]
    #[case(Op::Restore, true)]
    #[case(Op::Plan, false)]
    #[case(Op::Refresh, false)]
    #[case(Op::Drift, false)]
    fn apply_destroy_and_restore_are_mutating(#[case] op: Op, #[case] mutating: bool) {
        assert_eq!(op.mutating(), mutating);
        assert_eq!(op.as_str().parse::<Op>().unwrap(), op);
    }

    proptest! {
        #[test]
        fn suffix_never_ends_in_a_dash_and_digits(
            namespace in "[a-z0-9-]{1,63}",
            name in "[a-z0-9.-]{1,253}",
            kind in prop::sample::select(Kind::ALL.to_vec()),
        ) {
            let suffix = Suffix::new(&namespace, kind, &name);
            let last = suffix.as_str().rsplit('-').next().unwrap_or_default().to_owned();
            prop_assert!(!last.bytes().all(|byte| byte.is_ascii_digit()));
            prop_assert!(suffix.run_lease().len() == 28 || suffix.run_lease().len() == 29);
        }
    }
}
