//! The kinds of the API group.

use std::fmt;

use crate::names;

/// API group of every kind (api.md §1).
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// The only version, served and stored (api.md §1).
pub const VERSION: &str = "v1alpha1";

/// A kind of the API group (api.md §1); [`names::Kind`] is one of the three that have a Terraform
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiKind {
    /// `TerraformCluster`
    TerraformCluster,
    /// `TerraformMachine`
    TerraformMachine,
    /// `TerraformMachinePool`
    TerraformMachinePool,
    /// `TerraformMachineTemplate`
    TerraformMachineTemplate,
    /// `TerraformClusterIdentity`, the only cluster-scoped kind
    TerraformClusterIdentity,
    /// `TerraformPlan`
    TerraformPlan,
}

impl ApiKind {
    /// The kind as written in `kind:`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TerraformCluster => "TerraformCluster",
            Self::TerraformMachine => "TerraformMachine",
            Self::TerraformMachinePool => "TerraformMachinePool",
            Self::TerraformMachineTemplate => "TerraformMachineTemplate",
            Self::TerraformClusterIdentity => "TerraformClusterIdentity",
            Self::TerraformPlan => "TerraformPlan",
        }
    }
}

impl fmt::Display for ApiKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<names::Kind> for ApiKind {
    fn from(kind: names::Kind) -> Self {
        match kind {
            names::Kind::TerraformCluster => Self::TerraformCluster,
            names::Kind::TerraformMachine => Self::TerraformMachine,
            names::Kind::TerraformMachinePool => Self::TerraformMachinePool,
        }
    }
}
