//! The requests of a namespace's runner identity.

use std::collections::BTreeSet;

use captf::operator::runner_rbac::{RunnerRbac, prepare};
use serde_json::{Value, json};

use crate::wire::{Exchange, expect, play};

const ACCOUNT: &str = "/api/v1/namespaces/team-a/serviceaccounts/captf-runner";
const CUSTOM: &str = "/api/v1/namespaces/team-a/serviceaccounts/custom";
const ACCOUNTS: &str = "/api/v1/namespaces/team-a/serviceaccounts";
const BINDING: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings/captf-runner";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings";

fn binding(accounts: &[&str]) -> Value {
    let subjects: Vec<Value> = accounts
        .iter()
        .map(|name| json!({"kind": "ServiceAccount", "name": name, "namespace": "team-a"}))
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": "captf-runner",
            "namespace": "team-a",
            "labels": {"captf.io/managed": "true"}
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "captf-runner"},
        "subjects": subjects
    })
}

fn stored(accounts: &[&str]) -> Value {
    let mut stored = binding(accounts);
    stored["metadata"]["uid"] = "binding-uid".into();
    stored["metadata"]["resourceVersion"] = "4".into();
    stored
}

fn account(path: &str, labels: Value) -> Exchange {
    expect(&format!("GET {path} (metadata)"))
        .answer(json!({"metadata": {"name": "a", "labels": labels}}))
}

async fn prepared(
    account: &str,
    in_use: &[&str],
    script: impl IntoIterator<Item = Exchange>,
) -> RunnerRbac {
    let in_use: BTreeSet<String> = in_use.iter().map(|&name| name.to_owned()).collect();
    play(script, async |access| {
        prepare(access, "team-a", account, &in_use).await
    })
    .await
}

#[tokio::test]
async fn the_first_use_makes_account_and_binding() {
    let made = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "captf-runner", "namespace": "team-a", "labels": {"captf.io/managed": "true"}}
    });
    let rbac = prepared(
        "captf-runner",
        &["captf-runner"],
        [
            expect(&format!("GET {ACCOUNT} (metadata)")).fail(404, "NotFound"),
            expect(&format!("POST {ACCOUNTS}")).with(made).echo(),
            expect(&format!("GET {BINDING}")).fail(404, "NotFound"),
            expect(&format!("POST {BINDINGS}"))
                .with(binding(&["captf-runner"]))
                .echo(),
        ],
    )
    .await;
    assert_eq!(rbac.condition.reason(), "RBACReady");
}

#[tokio::test]
async fn a_concurrent_first_use_is_no_failure() {
    let rbac = prepared(
        "captf-runner",
        &[],
        [
            account(ACCOUNT, json!({})),
            expect(&format!("GET {BINDING}")).fail(404, "NotFound"),
            expect(&format!("POST {BINDINGS}"))
                .with(binding(&["captf-runner"]))
                .fail(409, "AlreadyExists"),
            expect(&format!("GET {BINDING}")).answer(stored(&["captf-runner"])),
        ],
    )
    .await;
    assert_eq!(rbac.condition.reason(), "RBACReady");
}

#[tokio::test]
async fn an_account_that_opted_out_leaves_the_subjects() {
    let mut wanted = stored(&["captf-runner"]);
    wanted["metadata"]["annotations"] = json!({"note": "kept"});
    let mut found = stored(&["captf-runner", "custom"]);
    found["metadata"]["annotations"] = json!({"note": "kept"});
    let rbac = prepared(
        "captf-runner",
        &["custom"],
        [
            account(CUSTOM, json!({"captf.io/runner": "yes"})),
            account(ACCOUNT, json!({})),
            expect(&format!("GET {BINDING}")).answer(found),
            expect(&format!("PUT {BINDING}")).with(wanted).echo(),
        ],
    )
    .await;
    assert_eq!(rbac.condition.reason(), "RBACReady");
}

#[tokio::test]
async fn another_account_must_exist_and_have_opted_in() {
    let missing = prepared(
        "custom",
        &[],
        [expect(&format!("GET {CUSTOM} (metadata)")).fail(404, "NotFound")],
    )
    .await;
    assert_eq!(missing.condition.reason(), "ServiceAccountNotOptedIn");
    assert!(missing.error.is_none());
    let unlabelled = prepared("custom", &[], [account(CUSTOM, json!({}))]).await;
    assert_eq!(unlabelled.condition.reason(), "ServiceAccountNotOptedIn");
}

#[tokio::test]
async fn a_foreign_binding_is_never_modified() {
    let mut foreign = stored(&["somebody"]);
    foreign["metadata"]["labels"] = json!({});
    let rbac = prepared(
        "captf-runner",
        &[],
        [
            account(ACCOUNT, json!({})),
            expect(&format!("GET {BINDING}")).answer(foreign),
        ],
    )
    .await;
    assert_eq!(rbac.condition.reason(), "RBACFailed");
}

#[tokio::test]
async fn a_binding_to_another_role_is_made_anew_as_it_was_read() {
    let mut other = stored(&["captf-runner"]);
    other["roleRef"]["name"] = "admin".into();
    let exact = json!({
        "propagationPolicy": "Background",
        "preconditions": {"uid": "binding-uid", "resourceVersion": "4"}
    });
    let rbac = prepared(
        "captf-runner",
        &[],
        [
            account(ACCOUNT, json!({})),
            expect(&format!("GET {BINDING}")).answer(other),
            expect(&format!("DELETE {BINDING}")).with(exact),
            expect(&format!("POST {BINDINGS}"))
                .with(binding(&["captf-runner"]))
                .echo(),
        ],
    )
    .await;
    assert_eq!(rbac.condition.reason(), "RBACReady");
}

#[tokio::test]
async fn a_failed_call_stands_beside_the_condition() {
    let rbac = prepared(
        "captf-runner",
        &[],
        [
            account(ACCOUNT, json!({})),
            expect(&format!("GET {BINDING}")).fail(403, "Forbidden"),
        ],
    )
    .await;
    assert_eq!(rbac.condition.reason(), "RBACFailed");
    assert!(rbac.error.is_some());
}
