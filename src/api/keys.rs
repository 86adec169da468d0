//! Every metadata key that is read or written (annotations-labels.md).
//!
//! Label values are limited to 63 characters: names are shortened before they become a label value
//! or part of a selector (naming.md §4).

/// The value of every marker label and marker annotation; markers are tested for presence (README,
/// decision 6), except the opt-in labels, which need exactly this value.
pub const TRUE: &str = "true";

/// Finalizers of the workload kinds (annotations-labels.md §9).
pub mod finalizers {
    /// On `TerraformCluster`: removed after destroy and cleanup, or without a destroy where none is
    /// due.
    pub const CLUSTER: &str = "terraformcluster.infrastructure.cluster.x-k8s.io";
    /// On `TerraformMachine`.
    pub const MACHINE: &str = "terraformmachine.infrastructure.cluster.x-k8s.io";
    /// On `TerraformMachinePool`.
    pub const MACHINE_POOL: &str = "terraformmachinepool.infrastructure.cluster.x-k8s.io";
    /// On the base state Secret, backup chunks and both inputs records: nobody deletes them by
    /// accident.
    pub const STATE_PROTECTION: &str = "captf.io/state-protection";
}

/// Labels. Those of the sets that are derived from an object are declared beside these sets, in
/// [`crate::names::key`].
pub mod labels {
    pub use crate::names::key::{
        ATTEMPT, CLUSTER_NAME, LEASE, MANAGED, MOVE, OP, OWNER_KIND, OWNER_NAME,
    };

    /// Exactly `true` on a ConfigMap or Secret opts it in as a variables source; unlabeled counts
    /// as missing.
    pub const VARIABLES: &str = "captf.io/variables";
    /// Exactly `true` on a ServiceAccount opts it in as a runner account; the default one needs
    /// none.
    pub const RUNNER: &str = "captf.io/runner";
    /// `true` marks a credential mirror.
    pub const MIRRORED: &str = "captf.io/mirrored";
    /// Marks a state backup chunk.
    pub const STATE_BACKUP: &str = "captf.io/state-backup";
    /// On state backup chunks: the suffix of the state they were taken of.
    pub const STATE_BACKUP_SUFFIX: &str = "captf.io/state-backup-suffix";
    /// On Secrets kept by `deletionPolicy: Retain`: the uid of the deleted object.
    pub const RETAINED_FROM_UID: &str = "captf.io/retained-from-uid";
    /// On a TerraformPlan: `true` when it replaces or deletes, else `false`.
    pub const DESTRUCTIVE: &str = "captf.io/destructive";
    /// On a TerraformPlan: its phase; written by the manager only, survives a move.
    pub const PLAN_PHASE: &str = "captf.io/plan-phase";
    /// On a TerraformPlan: its reason.
    pub const PLAN_REASON: &str = "captf.io/plan-reason";
    /// An object with it is reconciled only by the manager whose `--watch-filter` has its value.
    pub const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";
    /// Present on a control plane Machine.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
    /// On CRDs and other components of a provider (capi.md §1).
    pub const PROVIDER: &str = "cluster.x-k8s.io/provider";
    /// On a CRD: clusterctl moves its objects with the hierarchy that references them (value `""`).
    pub const MOVE_HIERARCHY: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";
    /// On a CRD: clusterctl finds its kind (capi.md C60c; value `""`).
    pub const CLUSTERCTL: &str = "clusterctl.cluster.x-k8s.io";
    /// On a CRD: the versions of it that serve Cluster API's contract v1beta2.
    pub const CONTRACT: &str = "cluster.x-k8s.io/v1beta2";
    /// On a pod: the uid of its Job, set by Kubernetes.
    pub const BATCH_CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
    /// On a pod: the name of its Job, set by Kubernetes.
    pub const BATCH_JOB_NAME: &str = "batch.kubernetes.io/job-name";
}

/// Annotations. Those of Leases are declared beside the lease rules, in [`crate::lease`].
pub mod annotations {
    pub use crate::lease::{LEASE_ACQUIRED_AT, LEASE_JOB_UID, LEASE_OP};

    // On Terraform* objects.

