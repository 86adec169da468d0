//! Every write of one apply, killed after (issue: Shows 4; failover.md §4, C1 to C18).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::proxy::{Passage, Proxy};
use super::terraform;
use super::witness::{Seen, Witness};
use crate::manager::program::{Manager, Sword};
use crate::testbed::wait::{LIMIT, so, until};
use crate::testbed::{Bed, ControlPlane, World, jobs};

/// The cluster of every life.
const CLUSTER: &str = "prod";

/// The patch that records the active Job.
const RECORDED: &str = "PATCH terraformclusters/prod/status #2";

const FLAGS: [&str; 2] = ["--insecure-diagnostics", "-v=4"];

/// Lives at once: two cores carry them and the control plane.
const AT_ONCE: usize = 2;

/// A write of one life: what it wrote and how many of the same came before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    /// Method, resource and name, without what differs from namespace to namespace.
    write: String,
    /// Counted from 1.
    occurrence: usize,
}

impl Point {
    /// C15: the Job was counted by the manager that died here, so nobody gives its leases back; they are
    /// free, since their holder finished, and the next Job takes them over.
    fn loses_the_count(&self) -> bool {
        let deletes = |what| self.write.starts_with(what);
        deletes("DELETE secrets/captf-run-") || deletes("DELETE leases/captf-run-")
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.write, self.occurrence)
    }
}

/// Gives the writes of one life their points.
struct Counter {
    world: World,
    seen: Mutex<BTreeMap<String, usize>>,
}

impl Counter {
    fn new(world: &World) -> Self {
        Self {
            world: world.clone(),
            seen: Mutex::default(),
        }
    }

    /// The point of a write that the API server executed. Events are told in the background, between any
    /// two other writes, and decide nothing: they are no points.
    fn point(&self, passage: &Passage) -> Option<Point> {
        if !passage.is_write() || !passage.code.is_success() || passage.touches("events") {
            return None;
        }
        let write = format!("{} {}", passage.method, settled(&passage.path, &self.world));
        let mut seen = self.seen.lock().unwrap();
        let occurrence = seen.entry(write.clone()).or_default();
        *occurrence += 1;
        Some(Point {
            write,
            occurrence: *occurrence,
        })
    }
}

