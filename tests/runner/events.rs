//! Progress as events on a real API server (runner.md §12).

use std::fs;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::world::World;
use crate::testbed::{self, ControlPlane};

const ACCOUNT: &str = "captf-runner";
/// Runs a program where a pod would find its service account. The mount is seen by that program alone.
const IN_A_POD: &str = r#"mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io
cp -r "$1" /run/secrets/kubernetes.io/serviceaccount && shift && exec "$@""#;

async fn create<K>(client: &Client, namespace: &str, object: Value)
where
    K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + DeserializeOwned
        + serde::Serialize
        + Clone
        + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::<K>::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

/// An account that may do what the runner's may: create events.
async fn account_token(client: &Client, namespace: &str) -> String {
    let metadata = json!({"name": ACCOUNT});
    create::<ServiceAccount>(client, namespace, json!({"metadata": metadata})).await;
    let rules =
        json!([{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}]);
    create::<Role>(
        client,
        namespace,
        json!({"metadata": metadata, "rules": rules}),
    )
    .await;
    create::<RoleBinding>(
        client,
        namespace,
        json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        }),
    )
    .await;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    Api::<ServiceAccount>::namespaced(client.clone(), namespace)
        .create_token_request(ACCOUNT, &PostParams::default(), &request)
        .await
        .unwrap()
        .status
        .unwrap()
        .token
        .unwrap()
}

/// The command as a pod of this cluster would run it.
fn in_a_pod(world: &World, command: &Command, config: &Config, token: &str) -> Command {
    let account = world.path("account");
    fs::create_dir(&account).unwrap();
    let certificates: String = config
        .root_cert
        .iter()
        .flatten()
        .map(|der| {
            let text = BASE64_STANDARD.encode(der);
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        })
        .collect();
    for (name, content) in [
        ("token", token),
        ("ca.crt", &certificates),
        ("namespace", "default"),
    ] {
        fs::write(account.join(name), content).unwrap();
    }
    let mut wrapped = Command::new("unshare");
    wrapped
        .args(["--map-root-user", "--mount", "sh", "-c", IN_A_POD, "sh"])
        .arg(account)
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear()
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env(
            "KUBERNETES_SERVICE_HOST",
            config.cluster_url.host().unwrap(),
        )
        .env(
            "KUBERNETES_SERVICE_PORT",
            config.cluster_url.port_u16().unwrap().to_string(),
        )
        .env("HOSTNAME", "captf-c-prod-apply-a1-44bb70-x4k8d");
    wrapped
}

#[tokio::test]
async fn a_run_tells_its_progress() {
    let bed = ControlPlane::shared().await;
    let (client, config) = (bed.client().await, bed.config().await);
    let namespace = testbed::World::bare(bed).await.namespace;
    let token = account_token(&client, &namespace).await;

    let world = World::script(
        "[ \"$1\" = apply ] && echo 'Apply complete! Resources: 1 added, 2 changed, 0 destroyed.'; exit 0",
    );
    let object = format!(
        "--event-object=infrastructure.cluster.x-k8s.io/v1alpha1/TerraformCluster/{namespace}/prod/u1"
    );
    let command = world.command(&[
        "--op=apply",
        &object,
        "--job-name=captf-c-prod-apply-a1-44bb70",
    ]);
    let run = world.run_command(in_a_pod(&world, &command, &config, &token));
    run.succeeded();

    let events: Api<Event> = Api::namespaced(client, &namespace);
    let mut events = events.list(&ListParams::default()).await.unwrap().items;
    events.sort_by_key(|event| event.metadata.name.clone());
    let told: Vec<(&str, &str)> = events
        .iter()
        .map(|event| {
            (
                event.reason.as_deref().unwrap(),
                event.action.as_deref().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("RunStarted", "apply"),
            ("StepStarted", "init"),
            ("StepSucceeded", "init"),
            ("StepStarted", "validate"),
            ("StepSucceeded", "validate"),
            ("StepStarted", "apply"),
            ("StepSucceeded", "apply"),
            ("ResourcesChanged", "apply"),
            ("RunFinished", "apply"),
        ],
        "{}",
        run.stderr
    );
    assert_eq!(
        events[7].note.as_deref(),
        Some("1 added, 2 changed, 0 destroyed")
    );
    assert_eq!(
        events[0].regarding.as_ref().unwrap().uid.as_deref(),
        Some("u1")
    );
}

#[tokio::test]
async fn events_that_are_refused_do_not_fail_the_run() {
    let bed = ControlPlane::shared().await;
    let config = bed.config().await;
    let world = World::script("exit 0");
    let object =
        "--event-object=infrastructure.cluster.x-k8s.io/v1alpha1/TerraformCluster/default/prod/u1";
    let command = world.command(&["--op=apply", object]);
    let run = world.run_command(in_a_pod(&world, &command, &config, "no-token"));
    run.succeeded();
    let warnings = run
        .stderr
        .matches("an event about this run cannot be sent")
        .count();
    assert_eq!(warnings, 1, "{}", run.stderr);
}
