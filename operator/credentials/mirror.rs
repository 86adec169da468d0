//! The mirror of an identity's credentials in one namespace: a byte copy, shared and owned by the
//! objects that use it (state-secrets.md §10).

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::api::keys::{TRUE, annotations, labels};
use crate::client::{Access, ApiError, Class, Deletion, Guard};
use crate::names::{credentials_mirror, source_hash};
use crate::operator::secrets::{
    Owner, SecretMeta, SecretPatch, metas, secrets, with_user, without_owner,
};

/// How often a write that lost a race is decided anew from a fresh read (S-35, S-39): several objects
/// of a namespace enter themselves into one mirror at the same time.
const TRIES: usize = 4;

/// What became of a mirror that had to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mirrored {
    /// This call made it.
    Created,
    /// Its data, marks or owners were brought up to date.
    Updated,
    /// It was right.
    Current,
    /// A Secret of its name is not a mirror of this identity: never touched (S-36).
    Foreign,
}

/// Makes the mirror of `identity` a copy of `source` that `owner` is a user of.
///
/// # Errors
/// Any failed call; a race is decided anew a few times before its error is returned.
pub async fn ensure(
    access: &Access,
    owner: &Owner,
    identity: &str,
    source: &BTreeMap<String, ByteString>,
) -> Result<Mirrored, ApiError> {
    let wanted = Wanted {
        owner,
        identity,
        source,
        hash: hash_of(source),
    };
    let mut tries = 1;
    loop {
        match wanted.once(access).await {
            Err(error) if tries < TRIES && lost_race(&error) => tries += 1,
            outcome => return outcome,
        }
    }
}

fn lost_race(error: &ApiError) -> bool {
    match error.class() {
        Class::AlreadyExists | Class::Conflict => true,
        // The mirror went between read and patch. A create that answers so misses its namespace.
        Class::NotFound => error.verb == "patch",
        Class::Rejected | Class::Unknown => false,
    }
}

struct Wanted<'a> {
    owner: &'a Owner,
    identity: &'a str,
    source: &'a BTreeMap<String, ByteString>,
    hash: String,
}

impl Wanted<'_> {
    async fn once(&self, access: &Access) -> Result<Mirrored, ApiError> {
        let name = credentials_mirror(self.identity);
        let api = secrets(access, self.owner.namespace());
        let Some(existing) = access.get(&api, &name).await? else {
            access.create(&api, &self.build(&name)).await?;
            return Ok(Mirrored::Created);
        };
        if !is_mirror_of(&existing.metadata, self.identity) {
            return Ok(Mirrored::Foreign);
        }
        let patch = self.changes(&existing);
        if patch.is_empty() {
            return Ok(Mirrored::Current);
        }
        let body = patch.body(&existing.metadata);
        access
            .patch::<SecretMeta>(&metas(access, self.owner.namespace()), &name, &body)
            .await?;
        Ok(Mirrored::Updated)
    }

    fn build(&self, name: &str) -> Secret {
        let text = |pairs: [(&str, &str); 2]| {
            Some(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect(),
            )
        };
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(self.owner.namespace().to_owned()),
                labels: text([(labels::MIRRORED, TRUE), (labels::MANAGED, TRUE)]),
                annotations: text([
                    (annotations::IDENTITY, self.identity),
                    (annotations::SOURCE_HASH, &self.hash),
                ]),
                owner_references: Some(vec![self.owner.user_reference()]),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(self.source.clone()),
            ..Secret::default()
        }
    }

    /// What has to change on a mirror of ours: data whose hash is not the source's (a rotation, or an
    /// edit of the mirror), a stripped label, a missing or outdated owner.
    fn changes(&self, existing: &Secret) -> SecretPatch {
        let meta = &existing.metadata;
        let references = meta.owner_references.as_deref().unwrap_or_default();
        let mut patch =
            SecretPatch::new().owner_references(with_user(references, self.owner).as_deref());
        if meta
            .labels
            .as_ref()
            .and_then(|all| all.get(labels::MANAGED))
            .map(String::as_str)
            != Some(TRUE)
        {
            patch = patch.label(labels::MANAGED, TRUE);
        }
        let recorded = meta
            .annotations
            .as_ref()
            .and_then(|all| all.get(annotations::SOURCE_HASH));
        if recorded != Some(&self.hash) {
            patch = patch.annotation(annotations::SOURCE_HASH, Some(&self.hash));
        }
        let copied = existing.data.as_ref();
        for (key, value) in self.source {
            if copied.and_then(|data| data.get(key)) != Some(value) {
                patch = patch.data(key, Some(&value.0));
            }
        }
        for key in copied.into_iter().flatten().map(|(key, _)| key) {
            if !self.source.contains_key(key) {
                patch = patch.data(key, None);
            }
        }
        patch
    }
}

