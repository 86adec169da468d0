//! What the watches hold (manager.md §4), and whom their changes wake.
//!
//! Caches run on every replica, so that a takeover starts warm. Decisions about leases, locks and
//! Secrets never read them: those are read live.

mod jobs;
mod mapping;
mod metadata;
mod own_writes;
mod owner;
mod pods;
mod store;
#[cfg(test)]
mod tests;
mod typed;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::queue::{Priority, WorkQueue};
use super::settings::WatchScope;
use crate::api::capi::Cluster;
use crate::api::keys::labels;
use crate::api::{TerraformCluster, TerraformClusterIdentity};
use crate::jobs::facts::JobFacts;
use crate::jobs::pod::PodFacts;
use crate::names::{Kind, ObjectKey, Op};
use crate::operator::runner_rbac::effective_account;

use own_writes::OwnWrites;

pub use jobs::{JobIndex, JobStore, JobView};
pub use metadata::{ConfigMapStore, MetadataOf, NamespaceStore, SecretStore};
pub use pods::{PodIndex, PodStore, SeenPod};
pub use store::{Change, Index, Name, Store};
pub use typed::Typed;

/// How often a start that still waits for its first lists says so.
const SAY_WAITING: Duration = Duration::from_secs(30);

/// Who is told that an object should be looked at.
pub trait Wake: Send + Sync + 'static {
    /// Something happened that may concern `object`.
    fn wake(&self, object: ObjectKey, priority: Priority);
}

impl Wake for WorkQueue<ObjectKey> {
    fn wake(&self, object: ObjectKey, priority: Priority) {
        self.add_with(object, priority);
    }
}

/// What the watches hold.
#[derive(Default)]
pub struct Caches {
    scope: WatchScope,
    terraform_clusters: Arc<Store<TerraformCluster>>,
    identities: Arc<Store<TerraformClusterIdentity>>,
    clusters: Arc<Store<Cluster>>,
    jobs: Arc<JobStore>,
    pods: Arc<PodStore>,
    namespaces: Arc<NamespaceStore>,
    secrets: Arc<SecretStore>,
    config_map_sources: Arc<ConfigMapStore>,
    secret_sources: Arc<SecretStore>,
    own_writes: OwnWrites,
}

impl Caches {
    /// Empty caches for the objects in `scope`.
    #[must_use]
    pub fn new(scope: WatchScope) -> Arc<Self> {
        Arc::new(Self {
            scope,
            ..Self::default()
        })
    }

    /// A TerraformCluster, without managedFields.
    #[must_use]
    pub fn terraform_cluster(&self, namespace: &str, name: &str) -> Option<Arc<TerraformCluster>> {
        self.terraform_clusters.get(namespace, name)
    }

    /// This process wrote the object and got this version of it back.
    pub fn wrote(&self, key: &ObjectKey, version: &str) {
        self.own_writes.note(key, version);
    }

    /// Waits, for a moment only, until the cache shows what this process wrote of the object last. For
    /// whoever is about to make a pass: on an older object its patch would be refused.
    pub async fn shows_own_writes(&self, key: &ObjectKey) {
        let cached = || {
            let object = self.terraform_cluster(&key.namespace, &key.name)?;
            object.metadata.resource_version.clone()
        };
        self.own_writes.shown(key, cached).await;
    }

