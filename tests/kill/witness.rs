//! Whoever counts what ever existed: watches of the namespace that begin before any manager does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::core::{NamespaceResourceScope, ObjectMeta, PartialObjectMeta, Resource};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::testbed::World;

/// One object that existed, as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) meta: ObjectMeta,
    pub(crate) gone: bool,
}

impl Seen {
    pub(crate) fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.meta.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.meta.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

type ByUid = Arc<Mutex<BTreeMap<String, Seen>>>;

/// Everything of four kinds that existed in the namespace since it began to watch.
pub(crate) struct Witness {
    jobs: ByUid,
    pods: ByUid,
    secrets: ByUid,
    leases: ByUid,
    /// Who held one of our leases at any time, as `<scope>=<holder>`.
    holders: Arc<Mutex<BTreeSet<String>>>,
    blind: Blind,
    _watches: JoinSet<()>,
}

/// Errors of watches: after one, something may have come and gone unseen.
type Blind = Arc<Mutex<Vec<String>>>;

impl Witness {
    /// Watches; returns when everything that is made from now on will be seen.
    pub(crate) async fn of(world: &World) -> Self {
        let mut watches = JoinSet::new();
        let blind = Blind::default();
        let jobs = keep::<Job>(world, &blind, &mut watches).await;
        let pods = keep::<Pod>(world, &blind, &mut watches).await;
        let secrets = keep::<Secret>(world, &blind, &mut watches).await;
        let leases = keep::<Lease>(world, &blind, &mut watches).await;
        let holders = Arc::default();
        watches.spawn(note_holders(world.clone(), Arc::clone(&holders)));
        Self {
            jobs,
            pods,
            secrets,
            leases,
            holders,
            blind,
            _watches: watches,
        }
    }

    /// Every Job that ever existed.
    pub(crate) fn jobs(&self) -> Vec<Seen> {
        all(&self.jobs)
    }

    pub(crate) fn pods(&self) -> Vec<Seen> {
        all(&self.pods)
    }

    /// Every per-run Secret that ever existed.
    pub(crate) fn run_secrets(&self) -> Vec<Seen> {
        let mut found = all(&self.secrets);
        found.retain(|secret| secret.name().starts_with("captf-run-"));
        found
    }

    /// Run and cluster leases that exist.
    pub(crate) fn leases(&self) -> Vec<Seen> {
        let mut found = all(&self.leases);
        found.retain(|lease| !lease.gone && lease.label("captf.io/lease").is_some());
        found
    }

    /// Why it may have missed something; empty when it cannot have.
    pub(crate) fn blind(&self) -> Vec<String> {
        self.blind.lock().unwrap().clone()
    }

    pub(crate) fn holders(&self) -> BTreeSet<String> {
        self.holders.lock().unwrap().clone()
    }
}

fn all(store: &ByUid) -> Vec<Seen> {
    store.lock().unwrap().values().cloned().collect()
}

async fn keep<K>(world: &World, blind: &Blind, watches: &mut JoinSet<()>) -> ByUid
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + 'static,
{
    let api: Api<PartialObjectMeta<K>> = Api::namespaced(world.client.clone(), &world.namespace);
    let store = ByUid::default();
    let (begun, noted) = (Arc::new(Notify::new()), Arc::clone(&store));
    let (ready, blind) = (Arc::clone(&begun), Arc::clone(blind));
    watches.spawn(async move {
        let mut events = watcher(api, watcher::Config::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::InitDone) => ready.notify_one(),
                Ok(watcher::Event::Init) => {}
                Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                    note(&noted, object.metadata, false);
                }
                Ok(watcher::Event::Delete(object)) => note(&noted, object.metadata, true),
                Err(error) => blind.lock().unwrap().push(error.to_string()),
            }
        }
    });
    begun.notified().await;
    store
}

fn note(store: &ByUid, meta: ObjectMeta, gone: bool) {
    let uid = meta.uid.clone().unwrap_or_default();
    store.lock().unwrap().insert(uid, Seen { meta, gone });
}

async fn note_holders(world: World, holders: Arc<Mutex<BTreeSet<String>>>) {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let ours = watcher::Config::default().labels("captf.io/lease");
    let mut events = watcher(api, ours).boxed();
    while let Some(event) = events.next().await {
        if let Ok(watcher::Event::InitApply(lease) | watcher::Event::Apply(lease)) = event {
            let holder = lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.clone());
            let entry = format!(
                "{}={}",
                lease.labels()["captf.io/lease"],
                holder.unwrap_or_default()
            );
            holders.lock().unwrap().insert(entry);
        }
    }
}
