use std::collections::BTreeMap;

use serde_json::json;

use super::{apply, complete, job};
use crate::names::{Kind, ObjectKey, Op};
use crate::operator::cache::jobs::JobWire;
use crate::operator::cache::{Change, JobStore, JobView, Name};

fn put(store: &JobStore, name: &str, version: &str, status: serde_json::Value) -> Change<JobView> {
    apply::<JobWire, _>(store, job(name, version, status)).unwrap()
}

fn prod() -> ObjectKey {
    ObjectKey::new(Kind::TerraformCluster, "ns", "prod")
}

#[test]
fn a_job_is_kept_without_what_no_rule_reads() {
    let store = JobStore::default();
    let change = put(&store, "a", "1", json!({}));
    let view = change.latest();
    assert_eq!(view.namespace, "ns");
    assert_eq!(view.controller, Some(prod()));
    assert_eq!(view.active_deadline_seconds, Some(3600));
    assert_eq!(view.facts.op, Some(Op::Apply));
    assert_eq!(
        view.facts.annotations,
        BTreeMap::from([("captf.io/inputs-hash".to_owned(), "h2:1".to_owned())])
    );
}

#[test]
fn a_controller_of_another_group_is_not_ours() {
    let store = JobStore::default();
    let mut object = job("a", "1", json!({}));
    object["metadata"]["ownerReferences"][0]["apiVersion"] = json!("example.com/v1");
    assert_eq!(
        apply::<JobWire, _>(&store, object)
            .unwrap()
            .latest()
            .controller,
        None
    );
}

#[test]
fn jobs_are_found_by_their_owner_in_the_order_of_their_names() {
    let store = JobStore::default();
    put(&store, "b", "1", json!({}));
    put(&store, "a", "1", json!({}));
    let names = |owner: &ObjectKey| -> Vec<String> {
        store
            .of_owner(owner)
            .iter()
            .map(|job| job.facts.name.clone())
            .collect()
    };
    assert_eq!(names(&prod()), ["a", "b"]);
    assert!(names(&ObjectKey::new(Kind::TerraformCluster, "other", "prod")).is_empty());
    assert!(names(&ObjectKey::new(Kind::TerraformMachine, "ns", "prod")).is_empty());
    store.delete(&Name::new("ns", "a"), None);
    assert_eq!(names(&prod()), ["b"]);
}

#[test]
fn a_long_owner_name_is_found_by_its_label_value() {
    let store = JobStore::default();
    let mut object = job("a", "1", json!({}));
    object["metadata"]["labels"]["captf.infrastructure.cluster.x-k8s.io/owner-name"] =
        json!("1be63cc0bde6bd45");
    apply::<JobWire, _>(&store, object);
    assert_eq!(
        store
            .of_owner(&ObjectKey::new(
                Kind::TerraformCluster,
                "ns",
                "n".repeat(200)
            ))
            .len(),
        1
    );
}

#[test]
fn unfinished_jobs_are_counted_until_they_finish_or_go() {
    let store = JobStore::default();
    put(&store, "a", "1", json!({}));
    put(&store, "b", "1", json!({}));
    assert_eq!(
        (
            store.unfinished(),
            store.unfinished_of_cluster("ns", "prod")
        ),
        (2, 2)
    );
    put(&store, "a", "2", complete());
    assert_eq!(
        (
            store.unfinished(),
            store.unfinished_of_cluster("ns", "prod")
        ),
        (1, 1)
    );
    store.delete(&Name::new("ns", "b"), None);
    assert_eq!(
        (
            store.unfinished(),
            store.unfinished_of_cluster("ns", "prod")
        ),
        (0, 0)
    );
    store.delete(&Name::new("ns", "a"), None);
    assert_eq!(store.unfinished(), 0);
}

#[test]
fn clusters_of_other_namespaces_do_not_count() {
    let store = JobStore::default();
    put(&store, "a", "1", json!({}));
    assert_eq!(store.unfinished_of_cluster("other", "prod"), 0);
    assert_eq!(store.unfinished_of_cluster("ns", "test"), 0);
}

#[test]
fn a_relabelled_job_moves_in_the_index() {
    let store = JobStore::default();
    put(&store, "a", "1", json!({}));
    let mut moved = job("a", "2", json!({}));
    moved["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = json!("test");
    moved["metadata"]["labels"]["captf.infrastructure.cluster.x-k8s.io/owner-name"] = json!("test");
    apply::<JobWire, _>(&store, moved);
    assert!(store.of_owner(&prod()).is_empty());
    assert_eq!(
        (
            store.unfinished_of_cluster("ns", "prod"),
            store.unfinished_of_cluster("ns", "test")
        ),
        (0, 1)
    );
}

#[test]
fn active_jobs_fall_to_zero_and_keep_their_series() {
    let store = JobStore::default();
    let run = (Kind::TerraformCluster, Op::Apply);
    put(&store, "a", "1", json!({}));
    assert_eq!(store.active(), BTreeMap::from([(run, 1)]));
    put(&store, "a", "2", complete());
    assert_eq!(store.active(), BTreeMap::from([(run, 0)]));
}
