//! The protection finalizer: a cascading delete or a prune may delete the Secrets of an object that
//! still waits for its destroy; the finalizer keeps the data readable (state-secrets.md §5.3).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::patch::SecretPatch;
use super::{SecretMeta, metas, secrets};
use crate::api::keys::finalizers::STATE_PROTECTION;
use crate::client::{Access, ApiError, Guard};

/// The finalizers with ours, or `None` when it is there already, or must not be added because the
/// Secret is being deleted: the API server refuses that (S-22).
#[must_use]
pub fn with_protection(read: &ObjectMeta) -> Option<Vec<String>> {
    if is_protected(read) || read.deletion_timestamp.is_some() {
        return None;
    }
    let mut finalizers = read.finalizers.clone().unwrap_or_default();
    finalizers.push(STATE_PROTECTION.to_owned());
    Some(finalizers)
}

/// The finalizers without ours, or `None` when it is not there.
#[must_use]
pub fn without_protection(read: &ObjectMeta) -> Option<Vec<String>> {
    is_protected(read).then(|| {
        let others = read
            .finalizers
            .iter()
            .flatten()
            .filter(|name| *name != STATE_PROTECTION);
        others.cloned().collect()
    })
}

fn is_protected(read: &ObjectMeta) -> bool {
    read.finalizers
        .iter()
        .flatten()
        .any(|name| name == STATE_PROTECTION)
}

/// Takes the finalizer off a Secret and deletes it (S-23): the patch is locked to the resourceVersion
/// read, the delete to the uid. Not found at any point is success.
///
/// # Errors
/// A conflict when somebody wrote the Secret since it was read, and any other refusal.
pub async fn delete_protected(
    access: &Access,
    namespace: &str,
    read: &ObjectMeta,
) -> Result<(), ApiError> {
    if !unprotect(access, namespace, read).await? {
        return Ok(());
    }
    let name = read.name.as_deref().unwrap_or_default();
    let guard = Guard::uid(read.uid.as_deref().unwrap_or_default());
    access
        .delete(&secrets(access, namespace), name, &guard)
        .await
        .map(|_| ())
}

/// Takes the finalizer off and leaves the Secret to garbage collection. `false` when the Secret is
/// gone.
///
/// # Errors
/// As [`delete_protected`].
pub async fn unprotect(
    access: &Access,
    namespace: &str,
    read: &ObjectMeta,
) -> Result<bool, ApiError> {
    let Some(finalizers) = without_protection(read) else {
        return Ok(true);
    };
    let body = SecretPatch::new().finalizers(Some(&finalizers)).body(read);
    let name = read.name.as_deref().unwrap_or_default();
    match access
        .patch::<SecretMeta>(&metas(access, namespace), name, &body)
        .await
    {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(finalizers: &[&str]) -> ObjectMeta {
        ObjectMeta {
            finalizers: Some(finalizers.iter().map(|&name| name.to_owned()).collect()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn other_finalizers_stay() {
        assert_eq!(
            with_protection(&with(&["a"])),
            Some(vec!["a".to_owned(), "captf.io/state-protection".to_owned()])
        );
        assert_eq!(
            without_protection(&with(&["captf.io/state-protection", "a"])),
            Some(vec!["a".to_owned()])
        );
    }

    #[test]
    fn a_secret_being_deleted_is_not_protected_any_more() {
        let mut read = with(&[]);
        read.deletion_timestamp =
            serde_json::from_value(serde_json::json!("2026-10-01T12:00:00Z")).ok();
        assert!(read.deletion_timestamp.is_some());
        assert_eq!(with_protection(&read), None);
    }

    #[test]
    fn what_is_right_needs_no_write() {
        assert_eq!(with_protection(&with(&["captf.io/state-protection"])), None);
        assert_eq!(without_protection(&with(&["a"])), None);
    }
}
