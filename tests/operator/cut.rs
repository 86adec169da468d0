//! Managers that die, and managers that stand still, at a chosen request.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use http::Method;
use tokio::sync::Notify;

use crate::testbed::fault::{Fault, Faults, Seen};
use crate::testbed::wait::LIMIT;

/// One request among those of a manager.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    what: Touch,
    since: Option<Touch>,
    nth: usize,
}

type Touch = (Method, &'static str);

impl Point {
    /// The first request with this method that touches this resource, given in the plural; `status` for a status patch.
    pub(crate) fn first(method: Method, resource: &'static str) -> Self {
        Self {
            what: (method, resource),
            since: None,
            nth: 1,
        }
    }

    /// The n-th of those requests, counted from 1.
    pub(crate) fn nth(self, nth: usize) -> Self {
        Self { nth, ..self }
    }

    /// Counted from the first request of this kind on.
    pub(crate) fn since(self, method: Method, resource: &'static str) -> Self {
        Self {
            since: Some((method, resource)),
            ..self
        }
    }

    /// Recognises the request in the stream of all requests, once.
    pub(crate) fn finder(self) -> impl Fn(&Seen) -> bool + Send + Sync {
        let progress = Mutex::new((self.since.is_none(), 0));
        move |seen| {
            let mut progress = progress.lock().unwrap();
            let (begun, count) = &mut *progress;
            if !*begun {
                *begun = self
                    .since
                    .as_ref()
                    .is_some_and(|(method, resource)| seen.touches(method, resource));
                return false;
            }
            if seen.touches(&self.what.0, self.what.1) {
                *count += 1;
                return *count == self.nth;
            }
            false
        }
    }
}

/// A manager's end.
#[derive(Clone)]
pub(crate) struct Death {
    pub(crate) faults: Faults,
    dead: Arc<AtomicBool>,
}

impl Death {
    /// The request at `point` and all later ones never reach the API server.
    pub(crate) fn before(point: Point) -> Self {
        Self::at(point, true)
    }

    /// The request at `point` is the last one that reaches the API server.
    pub(crate) fn after(point: Point) -> Self {
        Self::at(point, false)
    }

    fn at(point: Point, before: bool) -> Self {
        let dead = Arc::new(AtomicBool::new(false));
        let (died, at_point) = (Arc::clone(&dead), point.finder());
        let faults = Faults::new(move |seen| {
            if died.load(Ordering::SeqCst) {
                return Fault::Before;
            }
            if !at_point(seen) {
                return Fault::Pass;
            }
            died.store(true, Ordering::SeqCst);
            if before { Fault::Before } else { Fault::Pass }
        });
        Self { faults, dead }
    }

    pub(crate) fn happened(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

/// A manager's pause: a stopped process, a slow network.
#[derive(Clone, Default)]
pub(crate) struct Halt {
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl Halt {
    /// The manager stands still before the request at `point`.
    pub(crate) fn before(&self, point: Point) -> Faults {
        let (halt, at_point) = (self.clone(), point.finder());
        Faults::new(move |seen| {
            if at_point(seen) {
                halt.fault()
            } else {
                Fault::Pass
            }
        })
    }

    fn fault(&self) -> Fault {
        let halt = self.clone();
        Fault::First(Box::pin(async move {
            halt.reached.notify_one();
            halt.go.notified().await;
        }))
    }

    /// Waits until a manager stands here.
    pub(crate) async fn reached(&self) {
        let reached = tokio::time::timeout(LIMIT, self.reached.notified()).await;
        reached.expect("the manager comes to its halt");
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.go.notify_one();
    }

    /// Runs `manager`, and `meanwhile` while it stands still. Returns how the manager ended.
    pub(crate) async fn during<T>(
        &self,
        manager: impl Future<Output = T>,
        meanwhile: impl Future<Output = ()>,
    ) -> T {
        let mut manager = pin!(manager);
        tokio::select! {
            _ = &mut manager => panic!("the manager ended without coming to its halt"),
            () = self.reached() => {}
        }
        meanwhile.await;
        self.go_on();
        manager.await
    }
}
