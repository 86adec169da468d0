//! What `kubectl get` works with: names, categories, columns.

use captf::api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use serde_json::Value;

use super::{Kind, accepted, world};
use crate::testbed::{ControlPlane, World};

/// Kind, plural, short name and columns, the wide ones marked (api.md §1).
const KINDS: [(&str, &str, &str, &[&str]); 3] = [
    (
        "TerraformCluster",
        "terraformclusters",
        "tfc",
        &[
            "Name",
            "Cluster",
            "Ready",
            "Provisioned",
            "Endpoint",
            "Image (wide)",
            "InputsApplied (wide)",
            "Age",
        ],
    ),
    (
        "TerraformClusterIdentity",
        "terraformclusteridentities",
        "tfci",
        &["Name", "Secret", "Namespace", "Ready", "Age"],
    ),
    (
        "TerraformPlan",
        "terraformplans",
        "tfplan",
        &[
            "Name", "Target", "Reason", "Phase", "Create", "Update", "Replace", "Delete",
            "Approved", "Age",
        ],
    ),
];

async fn get(path: &str, accept: &str) -> Value {
    let client = ControlPlane::shared().await.client().await;
    let request = http::Request::get(path)
        .header("Accept", accept)
        .body(Vec::new())
        .unwrap();
    client.request(request).await.unwrap()
}

#[tokio::test]
async fn kinds_have_their_short_names_and_the_category_of_cluster_api() {
    let found = get(
        "/apis/infrastructure.cluster.x-k8s.io/v1alpha1",
        "application/json",
    )
    .await;
    let resources = found["resources"].as_array().unwrap();
    for (kind, plural, short, _) in KINDS {
        let resource = resources
            .iter()
            .find(|resource| resource["name"] == plural)
            .unwrap();
        assert_eq!(resource["kind"], kind);
        assert_eq!(resource["shortNames"], serde_json::json!([short]));
        assert_eq!(resource["categories"], serde_json::json!(["cluster-api"]));
        assert_eq!(resource["namespaced"], kind != "TerraformClusterIdentity");
        let status = format!("{plural}/status");
        assert!(
            resources.iter().any(|resource| resource["name"] == *status),
            "{status}"
        );
        let scale = format!("{plural}/scale");
        assert!(
            resources.iter().all(|resource| resource["name"] != *scale),
            "{scale}"
        );
    }
}

#[tokio::test]
async fn kinds_have_their_columns_in_order() {
    for (kind, plural, _, columns) in KINDS {
        let path = format!("/apis/infrastructure.cluster.x-k8s.io/v1alpha1/{plural}");
        let table = get(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
        let found: Vec<String> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| {
                let wide = if column["priority"] == 0 {
                    ""
                } else {
                    " (wide)"
                };
                format!("{}{wide}", column["name"].as_str().unwrap())
            })
            .collect();
        assert_eq!(found, columns, "{kind}");
    }
}

#[tokio::test]
async fn columns_show_the_conditions_and_the_labels() {
    let world = world().await;
    let clusters = Kind::of(&world, "TerraformCluster");
    let spec = serde_json::json!({
        "source": {"image": "registry.example/m:v1"},
        "identityRef": {"name": "cloud"},
        "controlPlaneEndpoint": {"host": "k8s.example", "port": 6443}
    });
    accepted(clusters.create("c1", spec).await);
    let label =
        serde_json::json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "prod"}}});
    accepted(clusters.patch("c1", label).await);
    let condition = |type_: &str, status: &str| {
        serde_json::json!({
            "type": type_,
            "status": status,
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-02T12:00:00Z"
        })
    };
    let status = serde_json::json!({
        "conditions": [condition("Ready", "False"), condition("InputsApplied", "Unknown")],
        "initialization": {"provisioned": true}
    });
    accepted(clusters.patch_status("c1", status).await);
    let path = format!(
        "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/{}/terraformclusters",
        world.namespace
    );
    let table = get(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        cells[..7],
        [
            "c1".into(),
            "prod".into(),
            "False".into(),
            Value::Bool(true),
            "k8s.example".into(),
            "registry.example/m:v1".into(),
            "Unknown".into()
        ]
    );
}

async fn kubectl(arguments: &[&str]) -> String {
    let output = ControlPlane::shared()
        .await
        .kubectl()
        .args(arguments)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn definitions_are_established_and_structural() {
    let client = ControlPlane::shared().await.client().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    for expected in crd::all().unwrap() {
        let name = expected.metadata.name.unwrap();
        let found = definitions.get(&name).await.unwrap();
        let conditions = found.status.unwrap().conditions.unwrap();
        let status = |type_| {
            conditions
                .iter()
                .find(|item| item.type_ == type_)
                .map(|item| item.status.as_str())
        };
        assert_eq!(status("Established"), Some("True"), "{name}");
        assert_eq!(status("NamesAccepted"), Some("True"), "{name}");
        assert_eq!(status("NonStructuralSchema"), None, "{name}");
    }
}

#[tokio::test]
async fn kubectl_lists_objects_by_short_name_and_category() {
    let world = World::new(ControlPlane::shared().await).await;
    world.cluster("prod").create().await;
    let namespace = world.namespace.as_str();
    let by_name = kubectl(&["get", "tfc,tfplan", "-n", namespace, "-o", "name"]).await;
    assert_eq!(
        by_name,
        "terraformcluster.infrastructure.cluster.x-k8s.io/prod\n"
    );
    let identity = kubectl(&["get", "tfci", namespace, "-o", "name"]).await;
    assert_eq!(
        identity,
        format!("terraformclusteridentity.infrastructure.cluster.x-k8s.io/{namespace}\n")
    );
    let by_category = kubectl(&["get", "cluster-api", "-n", namespace, "-o", "name"]).await;
    assert!(by_category.contains("terraformcluster.infrastructure.cluster.x-k8s.io/prod\n"));
}

#[tokio::test]
async fn kubectl_explains_fields() {
    let explained = kubectl(&["explain", "terraformcluster.spec.source.image"]).await;
    assert!(explained.contains("Image reference; its tag or digest is the module's version."));
}
