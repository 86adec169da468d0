//! Every name, label set and hash that is derived from an object (naming.md).
//!
//! All of it is a pure function of identity and content, byte for byte: two managers, or two
//! versions of one, find each other's state, Jobs and leases only because they compute the same
//! names. Nothing here reads a clock or a cluster.

mod digest;
mod job;
mod labels;
mod object;
mod secrets;
mod time;

pub use digest::{EMPTY_PLAN_HASH, hex, sha256_hex, short_hash};
pub use job::{
    Hash6, InputsHash, JOB_NAME_MAX, JobName, JobSeed, ParsedJobName, Tick, next_attempt, own_pod,
    owns_pod,
};
pub use labels::{
    Labels, LeaseScope, backend_labels, job_labels, key, label_value, lease_labels, owner_labels,
    render_label_map, state_selector,
};
pub use object::{
    Kind, ObjectKey, Op, Suffix, UnknownKind, UnknownOp, cluster_name, cluster_write_lease,
};
pub use secrets::{
    PLAN_KEY_DATA_KEY, SECRET_NAME_MAX, applied_inputs_secret, attempt_inputs_secret,
    bounded_secret_name, credentials_mirror, per_run_secret, plan_key_secret, plan_name,
    source_hash,
};
pub use time::{jitter, stamp};
