//! What a decision needs to know of a pod of a Job (jobs.md §7.1, §9, §10).

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::facts::controller_uid;

/// The container that runs the module image.
pub const SOURCE_CONTAINER: &str = "source";
/// The init container that copies the runner.
pub const RUNNER_CONTAINER: &str = "runner";

/// `status.phase` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PodPhase {
    /// Accepted, no container started for good; also a pod without a phase.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// All containers ended, one of them not with 0.
    Failed,
    /// The node does not answer, or a phase this version does not know.
    Unknown,
}

impl PodPhase {
    /// A pod ended when it is Succeeded or Failed; a terminating one still runs Terraform (README, decision 1).
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    fn parse(phase: Option<&str>) -> Self {
        match phase {
            None | Some("" | "Pending") => Self::Pending,
            Some("Running") => Self::Running,
            Some("Succeeded") => Self::Succeeded,
            Some("Failed") => Self::Failed,
            Some(_) => Self::Unknown,
        }
    }
}

/// State of one container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerFacts {
    /// No status reported.
    #[default]
    Unreported,
    /// Waiting to start.
    Waiting {
        /// The kubelet's reason, for example `ImagePullBackOff`.
        reason: String,
        /// The kubelet's message.
        message: String,
    },
    /// Running.
    Running {
        /// When it started.
        started: Option<Timestamp>,
    },
    /// Ended.
    Terminated {
        /// When it started; nothing when it never did (`ContainerStatusUnknown` reads as exit 137 without a start).
        started: Option<Timestamp>,
        /// When it ended.
        finished: Option<Timestamp>,
        /// Exit code.
        exit_code: i32,
        /// The kubelet's reason, for example `OOMKilled`.
        reason: String,
        /// The termination message, which the runner writes.
        message: String,
    },
}

impl ContainerFacts {
    /// "Started" = a start time is set, or it runs (jobs.md, open questions).
    #[must_use]
    pub fn has_started(&self) -> bool {
        match self {
            Self::Running { .. } => true,
            Self::Terminated { started, .. } => started.is_some(),
            Self::Unreported | Self::Waiting { .. } => false,
        }
    }

    /// When it started, as far as known.
    #[must_use]
    pub fn started(&self) -> Option<Timestamp> {
        match self {
            Self::Running { started } | Self::Terminated { started, .. } => *started,
            Self::Unreported | Self::Waiting { .. } => None,
        }
    }

    /// Reason and message while it waits.
    #[must_use]
    pub fn waiting(&self) -> Option<(&str, &str)> {
        match self {
            Self::Waiting { reason, message } => Some((reason, message)),
            _ => None,
        }
    }

    /// The termination message, once it ended.
    #[must_use]
    pub fn termination_message(&self) -> Option<&str> {
        match self {
            Self::Terminated { message, .. } => Some(message),
            _ => None,
        }
    }

    fn from_status(statuses: Option<&[ContainerStatus]>, name: &str) -> Self {
        let Some(status) = find(statuses, name) else {
            return Self::Unreported;
        };
        // A container that the kubelet restarted on its own would show its end only in lastState; restartPolicy Never
        // makes that impossible, so `state` is all there is.
        status
            .state
            .as_ref()
            .map_or(Self::Unreported, Self::from_state)
    }

    fn from_state(state: &ContainerState) -> Self {
        if let Some(ended) = &state.terminated {
            return Self::Terminated {
                started: ended.started_at.as_ref().map(|time| time.0),
                finished: ended.finished_at.as_ref().map(|time| time.0),
                exit_code: ended.exit_code,
                reason: ended.reason.clone().unwrap_or_default(),
                message: ended.message.clone().unwrap_or_default(),
            };
        }
        if let Some(running) = &state.running {
            return Self::Running {
                started: running.started_at.as_ref().map(|time| time.0),
            };
        }
        if let Some(waiting) = &state.waiting {
            return Self::Waiting {
                reason: waiting.reason.clone().unwrap_or_default(),
                message: waiting.message.clone().unwrap_or_default(),
            };
        }
        Self::Unreported
    }
}

fn find<'a>(statuses: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerStatus> {
    statuses?.iter().find(|status| status.name == name)
}

/// One pod of a Job as the rules see it. The pod watch keeps the same shape (README, decision 12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// UID of the Job that controls it; Job names repeat, UIDs do not.
    pub job_uid: Option<String>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Condition `Ready` is True.
    pub ready: bool,
    /// Whether a deletion timestamp is set.
    pub deleting: bool,
    /// The container of the module image.
    pub source: ContainerFacts,
    /// The init container of the runner image.
    pub runner: ContainerFacts,
    /// `imageID` the kubelet reports for `source`.
    pub image_id: String,
    /// Image reference of `source` in the pod spec.
    pub image: String,
}

