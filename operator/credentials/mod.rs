//! The credentials of an object's Jobs: which identity, whether its namespace may use it, and the copy
//! of its Secret that the Job mounts (lifecycle.md §8 step 9, state-secrets.md §10).

pub mod allowed;
mod identity;
pub mod mirror;
mod source;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;

use crate::api::conditions::{CredentialsMirrored, IdentityAllowed, State as _, Status, Verdict};
use crate::api::{AllowedNamespaces, TerraformClusterIdentity};
use crate::client::{Access, ApiError};
use crate::names::credentials_mirror;
use crate::operator::secrets::{Owner, SecretMeta, metas};

use allowed::ByName;
pub use identity::Identity;
use mirror::Mirrored;
pub use source::{SourceCheck, check_source};

/// A mirror that came or went, each with its event (conditions-events.md §7).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorEvent {
    /// The namespace's first use made the mirror.
    Created {
        /// The mirror Secret.
        secret: String,
        /// The identity it copies.
        identity: String,
    },
    /// The last use ended, or the namespace lost the identity.
    Removed {
        /// The mirror Secret.
        secret: String,
        /// The identity it copied.
        identity: String,
    },
}

impl MirrorEvent {
    /// The event's reason; its type is Normal.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Created { .. } => "MirrorCreated",
            Self::Removed { .. } => "MirrorRemoved",
        }
    }

    /// The event's note.
    #[must_use]
    pub fn note(&self) -> String {
        match self {
            Self::Created { secret, identity } => {
                format!("Secret {secret} now mirrors the credentials of identity {identity}")
            }
            Self::Removed { secret, identity } => {
                format!(
                    "Secret {secret}, the mirror of the credentials of identity {identity}, was deleted"
                )
            }
        }
    }
}

/// What preparing the credentials found and did. The error stands beside the conditions: it makes the
/// credentials not ready and is returned by the pass after its status patch, so that a finished Job is
/// bookkept although the credentials are broken (lifecycle.md §8 step 9).
#[derive(Debug)]
pub struct Prepared {
    /// The condition `IdentityAllowed`.
    pub identity_allowed: Verdict,
    /// The condition `CredentialsMirrored`.
    pub credentials_mirrored: Verdict,
    /// The Secret a Job mounts; set when both conditions are True.
    pub mount: Option<String>,
    /// Events to emit.
    pub events: Vec<MirrorEvent>,
    /// The failed call, if one stood in the way.
    pub error: Option<ApiError>,
}

impl Prepared {
    /// Credentials that cannot be used, because the identity is not usable.
    fn denied(identity_allowed: Verdict) -> Self {
        let pending = format!(
            "waits for IdentityAllowed, which is {}",
            identity_allowed.reason()
        );
        Self {
            identity_allowed,
            credentials_mirrored: CredentialsMirrored::MirrorPending.with(pending),
            mount: None,
            events: Vec::new(),
            error: None,
        }
    }

    /// The identity could not be judged: a read failed.
    fn unknown(error: ApiError) -> Self {
        let verdict = IdentityAllowed::IdentityCheckFailed.with(error.to_string());
        Self {
            error: Some(error),
            ..Self::denied(verdict)
        }
    }

    /// Whether a Job may start as far as credentials go.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.mount.is_some()
    }

    /// The identity excludes the namespace or is gone: a destroy then reports `IdentityNotAllowed`
    /// (deletion.md §5).
    #[must_use]
    pub fn refused(&self) -> bool {
        self.identity_allowed.status() == Status::False
    }
}

/// Judges the identity and brings the mirror up to date, reading everything live (S-34): on each pass
/// of an object that is not being deleted, and before a deletion's Job.
pub async fn prepare(access: &Access, owner: &Owner, identity: Option<&Identity>) -> Prepared {
    match identity {
        None => Prepared::denied(IdentityAllowed::IdentityNotFound.with(
            "neither spec.identityRef nor the TerraformCluster names an identity; set one of them",
        )),
        Some(Identity::Secret(name)) => local_secret(access, owner, name).await,
        Some(Identity::Cluster(name)) => cluster_identity(access, owner, name).await,
    }
}

