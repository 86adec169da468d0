//! Making a state the object's own after a successful apply, and keeping it so (state-secrets.md §6).

use serde_json::Value;

use crate::client::{Access, ApiError};
use crate::names::InputsHash;
use crate::operator::secrets::{self, Owner, metas};
use crate::state::{SecretMeta, adoption_patches, owner_patches};

/// Adopts the state after a successful apply or restore: owner references on every chunk, then, last,
/// inputs hash and protection finalizer on the base Secret. The hash proves the apply, so it is there
/// only when all the rest is. Each write is guarded; what is right is not written again. Returns
/// whether anything was written (event `StateAdopted`).
///
/// `chunks` are those of the state read in this pass, in their order; an empty hash removes the
/// annotation.
///
/// # Errors
/// A conflict when somebody wrote a chunk since, and any other failed call: the next pass adopts again.
pub async fn adopt(
    access: &Access,
    owner: &Owner,
    chunks: &[SecretMeta],
    hash: &InputsHash,
) -> Result<bool, ApiError> {
    let patches = adoption_patches(chunks, &owner.reference(), hash);
    for (name, patch) in patches.iter().rev() {
        write(access, owner, name, patch).await?;
    }
    Ok(!patches.is_empty())
}

/// Owner references that were repaired.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The Secrets, for the event `OwnerReferencesRepaired`.
    pub secrets: Vec<String>,
    /// The last failed write; the pass goes on, and the next one repairs.
    pub error: Option<ApiError>,
}

/// Repairs owner references that are missing or name an earlier UID of the object (S-24), on state
/// chunks, records, backups and plan keys alike. Not for Secrets that Retain kept from another object.
pub async fn repair_owners(access: &Access, owner: &Owner, found: &[SecretMeta]) -> Repaired {
    let mut repaired = Repaired::default();
    for (name, patch) in owner_patches(found, &owner.reference()) {
        match write(access, owner, &name, &patch).await {
            Ok(()) => repaired.secrets.push(name),
            Err(error) => repaired.error = Some(error),
        }
    }
    repaired
}

async fn write(access: &Access, owner: &Owner, name: &str, patch: &Value) -> Result<(), ApiError> {
    let api = metas(access, owner.namespace());
    access
        .patch::<secrets::PartialSecret>(&api, name, patch)
        .await
        .map(|_| ())
}
