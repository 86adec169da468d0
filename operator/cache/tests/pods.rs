use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::advance;

use super::{apply, complete, decoded, job};
use crate::jobs::pod::{ContainerFacts, PodPhase};
use crate::operator::cache::jobs::JobWire;
use crate::operator::cache::pods::PodWire;
use crate::operator::cache::{Caches, Name, PodStore, SeenPod};
use crate::operator::settings::WatchScope;
use crate::operator::watch::Wire;

const JOB: &str = "uid-a";

fn pod(name: &str, version: &str, phase: &str, message: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version,
            "creationTimestamp": "2026-10-01T12:00:01Z",
            "labels": {"captf.io/managed": "true", "batch.kubernetes.io/job-name": "a"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": JOB, "controller": true}]
        },
        "spec": {"containers": [{"name": "source", "image": "ghcr.io/example/module:v1"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{
                "name": "source", "ready": false, "restartCount": 0, "image": "x", "imageID": "x",
                "state": {"terminated": {"exitCode": 0, "startedAt": "2026-10-01T12:00:05Z", "message": message}}
            }]
        }
    })
}

fn put(store: &PodStore, name: &str, version: &str, phase: &str, message: &str) {
    apply::<PodWire, _>(store, pod(name, version, phase, message));
}

fn delete(store: &PodStore, name: &str, last: Value) {
    store.delete(
        &Name::new("ns", name),
        Some(decoded::<PodWire>(last).view()),
    );
}

fn message(pod: &SeenPod) -> &str {
    match &pod.facts.source {
        ContainerFacts::Terminated { message, .. } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_state_of_a_deleted_pod_stays() {
    let store = PodStore::default();
    put(&store, "p", "1", "Running", "");
    delete(&store, "p", pod("p", "2", "Failed", "result"));
    let seen = store.of_job(JOB);
    assert_eq!(seen.len(), 1);
    assert!(seen[0].gone);
    assert_eq!(
        (seen[0].facts.phase, message(&seen[0])),
        (PodPhase::Failed, "result")
    );
}

#[test]
fn a_pod_that_a_new_list_does_not_name_is_remembered_as_it_was() {
    let store = PodStore::default();
    store.begin_list();
    put(&store, "p", "1", "Failed", "result");
    store.end_list();
    store.begin_list();
    store.end_list();
    let seen = store.of_job(JOB);
    assert!(seen[0].gone);
    assert_eq!(message(&seen[0]), "result");
}

#[test]
fn a_pod_that_went_unwatched_before_it_started_counts_as_never_seen() {
    let store = PodStore::default();
    store.begin_list();
    let mut pending = pod("p", "1", "Pending", "");
    pending["status"]["containerStatuses"] = json!([]);
    apply::<PodWire, _>(&store, pending.clone());
    store.end_list();
    store.begin_list();
    store.end_list();
    assert!(store.of_job(JOB).is_empty());
    apply::<PodWire, _>(&store, pending.clone());
    delete(&store, "p", pending);
    assert_eq!(store.of_job(JOB).len(), 1, "its end was watched");
}

#[test]
fn a_pod_without_a_job_is_not_kept() {
    let store = PodStore::default();
    let mut stray = pod("p", "1", "Running", "");
    stray["metadata"]["ownerReferences"] = json!([]);
    apply::<PodWire, _>(&store, stray);
    assert!(store.of_job(JOB).is_empty());
}

#[test]
fn a_pod_is_found_by_its_name() {
    let store = PodStore::default();
    put(&store, "p", "1", "Failed", "");
    assert!(store.named("ns", "p").is_some());
    assert!(store.named("other", "p").is_none());
}

#[test]
fn a_recorded_result_is_dropped_and_the_end_of_the_pod_stays() {
    let store = PodStore::default();
    put(&store, "p", "1", "Failed", "result");
    delete(&store, "p", pod("p", "2", "Failed", "result"));
    store.forget_results(JOB);
    let seen = store.of_job(JOB);
    assert_eq!(
        (seen[0].facts.phase, message(&seen[0])),
        (PodPhase::Failed, "")
    );
}

#[test]
fn the_pods_of_a_recorded_job_are_forgotten_with_it() {
    let store = PodStore::default();
    put(&store, "gone before", "1", "Failed", "");
    delete(&store, "gone before", pod("gone before", "2", "Failed", ""));
    put(&store, "goes after", "1", "Succeeded", "");
    store.job_gone(JOB, true);
    assert_eq!(store.of_job(JOB).len(), 1, "a pod that exists is known");
    delete(
        &store,
        "goes after",
        pod("goes after", "2", "Succeeded", ""),
    );
    assert!(store.of_job(JOB).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_job_that_went_unrecorded_are_remembered_past_its_longest_deadline() {
    let store = PodStore::default();
    put(&store, "p", "1", "Failed", "result");
    store.job_gone(JOB, false);
    delete(&store, "p", pod("p", "2", "Failed", "result"));
    advance(Duration::from_secs(86_400 + 900)).await;
    store.prune();
    assert_eq!(store.of_job(JOB).len(), 1);
    advance(Duration::from_secs(3_601)).await;
    store.prune();
    assert!(store.of_job(JOB).is_empty());
}

/// What the watch of Jobs tells the memory of pods.
fn follow(caches: &Caches, object: Value) {
    let change = apply::<JobWire, _>(&caches.jobs, object).unwrap();
    caches.follow_job(&change);
}

#[test]
fn the_mark_on_a_job_drops_results_also_on_a_replica_that_did_not_write_it() {
    let caches = Caches::new(WatchScope::default());
    put(&caches.pods, "p", "1", "Failed", "result");
    delete(&caches.pods, "p", pod("p", "2", "Failed", "result"));
    follow(&caches, job("a", "1", complete()));
    assert_eq!(message(&caches.pods.of_job(JOB)[0]), "result");
    let mut marked = job("a", "2", complete());
    marked["metadata"]["annotations"]["captf.io/bookkept"] = json!("true");
    follow(&caches, marked);
    assert_eq!(message(&caches.pods.of_job(JOB)[0]), "");
}
