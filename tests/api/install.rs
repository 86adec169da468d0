//! The manifests on a real API server: `kubectl apply -k`.

use std::path::Path;

use crate::testbed::{ControlPlane, World};

/// What the API server would answer to every object of a kustomization.
async fn dry_run(kustomization: &str) -> String {
    let bed = ControlPlane::shared().await;
    // Objects of a namespace that does not exist yet fail in a dry run.
    World::new(bed).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kustomization);
    let output = bed
        .kubectl()
        .args([
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "-k",
        ])
        .arg(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn every_object_of_the_installation_is_accepted() {
    let answer = dry_run("operator/manifests").await;
    for object in [
        "namespace/captf-system",
        "customresourcedefinition.apiextensions.k8s.io/terraformclusters.infrastructure.cluster.x-k8s.io",
        "serviceaccount/captf-controller-manager",
        "clusterrole.rbac.authorization.k8s.io/captf-manager-role",
        "clusterrole.rbac.authorization.k8s.io/captf-runner",
        "clusterrole.rbac.authorization.k8s.io/captf-viewer-role",
        "clusterrole.rbac.authorization.k8s.io/captf-editor-role",
        "clusterrole.rbac.authorization.k8s.io/captf-plan-approver-role",
        "clusterrolebinding.rbac.authorization.k8s.io/captf-manager-rolebinding",
        "role.rbac.authorization.k8s.io/captf-leader-election-role",
        "rolebinding.rbac.authorization.k8s.io/captf-leader-election-rolebinding",
        "deployment.apps/captf-controller-manager",
    ] {
        assert!(
            answer.contains(&format!("{object} serverside-applied")),
            "{object} in {answer}"
        );
    }
}

#[tokio::test]
async fn two_replicas_have_a_disruption_budget() {
    let answer = dry_run("operator/overlays/ha").await;
    assert!(
        answer.contains("poddisruptionbudget.policy/captf-controller-manager"),
        "{answer}"
    );
}
