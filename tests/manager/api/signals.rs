//! Stopping while a pass runs (manager.md §1, §8).

use std::sync::Arc;
use std::time::{Duration, Instant};

use captf::operator::election::LEASE;
use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use rustix::process::Signal;
use tokio::sync::Notify;

use crate::kill::proxy::Proxy;
use crate::manager::program::Manager;
use crate::testbed::wait::{LIMIT, until};
use crate::testbed::{ControlPlane, World};

/// A manager whose pass waits for the answer to the first create of a Lease.
struct Held {
    world: World,
    manager: Manager,
    let_go: Arc<Notify>,
    proxy: Proxy,
}

impl Held {
    async fn new() -> Self {
        let bed = ControlPlane::shared().await;
        let world = World::new(bed).await;
        let (reached, let_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (at, free) = (Arc::clone(&reached), Arc::clone(&let_go));
        let proxy = Proxy::open(bed, move |passage| {
            let holds = passage.method == Method::POST && passage.path.contains("captf-run-");
            let (at, free) = (Arc::clone(&at), Arc::clone(&free));
            (holds && passage.touches("leases")).then(|| {
                async move {
                    at.notify_one();
                    free.notified().await;
                }
                .boxed()
            })
        })
        .await;
        let manager = Manager::through(proxy.kubeconfig(), &world.namespace, &[]);
        manager.works().await;
        world.cluster("prod").create().await;
        tokio::time::timeout(LIMIT, reached.notified())
            .await
            .unwrap_or_else(|_| panic!("no Lease was created:\n{}", manager.log()));
        Self {
            world,
            manager,
            let_go,
            proxy,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_the_running_pass_end() {
    let held = Held::new().await;
    held.manager.signal(Signal::TERM);
    let asked = Instant::now();
    held.manager.logged("stopping").await;
    assert_eq!(held.manager.end(), None, "{}", held.manager.log());
    held.let_go.notify_one();
    let status = held.manager.ended().await;
    assert_eq!(status.code(), Some(0), "{}", held.manager.log());
    assert!(asked.elapsed() < Duration::from_secs(20));
    let created = held
        .proxy
        .passages()
        .into_iter()
        .filter(|passage| passage.method == Method::POST && passage.touches("jobs"))
        .count();
    assert_eq!(created, 1, "the pass went on to its end");
    let object = held.world.get("TerraformCluster", "prod").await;
    assert!(
        object.data["status"]["activeJob"]["name"].is_string(),
        "with its status patch: {}",
        object.data["status"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once_with_an_error() {
    let held = Held::new().await;
    held.manager.signal(Signal::TERM);
    held.manager.logged("stopping").await;
    held.manager.signal(Signal::INT);
    let asked = Instant::now();
    let status = held.manager.ended().await;
    assert_eq!(status.code(), Some(1), "{}", held.manager.log());
    assert!(
        asked.elapsed() < Duration::from_secs(5),
        "{:?}",
        asked.elapsed()
    );
    assert!(held.manager.log().contains("second signal"));
}

// Another manager goes on where the stopped one was left.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_second_signal_cut_off_is_finished_by_the_next_manager() {
    let held = Held::new().await;
    held.manager.signal(Signal::TERM);
    held.manager.logged("stopping").await;
    held.manager.signal(Signal::TERM);
    held.manager.ended().await;
    let bed = ControlPlane::shared().await;
    let _next = Manager::start(bed, &held.world, &[]);
    until("an active Job", LIMIT, async || {
        let object = held.world.get("TerraformCluster", "prod").await;
        let active = &object.data["status"]["activeJob"]["name"];
        active
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| object.data["status"].to_string())
    })
    .await;
}

/// The holder of the election Lease after a stop before the first lists have come, and who held it before.
async fn stopped_before_the_lists(arguments: &[&str]) -> (Option<String>, Option<String>) {
    let bed = ControlPlane::shared().await;
    let world = World::bare(bed).await;
    let holder = async || {
        let lease = world.typed::<Lease>().get_opt(LEASE).await.unwrap();
        lease?.spec?.holder_identity
    };
    let proxy = Proxy::open(bed, |passage| {
        let holds = passage.method == Method::GET && passage.touches("terraformclusters");
        holds.then(|| std::future::pending().boxed())
    })
    .await;
    let arguments = [&["--leader-elect"], arguments].concat();
    let manager = Manager::through(proxy.kubeconfig(), &world.namespace, &arguments);
    manager.logged("this manager leads").await;
    let leader = holder().await;
    manager.signal(Signal::TERM);
    let status = manager.ended().await;
    assert_eq!(status.code(), Some(0), "{}", manager.log());
    assert!(
        !manager.log().contains("starting workers"),
        "{}",
        manager.log()
    );
    (holder().await, leader)
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_stop_before_the_first_lists_releases_the_election_when_asked() {
    let (after, before) = stopped_before_the_lists(&["--leader-elect-release-on-exit"]).await;
    assert_ne!(before.as_deref(), Some(""));
    assert_eq!(after.as_deref(), Some(""));
}

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_stop_before_the_first_lists_leaves_the_election_by_default() {
    let (after, before) = stopped_before_the_lists(&[]).await;
    assert!(before.as_ref().is_some_and(|name| !name.is_empty()));
    assert_eq!(after, before);
}
