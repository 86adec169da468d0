//! Level 1: the control plane, its life and death, and the tools that play on it.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, StatusCode};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use super::life;
use crate::testbed::fault::{Cut, Fault, Faults};
use crate::testbed::jobs::{self, Ending};
use crate::testbed::wait::{LIMIT, so, until};
use crate::testbed::{self, Action, Bed, Component, ControlPlane, Options, World};

#[tokio::test]
async fn a_stranger_is_refused() {
    let bed = ControlPlane::shared().await;
    let mut config = bed.config().await;
    config.auth_info.token = Some(String::from("nobody's token").into());
    let stranger = kube::Client::try_from(config).unwrap();
    let error = Api::<Namespace>::all(stranger)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 401),
        "{error}"
    );
}

#[tokio::test]
async fn a_service_account_without_a_role_may_not_read() {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let user = format!("system:serviceaccount:{}:default", world.namespace);
    let config = bed.config_as(&user).await;
    let account = kube::Client::try_from(config).unwrap();
    let secrets: Api<Pod> = Api::namespaced(account, &world.namespace);
    let error = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.code == 403),
        "{error}"
    );
}

#[tokio::test]
async fn two_beds_at_once_do_not_meet() {
    let shared = ControlPlane::shared().await;
    let other = start().await;
    let namespace = World::bare(&other).await.namespace;
    let on_shared: Api<Namespace> = Api::all(shared.client().await);
    assert!(on_shared.get_opt(&namespace).await.unwrap().is_none());
    end(other).await;
    on_shared.list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn an_ended_bed_leaves_no_folder_and_no_process() {
    let bed = start().await;
    let (dir, processes) = (
        bed.ready().dir.clone(),
        life::processes_of(&bed.ready().dir),
    );
    assert!(
        processes.len() >= 4,
        "supervisor and three components, but found {processes:?}"
    );
    end(bed).await;
    assert!(!dir.exists());
    assert_eq!(life::processes_of(&dir), Vec::<String>::new());
}

#[tokio::test]
async fn a_killed_supervisor_takes_every_process_with_it() {
    let bed = start().await;
    let dir = bed.ready().dir.clone();
    life::kill(bed.ready().pid);
    until(
        "the processes of the killed bed to end",
        LIMIT,
        async || {
            let left = life::processes_of(&dir);
            so(left.is_empty(), || left.join("\n"))
        },
    )
    .await;
    // What a killed supervisor cannot remove, the next start or sweep does.
    testbed::sweep().unwrap();
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_stopped_api_server_comes_back_on_the_same_address() {
    let bed = start().await;
    let configs: Api<ConfigMap> = Api::namespaced(bed.client().await, "default");
    bed.control(Action::Stop, Component::ApiServer).unwrap();
    configs.list(&ListParams::default()).await.unwrap_err();
    bed.control(Action::Start, Component::ApiServer).unwrap();
    until("the API server to answer again", LIMIT, async || {
        configs
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn a_paused_api_server_answers_nothing() {
    let bed = start().await;
    let configs: Api<ConfigMap> = Api::namespaced(bed.client().await, "default");
    bed.control(Action::Pause, Component::ApiServer).unwrap();
    let answer =
        tokio::time::timeout(Duration::from_secs(1), configs.list(&ListParams::default())).await;
    assert!(answer.is_err(), "{answer:?}");
    bed.control(Action::Resume, Component::ApiServer).unwrap();
    configs.list(&ListParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_job_whose_pod_succeeded_is_complete_and_keeps_the_result() {
    let world = World::bare(ControlPlane::shared().await).await;
    create_job(&world, "apply").await;
    let job = jobs::finish(
        &world.client,
        &world.namespace,
        "apply",
        Ending::success(&json!({"ok": true})),
    )
    .await;
    assert_eq!(jobs::outcome(&job).unwrap().type_, "Complete");
    let pod = jobs::pod_of(&world.client, &world.namespace, "apply").await;
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    let message = statuses[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap()
        .message;
    assert_eq!(message.as_deref(), Some(r#"{"ok":true}"#));
}

#[tokio::test]
async fn a_job_whose_pod_failed_is_failed() {
    let world = World::bare(ControlPlane::shared().await).await;
    create_job(&world, "apply").await;
    let job = jobs::finish(
        &world.client,
        &world.namespace,
        "apply",
        Ending::silent_failure(),
    )
    .await;
    let outcome = jobs::outcome(&job).unwrap();
    assert_eq!(
        (outcome.type_.as_str(), outcome.reason.as_deref()),
        ("Failed", Some("BackoffLimitExceeded"))
    );
}

#[tokio::test]
async fn a_job_past_its_deadline_says_so() {
    let world = World::bare(ControlPlane::shared().await).await;
    create_job(&world, "apply").await;
    let job = jobs::finish(&world.client, &world.namespace, "apply", Ending::deadline()).await;
    let outcome = jobs::outcome(&job).unwrap();
    assert_eq!(
        (outcome.type_.as_str(), outcome.reason.as_deref()),
        ("Failed", Some("DeadlineExceeded"))
    );
}

#[tokio::test]
async fn objects_of_a_deleted_owner_are_collected() {
    let world = World::bare(ControlPlane::shared().await).await;
    let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let owner = configs
        .create(&PostParams::default(), &config("owner"))
        .await
        .unwrap();
    let mut owned = config("owned");
    owned.metadata.owner_references = Some(vec![kube::Resource::owner_ref(&owner, &()).unwrap()]);
    configs
        .create(&PostParams::default(), &owned)
        .await
        .unwrap();
    configs.delete("owner", &Default::default()).await.unwrap();
    until("the owned object to be collected", LIMIT, async || {
        let left = configs
            .get_opt("owned")
            .await
            .map_err(|error| error.to_string())?;
        so(left.is_none(), || "it is still there".to_owned())
    })
    .await;
}

#[tokio::test]
async fn cluster_api_kinds_are_served() {
    let world = World::bare(ControlPlane::shared().await).await;
    let clusters = world
        .api("Cluster")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(clusters.items.len(), 0);
}

#[tokio::test]
async fn a_request_that_fails_before_it_is_sent_changes_nothing() {
    let world = World::bare(ControlPlane::shared().await).await;
    let error = create_through(&world, Faults::at(1, || Fault::Before))
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error}");
    assert!(!exists(&world).await);
}

#[tokio::test]
async fn a_lost_answer_leaves_the_object() {
    let world = World::bare(ControlPlane::shared().await).await;
    let error = create_through(&world, Faults::at(1, || Fault::LostAnswer))
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error}");
    assert!(exists(&world).await);
}

#[tokio::test]
async fn a_canned_status_reaches_the_caller_and_not_the_server() {
    let world = World::bare(ControlPlane::shared().await).await;
    let faults = Faults::at(1, || Fault::Status(StatusCode::CONFLICT, "Conflict"));
    let error = create_through(&world, faults).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.is_conflict()),
        "{error}"
    );
    assert!(!exists(&world).await);
}

#[tokio::test]
async fn a_hang_before_sends_nothing_and_a_hang_after_has_sent() {
    let world = World::bare(ControlPlane::shared().await).await;
    let limit = Duration::from_millis(500);
    let before = create_through(&world, Faults::at(1, || Fault::HangBefore));
    tokio::time::timeout(limit, before).await.unwrap_err();
    assert!(!exists(&world).await);
    let after = create_through(&world, Faults::at(1, || Fault::HangAfter));
    tokio::time::timeout(limit, after).await.unwrap_err();
    until("the create to have happened", LIMIT, async || {
        so(exists(&world).await, || "no object".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_gives_up_during_the_delay_has_sent_nothing() {
    let world = World::bare(ControlPlane::shared().await).await;
    let delayed = create_through(
        &world,
        Faults::at(1, || Fault::Delay(Duration::from_secs(3600))),
    );
    tokio::time::timeout(Duration::from_millis(200), delayed)
        .await
        .unwrap_err();
    assert!(!exists(&world).await);
}

#[tokio::test]
async fn a_hook_runs_before_the_request_it_was_set_on() {
    let world = World::bare(ControlPlane::shared().await).await;
    let other = world.clone();
    let faults = Faults::first(Method::POST, "configmaps", move || {
        let other = other.clone();
        Fault::First(Box::pin(async move {
            create_through(&other, Faults::none()).await.unwrap();
        }))
    });
    let error = create_through(&world, faults).await.unwrap_err();
    assert!(
        matches!(&error, kube::Error::Api(status) if status.is_already_exists()),
        "{error}"
    );
}

#[tokio::test]
async fn requests_are_logged_in_order() {
    let world = World::bare(ControlPlane::shared().await).await;
    let faults = Faults::none();
    let configs: Api<ConfigMap> =
        Api::namespaced(faults.around(world.client.clone()), &world.namespace);
    configs
        .create(&PostParams::default(), &config("made"))
        .await
        .unwrap();
    configs.list(&ListParams::default().limit(5)).await.unwrap();
    let shown: Vec<String> = faults.requests().iter().map(ToString::to_string).collect();
    let path = format!("/api/v1/namespaces/{}/configmaps", world.namespace);
    assert_eq!(
        shown,
        [format!("1 POST {path}"), format!("2 GET {path}?&limit=5")]
    );
    assert_eq!(faults.count(&Method::POST, "configmaps"), 1);
}

#[tokio::test]
async fn a_cut_watch_ends_with_an_error_or_an_end() {
    let world = World::bare(ControlPlane::shared().await).await;
    for (cut, ends_in_error) in [(Cut::Error, true), (Cut::End, false)] {
        let faults = Faults::new(move |seen| match seen.is_watch() {
            true => Fault::CutBody(0, cut),
            false => Fault::Pass,
        });
        let configs: Api<ConfigMap> =
            Api::namespaced(faults.around(world.client.clone()), &world.namespace);
        let watch = configs.watch(&WatchParams::default(), "0").await.unwrap();
        let events: Result<Vec<WatchEvent<ConfigMap>>, _> = watch.boxed().try_collect().await;
        assert_eq!(events.is_err(), ends_in_error, "{cut:?}");
    }
}

#[tokio::test]
async fn the_audit_log_names_every_request() {
    let options = Options {
        audit: true,
        ..Options::control_plane()
    };
    let bed = tokio::task::spawn_blocking(move || Bed::start(options))
        .await
        .unwrap()
        .unwrap();
    let world = World::bare(&bed).await;
    let log = bed.ready().audit_log.clone().unwrap();
    until("the audit log to name the namespace", LIMIT, async || {
        let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        so(text.contains(&world.namespace), || {
            format!("{} bytes without it", text.len())
        })
    })
    .await;
}

async fn start() -> Bed {
    tokio::task::spawn_blocking(|| Bed::start(Options::control_plane()))
        .await
        .unwrap()
        .unwrap()
}

async fn end(bed: Bed) {
    tokio::task::spawn_blocking(|| bed.end()).await.unwrap();
}

async fn create_job(world: &World, name: &str) {
    let jobs: Api<Job> = Api::namespaced(world.client.clone(), &world.namespace);
    let job = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "runner", "image": "example.com/runner:1"}],
            "containers": [{"name": "source", "image": "example.com/module:1"}],
        }}},
    }));
    jobs.create(&PostParams::default(), &job.unwrap())
        .await
        .unwrap();
}

fn config(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

const MADE: &str = "made";

async fn create_through(world: &World, faults: Faults) -> kube::Result<ConfigMap> {
    let configs: Api<ConfigMap> =
        Api::namespaced(faults.around(world.client.clone()), &world.namespace);
    configs.create(&PostParams::default(), &config(MADE)).await
}

async fn exists(world: &World) -> bool {
    let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    configs.get_opt(MADE).await.unwrap().is_some()
}
