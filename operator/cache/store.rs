//! One kind's objects in memory, with an index of its own.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;

/// Namespace and name of an object; the namespace of a cluster-scoped one is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Name {
    /// Names an object.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The name in an object's metadata.
    #[must_use]
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
        )
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What an event changed in a store.
#[derive(Debug)]
pub enum Change<V> {
    /// A new object.
    Added(Arc<V>),
    /// An object that was written.
    Updated {
        /// Before.
        old: Arc<V>,
        /// After.
        new: Arc<V>,
    },
    /// An object that is gone, as it was last seen.
    Deleted(Arc<V>),
}

impl<V> Change<V> {
    /// The object as it is now, or was last.
    #[must_use]
    pub fn latest(&self) -> &Arc<V> {
        match self {
            Self::Added(view) | Self::Updated { new: view, .. } | Self::Deleted(view) => view,
        }
    }

    /// Before and after, for a change of an object that was there and still is.
    #[must_use]
    pub fn update(&self) -> Option<(&V, &V)> {
        match self {
            Self::Updated { old, new } => Some((old, new)),
            Self::Added(_) | Self::Deleted(_) => None,
        }
    }

    /// Whether the object is gone.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }
}

/// A second way to find objects, kept under the lock of the store.
pub trait Index<V>: Default + Send + Sync + 'static {
    /// An object came.
    fn insert(&mut self, name: &Name, view: &Arc<V>);
    /// The same object goes: it is gone, or its next state comes right after.
    fn remove(&mut self, name: &Name, view: &Arc<V>);
    /// An object is gone for good, after [`Index::remove`]; `last` is how it ended.
    fn gone(&mut self, _name: &Name, _last: &Arc<V>) {}
    /// An object went while nobody watched, after [`Index::remove`]: `last` is how it was once, not how
    /// it ended.
    fn missed(&mut self, name: &Name, last: &Arc<V>) {
        self.gone(name, last);
    }
}

/// No index.
impl<V> Index<V> for () {
    fn insert(&mut self, _: &Name, _: &Arc<V>) {}
    fn remove(&mut self, _: &Name, _: &Arc<V>) {}
}

/// One kind's objects. Readers get them as they are at one moment.
pub struct Store<V, I = ()> {
    inner: RwLock<Inner<V, I>>,
    synced: watch::Sender<bool>,
}

struct Inner<V, I> {
    entries: HashMap<Name, Entry<V>>,
    index: I,
    /// Counts lists; an entry not seen by the list that ends is gone.
    list: u64,
}

struct Entry<V> {
    view: Arc<V>,
    version: String,
    list: u64,
}

impl<V, I: Default> Default for Store<V, I> {
    fn default() -> Self {
        let inner = Inner {
            entries: HashMap::new(),
            index: I::default(),
            list: 0,
        };
        Self {
            inner: RwLock::new(inner),
            synced: watch::Sender::new(false),
        }
    }
}

impl<V: Send + Sync + 'static, I: Index<V>> Store<V, I> {
    fn read(&self) -> RwLockReadGuard<'_, Inner<V, I>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner<V, I>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a first list was taken in as a whole.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until a first list was taken in as a whole.
    pub async fn synced(&self) {
        // The sender lives as long as the store, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// One object.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let name = Name::new(namespace, name);
        self.read()
            .entries
            .get(&name)
            .map(|entry| Arc::clone(&entry.view))
    }

    /// Every object, in the order of namespace and name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.matching(|_, _| true)
    }

    /// Every object for which `wanted` holds, in the order of namespace and name.
    ///
    /// This looks at every object; what is asked often has an [`Index`].
    #[must_use]
    pub fn matching(&self, wanted: impl Fn(&Name, &V) -> bool) -> Vec<Arc<V>> {
        let inner = self.read();
        let mut found: Vec<(&Name, &Arc<V>)> = inner
            .entries
            .iter()
            .map(|(name, entry)| (name, &entry.view))
            .filter(|(name, view)| wanted(name, view))
            .collect();
        found.sort_unstable_by_key(|(name, _)| *name);
        found
            .into_iter()
            .map(|(_, view)| Arc::clone(view))
            .collect()
    }

    /// Asks the index.
    pub fn query<R>(&self, ask: impl FnOnce(&I) -> R) -> R {
        ask(&self.read().index)
    }

    /// Changes what the index keeps besides the objects.
    pub fn amend<R>(&self, change: impl FnOnce(&mut I) -> R) -> R {
        change(&mut self.write().index)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read().entries.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A list begins; objects it does not name are gone when it ends.
    pub(in crate::operator) fn begin_list(&self) {
        self.write().list += 1;
    }

    /// An object was listed or written. `None` when it is the one that is there.
    pub(in crate::operator) fn apply(
        &self,
        name: Name,
        version: String,
        view: V,
    ) -> Option<Change<V>> {
        let mut inner = self.write();
        let inner = &mut *inner;
        let list = inner.list;
        if let Some(entry) = inner
            .entries
            .get_mut(&name)
            .filter(|entry| entry.version == version)
        {
            entry.list = list;
            return None;
        }
        let new = Arc::new(view);
        let entry = Entry {
            view: Arc::clone(&new),
            version,
            list,
        };
        let old = inner
            .entries
            .insert(name.clone(), entry)
            .map(|entry| entry.view);
        if let Some(old) = &old {
            inner.index.remove(&name, old);
        }
        inner.index.insert(&name, &new);
        Some(match old {
            Some(old) => Change::Updated { old, new },
            None => Change::Added(new),
        })
    }

    /// An object was listed but did not decode: what was last seen of it stays.
    pub(in crate::operator) fn keep(&self, name: &Name) {
        let mut inner = self.write();
        let list = inner.list;
        if let Some(entry) = inner.entries.get_mut(name) {
            entry.list = list;
        }
    }

    /// An object is gone; `last` is how the API server saw it last, when that decoded.
    ///
    /// `None` when it was not there.
    pub(in crate::operator) fn delete(&self, name: &Name, last: Option<V>) -> Option<Change<V>> {
        let mut inner = self.write();
        let entry = inner.entries.remove(name)?;
        inner.index.remove(name, &entry.view);
        let last = last.map_or(entry.view, Arc::new);
        inner.index.gone(name, &last);
        Some(Change::Deleted(last))
    }

    /// A list is complete: what it did not name is gone.
    pub(in crate::operator) fn end_list(&self) -> Vec<Change<V>> {
        let gone = {
            let mut inner = self.write();
            let inner = &mut *inner;
            let list = inner.list;
            let mut gone: Vec<(Name, Entry<V>)> = inner
                .entries
                .extract_if(|_, entry| entry.list != list)
                .collect();
            gone.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            for (name, entry) in &gone {
                inner.index.remove(name, &entry.view);
                inner.index.missed(name, &entry.view);
            }
            gone
        };
        self.synced.send_replace(true);
        gone.into_iter()
            .map(|(_, entry)| Change::Deleted(entry.view))
            .collect()
    }
}
