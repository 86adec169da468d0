//! Watches: one task per kind, which applies each event to its store and then enqueues
//! (engineering.md §4.4, pitfalls P2 to P5).
//!
//! Applying and enqueueing in the same task makes "trigger before cache" impossible: whoever a key
//! wakes reads a store that has what woke it.

mod guard;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::{self, DefaultBackoff, watcher};
use tokio::time::sleep;

use super::cache::{Change, Index, Store};
use super::queue::Priority;
pub use guard::{Guarded, LeanMeta, Undecodable, Wire};
use trouble::Trouble;

/// A connection that is silent for this long is dead: bookmarks come every 60 s.
const SILENCE: Duration = Duration::from_secs(150);

/// After this many seconds the server ends a watch and it is started again where it stood.
const WATCH_SECONDS: u32 = 145;

/// The pause after an error when the backoff has no more to say; it never does.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Objects per page of a list: a page is held decoded.
const PAGE: u32 = 100;

/// The configuration of the client for watches: silence ends a connection, and kube repeats nothing.
#[must_use]
pub fn client_config(mut config: kube::Config) -> kube::Config {
    config.read_timeout = Some(SILENCE);
    config.default_retry = false;
    config
}

/// Who is told of changes, after the store has them.
pub trait Subscriber<V>: Send + 'static {
    /// [`Priority::Low`] marks objects of the first list.
    fn changed(&self, change: &Change<V>, priority: Priority);
}

/// Keeps `store` like the API server's objects that `labels` selects, for ever.
///
/// Errors are logged and retried with kube's backoff; an object that cannot be decoded is logged, the
/// store keeps its last state that could, and nothing stops. Dropping the future ends the watch.
pub async fn keep<W: Wire, I: Index<W::View>>(
    api: Api<Guarded<W>>,
    labels: Option<&str>,
    store: Arc<Store<W::View, I>>,
    subscriber: impl Subscriber<W::View>,
) {
    let mut config = watcher::Config::default()
        .page_size(PAGE)
        .timeout(WATCH_SECONDS);
    config.label_selector = labels.map(str::to_owned);
    let mut events = watcher(api, config).boxed();
    let mut trouble = Trouble::of::<W>();
    let mut backoff = DefaultBackoff::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // `Init` precedes the request for a list and proves nothing. kube's own backoff takes it
                // for a success, and would ask a server that is away once a second for ever.
                if !matches!(event, watcher::Event::Init) {
                    trouble.over();
                    backoff.reset();
                }
                take_in::<W, I>(event, &store, &subscriber);
            }
            Err(error) => {
                trouble.report(&error);
                sleep(backoff.next().unwrap_or(LONGEST_PAUSE)).await;
            }
        }
    }
}

fn take_in<W: Wire, I: Index<W::View>>(
    event: watcher::Event<Guarded<W>>,
    store: &Store<W::View, I>,
    subscriber: &impl Subscriber<W::View>,
) {
    let first_list = !store.is_synced();
    match event {
        watcher::Event::Init => store.begin_list(),
        watcher::Event::InitApply(object) => {
            let priority = if first_list {
                Priority::Low
            } else {
                Priority::Normal
            };
            apply(object, priority, store, subscriber);
        }
        watcher::Event::InitDone => {
            for change in store.end_list() {
                subscriber.changed(&change, Priority::Normal);
            }
        }
        watcher::Event::Apply(object) => apply(object, Priority::Normal, store, subscriber),
        watcher::Event::Delete(object) => {
            let name = object.name();
            // A last state that does not decode is still the end of the object.
            let last = object.decoded().ok().map(Wire::view);
            if let Some(change) = store.delete(&name, last) {
                subscriber.changed(&change, Priority::Normal);
            }
        }
    }
}

fn apply<W: Wire, I: Index<W::View>>(
    object: Guarded<W>,
    priority: Priority,
    store: &Store<W::View, I>,
    subscriber: &impl Subscriber<W::View>,
) {
    let name = object.name();
    match object.decoded() {
        Ok(wire) => {
            let version = wire.metadata().resource_version.clone().unwrap_or_default();
            if let Some(change) = store.apply(name, version, wire.view()) {
                subscriber.changed(&change, priority);
            }
        }
        Err(object) => {
            store.keep(&name);
            tracing::error!(kind = %object.kind, namespace = %name.namespace, name = %name.name, error = %object.error,
                "an object cannot be decoded and is left as it was last seen: correct it as its CustomResourceDefinition says");
        }
    }
}

#[cfg(test)]
mod tests;
