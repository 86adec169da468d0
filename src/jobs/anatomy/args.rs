//! Arguments of the runner (jobs.md §6.1, runner.md §1.2).

use crate::api::{GROUP, VERSION};
use crate::names::render_label_map;

use super::JobRequest;
use super::volumes::{CONFIG_PATH, PLAN_KEY_PATH, WORK_PATH};

/// Pod grace period of 600 s less 30 s in which the result is written.
const STOP_TIMEOUT: &str = "570s";

/// The arguments in their order.
pub(super) fn args(request: &JobRequest) -> Vec<String> {
    let mut args = vec![
        format!("--op={}", request.op),
        "--bin=/captf/runtime".to_owned(),
        format!("--image={}", request.image),
        "--module=/captf/module".to_owned(),
        "--providers=/captf/providers".to_owned(),
        format!("--workdir={WORK_PATH}"),
        format!("--config={CONFIG_PATH}"),
        format!("--lock-timeout={}s", request.policy.lock_timeout.value),
        format!("--stop-timeout={STOP_TIMEOUT}"),
    ];
    args.extend(backend_config(request));
    if let Some(id) = &request.force_unlock {
        args.push(format!("--force-unlock={id}"));
    }
    args.extend(guard(request));
    args.extend(restore(request));
    if request.plan_key_secret.is_some() {
        args.push(format!("--plan-key-file={PLAN_KEY_PATH}/key"));
    }
    args.extend(events(request));
    args
}

fn backend_config(request: &JobRequest) -> [String; 4] {
    let object = &request.object;
    let labels = render_label_map(&object.backend_labels(&request.cluster));
    [
        format!("--backend-config=secret_suffix={}", object.suffix()),
        format!("--backend-config=namespace={}", object.namespace),
        "--backend-config=in_cluster_config=true".to_owned(),
        format!("--backend-config=labels={labels}"),
    ]
}

fn guard(request: &JobRequest) -> Vec<String> {
    let Some(guard) = &request.guard else {
        return Vec::new();
    };
    let mut args = vec![
        "--guard-deletes".to_owned(),
        format!("--inputs-hash={}", guard.inputs_hash),
    ];
    args.extend(
        guard
            .allow_deletes_hash
            .iter()
            .map(|hash| format!("--allow-deletes-hash={hash}")),
    );
    args.extend(
        guard
            .expect_plan
            .iter()
            .map(|plan| format!("--expect-plan={plan}")),
    );
    args
}

fn restore(request: &JobRequest) -> Vec<String> {
    request.restore.as_ref().map_or_else(Vec::new, |restore| {
        vec![
            format!("--restore-chunks={}", restore.chunks.len()),
            format!("--restore-resources={}", restore.resources),
        ]
    })
}

/// Events name the object by its UID, so without one there are none.
fn events(request: &JobRequest) -> Vec<String> {
    if !request.runner_events || request.owner_uid.is_empty() {
        return Vec::new();
    }
    let object = &request.object;
    vec![
        format!(
            "--event-object={GROUP}/{VERSION}/{}/{}/{}/{}",
            object.kind, object.namespace, object.name, request.owner_uid
        ),
        format!("--job-name={}", request.name),
    ]
}
