//! The `process_*` series, read from `/proc` at each scrape; absent where there is no `/proc`.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Linux reports process times in this unit on every architecture it runs containers on.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct ProcessCollector {
    started: Option<f64>,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        Self {
            started: start_time(),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: Option<f64>| match value {
            None => Ok(()),
            Some(value) => {
                let gauge = ConstGauge::new(value);
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
            }
        };
        gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds",
            self.started,
        )?;
        gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes",
            status_bytes("VmRSS:"),
        )?;
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes",
            status_bytes("VmSize:"),
        )?;
        gauge(
            "process_open_fds",
            "Number of open file descriptors",
            open_files(),
        )?;
        gauge(
            "process_max_fds",
            "Maximum number of open file descriptors",
            max_files(),
        )?;
        if let Some(seconds) = cpu_seconds() {
            let counter = ConstCounter::new(seconds);
            let help = "Total user and system CPU time spent in seconds";
            counter.encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

/// Field `index` of `/proc/self/stat`, counted from the process state, which is field 0.
///
/// The name before it is in parentheses and may hold spaces.
fn stat_field(index: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(index)?
        .parse()
        .ok()
}

fn cpu_seconds() -> Option<f64> {
    Some((stat_field(11)? + stat_field(12)?) / TICKS_PER_SECOND)
}

fn start_time() -> Option<f64> {
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = system
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(boot + stat_field(19)? / TICKS_PER_SECOND)
}

fn status_bytes(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix(key))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kib * 1024.0)
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}

fn max_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
