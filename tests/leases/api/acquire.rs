//! Taking one lease.

use std::collections::BTreeMap;

use captf::lease::LeaseView;
use captf::names::LeaseScope;
use http::{Method, StatusCode};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::manager::{Manager, OURS, busy, taken};
use super::scene;
use crate::operator::hand::{Held, OTHER, applied, duration, invalid, noon, seconds};
use crate::operator::sight::{acquired_at, holder};
use crate::testbed::World;
use crate::testbed::fault::{Fault, Faults};

async fn manager() -> (World, Manager) {
    let (bed, world) = scene().await;
    let manager = Manager::at(bed, &world, noon(), &Faults::none()).await;
    (world, manager)
}

async fn version(world: &World, lease: &str) -> Option<String> {
    world
        .lease(lease)
        .await
        .and_then(|lease| lease.resource_version())
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_a_lease_whose_job_has_finished_is_taken_over_at_once() {
    for ending in [applied(), invalid()] {
        let (world, manager) = manager().await;
        world.finished_job(OTHER, ending).await;
        world.hold(&Held::run(&world, "prod", OTHER, noon())).await;
        let lease = taken(manager.acquire(OURS, noon() + seconds(1)).await);
        assert_eq!(holder(&lease), OURS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b36_an_absent_holder_keeps_the_lease_for_exactly_the_grace() {
    let (world, manager) = manager().await;
    let lease = world.hold(&Held::run(&world, "prod", OTHER, noon())).await;
    assert_eq!(
        busy(manager.acquire(OURS, noon() + seconds(60)).await),
        OTHER
    );
    assert_eq!(
        version(&world, &lease.name_any()).await,
        lease.resource_version(),
        "nothing is written"
    );
    let lease = taken(manager.acquire(OURS, noon() + seconds(61)).await);
    assert_eq!(holder(&lease), OURS);
    assert_eq!(acquired_at(&lease), noon() + seconds(61));
}

#[tokio::test(flavor = "multi_thread")]
async fn b6_a_running_holder_keeps_the_lease_for_exactly_its_backstop() {
    let (world, manager) = manager().await;
    world.job_by_hand(OTHER).await;
    let held = Held::run(&world, "prod", OTHER, noon()).for_seconds(Some(2100));
    world.hold(&held).await;
    assert_eq!(
        busy(manager.acquire(OURS, noon() + seconds(2100)).await),
        OTHER
    );
    assert_eq!(
        holder(&taken(manager.acquire(OURS, noon() + seconds(2101)).await)),
        OURS
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_failed_holder_keeps_the_lease_until_its_last_pod_has_ended() {
    let (world, manager) = manager().await;
    world.finished_job(OTHER, invalid()).await;
    world.hold(&Held::run(&world, "prod", OTHER, noon())).await;
    world.pod_by_hand(OTHER, "straggler", "Running").await;
    for phase in ["Running", "Pending", "Unknown"] {
        world.set_phase("straggler", phase).await;
        assert_eq!(
            busy(manager.acquire(OURS, noon() + seconds(300)).await),
            OTHER,
            "{phase}"
        );
    }
    world.set_phase("straggler", "Failed").await;
    assert_eq!(
        holder(&taken(manager.acquire(OURS, noon() + seconds(300)).await)),
        OURS
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b9_a_lease_without_a_holder_is_free() {
    let (world, manager) = manager().await;
    world
        .hold(&Held::run(&world, "prod", OTHER, noon()).by_nobody())
        .await;
    assert_eq!(holder(&taken(manager.acquire(OURS, noon()).await)), OURS);
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_a_holder_that_cannot_be_read_is_an_error_and_nothing_is_written() {
    for resource in ["jobs", "pods"] {
        let (bed, world) = scene().await;
        let lease = world.hold(&Held::run(&world, "prod", OTHER, noon())).await;
        let faults = Faults::first(Method::GET, resource, || {
            Fault::Status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
        });
        let manager = Manager::at(bed, &world, noon(), &faults).await;
        let error = manager
            .acquire(OURS, noon() + seconds(300))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("answered by the fault layer"),
            "{error}"
        );
        assert_eq!(
            version(&world, &lease.name_any()).await,
            lease.resource_version(),
            "{resource}"
        );
        assert_eq!(faults.count(&Method::PUT, "leases"), 0, "{resource}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b35_without_a_readable_annotation_the_acquire_time_counts() {
    let (world, manager) = manager().await;
    let mut lease = Held::run(&world, "prod", OTHER, noon()).object();
    for annotation in [None, Some("yesterday")] {
        let annotations = lease.annotations_mut();
        annotations.remove("captf.io/lease-acquired-at");
        if let Some(text) = annotation {
            annotations.insert("captf.io/lease-acquired-at".to_owned(), text.to_owned());
        }
        world.make(&lease).await;
        assert_eq!(
            busy(manager.acquire(OURS, noon() + seconds(60)).await),
            OTHER,
            "{annotation:?}"
        );
        assert_eq!(
            holder(&taken(manager.acquire(OURS, noon() + seconds(61)).await)),
            OURS
        );
        world
            .typed::<Lease>()
            .delete(&lease.name_any(), &DeleteParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b35_without_any_time_the_creation_counts() {
    let (world, manager) = manager().await;
    let mut lease = Held::run(&world, "prod", OTHER, noon()).object();
    lease.annotations_mut().clear();
    lease.spec.as_mut().unwrap().acquire_time = None;
    let created = world.make(&lease).await.creation_timestamp().unwrap().0;
    assert_eq!(
        busy(manager.acquire(OURS, created + seconds(60)).await),
        OTHER
    );
    assert_eq!(
        holder(&taken(manager.acquire(OURS, created + seconds(61)).await)),
        OURS
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b35_without_a_duration_the_backstop_is_4500_seconds() {
    let (world, manager) = manager().await;
    world.job_by_hand(OTHER).await;
    world
        .hold(&Held::run(&world, "prod", OTHER, noon()).for_seconds(None))
        .await;
    assert_eq!(
        busy(manager.acquire(OURS, noon() + seconds(4500)).await),
        OTHER
    );
    assert_eq!(
        holder(&taken(manager.acquire(OURS, noon() + seconds(4501)).await)),
        OURS
    );
}

/// The API server stores no such lease; one written before it validated durations may still be there.
#[test]
fn b35_a_duration_that_is_not_positive_counts_as_none() {
    for seconds in [0, -5] {
        let lease = Lease {
            spec: Some(LeaseSpec {
                lease_duration_seconds: Some(seconds),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        };
        assert_eq!(
            LeaseView::read(&lease).backstop,
            duration(4500),
            "{seconds}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b39_a_conflict_on_the_takeover_is_a_lost_race_and_not_tried_again() {
    let (bed, world) = scene().await;
    let lease = world
        .hold(&Held::run(&world, "prod", OTHER, noon()))
        .await
        .name_any();
    let (rival, name) = (world.clone(), lease.clone());
    let faults = Faults::first(Method::PUT, "leases", move || {
        let (rival, name) = (rival.clone(), name.clone());
        Fault::First(Box::pin(async move {
            rival.take_over(&name, "captf-c-prod-apply-a7-0feed0").await;
        }))
    });
    let manager = Manager::at(bed, &world, noon(), &faults).await;
    assert_eq!(busy(manager.acquire(OURS, noon() + seconds(61)).await), "");
    assert_eq!(
        faults.count(&Method::PUT, "leases"),
        1,
        "exactly one update is sent"
    );
    assert_eq!(
        world.holder_of(&lease).await.as_deref(),
        Some("captf-c-prod-apply-a7-0feed0")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn b40_a_lease_that_vanishes_between_create_and_read_is_a_lost_race() {
    let (bed, world) = scene().await;
    let lease = world
        .hold(&Held::run(&world, "prod", OTHER, noon()))
        .await
        .name_any();
    let (api, name) = (world.typed::<Lease>(), lease.clone());
    let faults = Faults::first(Method::GET, "leases", move || {
        let (api, name) = (api.clone(), name.clone());
        Fault::First(Box::pin(async move { delete(&api, &name).await }))
    });
    let manager = Manager::at(bed, &world, noon(), &faults).await;
    assert_eq!(busy(manager.acquire(OURS, noon()).await), "");
    assert_eq!(
        faults.count(&Method::POST, "leases"),
        1,
        "exactly one create is sent"
    );
    assert_eq!(world.lease_names().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn b40_a_lease_that_vanishes_before_the_update_is_a_lost_race() {
    let (bed, world) = scene().await;
    let lease = world
        .hold(&Held::run(&world, "prod", OTHER, noon()))
        .await
        .name_any();
    let (api, name) = (world.typed::<Lease>(), lease.clone());
    let faults = Faults::first(Method::PUT, "leases", move || {
        let (api, name) = (api.clone(), name.clone());
        Fault::First(Box::pin(async move { delete(&api, &name).await }))
    });
    let manager = Manager::at(bed, &world, noon(), &faults).await;
    assert_eq!(busy(manager.acquire(OURS, noon() + seconds(61)).await), "");
    assert_eq!(
        world.lease_names().await,
        Vec::<String>::new(),
        "a lease that went is not made anew"
    );
}

async fn delete(api: &Api<Lease>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_any_other_failure_is_an_error() {
    let (bed, world) = scene().await;
    let lease = world.hold(&Held::run(&world, "prod", OTHER, noon())).await;
    let requests = [
        (Method::POST, "leases"),
        (Method::GET, "leases"),
        (Method::GET, "jobs"),
        (Method::GET, "pods"),
        (Method::PUT, "leases"),
    ];
    for (method, resource) in requests {
        let faults = Faults::first(method.clone(), resource, || {
            Fault::Status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable")
        });
        let manager = Manager::at(bed, &world, noon(), &faults).await;
        let error = manager
            .acquire(OURS, noon() + seconds(61))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("answered by the fault layer"),
            "{method} {resource}: {error}"
        );
        assert_eq!(
            version(&world, &lease.name_any()).await,
            lease.resource_version(),
            "{method} {resource}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b42_a_lease_has_the_fields_of_the_table_and_no_other() {
    let (world, manager) = manager().await;
    let at = "2026-10-01T12:00:00.123456789Z".parse().unwrap();
    for (scope, word) in [(LeaseScope::Run, "run"), (LeaseScope::Cluster, "cluster")] {
        let claim = manager.claim(scope, OURS);
        taken(manager.leases.acquire(&claim, at).await);
        let lease = world.lease(&claim.lease).await.unwrap();
        assert_eq!(
            *lease.labels(),
            labels(word),
            "above all no label that lets it move"
        );
        let annotations = BTreeMap::from([
            ("captf.io/lease-op".to_owned(), "apply".to_owned()),
            (
                "captf.io/lease-acquired-at".to_owned(),
                "2026-10-01T12:00:00.123456789Z".to_owned(),
            ),
        ]);
        assert_eq!(*lease.annotations(), annotations);
        assert!(lease.owner_references().is_empty() && lease.finalizers().is_empty());
        let spec = serde_json::to_value(lease.spec.unwrap()).unwrap();
        let expected = json!({
            "holderIdentity": OURS, "acquireTime": "2026-10-01T12:00:00.123456Z", "leaseDurationSeconds": 4500,
        });
        assert_eq!(spec, expected);
    }
}

fn labels(scope: &str) -> BTreeMap<String, String> {
    BTreeMap::from(
        [
            ("captf.io/lease", scope),
            ("captf.io/managed", "true"),
            (
                "captf.infrastructure.cluster.x-k8s.io/owner-kind",
                "TerraformCluster",
            ),
            ("captf.infrastructure.cluster.x-k8s.io/owner-name", "prod"),
            ("cluster.x-k8s.io/cluster-name", "prod"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn b42_a_takeover_replaces_labels_and_spec_and_keeps_foreign_annotations() {
    let (world, manager) = manager().await;
    let lease = world
        .hold(&Held::run(&world, "prod", OTHER, noon()))
        .await
        .name_any();
    let changed = json!({
        "metadata": {
            "labels": {"clusterctl.cluster.x-k8s.io/move": "", "team": "a"},
            "annotations": {"example.com/note": "mine", "captf.io/lease-job-uid": "uid-of-the-other"},
        },
        "spec": {"renewTime": "2026-10-01T12:00:00.000000Z", "leaseTransitions": 3, "leaseDurationSeconds": 7},
    });
    let params = PatchParams::default();
    world
        .typed::<Lease>()
        .patch(&lease, &params, &Patch::Merge(&changed))
        .await
        .unwrap();
    let at = noon() + seconds(61);
    taken(manager.acquire(OURS, at).await);
    let lease = world.lease(&lease).await.unwrap();
    assert_eq!(*lease.labels(), labels("run"));
    assert_eq!(lease.annotations()["example.com/note"], "mine");
    assert!(
        !lease.annotations().contains_key("captf.io/lease-job-uid"),
        "the mark of the holder before goes"
    );
    let spec = serde_json::to_value(lease.spec.unwrap()).unwrap();
    let expected = json!({
        "holderIdentity": OURS, "acquireTime": "2026-10-01T12:01:01.000000Z", "leaseDurationSeconds": 4500,
    });
    assert_eq!(spec, expected);
}
