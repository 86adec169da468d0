//! Definitions that are missing or let through what the types cannot hold: on a bed of these tests' own,
//! since every other test needs them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::ResourceExt as _;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::manager::program::Manager;
use crate::testbed::wait::{LIMIT, so, until};
use crate::testbed::world::resource;
use crate::testbed::{Bed, Options, World};

const CLUSTERS: &str = "terraformclusters.infrastructure.cluster.x-k8s.io";

/// The bed whose definitions are changed, by one test at a time.
async fn own_bed() -> (&'static Bed, MutexGuard<'static, ()>) {
    static BED: OnceCell<Bed> = OnceCell::const_new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let start = || async {
        tokio::task::spawn_blocking(|| Bed::start(Options::control_plane()))
            .await
            .expect("the start does not panic")
            .unwrap_or_else(|error| panic!("{error}"))
    };
    (BED.get_or_init(start).await, turn)
}

fn definitions(client: &kube::Client) -> Api<CustomResourceDefinition> {
    Api::all(client.clone())
}

/// Takes the definition of TerraformClusters away and returns it. Objects of earlier tests go with it, whose
/// finalizers no manager takes off any more.
async fn uninstall(world: &World) -> CustomResourceDefinition {
    let (resource, _) = resource("TerraformCluster");
    let everywhere: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    for object in everywhere.list(&ListParams::default()).await.unwrap() {
        if object.metadata.finalizers.is_some() {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let own: Api<DynamicObject> =
                Api::namespaced_with(world.client.clone(), &namespace, &resource);
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            own.patch(&object.name_any(), &PatchParams::default(), &free)
                .await
                .unwrap();
        }
    }
    let api = definitions(&world.client);
    let definition = api.get(CLUSTERS).await.unwrap();
    api.delete(CLUSTERS, &DeleteParams::default())
        .await
        .unwrap();
    until("the definition to be gone", LIMIT, async || {
        let found = api
            .get_opt(CLUSTERS)
            .await
            .map_err(|error| error.to_string())?;
        so(found.is_none(), || "it is there".to_owned())
    })
    .await;
    definition
}

async fn install(world: &World, mut definition: CustomResourceDefinition) {
    definition.metadata.resource_version = None;
    definition.metadata.uid = None;
    definition.status = None;
    definitions(&world.client)
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    established(world).await;
}

/// Waits until the API server serves the kind.
async fn established(world: &World) {
    until("TerraformClusters to be served", LIMIT, async || {
        world
            .api("TerraformCluster")
            .list(&ListParams::default())
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
}

async fn has_finalizer(world: &World, name: &str, manager: &Manager) {
    until(&format!("a pass over {name}"), LIMIT, async || {
        let object = world.get("TerraformCluster", name).await;
        so(object.metadata.finalizers.is_some(), || manager.log())
    })
    .await;
}

#[tokio::test]
async fn a_missing_definition_is_named_with_its_remedy_and_its_installation_noticed() {
    let (bed, _turn) = own_bed().await;
    let world = World::new(bed).await;
    let definition = uninstall(&world).await;
    let manager = Manager::start(bed, &world, &[]);
    let remedy = format!("install the CustomResourceDefinition {CLUSTERS}");
    manager.logged(&remedy).await;
    assert!(
        manager.log().contains(
            "does not serve TerraformCluster of infrastructure.cluster.x-k8s.io/v1alpha1"
        ),
        "{}",
        manager.log()
    );
    assert_eq!(manager.health("/healthz").await.0, 200);
    install(&world, definition).await;
    world.cluster("prod").create().await;
    has_finalizer(&world, "prod", &manager).await;
    let log = manager.log();
    // While it lasts it is told at verbosity 5, too.
    let errors = log.lines().filter(|line| line.starts_with('E'));
    assert_eq!(
        errors.filter(|line| line.contains(&remedy)).count(),
        1,
        "the same cause is told once: {log}"
    );
    assert_eq!(manager.stop().await.code(), Some(0));
}

#[tokio::test]
async fn without_any_definition_a_stop_is_clean() {
    let (bed, _turn) = own_bed().await;
    let world = World::new(bed).await;
    let definition = uninstall(&world).await;
    let manager = Manager::start(bed, &world, &["--leader-elect"]);
    manager.logged("install the CustomResourceDefinition").await;
    let status = manager.stop().await;
    install(&world, definition).await;
    assert_eq!(status.code(), Some(0), "{}", manager.log());
}

/// Replaces the schema by one that lets everything through, and returns how the versions were.
async fn relax(world: &World) -> Value {
    let stored = definitions(&world.client).get(CLUSTERS).await.unwrap();
    let strict = json!(stored.spec.versions);
    let mut lax = strict.clone();
    lax[0]["schema"] = json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }});
    put_versions(world, &lax).await;
    strict
}

async fn put_versions(world: &World, versions: &Value) {
    definitions(&world.client)
        .patch(
            CLUSTERS,
            &PatchParams::default(),
            &Patch::Merge(&json!({"spec": {"versions": versions}})),
        )
        .await
        .unwrap();
}

/// A TerraformCluster whose source is no object, once the API server lets it through.
async fn store_malformed(world: &World, name: &str) {
    let malformed = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
        "metadata": {"name": name, "namespace": world.namespace},
        "spec": {"source": "registry.example.com/noop-cluster:v1"},
    });
    let object: DynamicObject = serde_json::from_value(malformed).unwrap();
    until("the lax schema to be in force", LIMIT, async || {
        world
            .api("TerraformCluster")
            .create(&PostParams::default(), &object)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn a_malformed_object_is_named_and_the_good_ones_beside_it_go_on() {
    let (bed, _turn) = own_bed().await;
    let world = World::new(bed).await;
    let strict = relax(&world).await;
    store_malformed(&world, "broken").await;
    world.cluster("before").create().await;
    let manager = Manager::start(bed, &world, &[]);
    has_finalizer(&world, "before", &manager).await;
    world.cluster("after").create().await;
    has_finalizer(&world, "after", &manager).await;
    store_malformed(&world, "late").await;
    manager.logged(r#"name="late""#).await;
    let log = manager.log();
    for name in ["broken", "late"] {
        let said: Vec<&str> = log
            .lines()
            .filter(|line| line.contains(&format!(r#"name="{name}""#)))
            .collect();
        let [line] = said.as_slice() else {
            panic!("{name} is named in {said:?}");
        };
        assert!(
            line.contains("TerraformCluster")
                && line.contains(&world.namespace)
                && line.contains("correct"),
            "{line}"
        );
    }
    put_versions(&world, &strict).await;
    established(&world).await;
    // Once it is what its type says, it is an object like any other.
    let api = world.api("TerraformCluster");
    api.delete("broken", &DeleteParams::default())
        .await
        .unwrap();
    until("the malformed object to be gone", LIMIT, async || {
        let found = api
            .get_opt("broken")
            .await
            .map_err(|error| error.to_string())?;
        so(found.is_none(), || "it is there".to_owned())
    })
    .await;
    world.cluster("broken").create().await;
    has_finalizer(&world, "broken", &manager).await;
    assert_eq!(manager.stop().await.code(), Some(0));
}
