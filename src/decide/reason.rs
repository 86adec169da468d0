//! Why a pass decided as it did (jobs.md §3, §4).

/// Why an operation is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A restore is requested.
    RestoreRequested,
    /// The object is being deleted and its state reads.
    Deleting,
    /// There is no state.
    NoState,
    /// The state records no inputs: no apply has succeeded.
    StateWithoutInputsHash,
    /// The inputs are not those of the state.
    InputsChanged,
    /// The newest apply failed.
    LastApplyFailed,
    /// Drift was found and is to be remediated.
    DriftRemediation,
    /// An apply succeeded since the last refresh.
    RefreshAfterApply,
    /// A pool's members join or leave.
    MembershipConverging,
    /// Health is pending.
    HealthPending,
    /// A pool's members are looked at again.
    MembershipRefreshDue,
    /// A machine's health is looked at again.
    HealthCheckDue,
    /// Drift is looked for again.
    DriftDue,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 13] = [
        Self::RestoreRequested,
        Self::Deleting,
        Self::NoState,
        Self::StateWithoutInputsHash,
        Self::InputsChanged,
        Self::LastApplyFailed,
        Self::DriftRemediation,
        Self::RefreshAfterApply,
        Self::MembershipConverging,
        Self::HealthPending,
        Self::MembershipRefreshDue,
        Self::HealthCheckDue,
        Self::DriftDue,
    ];

    /// The reason as written in metrics and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RestoreRequested => "RestoreRequested",
            Self::Deleting => "Deleting",
            Self::NoState => "NoState",
            Self::StateWithoutInputsHash => "StateWithoutInputsHash",
            Self::InputsChanged => "InputsChanged",
            Self::LastApplyFailed => "LastApplyFailed",
            Self::DriftRemediation => "DriftRemediation",
            Self::RefreshAfterApply => "RefreshAfterApply",
            Self::MembershipConverging => "MembershipConverging",
            Self::HealthPending => "HealthPending",
            Self::MembershipRefreshDue => "MembershipRefreshDue",
            Self::HealthCheckDue => "HealthCheckDue",
            Self::DriftDue => "DriftDue",
        }
    }

    /// The reason while the operation is in backoff.
    const fn backoff_str(self) -> &'static str {
        match self {
            Self::RestoreRequested => "RestoreRequestedBackoff",
            Self::Deleting => "DeletingBackoff",
            Self::NoState => "NoStateBackoff",
            Self::StateWithoutInputsHash => "StateWithoutInputsHashBackoff",
            Self::InputsChanged => "InputsChangedBackoff",
            Self::LastApplyFailed => "LastApplyFailedBackoff",
            Self::DriftRemediation => "DriftRemediationBackoff",
            Self::RefreshAfterApply => "RefreshAfterApplyBackoff",
            Self::MembershipConverging => "MembershipConvergingBackoff",
            Self::HealthPending => "HealthPendingBackoff",
            Self::MembershipRefreshDue => "MembershipRefreshDueBackoff",
            Self::HealthCheckDue => "HealthCheckDueBackoff",
            Self::DriftDue => "DriftDueBackoff",
        }
    }
}

/// The approval an apply waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApprovalWait {
    /// A Manual plan waits to be approved.
    PlanAwaitingApproval,
    /// A destructive plan waits to be approved, or rests before it is planned again.
    DestructivePlanBlocked,
}

impl ApprovalWait {
    /// The reason as written in conditions, metrics and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PlanAwaitingApproval => "PlanAwaitingApproval",
            Self::DestructivePlanBlocked => "DestructivePlanBlocked",
        }
    }
}

/// Why a pass decided as it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A Job runs.
    JobActive,
    /// The object goes and its infrastructure stays.
    DeletionRetained,
    /// The deletion is held because the state is lost or unreadable.
    DeletionHeld,
    /// The live object is held because the state is lost or unreadable.
    StateHeld,
    /// The object goes and there is nothing to destroy.
    DeletingWithoutState,
    /// Nothing is due.
    UpToDate,
    /// An operation is due and starts.
    Due(Cause),
    /// An operation is due and in backoff.
    Backoff(Cause),
    /// An apply is due and waits for an approval.
    Waiting(ApprovalWait),
}

impl Reason {
    /// The reason as written in metrics and answers; a closed set.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobActive => "JobActive",
            Self::DeletionRetained => "DeletionRetained",
            Self::DeletionHeld => "DeletionHeld",
            Self::StateHeld => "StateHeld",
            Self::DeletingWithoutState => "DeletingWithoutState",
            Self::UpToDate => "UpToDate",
            Self::Due(cause) => cause.as_str(),
            Self::Backoff(cause) => cause.backoff_str(),
            Self::Waiting(wait) => wait.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_is_the_cause_with_its_ending() {
        for cause in Cause::ALL {
            assert_eq!(
                Reason::Backoff(cause).as_str(),
                format!("{}Backoff", cause.as_str())
            );
        }
    }
}
