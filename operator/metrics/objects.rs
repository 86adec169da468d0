//! The gauges of single objects. Their series end with their object (metrics-alerts.md §2).

use std::borrow::Cow;
use std::sync::atomic::AtomicU64;

use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::names::{ObjectKey, Op};

use super::{Metrics, alpha, forget, registered};

type ObjectLabels = [(&'static str, Cow<'static, str>); 3];
type RunLabels = [(&'static str, Cow<'static, str>); 4];
type ObjectGauges = Family<ObjectLabels, Gauge>;

/// A condition as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriState {
    /// Status True.
    True,
    /// Status False.
    False,
    /// Status Unknown, or no such condition.
    Unknown,
}

impl TriState {
    const fn value(self) -> i64 {
        match self {
            Self::True => 1,
            Self::False => 0,
            Self::Unknown => -1,
        }
    }
}

#[derive(Clone)]
pub(super) struct Families {
    ready: ObjectGauges,
    healthy: ObjectGauges,
    drift: ObjectGauges,
    state_resources: ObjectGauges,
    state_bytes: ObjectGauges,
    inputs_bytes: ObjectGauges,
    last_success: Family<RunLabels, Gauge<f64, AtomicU64>>,
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let mut gauges = |name: &str, help: &str| {
            registered(registry, name, alpha(help), ObjectGauges::default())
        };
        Self {
            ready: gauges(
                "captf_ready",
                "Condition Ready: 1 True, 0 False, -1 Unknown or absent",
            ),
            healthy: gauges(
                "captf_infrastructure_healthy",
                "Condition InfrastructureHealthy: 1 True, 0 False, -1 Unknown or absent",
            ),
            drift: gauges(
                "captf_drift_detected",
                "1 while condition DriftDetected is True, else 0",
            ),
            state_resources: gauges("captf_state_resources", "Managed resources in the state"),
            state_bytes: gauges(
                "captf_state_bytes",
                "Compressed bytes of the state over its Secrets",
            ),
            inputs_bytes: gauges("captf_inputs_bytes", "Bytes of the rendered inputs"),
            last_success: registered(
                registry,
                "captf_last_success_timestamp_seconds",
                alpha("When the newest successful Job of the operation finished, in Unix seconds"),
                Family::default(),
            ),
        }
    }
}

fn object_labels(object: &ObjectKey) -> ObjectLabels {
    [
        ("kind", Cow::Borrowed(object.kind.as_str())),
        ("namespace", Cow::Owned(object.namespace.clone())),
        ("name", Cow::Owned(object.name.clone())),
    ]
}

fn run_labels(object: &ObjectKey, op: Op) -> RunLabels {
    let [kind, namespace, name] = object_labels(object);
    [kind, namespace, name, ("op", Cow::Borrowed(op.as_str()))]
}

fn set(family: &ObjectGauges, object: &ObjectKey, value: i64) {
    family.get_or_create(&object_labels(object)).set(value);
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Metrics {
    /// Condition `Ready` at the end of a pass.
    pub fn ready(&self, object: &ObjectKey, state: TriState) {
        set(&self.objects.ready, object, state.value());
    }

    /// Condition `InfrastructureHealthy` at the end of a pass.
    pub fn infrastructure_healthy(&self, object: &ObjectKey, state: TriState) {
        set(&self.objects.healthy, object, state.value());
    }

    /// Whether condition `DriftDetected` is True at the end of a pass.
    pub fn drift_detected(&self, object: &ObjectKey, detected: bool) {
        set(&self.objects.drift, object, i64::from(detected));
    }

    /// Managed resources (not data sources) and compressed bytes of a state that was just read.
    pub fn state_read(&self, object: &ObjectKey, resources: usize, bytes: usize) {
        set(&self.objects.state_resources, object, whole(resources));
        set(&self.objects.state_bytes, object, whole(bytes));
    }

    /// Bytes of `main.tf.json` and `terraform.tfvars.json` together, also when too large; 0 is not recorded.
    pub fn inputs_size(&self, object: &ObjectKey, bytes: usize) {
        if bytes > 0 {
            set(&self.objects.inputs_bytes, object, whole(bytes));
        }
    }

    /// When the newest successful Job of `op` finished; `None` while the operation is not scheduled.
    ///
    /// Only apply, destroy, refresh and drift have this series.
    pub fn last_success(&self, object: &ObjectKey, op: Op, finished: Option<Timestamp>) {
        if !matches!(op, Op::Apply | Op::Destroy | Op::Refresh | Op::Drift) {
            return;
        }
        let labels = run_labels(object, op);
        match finished {
            Some(at) => {
                self.objects
                    .last_success
                    .get_or_create(&labels)
                    .set(at.as_duration().as_secs_f64());
            }
            None => forget(&self.objects.last_success, &labels),
        }
    }

    /// The object is gone: its series end. A namesake of another kind keeps its own.
    pub fn object_gone(&self, object: &ObjectKey) {
        let Families {
            ready,
            healthy,
            drift,
            state_resources,
            state_bytes,
            inputs_bytes,
            last_success,
        } = &self.objects;
        let labels = object_labels(object);
        for family in [
            ready,
            healthy,
            drift,
            state_resources,
            state_bytes,
            inputs_bytes,
        ] {
            forget(family, &labels);
        }
        for op in Op::ALL {
            forget(last_success, &run_labels(object, op));
        }
    }
}
