//! What stands in a pass's way: it is named with its object, nothing loops, and no secret value is told.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{NamespaceResourceScope, Resource};
use serde_json::{Value, json};

use crate::kill::proxy::Proxy;
use crate::kill::terraform;
use crate::manager::program::Manager;
use crate::operator::harness::Operator;
use crate::testbed::wait::{LIMIT, so, until};
use crate::testbed::{Bed, ControlPlane, World, jobs, world::MANAGER_NAMESPACE};

async fn list<K>(world: &World, selector: &str) -> Vec<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(world.client.clone(), &world.namespace);
    api.list(&ListParams::default().labels(selector))
        .await
        .unwrap()
        .items
}

/// A condition of the object: reason and message, empty while it is not there.
async fn condition(world: &World, name: &str) -> (String, String, String) {
    let object = world.get("TerraformCluster", "prod").await;
    let conditions = object.data["status"]["conditions"].clone();
    let found = conditions
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == name)
        .cloned()
        .unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

// state-secrets.md §2
#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_does_not_decompress_holds_the_object_and_is_named() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    terraform::put_state(&world, "prod", b"this is no gzip").await;
    let proxy = Proxy::open(bed, |_| None).await;
    let manager = Manager::through(proxy.kubeconfig(), &world.namespace, &[]);
    manager.works().await;
    world.cluster("prod").create().await;
    world
        .condition("TerraformCluster", "prod", "StateReadable", "False")
        .await;
    let (_, reason, message) = condition(&world, "StateReadable").await;
    assert_eq!(reason, "StateCorrupt");
    let secret = terraform::state_secret(&world, "prod");
    assert!(
        message.contains(&secret) && message.contains("put the Secret back"),
        "{message}"
    );
    // Five seconds in which nothing changes: the next look is a minute away.
    let (begin, before) = (Instant::now(), proxy.passages().len());
    until("five seconds to pass", LIMIT, async || {
        so(begin.elapsed() > Duration::from_secs(5), || {
            "not yet".to_owned()
        })
    })
    .await;
    let seen: Vec<_> = proxy.passages().into_iter().skip(before).collect();
    let writes = seen
        .iter()
        .filter(|passage| passage.is_write() && !passage.touches("events"))
        .count();
    assert!(
        writes <= 2 && seen.len() <= 40,
        "{writes} writes of {} requests: {seen:#?}",
        seen.len()
    );
    assert!(list::<Job>(&world, "").await.is_empty());
    assert!(list::<Lease>(&world, "captf.io/lease").await.is_empty());
    let warned = list::<Event>(&world, "").await.into_iter().any(|event| {
        event.type_.as_deref() == Some("Warning")
            && event.note.is_some_and(|note| note.contains(&secret))
    });
    assert!(warned, "no Warning event names the Secret");
    assert_eq!(manager.stop().await.code(), Some(0));
}

/// A quota of the namespace that allows no object of this resource.
async fn forbid(world: &World, resource: &str) {
    let quota = json!({
        "metadata": {"name": "none"}, "spec": {"hard": {format!("count/{resource}"): "0"}},
    });
    let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> =
        Api::namespaced(world.client.clone(), &world.namespace);
    quotas
        .create(
            &PostParams::default(),
            &serde_json::from_value(quota).unwrap(),
        )
        .await
        .unwrap();
}

async fn allow(world: &World) {
    let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> =
        Api::namespaced(world.client.clone(), &world.namespace);
    quotas
        .delete("none", &DeleteParams::default())
        .await
        .unwrap();
}

// manager.md §12, jobs.md §5.1: a refused create is an error of the pass and gives its leases back.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_quota_refuses_is_an_error_that_gives_its_leases_back() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    forbid(&world, "jobs.batch").await;
    world.cluster("prod").create().await;
    let operator = Operator::new(bed, &world).await;
    operator.pass("prod").await.expect("the finalizer");
    let mut refused = String::new();
    for _ in 0..3 {
        if let Err(error) = operator.pass("prod").await {
            refused = error.to_string();
            assert!(
                list::<Lease>(&world, "captf.io/lease").await.is_empty(),
                "a lease stays after: {refused}"
            );
        }
    }
    assert!(
        refused.contains("create Job") && refused.contains("quota"),
        "{refused}"
    );
    assert!(list::<Job>(&world, "").await.is_empty());
    let object = world.get("TerraformCluster", "prod").await;
    assert!(object.data["status"]["activeJob"].is_null());
    allow(&world).await;
    until("a Job after the quota is gone", LIMIT, async || {
        let _ = operator.pass("prod").await;
        so(list::<Job>(&world, "").await.len() == 1, || {
            "no Job".to_owned()
        })
    })
    .await;
    let object = world.get("TerraformCluster", "prod").await;
    let attempt = &object.data["status"]["activeJob"]["attempt"];
    assert_eq!(*attempt, 1, "a refused Job was no attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_manager_whose_job_is_refused_grows_slower_and_slower() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    forbid(&world, "jobs.batch").await;
    let manager = Manager::start(bed, &world, &[]);
    manager.works().await;
    world.cluster("prod").create().await;
    manager.logged("Reconciler error").await;
    let begin = Instant::now();
    until("six seconds to pass", LIMIT, async || {
        so(begin.elapsed() > Duration::from_secs(6), || {
            "not yet".to_owned()
        })
    })
    .await;
    let log = manager.log();
    let errors: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("Reconciler error"))
        .collect();
    // 5 ms, doubled each time: the eleventh failure comes after 5 s at the earliest.
    assert!(errors.len() <= 14, "{} errors: {log}", errors.len());
    assert!(
        errors
            .iter()
            .all(|line| line.contains("quota") && line.contains(&world.namespace)),
        "{errors:#?}"
    );
    assert_eq!(manager.stop().await.code(), Some(0));
}

