//! The Terraform state of an object as its Secrets hold it: decoding, the labels that keep it
//! visible to Terraform, and its lock (state-secrets.md).
//!
//! Everything works on objects that were read before; what must be written comes back as a value.
//! Outputs are never logged or printed (S-3).

mod decode;
mod fingerprint;
mod labels;
mod lock;
mod problem;
mod secret;

pub use decode::{Output, Reading, STATE_BYTES_MAX, STATE_SECRETS_MAX, State, read_state};
pub use fingerprint::fingerprint;
pub use labels::{LabelFault, LabelRepair, label_repairs, repair_note};
pub use lock::{
    HeldLock, LockFacts, LockHolder, LockInfo, LockLease, LockVerdict, PodFact, read_lock,
};
pub use problem::{Corruption, Inconsistency, StateProblem};
pub use secret::{STATE_DATA_KEY, StateSecret, chunk_index, secret_name};
