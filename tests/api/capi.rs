//! The views of Cluster API's objects, read from a real API server with Cluster API's own schemas.

use captf::api::{ApiKind, capi};
use kube::api::Api;
use serde_json::json;

use crate::testbed::{ControlPlane, World};

#[tokio::test]
async fn a_cluster_is_read_through_its_view() {
    let world = World::new(ControlPlane::shared().await).await;
    let spec = json!({
        "clusterNetwork": {
            "apiServerPort": 6443,
            "serviceDomain": "cluster.local",
            "pods": {"cidrBlocks": ["192.168.0.0/16"]},
            "services": {"cidrBlocks": ["10.128.0.0/12"]}
        }
    });
    world.cluster("prod").cluster_spec(spec).create().await;
    let status = json!({"initialization": {"infrastructureProvisioned": true}});
    world.patch_status("Cluster", "prod", status).await;
    let clusters: Api<capi::Cluster> = Api::namespaced(world.client.clone(), &world.namespace);
    let cluster = clusters.get("prod").await.unwrap();
    let reference = cluster.spec.infrastructure_ref.unwrap();
    assert!(reference.names(ApiKind::TerraformCluster, "prod"));
    assert!(!cluster.spec.paused);
    assert_eq!(cluster.spec.control_plane_endpoint.valid(), None);
    let network = cluster.spec.cluster_network;
    assert_eq!(network.api_server_port, 6443);
    assert_eq!(network.service_domain, "cluster.local");
    assert_eq!(network.pods.cidr_blocks, ["192.168.0.0/16"]);
    assert_eq!(network.services.cidr_blocks, ["10.128.0.0/12"]);
    let initialization = cluster.status.initialization;
    assert_eq!(initialization.infrastructure_provisioned, Some(true));
    assert_eq!(initialization.control_plane_initialized, None);
}

#[tokio::test]
async fn a_paused_cluster_is_read_as_paused() {
    let world = World::new(ControlPlane::shared().await).await;
    world.cluster("prod").paused().create().await;
    let clusters: Api<capi::Cluster> = Api::namespaced(world.client.clone(), &world.namespace);
    assert!(clusters.get("prod").await.unwrap().spec.paused);
}
