//! Making a state the object's own after a successful apply, and keeping Secrets so (state-secrets.md
//! §6).

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

/// What keeps a Secret from being lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarding {
    /// The owner reference to the object as it is now.
    Owner,
    /// Also the protection finalizer.
    OwnerAndProtection,
}

/// Whether the Secret is the object's by its labels and lacks what guards it (S-24, §5.3).
#[must_use]
pub fn wants_repair(owner: &Owner, secret: &ObjectMeta, guarding: Guarding) -> bool {
    let labels = secret.labels.clone().unwrap_or_default();
    owner.key.owns(&labels) && !guarded(owner, secret, guarding).is_empty()
}

/// Puts the owner reference and the protection back where they are missing or name an earlier uid of
/// the object. Not for Secrets that Retain kept from another object. Returns whether it wrote.
///
/// # Errors
/// A conflict when somebody wrote the Secret since, and any other failed call.
pub async fn repair(
    access: &Access,
    owner: &Owner,
    secret: &ObjectMeta,
    guarding: Guarding,
) -> Result<bool, ApiError> {
    if !wants_repair(owner, secret, guarding) {
        return Ok(false);
    }
    write(access, owner, secret, guarded(owner, secret, guarding)).await?;
    Ok(true)
}

fn guarded(owner: &Owner, secret: &ObjectMeta, guarding: Guarding) -> SecretPatch {
    let patch = ownership(secret, owner);
    match guarding {
        Guarding::Owner => patch,
        Guarding::OwnerAndProtection => patch.finalizers(with_protection(secret).as_deref()),
    }
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
