//! Making a state the object's own after a successful apply, and keeping it so (state-secrets.md §6).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::keys::annotations;
use crate::client::{Access, ApiError};
use crate::names::InputsHash;
use crate::operator::secrets::{
    Owner, SecretMeta, SecretPatch, metas, with_owner, with_protection,
};
use crate::state::secret_name;

/// Adopts the state after a successful apply or restore: owner references on every chunk; on the base
/// Secret, the first of `chunks`, also the inputs hash and the protection finalizer. The base is
/// written last: its hash proves the apply, so it is there only when all the rest is. What is right is
/// not written again. Returns whether anything was written (event `StateAdopted`).
///
/// `chunks` are those of the state read in this pass, in their order; an empty hash removes the
/// annotation (a restored backup without one).
///
/// # Errors
/// A conflict when somebody wrote a chunk since, and any other failed call: the next pass adopts again.
pub async fn adopt(
    access: &Access,
    owner: &Owner,
    chunks: &[ObjectMeta],
    hash: &InputsHash,
) -> Result<bool, ApiError> {
    let mut written = false;
    for (index, chunk) in chunks.iter().enumerate().rev() {
        let patch = ownership(chunk, owner);
        let patch = if index == 0 {
            proof(chunk, hash, patch)
        } else {
            patch
        };
        if !patch.is_empty() {
            write(access, owner, chunk, patch).await?;
            written = true;
        }
    }
    Ok(written)
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
pub async fn repair_owners(access: &Access, owner: &Owner, found: &[ObjectMeta]) -> Repaired {
    let mut repaired = Repaired::default();
    for secret in found {
        let patch = ownership(secret, owner);
        if patch.is_empty() {
            continue;
        }
        match write(access, owner, secret, patch).await {
            Ok(()) => repaired.secrets.push(secret_name(secret).to_owned()),
            Err(error) => repaired.error = Some(error),
        }
    }
    repaired
}

fn ownership(secret: &ObjectMeta, owner: &Owner) -> SecretPatch {
    let references = secret.owner_references.as_deref().unwrap_or_default();
    SecretPatch::new().owner_references(with_owner(references, owner).as_deref())
}

fn proof(base: &ObjectMeta, hash: &InputsHash, patch: SecretPatch) -> SecretPatch {
    let recorded = base
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::INPUTS_HASH));
    let wanted = Some(hash.as_str()).filter(|hash| !hash.is_empty());
    let patch = patch.finalizers(with_protection(base).as_deref());
    if recorded.map(String::as_str) == wanted {
        patch
    } else {
        patch.annotation(annotations::INPUTS_HASH, wanted)
    }
}

async fn write(
    access: &Access,
    owner: &Owner,
    read: &ObjectMeta,
    patch: SecretPatch,
) -> Result<(), ApiError> {
    let api = metas(access, owner.namespace());
    let body = patch.body(read);
    access
        .patch::<SecretMeta>(&api, secret_name(read), &body)
        .await
        .map(|_| ())
}