fn hash_of(source: &BTreeMap<String, ByteString>) -> String {
    source_hash(
        &source
            .iter()
            .map(|(key, value)| (key.clone(), value.0.clone()))
            .collect(),
    )
}

/// A mirror carries the label and names the identity; anything else of that name is somebody's
/// (S-36).
fn is_mirror_of(secret: &ObjectMeta, identity: &str) -> bool {
    secret
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::MIRRORED))
        .map(String::as_str)
        == Some(TRUE)
        && secret
            .annotations
            .as_ref()
            .and_then(|all| all.get(annotations::IDENTITY))
            .map(String::as_str)
            == Some(identity)
}

/// Deletes the mirror of `identity` in `namespace`, whoever owns it: the namespace may not use the
/// identity any more (S-38). `true` when this call deleted it.
///
/// # Errors
/// Any failed call.
pub async fn revoke(access: &Access, namespace: &str, identity: &str) -> Result<bool, ApiError> {
    let name = credentials_mirror(identity);
    let found: Option<SecretMeta> = access.get(&metas(access, namespace), &name).await?;
    let Some(mirror) = found.filter(|secret| is_mirror_of(&secret.metadata, identity)) else {
        return Ok(false);
    };
    // Guarded by uid alone: whatever an object wrote into it meanwhile, it has to go.
    let guard = Guard::uid(mirror.metadata.uid.as_deref().unwrap_or_default());
    Ok(access
        .delete(&secrets(access, namespace), &name, &guard)
        .await?
        == Deletion::Deleted)
}

/// What became of a mirror whose user leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// No mirror of this identity is there, or the object is not among its users.
    NotAUser,
    /// The object is no user any more; others are.
    Removed,
    /// It was the last one: this call deleted the mirror.
    Deleted,
    /// Others kept writing: the cleanup is repeated after 5 s, quietly (deletion.md §10 step 5).
    Conflict,
}

/// Takes `owner` out of the users of the mirror, and deletes the mirror with its last one (S-39).
///
/// # Errors
/// Any failed call but a lost race.
pub async fn leave(access: &Access, owner: &Owner, identity: &str) -> Result<Left, ApiError> {
    for _ in 0..TRIES {
        if let Some(left) = leave_once(access, owner, identity).await? {
            return Ok(left);
        }
    }
    Ok(Left::Conflict)
}

