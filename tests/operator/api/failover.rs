//! Managers that die between two writes, and what the next one makes of it (failover.md §4). A test is named after the
//! crash window that it opens; unless it says otherwise its object has a state, so that an apply may be repeated.

mod end;
mod start;

use http::Method;
use k8s_openapi::api::batch::v1::Job;
use kube::core::ResourceExt as _;

use crate::operator::cut::{Death, Point};
use crate::operator::hand::{applied, duration};
use crate::operator::harness::Operator;
use crate::testbed::{ControlPlane, World, jobs};

async fn scene() -> (&'static ControlPlane, World) {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    world.cluster("prod").create().await;
    world.state_by_hand("prod").await;
    (bed, world)
}

/// Lets a manager work until it dies; what it counted until then.
async fn dies(bed: &ControlPlane, world: &World, death: &Death) -> Operator {
    let operator = Operator::faulty(bed, world, &death.faults).await;
    for _ in 0..8 {
        let _ = operator.pass("prod").await;
        if death.happened() {
            return operator;
        }
    }
    panic!("the manager lives on: {:?}", death.faults.requests());
}

/// A manager that has started the first apply.
async fn started(bed: &ControlPlane, world: &World) -> Job {
    let operator = Operator::new(bed, world).await;
    assert_eq!(operator.passes("prod", 6).await, Some(duration(60)));
    world.only_job("prod").await
}

/// A finished first apply that nobody has looked at.
async fn finished(bed: &ControlPlane, world: &World) -> Job {
    let job = started(bed, world).await;
    jobs::finish(&world.client, &world.namespace, &job.name_any(), applied()).await
}

/// Jobs that this manager counted.
fn counted(operator: &Operator) -> u64 {
    operator.counted("captf_jobs_total", &[])
}

/// What a manager that watches the Job of a first attempt has brought about.
async fn is_armed(world: &World) -> Job {
    let job = world.only_job("prod").await;
    assert_eq!(
        job.labels()["captf.infrastructure.cluster.x-k8s.io/attempt"],
        "1"
    );
    world.secret_of(&job).await;
    let record = world
        .attempt_record("prod")
        .await
        .expect("the attempt is recorded");
    assert_eq!(record.annotations()["captf.io/job"], job.name_any());
    assert_eq!(world.active_job("prod").await, Some(job.name_any()));
    assert!(world.blocks_move("prod").await);
    for lease in [world.run_lease("prod"), world.cluster_lease("prod")] {
        assert_eq!(world.holder_of(&lease).await, Some(job.name_any()));
    }
    job
}

/// The manager sees the running Job to its end; then nothing of it is left but its result.
async fn ends(operator: &Operator, world: &World, job: &Job) {
    jobs::finish(&world.client, &world.namespace, &job.name_any(), applied()).await;
    let before = counted(operator);
    operator.passes("prod", 6).await;
    assert_eq!(counted(operator), before + 1, "counted once");
    is_settled(world, &job.name_any()).await;
    assert_eq!(
        world.lease_names().await,
        Vec::<String>::new(),
        "the leases are gone"
    );
}

/// A Job's result stands on the object, and nothing of the run is left but perhaps a lease that is free.
async fn is_settled(world: &World, job: &str) {
    let live = world.only_job("prod").await;
    assert_eq!(live.name_any(), job);
    assert_eq!(
        live.annotations()
            .get("captf.io/bookkept")
            .map(String::as_str),
        Some("true")
    );
    assert!(
        world.run_secrets().await.is_empty(),
        "no per-run Secret is left"
    );
    assert_eq!(
        world.told("prod", "ApplyJobSucceeded").await.state,
        "True/ApplySucceeded"
    );
    assert_eq!(last_run(world).await["job"], job);
    assert_eq!(world.active_job("prod").await, None);
    assert!(!world.blocks_move("prod").await, "nothing holds a move up");
    let record = world
        .applied_record("prod")
        .await
        .expect("the apply is recorded as applied");
    assert_eq!(record.annotations()["captf.io/job"], job);
}

async fn last_run(world: &World) -> serde_json::Value {
    world.get("TerraformCluster", "prod").await.data["status"]["lastRun"].clone()
}

/// The create of the per-run Secret: the record of the attempt is the Secret before it.
fn per_run_secret() -> Point {
    Point::first(Method::POST, "secrets")
        .since(Method::POST, "jobs")
        .nth(2)
}
