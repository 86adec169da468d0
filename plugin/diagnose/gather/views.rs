//! What is kept of a pod, an event, a node and the election Lease.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;

use crate::jobs::pod::PodFacts;
use crate::plugin::diagnose::facts::{Election, Event, NodeView, PodView};
use crate::plugin::read::Keyed;
use crate::plugin::read::wire::{Condition, JOB_NAME, Meta};

/// An event as it is decoded.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EventItem {
    metadata: Meta,
    reason: String,
    note: String,
    event_time: Option<Timestamp>,
    series: Option<Series>,
    deprecated_first_timestamp: Option<Timestamp>,
    deprecated_last_timestamp: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Series {
    last_observed_time: Option<Timestamp>,
}

impl Keyed for EventItem {
    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

impl EventItem {
    pub(super) fn view(self) -> Event {
        let first = self.event_time.or(self.deprecated_first_timestamp);
        let last = self.series.and_then(|series| series.last_observed_time);
        Event {
            reason: self.reason,
            note: self.note,
            at: last.or(self.deprecated_last_timestamp).or(first),
            first,
        }
    }
}

/// A node, as far as it tells whether its kubelet is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    conditions: Vec<Condition>,
}

impl Node {
    pub(super) fn view(self, name: String) -> NodeView {
        let mut conditions = self.status.conditions.into_iter();
        let ready = conditions.find(|condition| condition.kind == "Ready");
        NodeView {
            name,
            ready: ready.map(|condition| (condition.status, condition.last_transition_time)),
        }
    }
}

pub(super) fn pod_view(pod: &Pod) -> PodView {
    let status = pod.status.as_ref();
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let scheduled = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled");
    let stops = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let grace = pod
        .metadata
        .deletion_grace_period_seconds
        .unwrap_or_default();
    PodView {
        facts: PodFacts::from(pod),
        job: pod
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(JOB_NAME))
            .cloned()
            .unwrap_or_default(),
        node: pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default(),
        stops,
        stopping_since: stops.map(|stops| crate::plugin::time::plus(stops, -grace)),
        unschedulable: scheduled
            .filter(|condition| condition.status == "False")
            .and_then(|condition| condition.message.clone()),
    }
}

pub(super) fn election_of(lease: Lease) -> Election {
    let spec = lease.spec.unwrap_or_default();
    Election {
        holder: spec.holder_identity.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
        duration_seconds: spec.lease_duration_seconds.map_or(15, i64::from),
    }
}

/// Seconds since the election Lease ran out; nothing while it is good.
pub(crate) fn election_expired_for(election: &Election, now: Timestamp) -> Option<i64> {
    let end = crate::plugin::time::plus(election.renewed?, election.duration_seconds);
    (now > end).then(|| crate::plugin::time::age_seconds(now, end))
}
