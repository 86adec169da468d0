//! The built binary as `kubectl-captf manager`.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use kube::api::Api;
use serde_json::json;

use crate::testbed::{Bed, ControlPlane, World, wait};

/// A manager process; it ends with the test.
struct Manager {
    child: Child,
    health: u16,
    diagnostics: u16,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Manager {
    /// Starts a manager of the test's namespace, whose election Lease is there, too.
    fn start(bed: &Bed, world: &World, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (health, diagnostics) = (free_port(), free_port());
        let child = Command::new(env!("CARGO_BIN_EXE_kubectl-captf"))
            .arg("manager")
            .arg(format!("--kubeconfig={}", bed.kubeconfig().display()))
            .arg(format!("--namespace={}", world.namespace))
            .arg(format!("--health-addr=127.0.0.1:{health}"))
            .arg(format!("--diagnostics-address=127.0.0.1:{diagnostics}"))
            .arg("--runner-image=registry.example.com/captf:v1")
            .args(arguments)
            .env("POD_NAMESPACE", &world.namespace)
            .env("SERVICE_ACCOUNT_NAME", "captf-controller-manager")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            health,
            diagnostics,
            log,
            _folder: folder,
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    async fn logged(&mut self, text: &str) {
        wait::until(
            &format!("the log to say {text:?}"),
            wait::LIMIT,
            async || {
                let ended = self.child.try_wait().unwrap();
                wait::so(self.log().contains(text), || {
                    format!("ended: {ended:?}, log:\n{}", self.log())
                })
            },
        )
        .await;
    }

    async fn works(&mut self) {
        self.logged("starting workers").await;
    }

    async fn ended(&mut self) -> ExitStatus {
        wait::until("the manager to end", wait::LIMIT, async || {
            self.child.try_wait().unwrap().ok_or_else(|| self.log())
        })
        .await
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// GET of a path of the health server: status and body.
    async fn health(&self, path: &str) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}", self.health);
        get(&url, path, None).await.unwrap()
    }

    async fn metrics(&self, token: Option<&str>) -> (u16, String) {
        let url = format!("https://127.0.0.1:{}", self.diagnostics);
        get(&url, "/metrics", token).await.unwrap()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn get(url: &str, path: &str, token: Option<&str>) -> Result<(u16, String), String> {
    let mut config = kube::Config::new(url.parse().unwrap());
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = kube::Client::try_from(config).map_err(|error| error.to_string())?;
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .unwrap();
    let response = client
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let body = response
        .into_body()
        .collect_bytes()
        .await
        .map_err(|error| error.to_string())?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

// manager.md §16 B7
#[tokio::test]
async fn it_serves_health_works_and_stops_cleanly_on_sigterm() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let mut manager = Manager::start(bed, &world, &[]);
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
    let mut manager = Manager::start(
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
    let mut manager = Manager::start(bed, &world, &[]);
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

#[tokio::test]
async fn a_candidate_waits_while_another_leads_and_a_killed_leader_is_succeeded() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let short = [
        "--leader-elect",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=1s",
    ];
    let mut first = Manager::start(bed, &world, &short);
    first.works().await;
    let mut second = Manager::start(bed, &world, &short);
    second.logged("another manager leads").await;
    assert_eq!(
        second.health("/readyz").await,
        (200, "ok".to_owned()),
        "readiness depends on leadership"
    );
    assert!(!second.log().contains("starting workers"));
    first.signal(rustix::process::Signal::KILL);
    second.works().await;
}

// manager.md §16 B8
#[tokio::test]
async fn a_manager_that_lost_its_lease_ends_with_an_error() {
    let bed = ControlPlane::shared().await;
    let world = World::new(bed).await;
    let mut manager = Manager::start(bed, &world, &["--leader-elect"]);
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