    /// Serial of a state backup; set by a user to run a restore Job, removed by the manager when it
    /// succeeded.
    pub const RESTORE_STATE: &str = "captf.io/restore-state";
    /// Name of a Job; set by a user to confirm that it left no resources behind, removed by the
    /// manager.
    pub const CONFIRM_NO_RESOURCES: &str = "captf.io/confirm-no-resources";
    /// On a TerraformCluster: `user` or `module`, who owns the endpoint; written once, never
    /// changed.
    pub const ENDPOINT_SOURCE: &str = "captf.io/endpoint-source";
    /// Set before a Job is created, cleared once none is active. Value: `<object uid> <RFC 3339
    /// time of the backstop>`; any value blocks a move (README, decision 16).
    pub const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
    /// Written by clusterctl before it deletes a moved object; counts as paused.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
    /// Present: the object is paused.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// Present: the cluster is managed from outside; nothing is done.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// Name of the template the object was cloned from.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";

    // On Jobs.

    /// Hash of the inputs: on Jobs, state Secrets, backups and inputs records.
    pub const INPUTS_HASH: &str = "captf.io/inputs-hash";
    /// The finished Job is counted; written only after the status patch that records its result
    /// succeeded.
    pub const BOOKKEPT: &str = "captf.io/bookkept";
    /// The Job was stopped from outside: no failure.
    pub const INTERRUPTED: &str = "captf.io/interrupted";
    /// The apply remediates drift.
    pub const DRIFT_REMEDIATION: &str = "captf.io/drift-remediation";
    /// The apply stopped before an unapproved destructive plan.
    pub const DESTRUCTIVE_PLAN_BLOCKED: &str = "captf.io/destructive-plan-blocked";
    /// The approved apply planned other changes.
    pub const PLAN_CHANGED: &str = "captf.io/plan-changed";
    /// Name of the TerraformPlan the apply applies.
    pub const PLAN: &str = "captf.io/plan";
    /// Hash of the plan the Job made.
    pub const PLAN_HASH: &str = "captf.io/plan-hash";
    /// The plan Job succeeded without a plan in its result; counts as a failure.
    pub const PLAN_UNREADABLE: &str = "captf.io/plan-unreadable";
    /// Hash of the plan the apply was approved for.
    pub const APPROVED_PLAN: &str = "captf.io/approved-plan";
    /// The apply started while the newest apply had failed.
    pub const AFTER_FAILED_APPLY: &str = "captf.io/after-failed-apply";
    /// Name of the vanished apply Job this one started after.
    pub const AFTER_INTERRUPTED_APPLY: &str = "captf.io/after-interrupted-apply";
    /// Serial of the backup a restore pushes.
    pub const RESTORE_SERIAL: &str = "captf.io/restore-serial";
    /// Hash a pool's apply is approved under.
    pub const APPROVAL_HASH: &str = "captf.io/approval-hash";
    /// Hash of the exports a pool's apply renders.
    pub const CLUSTER_OUTPUTS_HASH: &str = "captf.io/cluster-outputs-hash";
    /// The pool's apply rendered the old exports while a change of them waits.
    pub const HELD_CLUSTER_OUTPUTS: &str = "captf.io/held-cluster-outputs";
    /// resourceVersion of the state lock Lease at the Job's creation, or `none`.
    pub const STATE_LOCK_VERSION: &str = "captf.io/state-lock-version";
    /// `<lineage>/<serial>/<managed count>` of the state before a destroy.
    pub const STATE_BEFORE: &str = "captf.io/state-before";
    /// The destroy is proven; an interrupted cleanup goes on.
    pub const DESTROY_PROVEN: &str = "captf.io/destroy-proven";
    /// JSON array of further images to try when the pull fails.
    pub const IMAGE_FALLBACKS: &str = "captf.io/image-fallbacks";
    /// The kubelet's reason for a failed pull.
    pub const PULL_FAILED: &str = "captf.io/pull-failed";

    // On Secrets.

