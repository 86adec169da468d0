//! Deleting what belongs to an object that is gone (deletion.md §10). Each step is idempotent: what is
//! gone already is done. The caller's order binds: state and its lock, records, plan key, leases,
//! mirror, backups.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;

use super::retain::{find_records, list_backups, list_state};
use super::{Owner, delete_protected, unprotect};
use crate::api::keys::labels;
use crate::client::{Access, ApiError, Guard};

/// Deletes every state Secret, one by one, then Terraform's lock Lease (deletion.md §10 step 1).
/// Secrets that Retain kept from another object stay. Returns how many Secrets were deleted.
///
/// # Errors
/// A conflict when somebody wrote a Secret meanwhile, and any other failed call: the cleanup is
/// repeated whole.
pub async fn delete_state(access: &Access, owner: &Owner) -> Result<usize, ApiError> {
    let mut deleted = 0;
    for chunk in list_state(access, &owner.key).await? {
        if !of_another(&chunk, owner) {
            delete_protected(access, owner.namespace(), &chunk).await?;
            deleted += 1;
        }
    }
    delete_lock_lease(access, owner).await?;
    Ok(deleted)
}

/// Deletes Terraform's lock Lease of the object; without its state it locks nothing.
///
/// # Errors
/// Any failed call; a missing Lease is success.
pub(super) async fn delete_lock_lease(access: &Access, owner: &Owner) -> Result<(), ApiError> {
    let name = owner.key.suffix().lock_lease();
    let api = access.api::<PartialObjectMeta<Lease>>(owner.namespace());
    if let Some(lease) = access.get(&api, &name).await? {
        let guard = Guard::uid(lease.metadata.uid.as_deref().unwrap_or_default());
        access
            .delete(&access.api::<Lease>(owner.namespace()), &name, &guard)
            .await?;
    }
    Ok(())
}

/// Deletes both inputs records (deletion.md §10 step 2), but for one that Retain kept from another
/// object.
///
/// # Errors
/// As [`delete_state`].
pub async fn delete_records(access: &Access, owner: &Owner) -> Result<(), ApiError> {
    for record in find_records(access, &owner.key).await? {
        if !of_another(&record, owner) {
            delete_protected(access, owner.namespace(), &record).await?;
        }
    }
    Ok(())
}

/// Takes the protection finalizer off the object's state backups, so that garbage collection can take
/// them once the object is gone (deletion.md §10 step 6). Returns how many there are.
///
/// # Errors
/// As [`delete_state`].
pub async fn release_backups(access: &Access, owner: &Owner) -> Result<usize, ApiError> {
    let mut released = 0;
    for backup in list_backups(access, &owner.key).await? {
        if !of_another(&backup, owner) {
            unprotect(access, owner.namespace(), &backup).await?;
            released += 1;
        }
    }
    Ok(released)
}

/// Whether Retain kept the Secret from an object with another UID: it is nobody's to delete
/// (deletion.md §7).
pub(super) fn of_another(secret: &ObjectMeta, owner: &Owner) -> bool {
    retained_from(secret).is_some_and(|uid| uid != owner.uid)
}

/// The UID of the object that the Secret was kept from.
#[must_use]
pub fn retained_from(secret: &ObjectMeta) -> Option<&str> {
    secret
        .labels
        .as_ref()?
        .get(labels::RETAINED_FROM_UID)
        .map(String::as_str)
}
