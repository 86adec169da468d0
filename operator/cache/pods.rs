//! What was last seen of runner pods, the vanished ones included (README, decision 12).
//!
//! A drained, deleted or deadline-killed pod vanishes about when its Job becomes Failed, and its
//! result with it. So the last state of a pod stays here after the pod is gone: its result until the
//! Job is bookkept, and that it ended, which proves a state lock stale, for as long as a lock of it
//! could matter. Leases are never judged by what is here: they read pods live.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use tokio::time::Instant;

use super::store::{Index, Name, Store};
use crate::jobs::pod::{ContainerFacts, PodFacts};
use crate::operator::watch::{LeanMeta, Wire};

/// How long a pod is remembered whose Job went without being bookkept: past the longest deadline a
/// Job can have (a day) and the 900 s after it that end every doubt (README, decision 13).
const REMEMBERED: Duration = Duration::from_secs(86_400 + 900 + 3_600);

/// A runner pod as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPod {
    /// Namespace of the pod.
    pub namespace: String,
    /// What was seen.
    pub facts: PodFacts,
    /// Whether the pod is gone; phase and containers are then those of its last state.
    pub gone: bool,
}

/// What is decoded of a pod.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::operator) struct PodWire {
    #[serde(deserialize_with = "LeanMeta::deserialize_meta")]
    metadata: ObjectMeta,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

impl Wire for PodWire {
    type Kind = Pod;
    type View = PodFacts;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn view(self) -> PodFacts {
        PodFacts::from(&Pod {
            metadata: self.metadata,
            spec: self.spec,
            status: self.status,
        })
    }
}

/// Pods by the UID of their Job; names of Jobs repeat, UIDs do not.
#[derive(Default)]
pub struct PodIndex {
    jobs: HashMap<String, PodsOfJob>,
}

#[derive(Default)]
struct PodsOfJob {
    /// By UID of the pod.
    pods: BTreeMap<String, SeenPod>,
    job: JobFate,
    /// Its result is recorded: what vanished pods said is not needed any more.
    recorded: bool,
}

impl PodsOfJob {
    fn drop_recorded_results(&mut self) {
        let vanished = self.pods.values_mut().filter(|pod| pod.gone);
        for pod in vanished.filter(|_| self.recorded) {
            if let ContainerFacts::Terminated { message, .. } = &mut pod.facts.source {
                message.clear();
            }
        }
    }
}

/// What became of the Job of some pods.
#[derive(Debug, Clone, Copy, Default)]
enum JobFate {
    /// It exists, as far as is known.
    #[default]
    There,
    /// It went after its result was recorded.
    GoneRecorded,
    /// It went before, at this time.
    GoneUnrecorded(Instant),
}

impl Index<PodFacts> for PodIndex {
    fn insert(&mut self, name: &Name, view: &Arc<PodFacts>) {
        self.see(name, view, false);
    }

    /// What comes next replaces or marks the pod: there is no moment at which it is not known.
    fn remove(&mut self, _: &Name, _: &Arc<PodFacts>) {}

    fn gone(&mut self, name: &Name, last: &Arc<PodFacts>) {
        self.see(name, last, true);
        if let Some(job) = &last.job_uid {
            self.tidy(job);
        }
    }

    /// What a pod did while nobody watched is not known. That it had started stays true; that it had not
    /// proves nothing, and such a pod counts as never seen.
    fn missed(&mut self, name: &Name, last: &Arc<PodFacts>) {
        if last.phase.is_terminal() || last.source.has_started() {
            self.gone(name, last);
        } else if let Some(job) = &last.job_uid {
            if let Some(pods) = self.jobs.get_mut(job) {
                pods.pods.remove(&last.uid);
            }
            self.tidy(job);
        }
    }
}

impl PodIndex {
    fn see(&mut self, name: &Name, facts: &PodFacts, gone: bool) {
        // A pod that no Job controls is not a runner's.
        if let Some(job) = &facts.job_uid {
            let seen = SeenPod {
                namespace: name.namespace.clone(),
                facts: facts.clone(),
                gone,
            };
            let of_job = self.jobs.entry(job.clone()).or_default();
            of_job.pods.insert(facts.uid.clone(), seen);
            of_job.drop_recorded_results();
        }
    }

    /// Forgets the vanished pods of a Job that went after its result was recorded.
    fn tidy(&mut self, job_uid: &str) {
        if let Some(job) = self.jobs.get_mut(job_uid) {
            if matches!(job.job, JobFate::GoneRecorded) {
                job.pods.retain(|_, pod| !pod.gone);
            }
            if job.pods.is_empty() {
                self.jobs.remove(job_uid);
            }
        }
    }
}

/// What was seen of the runner pods.
pub type PodStore = Store<PodFacts, PodIndex>;

impl Store<PodFacts, PodIndex> {
    /// Every pod seen of the Job with this UID, oldest first.
    #[must_use]
    pub fn of_job(&self, job_uid: &str) -> Vec<SeenPod> {
        let mut pods: Vec<SeenPod> = self.query(|index| {
            index
                .jobs
                .get(job_uid)
                .map(|job| job.pods.values().cloned().collect())
                .unwrap_or_default()
        });
        pods.sort_by(|a, b| {
            a.facts
                .created
                .cmp(&b.facts.created)
                .then_with(|| a.facts.name.cmp(&b.facts.name))
        });
        pods
    }

    /// The newest pod seen under this name, for who knows a pod only by its name, such as a state lock.
    #[must_use]
    pub fn named(&self, namespace: &str, name: &str) -> Option<SeenPod> {
        self.query(|index| {
            let pods = index.jobs.values().flat_map(|job| job.pods.values());
            pods.filter(|pod| pod.namespace == namespace && pod.facts.name == name)
                .max_by_key(|pod| pod.facts.created)
                .cloned()
        })
    }

    /// The result of this Job is recorded: results of its vanished pods are not needed any more.
    pub fn forget_results(&self, job_uid: &str) {
        self.amend(|index| {
            if let Some(job) = index.jobs.get_mut(job_uid) {
                job.recorded = true;
                job.drop_recorded_results();
            }
        });
    }

    /// The Job with this UID is gone. After its result was recorded its vanished pods are forgotten;
    /// before that they are remembered while a state lock of theirs could matter.
    pub fn job_gone(&self, job_uid: &str, recorded: bool) {
        self.amend(|index| {
            if let Some(job) = index.jobs.get_mut(job_uid) {
                job.job = if recorded {
                    JobFate::GoneRecorded
                } else {
                    JobFate::GoneUnrecorded(Instant::now())
                };
            }
            index.tidy(job_uid);
        });
    }

    /// Forgets vanished pods whose Jobs have been gone for long enough. Called at each resync.
    pub fn prune(&self) {
        let now = Instant::now();
        self.amend(|index| {
            let old: Vec<String> = index
                .jobs
                .iter_mut()
                .filter_map(|(uid, job)| match job.job {
                    JobFate::GoneUnrecorded(since) if now.duration_since(since) > REMEMBERED => {
                        job.job = JobFate::GoneRecorded;
                        Some(uid.clone())
                    }
                    _ => None,
                })
                .collect();
            for uid in old {
                index.tidy(&uid);
            }
        });
    }
}
