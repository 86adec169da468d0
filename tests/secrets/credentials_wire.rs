//! The requests of identity check and mirror.

use captf::client::Access;
use captf::names::{Kind, ObjectKey};
use captf::operator::credentials::mirror::{self, Left};
use captf::operator::credentials::{Identity, Prepared, prepare};
use captf::operator::secrets::Owner;
use serde_json::{Value, json};

use crate::wire::{Exchange, expect, play};

const IDENTITY: &str =
    "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/terraformclusteridentities/aws";
const SOURCE: &str = "/api/v1/namespaces/captf-system/secrets/aws-creds";
const MIRROR: &str = "/api/v1/namespaces/team-a/secrets/captf-creds-aws";
const SECRETS: &str = "/api/v1/namespaces/team-a/secrets";
const NAMESPACE: &str = "/api/v1/namespaces/team-a";

/// Hash of `{"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s3cret"}` (state-secrets.md §10).
const HASH: &str = "f5f95a22a12a084ded507edbebcc26bdbe35a1362bad65e95a6b465097991745";

fn owner() -> Owner {
    Owner::new(
        ObjectKey::new(Kind::TerraformMachine, "team-a", "m1"),
        "uid-1",
    )
}

fn user(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "TerraformMachine",
        "name": name,
        "uid": uid,
        "blockOwnerDeletion": false
    })
}

fn identity(allowed: Value) -> Exchange {
    let spec = json!({
        "secretRef": {"name": "aws-creds", "namespace": "captf-system"},
        "allowedNamespaces": allowed,
        "requiredKeys": ["AWS_ACCESS_KEY_ID"]
    });
    expect(&format!("GET {IDENTITY}")).answer(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "TerraformClusterIdentity",
        "metadata": {"name": "aws"},
        "spec": spec
    }))
}

fn data() -> Value {
    json!({"AWS_ACCESS_KEY_ID": "QUtJQUVYQU1QTEU=", "AWS_SECRET_ACCESS_KEY": "czNjcmV0"})
}

fn source(data: Value) -> Exchange {
    expect(&format!("GET {SOURCE}")).answer(
        json!({"metadata": {"name": "aws-creds", "namespace": "captf-system"}, "data": data}),
    )
}

fn mirror_secret(users: &[Value]) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": "captf-creds-aws",
            "namespace": "team-a",
            "labels": {"captf.io/mirrored": "true", "captf.io/managed": "true"},
            "annotations": {"captf.io/identity": "aws", "captf.io/source-hash": HASH},
            "ownerReferences": users
        },
        "data": data()
    })
}

fn stored(users: &[Value]) -> Value {
    let mut secret = mirror_secret(users);
    secret["metadata"]["uid"] = "mirror-uid".into();
    secret["metadata"]["resourceVersion"] = "3".into();
    secret
}

async fn prepared(script: impl IntoIterator<Item = Exchange>) -> Prepared {
    let cluster = Identity::Cluster("aws".into());
    play(script, async |access: &Access| {
        prepare(access, &owner(), Some(&cluster)).await
    })
    .await
}

fn conditions(prepared: &Prepared) -> [&'static str; 2] {
    [
        prepared.identity_allowed.reason(),
        prepared.credentials_mirrored.reason(),
    ]
}

#[tokio::test]
async fn the_first_use_makes_the_mirror() {
    let prepared = prepared([
        identity(json!({"list": ["team-a"]})),
        source(data()),
        expect(&format!("GET {MIRROR}")).fail(404, "NotFound"),
        expect(&format!("POST {SECRETS}"))
            .with(mirror_secret(&[user("m1", "uid-1")]))
            .echo(),
    ])
    .await;
    assert_eq!(conditions(&prepared), ["IdentityAllowed", "Mirrored"]);
    assert_eq!(prepared.mount.as_deref(), Some("captf-creds-aws"));
    assert_eq!(prepared.events[0].reason(), "MirrorCreated");
}

#[tokio::test]
async fn a_lost_create_race_updates_the_others_mirror() {
    let prepared = prepared([
        identity(json!({"selector": {}})),
        source(data()),
        expect(&format!("GET {MIRROR}")).fail(404, "NotFound"),
        expect(&format!("POST {SECRETS}"))
            .with(mirror_secret(&[user("m1", "uid-1")]))
            .fail(409, "AlreadyExists"),
        expect(&format!("GET {MIRROR}")).answer(stored(&[user("m0", "uid-0")])),
        expect(&format!("PATCH {MIRROR} (metadata)"))
            .with(json!({"metadata": {
                "resourceVersion": "3",
                "ownerReferences": [user("m0", "uid-0"), user("m1", "uid-1")]
            }}))
            .answer(stored(&[])),
    ])
    .await;
    assert_eq!(conditions(&prepared), ["IdentityAllowed", "Mirrored"]);
    assert!(prepared.events.is_empty());
}

#[tokio::test]
async fn a_foreign_secret_is_left_alone_and_is_no_error() {
    let mut foreign = stored(&[]);
    foreign["metadata"]["annotations"]["captf.io/identity"] = "gcp".into();
    let prepared = prepared([
        identity(json!({"list": ["team-a"]})),
        source(data()),
        expect(&format!("GET {MIRROR}")).answer(foreign),
    ])
    .await;
    assert_eq!(conditions(&prepared), ["IdentityAllowed", "MirrorFailed"]);
    assert!(!prepared.ready() && prepared.error.is_none());
}

