//! The work queue of a controller (engineering.md §4.4).
//!
//! Keys are deduplicated, handed out first in first out within their [`Priority`], and never to two
//! workers at once: a key added while it is worked on is handed out once more afterwards. Of several
//! times for one key the earliest counts. A key that failed comes back after a backoff of its own,
//! which a success forgets.

mod backoff;
mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::metrics::{QueueMetrics, Work};
use backoff::delay_after;
use order::Order;

/// What is queued: cheap to clone, because every waiting key is held twice.
pub trait QueueKey: Clone + Eq + Hash + Ord + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Ord + Debug + Send + Sync + 'static> QueueKey for K {}

/// Which keys are handed out first. A waiting key is only ever raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The initial list and the periodic resync.
    Low,
    /// Something happened.
    Normal,
}

/// How a pass over a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Well, and it comes back when something happens.
    Done,
    /// Well, and it comes back after this time at the latest.
    DoneAgainAfter(Duration),
    /// Badly: it comes back after its backoff.
    Failed,
}

/// A work queue. Clones are handles to the same queue.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

struct Shared<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    metrics: QueueMetrics,
}

struct State<K> {
    /// Every key that waits, with when it may be handed out.
    waiting: HashMap<K, Waiting>,
    /// The keys of `waiting` that may be handed out now.
    ready: Order<K>,
    /// The keys of `waiting` whose time has not come, by that time.
    delayed: BTreeMap<(Instant, u64), K>,
    /// The keys that workers hold.
    running: HashSet<K>,
    /// Consecutive failures of keys that failed last time.
    failures: HashMap<K, u32>,
    next: u64,
    closed: bool,
}

#[derive(Clone, Copy)]
struct Waiting {
    priority: Priority,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    /// In `ready` under this number since this time.
    Ready { number: u64, since: Instant },
    /// In `delayed` under this time and number.
    Delayed { until: Instant, number: u64 },
    /// Nowhere: a worker holds the key, and it becomes ready when that worker is done.
    Held { since: Instant },
}

impl<K: QueueKey> WorkQueue<K> {
    /// An empty queue.
    #[must_use]
    pub fn new(metrics: QueueMetrics) -> Self {
        let state = State {
            waiting: HashMap::new(),
            ready: Order::default(),
            delayed: BTreeMap::new(),
            running: HashSet::new(),
            failures: HashMap::new(),
            next: 0,
            closed: false,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Notify::new(),
                metrics,
            }),
        }
    }

    /// Hands the key out as soon as a worker is free, before low-priority keys.
    pub fn add(&self, key: K) {
        self.add_with(key, Priority::Normal);
    }

    /// Hands the key out as soon as a worker is free.
    pub fn add_with(&self, key: K, priority: Priority) {
        self.shared
            .change(|state, now| state.insert(key, priority, now, now));
    }

    /// Hands the key out after `delay`, or earlier when it is due earlier anyway.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.shared
            .change(|state, now| state.insert(key, Priority::Normal, now + delay, now));
    }

    /// Waits for the next key. `None` once the queue is shut down: what still waits is dropped, and
    /// found again by the next manager.
    pub async fn next(&self) -> Option<Item<K>> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let wake_at = match self.shared.take() {
                Taken::Key(item) => return Some(item),
                Taken::Closed => return None,
                Taken::Nothing { next_due } => next_due,
            };
            match wake_at {
                None => changed.await,
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(due) => {}
                },
            }
        }
    }

    /// Hands out nothing any more. Keys that workers hold are finished by them.
    pub fn shut_down(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_waiters();
    }

    /// How many keys may be handed out now.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut state = self.shared.lock();
        state.promote(Instant::now());
        state.ready.len()
    }
}

enum Taken<K: QueueKey> {
    Key(Item<K>),
    Nothing { next_due: Option<Instant> },
    Closed,
}

impl<K: QueueKey> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes a worker: for a key that is ready, or to wait for an earlier time.
    fn change(&self, change: impl FnOnce(&mut State<K>, Instant) -> Added) {
        let added = {
            let mut state = self.lock();
            if state.closed {
                return;
            }
            let added = change(&mut state, Instant::now());
            self.metrics.set_depth(state.ready.len());
            added
        };
        if added == Added::New {
            self.metrics.added();
        }
        self.changed.notify_one();
    }

    fn take(self: &Arc<Self>) -> Taken<K> {
        let now = Instant::now();
        let mut state = self.lock();
        if state.closed {
            return Taken::Closed;
        }
        state.promote(now);
        let Some((key, priority, since)) = state.pop() else {
            return Taken::Nothing {
                next_due: state.delayed.keys().next().map(|(due, _)| *due),
            };
        };
        self.metrics.set_depth(state.ready.len());
        if !state.ready.is_empty() || !state.delayed.is_empty() {
            // One wake-up may have stood for several adds, and somebody must wait for the next time.
            self.changed.notify_one();
        }
        drop(state);
        let work = self
            .metrics
            .work_started(now.saturating_duration_since(since));
        Taken::Key(Item {
            key,
            priority,
            outcome: Outcome::Failed,
            shared: Arc::clone(self),
            _work: work,
        })
    }

    fn finish(&self, key: K, priority: Priority, outcome: Outcome) {
        self.change(|state, now| state.finish(key, priority, outcome, now));
        if outcome == Outcome::Failed {
            self.metrics.retried();
        }
    }
}

