//! Retain: the object goes, its state, backups and records stay, owned by nobody and labelled with the
//! UID they come from; and what a new object of the same name does with them (deletion.md §6, §7).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;

use super::cleanup::{delete_lock_lease, of_another, retained_from};
use super::records::RecordKind;
use super::{Owner, SecretMeta, SecretPatch, metas, without_owner, without_protection};
use crate::api::keys::{TRUE, labels};
use crate::client::{Access, ApiError};
use crate::names::{Labels, ObjectKey, state_selector};
use crate::operator::state::selector_text;

/// The Secrets that outlive their object under Retain: metadata, read live.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// State chunks, found by the backend's selector.
    pub state: Vec<ObjectMeta>,
    /// Chunks of state backups.
    pub backups: Vec<ObjectMeta>,
    /// Inputs records, attempt first.
    pub records: Vec<ObjectMeta>,
}

impl Kept {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectMeta> {
        self.state.iter().chain(&self.backups).chain(&self.records)
    }
}

/// Finds them by selector and by name, never by ownership (state-secrets.md S-26).
///
/// # Errors
/// When any read fails.
pub async fn find_kept(access: &Access, key: &ObjectKey) -> Result<Kept, ApiError> {
    Ok(Kept {
        state: list_state(access, key).await?,
        backups: list_backups(access, key).await?,
        records: find_records(access, key).await?,
    })
}

pub(super) async fn list_state(
    access: &Access,
    key: &ObjectKey,
) -> Result<Vec<ObjectMeta>, ApiError> {
    list(access, &key.namespace, &state_selector(&key.suffix())).await
}

/// Metadata of the chunks of the object's state backups, found by their selector.
///
/// # Errors
/// When the list fails.
pub async fn list_backups(access: &Access, key: &ObjectKey) -> Result<Vec<ObjectMeta>, ApiError> {
    let selector = Labels::from([
        (labels::STATE_BACKUP.to_owned(), TRUE.to_owned()),
        (
            labels::STATE_BACKUP_SUFFIX.to_owned(),
            key.suffix().to_string(),
        ),
    ]);
    list(access, &key.namespace, &selector).await
}

pub(super) async fn find_records(
    access: &Access,
    key: &ObjectKey,
) -> Result<Vec<ObjectMeta>, ApiError> {
    let api = metas(access, &key.namespace);
    let mut records = Vec::new();
    for kind in [RecordKind::Attempt, RecordKind::Applied] {
        let found: Option<SecretMeta> = access.get(&api, &kind.secret_name(key)).await?;
        records.extend(found.map(|record| record.metadata));
    }
    Ok(records)
}

async fn list(
    access: &Access,
    namespace: &str,
    selector: &Labels,
) -> Result<Vec<ObjectMeta>, ApiError> {
    let params = ListParams::default().labels(&selector_text(selector));
    let found: Vec<SecretMeta> = access.list(&metas(access, namespace), &params).await?;
    Ok(found.into_iter().map(|secret| secret.metadata).collect())
}

/// How many Secrets Retain kept, for the event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// State Secrets.
    pub state: usize,
    /// Backup Secrets.
    pub backups: usize,
    /// Inputs records.
    pub records: usize,
}

/// Makes the object's Secrets outlive it: no owner reference to it, no protection finalizer, the label
/// with its UID; then the lock Lease goes (deletion.md §6 steps 2 to 4). Secrets kept from another
/// object are skipped. Can be cut anywhere and repeated; must be complete before the plan key, leases
/// and finalizer go, because whatever is still owned then is collected.
///
/// # Errors
/// A conflict when somebody wrote a Secret meanwhile, and any other failed call.
pub async fn retain(access: &Access, owner: &Owner) -> Result<Retained, ApiError> {
    let kept = find_kept(access, &owner.key).await?;
    let mut counts = [0; 3];
    for (count, secrets) in counts
        .iter_mut()
        .zip([&kept.state, &kept.backups, &kept.records])
    {
        for secret in secrets.iter().filter(|secret| !of_another(secret, owner)) {
            write(access, owner, secret, release(secret, owner)).await?;
            *count += 1;
        }
    }
    delete_lock_lease(access, owner).await?;
    let [state, backups, records] = counts;
    Ok(Retained {
        state,
        backups,
        records,
    })
}

/// Takes the label of retained Secrets away: adoption of what another object left
/// (`spec.adoptRetainedState`), or the undoing of an own Retain that was cut short and withdrawn.
/// Returns how many were changed.
///
/// # Errors
/// As [`retain`].
pub async fn adopt_retained(access: &Access, owner: &Owner) -> Result<usize, ApiError> {
    let kept = find_kept(access, &owner.key).await?;
    let labelled: Vec<&ObjectMeta> = kept
        .iter()
        .filter(|secret| retained_from(secret).is_some())
        .collect();
    for secret in &labelled {
        write(
            access,
            owner,
            secret,
            SecretPatch::new().without_label(labels::RETAINED_FROM_UID),
        )
        .await?;
    }
    Ok(labelled.len())
}

/// What Retain changes on one Secret; nothing when a pass before did it.
fn release(secret: &ObjectMeta, owner: &Owner) -> SecretPatch {
    let references = secret.owner_references.as_deref().unwrap_or_default();
    let patch = SecretPatch::new()
        .owner_references(without_owner(references, owner).as_deref())
        .finalizers(without_protection(secret).as_deref());
    match retained_from(secret) {
        Some(_) => patch,
        None => patch.label(labels::RETAINED_FROM_UID, &owner.uid),
    }
}

async fn write(
    access: &Access,
    owner: &Owner,
    read: &ObjectMeta,
    patch: SecretPatch,
) -> Result<(), ApiError> {
    if patch.is_empty() {
        return Ok(());
    }
    let name = read.name.as_deref().unwrap_or_default();
    let api = metas(access, owner.namespace());
    access
        .patch::<SecretMeta>(&api, name, &patch.body(read))
        .await
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::names::Kind;

    fn owner(uid: &str) -> Owner {
        Owner::new(
            ObjectKey::new(Kind::TerraformCluster, "team-a", "prod"),
            uid,
        )
    }

    fn secret(retained: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            resource_version: Some("5".to_owned()),
            labels: retained.map(|uid| {
                BTreeMap::from([("captf.io/retained-from-uid".to_owned(), uid.to_owned())])
            }),
            owner_references: Some(vec![owner("u1").reference()]),
            finalizers: Some(vec!["captf.io/state-protection".to_owned()]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn release_takes_owner_and_protection_and_names_the_uid() {
        assert_eq!(
            release(&secret(None), &owner("u1")).body(&secret(None)),
            json!({"metadata": {
                "resourceVersion": "5",
                "labels": {"captf.io/retained-from-uid": "u1"},
                "ownerReferences": [],
                "finalizers": []
            }})
        );
    }

    #[test]
    fn a_released_secret_is_not_written_again() {
        let mut done = secret(Some("u1"));
        done.owner_references = None;
        done.finalizers = None;
        assert!(release(&done, &owner("u1")).is_empty());
    }

    #[test]
    fn only_another_uid_holds_an_object() {
        assert!(!of_another(&secret(Some("u1")), &owner("u1")));
        assert!(!of_another(&secret(None), &owner("u1")));
        assert!(of_another(&secret(Some("u0")), &owner("u1")));
        assert_eq!(retained_from(&secret(Some("u0"))), Some("u0"));
    }
}
