//! One watch per kind, with whom its changes wake.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use tokio::task::JoinSet;

use super::jobs::JobWire;
use super::mapping::{self, SourceKind};
use super::metadata::MetadataOf;
use super::pods::PodWire;
use super::store::{Change, Index, Store};
use super::typed::Typed;
use super::{Caches, Wake};
use crate::api::capi::Cluster;
use crate::api::keys::{TRUE, labels};
use crate::api::{TerraformCluster, TerraformClusterIdentity};
use crate::names::ObjectKey;
use crate::operator::queue::Priority;
use crate::operator::watch::{self, Guarded, Subscriber, Wire};

/// Starts every watch; they end when the set is dropped.
pub(super) fn start(caches: &Arc<Caches>, client: &Client, wake: &Arc<dyn Wake>) -> JoinSet<()> {
    let waker = Waker {
        caches: Arc::clone(caches),
        wake: Arc::clone(wake),
    };
    let mut watches = Watches {
        client,
        waker,
        tasks: JoinSet::new(),
    };
    watches.objects();
    watches.runs();
    watches.inputs();
    watches.tasks
}

struct Watches<'a> {
    client: &'a Client,
    waker: Waker,
    tasks: JoinSet<()>,
}

impl Watches<'_> {
    /// Our own objects and their owners.
    fn objects(&mut self) {
        let caches = Arc::clone(&self.waker.caches);
        let api = self.scoped::<Typed<TerraformCluster>>();
        self.keep(
            api,
            None,
            &caches.terraform_clusters,
            |change, priority, waker| {
                waker.wake_all(mapping::changed_cluster(change), priority);
            },
        );
        let api = self.scoped::<Typed<Cluster>>();
        self.keep(api, None, &caches.clusters, |change, priority, waker| {
            if waker
                .caches
                .matches_filter(change.latest().metadata.labels.as_ref())
            {
                waker.wake_all(mapping::infrastructure(change), priority);
            }
        });
    }

    /// Jobs, their pods, and what they leave behind.
    fn runs(&mut self) {
        let caches = Arc::clone(&self.waker.caches);
        let managed = format!("{}={TRUE}", labels::MANAGED);
        let jobs = format!("{managed},{}", labels::OWNER_KIND);
        let api = self.scoped::<JobWire>();
        self.keep(api, Some(&jobs), &caches.jobs, |change, priority, waker| {
            waker.caches.follow_job(change);
            waker.wake_all(mapping::controller_of_job(change), priority);
        });
        let api = self.scoped::<PodWire>();
        self.keep(api, Some(&managed), &caches.pods, |_, _, _| {});
        let api = self.scoped::<MetadataOf<Secret>>();
        self.keep(
            api,
            Some(&managed),
            &caches.secrets,
            |change, priority, waker| {
                waker.wake_all(mapping::owners(change), priority);
            },
        );
    }

    /// What inputs and credentials depend on.
    fn inputs(&mut self) {
        let caches = Arc::clone(&self.waker.caches);
        let sources = format!("{}={TRUE}", labels::VARIABLES);
        let api = self.everywhere::<Typed<TerraformClusterIdentity>>();
        self.keep(api, None, &caches.identities, |change, priority, waker| {
            waker.wake_all(
                mapping::users_of_identity(change, &waker.caches.terraform_clusters),
                priority,
            );
        });
        let api = self.everywhere::<MetadataOf<Namespace>>();
        self.keep(api, None, &caches.namespaces, |change, priority, waker| {
            waker.wake_all(
                mapping::inhabitants(change, &waker.caches.terraform_clusters),
                priority,
            );
        });
        let api = self.scoped::<MetadataOf<ConfigMap>>();
        self.keep(
            api,
            Some(&sources),
            &caches.config_map_sources,
            |change, priority, waker| {
                let clusters = &waker.caches.terraform_clusters;
                waker.wake_all(
                    mapping::users_of_source(SourceKind::ConfigMap, change, clusters),
                    priority,
                );
            },
        );
        let api = self.scoped::<MetadataOf<Secret>>();
        self.keep(
            api,
            Some(&sources),
            &caches.secret_sources,
            |change, priority, waker| {
                let clusters = &waker.caches.terraform_clusters;
                waker.wake_all(
                    mapping::users_of_source(SourceKind::Secret, change, clusters),
                    priority,
                );
            },
        );
    }

    fn keep<W: Wire, I: Index<W::View>>(
        &mut self,
        api: Api<Guarded<W>>,
        labels: Option<&str>,
        store: &Arc<Store<W::View, I>>,
        on_change: impl Fn(&Change<W::View>, Priority, &Waker) + Send + 'static,
    ) {
        let (labels, store, waker) = (
            labels.map(str::to_owned),
            Arc::clone(store),
            self.waker.clone(),
        );
        let subscriber = Mapped { waker, on_change };
        self.tasks
            .spawn(async move { watch::keep(api, labels.as_deref(), store, subscriber).await });
    }

    /// The API of a namespaced kind, in the namespace to watch or in all.
    fn scoped<W>(&self) -> Api<Guarded<W>>
    where
        W: Wire<Kind: Resource<Scope = NamespaceResourceScope>>,
    {
        match &self.waker.caches.scope.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// The API of a kind that is watched whatever the namespace to watch.
    fn everywhere<W: Wire>(&self) -> Api<Guarded<W>> {
        Api::all(self.client.clone())
    }
}

#[derive(Clone)]
struct Waker {
    caches: Arc<Caches>,
    wake: Arc<dyn Wake>,
}

impl Waker {
    fn wake_all(&self, objects: impl IntoIterator<Item = ObjectKey>, priority: Priority) {
        for object in objects
            .into_iter()
            .filter(|object| !self.caches.is_for_another(object))
        {
            self.wake.wake(object, priority);
        }
    }
}

struct Mapped<F> {
    waker: Waker,
    on_change: F,
}

impl<V, F: Fn(&Change<V>, Priority, &Waker) + Send + 'static> Subscriber<V> for Mapped<F> {
    fn changed(&self, change: &Change<V>, priority: Priority) {
        (self.on_change)(change, priority, &self.waker);
    }
}
