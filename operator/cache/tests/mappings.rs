use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use rstest::rstest;
use serde_json::{Value, json};

use super::{apply, decoded, job, metadata};
use crate::api::capi::Cluster;
use crate::api::{TerraformCluster, TerraformClusterIdentity};
use crate::names::{Kind, ObjectKey};
use crate::operator::cache::jobs::JobWire;
use crate::operator::cache::mapping::{self, SourceKind};
use crate::operator::cache::{Change, JobStore, MetadataOf, Store, Typed};

fn cluster(namespace: &str, name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["source"] = json!({"image": "ghcr.io/example/module:v1"});
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"}, "spec": spec
    })
}

fn clusters(objects: impl IntoIterator<Item = Value>) -> Store<TerraformCluster> {
    let store = Store::default();
    for object in objects {
        apply::<Typed<TerraformCluster>, _>(&store, object);
    }
    store
}

fn keys(keys: &[(&str, &str)]) -> Vec<ObjectKey> {
    keys.iter()
        .map(|(namespace, name)| ObjectKey::new(Kind::TerraformCluster, *namespace, *name))
        .collect()
}

fn added<V>(view: V) -> Change<V> {
    Change::Added(Arc::new(view))
}

fn updated<V>(old: V, new: V) -> Change<V> {
    Change::Updated {
        old: Arc::new(old),
        new: Arc::new(new),
    }
}

fn deleted<V>(view: V) -> Change<V> {
    Change::Deleted(Arc::new(view))
}

#[rstest]
#[case(json!({"resourceVersion": "2", "annotations": {"clusterctl.cluster.x-k8s.io/block-move": "u t"}}), false)]
#[case(json!({"resourceVersion": "2", "annotations": {"clusterctl.cluster.x-k8s.io/block-move": "u t", "a": "b"}}), true)]
#[case(json!({"resourceVersion": "2", "annotations": {"cluster.x-k8s.io/paused": "true"}}), true)]
#[case(json!({"resourceVersion": "2"}), true)]
fn a_write_of_nothing_but_block_move_wakes_nobody(#[case] metadata: Value, #[case] wakes: bool) {
    let before = cluster("ns", "prod", json!({}));
    let mut after = before.clone();
    for (key, value) in metadata.as_object().unwrap() {
        after["metadata"][key] = value.clone();
    }
    let read = |object: Value| serde_json::from_value::<TerraformCluster>(object).unwrap();
    let change = updated(read(before), read(after));
    let woken = mapping::changed_cluster(&change);
    assert_eq!(woken, wakes.then(|| keys(&[("ns", "prod")]).remove(0)));
}

#[test]
fn a_job_wakes_its_controller() {
    let store = JobStore::default();
    let change = apply::<JobWire, _>(&store, job("a", "1", json!({}))).unwrap();
    assert_eq!(
        mapping::controller_of_job(&change),
        keys(&[("ns", "prod")]).pop()
    );
}

fn secret(labels: Value, owners: Value) -> MetadataOf<Secret> {
    MetadataOf::new(metadata(
        json!({"name": "s", "namespace": "ns", "labels": labels, "ownerReferences": owners}),
    ))
}

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u"})
}

const OURS: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";

#[test]
fn a_managed_secret_wakes_every_owner_of_our_group() {
    let owners = json!([
        owner(OURS, "TerraformCluster", "one"),
        owner("batch/v1", "Job", "two"),
        owner(OURS, "TerraformMachine", "three"),
    ]);
    let expected = [
        ObjectKey::new(Kind::TerraformCluster, "ns", "one"),
        ObjectKey::new(Kind::TerraformMachine, "ns", "three"),
    ];
    assert_eq!(mapping::owners(&added(secret(json!({}), owners))), expected);
}

