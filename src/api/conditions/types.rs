//! The condition types and what their `True` means (conditions-events.md §1, §2).

use std::fmt;

use super::Polarity;

/// A condition type (conditions-events.md §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// Summary of the others for the workload kinds; the only one Cluster API reads.
    Ready,
    /// Owner, cluster and variables are there.
    DependenciesReady,
    /// The identity may be used in the namespace.
    IdentityAllowed,
    /// The credentials are in the namespace.
    CredentialsMirrored,
    /// The runner's ServiceAccount and RoleBinding are in the namespace.
    RunnerRbacReady,
    /// Outcome of the newest apply or destroy, and why the next one waits.
    ApplyJobSucceeded,
    /// The state can be read.
    StateReadable,
    /// Outcome of a requested restore.
    RestoreJobSucceeded,
    /// The module's outputs fit the contract.
    OutputsValid,
    /// The infrastructure is healthy.
    InfrastructureHealthy,
    /// Outcome of the newest refresh or drift check.
    DriftJobSucceeded,
    /// Infrastructure differs from what was applied.
    DriftDetected,
    /// The current inputs are applied.
    InputsApplied,
    /// Something waits to be applied.
    Reconciling,
    /// Nothing is done at the moment.
    Paused,
    /// The object is being deleted.
    Deleting,
    /// The cluster's deletion waits for its machines and pools.
    DeletionBlocked,
    /// The control plane has an endpoint.
    EndpointAvailable,
    /// Who owns a pool's size.
    AutoscalingActive,
    /// A machine template's capacity is known.
    CapacityResolved,
    /// A machine template's variables fit its image.
    VariablesValid,
    /// A plan is approved.
    Approved,
}

impl ConditionType {
    /// The type as written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::DependenciesReady => "DependenciesReady",
            Self::IdentityAllowed => "IdentityAllowed",
            Self::CredentialsMirrored => "CredentialsMirrored",
            Self::RunnerRbacReady => "RunnerRBACReady",
            Self::ApplyJobSucceeded => "ApplyJobSucceeded",
            Self::StateReadable => "StateReadable",
            Self::RestoreJobSucceeded => "RestoreJobSucceeded",
            Self::OutputsValid => "OutputsValid",
            Self::InfrastructureHealthy => "InfrastructureHealthy",
            Self::DriftJobSucceeded => "DriftJobSucceeded",
            Self::DriftDetected => "DriftDetected",
            Self::InputsApplied => "InputsApplied",
            Self::Reconciling => "Reconciling",
            Self::Paused => "Paused",
            Self::Deleting => "Deleting",
            Self::DeletionBlocked => "DeletionBlocked",
            Self::EndpointAvailable => "EndpointAvailable",
            Self::AutoscalingActive => "AutoscalingActive",
            Self::CapacityResolved => "CapacityResolved",
            Self::VariablesValid => "VariablesValid",
            Self::Approved => "Approved",
        }
    }

    /// What `True` means (conditions-events.md §1).
    #[must_use]
    pub const fn polarity(self) -> Polarity {
        match self {
            Self::Deleting | Self::DriftDetected | Self::DeletionBlocked => Polarity::Negative,
            Self::Paused | Self::Reconciling => Polarity::State,
            _ => Polarity::Normal,
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
