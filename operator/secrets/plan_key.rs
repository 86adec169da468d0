//! The plan key: 32 random bytes that a Job fingerprints its plan with (state-secrets.md §5.2).

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::owner::Owner;
use super::{SecretMeta, metas, secrets};
use crate::client::{Access, ApiError, Class, Deletion, Guard};
use crate::names::{PLAN_KEY_DATA_KEY, plan_key_secret};

/// Length of the key in bytes.
const KEY_BYTES: usize = 32;

/// Why there is no plan key.
#[derive(Debug, thiserror::Error)]
pub enum PlanKeyError {
    /// The system's random source failed.
    #[error("cannot make the plan key Secret {name}: the system gives no random bytes")]
    NoRandomness {
        /// The Secret that was to be made.
        name: String,
    },
    /// An API call failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Name of the plan key Secret of `owner`.
#[must_use]
pub fn name(owner: &Owner) -> String {
    plan_key_secret(owner.key.kind, &owner.key.name)
}

/// Makes the plan key Secret of `owner` unless it exists, and returns its name. A key is never
/// rotated: plans already approved are known by fingerprints made with it.
///
/// # Errors
/// When the create is refused or unanswered; a race lost to another create is success.
pub async fn ensure(access: &Access, owner: &Owner) -> Result<String, PlanKeyError> {
    let name = name(owner);
    if access
        .get::<SecretMeta>(&metas(access, owner.namespace()), &name)
        .await?
        .is_some()
    {
        return Ok(name);
    }
    let Some(key) = random_key() else {
        return Err(PlanKeyError::NoRandomness { name });
    };
    match access
        .create(
            &secrets(access, owner.namespace()),
            &build(owner, &name, key),
        )
        .await
    {
        Ok(_) => Ok(name),
        Err(error) if error.class() == Class::AlreadyExists => Ok(name),
        Err(error) => Err(error.into()),
    }
}

/// Deletes the plan key Secret, at cleanup and at Retain. `false` when there was none.
///
/// # Errors
/// Any failed call.
pub async fn delete(access: &Access, owner: &Owner) -> Result<bool, ApiError> {
    let name = name(owner);
    let Some(found) = access
        .get::<SecretMeta>(&metas(access, owner.namespace()), &name)
        .await?
    else {
        return Ok(false);
    };
    if !owner
        .key
        .owns(found.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()))
    {
        return Ok(false);
    }
    let guard = Guard::uid(found.metadata.uid.as_deref().unwrap_or_default());
    let deletion = access
        .delete(&secrets(access, owner.namespace()), &name, &guard)
        .await?;
    Ok(deletion == Deletion::Deleted)
}

fn build(owner: &Owner, name: &str, key: [u8; KEY_BYTES]) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(owner.namespace().to_owned()),
            labels: Some(owner.key.owner_labels()),
            owner_references: Some(vec![owner.reference()]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(
            PLAN_KEY_DATA_KEY.to_owned(),
            ByteString(key.to_vec()),
        )])),
        ..Secret::default()
    }
}

fn random_key() -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut key)
        .ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_differ() {
        assert_ne!(random_key(), random_key());
        assert!(random_key().is_some());
    }
}