/// `None` when somebody wrote the mirror between read and write.
async fn leave_once(
    access: &Access,
    owner: &Owner,
    identity: &str,
) -> Result<Option<Left>, ApiError> {
    let name = credentials_mirror(identity);
    let api = metas(access, owner.namespace());
    let found: Option<SecretMeta> = access.get(&api, &name).await?;
    let Some(mirror) = found.filter(|secret| is_mirror_of(&secret.metadata, identity)) else {
        return Ok(Some(Left::NotAUser));
    };
    let references = mirror
        .metadata
        .owner_references
        .as_deref()
        .unwrap_or_default();
    let Some(others) = without_owner(references, owner) else {
        return Ok(Some(Left::NotAUser));
    };
    if others.is_empty() {
        let guard = Guard::exact(&mirror);
        return Ok(
            match access
                .delete(&secrets(access, owner.namespace()), &name, &guard)
                .await?
            {
                Deletion::Deleted => Some(Left::Deleted),
                Deletion::Gone => Some(Left::NotAUser),
                Deletion::Changed => None,
            },
        );
    }
    let body = SecretPatch::new()
        .owner_references(Some(&others))
        .body(&mirror.metadata);
    match access.patch::<SecretMeta>(&api, &name, &body).await {
        Ok(_) => Ok(Some(Left::Removed)),
        Err(error) if error.is_not_found() => Ok(Some(Left::NotAUser)),
        Err(error) if error.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::{Kind, ObjectKey};

    fn owner(uid: &str) -> Owner {
        Owner::new(ObjectKey::new(Kind::TerraformMachine, "team-a", "m1"), uid)
    }

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        pairs
            .iter()
            .map(|&(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect()
    }

    fn mirror(of: &BTreeMap<String, ByteString>, user: &Owner) -> Secret {
        let mut secret = Wanted {
            owner: user,
            identity: "aws",
            source: of,
            hash: hash_of(of),
        }
        .build("captf-creds-aws");
        secret.metadata.resource_version = Some("9".to_owned());
        secret
    }

    fn changes(
        existing: &Secret,
        source: &BTreeMap<String, ByteString>,
        user: &Owner,
    ) -> serde_json::Value {
        let patch = Wanted {
            owner: user,
            identity: "aws",
            source,
            hash: hash_of(source),
        }
        .changes(existing);
        if patch.is_empty() {
            json!(null)
        } else {
            patch.body(&existing.metadata)
        }
    }

    #[test]
    fn a_current_mirror_is_not_written() {
        let source = data(&[("key", "1")]);
        assert_eq!(
            changes(&mirror(&source, &owner("u1")), &source, &owner("u1")),
            json!(null)
        );
    }

    #[test]
    fn a_rotation_rewrites_data_and_hash_and_drops_old_keys() {
        let existing = mirror(
            &data(&[("key", "1"), ("old", "x"), ("same", "s")]),
            &owner("u1"),
        );
        let body = changes(
            &existing,
            &data(&[("key", "2"), ("same", "s")]),
            &owner("u1"),
        );
        assert_eq!(body["data"], json!({"key": "Mg==", "old": null}));
        assert_eq!(
            body["metadata"]["annotations"]["captf.io/source-hash"],
            hash_of(&data(&[("key", "2"), ("same", "s")]))
        );
        assert_eq!(body["metadata"]["resourceVersion"], "9");
    }

    #[test]
    fn an_edited_mirror_is_put_back_though_its_hash_says_current() {
        let source = data(&[("key", "1")]);
        let mut existing = mirror(&source, &owner("u1"));
        existing.data = Some(data(&[("key", "edited")]));
        assert_eq!(
            changes(&existing, &source, &owner("u1"))["data"],
            json!({"key": "MQ=="})
        );
    }

    #[test]
    fn a_second_user_is_added_and_an_earlier_uid_replaced() {
        let source = data(&[]);
        let existing = mirror(&source, &owner("old"));
        let body = changes(&existing, &source, &owner("new"));
        assert_eq!(
            body,
            json!({"metadata": {"resourceVersion": "9", "ownerReferences": [{
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
                "kind": "TerraformMachine",
                "name": "m1",
                "uid": "new",
                "blockOwnerDeletion": false
            }]}})
        );
    }

    #[test]
    fn only_label_and_identity_together_make_a_mirror() {
        let mut secret = mirror(&data(&[]), &owner("u1")).metadata;
        assert!(is_mirror_of(&secret, "aws"));
        assert!(!is_mirror_of(&secret, "gcp"));
        secret.labels = None;
        assert!(!is_mirror_of(&secret, "aws"));
    }
}
