//! Bad input before any API server answers: flags, kubeconfigs, a server that is not there (manager.md §1).

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::program::{Manager, RUNNER_IMAGE, refused};
use crate::kill::proxy::kubeconfig_of;
use crate::testbed::wait;

/// Would be recognised wherever it turned up.
const TOKEN: &str = "planted-token-5f2a91";

/// What a manager that did not start said on standard error, and its exit code.
fn said(arguments: &[&str]) -> (String, i32) {
    let output = refused(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.stdout.is_empty(), "{output:?}");
    (said, output.status.code().expect("it exited"))
}

/// The last line: the reason why it did not start.
fn reason(said: &str) -> &str {
    said.lines().last().unwrap_or_default()
}

fn with_image<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let image = ["--runner-image", RUNNER_IMAGE];
    image.into_iter().chain(arguments.iter().copied()).collect()
}

#[test]
fn an_unknown_flag_is_named() {
    let (said, code) = said(&["--runner-imagine=x"]);
    assert_ne!(code, 0);
    assert!(said.contains("--runner-imagine"), "{said}");
}

// manager.md §16 B1, B2
#[test]
fn every_broken_rule_stands_in_one_message() {
    let (said, code) = said(&[
        "--sync-period=0",
        "--terraformcluster-concurrency=0",
        "--max-active-jobs=-1",
        "--leader-elect-release-on-exit",
        "--tls-min-version=VersionSSL3",
        "--logging-format=text",
        "surplus",
    ]);
    assert_eq!(code, 1, "{said}");
    let message = reason(&said);
    for named in [
        "invalid flags",
        "--sync-period",
        "--terraformcluster-concurrency",
        "--max-active-jobs",
        "--leader-elect-release-on-exit needs --leader-elect",
        "--tls-min-version",
        "CAPTF_MANAGER_IMAGE",
        "surplus",
    ] {
        assert!(message.contains(named), "{named} is not in: {message}");
    }
}

// failover.md §1: lease duration > renew deadline > retry period × 1.2
#[test]
fn election_times_that_contradict_each_other_are_refused() {
    let (said, code) = said(&with_image(&[
        "--leader-elect",
        "--leader-elect-lease-duration=5s",
        "--leader-elect-renew-deadline=5s",
        "--leader-elect-retry-period=5s",
    ]));
    assert_eq!(code, 1);
    let message = reason(&said);
    assert!(
        message.contains("--leader-elect-lease-duration (5s) must be longer than --leader-elect-renew-deadline (5s)")
            && message.contains("1.2 times --leader-elect-retry-period (5s)"),
        "{message}"
    );
}

// manager.md §16 B3
#[test]
fn underscores_spell_a_flag() {
    let (said, _) = said(&with_image(&[
        "--leader_elect",
        "--kubeconfig=/nonexistent",
    ]));
    assert!(
        said.contains("FLAG: --leader-elect=") && said.contains("true"),
        "{said}"
    );
    assert!(!reason(&said).contains("flag"), "{said}");
}

#[test]
fn invalid_logging_flags_end_the_start_before_anything_is_logged() {
    let (said, code) = said(&with_image(&["--logging-format=xml"]));
    assert_eq!(code, 1);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("--logging-format"), "{said}");
}

#[test]
fn without_kubeconfig_and_pod_the_remedy_is_named() {
    let (said, code) = said(&with_image(&[]));
    assert_eq!(code, 1);
    let message = reason(&said);
    assert!(
        message.contains("--kubeconfig") && message.contains("$KUBECONFIG"),
        "{message}"
    );
}

/// A file in a folder that lives as long as the test.
fn file(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    path
}

fn with_kubeconfig(path: &Path) -> (String, i32) {
    let flag = format!("--kubeconfig={}", path.display());
    said(&with_image(&[&flag]))
}

#[test]
fn a_missing_kubeconfig_is_named_with_the_remedy() {
    let (said, code) = with_kubeconfig(Path::new("/nonexistent/kubeconfig"));
    assert_eq!(code, 1);
    let message = reason(&said);
    assert!(
        message.contains("/nonexistent/kubeconfig") && message.contains("name another one"),
        "{message}"
    );
}

