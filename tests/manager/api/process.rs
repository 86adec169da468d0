//! The built binary as `kubectl-captf manager`.

use std::process::Command;
use std::time::{Duration, Instant};

use kube::api::Api;
use serde_json::json;

use crate::manager::program::Manager;
use crate::testbed::{ControlPlane, World, wait};

// manager.md §16 B7
#[tokio::test]
async fn it_serves_health_works_and_stops_cleanly_on_sigterm() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let manager = Manager::start(bed, &world, &[]);
    manager.works().await;
    assert_eq!(manager.health("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(manager.health("/readyz").await, (200, "ok".to_owned()));
    assert_eq!(
        manager.health("/healthz?verbose").await.1,
        "[+]ping ok\nhealthz check passed\n"
    );
    world.cluster("prod").create().await;
    wait::until("a first pass", wait::LIMIT, async || {
        let object = world.get("TerraformCluster", "prod").await;
        wait::so(object.metadata.finalizers.is_some(), || manager.log())
    })
    .await;
    manager.signal(rustix::process::Signal::TERM);
    let status = manager.ended().await;
    assert!(status.success(), "{status}\n{}", manager.log());
}

#[tokio::test]
async fn every_flag_is_logged_at_the_start() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let manager = Manager::start(
        bed,
        &world,
        &["--max_active_jobs", "7", "-v=4", "--vmodule=a=1"],
    );
    manager.works().await;
    let log = manager.log();
    assert!(log.contains(r#"FLAG: --max-active-jobs="7""#), "{log}");
    assert!(log.contains("--vmodule has no effect"), "{log}");
}

// manager.md §16 B2
#[tokio::test]
async fn invalid_flags_end_the_start_with_all_of_them() {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-captf"))
        .args([
            "manager",
            "--runner-image=registry.example.com/captf:v1",
            "--sync-period=0",
            "--state-backups=-1",
        ])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("invalid flags")
            && said.contains("--sync-period")
            && said.contains("--state-backups"),
        "{said}"
    );
}

#[tokio::test]
async fn the_version_is_one_line() {
    for arguments in [["manager", "version"], ["manager", "--version"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-captf"))
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, format!("manager v{}\n", env!("CARGO_PKG_VERSION")));
    }
}

// metrics-alerts.md §9 B8
#[tokio::test]
async fn metrics_are_for_whom_the_api_server_allows() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let manager = Manager::start(bed, &world, &[]);
    manager.works().await;
    assert_eq!(manager.metrics(None).await.0, 401);
    assert_eq!(manager.metrics(Some("forged")).await.0, 401);

    let name = format!("metrics-{}", world.namespace);
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper"}});
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(world.client.clone(), &world.namespace);
    let create = kube::api::PostParams::default();
    accounts
        .create(&create, &serde_json::from_value(account).unwrap())
        .await
        .unwrap();
    let request =
        serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 600}}))
            .unwrap();
    let token = accounts
        .create_token_request("scraper", &create, &request)
        .await
        .unwrap()
        .status
        .unwrap()
        .token
        .unwrap();
    assert_eq!(manager.metrics(Some(&token)).await.0, 403);

    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(world.client.clone());
    let role = json!({"metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    roles
        .create(&create, &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    let bindings: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> =
        Api::all(world.client.clone());
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": world.namespace}]
    });
    bindings
        .create(&create, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
    let text = wait::until("the right to be known", wait::LIMIT, async || match manager
        .metrics(Some(&token))
        .await
    {
        (200, text) => Ok(text),
        other => Err(format!("{other:?}")),
    })
    .await;
    for series in [
        "captf_build_info{",
        r#"controller_runtime_reconcile_total{controller="terraformcluster",result="success"}"#,
        r#"workqueue_adds_total{name="terraformcluster"}"#,
        "captf_clock_offset_seconds 0",
        "rest_client_requests_total{",
        "process_start_time_seconds",
    ] {
        assert!(text.contains(series), "{series} is not in\n{text}");
    }
}

// failover.md §1: a crash costs up to the lease duration, and the candidate's next try.
#[tokio::test]
async fn a_candidate_waits_while_another_leads_and_a_killed_leader_is_succeeded() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let short = [
        "--leader-elect",
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=200ms",
    ];
    let first = Manager::start(bed, &world, &short);
    first.works().await;
    let second = Manager::start(bed, &world, &short);
    second.logged("another manager leads").await;
    assert_eq!(
        second.health("/readyz").await,
        (200, "ok".to_owned()),
        "readiness depends on leadership"
    );
    world.cluster("prod").create().await;
    world
        .condition("TerraformCluster", "prod", "IdentityAllowed", "True")
        .await;
    assert!(!second.log().contains("this manager leads"));
    assert!(!second.log().contains("starting workers"));
    first.sword().strike();
    let killed = Instant::now();
    second.logged("this manager leads").await;
    let took = killed.elapsed();
    assert!(
        took <= Duration::from_millis(6_000 + 200 + 1_000),
        "taken over after {took:?}"
    );
    second.works().await;
}

// manager.md §16 B8
#[tokio::test]
async fn a_manager_that_lost_its_lease_ends_with_an_error() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let manager = Manager::start(bed, &world, &["--leader-elect"]);
    manager.works().await;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(world.client.clone(), &world.namespace);
    let patch = kube::api::Patch::Merge(json!({"spec": {"holderIdentity": "usurper"}}));
    let name = "controller-leader-election-captf";
    leases
        .patch(name, &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    let status = manager.ended().await;
    assert_eq!(status.code(), Some(1), "{}", manager.log());
    assert!(
        manager.log().contains("usurper holds the Lease"),
        "{}",
        manager.log()
    );
}
