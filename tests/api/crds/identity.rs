//! `TerraformClusterIdentity`.

use captf::api::TerraformClusterIdentity;
use kube::api::Api;
use serde_json::{Value, json};

use super::{Kind, accepted, refused, world};
use crate::testbed::World;

/// Identities have no namespace, so their names are taken from the test's one.
struct Identities {
    world: World,
    kind: Kind,
}

async fn identities() -> Identities {
    let world = world().await;
    Identities {
        kind: Kind::of(&world, "TerraformClusterIdentity"),
        world,
    }
}

impl Identities {
    async fn create(&self, spec: Value) -> super::Answer {
        self.kind.create(&self.world.namespace, spec).await
    }

    async fn patch_spec(&self, spec: Value) -> super::Answer {
        self.kind.patch_spec(&self.world.namespace, spec).await
    }
}

fn with(field: &str, value: Value) -> Value {
    let mut spec = json!({"secretRef": {"name": "creds", "namespace": "captf-system"}});
    spec[field] = value;
    spec
}

#[tokio::test]
async fn an_identity_names_a_secret_and_its_namespace() {
    let identities = identities().await;
    let nowhere = json!({"secretRef": {"name": "creds"}});
    refused(
        identities.create(nowhere).await,
        "spec.secretRef.namespace",
        "Required value",
    );
    let odd = json!({"secretRef": {"name": "creds", "namespace": "No.Label"}});
    refused(
        identities.create(odd).await,
        "spec.secretRef.namespace",
        "should match",
    );
    accepted(
        identities
            .create(with("requiredKeys", json!(["token"])))
            .await,
    );
}

#[tokio::test]
async fn empty_allowed_namespaces_are_ambiguous() {
    let answer = identities()
        .await
        .create(with("allowedNamespaces", json!({})))
        .await;
    refused(answer, "spec.allowedNamespaces", "write selector: {}");
}

#[tokio::test]
async fn allowed_namespaces_cannot_become_ambiguous() {
    let identities = identities().await;
    accepted(
        identities
            .create(with("allowedNamespaces", json!({"list": ["a"]})))
            .await,
    );
    let answer = identities
        .patch_spec(json!({"allowedNamespaces": {"list": null}}))
        .await;
    refused(answer, "spec.allowedNamespaces", "ambiguous");
}

#[tokio::test]
async fn an_empty_list_of_namespaces_is_refused() {
    let answer = identities()
        .await
        .create(with("allowedNamespaces", json!({"list": []})))
        .await;
    refused(answer, "spec.allowedNamespaces.list", "at least 1 items");
}

#[tokio::test]
async fn a_namespace_is_listed_once() {
    let list = json!({"list": ["a", "b", "a"]});
    let answer = identities()
        .await
        .create(with("allowedNamespaces", list))
        .await;
    refused(answer, "spec.allowedNamespaces.list[2]", "Duplicate value");
}

#[tokio::test]
async fn a_required_key_is_listed_once() {
    let answer = identities()
        .await
        .create(with("requiredKeys", json!(["k", "k"])))
        .await;
    refused(answer, "spec.requiredKeys[1]", "Duplicate value");
}

#[tokio::test]
async fn an_empty_selector_survives_the_types() {
    let identities = identities().await;
    accepted(
        identities
            .create(with("allowedNamespaces", json!({"selector": {}})))
            .await,
    );
    let typed: Api<TerraformClusterIdentity> = Api::all(identities.world.client.clone());
    let read = typed.get(&identities.world.namespace).await.unwrap();
    let written = serde_json::to_value(&read.spec.allowed_namespaces).unwrap();
    assert_eq!(written, json!({"selector": {}}));
}

#[tokio::test]
async fn every_field_is_mutable() {
    let identities = identities().await;
    accepted(
        identities
            .create(with("allowedNamespaces", json!({"list": ["a"]})))
            .await,
    );
    let change = json!({
        "secretRef": {"name": "other", "namespace": "elsewhere"},
        "allowedNamespaces": {"list": null, "selector": {"matchLabels": {"team": "a"}}},
        "requiredKeys": ["token"]
    });
    accepted(identities.patch_spec(change).await);
}

#[tokio::test]
async fn namespaces_in_the_status_are_a_set() {
    let identities = identities().await;
    accepted(identities.create(with("requiredKeys", json!(["k"]))).await);
    let status = json!({"namespaces": ["a", "a"]});
    let answer = identities
        .kind
        .patch_status(&identities.world.namespace, status)
        .await;
    refused(answer, "status.namespaces[1]", "Duplicate value");
}
