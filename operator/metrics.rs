//! Metrics: every series the manager serves, with the methods that change them (metrics-alerts.md).
//!
//! Names, labels and label values are contract: users have dashboards and alerts on them. Every
//! label value is one of a closed set, except namespace and name of the per-object gauges, whose
//! series end with their object.

mod controller;
mod jobs;
mod objects;
mod process;
mod rest;
mod scrape;
#[cfg(test)]
mod tests;
mod transitions;

use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub use controller::{BusyWorker, ControllerMetrics, PassResult, QueueMetrics, Work};
pub use objects::TriState;
pub use rest::counted;
pub use transitions::LeaseWait;

/// Labels whose values are words of the program.
type Words<const N: usize> = [(&'static str, &'static str); N];
/// A family of counters, one per combination of labels.
type Counters<const N: usize> = Family<Words<N>, Counter>;
/// A family of histograms, one per combination of labels.
type Histograms<const N: usize> = Family<Words<N>, Histogram, fn() -> Histogram>;

/// Version of the contract between the manager and Terraform modules.
const MODULE_CONTRACT: &str = "v1alpha1";

/// Every metric of the process. Clones share the series.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
    controllers: controller::Families,
    jobs: jobs::Families,
    objects: objects::Families,
    transitions: transitions::Families,
    rest: rest::Families,
}

/// What this build is, for `captf_build_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInfo<'a> {
    /// Version, such as `v0.1.0`.
    pub version: &'a str,
    /// Commit the build was made from.
    pub commit: &'a str,
}

impl Metrics {
    /// The registry with every family in it and no series yet but the build's.
    #[must_use]
    pub fn new(build: BuildInfo<'_>) -> Self {
        let mut registry = Registry::default();
        let info: Family<[(&'static str, String); 3], Gauge> = Family::default();
        let labels = [
            ("version", build.version.to_owned()),
            ("commit", build.commit.to_owned()),
            ("contract", MODULE_CONTRACT.to_owned()),
        ];
        info.get_or_create(&labels).set(1);
        registry.register(
            "captf_build_info",
            alpha("Constant 1; the labels say which build runs"),
            info,
        );
        registry.register_collector(Box::new(process::ProcessCollector::new()));
        let metrics = Self {
            controllers: controller::Families::register(&mut registry),
            jobs: jobs::Families::register(&mut registry),
            objects: objects::Families::register(&mut registry),
            transitions: transitions::Families::register(&mut registry),
            rest: rest::Families::register(&mut registry),
            registry: Arc::new(RwLock::new(registry)),
        };
        metrics.register_collector(metrics.controllers.unfinished_work());
        metrics
    }

    /// All series in the Prometheus text format 0.0.4.
    ///
    /// # Errors
    /// When a collector fails to write itself.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        prometheus_text::encode(&mut text, &registry)?;
        Ok(text)
    }

    fn register_collector(&self, collector: impl prometheus_client::collector::Collector) {
        let mut registry = self
            .registry
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(collector));
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Help texts of our own series say how stable they are (metrics-alerts.md §1).
fn alpha(help: &str) -> String {
    format!("[ALPHA] {help}")
}

/// Registers `family` under `name` and hands it back.
fn registered<M: Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: impl Into<String>,
    family: M,
) -> M {
    registry.register(name, help, family.clone());
    family
}

/// A new family of counters. The name is without `_total`, which the encoder adds.
fn counters<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: impl Into<String>,
) -> Counters<N> {
    registered(registry, name, help, Family::default())
}

/// A new family of histograms whose buckets `make` knows.
fn histograms<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: impl Into<String>,
    make: fn() -> Histogram,
) -> Histograms<N> {
    registered(registry, name, help, Family::new_with_constructor(make))
}

/// Removes the series with these labels, if there is one.
fn forget<S, M, C>(family: &Family<S, M, C>, labels: &S)
where
    S: Clone + std::hash::Hash + Eq + EncodeLabelSet,
    M: EncodeMetric,
    C: MetricConstructor<M>,
{
    family.remove(labels);
}