#[test]
fn a_managed_secret_without_owners_wakes_whom_its_labels_name() {
    let labels = json!({
        "captf.infrastructure.cluster.x-k8s.io/owner-kind": "TerraformCluster",
        "captf.infrastructure.cluster.x-k8s.io/owner-name": "prod"
    });
    assert_eq!(
        mapping::owners(&deleted(secret(labels, json!([])))),
        keys(&[("ns", "prod")])
    );
}

#[test]
fn a_credential_mirror_wakes_its_owners_only_when_it_is_gone() {
    let mirror = || {
        secret(
            json!({"captf.io/mirrored": "true"}),
            json!([owner(OURS, "TerraformCluster", "prod")]),
        )
    };
    assert!(mapping::owners(&added(mirror())).is_empty());
    assert!(mapping::owners(&updated(mirror(), mirror())).is_empty());
    assert_eq!(mapping::owners(&deleted(mirror())), keys(&[("ns", "prod")]));
}

fn capi(change: Value) -> Cluster {
    let mut object = json!({
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TerraformCluster", "name": "c"}},
        "status": {}
    });
    for part in ["spec", "status"] {
        for (field, value) in change[part].as_object().into_iter().flatten() {
            object[part][field] = value.clone();
        }
    }
    decoded(object)
}

#[rstest]
#[case(json!({"spec": {"paused": true}}))]
#[case(json!({"status": {"initialization": {"controlPlaneInitialized": true}}}))]
#[case(json!({"spec": {"topology": {"version": "v1.36.4"}}}))]
#[case(json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}}}))]
#[case(json!({"spec": {"clusterNetwork": {"serviceDomain": "cluster.local"}}}))]
fn a_change_of_a_cluster_that_inputs_read_wakes_its_infrastructure(#[case] change: Value) {
    assert_eq!(
        mapping::infrastructure(&updated(capi(json!({})), capi(change))),
        keys(&[("ns", "c")])
    );
}

#[rstest]
#[case(json!({"status": {"initialization": {"infrastructureProvisioned": true}}}))]
#[case(json!({"status": {"initialization": {"controlPlaneInitialized": false}}}))]
#[case(json!({"spec": {"paused": false}}))]
fn other_changes_of_a_cluster_wake_nobody(#[case] change: Value) {
    assert!(mapping::infrastructure(&updated(capi(json!({})), capi(change))).is_empty());
}

#[test]
fn a_new_cluster_wakes_and_a_deleted_one_does_not() {
    assert_eq!(
        mapping::infrastructure(&added(capi(json!({})))),
        keys(&[("ns", "c")])
    );
    assert!(mapping::infrastructure(&deleted(capi(json!({})))).is_empty());
}

#[test]
fn a_changed_reference_wakes_both_objects() {
    let other = json!({"spec": {"infrastructureRef": {
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TerraformCluster", "name": "d"
    }}});
    assert_eq!(
        mapping::infrastructure(&updated(capi(json!({})), capi(other))),
        keys(&[("ns", "c"), ("ns", "d")])
    );
}

#[test]
fn a_cluster_of_another_provider_wakes_nobody() {
    let docker = json!({"spec": {"infrastructureRef": {
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerCluster", "name": "c"
    }}});
    assert!(mapping::infrastructure(&added(capi(docker))).is_empty());
}

fn identity(generation: i64) -> TerraformClusterIdentity {
    decoded(json!({
        "apiVersion": OURS, "kind": "TerraformClusterIdentity",
        "metadata": {"name": "aws", "generation": generation},
        "spec": {"secretRef": {"name": "s", "namespace": "n"}, "allowedNamespaces": {}}
    }))
}