/// Kubeconfigs that cannot be used, each with a token near the fault.
#[test]
fn a_broken_kubeconfig_is_named_in_a_sentence_that_quotes_nothing_of_it() {
    let good = kubeconfig_of("https://127.0.0.1:1");
    let with_token = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut config = good.clone();
        config["users"][0]["user"]["token"] = TOKEN.into();
        change(&mut config);
        config.to_string()
    };
    let broken = [
        (
            "no YAML",
            format!("users:\n- name: test\n  user:\n    token: {TOKEN}\n   bad: [\n"),
        ),
        (
            "another type",
            format!("users:\n- name: test\n  user:\n    token: [{TOKEN}]\n"),
        ),
        (
            "no such context",
            with_token(&|config| config["current-context"] = "other".into()),
        ),
        (
            "no URL",
            with_token(&|config| config["clusters"][0]["cluster"]["server"] = "::".into()),
        ),
        (
            "no certificate authority",
            with_token(&|config| {
                config["clusters"][0]["cluster"]["certificate-authority-data"] = "%%%".into();
            }),
        ),
    ];
    for (what, text) in broken {
        let folder = tempfile::tempdir().unwrap();
        let path = file(&folder, &text);
        let (said, code) = with_kubeconfig(&path);
        assert_eq!(code, 1, "{what}: {said}");
        assert!(!said.contains(TOKEN), "{what} quotes the token: {said}");
        let message = reason(&said);
        assert!(
            message.contains(&path.display().to_string()) && message.contains("kubeconfig"),
            "{what}: the last line does not name the file: {said}"
        );
    }
}

/// A server that takes connections and hangs up, and how often it was called.
struct Silent {
    address: String,
    calls: Arc<AtomicUsize>,
}

impl Silent {
    fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let mut connection = connection;
                // A connection on which nothing came was opened in advance and is no call.
                if connection.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { address, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// How many watches a manager keeps: each may try once in a while.
const WATCHES: usize = 9;

/// How many lines of the log call the API server out of reach.
fn complaints(log: &str) -> usize {
    log.lines()
        .filter(|line| line.starts_with('E') && line.contains("cannot be reached"))
        .count()
}

#[tokio::test]
async fn an_api_server_that_hangs_up_is_asked_seldom_and_a_stop_is_clean() {
    let server = Silent::listen();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}", server.address);
    let kubeconfig = file(&folder, &kubeconfig_of(&url).to_string());
    let manager = Manager::through(&kubeconfig, "default", &[]);
    manager.logged("a watch failed and is retried").await;
    let (begin, before) = (Instant::now(), server.calls());
    // Eight seconds after the first failure: the pauses double from 0.8 s on.
    wait::until("eight seconds to pass", wait::LIMIT, async || {
        assert_eq!(manager.end(), None, "{}", manager.log());
        wait::so(begin.elapsed() > Duration::from_secs(8), || {
            "not yet".to_owned()
        })
    })
    .await;
    let calls = server.calls() - before;
    assert!(
        calls <= 4 * WATCHES,
        "{calls} calls in {:?}: {}",
        begin.elapsed(),
        manager.log()
    );
    let said = complaints(&manager.log());
    // Once each, or twice where the end of a connection looked different the second time.
    assert!(
        (WATCHES..=2 * WATCHES).contains(&said),
        "{said} complaints: {}",
        manager.log()
    );
    assert!(!manager.log().contains("works again"), "{}", manager.log());
    assert_eq!(manager.health("/healthz").await.0, 200);
    let status = manager.stop().await;
    assert_eq!(status.code(), Some(0), "{}", manager.log());
}

#[tokio::test]
async fn a_candidate_that_cannot_reach_the_api_server_goes_on_and_a_stop_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = file(&folder, &kubeconfig_of("http://127.0.0.1:1").to_string());
    let manager = Manager::through(&kubeconfig, "default", &["--leader-elect"]);
    manager.logged("an attempt to lead failed").await;
    manager.logged("a watch failed and is retried").await;
    let log = manager.log();
    let line = log
        .lines()
        .find(|line| line.contains("a watch failed"))
        .unwrap_or_default();
    assert!(
        line.contains("Connection refused") && line.contains("check the server"),
        "neither cause nor remedy: {line}"
    );
    assert_eq!(manager.health("/readyz").await.0, 200);
    let status = manager.stop().await;
    assert_eq!(status.code(), Some(0), "{}", manager.log());
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = file(&folder, &kubeconfig_of("http://127.0.0.1:1").to_string());
    let manager = Manager::through(
        &kubeconfig,
        "default",
        &[&format!("--health-addr={address}")],
    );
    let status = manager.ended().await;
    assert_eq!(status.code(), Some(1));
    let log = manager.log();
    let message = reason(&log);
    assert!(
        message.contains(&address.to_string()) && message.contains("--health-addr"),
        "{message}"
    );
}
