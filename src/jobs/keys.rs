//! Annotation keys on Jobs (jobs.md §6.2, annotations-labels.md §8); the label keys are in
//! [`crate::names::key`].

/// The result is in the object's status; written after the status patch succeeded.
pub const BOOKKEPT: &str = "captf.io/bookkept";
/// Failed, not by its deadline: stopped from outside.
pub const INTERRUPTED: &str = "captf.io/interrupted";
/// Failed apply that stopped before a plan that deletes or replaces.
pub const DESTRUCTIVE_PLAN_BLOCKED: &str = "captf.io/destructive-plan-blocked";
/// Failed apply whose approved plan no longer fits.
pub const PLAN_CHANGED: &str = "captf.io/plan-changed";
/// Succeeded plan Job without a readable plan: counts as a failure.
pub const PLAN_UNREADABLE: &str = "captf.io/plan-unreadable";
/// Fingerprint of the plan the Job made.
pub const PLAN_HASH: &str = "captf.io/plan-hash";
/// Hash of the inputs the Job renders.
pub const INPUTS_HASH: &str = "captf.io/inputs-hash";
/// Serial of the backup a restore Job pushes.
pub const RESTORE_SERIAL: &str = "captf.io/restore-serial";
/// resourceVersion of the state lock Lease when an apply Job was created, or `none`.
pub const STATE_LOCK_VERSION: &str = "captf.io/state-lock-version";
/// `<lineage>/<serial>/<managed count>` of the state read before a destroy.
pub const STATE_BEFORE: &str = "captf.io/state-before";
/// The destroy is proven: an interrupted cleanup goes on.
pub const DESTROY_PROVEN: &str = "captf.io/destroy-proven";
/// The apply remediates drift.
pub const DRIFT_REMEDIATION: &str = "captf.io/drift-remediation";
/// The apply started while one was due after a failure.
pub const AFTER_FAILED_APPLY: &str = "captf.io/after-failed-apply";
/// Name of the unconfirmed apply Job this apply started after.
pub const AFTER_INTERRUPTED_APPLY: &str = "captf.io/after-interrupted-apply";
/// Plan hash the apply must plan again.
pub const APPROVED_PLAN: &str = "captf.io/approved-plan";
/// Name of the approved TerraformPlan.
pub const PLAN: &str = "captf.io/plan";
/// Approval hash of a guarded pool apply.
pub const APPROVAL_HASH: &str = "captf.io/approval-hash";
/// Further images to try when the pull fails, a JSON array.
pub const IMAGE_FALLBACKS: &str = "captf.io/image-fallbacks";
/// The kubelet's reason for a failed pull; outlives the pod.
pub const PULL_FAILED: &str = "captf.io/pull-failed";
