//! Volumes of a Job's pod and where they are mounted (jobs.md §6.1).

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, KeyToPath, ProjectedVolumeSource, SecretProjection, SecretVolumeSource,
    Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::names::{PLAN_KEY_DATA_KEY, per_run_secret};

use super::{JobRequest, Restore};

/// Where the init container puts the runner.
pub(super) const BIN_PATH: &str = "/captf/bin";
/// Working directory and home of the run.
pub(super) const WORK_PATH: &str = "/captf/work";
/// The rendered files.
pub(super) const CONFIG_PATH: &str = "/captf/config";
/// The plan key.
pub(super) const PLAN_KEY_PATH: &str = "/captf/plan-key";
/// The credentials as files.
const CREDENTIALS_PATH: &str = "/var/run/captf/credentials";
/// Key of the state in a backup chunk.
const STATE_KEY: &str = "tfstate";
/// Secrets are readable for the user and the group of the pod.
const SECRET_MODE: i32 = 0o440;

/// All volumes, in the order of the table.
pub(super) fn volumes(request: &JobRequest) -> Vec<Volume> {
    let mut volumes = vec![
        empty_dir("runner", "128Mi"),
        empty_dir("work", "8Gi"),
        empty_dir("tmp", "1Gi"),
        config(request),
        secret("creds", &request.credentials_secret, None),
    ];
    if let Some(name) = &request.plan_key_secret {
        let item = KeyToPath {
            key: PLAN_KEY_DATA_KEY.to_owned(),
            path: "key".to_owned(),
            ..KeyToPath::default()
        };
        volumes.push(secret("plan-key", name, Some(vec![item])));
    }
    volumes
}

/// The mounts of the module's container, in the order of the table.
pub(super) fn source_mounts(request: &JobRequest) -> Vec<VolumeMount> {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let mut mounts = vec![
        mount("runner", BIN_PATH, true),
        mount("work", WORK_PATH, false),
        mount("tmp", "/tmp", false),
        mount("config", CONFIG_PATH, true),
        mount("creds", CREDENTIALS_PATH, true),
    ];
    if request.plan_key_secret.is_some() {
        mounts.push(mount("plan-key", PLAN_KEY_PATH, true));
    }
    mounts
}

fn empty_dir(name: &str, limit: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: Some(Quantity(limit.to_owned())),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    }
}

fn secret(name: &str, secret: &str, items: Option<Vec<KeyToPath>>) -> Volume {
    Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            default_mode: Some(SECRET_MODE),
            items,
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// The per-run Secret; a restore sees the chunks of its backup beside it as `restore/<i>`.
fn config(request: &JobRequest) -> Volume {
    let run_secret = per_run_secret(&request.name);
    let Some(Restore { chunks, .. }) = &request.restore else {
        return secret("config", &run_secret, None);
    };
    let projection = |name: &str, items| VolumeProjection {
        secret: Some(SecretProjection {
            name: name.to_owned(),
            items,
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let mut sources = vec![projection(&run_secret, None)];
    sources.extend(chunks.iter().enumerate().map(|(index, chunk)| {
        let item = KeyToPath {
            key: STATE_KEY.to_owned(),
            path: format!("restore/{index}"),
            ..KeyToPath::default()
        };
        projection(chunk, Some(vec![item]))
    }));
    Volume {
        name: "config".to_owned(),
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(SECRET_MODE),
            sources: Some(sources),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}
