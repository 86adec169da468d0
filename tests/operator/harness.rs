//! An operator in the test's process, confined to the test's namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use captf::client::{Access, Clock, connect};
use captf::events::EventData;
use captf::names::{Kind, ObjectKey};
use captf::operator::cache::{Caches, Wake};
use captf::operator::cluster::{self, PassError, Requeue};
use captf::operator::context::{Context, Options};
use captf::operator::controller;
use captf::operator::events::Events;
use captf::operator::leases::Leases;
use captf::operator::metrics::{BuildInfo, Metrics};
use captf::operator::queue::WorkQueue;
use captf::operator::settings::WatchScope;
use captf::operator::start::Starter;
use captf::operator::state::StateReader;
use captf::operator::watch;
use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DynamicObject, ListParams};
use tokio::task::JoinSet;

use crate::testbed::fault::{Fault, Faults, Seen};
use crate::testbed::{Bed, World, wait};

/// The runner's image where no pod ever runs.
const RUNNER_IMAGE: &str = "registry.example.com/captf:v1";

/// How an operator differs from the usual one.
pub(crate) struct Setup {
    /// What its requests meet.
    pub(crate) faults: Faults,
    /// What its watches meet.
    pub(crate) watches: Faults,
    /// It takes cluster write leases.
    pub(crate) gate: bool,
    /// How long one request may take, a halt of the test included.
    pub(crate) limit: Duration,
    /// Where its Jobs get the runner from.
    pub(crate) runner_image: String,
    /// Its clock, for faults that let time pass.
    pub(crate) clock: Clock,
    /// Whether the answers' dates correct its clock.
    pub(crate) corrected: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            faults: Faults::none(),
            watches: Faults::none(),
            gate: true,
            limit: Duration::from_secs(10),
            runner_image: RUNNER_IMAGE.to_owned(),
            clock: Clock::system(),
            corrected: true,
        }
    }
}

impl Setup {
    /// The usual operator, whose requests meet these faults.
    pub(crate) fn meeting(faults: &Faults) -> Self {
        Self {
            faults: faults.clone(),
            ..Self::default()
        }
    }

    /// An operator for which next to no time passes, beyond what the test lets pass.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self {
            clock: standing_clock(now),
            corrected: false,
            ..Self::default()
        }
    }

    /// An operator whose caches of these resources stay as they are when the operator starts.
    pub(crate) fn blind_to(resources: &'static [&'static str]) -> Self {
        let is_of = move |seen: &Seen| {
            resources
                .iter()
                .any(|resource| seen.touches(&Method::GET, resource))
        };
        Self {
            watches: Faults::new(move |seen| {
                if seen.is_watch() && is_of(seen) {
                    Fault::HangBefore
                } else {
                    Fault::Pass
                }
            }),
            ..Self::default()
        }
    }
}

/// A clock that starts now and goes `times` as fast as others.
pub(crate) fn fast_clock(times: u32) -> Clock {
    let (start, begun) = (Clock::system().now(), Instant::now());
    Clock::with_raw(Arc::new(move || start + begun.elapsed() * times))
}

/// A clock that stands at `now`, but for a microsecond with each look: no two moments are the same.
pub(crate) fn standing_clock(now: Timestamp) -> Clock {
    let looks = AtomicI64::new(0);
    Clock::with_raw(Arc::new(move || {
        let looked = looks.fetch_add(1, Ordering::Relaxed);
        now + SignedDuration::from_micros(looked)
    }))
}

/// An operator that makes a pass when the test says so, on caches that are up to date, or by itself.
pub(crate) struct Operator {
    pub(crate) context: Context,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    queue: WorkQueue<ObjectKey>,
    world: World,
    _watches: JoinSet<()>,
    workers: JoinSet<()>,
}

impl Operator {
    /// An operator without faults, whose passes the test makes.
    pub(crate) async fn new(bed: &Bed, world: &World) -> Self {
        Self::set_up(bed, world, Setup::default()).await
    }

    /// An operator on a node, whose Jobs get the runner from this image.
    pub(crate) async fn on_node(bed: &Bed, world: &World, runner_image: &str) -> Self {
        let setup = Setup {
            runner_image: runner_image.to_owned(),
            ..Setup::default()
        };
        Self::set_up(bed, world, setup).await
    }

