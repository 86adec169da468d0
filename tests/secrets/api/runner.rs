//! The identity of runners.

use std::collections::BTreeSet;

use captf::operator::runner_rbac::{RunnerRbac, prepare};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::Scene;

impl Scene {
    async fn runner(&self, account: &str, in_use: &[&str]) -> RunnerRbac {
        let in_use: BTreeSet<String> = in_use.iter().map(|&name| name.to_owned()).collect();
        prepare(&self.manager, &self.world.namespace, account, &in_use).await
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    fn bindings(&self) -> Api<RoleBinding> {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    async fn create_account(&self, name: &str, label: &str) {
        let account = json!({"metadata": {"name": name, "labels": {"captf.io/runner": label}}});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        self.accounts()
            .create(&PostParams::default(), &account)
            .await
            .unwrap();
    }

    async fn create_binding(&self, labels: serde_json::Value, role: &str) -> RoleBinding {
        let binding = json!({
            "metadata": {"name": "captf-runner", "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        });
        let binding: RoleBinding = serde_json::from_value(binding).unwrap();
        self.bindings()
            .create(&PostParams::default(), &binding)
            .await
            .unwrap()
    }

    async fn subjects(&self) -> Vec<String> {
        let binding = self.bindings().get("captf-runner").await.unwrap();
        assert_eq!(binding.role_ref.name, "captf-runner");
        binding
            .subjects
            .unwrap_or_default()
            .into_iter()
            .map(|subject| subject.name)
            .collect()
    }
}

#[tokio::test]
async fn first_use_by_many_at_once_is_no_failure_and_leaves_one_binding() {
    let scene = Scene::new().await;
    let both = tokio::join!(
        scene.runner("captf-runner", &[]),
        scene.runner("captf-runner", &[])
    );
    for rbac in [both.0, both.1] {
        assert_eq!(rbac.condition.reason(), "RBACReady", "{rbac:?}");
    }
    assert_eq!(scene.subjects().await, ["captf-runner"]);
}

#[tokio::test]
async fn only_accounts_that_opted_in_are_subjects() {
    let scene = Scene::new().await;
    scene.create_account("custom", "true").await;
    scene.create_account("silent", "yes").await;
    assert_eq!(
        scene.runner("silent", &[]).await.condition.reason(),
        "ServiceAccountNotOptedIn"
    );
    assert_eq!(
        scene.runner("missing", &[]).await.condition.reason(),
        "ServiceAccountNotOptedIn"
    );
    let ready = scene.runner("custom", &["captf-runner", "silent"]).await;
    assert_eq!(ready.condition.reason(), "RBACReady");
    assert_eq!(scene.subjects().await, ["captf-runner", "custom"]);

    let out = json!({"metadata": {"labels": {"captf.io/runner": null}}});
    scene
        .accounts()
        .patch("custom", &PatchParams::default(), &Patch::Merge(&out))
        .await
        .unwrap();
    scene.runner("captf-runner", &["custom"]).await;
    assert_eq!(scene.subjects().await, ["captf-runner"], "opted out");
}

#[tokio::test]
async fn a_foreign_binding_stays_as_it_is() {
    let scene = Scene::new().await;
    let foreign = scene.create_binding(json!({}), "view").await;
    let rbac = scene.runner("captf-runner", &[]).await;
    assert_eq!(rbac.condition.reason(), "RBACFailed");
    assert!(rbac.error.is_none());
    assert_eq!(scene.bindings().get("captf-runner").await.unwrap(), foreign);
}

#[tokio::test]
async fn a_managed_binding_to_another_role_is_made_anew() {
    let scene = Scene::new().await;
    scene
        .create_binding(json!({"captf.io/managed": "true"}), "view")
        .await;
    assert_eq!(
        scene.runner("captf-runner", &[]).await.condition.reason(),
        "RBACReady"
    );
    assert_eq!(scene.subjects().await, ["captf-runner"]);
}
