//! Two candidates and one real Lease. Times are short, so that takeovers are soon.

use std::time::{Duration, Instant};

use captf::client::{Clock, connect};
use captf::operator::election::{Elector, LEASE, Leadership};
use captf::operator::settings::Election;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, DeleteParams};
use tokio::time::timeout;

use crate::testbed::{Bed, ControlPlane, World, wait};

const TIMES: Election = Election {
    lease_duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(500),
    release_on_exit: false,
};

async fn candidate(bed: &Bed, world: &World, times: Election) -> Elector {
    let client = connect(&bed.manager_config().await, &Clock::system()).unwrap();
    Elector::new(client, &world.namespace, times)
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), &world.namespace)
}

async fn record(world: &World) -> LeaseSpec {
    leases(world).get(LEASE).await.unwrap().spec.unwrap()
}

/// Leads, or says who does.
async fn lead(elector: Elector, world: &World) -> Leadership {
    match timeout(wait::LIMIT, elector.lead()).await {
        Ok(leadership) => leadership,
        Err(_) => panic!(
            "no leadership; the Lease is {:?}",
            leases(world).get_opt(LEASE).await
        ),
    }
}

#[tokio::test]
async fn one_candidate_leads_and_the_other_takes_over_when_it_falls_silent() {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let first = candidate(bed, &world, TIMES).await;
    let (first_name, first_term) = (first.identity().to_owned(), first.term());
    let leading = lead(first, &world).await;
    let spec = record(&world).await;
    assert_eq!(spec.holder_identity.as_deref(), Some(first_name.as_str()));
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(3), Some(0))
    );

    let second = candidate(bed, &world, TIMES).await;
    let second_name = second.identity().to_owned();
    let mut waiting = Box::pin(second.lead());
    assert!(
        timeout(Duration::from_secs(5), &mut waiting).await.is_err(),
        "a renewed Lease was taken"
    );
    let renewed = record(&world).await;
    assert_eq!(renewed.acquire_time, spec.acquire_time);
    assert!(renewed.renew_time > spec.renew_time);

    // A clean stop that does not release looks like death to the other.
    leading.release_if_asked().await;
    assert!(!first_term.lasts());
    let silent = Instant::now();
    let leading = timeout(wait::LIMIT, waiting)
        .await
        .expect("a silent leader was not succeeded");
    assert!(
        silent.elapsed() >= Duration::from_secs(2),
        "taken over after {:?}",
        silent.elapsed()
    );
    let spec = record(&world).await;
    assert_eq!(spec.holder_identity.as_deref(), Some(second_name.as_str()));
    assert_eq!(spec.lease_transitions, Some(1));
    drop(leading);
}

#[tokio::test]
async fn a_released_lease_is_taken_at_once() {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let times = Election {
        lease_duration: Duration::from_secs(30),
        release_on_exit: true,
        ..TIMES
    };
    let leading = lead(candidate(bed, &world, times).await, &world).await;
    leading.release_if_asked().await;
    let spec = record(&world).await;
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
        (Some(""), Some(1))
    );
    let begin = Instant::now();
    let _leading = lead(candidate(bed, &world, times).await, &world).await;
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn of_many_candidates_one_leads() {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let mut candidates = Vec::new();
    for _ in 0..4 {
        let candidate = candidate(bed, &world, TIMES).await;
        candidates.push((
            candidate.identity().to_owned(),
            Box::pin(timeout(Duration::from_secs(4), candidate.lead())),
        ));
    }
    let (names, races): (Vec<_>, Vec<_>) = candidates.into_iter().unzip();
    let outcomes = futures::future::join_all(races).await;
    let leaders: Vec<&String> = names
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(name, _)| name)
        .collect();
    assert_eq!(leaders.len(), 1, "{leaders:?}");
    assert_eq!(
        record(&world).await.holder_identity.as_ref(),
        Some(leaders[0])
    );
}

#[tokio::test]
async fn a_leader_whose_lease_another_took_has_lost() {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let leading = lead(candidate(bed, &world, TIMES).await, &world).await;
    let usurped = serde_json::json!({"spec": {"holderIdentity": "usurper"}});
    let patch = kube::api::Patch::Merge(usurped);
    leases(&world)
        .patch(LEASE, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    let why = timeout(wait::LIMIT, leading.lost())
        .await
        .expect("the loss was not noticed");
    assert_eq!(
        why,
        "usurper holds the Lease controller-leader-election-captf"
    );
}

#[tokio::test]
async fn a_deleted_lease_is_made_anew_by_its_leader() {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let candidate = candidate(bed, &world, TIMES).await;
    let name = candidate.identity().to_owned();
    let _leading = lead(candidate, &world).await;
    leases(&world)
        .delete(LEASE, &DeleteParams::default())
        .await
        .unwrap();
    wait::until("the Lease to be back", wait::LIMIT, async || {
        let lease = leases(&world)
            .get_opt(LEASE)
            .await
            .map_err(|error| error.to_string())?;
        let holder = lease
            .and_then(|lease| lease.spec)
            .and_then(|spec| spec.holder_identity);
        wait::so(holder.as_ref() == Some(&name), || {
            format!("held by {holder:?}")
        })
    })
    .await;
}