#[tokio::test]
async fn a_namespace_not_allowed_any_more_loses_the_mirror_whoever_uses_it() {
    let prepared = prepared([
        identity(json!({"list": ["team-b"]})),
        expect(&format!("GET {MIRROR} (metadata)")).answer(stored(&[user("m0", "uid-0")])),
        expect(&format!("DELETE {MIRROR}")).with(
            json!({"propagationPolicy": "Background", "preconditions": {"uid": "mirror-uid"}}),
        ),
    ])
    .await;
    assert_eq!(
        conditions(&prepared),
        ["NamespaceNotAllowed", "MirrorPending"]
    );
    assert_eq!(prepared.events[0].reason(), "MirrorRemoved");
    assert!(prepared.refused());
}

#[tokio::test]
async fn a_deleted_identity_revokes_but_spares_a_foreign_secret() {
    let mut foreign = stored(&[]);
    foreign["metadata"]["labels"] = json!({});
    let prepared = prepared([
        expect(&format!("GET {IDENTITY}")).fail(404, "NotFound"),
        expect(&format!("GET {MIRROR} (metadata)")).answer(foreign),
    ])
    .await;
    assert_eq!(conditions(&prepared), ["IdentityNotFound", "MirrorPending"]);
    assert!(prepared.events.is_empty());
}

#[tokio::test]
async fn labels_of_the_namespace_are_read_only_when_they_decide() {
    let namespace = json!({"metadata": {"name": "team-a", "labels": {"tenant": "b"}}});
    let prepared = prepared([
        identity(json!({"selector": {"matchLabels": {"tenant": "a"}}})),
        expect(&format!("GET {NAMESPACE} (metadata)")).answer(namespace),
        expect(&format!("GET {MIRROR} (metadata)")).fail(404, "NotFound"),
    ])
    .await;
    assert_eq!(
        conditions(&prepared),
        ["NamespaceNotAllowed", "MirrorPending"]
    );
}

#[tokio::test]
async fn a_failed_read_is_unknown_and_its_error_stands_beside_the_conditions() {
    let prepared = prepared([
        identity(json!({"selector": {"matchLabels": {"tenant": "a"}}})),
        expect(&format!("GET {NAMESPACE} (metadata)")).fail(500, "InternalError"),
    ])
    .await;
    assert_eq!(
        conditions(&prepared),
        ["IdentityCheckFailed", "MirrorPending"]
    );
    assert!(prepared.error.is_some());
}

#[tokio::test]
async fn a_missing_and_an_incomplete_source_are_told_apart_and_keep_the_mirror() {
    let missing = prepared([
        identity(json!({"selector": {}})),
        expect(&format!("GET {SOURCE}")).fail(404, "NotFound"),
    ])
    .await;
    assert_eq!(conditions(&missing), ["SecretNotFound", "MirrorPending"]);
    let incomplete = prepared([
        identity(json!({"selector": {}})),
        source(json!({"OTHER": "eA=="})),
    ])
    .await;
    assert_eq!(
        conditions(&incomplete),
        ["CredentialsIncomplete", "MirrorPending"]
    );
    assert_eq!(
        incomplete.identity_allowed.message(),
        "Secret captf-system/aws-creds lacks the required keys AWS_ACCESS_KEY_ID"
    );
}

#[tokio::test]
async fn a_local_secret_is_mounted_as_it_is() {
    let identity = Identity::Secret("creds".into());
    let script = [
        expect("GET /api/v1/namespaces/team-a/secrets/creds (metadata)")
            .answer(json!({"metadata": {"name": "creds"}})),
    ];
    let prepared = play(script, async |access| {
        prepare(access, &owner(), Some(&identity)).await
    })
    .await;
    assert_eq!(conditions(&prepared), ["LocalSecret", "Mirrored"]);
    assert_eq!(prepared.mount.as_deref(), Some("creds"));
}

#[tokio::test]
async fn the_last_user_takes_the_mirror_along_as_it_was_read() {
    let exact = json!({
        "propagationPolicy": "Background",
        "preconditions": {"uid": "mirror-uid", "resourceVersion": "3"}
    });
    let script = [
        expect(&format!("GET {MIRROR} (metadata)")).answer(stored(&[user("m1", "uid-1")])),
        expect(&format!("DELETE {MIRROR}")).with(exact),
    ];
    let left = play(script, async |access| {
        mirror::leave(access, &owner(), "aws").await
    });
    assert_eq!(left.await.unwrap(), Left::Deleted);
}

#[tokio::test]
async fn another_user_keeps_the_mirror_and_a_conflict_is_decided_anew() {
    let patch =
        json!({"metadata": {"resourceVersion": "3", "ownerReferences": [user("m0", "uid-0")]}});
    let read = || {
        expect(&format!("GET {MIRROR} (metadata)"))
            .answer(stored(&[user("m0", "uid-0"), user("m1", "uid-1")]))
    };
    let script = [
        read(),
        expect(&format!("PATCH {MIRROR} (metadata)"))
            .with(patch.clone())
            .fail(409, "Conflict"),
        read(),
        expect(&format!("PATCH {MIRROR} (metadata)"))
            .with(patch)
            .answer(stored(&[])),
    ];
    let left = play(script, async |access| {
        mirror::leave(access, &owner(), "aws").await
    });
    assert_eq!(left.await.unwrap(), Left::Removed);
}