    /// A Cluster of Cluster API.
    #[must_use]
    pub fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.get(namespace, name)
    }

    /// A TerraformClusterIdentity.
    #[must_use]
    pub fn identity(&self, name: &str) -> Option<Arc<TerraformClusterIdentity>> {
        self.identities.get("", name)
    }

    /// The labels of a namespace; `None` for one that is not known.
    #[must_use]
    pub fn namespace_labels(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        self.namespaces
            .get("", namespace)
            .map(|found| found.metadata.labels.clone().unwrap_or_default())
    }

    /// The Jobs whose owner labels name this object, by name; a namesake's that await garbage collection
    /// are among them: look at the UID of their controller.
    #[must_use]
    pub fn jobs_of(&self, owner: &ObjectKey) -> Vec<JobFacts> {
        self.jobs
            .of_owner(owner)
            .iter()
            .map(|job| job.facts.clone())
            .collect()
    }

    /// Jobs that have not finished, in all namespaces (jobs.md §11).
    #[must_use]
    pub fn unfinished_jobs(&self) -> usize {
        self.jobs.unfinished()
    }

    /// Jobs of the namespace that carry this cluster's name and have not finished (jobs.md §11).
    #[must_use]
    pub fn unfinished_jobs_of_cluster(&self, namespace: &str, cluster: &str) -> usize {
        self.jobs.unfinished_of_cluster(namespace, cluster)
    }

    /// Unfinished mutating Jobs of the machines and pools of a cluster, sorted (leases.md §6.4).
    #[must_use]
    pub fn running_machine_operations(&self, namespace: &str, cluster: &str) -> Vec<String> {
        let kinds = [Kind::TerraformMachine, Kind::TerraformMachinePool];
        self.jobs.running_operations(namespace, cluster, &kinds)
    }

    /// ServiceAccounts that the TerraformClusters of a namespace run their Jobs under (rbac-security.md §4).
    #[must_use]
    pub fn runner_accounts(&self, namespace: &str) -> BTreeSet<String> {
        self.terraform_clusters
            .all()
            .iter()
            .filter(|cluster| cluster.metadata.namespace.as_deref() == Some(namespace))
            .map(|cluster| {
                let own = cluster
                    .spec
                    .workspace
                    .jobs
                    .as_ref()
                    .and_then(|jobs| jobs.service_account_name.as_deref());
                effective_account([own]).to_owned()
            })
            .collect()
    }

    /// Jobs that have not finished, by kind of owner and operation: `captf_jobs_active`.
    #[must_use]
    pub fn active_jobs(&self) -> BTreeMap<(Kind, Op), u64> {
        self.jobs.active()
    }

    /// The newest pod of the Job with this UID as it was last seen, also when it is gone (README,
    /// decision 12).
    #[must_use]
    pub fn last_seen_pod(&self, job_uid: &str) -> Option<PodFacts> {
        self.pods.of_job(job_uid).pop().map(|pod| pod.facts)
    }

    /// The pod of this name as it was last seen, also when it is gone: whether the holder of a state lock
    /// was seen ended (README, decision 13).
    #[must_use]
    pub fn last_seen_pod_named(&self, namespace: &str, name: &str) -> Option<PodFacts> {
        self.pods.named(namespace, name).map(|pod| pod.facts)
    }

    /// Waits until every store took in a first list as a whole.
    ///
    /// Says every 30 s what is still waited for; the watches themselves say what fails.
    pub async fn synced(&self) {
        let waits = self.stores().map(|(what, synced)| async move {
            let mut synced = std::pin::pin!(synced);
            while timeout(SAY_WAITING, &mut synced).await.is_err() {
                tracing::warn!(%what, "still waiting for the first list");
            }
        });
        join_all(waits).await;
    }

    fn stores(&self) -> [(&'static str, futures::future::BoxFuture<'_, ()>); 9] {
        [
            (
                "TerraformClusters",
                Box::pin(self.terraform_clusters.synced()),
            ),
            (
                "TerraformClusterIdentities",
                Box::pin(self.identities.synced()),
            ),
            ("Clusters", Box::pin(self.clusters.synced())),
            ("Jobs", Box::pin(self.jobs.synced())),
            ("pods", Box::pin(self.pods.synced())),
            ("Namespaces", Box::pin(self.namespaces.synced())),
            ("Secrets", Box::pin(self.secrets.synced())),
            (
                "ConfigMaps as variables sources",
                Box::pin(self.config_map_sources.synced()),
            ),
            (
                "Secrets as variables sources",
                Box::pin(self.secret_sources.synced()),
            ),
        ]
    }

    /// Watches everything until the returned set is dropped; `client` is built from
    /// [`watch::client_config`](super::watch::client_config).
    #[must_use]
    pub fn watch(self: &Arc<Self>, client: &Client, wake: &Arc<dyn Wake>) -> JoinSet<()> {
        watches::start(self, client, wake)
    }

    /// Wakes every object of every kind each `period`, behind everything else (manager.md §5).
    pub async fn resync(self: Arc<Self>, period: Duration, wake: Arc<dyn Wake>) {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.pods.prune();
            for cluster in self.terraform_clusters.all() {
                if self.matches_filter(cluster.metadata.labels.as_ref()) {
                    let change = Change::Added(cluster);
                    wake.wake(
                        mapping::itself(Kind::TerraformCluster, &change),
                        Priority::Low,
                    );
                }
            }
        }
    }

    /// Whether an object with these labels is for this manager (manager.md §4).
    fn matches_filter(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.scope.filter.as_ref().is_none_or(|filter| {
            labels.and_then(|labels| labels.get(labels::WATCH_FILTER)) == Some(filter)
        })
    }

    /// Whether the object is known to be for another manager. Jobs and Secrets carry no filter label, so
    /// what wakes an object through them is judged by the object's own label.
    fn is_for_another(&self, object: &ObjectKey) -> bool {
        match object.kind {
            Kind::TerraformCluster => self
                .terraform_cluster(&object.namespace, &object.name)
                .is_some_and(|cluster| !self.matches_filter(cluster.metadata.labels.as_ref())),
            Kind::TerraformMachine | Kind::TerraformMachinePool => false,
        }
    }

    /// Keeps what is remembered of pods in step with their Jobs: a result is dropped only when the cache
    /// shows the mark that it is recorded, since until then a pass may ask for it.
    fn follow_job(&self, change: &Change<JobView>) {
        let job = &change.latest().facts;
        if change.is_deletion() {
            self.pods.job_gone(&job.uid, job.is_bookkept());
        } else if job.is_bookkept() {
            self.pods.forget_results(&job.uid);
        }
    }
}
