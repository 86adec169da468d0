//! Who owns an object, and whether that owner agrees (lifecycle.md §3, rbac-security.md T2).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ObjectMeta;

use crate::api::capi::{self, Cluster};
use crate::api::{ApiKind, keys::annotations, keys::labels};

/// What the owner references of a TerraformCluster lead to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClusterOwner<'a> {
    /// No reference to a Cluster.
    Unowned,
    /// The Cluster that the reference names does not exist.
    Gone {
        /// Its name.
        name: &'a str,
    },
    /// The Cluster does not reference this object back: the reference is forged or stale, and
    /// nothing may be written to that Cluster or run for it.
    Mismatch {
        /// Its name.
        name: &'a str,
        /// Which check failed.
        why: Mismatch,
    },
    /// The Cluster owns the object.
    Valid(&'a Cluster),
}

/// Why an owner does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// `spec.infrastructureRef` names something else, or nothing.
    InfrastructureRef,
    /// The reference carries the uid of an earlier Cluster of that name.
    Uid,
    /// The label `cluster.x-k8s.io/cluster-name` names another Cluster.
    ClusterLabel,
}

impl Mismatch {
    /// What a message says about it.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::InfrastructureRef => "its spec.infrastructureRef does not name this object",
            Self::Uid => "the owner reference carries another uid than the Cluster has",
            Self::ClusterLabel => "the label cluster.x-k8s.io/cluster-name names another Cluster",
        }
    }
}

/// The owner reference to a Cluster. Cluster API sets no controller flag on it (capi.md §3), so it
/// is found by group and kind.
#[must_use]
pub fn cluster_reference(object: &ObjectMeta) -> Option<&OwnerReference> {
    object.owner_references.iter().flatten().find(|reference| {
        let group = reference
            .api_version
            .split_once('/')
            .map_or("", |(group, _)| group);
        reference.kind == "Cluster" && group == capi::GROUP
    })
}

/// Judges the owner of a TerraformCluster; `found` is the Cluster its reference names, as read.
///
/// The owner counts when its `spec.infrastructureRef` names the object's group, kind and name, the
/// uids agree, and the cluster-name label, if there is one, names it (lifecycle.md §3).
#[must_use]
pub fn cluster_owner<'a>(object: &'a ObjectMeta, found: Option<&'a Cluster>) -> ClusterOwner<'a> {
    let Some(reference) = cluster_reference(object) else {
        return ClusterOwner::Unowned;
    };
    let name = reference.name.as_str();
    let Some(cluster) = found else {
        return ClusterOwner::Gone { name };
    };
    let own_name = object.name.as_deref().unwrap_or_default();
    let points_back = cluster
        .spec
        .infrastructure_ref
        .as_ref()
        .is_some_and(|back| back.names(ApiKind::TerraformCluster, own_name));
    let label = label(object, labels::CLUSTER_NAME);
    let why = if !points_back {
        Mismatch::InfrastructureRef
    } else if cluster.metadata.uid.as_deref() != Some(reference.uid.as_str()) {
        Mismatch::Uid
    } else if label.is_some_and(|label| label != name) {
        Mismatch::ClusterLabel
    } else {
        return ClusterOwner::Valid(cluster);
    };
    ClusterOwner::Mismatch { name, why }
}

/// The Cluster's name: the object's label when it is not empty, else its owner's name, else empty
/// (naming.md §3).
#[must_use]
pub fn cluster_name(object: &ObjectMeta) -> String {
    let owner = cluster_reference(object).map(|reference| reference.name.as_str());
    crate::names::cluster_name(label(object, labels::CLUSTER_NAME), owner).to_owned()
}

/// Whether the object is paused, by its own annotations or by its Cluster, and by which
/// (conditions-events.md §3.13).
#[must_use]
pub fn paused(object: &ObjectMeta, cluster_paused: bool) -> Option<&'static str> {
    let annotated = |key| {
        object
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(key))
    };
    if cluster_paused {
        Some("Cluster spec.paused is set to true")
    } else if annotated(annotations::PAUSED) {
        Some("the annotation cluster.x-k8s.io/paused is set")
    } else if annotated(annotations::DELETE_FOR_MOVE) {
        Some("the object is being moved to another management cluster")
    } else {
        None
    }
}

fn label<'a>(object: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    object.labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::{ClusterOwner, Mismatch, cluster_name, cluster_owner, paused};
    use crate::api::capi::Cluster;
    use kube::core::ObjectMeta;

    fn object(extra: serde_json::Value) -> ObjectMeta {
        let mut meta = json!({
            "name": "c1", "namespace": "t1",
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c1", "uid": "u1"}]
        });
        meta.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        serde_json::from_value(meta).unwrap()
    }

    fn cluster(uid: &str, kind: &str, name: &str) -> Cluster {
        serde_json::from_value(json!({
            "metadata": {"name": "c1", "uid": uid},
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name}}
        }))
        .unwrap()
    }

    fn why(object: &ObjectMeta, cluster: &Cluster) -> Option<Mismatch> {
        match cluster_owner(object, Some(cluster)) {
            ClusterOwner::Mismatch { why, .. } => Some(why),
            _ => None,
        }
    }

    #[test]
    fn the_owner_is_found_without_a_controller_flag() {
        let found = cluster("u1", "TerraformCluster", "c1");
        assert_eq!(
            cluster_owner(&object(json!({})), Some(&found)),
            ClusterOwner::Valid(&found)
        );
    }

    #[test]
    fn no_reference_is_unowned_and_a_missing_cluster_is_gone() {
        assert_eq!(
            cluster_owner(&object(json!({"ownerReferences": []})), None),
            ClusterOwner::Unowned
        );
        assert_eq!(
            cluster_owner(&object(json!({})), None),
            ClusterOwner::Gone { name: "c1" }
        );
    }

    #[test]
    fn an_owner_that_does_not_point_back_is_a_mismatch() {
        let o = object(json!({}));
        assert_eq!(
            why(&o, &cluster("u1", "TerraformCluster", "c2")),
            Some(Mismatch::InfrastructureRef)
        );
        assert_eq!(
            why(&o, &cluster("u1", "TerraformMachine", "c1")),
            Some(Mismatch::InfrastructureRef)
        );
        assert_eq!(
            why(&o, &cluster("u2", "TerraformCluster", "c1")),
            Some(Mismatch::Uid)
        );
        let labelled = object(json!({"labels": {"cluster.x-k8s.io/cluster-name": "other"}}));
        assert_eq!(
            why(&labelled, &cluster("u1", "TerraformCluster", "c1")),
            Some(Mismatch::ClusterLabel)
        );
    }

    #[test]
    fn the_label_names_the_cluster_before_the_owner_does() {
        assert_eq!(
            cluster_name(&object(
                json!({"labels": {"cluster.x-k8s.io/cluster-name": "l"}})
            )),
            "l"
        );
        assert_eq!(
            cluster_name(&object(
                json!({"labels": {"cluster.x-k8s.io/cluster-name": ""}})
            )),
            "c1"
        );
        assert_eq!(cluster_name(&object(json!({"ownerReferences": []}))), "");
    }

    #[test]
    fn pause_comes_from_the_cluster_the_annotation_or_a_move() {
        assert!(paused(&object(json!({})), false).is_none());
        assert!(paused(&object(json!({})), true).is_some());
        for key in [
            "cluster.x-k8s.io/paused",
            "clusterctl.cluster.x-k8s.io/delete-for-move",
        ] {
            assert!(
                paused(&object(json!({"annotations": {key: ""}})), false).is_some(),
                "{key}"
            );
        }
    }
}
