//! The credentials mirror.

use captf::operator::credentials::mirror::{self, Left};
use captf::operator::credentials::{Identity, Prepared, prepare};
use captf::operator::secrets::Owner;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::{Scene, data};
use crate::testbed::world::MANAGER_NAMESPACE;

impl Scene {
    async fn prepare(&self, owner: &Owner) -> Prepared {
        let identity = Identity::Cluster(self.world.identity.clone());
        prepare(&self.manager, owner, Some(&identity)).await
    }

    fn mirror_name(&self) -> String {
        format!("captf-creds-{}", self.world.identity)
    }

    async fn mirror(&self) -> Option<Secret> {
        self.secret(&self.mirror_name()).await
    }
}

#[tokio::test]
async fn a_mirror_is_made_once_shared_and_goes_with_its_last_user() {
    let scene = Scene::new().await;
    let (one, two) = (scene.owner("one").await, scene.owner("two").await);
    let (first, second) = tokio::join!(scene.prepare(&one), scene.prepare(&two));
    for prepared in [&first, &second] {
        assert_eq!(prepared.mount, Some(scene.mirror_name()), "{prepared:?}");
    }
    assert_eq!(first.events.len() + second.events.len(), 1, "made once");
    let mirror = scene.mirror().await.unwrap();
    assert_eq!(
        data(&mirror, "NOOP_TOKEN").as_deref(),
        Some("not-a-real-token")
    );
    assert_eq!(mirror.owner_references().len(), 2);

    let identity = &scene.world.identity;
    assert_eq!(
        mirror::leave(&scene.manager, &one, identity).await.unwrap(),
        Left::Removed
    );
    assert_eq!(
        mirror::leave(&scene.manager, &one, identity).await.unwrap(),
        Left::NotAUser
    );
    assert_eq!(
        scene.mirror().await.unwrap().owner_references()[0].uid,
        two.uid
    );
    assert_eq!(
        mirror::leave(&scene.manager, &two, identity).await.unwrap(),
        Left::Deleted
    );
    assert!(scene.mirror().await.is_none());
}

#[tokio::test]
async fn a_rotation_reaches_the_mirror_with_the_next_pass() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    scene.prepare(&owner).await;
    let before = scene.mirror().await.unwrap();

    let sources: Api<Secret> = Api::namespaced(scene.world.client.clone(), MANAGER_NAMESPACE);
    let rotated = json!({"stringData": {"NEW": "2"}, "data": {"NOOP_TOKEN": null}});
    sources
        .patch(
            &scene.world.identity,
            &PatchParams::default(),
            &Patch::Merge(&rotated),
        )
        .await
        .unwrap();
    assert!(scene.prepare(&owner).await.ready());
    let after = scene.mirror().await.unwrap();
    assert_eq!(
        (data(&after, "NEW").as_deref(), data(&after, "NOOP_TOKEN")),
        (Some("2"), None)
    );
    assert_ne!(
        before.annotations()["captf.io/source-hash"],
        after.annotations()["captf.io/source-hash"]
    );

    scene.prepare(&owner).await;
    assert_eq!(
        scene.mirror().await.unwrap().resource_version(),
        after.resource_version(),
        "nothing to write"
    );
}

#[tokio::test]
async fn a_namespace_that_loses_the_identity_loses_the_mirror_whoever_uses_it() {
    let scene = Scene::new().await;
    let (one, two) = (scene.owner("one").await, scene.owner("two").await);
    scene.prepare(&one).await;
    scene.prepare(&two).await;
    let narrowed = json!({"spec": {"allowedNamespaces": {"list": ["elsewhere"]}}});
    scene
        .world
        .patch("TerraformClusterIdentity", &scene.world.identity, narrowed)
        .await;

    let prepared = scene.prepare(&one).await;
    assert_eq!(prepared.identity_allowed.reason(), "NamespaceNotAllowed");
    assert_eq!(prepared.events[0].reason(), "MirrorRemoved");
    assert!(scene.mirror().await.is_none());
    assert!(scene.prepare(&two).await.events.is_empty(), "removed once");
}

#[tokio::test]
async fn the_labels_of_the_namespace_are_what_the_api_server_says() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let name = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": [scene.world.namespace]});
    for (selector, reason) in [
        (json!({"matchExpressions": [name]}), "IdentityAllowed"),
        (
            json!({"matchLabels": {"tenant": "b"}}),
            "NamespaceNotAllowed",
        ),
    ] {
        let allowed = json!({"spec": {"allowedNamespaces": {"list": null, "selector": null}}});
        let mut patch = allowed.clone();
        patch["spec"]["allowedNamespaces"]["selector"] = selector.clone();
        scene
            .world
            .patch("TerraformClusterIdentity", &scene.world.identity, patch)
            .await;
        assert_eq!(
            scene.prepare(&owner).await.identity_allowed.reason(),
            reason,
            "{selector}"
        );
        // The next selector must not be merged into this one.
        let anywhere =
            json!({"spec": {"allowedNamespaces": {"list": ["elsewhere"], "selector": null}}});
        scene
            .world
            .patch("TerraformClusterIdentity", &scene.world.identity, anywhere)
            .await;
    }
}

#[tokio::test]
async fn a_foreign_secret_of_the_mirrors_name_is_never_touched() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let foreign = json!({"metadata": {"name": scene.mirror_name()}, "stringData": {"mine": "1"}});
    let before = scene.create_secret(foreign).await;

    let prepared = scene.prepare(&owner).await;
    assert_eq!(prepared.credentials_mirrored.reason(), "MirrorFailed");
    assert!(prepared.error.is_none());
    assert_eq!(
        mirror::leave(&scene.manager, &owner, &scene.world.identity)
            .await
            .unwrap(),
        Left::NotAUser
    );
    assert!(
        !mirror::revoke(&scene.manager, owner.namespace(), &scene.world.identity)
            .await
            .unwrap()
    );
    assert_eq!(scene.mirror().await, Some(before));
}

#[tokio::test]
async fn a_missing_source_is_told_and_keeps_the_mirror() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    scene.prepare(&owner).await;
    let sources: Api<Secret> = Api::namespaced(scene.world.client.clone(), MANAGER_NAMESPACE);
    sources
        .delete(&scene.world.identity, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let prepared = scene.prepare(&owner).await;
    assert_eq!(prepared.identity_allowed.reason(), "SecretNotFound");
    assert!(!prepared.ready());
    assert!(scene.mirror().await.is_some());
}
