//! Reconciles and work queues, under the names controller-runtime gives them (metrics-alerts.md §3,
//! "Foreign families").

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::{Counters, Histograms, Metrics, Words, counters, histograms, registered};

type Gauges = Family<Words<1>, Gauge>;

/// How a pass ended, in controller-runtime's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PassResult {
    /// It ended without wanting to come back.
    Success,
    /// It wants to come back at a time of its own.
    RequeueAfter,
    /// It failed and comes back after a backoff.
    Error,
}

impl PassResult {
    const ALL: [Self; 3] = [Self::Success, Self::RequeueAfter, Self::Error];

    /// Value of the label `result`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

#[derive(Clone)]
pub(super) struct Families {
    reconciles: Counters<2>,
    errors: Counters<1>,
    panics: Counters<1>,
    time: Histograms<1>,
    active: Gauges,
    workers: Gauges,
    depth: Gauges,
    adds: Counters<1>,
    retries: Counters<1>,
    waited: Histograms<1>,
    worked: Histograms<1>,
    running: Running,
}

/// Start times of the items that are being worked on, per queue.
type Running = Arc<Mutex<BTreeMap<&'static str, BTreeMap<u64, Instant>>>>;

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            reconciles: counters(
                registry,
                "controller_runtime_reconcile",
                "Total number of reconciliations per controller",
            ),
            errors: counters(
                registry,
                "controller_runtime_reconcile_errors",
                "Total number of reconciliation errors per controller",
            ),
            panics: counters(
                registry,
                "controller_runtime_reconcile_panics",
                "Total number of reconciliation panics per controller",
            ),
            time: histograms(
                registry,
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                reconcile_time,
            ),
            active: registered(
                registry,
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
                Family::default(),
            ),
            workers: registered(
                registry,
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
                Family::default(),
            ),
            depth: registered(
                registry,
                "workqueue_depth",
                "Current depth of workqueue",
                Family::default(),
            ),
            adds: counters(
                registry,
                "workqueue_adds",
                "Total number of adds handled by workqueue",
            ),
            retries: counters(
                registry,
                "workqueue_retries",
                "Total number of retries handled by workqueue",
            ),
            waited: histograms(
                registry,
                "workqueue_queue_duration_seconds",
                "How long in seconds an item stays in workqueue before being requested",
                decades,
            ),
            worked: histograms(
                registry,
                "workqueue_work_duration_seconds",
                "How long in seconds processing an item from workqueue takes",
                decades,
            ),
            running: Running::default(),
        }
    }

    pub(super) fn unfinished_work(&self) -> UnfinishedWork {
        UnfinishedWork {
            running: Arc::clone(&self.running),
        }
    }
}

/// controller-runtime's buckets of a reconcile, in seconds.
fn reconcile_time() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
        15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ])
}

/// controller-runtime's buckets of a work queue: 10 ns to 1,000 s in decades.
fn decades() -> Histogram {
    Histogram::new([
        1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1_000.0,
    ])
}

impl Metrics {
    /// The series of one controller; `name` is the controller's, such as `terraformcluster`.
    ///
    /// They start at 0 at once, so that a rate over them is right from the first scrape.
    #[must_use]
    pub fn controller(&self, name: &'static str, workers: usize) -> ControllerMetrics {
        let families = &self.controllers;
        let labels = [("controller", name)];
        families
            .workers
            .get_or_create(&labels)
            .set(i64::try_from(workers).unwrap_or(i64::MAX));
        let controller = ControllerMetrics {
            results: PassResult::ALL.map(|result| {
                families
                    .reconciles
                    .get_or_create_owned(&[("controller", name), ("result", result.as_str())])
            }),
            errors: families.errors.get_or_create_owned(&labels),
            panics: families.panics.get_or_create_owned(&labels),
            time: families.time.get_or_create_owned(&labels),
            active: families.active.get_or_create_owned(&labels),
        };
        controller.active.set(0);
        controller
    }

