//! The two containers of a Job's pod (jobs.md §6.1).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector,
    ResourceRequirements, SecretEnvSource, SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::api::ImagePullPolicy;
use crate::api::keys::labels::BATCH_CONTROLLER_UID;
use crate::jobs::pod::{RUNNER_CONTAINER, SOURCE_CONTAINER};

use super::volumes::{BIN_PATH, WORK_PATH, source_mounts};
use super::{JobRequest, args};

/// User of the init container.
const RUNNER_USER: i64 = 65532;
/// Variable with the UID of the pod's own Job (README, decision 10).
const JOB_UID: &str = "CAPTF_JOB_UID";

/// The init container that copies the runner next to the module image; nothing in it is configurable.
pub(super) fn runner(request: &JobRequest) -> Container {
    let runner = format!("{BIN_PATH}/runner");
    Container {
        name: RUNNER_CONTAINER.to_owned(),
        image: Some(request.runner_image.clone()),
        command: Some(vec!["/runner".to_owned(), "copy".to_owned(), runner]),
        resources: Some(ResourceRequirements {
            requests: quantities(&[("cpu", "10m"), ("memory", "32Mi")]),
            limits: quantities(&[("cpu", "100m"), ("memory", "64Mi")]),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            run_as_non_root: Some(true),
            run_as_user: Some(RUNNER_USER),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: "runner".to_owned(),
            mount_path: BIN_PATH.to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

/// The container of the module image.
pub(super) fn source(request: &JobRequest) -> Container {
    Container {
        name: SOURCE_CONTAINER.to_owned(),
        image: Some(request.image.clone()),
        image_pull_policy: Some(pull_policy(&request.pull_policy).to_owned()),
        command: Some(vec![format!("{BIN_PATH}/runner"), "run".to_owned()]),
        args: Some(args::args(request)),
        env: Some(env(request)),
        env_from: Some(vec![EnvFromSource {
            secret_ref: Some(SecretEnvSource {
                name: request.credentials_secret.clone(),
                optional: None,
            }),
            ..EnvFromSource::default()
        }]),
        resources: Some(
            request
                .policy
                .resources
                .clone()
                .unwrap_or_else(default_resources),
        ),
        security_context: Some(security_context(request)),
        termination_message_policy: Some("File".to_owned()),
        volume_mounts: Some(source_mounts(request)),
        ..Container::default()
    }
}

/// A value of a newer version is treated as the default (api.md §12).
fn pull_policy(policy: &ImagePullPolicy) -> &str {
    if policy.is_known() {
        policy.as_str()
    } else {
        ImagePullPolicy::IfNotPresent.as_str()
    }
}

/// No limit on CPU: a throttled run holds its locks longer.
fn default_resources() -> ResourceRequirements {
    ResourceRequirements {
        requests: quantities(&[
            ("cpu", "250m"),
            ("memory", "2Gi"),
            ("ephemeral-storage", "1Gi"),
        ]),
        limits: quantities(&[("memory", "2Gi")]),
        ..ResourceRequirements::default()
    }
}

fn quantities(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, Quantity>> {
    let quantity = |value: &str| Quantity(value.to_owned());
    Some(
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), quantity(value)))
            .collect(),
    )
}

/// Variables in their order: the fixed ones, then the policy's without the reserved names.
fn env(request: &JobRequest) -> Vec<EnvVar> {
    let fixed = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let own_uid = EnvVar {
        name: JOB_UID.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{BATCH_CONTROLLER_UID}']"),
            }),
            ..EnvVarSource::default()
        }),
    };
    let mut env = vec![
        fixed("TF_IN_AUTOMATION", "1"),
        fixed("TF_INPUT", "0"),
        fixed("HOME", WORK_PATH),
        fixed("TMPDIR", "/tmp"),
        fixed("KUBE_NAMESPACE", &request.object.namespace),
        fixed("CHECKPOINT_DISABLE", "1"),
        own_uid,
    ];
    let policy = request.policy.env.iter();
    env.extend(
        policy
            .filter(|variable| !is_reserved_env(&variable.name))
            .cloned(),
    );
    env
}

/// Names a policy may not set: they belong to the run (jobs.md §6.1).
#[must_use]
pub fn is_reserved_env(name: &str) -> bool {
    ["TF_", "KUBE_", "KUBERNETES_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || matches!(name, "HOME" | "TMPDIR" | "CHECKPOINT_DISABLE" | JOB_UID)
}

/// The defaults, each overridden where the policy sets the field; ALL is always dropped.
fn security_context(request: &JobRequest) -> SecurityContext {
    let mut context = request.policy.security_context.clone().unwrap_or_default();
    context.allow_privilege_escalation.get_or_insert(false);
    context.read_only_root_filesystem.get_or_insert(true);
    let drop = context
        .capabilities
        .get_or_insert_with(Capabilities::default)
        .drop
        .get_or_insert_with(Vec::new);
    if !drop.iter().any(|capability| capability == "ALL") {
        drop.insert(0, "ALL".to_owned());
    }
    context
}