/// A path within the namespace, without the hashes that the namespace goes into.
fn settled(path: &str, world: &World) -> String {
    let path = path
        .replace(&terraform::suffix(world, CLUSTER), "SUFFIX")
        .replace(&world.namespace, "NS");
    let path = path
        .split_once("/namespaces/NS/")
        .map_or(path.as_str(), |(_, inside)| inside);
    let is_hash = |word: &str| {
        matches!(word.len(), 6 | 16) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let segments: Vec<String> = path
        .split('/')
        .map(|segment| {
            let words: Vec<&str> = segment
                .split('-')
                .map(|word| if is_hash(word) { "HASH" } else { word })
                .collect();
            words.join("-")
        })
        .collect();
    segments.join("/")
}

/// What became of one life.
struct Account {
    job: String,
    /// From the death, or in an undisturbed life from the object's creation, to the end of all work.
    took: Duration,
    /// `JobCreated` events.
    told: usize,
    /// Jobs that the manager which ended the work counted.
    counted: String,
    /// Scopes of leases that stayed.
    left: Vec<String>,
    /// The points of the manager behind the door.
    points: Vec<Point>,
}

/// Lets a cluster be applied by a manager that dies after `point` and by another one from then on.
async fn live(bed: &Bed, point: Option<&Point>) -> Account {
    let world = World::new(bed).await;
    let witness = Witness::of(&world).await;
    let sword: Arc<OnceLock<Sword>> = Arc::default();
    let dead = Arc::new(Notify::new());
    let points: Arc<Mutex<Vec<Point>>> = Arc::default();
    let proxy = Proxy::open(
        bed,
        dies_after(point.cloned(), &world, &sword, &dead, &points),
    )
    .await;
    let first = Manager::through(proxy.kubeconfig(), &world.namespace, &FLAGS);
    let _ = sword.set(first.sword());
    first.works().await;
    let mut begun = Instant::now();
    world.cluster(CLUSTER).create().await;
    let succeed = async {
        point?;
        if timeout(LIMIT, dead.notified()).await.is_err() {
            panic!(
                "the manager never came to this point, but to {:?}\n{}",
                points.lock().unwrap(),
                first.log()
            );
        }
        begun = Instant::now();
        Some(Manager::start(bed, &world, &FLAGS))
    };
    let (job, second) = tokio::join!(play(&world), succeed);
    if let Some(second) = &second {
        second.works().await;
    }
    let last = second.as_ref().unwrap_or(&first);
    let may_keep_leases = point.is_some_and(Point::loses_the_count);
    let left = work_ends(&world, &witness, &job, last, may_keep_leases).await;
    let took = begun.elapsed();
    one_of_each(&world, &witness, &job).await;
    let (_, metrics) = last.plain_metrics().await;
    let points = points.lock().unwrap().clone();
    Account {
        told: told(&world).await,
        counted: counted(&metrics),
        job,
        took,
        left,
        points,
    }
}

/// Notes the point of every write, and kills at one of them before the manager hears the answer.
fn dies_after(
    fatal: Option<Point>,
    world: &World,
    sword: &Arc<OnceLock<Sword>>,
    dead: &Arc<Notify>,
    points: &Arc<Mutex<Vec<Point>>>,
) -> impl Fn(&Passage) -> Option<BoxFuture<'static, ()>> + Send + Sync + 'static {
    let counter = Counter::new(world);
    let (sword, dead, points) = (Arc::clone(sword), Arc::clone(dead), Arc::clone(points));
    move |passage| {
        let point = counter.point(passage)?;
        let kills = fatal.as_ref() == Some(&point);
        points.lock().unwrap().push(point);
        let (sword, dead) = (Arc::clone(&sword), Arc::clone(&dead));
        kills.then(|| {
            async move {
                sword
                    .get()
                    .expect("the manager was started before the object was made")
                    .strike();
                dead.notify_one();
            }
            .boxed()
        })
    }
}

/// Plays the Job's pod once the Job is armed and told: Terraform leaves its state, the runner its result.
async fn play(world: &World) -> String {
    let job = until("an armed Job that the status names", LIMIT, async || {
        let object = world.get("TerraformCluster", CLUSTER).await;
        let status = &object.data["status"];
        let job = status["activeJob"]["name"].as_str().unwrap_or_default();
        let secret = world
            .api("Secret")
            .get_opt(&format!("captf-run-{job}"))
            .await
            .map_err(|error| error.to_string())?;
        so(!job.is_empty() && secret.is_some(), || status.to_string())?;
        Ok(job.to_owned())
    })
    .await;
    terraform::apply(world, CLUSTER).await;
    jobs::finish(
        &world.client,
        &world.namespace,
        &job,
        jobs::Ending::success(&terraform::result()),
    )
    .await;
    job
}

/// Waits until nothing is left to do, and returns which leases stayed.
async fn work_ends(
    world: &World,
    witness: &Witness,
    job: &str,
    last: &Manager,
    may_keep_leases: bool,
) -> Vec<String> {
    until("the work to end", LIMIT, async || {
        let object = world.get("TerraformCluster", CLUSTER).await;
        let (status, meta) = (&object.data["status"], &object.metadata);
        let ready = status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        so(
            ready && status["initialization"]["provisioned"] == true,
            || format!("{status}\n{}", last.log()),
        )?;
        let blocked = meta
            .annotations
            .iter()
            .flatten()
            .any(|(key, _)| key.ends_with("/block-move"));
        so(status["activeJob"].is_null() && !blocked, || {
            format!("activeJob or block-move stays: {status}")
        })?;
        let finished = witness.jobs().into_iter().find(|seen| seen.name() == job);
        let bookkept = finished.is_some_and(|job| job.annotation("captf.io/bookkept").is_some());
        so(bookkept, || "the Job is not marked bookkept".to_owned())?;
        let armed = witness.run_secrets().into_iter().any(|secret| !secret.gone);
        so(!armed, || "a per-run Secret stays".to_owned())
    })
    .await;
    let stays = |lease: &Seen| lease.label("captf.io/lease").unwrap_or_default().to_owned();
    if may_keep_leases {
        return witness.leases().iter().map(stays).collect();
    }
    until("the leases to be given back", LIMIT, async || {
        let left: Vec<String> = witness.leases().iter().map(stays).collect();
        so(left.is_empty(), || format!("{left:?} stay"))
    })
    .await;
    Vec::new()
}

/// One Job ever, attempt 1; one per-run Secret ever, its own; one pod; and no lease for any other Job.
async fn one_of_each(world: &World, witness: &Witness, job: &str) {
    assert_eq!(witness.blind(), Vec::<String>::new());
    let ever = witness.jobs();
    let [only] = ever.as_slice() else {
        panic!("{} Jobs existed: {ever:#?}", ever.len());
    };
    assert_eq!(only.name(), job);
    assert!(job.starts_with("captf-c-prod-apply-a1-"), "{job}");
    assert_eq!(
        only.label("captf.infrastructure.cluster.x-k8s.io/attempt"),
        Some("1")
    );
    let secrets = witness.run_secrets();
    let [secret] = secrets.as_slice() else {
        panic!("{} per-run Secrets existed: {secrets:#?}", secrets.len());
    };
    assert_eq!(secret.name(), format!("captf-run-{job}"));
    let owners = secret.meta.owner_references.as_deref().unwrap_or_default();
    let owners: Vec<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
    assert_eq!(owners, [only.uid()]);
    assert_eq!(witness.pods().len(), 1, "{:#?}", witness.pods());
    let holders: Vec<String> = witness.holders().into_iter().collect();
    assert_eq!(holders, [format!("cluster={job}"), format!("run={job}")]);
    for record in ["captf-inputs-c-prod", "captf-applied-c-prod"] {
        let record = world.get("Secret", record).await;
        let names = record.metadata.annotations.unwrap_or_default();
        assert_eq!(names.get("captf.io/job").map(String::as_str), Some(job));
        assert_eq!(names.get("captf.io/may-have-applied"), None);
        assert_eq!(names.get("captf.io/interrupted-apply"), None);
    }
}

/// How often the creation of a Job was told.
async fn told(world: &World) -> usize {
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let events = events.list(&ListParams::default()).await.unwrap();
    events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("JobCreated"))
        .count()
}

