//! Counters of decisions and of entries into a bad state: transitions, never passes
//! (metrics-alerts.md §2, §3).

use prometheus_client::registry::Registry;

use crate::decide::{Action, Decision};
use crate::names::Kind;

use super::{Counters, Metrics, alpha, counters};

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseWait {
    /// The run lease, or the cluster write lease held by another cluster operation.
    RunLease,
    /// The cluster's operation.
    ClusterOperation,
    /// Operations of machines and pools.
    MachineOperations,
    /// A Job slot.
    JobSlot,
}

impl LeaseWait {
    const fn as_str(self) -> &'static str {
        match self {
            Self::RunLease => "run_lease",
            Self::ClusterOperation => "cluster_operation",
            Self::MachineOperations => "machine_operations",
            Self::JobSlot => "job_slot",
        }
    }

    /// The wait a condition's reason stands for; `None` for every other reason.
    #[must_use]
    pub fn from_condition_reason(reason: &str) -> Option<Self> {
        Some(match reason {
            "WaitingForRunLease" => Self::RunLease,
            "WaitingForClusterOperation" => Self::ClusterOperation,
            "WaitingForMachineOperations" => Self::MachineOperations,
            "WaitingForJobSlot" => Self::JobSlot,
            _ => return None,
        })
    }
}

#[derive(Clone)]
pub(super) struct Families {
    decisions: Counters<3>,
    lease_waits: Counters<2>,
    state_read_errors: Counters<2>,
    outputs_invalid: Counters<2>,
    inputs_hash_changes: Counters<1>,
    force_unlocks: Counters<1>,
    identity_denied: Counters<1>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            decisions: counters(
                registry,
                "captf_reconcile_op_decisions",
                alpha("Decisions of passes, by operation and reason"),
            ),
            lease_waits: counters(
                registry,
                "captf_lease_waits",
                alpha("Operations that began to wait for a lease or a Job slot"),
            ),
            state_read_errors: counters(
                registry,
                "captf_state_read_errors",
                alpha("Entries of StateReadable into False"),
            ),
            outputs_invalid: counters(
                registry,
                "captf_outputs_invalid",
                alpha("Entries of OutputsValid into False"),
            ),
            inputs_hash_changes: counters(
                registry,
                "captf_inputs_hash_changes",
                alpha("Applies started because the inputs changed"),
            ),
            force_unlocks: counters(
                registry,
                "captf_lock_force_unlocks",
                alpha("Jobs started with a stale lock to force-unlock"),
            ),
            identity_denied: counters(
                registry,
                "captf_identity_denied",
                alpha("Entries of IdentityAllowed into False"),
            ),
        }
    }
}

impl Metrics {
    /// A pass over an object of this kind reached a decision.
    pub fn decision(&self, kind: Kind, decision: &Decision) {
        let op = match &decision.action {
            Action::Start(run) => run.op.as_str(),
            Action::DropFinalizer | Action::Retain => "finalizer",
            Action::None => "none",
        };
        let labels = [
            ("kind", kind.as_str()),
            ("op", op),
            ("reason", decision.reason.as_str()),
        ];
        self.transitions.decisions.get_or_create(&labels).inc();
    }

    /// A condition entered this wait, or changed to it from another.
    pub fn lease_wait(&self, kind: Kind, wait: LeaseWait) {
        self.transitions
            .lease_waits
            .get_or_create(&[("kind", kind.as_str()), ("reason", wait.as_str())])
            .inc();
    }

    /// `StateReadable` entered False, or changed its reason while False; `condition_reason` is that
    /// reason. A reason that is not one of the condition's is not counted.
    pub fn state_read_error(&self, kind: Kind, condition_reason: &str) {
        if let Some(reason) = state_reason(condition_reason) {
            self.transitions
                .state_read_errors
                .get_or_create(&[("kind", kind.as_str()), ("reason", reason)])
                .inc();
        }
    }

    /// `OutputsValid` entered False, or changed its reason while False. A reason that is not one of
    /// the condition's is not counted.
    pub fn outputs_invalid(&self, kind: Kind, condition_reason: &str) {
        const REASONS: [&str; 4] = [
            "OutputsMissing",
            "OutputsInvalid",
            "FailureDomainMismatch",
            "ProviderIDChanged",
        ];
        if let Some(reason) = REASONS.into_iter().find(|known| *known == condition_reason) {
            self.transitions
                .outputs_invalid
                .get_or_create(&[("kind", kind.as_str()), ("reason", reason)])
                .inc();
        }
    }

    /// `IdentityAllowed` entered False, or changed its reason while False.
    pub fn identity_denied(&self, condition_reason: &str) {
        let reason = match condition_reason {
            "IdentityNotFound" | "SecretNotFound" | "CredentialsIncomplete" => "notfound",
            _ => "namespace",
        };
        self.transitions
            .identity_denied
            .get_or_create(&[("reason", reason)])
            .inc();
    }

    /// An apply of a mutable kind started because the inputs hash changed.
    pub fn inputs_hash_changed(&self, kind: Kind) {
        self.transitions
            .inputs_hash_changes
            .get_or_create(&[("kind", kind.as_str())])
            .inc();
    }

    /// A Job started with a stale lock to force-unlock.
    pub fn force_unlocked(&self, kind: Kind) {
        self.transitions
            .force_unlocks
            .get_or_create(&[("kind", kind.as_str())])
            .inc();
    }
}

/// The condition's reason without the prefix `State`, in lower case.
fn state_reason(condition_reason: &str) -> Option<&'static str> {
    Some(match condition_reason {
        "StateInconsistent" => "inconsistent",
        "StateEncrypted" => "encrypted",
        "StateCorrupt" => "corrupt",
        "StateLost" => "lost",
        "StateLocked" => "locked",
        "RetainedStateFound" => "retainedstatefound",
        "ApplyOutcomeUnknown" => "applyoutcomeunknown",
        _ => return None,
    })
}