#[derive(PartialEq, Eq)]
enum Added {
    New,
    Known,
}

impl<K: QueueKey> State<K> {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn insert(&mut self, key: K, priority: Priority, due: Instant, now: Instant) -> Added {
        let known = self.remove(&key);
        let added = if known.is_some() {
            Added::Known
        } else {
            Added::New
        };
        let priority = known.map_or(priority, |waiting| waiting.priority.max(priority));
        let place = match known.map(|waiting| waiting.place) {
            // Ready stays ready and keeps its number, so a raised key stands before keys that came later.
            Some(Place::Ready { number, since }) => {
                self.ready.insert(priority, number, key.clone());
                Place::Ready { number, since }
            }
            Some(Place::Held { since }) => Place::Held { since },
            Some(Place::Delayed { until, .. }) => self.place(&key, priority, until.min(due), now),
            None => self.place(&key, priority, due, now),
        };
        self.waiting.insert(key, Waiting { priority, place });
        added
    }

    fn place(&mut self, key: &K, priority: Priority, due: Instant, now: Instant) -> Place {
        if due > now {
            let number = self.number();
            self.delayed.insert((due, number), key.clone());
            return Place::Delayed { until: due, number };
        }
        if self.running.contains(key) {
            return Place::Held { since: now };
        }
        let number = self.number();
        self.ready.insert(priority, number, key.clone());
        Place::Ready { number, since: now }
    }

    /// Takes the key out of every order it waits in.
    fn remove(&mut self, key: &K) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        match waiting.place {
            Place::Ready { number, .. } => self.ready.remove(waiting.priority, number),
            Place::Delayed { until, number } => {
                self.delayed.remove(&(until, number));
            }
            Place::Held { .. } => {}
        }
        Some(waiting)
    }

    /// Makes ready what is due.
    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self
            .delayed
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let key = entry.remove();
            if let Some(priority) = self.waiting.get(&key).map(|waiting| waiting.priority) {
                let place = self.place(&key, priority, now, now);
                self.waiting.insert(key, Waiting { priority, place });
            }
        }
    }

    fn pop(&mut self) -> Option<(K, Priority, Instant)> {
        let (priority, key) = self.ready.pop()?;
        let since = match self.waiting.remove(&key).map(|waiting| waiting.place) {
            Some(Place::Ready { since, .. }) => since,
            _ => Instant::now(),
        };
        self.running.insert(key.clone());
        Some((key, priority, since))
    }

    fn finish(&mut self, key: K, priority: Priority, outcome: Outcome, now: Instant) -> Added {
        self.running.remove(&key);
        // What came in while the key was held is due now, behind everything that is ready already.
        if let Some(Waiting {
            priority,
            place: Place::Held { .. },
        }) = self.waiting.get(&key).copied()
        {
            let place = self.place(&key, priority, now, now);
            self.waiting
                .insert(key.clone(), Waiting { priority, place });
        }
        match outcome {
            Outcome::Done => {
                self.failures.remove(&key);
                Added::Known
            }
            Outcome::DoneAgainAfter(delay) => {
                self.failures.remove(&key);
                self.insert(key, priority, now + delay, now)
            }
            Outcome::Failed => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let delay = delay_after(*failures);
                self.insert(key, priority, now + delay, now)
            }
        }
    }
}

/// A key that a worker holds; nobody else gets it meanwhile.
///
/// Dropped without an outcome (a worker that is cancelled or panics) it counts as failed.
pub struct Item<K: QueueKey> {
    key: K,
    priority: Priority,
    outcome: Outcome,
    shared: Arc<Shared<K>>,
    _work: Work,
}

impl<K: QueueKey> Item<K> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Gives the key back to the queue.
    pub fn finish(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl<K: QueueKey> Drop for Item<K> {
    fn drop(&mut self) {
        self.shared
            .finish(self.key.clone(), self.priority, self.outcome);
    }
}