async fn local_secret(access: &Access, owner: &Owner, name: &str) -> Prepared {
    match access
        .get::<SecretMeta>(&metas(access, owner.namespace()), name)
        .await
    {
        Err(error) => Prepared::unknown(error),
        Ok(None) => Prepared::denied(IdentityAllowed::SecretNotFound.with(format!(
            "Secret {}/{name}, named by identityRef, does not exist",
            owner.namespace()
        ))),
        Ok(Some(_)) => Prepared {
            identity_allowed: IdentityAllowed::LocalSecret.plain(),
            credentials_mirrored: CredentialsMirrored::Mirrored.with(format!(
                "Secret {name} is used directly, nothing is mirrored"
            )),
            mount: Some(name.to_owned()),
            events: Vec::new(),
            error: None,
        },
    }
}

async fn cluster_identity(access: &Access, owner: &Owner, name: &str) -> Prepared {
    let identity = match access
        .get::<TerraformClusterIdentity>(&access.cluster_api(), name)
        .await
    {
        Err(error) => return Prepared::unknown(error),
        Ok(None) => {
            let gone = IdentityAllowed::IdentityNotFound
                .with(format!("TerraformClusterIdentity {name} does not exist"));
            return revoked(access, owner, name, gone).await;
        }
        Ok(Some(identity)) => identity,
    };
    match is_allowed(
        access,
        identity.spec.allowed_namespaces.as_ref(),
        owner.namespace(),
    )
    .await
    {
        Err(error) => return Prepared::unknown(error),
        Ok(false) => {
            let denied = IdentityAllowed::NamespaceNotAllowed.with(format!(
                "TerraformClusterIdentity {name} does not allow namespace {}; add it to spec.allowedNamespaces",
                owner.namespace()
            ));
            return revoked(access, owner, name, denied).await;
        }
        Ok(true) => {}
    }
    match check_source(access, &identity).await {
        Err(error) => Prepared::unknown(error),
        Ok(SourceCheck::Found(data)) => mirrored(access, owner, name, &data).await,
        Ok(missing) => Prepared::denied(match missing {
            SourceCheck::Incomplete(_) => {
                IdentityAllowed::CredentialsIncomplete.with(missing.message(&identity))
            }
            _ => IdentityAllowed::SecretNotFound.with(missing.message(&identity)),
        }),
    }
}

/// The labels of the namespace are read only when they decide; a namespace that does not exist has
/// none and is denied.
async fn is_allowed(
    access: &Access,
    allowed: Option<&AllowedNamespaces>,
    namespace: &str,
) -> Result<bool, ApiError> {
    let selector = match allowed::by_name(allowed, namespace) {
        ByName::Allowed => return Ok(true),
        ByName::Denied => return Ok(false),
        ByName::ByLabels(selector) => selector,
    };
    let found: Option<PartialObjectMeta<Namespace>> =
        access.get(&access.cluster_api(), namespace).await?;
    Ok(found.is_some_and(|namespace| {
        allowed::matches(
            selector,
            namespace
                .metadata
                .labels
                .as_ref()
                .unwrap_or(&BTreeMap::new()),
        )
    }))
}

/// The namespace may not use the identity: its mirror is deleted at once, whoever uses it (S-38).
async fn revoked(access: &Access, owner: &Owner, identity: &str, verdict: Verdict) -> Prepared {
    let mut prepared = Prepared::denied(verdict);
    match mirror::revoke(access, owner.namespace(), identity).await {
        Ok(true) => prepared.events.push(MirrorEvent::Removed {
            secret: credentials_mirror(identity),
            identity: identity.to_owned(),
        }),
        Ok(false) => {}
        Err(error) => prepared.error = Some(error),
    }
    prepared
}

async fn mirrored(access: &Access, owner: &Owner, identity: &str, data: &source::Data) -> Prepared {
    let secret = credentials_mirror(identity);
    let mut prepared = Prepared::denied(IdentityAllowed::IdentityAllowed.plain());
    match mirror::ensure(access, owner, identity, data).await {
        Ok(Mirrored::Foreign) => {
            prepared.credentials_mirrored = CredentialsMirrored::MirrorFailed.with(format!(
                "Secret {}/{secret} is not a mirror of identity {identity} and is left alone; rename or delete it",
                owner.namespace()
            ));
        }
        Ok(done) => {
            prepared.credentials_mirrored = CredentialsMirrored::Mirrored.plain();
            if done == Mirrored::Created {
                let created = MirrorEvent::Created {
                    secret: secret.clone(),
                    identity: identity.to_owned(),
                };
                prepared.events.push(created);
            }
            prepared.mount = Some(secret);
        }
        Err(error) => {
            prepared.credentials_mirrored =
                CredentialsMirrored::MirrorFailed.with(error.to_string());
            prepared.error = Some(error);
        }
    }
    prepared
}
