//! The Secrets the operator writes around its Jobs (state-secrets.md §5, §7, §11): per-run Secrets,
//! inputs records, plan keys, and what becomes of all of them at cleanup and Retain.
//!
//! Every function reads live, decides with a pure rule and makes guarded writes; none is retried
//! here. Their content never reaches a log or an error.

mod cleanup;
mod owner;
mod patch;
pub mod per_run;
pub mod plan_key;
mod protection;
pub mod records;
mod retain;
mod run;
pub mod variables;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::core::PartialObjectMeta;

use crate::client::Access;

pub use cleanup::{delete_records, delete_state, release_backups, retained_from};
pub use owner::{Owner, with_owner, with_user, without_owner};
pub use patch::SecretPatch;
pub use protection::{delete_protected, unprotect, with_protection, without_protection};
pub use retain::{Kept, Retained, adopt_retained, find_kept, list_backups, retain};
pub use run::{Provenance, RunInputs};

/// A Secret without its data: what is read wherever the data does not matter.
pub type SecretMeta = PartialObjectMeta<Secret>;

/// Secrets with their data.
#[must_use]
pub fn secrets(access: &Access, namespace: &str) -> Api<Secret> {
    access.api(namespace)
}

/// Secrets asked for as metadata only, in reads as in the answers to patches.
#[must_use]
pub fn metas(access: &Access, namespace: &str) -> Api<SecretMeta> {
    access.api(namespace)
}