    /// The series of one work queue, named like its controller.
    #[must_use]
    pub fn queue(&self, name: &'static str) -> QueueMetrics {
        let families = &self.controllers;
        let labels = [("name", name)];
        QueueMetrics {
            name,
            depth: families.depth.get_or_create_owned(&labels),
            adds: families.adds.get_or_create_owned(&labels),
            retries: families.retries.get_or_create_owned(&labels),
            waited: families.waited.get_or_create_owned(&labels),
            worked: families.worked.get_or_create_owned(&labels),
            running: Arc::clone(&families.running),
            next: Arc::default(),
        }
    }
}

/// The reconcile series of one controller.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    results: [Counter; 3],
    errors: Counter,
    panics: Counter,
    time: Histogram,
    active: Gauge,
}

impl ControllerMetrics {
    /// A pass starts; the guard counts its worker as busy until it is dropped.
    #[must_use]
    pub fn pass_started(&self) -> BusyWorker {
        self.active.inc();
        BusyWorker(self.active.clone())
    }

    /// A pass ended after `took`.
    pub fn pass_ended(&self, result: PassResult, took: Duration) {
        let [success, requeue_after, error] = &self.results;
        match result {
            PassResult::Success => success.inc(),
            PassResult::RequeueAfter => requeue_after.inc(),
            PassResult::Error => {
                self.errors.inc();
                error.inc()
            }
        };
        self.time.observe(took.as_secs_f64());
    }

    /// A pass panicked; it also ends as an error.
    pub fn pass_panicked(&self) {
        self.panics.inc();
    }
}

/// Counts a worker as busy while it lives.
#[derive(Debug)]
pub struct BusyWorker(Gauge);

impl Drop for BusyWorker {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The series of one work queue.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    name: &'static str,
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    running: Running,
    next: Arc<AtomicU64>,
}

impl QueueMetrics {
    /// An item that was not queued yet became ready.
    pub fn added(&self) {
        self.adds.inc();
    }

    /// `ready` items wait for a worker.
    pub fn set_depth(&self, ready: usize) {
        self.depth.set(i64::try_from(ready).unwrap_or(i64::MAX));
    }

    /// An item comes back after a failure.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// A worker takes an item that was ready for `waited`; the guard measures the work until it is
    /// dropped.
    #[must_use]
    pub fn work_started(&self, waited: Duration) -> Work {
        self.waited.observe(waited.as_secs_f64());
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        self.lock()
            .entry(self.name)
            .or_default()
            .insert(token, started);
        Work {
            queue: self.clone(),
            token,
            started,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, BTreeMap<u64, Instant>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Measures the work on one item while it lives.
#[derive(Debug)]
pub struct Work {
    queue: QueueMetrics,
    token: u64,
    started: Instant,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.queue
            .worked
            .observe(self.started.elapsed().as_secs_f64());
        if let Some(running) = self.queue.lock().get_mut(self.queue.name) {
            running.remove(&self.token);
        }
    }
}

/// How long the items now worked on have taken, summed and at most: a stuck worker shows here.
pub(super) struct UnfinishedWork {
    running: Running,
}

impl fmt::Debug for UnfinishedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfinishedWork").finish_non_exhaustive()
    }
}

impl Collector for UnfinishedWork {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sum: Family<Words<1>, Gauge<f64, AtomicU64>> = Family::default();
        let longest: Family<Words<1>, Gauge<f64, AtomicU64>> = Family::default();
        for (name, items) in self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            let ages = || {
                items
                    .values()
                    .map(|started| started.elapsed().as_secs_f64())
            };
            sum.get_or_create(&[("name", *name)])
                .set(ages().fold(0.0, |sum, age| sum + age));
            longest
                .get_or_create(&[("name", *name)])
                .set(ages().fold(0.0, f64::max));
        }
        let mut write =
            |name: &str, help: &str, family: Family<Words<1>, Gauge<f64, AtomicU64>>| {
                family.encode(encoder.encode_descriptor(name, help, None, family.metric_type())?)
            };
        write(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work in progress have not been observed by work_duration",
            sum,
        )?;
        write(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            longest,
        )
    }
}
