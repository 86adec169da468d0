//! What the kinds differ in (lifecycle.md §2).

use crate::names::Kind;

/// Whether a change of the inputs is applied again: clusters and pools; a machine is replaced instead.
#[must_use]
pub const fn is_mutable(kind: Kind) -> bool {
    matches!(kind, Kind::TerraformCluster | Kind::TerraformMachinePool)
}

/// Whether each successful apply is followed by a refresh: machines and pools.
#[must_use]
pub const fn refreshes_after_apply(kind: Kind) -> bool {
    matches!(kind, Kind::TerraformMachine | Kind::TerraformMachinePool)
}
