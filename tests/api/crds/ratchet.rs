//! Objects stored before a rule existed: what may still be done to them (api.md B5, B19).

use captf::api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::{Answer, accepted, answer, refused, world};
use crate::testbed::World;
use crate::testbed::wait::{LIMIT, until};

/// The TerraformCluster CRD in a group of the test's own, whose rules can be taken away and put back.
struct OwnGroup {
    world: World,
    group: String,
    definition: CustomResourceDefinition,
}

impl OwnGroup {
    /// Installs the CRD without its CEL rules.
    async fn without_rules() -> Self {
        let world = world().await;
        let mut definition = crd::all().unwrap().remove(0);
        let group = format!("{}.captf.test", world.namespace);
        definition.metadata.name = Some(format!("terraformclusters.{group}"));
        definition.spec.group.clone_from(&group);
        definition.spec.names.categories = None;
        definition.spec.names.short_names = None;
        let own = Self {
            world,
            group,
            definition,
        };
        let mut lax = serde_json::to_value(&own.definition).unwrap();
        remove_rules(&mut lax);
        let lax = serde_json::from_value(lax).unwrap();
        own.definitions()
            .create(&PostParams::default(), &lax)
            .await
            .unwrap();
        until("the CRD to be served", LIMIT, async || {
            own.api()
                .list(&Default::default())
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await;
        own
    }

    /// Puts the rules in force; the API server needs a moment to see them.
    async fn put_rules_back(&self) {
        let name = self.definition.metadata.name.clone().unwrap();
        let patch = serde_json::to_value(&self.definition).unwrap();
        self.definitions()
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        until("the rules to be in force", LIMIT, async || {
            let probe = self
                .create("probe", json!({"source": {"image": "i"}}))
                .await;
            if probe.is_err() {
                return Ok(());
            }
            let _ = self.api().delete("probe", &Default::default()).await;
            Err("an object without an identity was accepted".to_owned())
        })
        .await;
    }

    async fn create(&self, name: &str, spec: Value) -> Answer {
        let object = json!({
            "apiVersion": format!("{}/v1alpha1", self.group),
            "kind": "TerraformCluster",
            "metadata": {"name": name, "finalizers": ["captf.test/held"]},
            "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        answer(self.api().create(&PostParams::default(), &object).await)
    }

    async fn patch(&self, name: &str, patch: Value) -> Answer {
        let patch = Patch::Merge(&patch);
        answer(
            self.api()
                .patch(name, &PatchParams::default(), &patch)
                .await,
        )
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(&self.group, "v1alpha1", "TerraformCluster");
        let resource = ApiResource::from_gvk_with_plural(&kind, "terraformclusters");
        Api::namespaced_with(self.world.client.clone(), &self.world.namespace, &resource)
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.world.client.clone())
    }
}

fn remove_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(remove_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_rules),
        _ => {}
    }
}

fn spec(extra: Value) -> Value {
    let mut spec = json!({"source": {"image": "registry.example/m:v1"}});
    spec.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    spec
}

#[tokio::test]
async fn a_stored_half_endpoint_can_be_completed_once() {
    let group = OwnGroup::without_rules().await;
    let half =
        json!({"identityRef": {"name": "i"}, "controlPlaneEndpoint": {"host": "k8s.example"}});
    accepted(group.create("half", spec(half)).await);
    group.put_rules_back().await;
    let complete = json!({"spec": {"controlPlaneEndpoint": {"host": "k8s.example", "port": 6443}}});
    accepted(group.patch("half", complete).await);
    let change = json!({"spec": {"controlPlaneEndpoint": {"port": 443}}});
    let answer = group.patch("half", change).await;
    refused(
        answer,
        "spec.controlPlaneEndpoint",
        "controlPlaneEndpoint is immutable",
    );
}

#[tokio::test]
async fn a_stored_half_endpoint_holds_up_no_other_change() {
    let group = OwnGroup::without_rules().await;
    let half =
        json!({"identityRef": {"name": "i"}, "controlPlaneEndpoint": {"host": "k8s.example"}});
    accepted(group.create("half", spec(half)).await);
    group.put_rules_back().await;
    accepted(
        group
            .patch("half", json!({"spec": {"maxActiveJobs": 3}}))
            .await,
    );
}

#[tokio::test]
async fn a_stored_cluster_without_an_identity_loses_its_finalizer_only_after_it_gets_one() {
    let group = OwnGroup::without_rules().await;
    accepted(group.create("old", spec(json!({}))).await);
    group.put_rules_back().await;
    let no_finalizer = json!({"metadata": {"finalizers": null}});
    let answer = group.patch("old", no_finalizer.clone()).await;
    refused(answer, "spec.identityRef", "an identity is mandatory");
    accepted(
        group
            .patch("old", json!({"spec": {"identityRef": {"name": "i"}}}))
            .await,
    );
    accepted(group.patch("old", no_finalizer).await);
}