#[test]
fn a_changed_identity_wakes_the_clusters_that_name_it() {
    let clusters = clusters([
        cluster("a", "names it", json!({"identityRef": {"name": "aws"}})),
        cluster(
            "b",
            "names it too",
            json!({"identityRef": {"kind": "TerraformClusterIdentity", "name": "aws"}}),
        ),
        cluster(
            "a",
            "names a secret",
            json!({"identityRef": {"kind": "Secret", "name": "aws"}}),
        ),
        cluster(
            "a",
            "names another",
            json!({"identityRef": {"name": "gcp"}}),
        ),
    ]);
    let expected = keys(&[("a", "names it"), ("b", "names it too")]);
    assert_eq!(
        mapping::users_of_identity(&updated(identity(1), identity(2)), &clusters),
        expected
    );
    assert_eq!(
        mapping::users_of_identity(&added(identity(1)), &clusters),
        expected
    );
    assert_eq!(
        mapping::users_of_identity(&deleted(identity(1)), &clusters),
        expected
    );
    assert!(mapping::users_of_identity(&updated(identity(1), identity(1)), &clusters).is_empty());
}

fn namespace(labels: Value) -> MetadataOf<Namespace> {
    MetadataOf::new(metadata(json!({"name": "a", "labels": labels})))
}

#[test]
fn a_relabelled_namespace_wakes_its_clusters() {
    let clusters = clusters([cluster("a", "x", json!({})), cluster("b", "y", json!({}))]);
    let (plain, labelled) = (json!({}), json!({"team": "blue"}));
    let woken = |change| mapping::inhabitants(&change, &clusters);
    assert_eq!(
        woken(updated(namespace(plain.clone()), namespace(labelled))),
        keys(&[("a", "x")])
    );
    assert!(woken(updated(namespace(plain.clone()), namespace(plain.clone()))).is_empty());
    assert!(woken(deleted(namespace(plain))).is_empty());
}

#[test]
fn a_variables_source_wakes_the_clusters_that_name_it() {
    let clusters = clusters([
        cluster(
            "a",
            "config map",
            json!({"variablesFrom": [{"configMapRef": {"name": "vars"}}]}),
        ),
        cluster(
            "a",
            "secret",
            json!({"variablesFrom": [{"secretRef": {"name": "vars"}}]}),
        ),
        cluster(
            "b",
            "elsewhere",
            json!({"variablesFrom": [{"configMapRef": {"name": "vars"}}]}),
        ),
    ]);
    let source = metadata(json!({"name": "vars", "namespace": "a"}));
    let config_map: Change<MetadataOf<ConfigMap>> = added(MetadataOf::new(source.clone()));
    assert_eq!(
        mapping::users_of_source(SourceKind::ConfigMap, &config_map, &clusters),
        keys(&[("a", "config map")])
    );
    let secret: Change<MetadataOf<Secret>> = deleted(MetadataOf::new(source));
    assert_eq!(
        mapping::users_of_source(SourceKind::Secret, &secret, &clusters),
        keys(&[("a", "secret")])
    );
}

/// Counts who is woken.
#[derive(Default)]
struct Woken(Mutex<Vec<String>>);

impl crate::operator::cache::Wake for Woken {
    fn wake(&self, object: ObjectKey, _: crate::operator::queue::Priority) {
        self.0.lock().unwrap().push(object.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resync_wakes_every_object_of_this_manager() {
    use crate::operator::cache::Caches;
    use crate::operator::settings::WatchScope;
    use std::time::Duration;

    let caches = Caches::new(WatchScope {
        namespace: None,
        filter: Some("blue".to_owned()),
    });
    let mut mine = cluster("a", "mine", json!({}));
    mine["metadata"]["labels"] = json!({"cluster.x-k8s.io/watch-filter": "blue"});
    for object in [mine, cluster("a", "another's", json!({}))] {
        apply::<Typed<TerraformCluster>, _>(&caches.terraform_clusters, object);
    }
    let woken = Arc::new(Woken::default());
    let resync = tokio::spawn(
        Arc::clone(&caches).resync(Duration::from_secs(600), Arc::clone(&woken) as Arc<_>),
    );
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert!(woken.0.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(*woken.0.lock().unwrap(), ["mine"]);
    resync.abort();
}