impl PodFacts {
    /// Whether the Job with this UID made the pod; pods of an earlier Job of the same name never count (J25).
    #[must_use]
    pub fn is_of(&self, job_uid: &str) -> bool {
        self.job_uid.as_deref() == Some(job_uid)
    }

    /// A pod started unless it is Pending with neither container ever run: a Pending pod whose init container ran has
    /// had its volumes mounted.
    #[must_use]
    pub fn never_started(&self) -> bool {
        self.phase == PodPhase::Pending && !self.source.has_started() && !self.runner.has_started()
    }

    /// Time since the creation.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.created)
    }
}

impl From<&Pod> for PodFacts {
    fn from(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_deref());
        let init = status.and_then(|status| status.init_container_statuses.as_deref());
        let ready = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let image = pod
            .spec
            .as_ref()
            .and_then(|spec| {
                let mut containers = spec.containers.iter();
                containers.find(|container| container.name == SOURCE_CONTAINER)
            })
            .and_then(|container| container.image.clone());
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            job_uid: controller_uid(meta),
            created: meta
                .creation_timestamp
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            phase: PodPhase::parse(status.and_then(|status| status.phase.as_deref())),
            ready,
            deleting: meta.deletion_timestamp.is_some(),
            source: ContainerFacts::from_status(containers, SOURCE_CONTAINER),
            runner: ContainerFacts::from_status(init, RUNNER_CONTAINER),
            image_id: find(containers, SOURCE_CONTAINER)
                .map(|status| status.image_id.clone())
                .unwrap_or_default(),
            image: image.unwrap_or_default(),
        }
    }
}

/// The newest pod of a Job: by creation, then by name (jobs.md §7.1).
#[must_use]
pub fn newest<'a>(pods: &'a [PodFacts], job_uid: &str) -> Option<&'a PodFacts> {
    pods.iter()
        .filter(|pod| pod.is_of(job_uid))
        .max_by(|a, b| a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use serde_json::{Value, json};

    fn pod(status: Value) -> PodFacts {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "captf-c-prod-apply-a1-dbb569-x7k2p", "uid": "pod-uid",
                "creationTimestamp": "2026-10-01T12:00:00Z",
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "captf-c-prod-apply-a1-dbb569",
                    "uid": "job-uid", "controller": true}]
            },
            "spec": {"containers": [{"name": "source", "image": "ghcr.io/example/module:v1"}]},
            "status": status
        }))
        .unwrap();
        PodFacts::from(&pod)
    }

    #[test]
    fn facts_name_the_job_by_uid_and_the_source_image() {
        let pod = pod(json!({"phase": "Running", "containerStatuses": [{
            "name": "source", "ready": true, "restartCount": 0, "image": "x",
            "imageID": "ghcr.io/example/module@sha256:aa", "state": {"running": {"startedAt": "2026-10-01T12:00:05Z"}}
        }]}));
        assert!(pod.is_of("job-uid"));
        assert_eq!(pod.image, "ghcr.io/example/module:v1");
        assert_eq!(pod.image_id, "ghcr.io/example/module@sha256:aa");
        assert_eq!(
            pod.source.started(),
            Some("2026-10-01T12:00:05Z".parse().unwrap())
        );
    }

    #[test]
    fn container_status_unknown_without_a_start_never_started() {
        let pod = pod(json!({"phase": "Failed", "containerStatuses": [{
            "name": "source", "ready": false, "restartCount": 0, "image": "x", "imageID": "",
            "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}
        }]}));
        assert!(!pod.source.has_started());
    }

    #[test]
    fn a_pod_without_a_phase_is_pending_and_an_unknown_phase_is_not_terminal() {
        assert_eq!(pod(json!({})).phase, PodPhase::Pending);
        let unknown = pod(json!({"phase": "Stuck"})).phase;
        assert_eq!(unknown, PodPhase::Unknown);
        assert!(!unknown.is_terminal());
    }

    #[test]
    fn a_pending_pod_whose_init_container_ran_has_started() {
        let pod = pod(json!({"phase": "Pending", "initContainerStatuses": [{
            "name": "runner", "ready": true, "restartCount": 0, "image": "x", "imageID": "",
            "state": {"terminated": {"exitCode": 0, "startedAt": "2026-10-01T12:00:01Z"}}
        }]}));
        assert!(!pod.never_started());
    }

    #[test]
    fn the_newest_pod_is_of_this_job_only() {
        let mine = pod(json!({"phase": "Failed"}));
        let mut newer = mine.clone();
        newer.name = "captf-c-prod-apply-a1-dbb569-zzzzz".into();
        newer.created = "2026-10-01T12:05:00Z".parse().unwrap();
        newer.job_uid = Some("another-job".into());
        let pods = [newer, mine];
        assert_eq!(
            newest(&pods, "job-uid").unwrap().name,
            "captf-c-prod-apply-a1-dbb569-x7k2p"
        );
    }
}
