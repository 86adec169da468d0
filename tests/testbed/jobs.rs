//! Playing the kubelet on a control plane: nothing runs there, so a test that needs a finished Job says how its pod
//! ended, and the real Job controller does the rest.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::wait::{LIMIT, until};

/// The image digest that pods which never ran report.
pub(crate) const PLAYED_DIGEST: &str =
    "sha256:0000000000000000000000000000000000000000000000000000000000000001";

/// The container whose termination message is a run's result.
const RESULT_CONTAINER: &str = "source";

/// How a Job's pod ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// 0 makes the pod Succeeded, anything else Failed.
    pub(crate) exit_code: i32,
    /// The termination message of container `source`.
    pub(crate) message: Option<String>,
    /// The Job's deadline passed: its condition says so, and its pod is removed.
    pub(crate) deadline_exceeded: bool,
}

impl Ending {
    pub(crate) fn success(result: &Value) -> Self {
        Self {
            message: Some(result.to_string()),
            ..Self::default()
        }
    }

    pub(crate) fn failure(result: &Value) -> Self {
        Self {
            exit_code: 1,
            message: Some(result.to_string()),
            ..Self::default()
        }
    }

    /// The pod failed and said nothing.
    pub(crate) fn silent_failure() -> Self {
        Self {
            exit_code: 1,
            ..Self::default()
        }
    }

    pub(crate) fn deadline() -> Self {
        Self {
            exit_code: 1,
            deadline_exceeded: true,
            ..Self::default()
        }
    }
}

/// Lets a Job's pod run: phase Running, every container started. Returns the pod.
pub(crate) async fn run(client: &kube::Client, namespace: &str, job: &str) -> Pod {
    let pod = pod_of(client, namespace, job).await;
    let started = json!({"running": {"startedAt": pod.metadata.creation_timestamp}});
    set_status(client, &pod, "Running", |_| started.clone()).await
}

/// Ends a Job and returns it as the Job controller left it: Complete, or Failed.
pub(crate) async fn finish(
    client: &kube::Client,
    namespace: &str,
    job: &str,
    ending: Ending,
) -> Job {
    let pod = pod_of(client, namespace, job).await;
    if ending.deadline_exceeded {
        exceed_deadline(client, namespace, job).await;
    }
    end_pod(client, &pod, &ending).await;
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    until(
        &format!("Job {namespace}/{job} to finish"),
        LIMIT,
        async || {
            let found = jobs.get(job).await.map_err(|error| error.to_string())?;
            if outcome(&found).is_some() {
                Ok(found)
            } else {
                Err(format!("{:?}", found.status))
            }
        },
    )
    .await
}

/// The condition that finished a Job, if it is finished.
pub(crate) fn outcome(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}

/// The newest pod of a Job, once the Job controller has made it.
pub(crate) async fn pod_of(client: &kube::Client, namespace: &str, job: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    until(
        &format!("a pod of Job {namespace}/{job}"),
        LIMIT,
        async || {
            let list = pods
                .list(&of_job)
                .await
                .map_err(|error| error.to_string())?;
            let newest = list
                .items
                .into_iter()
                .max_by_key(|pod| pod.metadata.creation_timestamp.clone());
            newest.ok_or_else(|| "no pod".to_owned())
        },
    )
    .await
}

async fn end_pod(client: &kube::Client, pod: &Pod, ending: &Ending) {
    let (phase, reason) = if ending.exit_code == 0 {
        ("Succeeded", "Completed")
    } else {
        ("Failed", "Error")
    };
    let time = &pod.metadata.creation_timestamp;
    set_status(client, pod, phase, |container| {
        let mut terminated = json!({
            "exitCode": ending.exit_code, "reason": reason, "startedAt": time, "finishedAt": time,
            "containerID": format!("containerd://{container}"),
        });
        if let (RESULT_CONTAINER, Some(message)) = (container, &ending.message) {
            terminated["message"] = json!(message);
        }
        json!({"terminated": terminated})
    })
    .await;
}

async fn set_status(
    client: &kube::Client,
    pod: &Pod,
    phase: &str,
    state: impl Fn(&str) -> Value,
) -> Pod {
    let spec = pod.spec.as_ref().expect("a pod has a spec");
    let statuses = |containers: &[Container]| -> Vec<Value> {
        containers
            .iter()
            .map(|container| container_status(container, &state(&container.name)))
            .collect()
    };
    let finished = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    let initial: Vec<Value> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| container_status(container, &finished))
        .collect();
    let status = json!({"status": {
        "phase": phase,
        "startTime": pod.metadata.creation_timestamp,
        "containerStatuses": statuses(&spec.containers),
        "initContainerStatuses": initial,
    }});
    let namespace = pod
        .metadata
        .namespace
        .as_deref()
        .expect("a pod has a namespace");
    let name = pod.metadata.name.as_deref().expect("a pod has a name");
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap_or_else(|error| panic!("the status of pod {namespace}/{name}: {error}"))
}

fn container_status(container: &Container, state: &Value) -> Value {
    let image = container.image.as_deref().unwrap_or_default();
    let repository = image.split('@').next().unwrap_or_default();
    json!({
        "name": container.name, "image": image, "imageID": format!("{repository}@{PLAYED_DIGEST}"),
        "ready": false, "started": false, "restartCount": 0, "state": state,
    })
}

/// What the Job controller writes when `activeDeadlineSeconds` have passed. The start time cannot be moved back, so
/// the condition is written for it.
async fn exceed_deadline(client: &kube::Client, namespace: &str, name: &str) {
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let job = jobs
        .get(name)
        .await
        .unwrap_or_else(|error| panic!("Job {namespace}/{name}: {error}"));
    let started = job
        .status
        .as_ref()
        .and_then(|status| status.start_time.clone());
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "DeadlineExceeded",
            "message": "Job was active longer than specified deadline",
            "lastProbeTime": started, "lastTransitionTime": started,
        })
    };
    let status = json!({"status": {
        "active": 0, "ready": 0, "failed": 1,
        "conditions": [condition("FailureTarget"), condition("Failed")],
    }});
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap_or_else(|error| panic!("the status of Job {namespace}/{name}: {error}"));
}
