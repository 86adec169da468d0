//! Every condition type, status and reason (conditions-events.md §3, lifecycle.md §14.2).

use super::{ConditionType, State, Status};
use crate::api::ApiKind;

/// One row of the table of allowed reasons: a condition type on some kinds, with its reasons per
/// status.
#[derive(Debug)]
pub struct Row {
    /// The condition type.
    pub condition: ConditionType,
    /// The kinds that carry it.
    pub kinds: &'static [ApiKind],
    /// Reasons of status True.
    pub when_true: &'static [&'static str],
    /// Reasons of status False.
    pub when_false: &'static [&'static str],
    /// Reasons of status Unknown; none means that the condition is never Unknown.
    pub when_unknown: &'static [&'static str],
}

impl Row {
    /// The reasons of a status.
    #[must_use]
    pub const fn reasons(&self, status: Status) -> &'static [&'static str] {
        match status {
            Status::True => self.when_true,
            Status::False => self.when_false,
            Status::Unknown => self.when_unknown,
        }
    }
}

/// Declares the states of the condition types and the table of all of them.
macro_rules! states {
    ($(
        $(#[$meta:meta])*
        $name:ident = $condition:ident on $kinds:ident {
            True { $( $(#[$true_meta:meta])* $true_reason:ident = $true_text:literal, )* }
            False { $( $(#[$false_meta:meta])* $false_reason:ident = $false_text:literal, )* }
            Unknown { $( $(#[$unknown_meta:meta])* $unknown_reason:ident = $unknown_text:literal, )* }
        }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $name {
                $( $(#[$true_meta])* $true_reason, )*
                $( $(#[$false_meta])* $false_reason, )*
                $( $(#[$unknown_meta])* $unknown_reason, )*
            }

            impl State for $name {
                const TYPE: ConditionType = ConditionType::$condition;

                fn status(self) -> Status {
                    match self {
                        $( Self::$true_reason => Status::True, )*
                        $( Self::$false_reason => Status::False, )*
                        $( Self::$unknown_reason => Status::Unknown, )*
                    }
                }

                fn reason(self) -> &'static str {
                    match self {
                        $( Self::$true_reason => $true_text, )*
                        $( Self::$false_reason => $false_text, )*
                        $( Self::$unknown_reason => $unknown_text, )*
                    }
                }
            }
        )+

        /// Every allowed combination of kind, condition type, status and reason (lifecycle.md
        /// §14.2).
        pub const TABLE: &[Row] = &[$(
            Row {
                condition: ConditionType::$condition,
                kinds: $kinds,
                when_true: &[$( $true_text, )*],
                when_false: &[$( $false_text, )*],
                when_unknown: &[$( $unknown_text, )*],
            },
        )+];
    };
}

const WORKSPACES: &[ApiKind] = &[
    ApiKind::TerraformCluster,
    ApiKind::TerraformMachine,
    ApiKind::TerraformMachinePool,
];
const CLUSTERS: &[ApiKind] = &[ApiKind::TerraformCluster];
const POOLS: &[ApiKind] = &[ApiKind::TerraformMachinePool];
const MACHINE_TEMPLATES: &[ApiKind] = &[ApiKind::TerraformMachineTemplate];
const IDENTITIES: &[ApiKind] = &[ApiKind::TerraformClusterIdentity];
const PLANS: &[ApiKind] = &[ApiKind::TerraformPlan];

states! {
    /// `Ready` of the workload kinds, computed by [`super::ready_summary`] only.
    Ready = Ready on WORKSPACES {
        True {
            /// Every input is good.
            Ready = "Ready",
        }
        False {
            /// At least one input is bad.
            NotReady = "NotReady",
        }
        Unknown {
            /// No input is bad, at least one is Unknown or missing.
            ReadyUnknown = "ReadyUnknown",
        }
    }

    /// `Ready` of an identity: whether its Secret is there.
    IdentityReady = Ready on IDENTITIES {
        True {
            /// The Secret exists and holds every required key.
            SecretFound = "SecretFound",
        }
        False {
            /// The Secret does not exist; the message names namespace and name.
            SecretNotFound = "SecretNotFound",
            /// The Secret lacks a required key; the message names the keys.
            CredentialsIncomplete = "CredentialsIncomplete",
        }
        Unknown {}
    }

    /// `Ready` of a plan: mirrors its phase.
    PlanReady = Ready on PLANS {
        True {
            /// Live and not approved.
            Pending = "Pending",
            /// Approved, the apply has not finished.
            Approved = "Approved",
            /// The apply succeeded.
            Applied = "Applied",
        }
        False {
            /// Replaced or moot.
            Superseded = "Superseded",
            /// The approved apply planned other changes.
            Failed = "Failed",
        }
        Unknown {}
    }

    /// `Approved` of a plan.
    PlanApproved = Approved on PLANS {
        True {
            /// `spec.approved` is true and the plan is Approved, Applied or Failed.
            Approved = "Approved",
        }
        False {
            /// Live and not approved.
            Pending = "Pending",
            /// Finished and never approved.
            NotApproved = "NotApproved",
            /// Approved, but superseded before it was applied.
            ApprovalIgnored = "ApprovalIgnored",
        }
        Unknown {}
    }

    /// Whether the owner, the cluster and the variables an object depends on are there.
    DependenciesReady = DependenciesReady on WORKSPACES {
        True {
            /// All gates are open.
            DependenciesReady = "DependenciesReady",
        }
        False {
            /// The owner object is gone.
            OwnerNotFound = "OwnerNotFound",
            /// A fresh machine has owners but no Machine yet.
            WaitingForOwnerMachine = "WaitingForOwnerMachine",
            /// A fresh pool has owners but no MachinePool yet.
            WaitingForOwnerMachinePool = "WaitingForOwnerMachinePool",
            /// The Cluster's infrastructure is of another kind; the message names cluster and kind.
            ClusterNotTerraform = "ClusterNotTerraform",
            /// An owner reference names an owner that does not reference this object back.
            OwnerMismatch = "OwnerMismatch",
            /// A variables source that is not optional is missing or unlabeled; the message names
            /// it.
            VariablesSourceNotFound = "VariablesSourceNotFound",
            /// A variable's name or value cannot be used; the message names the key, never the
            /// value.
            VariablesInvalid = "VariablesInvalid",
        }
        Unknown {
            /// No owner yet, or the Cluster named by the label is not found.
            WaitingForOwner = "WaitingForOwner",
            /// The TerraformCluster is not provisioned.
            WaitingForClusterInfrastructure = "WaitingForClusterInfrastructure",
            /// The cluster's exports cannot be read.
            WaitingForClusterExports = "WaitingForClusterExports",
            /// The bootstrap data Secret is not set or not found.
            WaitingForBootstrapData = "WaitingForBootstrapData",
        }
    }

    /// Whether the object may use its identity. While not True no Job starts.
    IdentityAllowed = IdentityAllowed on WORKSPACES {
        True {
            /// The identity exists, allows the namespace, and its Secret is complete.
            IdentityAllowed = "IdentityAllowed",
            /// `identityRef.kind` is `Secret` and that Secret exists.
            LocalSecret = "LocalSecret",
        }
        False {
            /// No identity is referenced, or the referenced one does not exist.
            IdentityNotFound = "IdentityNotFound",
            /// `allowedNamespaces` excludes the namespace; the mirror is deleted.
            NamespaceNotAllowed = "NamespaceNotAllowed",
            /// The credentials Secret is missing.
            SecretNotFound = "SecretNotFound",
            /// The credentials Secret lacks a required key.
            CredentialsIncomplete = "CredentialsIncomplete",
        }
        Unknown {
            /// A read failed for another reason than not found.
            IdentityCheckFailed = "IdentityCheckFailed",
        }
    }

    /// Whether the credentials are in the object's namespace.
    CredentialsMirrored = CredentialsMirrored on WORKSPACES {
        True {
            /// The mirror exists and is current, or a local Secret is used directly.
            Mirrored = "Mirrored",
        }
        False {
            /// The mirror could not be written; the message names the Secret.
            MirrorFailed = "MirrorFailed",
        }
        Unknown {
            /// Before the first mirror, or IdentityAllowed is not True.
            MirrorPending = "MirrorPending",
        }
    }

    /// Whether the runner's ServiceAccount and RoleBinding are in place; absent until first
    /// reached.
    RunnerRbacReady = RunnerRbacReady on WORKSPACES {
        True {
            /// Both are in place.
            RbacReady = "RBACReady",
        }
        False {
            /// One could not be created, or belongs to somebody else.
            RbacFailed = "RBACFailed",
            /// The named ServiceAccount is missing or lacks the opt-in label.
            ServiceAccountNotOptedIn = "ServiceAccountNotOptedIn",
        }
        Unknown {}
    }

    /// The newest outcome of apply, plan and destroy, and why the next one waits or cannot start.
    ApplyJobSucceeded = ApplyJobSucceeded on WORKSPACES {
        True {
            /// The newest apply succeeded.
            ApplySucceeded = "ApplySucceeded",
            /// The destroy succeeded.
            DestroySucceeded = "DestroySucceeded",
        }
        False {
            /// The newest apply failed, or disappeared while it ran.
            ApplyFailed = "ApplyFailed",
            /// The destroy failed, cannot be rendered, or ended well without proof.
            DestroyFailed = "DestroyFailed",
            /// The Job reached its deadline.
            JobDeadlineExceeded = "JobDeadlineExceeded",
            /// A destroy cannot start: the identity excludes the namespace or is gone.
            IdentityNotAllowed = "IdentityNotAllowed",
            /// The module image is not laid out as the contract wants.
            ImageInvalid = "ImageInvalid",
            /// The module image cannot be pulled.
            ImagePullFailed = "ImagePullFailed",
            /// The rendered inputs are too large for a Secret; no Job.
            InputsTooLarge = "InputsTooLarge",
            /// The lock timeout is not below the deadline; no Job except a destroy.
            JobPolicyInvalid = "JobPolicyInvalid",
            /// A guarded apply stopped before a plan that deletes or replaces.
            DestructivePlanBlocked = "DestructivePlanBlocked",
        }
        Unknown {
            /// No apply has completed.
            NoApplyYet = "NoApplyYet",
            /// Another live Job holds the run lease.
            WaitingForRunLease = "WaitingForRunLease",
            /// A machine or pool waits while the cluster lease is live.
            WaitingForClusterOperation = "WaitingForClusterOperation",
            /// A cluster waits for live operations of its machines and pools.
            WaitingForMachineOperations = "WaitingForMachineOperations",
            /// The limit of running Jobs is reached.
            WaitingForJobSlot = "WaitingForJobSlot",
            /// A Job may still run where the object was moved from.
            WaitingForMovedJob = "WaitingForMovedJob",
            /// An unapproved plan waits.
            PlanAwaitingApproval = "PlanAwaitingApproval",
            /// An approved apply planned other changes and stopped.
            PlanChanged = "PlanChanged",
        }
    }

    /// Whether the state can be read. While False no Job runs, except under `StateLocked`.
    StateReadable = StateReadable on WORKSPACES {
        True {
            /// The state was read.
            StateRead = "StateRead",
        }
        False {
            /// The state is encrypted by the client.
            StateEncrypted = "StateEncrypted",
            /// The state cannot be decoded.
            StateCorrupt = "StateCorrupt",
            /// The state's Secrets do not form one complete state, or lack a label.
            StateInconsistent = "StateInconsistent",
            /// An object that applied before has no state.
            StateLost = "StateLost",
            /// Something that is not this object's runner holds the lock.
            StateLocked = "StateLocked",
            /// An earlier object of the same name retained its state.
            RetainedStateFound = "RetainedStateFound",
            /// No state exists, but an apply may have made resources that no state records.
            ApplyOutcomeUnknown = "ApplyOutcomeUnknown",
        }
        Unknown {
            /// No state yet.
            StateNotFound = "StateNotFound",
        }
    }

    /// The outcome of a requested restore; only once one was requested.
    RestoreJobSucceeded = RestoreJobSucceeded on WORKSPACES {
        True {
            /// The backup was pushed.
            StateRestored = "StateRestored",
        }
        False {
            /// The restore Job failed; not retried for that serial.
            RestoreFailed = "RestoreFailed",
            /// The annotation names no complete backup.
            RestoreBackupNotFound = "RestoreBackupNotFound",
            /// The module image cannot be pulled.
            ImagePullFailed = "ImagePullFailed",
        }
        Unknown {
            /// Another live Job holds the run lease.
            WaitingForRunLease = "WaitingForRunLease",
            /// A machine or pool waits while the cluster lease is live.
            WaitingForClusterOperation = "WaitingForClusterOperation",
            /// A cluster waits for live operations of its machines and pools.
            WaitingForMachineOperations = "WaitingForMachineOperations",
            /// The limit of running Jobs is reached.
            WaitingForJobSlot = "WaitingForJobSlot",
        }
    }

    /// Whether the module's outputs fit the contract.
    OutputsValid = OutputsValid on WORKSPACES {
        True {
            /// They do.
            OutputsValid = "OutputsValid",
            /// They do; a pool reported more instances than are kept.
            InstancesTruncated = "InstancesTruncated",
        }
        False {
            /// A required output is not declared.
            OutputsMissing = "OutputsMissing",
            /// An output breaks the contract.
            OutputsInvalid = "OutputsInvalid",
            /// The machine's failure domain is not the wanted one.
            FailureDomainMismatch = "FailureDomainMismatch",
            /// The provider id changed after it was first written.
            ProviderIdChanged = "ProviderIDChanged",
        }
        Unknown {
            /// Required outputs are null, or there is no state.
            OutputsPending = "OutputsPending",
        }
    }

    /// Whether the infrastructure is healthy.
    InfrastructureHealthy = InfrastructureHealthy on WORKSPACES {
        True {
            /// Running and healthy.
            Healthy = "Healthy",
        }
        False {
            /// From the start of the first apply until provisioned.
            Provisioning = "Provisioning",
            /// The instance is pending.
            InstancePending = "InstancePending",
            /// The instance runs and is unhealthy.
            InstanceUnhealthy = "InstanceUnhealthy",
            /// The instance is degraded.
            InstanceDegraded = "InstanceDegraded",
            /// The instance is stopped.
            InstanceStopped = "InstanceStopped",
            /// The instance is terminated or vanished.
            InstanceTerminated = "InstanceTerminated",
        }
        Unknown {
            /// Before the first apply.
            WaitingForProvisioning = "WaitingForProvisioning",
            /// Health is unknown or not reported.
            HealthUnknown = "HealthUnknown",
            /// The provider id is null for the first time after provisioning.
            ProviderIdMissing = "ProviderIDMissing",
        }
    }

    /// The outcome of the newest refresh or drift check.
    DriftJobSucceeded = DriftJobSucceeded on WORKSPACES {
        True {
            /// It succeeded.
            DriftChecked = "DriftChecked",
        }
        False {
            /// It failed; retried with backoff.
            DriftJobFailed = "DriftJobFailed",
            /// It reached its deadline.
            DriftJobDeadlineExceeded = "DriftJobDeadlineExceeded",
            /// The module image cannot be pulled.
            ImagePullFailed = "ImagePullFailed",
        }
        Unknown {
            /// None has completed, or drift checks are disabled.
            DriftNotChecked = "DriftNotChecked",
            /// A drift Job runs.
            DriftJobRunning = "DriftJobRunning",
            /// Another live Job holds the run lease.
            WaitingForRunLease = "WaitingForRunLease",
            /// The limit of running Jobs is reached.
            WaitingForJobSlot = "WaitingForJobSlot",
            /// A check is due but its inputs are gone.
            DurableInputsMissing = "DurableInputsMissing",
        }
    }

    /// Whether infrastructure differs from what was applied.
    DriftDetected = DriftDetected on WORKSPACES {
        True {
            /// It does; the action is to report it.
            DriftReported = "DriftReported",
            /// It does; the remediation is pending or failed.
            DriftPending = "DriftPending",
            /// It does; the remediation runs.
            DriftRemediating = "DriftRemediating",
        }
        False {
            /// The last check was clean.
            NoDrift = "NoDrift",
        }
        Unknown {
            /// Never checked.
            DriftNotChecked = "DriftNotChecked",
        }
    }

    /// Whether a cluster's deletion waits for its dependents.
    DeletionBlocked = DeletionBlocked on CLUSTERS {
        True {
            /// Machines or pools of the cluster exist; the message names them.
            DependentsExist = "DependentsExist",
        }
        False {
            /// It does not.
            NotBlocked = "NotBlocked",
        }
        Unknown {}
    }

    /// Whether the control plane has an endpoint; only after the cluster is provisioned.
    EndpointAvailable = EndpointAvailable on CLUSTERS {
        True {
            /// A valid endpoint from output, spec or Cluster.
            EndpointAvailable = "EndpointAvailable",
        }
        False {
            /// Provisioned, and nobody names a valid endpoint.
            WaitingForEndpoint = "WaitingForEndpoint",
        }
        Unknown {}
    }

    /// Who owns a pool's size.
    AutoscalingActive = AutoscalingActive on POOLS {
        True {
            /// The module; observed replicas are written back.
            ReplicasManagedByModule = "ReplicasManagedByModule",
        }
        False {
            /// Neither bound is set.
            AutoscalingDisabled = "AutoscalingDisabled",
            /// The bounds are incomplete or wrong; the message names them.
            AutoscalingAnnotationsInvalid = "AutoscalingAnnotationsInvalid",
            /// Another controller owns the replicas.
            ReplicasManagedExternally = "ReplicasManagedExternally",
        }
        Unknown {}
    }

    /// Whether the object is being deleted.
    Deleting = Deleting on WORKSPACES {
        True {
            /// It is; the message may say what the destroy waits for.
            Deleting = "Deleting",
            /// It is, and nothing says whether to destroy or to retain.
            DeletionPolicyUnresolved = "DeletionPolicyUnresolved",
        }
        False {
            /// It is not.
            NotDeleting = "NotDeleting",
        }
        Unknown {}
    }

    /// Whether the object is paused.
    Paused = Paused on WORKSPACES {
        True {
            /// By the Cluster, by its annotation, or by a move.
            Paused = "Paused",
        }
        False {
            /// It is not.
            NotPaused = "NotPaused",
        }
        Unknown {}
    }

    /// Whether the current inputs are applied.
    InputsApplied = InputsApplied on WORKSPACES {
        True {
            /// They are, and no apply is pending.
            InputsApplied = "InputsApplied",
        }
        False {
            /// An apply runs.
            ApplyRunning = "ApplyRunning",
            /// A plan waits for an approval.
            AwaitingApproval = "AwaitingApproval",
            /// The last apply failed and none succeeded since.
            InputsApplyFailed = "InputsApplyFailed",
            /// They are not, and no Job runs.
            ApplyPending = "ApplyPending",
        }
        Unknown {
            /// The current inputs cannot be built.
            InputsUnavailable = "InputsUnavailable",
        }
    }

    /// Whether something waits to be applied; derived from `InputsApplied`.
    Reconciling = Reconciling on WORKSPACES {
        True {
            /// The inputs are not applied.
            InputsNotApplied = "InputsNotApplied",
        }
        False {
            /// Nothing waits.
            Reconciled = "Reconciled",
        }
        Unknown {}
    }

    /// Whether a machine template's capacity is known.
    CapacityResolved = CapacityResolved on MACHINE_TEMPLATES {
        True {
            /// From the spec or from the image.
            CapacityResolved = "CapacityResolved",
            /// The image declares none.
            CapacityNotDeclared = "CapacityNotDeclared",
        }
        False {
            /// The image could not be read.
            ImageInspectFailed = "ImageInspectFailed",
            /// The image's label is invalid.
            CapacityLabelInvalid = "CapacityLabelInvalid",
        }
        Unknown {}
    }

    /// Whether a machine template's variables fit its image.
    VariablesValid = VariablesValid on MACHINE_TEMPLATES {
        True {
            /// They do.
            VariablesValid = "VariablesValid",
            /// The image declares no usable schema.
            VariablesSchemaNotDeclared = "VariablesSchemaNotDeclared",
        }
        False {
            /// They do not; the message names the variable, never its value.
            VariablesRejected = "VariablesRejected",
        }
        Unknown {
            /// The image could not be read.
            VariablesSchemaUnavailable = "VariablesSchemaUnavailable",
            /// A source is missing or unlabeled.
            VariablesSourcePending = "VariablesSourcePending",
        }
    }
}
