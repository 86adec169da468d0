//! Answers as they are decoded: only the fields that a report uses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::core::ObjectMeta;
use serde::Deserialize;

use super::pages::Keyed;
use crate::lease::{LEASE_JOB_UID, LeaseView};
use crate::names::key;

/// Label that names the Job of a pod.
pub(crate) const JOB_NAME: &str = "batch.kubernetes.io/job-name";

/// Metadata without the parts that are large and never read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    /// Name.
    pub(crate) name: String,
    /// Namespace, empty for a cluster-scoped object.
    pub(crate) namespace: String,
    /// UID.
    pub(crate) uid: String,
    /// Version for guarded writes.
    pub(crate) resource_version: String,
    /// Generation of the spec.
    pub(crate) generation: i64,
    /// Creation time.
    pub(crate) creation_timestamp: Option<Timestamp>,
    /// When deletion was asked for, plus the grace.
    pub(crate) deletion_timestamp: Option<Timestamp>,
    /// The grace of the deletion, in seconds.
    pub(crate) deletion_grace_period_seconds: Option<i64>,
    /// Labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Finalizers.
    pub(crate) finalizers: Vec<String>,
    /// Owners.
    pub(crate) owner_references: Vec<Owner>,
    /// Who wrote what when; the fields themselves are skipped.
    pub(crate) managed_fields: Vec<Written>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    /// API group and version.
    pub(crate) api_version: String,
    /// Kind.
    pub(crate) kind: String,
    /// Name.
    pub(crate) name: String,
    /// UID.
    pub(crate) uid: String,
    /// Whether it is the managing controller.
    pub(crate) controller: bool,
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Written {
    /// The server's time of the write, whole seconds.
    pub(crate) time: Option<Timestamp>,
    /// Empty for the object itself, `status` for its status.
    pub(crate) subresource: String,
    /// The fields that were written, as a tree.
    #[serde(rename = "fieldsV1")]
    pub(crate) fields: serde_json::Value,
}

impl Meta {
    /// The same metadata in the form that the core's rules read.
    pub(crate) fn object_meta(&self) -> ObjectMeta {
        let owners = self.owner_references.iter().map(|owner| OwnerReference {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            controller: Some(owner.controller),
            ..OwnerReference::default()
        });
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            generation: Some(self.generation),
            creation_timestamp: self.creation_timestamp.map(Time),
            deletion_timestamp: self.deletion_timestamp.map(Time),
            labels: Some(self.labels.clone()),
            annotations: Some(self.annotations.clone()),
            owner_references: Some(owners.collect()),
            ..ObjectMeta::default()
        }
    }

    /// Label value, empty when unset.
    pub(crate) fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("", String::as_str)
    }

    /// Annotation value, when set.
    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The newest write, by the API server's clock.
    pub(crate) fn written_at(&self) -> Option<Timestamp> {
        self.managed_fields
            .iter()
            .filter_map(|entry| entry.time)
            .max()
    }

    /// The newest write by whoever set this annotation.
    pub(crate) fn annotation_written_at(&self, key: &str) -> Option<Timestamp> {
        let field = format!("f:{key}");
        let writers = self
            .managed_fields
            .iter()
            .filter(|entry| !entry.fields["f:metadata"]["f:annotations"][&field].is_null());
        writers.filter_map(|entry| entry.time).max()
    }

    /// The newest write of anything but the status.
    pub(crate) fn spec_written_at(&self) -> Option<Timestamp> {
        let outside_status = self
            .managed_fields
            .iter()
            .filter(|entry| entry.subresource.is_empty());
        outside_status.filter_map(|entry| entry.time).max()
    }
}

/// A Lease of ours.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LeaseItem {
    #[serde(default)]
    pub(crate) metadata: Meta,
    pub(crate) spec: Option<LeaseSpec>,
}

impl Keyed for LeaseItem {
    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

impl LeaseItem {
    /// Newest write by the API server's clock, for the skew of a manager's clock.
    pub(crate) fn written_at(&self) -> Option<Timestamp> {
        self.metadata.written_at()
    }

    /// Whether the operator's own label is on it.
    pub(crate) fn is_managed(&self) -> bool {
        self.metadata.label(key::MANAGED) == "true"
    }

    /// Whether the fence has written the holder's Job into it (leases.md §6.7).
    pub(crate) fn is_fenced(&self) -> bool {
        self.metadata.annotation(LEASE_JOB_UID).is_some()
    }

    /// The lease as every reader of the operator sees it.
    pub(crate) fn view(&self) -> LeaseView {
        LeaseView::read(&Lease {
            metadata: self.metadata.object_meta(),
            spec: self.spec.clone(),
        })
    }
}

/// Metadata of an object, for lists that ask for no more.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct MetaItem {
    #[serde(default)]
    pub(crate) metadata: Meta,
}

impl Keyed for MetaItem {
    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

/// A condition of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: String,
    /// Reason.
    pub(crate) reason: String,
    /// Message.
    pub(crate) message: String,
    /// Generation that was seen.
    pub(crate) observed_generation: Option<i64>,
    /// When the status last changed.
    pub(crate) last_transition_time: Option<Timestamp>,
}

/// A Job without its pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobItem {
    pub(crate) metadata: Meta,
    pub(crate) spec: JobSpec,
    pub(crate) status: JobStatus,
}

impl Keyed for JobItem {
    fn key(&self) -> (&str, &str) {
        (&self.metadata.namespace, &self.metadata.name)
    }
}

/// The parts of a Job's spec that bound its run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobSpec {
    /// Limit of the run, in seconds.
    pub(crate) active_deadline_seconds: Option<i64>,
    /// Whether it is held back.
    pub(crate) suspend: bool,
}

impl Keyed for Pod {
    fn key(&self) -> (&str, &str) {
        (
            self.metadata.namespace.as_deref().unwrap_or_default(),
            self.metadata.name.as_deref().unwrap_or_default(),
        )
    }
}
