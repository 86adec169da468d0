//! The Jobs of this manager, as rules see them, without their pod templates (manager.md §4).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::owner::controlled_by;
use super::store::{Index, Name, Store};
use crate::jobs::facts::JobFacts;
use crate::names::{Kind, ObjectKey, Op, key, label_value};
use crate::operator::watch::{LeanMeta, Wire};

/// Annotations with this prefix are kept; no rule reads another.
const OUR_ANNOTATIONS: &str = "captf.io/";

/// One Job of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// The namespace of the Job and of its owner.
    pub namespace: String,
    /// What rules read: names, marks, times, outcome.
    pub facts: JobFacts,
    /// The object its controller reference names; `None` when that is none of our kinds.
    pub controller: Option<ObjectKey>,
    /// `spec.activeDeadlineSeconds`.
    pub active_deadline_seconds: Option<i64>,
}

impl JobView {
    fn label(&self, key: &str) -> &str {
        self.facts.labels.get(key).map_or("", String::as_str)
    }

    fn owner(&self) -> OwnerLabels {
        OwnerLabels {
            namespace: self.namespace.clone(),
            kind: self.label(key::OWNER_KIND).to_owned(),
            name: self.label(key::OWNER_NAME).to_owned(),
        }
    }
}

/// What is decoded of a Job.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::operator) struct JobWire {
    #[serde(deserialize_with = "LeanMeta::deserialize_meta")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: JobSpecWire,
    #[serde(default)]
    status: Option<JobStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobSpecWire {
    active_deadline_seconds: Option<i64>,
}

impl Wire for JobWire {
    type Kind = Job;
    type View = JobView;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn view(mut self) -> JobView {
        if let Some(annotations) = &mut self.metadata.annotations {
            annotations.retain(|name, _| name.starts_with(OUR_ANNOTATIONS));
        }
        JobView {
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            controller: controlled_by(&self.metadata),
            facts: JobFacts::new(&self.metadata, self.status.as_ref()),
            active_deadline_seconds: self.spec.active_deadline_seconds,
        }
    }
}

/// Owner labels of a Job, in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OwnerLabels {
    namespace: String,
    kind: String,
    name: String,
}

/// Namespace and cluster label.
type ClusterName = (String, String);

/// Jobs by owner, and the unfinished ones counted.
#[derive(Default)]
pub struct JobIndex {
    by_owner: HashMap<OwnerLabels, BTreeMap<String, Arc<JobView>>>,
    /// Unfinished Jobs.
    unfinished_by_cluster: HashMap<ClusterName, usize>,
    unfinished: usize,
    /// Unfinished Jobs by kind of owner and operation, where the labels name both.
    active: BTreeMap<(Kind, Op), u64>,
}

impl JobIndex {
    /// Where an unfinished Job counts: its cluster, and its run where the labels name one.
    fn counted(view: &JobView) -> Option<(ClusterName, Option<(Kind, Op)>)> {
        if view.facts.state.is_finished() {
            return None;
        }
        let cluster = (
            view.namespace.clone(),
            view.label(key::CLUSTER_NAME).to_owned(),
        );
        let kind = view.label(key::OWNER_KIND).parse().ok();
        Some((cluster, kind.zip(view.facts.op)))
    }
}

impl Index<JobView> for JobIndex {
    fn insert(&mut self, name: &Name, view: &Arc<JobView>) {
        self.by_owner
            .entry(view.owner())
            .or_default()
            .insert(name.name.clone(), Arc::clone(view));
        if let Some((cluster, run)) = Self::counted(view) {
            self.unfinished += 1;
            *self.unfinished_by_cluster.entry(cluster).or_default() += 1;
            if let Some(run) = run {
                *self.active.entry(run).or_default() += 1;
            }
        }
    }

    fn remove(&mut self, name: &Name, view: &Arc<JobView>) {
        let owner = view.owner();
        if let Some(jobs) = self.by_owner.get_mut(&owner) {
            jobs.remove(&name.name);
            if jobs.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        if let Some((cluster, run)) = Self::counted(view) {
            self.unfinished = self.unfinished.saturating_sub(1);
            if let Some(count) = self.unfinished_by_cluster.get_mut(&cluster) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.unfinished_by_cluster.remove(&cluster);
                }
            }
            // A count that fell to 0 stays, so that its series goes to 0 instead of ending.
            if let Some(count) = run.and_then(|run| self.active.get_mut(&run)) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

/// The Jobs of this manager.
pub type JobStore = Store<JobView, JobIndex>;

impl Store<JobView, JobIndex> {
    /// The Jobs whose owner labels name this object, by name.
    ///
    /// A namesake's Jobs that await garbage collection are among them: look at the controller's UID.
    #[must_use]
    pub fn of_owner(&self, owner: &ObjectKey) -> Vec<Arc<JobView>> {
        let labels = OwnerLabels {
            namespace: owner.namespace.clone(),
            kind: owner.kind.as_str().to_owned(),
            name: label_value(&owner.name),
        };
        self.query(|index| {
            index
                .by_owner
                .get(&labels)
                .map(|jobs| jobs.values().cloned().collect())
                .unwrap_or_default()
        })
    }

    /// Jobs that have not finished, in all namespaces (jobs.md §11).
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.query(|index| index.unfinished)
    }

    /// Names of unfinished apply, destroy and restore Jobs that carry this cluster's name and belong to an
    /// object of one of `kinds`, sorted: the second evidence at the gate (leases.md §6.4).
    #[must_use]
    pub fn running_operations(
        &self,
        namespace: &str,
        cluster: &str,
        kinds: &[Kind],
    ) -> Vec<String> {
        let cluster = label_value(cluster);
        let mut names: Vec<String> = self.query(|index| {
            index
                .by_owner
                .iter()
                .filter(|(owner, _)| {
                    owner.namespace == namespace
                        && kinds.iter().any(|kind| kind.as_str() == owner.kind)
                })
                .flat_map(|(_, jobs)| jobs.values())
                .map(|job| &job.facts)
                .filter(|job| !job.state.is_finished() && job.op.is_some_and(Op::mutating))
                .filter(|job| job.labels.get(key::CLUSTER_NAME) == Some(&cluster))
                .map(|job| job.name.clone())
                .collect()
        });
        names.sort();
        names
    }

    /// Jobs of the namespace that carry this cluster's name and have not finished (jobs.md §11).
    #[must_use]
    pub fn unfinished_of_cluster(&self, namespace: &str, cluster: &str) -> usize {
        let cluster = (namespace.to_owned(), label_value(cluster));
        self.query(|index| {
            index
                .unfinished_by_cluster
                .get(&cluster)
                .copied()
                .unwrap_or_default()
        })
    }

    /// Jobs that have not finished, by kind of owner and operation.
    #[must_use]
    pub fn active(&self) -> BTreeMap<(Kind, Op), u64> {
        self.query(|index| index.active.clone())
    }
}