    /// Image reference as last written in the spec.
    pub const IMAGE: &str = "captf.io/image";
    /// Digest reference that pins a floating tag.
    pub const IMAGE_DIGEST: &str = "captf.io/image-digest";
    /// Name of the identity, or of the Secret for kind Secret.
    pub const IDENTITY: &str = "captf.io/identity";
    /// `Secret` for kind Secret; absent for a TerraformClusterIdentity.
    pub const IDENTITY_KIND: &str = "captf.io/identity-kind";
    /// Hex SHA-256 of a mirror's source.
    pub const SOURCE_HASH: &str = "captf.io/source-hash";
    /// An apply succeeded once: a missing state is lost, not never written.
    pub const APPLIED: &str = "captf.io/applied";
    /// Name of an apply Job that may have applied part of its change.
    pub const INTERRUPTED_APPLY: &str = "captf.io/interrupted-apply";
    /// Name of the Job a record belongs to.
    pub const JOB: &str = "captf.io/job";
    /// The recorded apply may have changed infrastructure.
    pub const MAY_HAVE_APPLIED: &str = "captf.io/may-have-applied";
    /// Images that could not be pulled.
    pub const UNPULLABLE_IMAGES: &str = "captf.io/unpullable-images";
    /// JSON: the exports change whose apply was blocked.
    pub const PENDING_CLUSTER_OUTPUTS: &str = "captf.io/pending-cluster-outputs";
    /// JSON: the exports change whose apply failed part way.
    pub const PARTIAL_CLUSTER_OUTPUTS: &str = "captf.io/partial-cluster-outputs";
    /// Hash of the exports of the last successful apply.
    pub const APPLIED_CLUSTER_OUTPUTS_HASH: &str = "captf.io/applied-cluster-outputs-hash";
    /// Serial of the state in a backup; the value for [`RESTORE_STATE`].
    pub const STATE_BACKUP_SERIAL: &str = "captf.io/state-backup-serial";
    /// Lineage of the state in a backup.
    pub const STATE_BACKUP_LINEAGE: &str = "captf.io/state-backup-lineage";
    /// RFC 3339 time of a backup.
    pub const STATE_BACKUP_TAKEN_AT: &str = "captf.io/state-backup-taken-at";
    /// The Job whose apply produced the state in a backup.
    pub const STATE_BACKUP_SOURCE_JOB: &str = "captf.io/state-backup-source-job";
    /// Digest of the state in a backup.
    pub const STATE_BACKUP_DIGEST: &str = "captf.io/state-backup-digest";
    /// Number of managed resources in a backup, decimal.
    pub const STATE_BACKUP_RESOURCES: &str = "captf.io/state-backup-resources";
    /// Groups the chunks of one backup.
    pub const STATE_BACKUP_SET: &str = "captf.io/state-backup-set";
    /// Index of a chunk in its set, decimal, from 0.
    pub const STATE_BACKUP_CHUNK: &str = "captf.io/state-backup-chunk";
    /// Number of chunks in the set, decimal; a backup is complete only with all.
    pub const STATE_BACKUP_CHUNKS: &str = "captf.io/state-backup-chunks";

    // On objects of Cluster API.

    /// On a Machine: asks Cluster API to remediate it.
    pub const REMEDIATE_MACHINE: &str = "cluster.x-k8s.io/remediate-machine";
    /// On a Machine: why we asked; only then may we withdraw the request.
    pub const REMEDIATION_REQUESTED: &str = "captf.io/remediation-requested";
    /// On a MachinePool: who owns `spec.replicas`; ours has the value `captf`.
    pub const REPLICAS_MANAGED_BY: &str = "cluster.x-k8s.io/replicas-managed-by";
    /// On a MachinePool: lower bound of autoscaling.
    pub const AUTOSCALER_MIN_SIZE: &str =
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// On a MachinePool: upper bound of autoscaling.
    pub const AUTOSCALER_MAX_SIZE: &str =
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
    /// On a template in a ClusterClass dry run: immutability is not checked.
    pub const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

    // Of older versions: without effect, never written (annotations-labels.md §10).

    /// Replaced by `spec.approved` of a TerraformPlan.
    pub const REMOVED_APPROVE_DESTRUCTIVE_PLAN: &str = "captf.io/approve-destructive-plan";
    /// Replaced by `spec.approved` of a TerraformPlan.
    pub const REMOVED_APPROVE_PLAN: &str = "captf.io/approve-plan";
    /// Replaced by `spec.deletionPolicy: Retain`.
    pub const REMOVED_ABANDON_INFRASTRUCTURE: &str = "captf.io/abandon-infrastructure";
}