    /// An operator whose requests (not its watches) meet `faults`.
    pub(crate) async fn faulty(bed: &Bed, world: &World, faults: &Faults) -> Self {
        Self::set_up(bed, world, Setup::meeting(faults)).await
    }

    /// An operator that takes no cluster write lease.
    pub(crate) async fn without_gate(bed: &Bed, world: &World) -> Self {
        let setup = Setup {
            gate: false,
            ..Setup::default()
        };
        Self::set_up(bed, world, setup).await
    }

    /// An operator that differs from the usual one as `setup` says.
    pub(crate) async fn set_up(bed: &Bed, world: &World, setup: Setup) -> Self {
        let clock = setup.clock;
        let corrected = if setup.corrected {
            clock.clone()
        } else {
            Clock::system()
        };
        let config = bed.manager_config().await;
        let client = setup.faults.around(connect(&config, &corrected).unwrap());
        let access = Access::new(client, clock.clone(), setup.limit);
        let metrics = Metrics::new(BuildInfo {
            version: "test",
            commit: "test",
        });
        let queue = WorkQueue::new(metrics.queue("test"));
        let scope = WatchScope {
            namespace: Some(world.namespace.clone()),
            filter: None,
        };
        let caches = Caches::new(scope);
        let wake: Arc<dyn Wake> = Arc::new(queue.clone());
        let watching = connect(&watch::client_config(config), &corrected).unwrap();
        let watching = setup.watches.around(watching);
        let watches = caches.watch(&watching, &wake);
        caches.synced().await;
        let leases = Leases::new(access.clone());
        let (events, _publisher) = Events::start(access.clone(), "test".to_owned());
        let context = Context {
            starter: Starter::new(access.clone(), leases.clone()),
            leases,
            access,
            caches,
            states: Arc::new(StateReader::default()),
            events,
            metrics: Arc::new(metrics.clone()),
            options: Arc::new(Options {
                runner_image: setup.runner_image,
                runner_events: true,
                cluster_operation_gate: setup.gate,
                max_active_jobs: 200,
                cluster_max_active_jobs: 20,
            }),
        };
        Self {
            context,
            clock,
            metrics,
            queue,
            world: world.clone(),
            _watches: watches,
            workers: JoinSet::new(),
        }
    }

    /// Lets the operator work by itself from now on, as the manager does.
    pub(crate) fn run(&mut self) {
        let metrics = self.metrics.controller("test", 2);
        self.workers = controller::start(&self.context, &self.queue, &metrics, 2);
    }

    /// One pass over the TerraformCluster, once the caches show what the API server has.
    pub(crate) async fn pass(&self, name: &str) -> Result<Requeue, PassError> {
        self.caught_up(name).await;
        self.stale_pass(name).await
    }

    /// One pass on whatever the caches hold.
    pub(crate) async fn stale_pass(&self, name: &str) -> Result<Requeue, PassError> {
        cluster::reconcile(&self.context, &self.world.namespace, name).await
    }

    /// Passes until one neither fails nor wants to be followed by its own event, `most` at the most.
    /// Returns the last one's requeue.
    pub(crate) async fn passes(&self, name: &str, most: usize) -> Requeue {
        let mut before = String::new();
        for _ in 0..most {
            let requeue = self
                .pass(name)
                .await
                .unwrap_or_else(|error| panic!("pass: {error}"));
            let after = self.version(name).await;
            if before == after || requeue.is_some() {
                return requeue;
            }
            before = after;
        }
        panic!("TerraformCluster {name} does not come to rest within {most} passes");
    }

    /// Passes until a start is put off, or loses what it would report to another manager that wrote the object.
    pub(crate) async fn refused(&self, name: &str) {
        for _ in 0..6 {
            match self.pass(name).await {
                Ok(None) => {}
                Ok(requeue) => return assert_eq!(requeue, Some(Duration::from_secs(5))),
                Err(error) if error.is_conflict() => return,
                Err(error) => panic!("pass: {error}"),
            }
        }
        panic!("no start of {name} is refused");
    }