/// The value of `captf_jobs_total` for successful applies, empty while none was counted.
fn counted(metrics: &str) -> String {
    metrics
        .lines()
        .find(|line| {
            line.starts_with("captf_jobs_total{")
                && line.contains(r#"op="apply""#)
                && line.contains(r#"result="succeeded""#)
        })
        .and_then(|line| line.rsplit(' ').next())
        .unwrap_or_default()
        .to_owned()
}

// failover.md §4: what is found after each death has one resolution.
#[allow(
    clippy::print_stdout,
    reason = "the table is for whoever asks with --nocapture"
)]
#[tokio::test(flavor = "multi_thread")]
async fn whatever_write_a_manager_dies_after_another_one_finishes_with_one_job() {
    let bed = ControlPlane::shared().await;
    let clean = live(bed, None).await;
    assert_eq!(clean.left, Vec::<String>::new());
    assert_eq!((clean.told, clean.counted.as_str()), (1, "1"));
    in_the_order_of_the_start(&clean.points);
    let only = std::env::var("CAPTF_KILL_POINT").ok();
    let chosen = clean.points.iter().filter(|point| {
        only.as_ref()
            .is_none_or(|only| point.to_string().contains(only))
    });
    let accounts: Vec<(&Point, Account)> = futures::stream::iter(chosen)
        .map(|point| async move { (point, live(bed, Some(point)).await) })
        .buffered(AT_ONCE)
        .collect()
        .await;
    println!("{}", table(&clean, &accounts));
    for (point, account) in &accounts {
        judge(point, account, &clean.points);
    }
}

/// The start's writes in the order of jobs.md §5, after the finalizer and before the status.
fn in_the_order_of_the_start(points: &[Point]) {
    let start = [
        "PATCH terraformclusters/prod #1",
        "POST secrets/captf-creds-NS #1",
        "POST leases/captf-run-SUFFIX #1",
        "POST leases/captf-cluster-HASH #1",
        "PATCH terraformclusters/prod #2",
        "POST secrets/captf-plankey-c-prod #1",
        "POST jobs/captf-c-prod-apply-a1-HASH #1",
        "PUT leases/captf-run-SUFFIX #1",
        "PUT leases/captf-cluster-HASH #1",
        "POST secrets/captf-inputs-c-prod #1",
        "POST secrets/captf-run-captf-c-prod-apply-a1-HASH #1",
        RECORDED,
    ];
    let all: Vec<String> = points.iter().map(Point::to_string).collect();
    let kept: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|point| start.contains(point))
        .collect();
    assert_eq!(kept, start, "all writes: {all:#?}");
}

/// What holds after a death at this point beyond what [`one_of_each`] asserts of every life.
fn judge(point: &Point, account: &Account, points: &[Point]) {
    let at = |wanted: &str| {
        points
            .iter()
            .position(|point| point.write.starts_with(wanted))
            .unwrap_or_else(|| panic!("no write {wanted} in {points:?}"))
    };
    let number = points.iter().position(|other| other == point).unwrap_or(0);
    let counted = at("DELETE secrets/captf-run-");
    let expected = if number < counted { "1" } else { "" };
    assert_eq!(account.counted, expected, "{point}: counted exactly once");
    // Told after the status patch, so a death between the Job and its event leaves it untold.
    let created = at("POST jobs/");
    let recorded = points
        .iter()
        .position(|point| point.to_string() == RECORDED);
    let told_for_sure = number < created || Some(number) > recorded;
    let least = usize::from(told_for_sure);
    assert!(
        (least..=1).contains(&account.told),
        "{point}: JobCreated told {} times",
        account.told
    );
}

fn table(clean: &Account, accounts: &[(&Point, Account)]) -> String {
    let mut text = format!(
        "\nundisturbed: {:.1} s, {} writes\n{:>3}  {:<62} {:>7} {:>6} {:>7}  leases left\n",
        clean.took.as_secs_f32(),
        clean.points.len(),
        "n",
        "the manager dies after",
        "s to end",
        "told",
        "counted",
    );
    for (number, (point, account)) in accounts.iter().enumerate() {
        let left = if account.left.is_empty() {
            "none".to_owned()
        } else {
            account.left.join(", ")
        };
        let _ = writeln!(
            text,
            "{:>3}  {:<62} {:>7.1} {:>6} {:>7}  {left}",
            number + 1,
            point.to_string(),
            account.took.as_secs_f32(),
            account.told,
            if account.counted.is_empty() {
                "before"
            } else {
                &account.counted
            },
        );
    }
    let _ = writeln!(text, "one Job each time, for example {}", clean.job);
    text
}
