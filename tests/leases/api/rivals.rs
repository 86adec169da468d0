//! Two managers that both believe to lead.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use kube::core::ResourceExt as _;
use kube::runtime::watcher;
use tokio::task::JoinHandle;

use super::{prod, scene};
use crate::operator::cut::{Death, Halt, Point};
use crate::operator::hand::{Held, applied, duration, invalid, now, seconds};
use crate::operator::harness::{Operator, Setup, fast_clock};
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
    let working = Operator::set_up(bed, &world, Setup::at(now())).await;
    for _ in ["finalizer", "pause"] {
        working.pass("prod").await.unwrap();
    }
    // What the second one knows of the object is from before its first Job.
    assert!(world.jobs_of("prod").await.is_empty());
    let blind =
        Operator::set_up(bed, &world, Setup::blind_to(&["jobs", "terraformclusters"])).await;
    let job = second_attempt(&working, &world).await;
    let failed = blind.stale_pass("prod").await.unwrap_err();
    assert!(failed.is_conflict(), "{failed}");
    assert_eq!(world.jobs_of("prod").await.len(), 2);
    assert_eq!(world.active_job("prod").await, Some(job.clone()));
    assert_eq!(world.holder_of(&world.run_lease("prod")).await, Some(job));
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

/// An unarmed Job whose run lease is gone, and a manager that finds it at this age.
async fn found_without_lease(age: i64) -> (World, Operator, Job) {
    let (bed, world) = prod().await;
    world.state_by_hand("prod").await;
    let death = Death::before(Point::first(Method::POST, "secrets").since(Method::POST, "jobs"));
    let creator = Operator::faulty(bed, &world, &death.faults).await;
    while !death.happened() {
        let _ = creator.pass("prod").await;
    }
    let run = world.run_lease("prod");
    world
        .typed::<Lease>()
        .delete(&run, &DeleteParams::default())
        .await
        .unwrap();
    let job = world.only_job("prod").await;
    let found = job.creation_timestamp().unwrap().0 + seconds(age);
    let finder = Operator::set_up(bed, &world, Setup::at(found)).await;
    (world, finder, job)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_job_that_the_fence_refuses_is_left_alone_and_unnamed() {
    let (world, finder, job) = found_without_lease(30).await;
    for _ in 0..2 {
        assert_eq!(finder.pass("prod").await.unwrap(), Some(duration(5)));
        assert_eq!(world.only_job("prod").await.uid(), job.uid());
        assert_eq!(world.active_job("prod").await, None);
        assert!(world.run_secrets().await.is_empty());
        finder.clock.advance(duration(5));
    }
    // What its creator would do: the lease names the Job again, and the next pass arms it.
    let start = job.creation_timestamp().unwrap().0;
    world
        .hold(&Held::run(&world, "prod", &job.name_any(), start))
        .await;
    assert_eq!(finder.pass("prod").await.unwrap(), Some(duration(60)));
    world.secret_of(&job).await;
    assert_eq!(world.active_job("prod").await, Some(job.name_any()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_job_that_the_fence_refuses_for_a_minute_is_deleted_as_stuck() {
    let (world, finder, job) = found_without_lease(60).await;
    assert_eq!(finder.pass("prod").await.unwrap(), Some(duration(1)));
    assert!(world.jobs_of("prod").await.is_empty());
    assert_eq!(finder.events("StuckJobDeleted").await.len(), 1);
    wait::until("the next Job", wait::LIMIT, async || {
        finder
            .pass("prod")
            .await
            .map_err(|error| error.to_string())?;
        wait::so(!world.run_secrets().await.is_empty(), || {
            "no Job is armed".to_owned()
        })
    })
    .await;
    let next = world.only_job("prod").await;
    assert_ne!(next.uid(), job.uid());
    world.secret_of(&next).await;
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
    // A Job that both left to the other one is repaired or deleted by its age.
    let setup = || Setup {
        clock: fast_clock(5),
        corrected: false,
        ..Setup::default()
    };
    let mut managers = [
        Operator::set_up(bed, &world, setup()).await,
        Operator::set_up(bed, &world, setup()).await,
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