/// A kubeconfig of somebody else: the administrator's credentials, acting as `user`.
fn kubeconfig_of(bed: &Bed, user: &str, folder: &tempfile::TempDir) -> std::path::PathBuf {
    let path = folder.path().join("kubeconfig");
    let kubeconfig = serde_json::to_vec(&bed.kubeconfig_as(user)).unwrap();
    std::fs::write(&path, kubeconfig).unwrap();
    path
}

/// Gives a user rights in the whole cluster.
async fn grant(world: &World, user: &str, rules: Value) {
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    let role = json!({"metadata": {"name": user}, "rules": rules});
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let create = PostParams::default();
    roles
        .create(&create, &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    bindings
        .create(&create, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_manager_without_rights_names_each_kind_and_the_role_and_a_stop_is_clean() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let folder = tempfile::tempdir().unwrap();
    let user = format!("nobody-{}", world.namespace);
    let kubeconfig = kubeconfig_of(bed, &user, &folder);
    let manager = Manager::through(&kubeconfig, &world.namespace, &[]);
    for resource in [
        "terraformclusters.infrastructure.cluster.x-k8s.io",
        "terraformclusteridentities.infrastructure.cluster.x-k8s.io",
        "clusters.cluster.x-k8s.io",
        "jobs.batch",
        "pods",
        "secrets",
        "configmaps",
        "namespaces",
    ] {
        manager
            .logged(&format!(
                "may not list and watch {resource}: install its ClusterRole"
            ))
            .await;
    }
    let status = manager.stop().await;
    assert_eq!(status.code(), Some(0), "{}", manager.log());
}

/// Everything a pass reads and writes, but no Secret.
fn rights_without_secrets() -> Value {
    json!([
        {"apiGroups": ["infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io", "batch", "coordination.k8s.io",
            "events.k8s.io", "rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods", "configmaps", "namespaces", "serviceaccounts"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]},
    ])
}

#[tokio::test]
async fn an_identity_secret_that_may_not_be_read_is_named_in_the_condition() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let folder = tempfile::tempdir().unwrap();
    let user = format!("blind-{}", world.namespace);
    grant(&world, &user, rights_without_secrets()).await;
    // Records are Secrets, too; only those of the identity's namespace are out of reach.
    let own = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]);
    grant_in(&world, &user, own).await;
    let kubeconfig = kubeconfig_of(bed, &user, &folder);
    let manager = Manager::through(&kubeconfig, &world.namespace, &[]);
    manager.works().await;
    world.cluster("prod").create().await;
    let secret = format!("{MANAGER_NAMESPACE}/{}", world.identity);
    until("IdentityAllowed to say why not", LIMIT, async || {
        let found = condition(&world, "IdentityAllowed").await;
        so(found.1 == "IdentityCheckFailed", || {
            format!("{found:?}\n{}", manager.log())
        })
    })
    .await;
    let (_, _, message) = condition(&world, "IdentityAllowed").await;
    assert!(
        message.contains(&format!("Secret {secret}")) && message.contains("cannot get"),
        "{message}"
    );
    assert!(list::<Job>(&world, "").await.is_empty());
    assert!(list::<Lease>(&world, "captf.io/lease").await.is_empty());
    assert_eq!(manager.stop().await.code(), Some(0));
}

