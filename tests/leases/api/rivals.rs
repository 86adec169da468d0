//! Two managers that both believe to lead.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::core::ResourceExt as _;
use kube::runtime::watcher;
use tokio::task::JoinHandle;

use super::{prod, scene};
use crate::operator::cut::{Halt, Point};
use crate::operator::hand::{applied, duration, invalid, now, seconds};
use crate::operator::harness::{Operator, Setup};
use crate::testbed::{World, jobs, wait};

/// A started first attempt, after a failed one that `blind` managers do not know of.
async fn second_attempt(working: &Operator, world: &World) -> String {
    working.passes("prod", 6).await;
    let first = world.only_job("prod").await.name_any();
    jobs::finish(&world.client, &world.namespace, &first, invalid()).await;
    working.pass("prod").await.unwrap();
    working.clock.advance(duration(120));
    assert_eq!(working.passes("prod", 3).await, Some(duration(60)));
    let second = world.active_job("prod").await.unwrap();
    assert_ne!(second, first);
    second
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_a_second_manager_that_knows_no_job_starts_none() {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    let blind = Operator::set_up(bed, &world, Setup::blind_to(&["jobs"])).await;
    let working = Operator::new(bed, &world).await;
    let job = second_attempt(&working, &world).await;
    blind.object_caught_up("prod").await;
    assert_eq!(blind.stale_pass("prod").await.unwrap(), Some(duration(5)));
    assert_eq!(world.jobs_of("prod").await.len(), 2);
    assert_eq!(world.active_job("prod").await, Some(job.clone()));
    assert_eq!(world.holder_of(&world.run_lease("prod")).await, Some(job));
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_a_second_manager_that_knows_neither_job_nor_status_starts_none() {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    // What this one knows of the object is from before its first Job.
    let working = Operator::set_up(bed, &world, Setup::at(now())).await;
    while !working
        .pass("prod")
        .await
        .is_ok_and(|_| has_finalizer_and_pause(&working))
    {}
    let blind =
        Operator::set_up(bed, &world, Setup::blind_to(&["jobs", "terraformclusters"])).await;
    let job = second_attempt(&working, &world).await;
    let failed = blind.stale_pass("prod").await.unwrap_err();
    assert!(failed.is_conflict(), "{failed}");
    assert_eq!(world.jobs_of("prod").await.len(), 2);
    assert_eq!(world.active_job("prod").await, Some(job.clone()));
    assert_eq!(world.holder_of(&world.run_lease("prod")).await, Some(job));
}

/// The preamble has nothing more to write.
fn has_finalizer_and_pause(operator: &Operator) -> bool {
    let caches = &operator.context.caches;
    let found = caches.terraform_cluster(operator.namespace(), "prod");
    found.is_some_and(|object| !object.finalizers().is_empty() && object.status.is_some())
}

/// Passes until one has created a Job; its requeue, or nothing when it lost what it would report.
async fn armed(operator: &Operator) -> Option<std::time::Duration> {
    for _ in 0..6 {
        match operator.pass("prod").await {
            Ok(None) => {}
            Ok(requeue) => return requeue,
            Err(error) if error.is_conflict() => return None,
            Err(error) => panic!("pass: {error}"),
        }
    }
    panic!("no start");
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_a_manager_that_looks_between_the_job_and_its_secret_leaves_it_to_its_creator() {
    let (bed, world) = prod().await;
    let halt = Halt::default();
    let per_run_secret = Point::first(Method::POST, "secrets")
        .since(Method::POST, "jobs")
        .nth(2);
    let setup = Setup {
        faults: halt.before(per_run_secret),
        limit: duration(120),
        ..Setup::default()
    };
    let creator = Operator::set_up(bed, &world, setup).await;
    let reported = halt
        .during(armed(&creator), async {
            let created = world.only_job("prod").await.creation_timestamp().unwrap().0;
            let other = Operator::set_up(bed, &world, Setup::at(created + seconds(3))).await;
            let requeue = other.pass("prod").await.unwrap().expect("it comes back");
            assert!(
                requeue > duration(6) && requeue <= duration(7),
                "{requeue:?}"
            );
            world.only_job("prod").await;
            assert!(world.blocks_move("prod").await);
        })
        .await;
    // The other one wrote the object, so the creator may have to look again before it reports its Job.
    assert!(
        reported.is_none_or(|requeue| requeue == duration(60)),
        "{reported:?}"
    );
    assert_eq!(creator.passes("prod", 3).await, Some(duration(60)));
    assert_eq!(creator.events("JobCreated").await.len(), 1);
    let other = Operator::new(bed, &world).await;
    assert_eq!(other.passes("prod", 3).await, Some(duration(60)));
    let job = world.only_job("prod").await;
    world.secret_of(&job).await;
    assert_eq!(world.active_job("prod").await, Some(job.name_any()));
    assert!(other.events("StuckJobDeleted").await.is_empty());
}

/// The per-run Secrets that ever existed, as name and uid.
struct Armed {
    seen: Arc<Mutex<BTreeSet<(String, String)>>>,
    watch: JoinHandle<()>,
}

impl Armed {
    fn watch(world: &World) -> Self {
        let seen = Arc::<Mutex<BTreeSet<(String, String)>>>::default();
        let (note, api) = (Arc::clone(&seen), world.typed::<Secret>());
        let watch = tokio::spawn(async move {
            let mut events = watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                let (Ok(watcher::Event::Apply(secret)) | Ok(watcher::Event::InitApply(secret))) =
                    event
                else {
                    continue;
                };
                if secret.name_any().starts_with("captf-run-") {
                    let found = (secret.name_any(), secret.uid().unwrap_or_default());
                    note.lock().unwrap().insert(found);
                }
            }
        });
        Self { seen, watch }
    }

    fn so_far(&self) -> BTreeSet<(String, String)> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Both work by themselves and at the same time, on several objects, from their creation to the end of their applies.
#[tokio::test(flavor = "multi_thread")]
async fn two_managers_at_once_arm_one_job_per_object_and_count_it_once() {
    const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];
    let (bed, world) = scene().await;
    let armed = Armed::watch(&world);
    let mut managers = [
        Operator::new(bed, &world).await,
        Operator::new(bed, &world).await,
    ];
    for manager in &mut managers {
        manager.run();
    }
    for name in OBJECTS {
        world.state_by_hand(name).await;
        world.cluster(name).create().await;
    }
    for name in OBJECTS {
        wait::until(&format!("{name} to be armed"), wait::LIMIT, async || {
            let named = world.active_job(name).await;
            let secrets = world.run_secrets().await;
            let has = |job: &String| {
                secrets
                    .iter()
                    .any(|secret| secret.name_any() == format!("captf-run-{job}"))
            };
            wait::so(named.as_ref().is_some_and(has), || {
                format!("active {named:?}")
            })
        })
        .await;
        let job = world.only_job(name).await.name_any();
        jobs::finish(&world.client, &world.namespace, &job, applied()).await;
    }
    for name in OBJECTS {
        wait::until(&format!("{name} to be settled"), wait::LIMIT, async || {
            let job = world.only_job(name).await;
            let marked = job.annotations().contains_key("captf.io/bookkept");
            let idle = world.active_job(name).await.is_none() && !world.blocks_move(name).await;
            wait::so(marked && idle, || format!("marked {marked}, idle {idle}"))
        })
        .await;
    }
    assert_eq!(armed.so_far().len(), OBJECTS.len(), "{:?}", armed.so_far());
    let counted: u64 = managers
        .iter()
        .map(|manager| manager.counted("captf_jobs_total", &[]))
        .sum();
    assert_eq!(counted, 4);
    for lease in world.lease_names().await {
        // Left by a count whose pass lost the race for the status: it is free, and its holder finished.
        let holder = world.holder_of(&lease).await.unwrap();
        assert!(
            OBJECTS
                .iter()
                .any(|name| holder.starts_with(&format!("captf-c-{name}-"))),
            "{holder}"
        );
    }
}
