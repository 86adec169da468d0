//! An operator in the test's process, confined to the test's namespace.

use std::sync::Arc;
use std::time::Duration;

use captf::client::{Access, Clock, connect};
use captf::names::ObjectKey;
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
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DynamicObject, ListParams};
use tokio::task::JoinSet;

use crate::testbed::fault::Faults;
use crate::testbed::{Bed, World, wait};

/// The runner's image where no pod ever runs.
const RUNNER_IMAGE: &str = "registry.example.com/captf:v1";

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
        Self::with(bed, world, &Faults::none(), true, RUNNER_IMAGE).await
    }

    /// An operator on a node, whose Jobs get the runner from this image.
    pub(crate) async fn on_node(bed: &Bed, world: &World, runner_image: &str) -> Self {
        Self::with(bed, world, &Faults::none(), true, runner_image).await
    }

    /// An operator whose requests (not its watches) meet `faults`.
    pub(crate) async fn faulty(bed: &Bed, world: &World, faults: &Faults) -> Self {
        Self::with(bed, world, faults, true, RUNNER_IMAGE).await
    }

    /// An operator that takes no cluster write lease.
    pub(crate) async fn without_gate(bed: &Bed, world: &World) -> Self {
        Self::with(bed, world, &Faults::none(), false, RUNNER_IMAGE).await
    }

    async fn with(
        bed: &Bed,
        world: &World,
        faults: &Faults,
        gate: bool,
        runner_image: &str,
    ) -> Self {
        let clock = Clock::system();
        let config = bed.config().await;
        let client = faults.around(connect(&config, &clock).unwrap());
        let access = Access::new(client, clock.clone(), Duration::from_secs(10));
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
        let watching = connect(&watch::client_config(config), &clock).unwrap();
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
                runner_image: runner_image.to_owned(),
                runner_events: true,
                cluster_operation_gate: gate,
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
        let namespace = &self.world.namespace;
        let jobs: Api<Job> = Api::namespaced(self.world.client.clone(), namespace);
        let clusters = self.world.api("Cluster");
        let objects = self.world.api("TerraformCluster");
        wait::until("the caches to catch up", wait::LIMIT, async || {
            let live = version_of(
                objects
                    .get_opt(name)
                    .await
                    .map_err(|error| error.to_string())?,
            );
            let held = self.context.caches.terraform_cluster(namespace, name);
            let held = held.and_then(|object| object.metadata.resource_version.clone());
            if live != held {
                return Err(format!(
                    "TerraformCluster {name}: {held:?} in the cache, {live:?} live"
                ));
            }
            let live = version_of(
                clusters
                    .get_opt(name)
                    .await
                    .map_err(|error| error.to_string())?,
            );
            let held = self.context.caches.cluster(namespace, name);
            let held = held.and_then(|object| object.metadata.resource_version.clone());
            if live != held {
                return Err(format!(
                    "Cluster {name}: {held:?} in the cache, {live:?} live"
                ));
            }
            let key = ObjectKey::new(
                captf::names::Kind::TerraformCluster,
                namespace.clone(),
                name,
            );
            let mut held: Vec<String> = self
                .context
                .caches
                .jobs_of(&key)
                .into_iter()
                .map(|job| job.resource_version)
                .collect();
            let selection = ListParams::default().labels("captf.io/managed=true");
            let listed = jobs
                .list(&selection)
                .await
                .map_err(|error| error.to_string())?;
            let mut live: Vec<String> = listed
                .items
                .into_iter()
                .filter(|job| {
                    job.metadata
                        .labels
                        .iter()
                        .flatten()
                        .any(|(_, value)| value == name)
                })
                .map(|job| job.metadata.resource_version.unwrap_or_default())
                .collect();
            held.sort();
            live.sort();
            if held == live {
                Ok(())
            } else {
                Err(format!("Jobs {held:?} in the cache, {live:?} live"))
            }
        })
        .await;
    }
}

fn version_of(object: Option<DynamicObject>) -> Option<String> {
    object.and_then(|object| object.metadata.resource_version)
}