/// Gives a user rights in the test's namespace.
async fn grant_in(world: &World, user: &str, rules: Value) {
    let roles: Api<k8s_openapi::api::rbac::v1::Role> =
        Api::namespaced(world.client.clone(), &world.namespace);
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(world.client.clone(), &world.namespace);
    let role = json!({"metadata": {"name": "own"}, "rules": rules});
    let binding = json!({
        "metadata": {"name": "own"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let create = PostParams::default();
    roles
        .create(&create, &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    bindings
        .create(&create, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

/// Secret values that would be recognised wherever they turned up.
const IDENTITY_VALUE: &str = "planted-identity-value-71c4e0";
const VARIABLE_VALUE: &str = "planted-variable-value-93bd2f";
const BROKEN_VALUE: &str = "planted-broken-value-0e6a15";
const STATE_VALUE: &str = "planted-state-value-4d80b7";

async fn plant(world: &World, name: &str, data: Value) {
    world
        .create(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": world.namespace, "labels": {"captf.io/variables": "true"}},
            "stringData": data,
        }))
        .await;
}

/// Everything that people and other programs read of a namespace, Secret data aside.
async fn everything_told(world: &World) -> Vec<(String, String)> {
    let mut told = Vec::new();
    let mut add = |what: &str, text: String| told.push((what.to_owned(), text));
    add(
        "TerraformCluster",
        json!(world.get("TerraformCluster", "prod").await).to_string(),
    );
    add(
        "Cluster",
        json!(world.get("Cluster", "prod").await).to_string(),
    );
    add("Events", json!(list::<Event>(world, "").await).to_string());
    add("Jobs", json!(list::<Job>(world, "").await).to_string());
    add("Pods", json!(list::<Pod>(world, "").await).to_string());
    add("Leases", json!(list::<Lease>(world, "").await).to_string());
    add(
        "ConfigMaps",
        json!(list::<ConfigMap>(world, "").await).to_string(),
    );
    for secret in list::<Secret>(world, "").await {
        add("Secret metadata", json!(secret.metadata).to_string());
    }
    told
}

/// Fails where a planted value, or its base64, is in a text.
fn nothing_of(values: &[&str], what: &str, text: &str) {
    for value in values {
        let coded = STANDARD.encode(value);
        // The first and last letters of base64 depend on what stands around the value.
        let core = coded.get(4..coded.len() - 4).unwrap();
        for form in [*value, core] {
            assert!(!text.contains(form), "{value} stands in {what}: {text}");
        }
    }
}

// issue: No Secret value ever reaches a log, event, condition or result.
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_value_is_told_at_any_verbosity() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), MANAGER_NAMESPACE);
    let planted = json!({"stringData": {"NOOP_TOKEN": IDENTITY_VALUE}});
    secrets
        .patch(
            &world.identity,
            &PatchParams::default(),
            &Patch::Merge(&planted),
        )
        .await
        .unwrap();
    plant(&world, "plain", json!({"password": VARIABLE_VALUE})).await;
    let broken = format!("{{\"key\": \"{BROKEN_VALUE}\", ");
    plant(&world, "broken", json!({"document": broken})).await;
    let manager = Manager::start(bed, &world, &["-v=5"]);
    manager.works().await;
    let from = |second: &str| {
        json!({"variablesFrom": [
            {"secretRef": {"name": "plain"}}, {"secretRef": {"name": second}, "format": "JSON"},
        ]})
    };
    world.cluster("prod").spec(from("broken")).create().await;
    until("the broken source to be named", LIMIT, async || {
        let found = condition(&world, "DependenciesReady").await;
        so(found.1 == "VariablesInvalid", || format!("{found:?}"))
    })
    .await;
    let good = format!("{{\"key\": \"{BROKEN_VALUE}\"}}");
    world
        .patch(
            "Secret",
            "broken",
            json!({"stringData": {"document": good}}),
        )
        .await;
    let job = until("a Job", LIMIT, async || {
        let object = world.get("TerraformCluster", "prod").await;
        object.data["status"]["activeJob"]["name"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("{}\n{}", object.data["status"], manager.log()))
    })
    .await;
    let rendered: Secret = serde_json::from_value(json!(
        world.get("Secret", &format!("captf-run-{job}")).await
    ))
    .unwrap();
    let files: Vec<u8> = rendered
        .data
        .unwrap()
        .into_values()
        .flat_map(|bytes| bytes.0)
        .collect();
    let files = String::from_utf8_lossy(&files).into_owned();
    assert!(
        files.contains(VARIABLE_VALUE) && files.contains(BROKEN_VALUE),
        "the module is given the values"
    );
    terraform::put_state(
        &world,
        "prod",
        format!("{{\"version\":4,\"{STATE_VALUE}\":").as_bytes(),
    )
    .await;
    let result = json!({
        "version": 1, "op": "apply", "steps": [{"name": "apply", "exit": 1, "seconds": 1.0}],
        "error": {"kind": "step", "step": "apply", "tail": "the password (sensitive) is wrong"},
    });
    jobs::finish(
        &world.client,
        &world.namespace,
        &job,
        jobs::Ending::failure(&result),
    )
    .await;
    world
        .condition("TerraformCluster", "prod", "StateReadable", "False")
        .await;
    let values = [IDENTITY_VALUE, VARIABLE_VALUE, BROKEN_VALUE, STATE_VALUE];
    for (what, text) in everything_told(&world).await {
        nothing_of(&values, &what, &text);
    }
    let status = manager.stop().await;
    assert_eq!(status.code(), Some(0));
    let log = manager.log();
    assert!(log.contains(&job) || log.contains("prod"), "it logs: {log}");
    nothing_of(&values, "the log", &log);
}
