//! The Lease object: what a claim writes into it and what a reader takes from it
//! (leases.md §2, §3).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;

use super::DEFAULT_BACKSTOP;
use crate::names::{JobName, Kind, LeaseScope, Op, key, lease_labels};

/// Annotation: operation of the holder Job.
pub const LEASE_OP: &str = "captf.io/lease-op";

/// Annotation: acquire time, RFC 3339 in UTC with nanoseconds, on the API server's clock.
pub const LEASE_ACQUIRED_AT: &str = "captf.io/lease-acquired-at";

/// Annotation: uid of the holder Job, written by the fence; decides nothing by itself
/// (leases.md §6.7).
pub const LEASE_JOB_UID: &str = "captf.io/lease-job-uid";

/// What somebody who wants a lease writes into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which lease.
    pub scope: LeaseScope,
    /// Name of the Lease object.
    pub lease: String,
    /// Namespace of the object, its Job and its leases.
    pub namespace: String,
    /// The Job about to be created.
    pub holder: JobName,
    /// Its operation.
    pub op: Op,
    /// Kind of the object taking it.
    pub owner_kind: Kind,
    /// Name of the object taking it.
    pub owner_name: String,
    /// Name of the Cluster, empty when unknown.
    pub cluster: String,
    /// The Job's `activeDeadlineSeconds` plus 900 s.
    pub backstop: Duration,
}

/// A lease as its readers see it. A lease written by hand may lack or garble
/// anything; every field has a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseView {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Its uid, for guarded writes.
    pub uid: String,
    /// Its resourceVersion, for guarded writes.
    pub resource_version: String,
    /// Job name in `spec.holderIdentity`; empty when there is none.
    pub holder: String,
    /// Operation the holder runs, as written in `captf.io/lease-op`.
    pub op: String,
    /// When it was taken or last refreshed, on the API server's clock.
    pub acquired_at: Timestamp,
    /// How old it may get whatever its holder.
    pub backstop: Duration,
    /// Kind in the owner label.
    pub owner_kind: String,
    /// Name in the owner label (shortened when over 63 characters).
    pub owner_name: String,
    /// Cluster in the cluster-name label.
    pub cluster: String,
    /// Value of the label `captf.io/lease`.
    pub lease: String,
}

impl Claim {
    fn labels(&self) -> BTreeMap<String, String> {
        lease_labels(self.scope, self.owner_kind, &self.owner_name, &self.cluster)
    }
}

impl LeaseView {
    /// Reads a Lease (leases.md §3): the acquire time is the annotation's, else
    /// `spec.acquireTime`, else the creation time; the backstop is
    /// `leaseDurationSeconds` when positive, else 4500 s.
    #[must_use]
    pub fn read(lease: &Lease) -> Self {
        let meta = &lease.metadata;
        let label = |key: &str| text(meta.labels.as_ref(), key);
        let spec = lease.spec.as_ref();
        let written = text(meta.annotations.as_ref(), LEASE_ACQUIRED_AT)
            .parse::<Timestamp>()
            .ok();
        let acquired_at = written
            .or_else(|| spec.and_then(|s| s.acquire_time.as_ref()).map(|t| t.0))
            .or_else(|| meta.creation_timestamp.as_ref().map(|t| t.0))
            .unwrap_or(Timestamp::UNIX_EPOCH);
        let backstop = spec
            .and_then(|s| s.lease_duration_seconds)
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map_or(DEFAULT_BACKSTOP, Duration::from_secs);
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            holder: spec
                .and_then(|s| s.holder_identity.clone())
                .unwrap_or_default(),
            op: text(meta.annotations.as_ref(), LEASE_OP),
            acquired_at,
            backstop,
            owner_kind: label(key::OWNER_KIND),
            owner_name: label(key::OWNER_NAME),
            cluster: label(key::CLUSTER_NAME),
            lease: label(key::LEASE),
        }
    }

    /// Age at `now`; negative when the clocks disagree.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.acquired_at)
    }
}

/// The Lease that `claim` creates (leases.md §2).
#[must_use]
pub fn taken(claim: &Claim, now: Timestamp) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(claim.lease.clone()),
            namespace: Some(claim.namespace.clone()),
            labels: Some(claim.labels()),
            annotations: Some(annotations(claim, now)),
            ..ObjectMeta::default()
        },
        spec: Some(spec(claim, now)),
    }
}

/// The Lease that `claim` writes over `existing`, whoever held it: labels and spec
/// as a whole, our annotations set, foreign ones kept, identity and
/// resourceVersion as read (leases.md §2). A takeover removes the mark of the
/// previous holder's fence.
#[must_use]
pub fn refreshed_for(claim: &Claim, existing: &Lease, now: Timestamp) -> Lease {
    let mut lease = existing.clone();
    let takeover = LeaseView::read(existing).holder != claim.holder.as_str();
    let kept = lease.metadata.annotations.get_or_insert_default();
    if takeover {
        kept.remove(LEASE_JOB_UID);
    }
    kept.extend(annotations(claim, now));
    lease.metadata.labels = Some(claim.labels());
    lease.metadata.managed_fields = None;
    lease.spec = Some(spec(claim, now));
    lease
}

/// The Lease that the fence writes over `existing`: the uid of the holder's Job and
/// nothing else, so that the acquire time stays (leases.md §6.7). It changes the
/// resourceVersion, which makes the late write of anybody who judged the lease
/// before it conflict. A lease that names the uid already was fenced for this Job
/// before; then the write changes nothing, and need not (leases.md §14).
#[must_use]
pub fn confirmed(existing: &Lease, job_uid: &str) -> Lease {
    let mut lease = existing.clone();
    lease
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(LEASE_JOB_UID.to_owned(), job_uid.to_owned());
    lease.metadata.managed_fields = None;
    lease
}

fn annotations(claim: &Claim, now: Timestamp) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LEASE_OP.to_owned(), claim.op.as_str().to_owned()),
        (LEASE_ACQUIRED_AT.to_owned(), now.to_string()),
    ])
}

fn spec(claim: &Claim, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(claim.holder.as_str().to_owned()),
        acquire_time: Some(MicroTime(now)),
        lease_duration_seconds: Some(i32::try_from(claim.backstop.as_secs()).unwrap_or(i32::MAX)),
        ..LeaseSpec::default()
    }
}

fn text(map: Option<&BTreeMap<String, String>>, key: &str) -> String {
    map.and_then(|m| m.get(key)).cloned().unwrap_or_default()
}
