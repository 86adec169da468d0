//! Series that are read when they are asked for.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};

use crate::client::Clock;
use crate::names::{Kind, Op};

use super::{Metrics, Words, alpha};

/// Below this many seconds the offset counts as none (leases.md §12).
const TOLERATED_OFFSET: f64 = 2.0;

impl Metrics {
    /// `captf_jobs_active`: unfinished Jobs by kind of owner and operation, counted by `source` at each scrape.
    pub fn track_active_jobs(
        &self,
        source: impl Fn() -> BTreeMap<(Kind, Op), u64> + Send + Sync + 'static,
    ) {
        self.register_collector(ActiveJobs { source });
    }

    /// `captf_clock_offset_seconds`: how far the API server's clock is ahead, as last measured.
    pub fn track_clock(&self, clock: Clock) {
        self.register_collector(ClockOffset { clock });
    }
}

struct ActiveJobs<F> {
    source: F,
}

impl<F> fmt::Debug for ActiveJobs<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveJobs").finish_non_exhaustive()
    }
}

impl<F: Fn() -> BTreeMap<(Kind, Op), u64> + Send + Sync + 'static> Collector for ActiveJobs<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let family: Family<Words<2>, Gauge> = Family::default();
        for ((kind, op), count) in (self.source)() {
            let labels = [("kind", kind.as_str()), ("op", op.as_str())];
            family
                .get_or_create(&labels)
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let help = alpha("Jobs that have not finished");
        family.encode(encoder.encode_descriptor(
            "captf_jobs_active",
            &help,
            None,
            family.metric_type(),
        )?)
    }
}

#[derive(Debug)]
struct ClockOffset {
    clock: Clock,
}

impl Collector for ClockOffset {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let measured = self.clock.measured_offset().unwrap_or_default();
        let gauge = ConstGauge::new(if measured.abs() < TOLERATED_OFFSET {
            0.0
        } else {
            measured.round()
        });
        let help = alpha("How many seconds the API server's clock is ahead of this process's");
        gauge.encode(encoder.encode_descriptor(
            "captf_clock_offset_seconds",
            &help,
            None,
            gauge.metric_type(),
        )?)
    }
}
