//! Which objects a change wakes (lifecycle.md §16). Leases wake nobody; lease waits come back by
//! themselves.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Resource;

use super::jobs::JobView;
use super::metadata::MetadataOf;
use super::owner::owners_of_secret;
use super::store::{Change, Store};
use crate::api::capi::Cluster;
use crate::api::keys::{TRUE, annotations, labels};
use crate::api::{GROUP, IdentityKind, TerraformCluster, TerraformClusterIdentity};
use crate::names::{Kind, ObjectKey};

/// The object itself.
pub(super) fn itself<K: Resource>(kind: Kind, change: &Change<K>) -> ObjectKey {
    let metadata = change.latest().meta();
    ObjectKey::new(
        kind,
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The object itself, but for a change of nothing but its block-move annotation: that is this manager's
/// own mark around a start, and a start that fails must wait for its backoff.
pub(super) fn changed_cluster(change: &Change<TerraformCluster>) -> Option<ObjectKey> {
    let marked_only = change.update().is_some_and(|(old, new)| {
        block_move(old) != block_move(new) && unmarked(old) == unmarked(new)
    });
    (!marked_only).then(|| itself(Kind::TerraformCluster, change))
}

fn block_move(cluster: &TerraformCluster) -> Option<&String> {
    cluster
        .metadata
        .annotations
        .as_ref()?
        .get(annotations::BLOCK_MOVE)
}

/// The object without block-move and without what every write changes.
fn unmarked(cluster: &TerraformCluster) -> TerraformCluster {
    let mut cluster = cluster.clone();
    cluster.metadata.resource_version = None;
    cluster
        .metadata
        .annotations
        .get_or_insert_default()
        .remove(annotations::BLOCK_MOVE);
    cluster
}

/// The object that controls a Job.
pub(super) fn controller_of_job(change: &Change<JobView>) -> Option<ObjectKey> {
    change.latest().controller.clone()
}

/// The owners of a managed Secret; those of a credential mirror only when it is gone.
pub(super) fn owners(change: &Change<MetadataOf<Secret>>) -> Vec<ObjectKey> {
    let metadata = &change.latest().metadata;
    let is_mirror = metadata
        .labels
        .iter()
        .flatten()
        .any(|(key, value)| key == labels::MIRRORED && value == TRUE);
    if is_mirror && !change.is_deletion() {
        vec![]
    } else {
        owners_of_secret(metadata)
    }
}

/// The infrastructure of a Cluster that came, or whose reference, pause, initialization of the control
/// plane, version of the topology, endpoint or network changed. After a change of the reference both
/// objects are woken. A deletion wakes nobody.
pub(super) fn infrastructure(change: &Change<Cluster>) -> Vec<ObjectKey> {
    let mut keys: Vec<ObjectKey> = match change {
        Change::Deleted(_) => vec![],
        Change::Added(cluster) => referenced(cluster).into_iter().collect(),
        Change::Updated { old, new } if matters(old, new) => {
            referenced(old).into_iter().chain(referenced(new)).collect()
        }
        Change::Updated { .. } => vec![],
    };
    keys.dedup();
    keys
}

fn referenced(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster
        .spec
        .infrastructure_ref
        .as_ref()
        .filter(|reference| reference.api_group == GROUP)?;
    let namespace = cluster.metadata.namespace.clone().unwrap_or_default();
    Some(ObjectKey::new(
        reference.kind.parse().ok()?,
        namespace,
        reference.name.clone(),
    ))
}

fn matters(old: &Cluster, new: &Cluster) -> bool {
    let initialized = |cluster: &Cluster| {
        cluster
            .status
            .initialization
            .control_plane_initialized
            .unwrap_or_default()
    };
    old.spec.infrastructure_ref != new.spec.infrastructure_ref
        || old.spec.paused != new.spec.paused
        || initialized(old) != initialized(new)
        || old.spec.topology != new.spec.topology
        || old.spec.control_plane_endpoint != new.spec.control_plane_endpoint
        || old.spec.cluster_network != new.spec.cluster_network
}

/// The TerraformClusters that name an identity which came, went, or whose spec changed.
pub(super) fn users_of_identity(
    change: &Change<TerraformClusterIdentity>,
    clusters: &Store<TerraformCluster>,
) -> Vec<ObjectKey> {
    if change
        .update()
        .is_some_and(|(old, new)| old.metadata.generation == new.metadata.generation)
    {
        return vec![];
    }
    let Some(identity) = change.latest().metadata.name.as_deref() else {
        return vec![];
    };
    keys(clusters, |cluster| {
        cluster
            .spec
            .workspace
            .identity_ref
            .as_ref()
            .is_some_and(|reference| {
                reference.name == identity
                    && reference
                        .kind
                        .as_ref()
                        .is_none_or(|kind| *kind == IdentityKind::TerraformClusterIdentity)
            })
    })
}

/// The TerraformClusters of a namespace that came or whose labels changed: they decide what an
/// identity allows.
pub(super) fn inhabitants(
    change: &Change<MetadataOf<Namespace>>,
    clusters: &Store<TerraformCluster>,
) -> Vec<ObjectKey> {
    let relabelled = match change {
        Change::Added(_) => true,
        Change::Updated { old, new } => old.metadata.labels != new.metadata.labels,
        Change::Deleted(_) => false,
    };
    match change.latest().metadata.name.as_deref() {
        Some(namespace) if relabelled => keys(clusters, |cluster| {
            cluster.metadata.namespace.as_deref() == Some(namespace)
        }),
        _ => vec![],
    }
}

/// A kind that `variablesFrom` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

/// The TerraformClusters whose `variablesFrom` names an object that opted in as a source.
pub(super) fn users_of_source<K>(
    kind: SourceKind,
    change: &Change<MetadataOf<K>>,
    clusters: &Store<TerraformCluster>,
) -> Vec<ObjectKey> {
    let metadata = &change.latest().metadata;
    let (namespace, Some(source)) = (metadata.namespace.as_deref(), metadata.name.as_deref())
    else {
        return vec![];
    };
    keys(clusters, |cluster| {
        let mut sources =
            cluster
                .spec
                .workspace
                .variables_from
                .iter()
                .filter_map(|from| match kind {
                    SourceKind::ConfigMap => from.config_map_ref.as_ref(),
                    SourceKind::Secret => from.secret_ref.as_ref(),
                });
        cluster.metadata.namespace.as_deref() == namespace
            && sources.any(|named| named.name == source)
    })
}

fn keys(
    clusters: &Store<TerraformCluster>,
    wanted: impl Fn(&TerraformCluster) -> bool,
) -> Vec<ObjectKey> {
    clusters
        .matching(|_, cluster| wanted(cluster))
        .iter()
        .map(|cluster| {
            let metadata = &cluster.metadata;
            ObjectKey::new(
                Kind::TerraformCluster,
                metadata.namespace.clone().unwrap_or_default(),
                metadata.name.clone().unwrap_or_default(),
            )
        })
        .collect()
}