    /// The Events of this reason in the namespace, once everything that this operator published is written.
    pub(crate) async fn events(&self, reason: &str) -> Vec<Event> {
        static FLUSHES: AtomicUsize = AtomicUsize::new(1);
        let mut last = ConfigMap::default();
        let marker = format!("flush-{}", FLUSHES.fetch_add(1, Ordering::Relaxed));
        last.metadata.name = Some(marker.clone());
        last.metadata.namespace = Some(self.world.namespace.clone());
        let nothing = EventData::normal("Flush", "the last Event so far");
        self.context.events.publish(&last, nothing);
        let api: Api<Event> = Api::namespaced(self.world.client.clone(), &self.world.namespace);
        let written = wait::until("the Events to be written", wait::LIMIT, async || {
            let found = api.list(&ListParams::default()).await;
            let found = found.map_err(|error| error.to_string())?.items;
            let about = |event: &Event| event.regarding.clone().and_then(|object| object.name);
            if found
                .iter()
                .any(|event| about(event).as_ref() == Some(&marker))
            {
                Ok(found)
            } else {
                Err(format!("{} Events without the last one", found.len()))
            }
        })
        .await;
        let of_reason = |event: &Event| event.reason.as_deref() == Some(reason);
        written.into_iter().filter(of_reason).collect()
    }

    /// The sum of a counter's samples whose labels contain all of `labels`.
    pub(crate) fn counted(&self, family: &str, labels: &[&str]) -> u64 {
        let text = self.metrics.encode().unwrap();
        text.lines()
            .filter(|line| line.starts_with(&format!("{family}{{")))
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    async fn version(&self, name: &str) -> String {
        self.world
            .get("TerraformCluster", name)
            .await
            .metadata
            .resource_version
            .unwrap_or_default()
    }

    /// Waits until object, Cluster and Jobs in the caches are those of the API server.
    pub(crate) async fn caught_up(&self, name: &str) {
        wait::until("the caches to catch up", wait::LIMIT, async || {
            self.object_is_live(name).await?;
            self.jobs_are_live(name).await
        })
        .await;
    }

    /// Waits until object and Cluster in the caches are those of the API server, whatever the Jobs are.
    pub(crate) async fn object_caught_up(&self, name: &str) {
        wait::until("the object's cache to catch up", wait::LIMIT, async || {
            self.object_is_live(name).await
        })
        .await;
    }

    async fn object_is_live(&self, name: &str) -> Result<(), String> {
        let namespace = &self.world.namespace;
        let live = self.live_version("TerraformCluster", name).await?;
        let held = self.context.caches.terraform_cluster(namespace, name);
        let held = held.and_then(|object| object.metadata.resource_version.clone());
        same(&format!("TerraformCluster {name}"), &held, &live)?;
        let live = self.live_version("Cluster", name).await?;
        let held = self.context.caches.cluster(namespace, name);
        let held = held.and_then(|object| object.metadata.resource_version.clone());
        same(&format!("Cluster {name}"), &held, &live)
    }

    async fn live_version(&self, kind: &str, name: &str) -> Result<Option<String>, String> {
        let found = self.world.api(kind).get_opt(name).await;
        Ok(version_of(found.map_err(|error| error.to_string())?))
    }

    async fn jobs_are_live(&self, name: &str) -> Result<(), String> {
        let namespace = &self.world.namespace;
        let key = ObjectKey::new(Kind::TerraformCluster, namespace.clone(), name);
        let held = self.context.caches.jobs_of(&key);
        let mut held: Vec<String> = held.into_iter().map(|job| job.resource_version).collect();
        let jobs: Api<Job> = Api::namespaced(self.world.client.clone(), namespace);
        let selection = ListParams::default().labels("captf.io/managed=true");
        let listed = jobs
            .list(&selection)
            .await
            .map_err(|error| error.to_string())?;
        let of_object = |job: &Job| {
            job.metadata
                .labels
                .iter()
                .flatten()
                .any(|(_, value)| value == name)
        };
        let mut live: Vec<String> = listed
            .items
            .into_iter()
            .filter(of_object)
            .map(|job| job.metadata.resource_version.unwrap_or_default())
            .collect();
        held.sort();
        live.sort();
        same("Jobs", &held, &live)
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, held: &T, live: &T) -> Result<(), String> {
    if held == live {
        Ok(())
    } else {
        Err(format!("{what}: {held:?} in the cache, {live:?} live"))
    }
}

fn version_of(object: Option<DynamicObject>) -> Option<String> {
    object.and_then(|object| object.metadata.resource_version)
}
