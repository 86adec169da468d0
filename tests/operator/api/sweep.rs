//! One apply from the creation of its object to its settled end, once for each of its writes: the write fails, its
//! answer is lost, or the manager dies behind it (failover.md §6). Whatever happens, one Job runs, is armed once, is
//! counted at most once and leaves nothing behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use kube::core::ResourceExt as _;

use crate::operator::hand::{applied, duration, now};
use crate::operator::harness::{Operator, Setup};
use crate::testbed::fault::{Fault, Faults, Seen};
use crate::testbed::{ControlPlane, World, jobs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    /// The write never reaches the API server.
    Fails,
    /// The write is done, and the manager does not hear of it.
    AnswerLost,
    /// The write is done, and the manager dies.
    DiesBehind,
}

/// A manager whose n-th write meets the mishap; with `None` it only counts them.
struct Victim {
    faults: Faults,
    writes: Arc<AtomicUsize>,
    dead: Arc<AtomicBool>,
}

impl Victim {
    fn of(mishap: Option<(Mishap, usize)>) -> Self {
        let (writes, dead) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, died) = (Arc::clone(&writes), Arc::clone(&dead));
        let faults = Faults::new(move |seen| {
            if died.load(Ordering::SeqCst) {
                return Fault::Before;
            }
            if !is_write(seen) {
                return Fault::Pass;
            }
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            match mishap {
                Some((Mishap::Fails, at)) if at == number => Fault::Before,
                Some((Mishap::AnswerLost, at)) if at == number => Fault::LostAnswer,
                Some((Mishap::DiesBehind, at)) if at == number => {
                    died.store(true, Ordering::SeqCst);
                    Fault::Pass
                }
                _ => Fault::Pass,
            }
        });
        Self {
            faults,
            writes,
            dead,
        }
    }
}

fn is_write(seen: &Seen) -> bool {
    seen.method != Method::GET && !seen.path.contains("/events.k8s.io/")
}

/// What happened in one life.
struct Life {
    writes: usize,
    counted: u64,
    /// Uids of the per-run Secrets that were there between two passes.
    armed: BTreeSet<String>,
}

/// Passes follow each other as the requeues say, in the managers' time; the Job ends well as soon as it is armed and
/// reported.
async fn live(bed: &ControlPlane, world: &World, mishap: Option<(Mishap, usize)>) -> Life {
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    let victim = Victim::of(mishap);
    let setup = Setup {
        faults: victim.faults.clone(),
        ..Setup::at(now())
    };
    let mut managers = vec![Operator::set_up(bed, world, setup).await];
    let (mut finished, mut armed) = (false, BTreeSet::new());
    for _ in 0..40 {
        if victim.dead.load(Ordering::SeqCst) && managers.len() == 1 {
            managers.push(Operator::set_up(bed, world, Setup::at(managers[0].clock.now())).await);
        }
        let manager = managers.last().expect("there is one");
        let outcome = manager.pass("prod").await;
        let secrets = world.run_secrets().await;
        armed.extend(secrets.iter().filter_map(|secret| secret.uid()));
        if !finished && !secrets.is_empty() && world.active_job("prod").await.is_some() {
            let job = world.only_job("prod").await.name_any();
            jobs::finish(&world.client, &world.namespace, &job, applied()).await;
            finished = true;
            continue;
        }
        if finished && is_settled(world).await {
            let writes = victim.writes.load(Ordering::SeqCst);
            let counted = managers
                .iter()
                .map(|manager| manager.counted("captf_jobs_total", &[]))
                .sum();
            return Life {
                writes,
                counted,
                armed,
            };
        }
        match outcome {
            Ok(Some(requeue)) => manager.clock.advance(requeue),
            Ok(None) => {}
            Err(_) => manager.clock.advance(duration(1)),
        }
    }
    panic!(
        "{mishap:?}: the object does not come to rest; {:?}",
        victim.faults.requests().last()
    );
}

async fn is_settled(world: &World) -> bool {
    let job = world.only_job("prod").await;
    job.annotations().contains_key("captf.io/bookkept")
        && world.active_job("prod").await.is_none()
        && !world.blocks_move("prod").await
        && world.told("prod", "ApplyJobSucceeded").await.state == "True/ApplySucceeded"
        && world
            .told("prod", "InputsApplied")
            .await
            .state
            .starts_with("True/")
}

async fn sweep(mishap: Mishap) {
    let bed = ControlPlane::shared().await;
    let undisturbed = live(bed, &World::new(bed).await, None).await;
    assert_eq!(undisturbed.counted, 1);
    for number in 1..=undisturbed.writes {
        let world = World::new(bed).await;
        let life = live(bed, &world, Some((mishap, number))).await;
        let what = format!("{mishap:?} at write {number}");
        let job = world.only_job("prod").await;
        assert_eq!(
            job.labels()["captf.infrastructure.cluster.x-k8s.io/attempt"],
            "1",
            "{what}"
        );
        assert_eq!(life.armed.len(), 1, "{what}: armed once");
        assert!(world.run_secrets().await.is_empty(), "{what}");
        assert!(life.counted <= 1, "{what}: counted {} times", life.counted);
        if life.counted == 0 {
            assert_ne!(
                mishap,
                Mishap::Fails,
                "{what}: nothing was lost, and nobody counted"
            );
        }
        for lease in world.lease_names().await {
            let holder = world.holder_of(&lease).await;
            assert_eq!(
                holder,
                Some(job.name_any()),
                "{what}: a lease may be left, but it is free"
            );
        }
        let record = world
            .applied_record("prod")
            .await
            .expect("the apply is recorded as applied");
        assert_eq!(
            record.annotations()["captf.io/job"],
            job.name_any(),
            "{what}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_of_an_apply_may_fail() {
    Box::pin(sweep(Mishap::Fails)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_of_an_apply_may_lose_its_answer() {
    Box::pin(sweep(Mishap::AnswerLost)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_may_die_behind_every_write_of_an_apply() {
    Box::pin(sweep(Mishap::DiesBehind)).await;
}
