//! Stopping a run (runner.md §7.1).

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use super::world::World;

#[tokio::test]
async fn a_stopped_apply_saves_its_state_and_frees_its_lock() {
    let world = World::terraform();
    world.inputs(&json!({"knob": {"sleep": 600}}));
    let running = world.start(&["--op=apply"]);
    running.sees("stdout", "slow: Provisioning with").await;
    running.terminate();
    let run = running.end();
    run.failed("interrupted", Some("apply"));
    let state: serde_json::Value = serde_json::from_str(&world.read("state.tfstate")).unwrap();
    assert!(
        !state["resources"].as_array().unwrap().is_empty(),
        "{state}"
    );
    let lock = world.path(".state.tfstate.lock.info");
    assert!(!lock.exists(), "{}", fs::read_to_string(lock).unwrap());
}

#[tokio::test]
async fn the_runtime_gets_one_signal_however_many_come() {
    let world = World::script(
        r#"[ "$1" = apply ] || exit 0
trap 'echo signalled >>"$CALLS"; got=1' TERM
echo waiting
while [ -z "$got" ]; do sleep 0.05; done
echo saving; while [ ! -e "${CALLS%calls}finish" ]; do sleep 0.05; done
exit 1"#,
    );
    let running = world.start(&["--op=apply"]);
    running.sees("stdout", "waiting").await;
    running.terminate();
    running.sees("stdout", "saving").await;
    running.terminate();
    running.sees("stderr", "already stopping").await;
    fs::write(world.path("finish"), "").unwrap();
    running.end().failed("interrupted", Some("apply"));
    assert_eq!(world.read("calls").matches("signalled").count(), 1);
}

#[tokio::test]
async fn a_runtime_that_does_not_stop_is_killed() {
    let world = World::script(
        r#"[ "$1" = apply ] || exit 0
trap '' TERM
echo waiting
while true; do sleep 0.05; done"#,
    );
    let running = world.start(&["--op=apply", "--stop-timeout=1s"]);
    running.sees("stdout", "waiting").await;
    let signalled = Instant::now();
    running.terminate();
    let run = running.end();
    run.failed("interrupted", Some("apply"));
    assert!(signalled.elapsed() >= Duration::from_secs(1));
    assert!(
        run.tail()
            .contains("did not stop within 1 s and was killed"),
        "{}",
        run.tail()
    );
    assert_eq!(run.steps().last().unwrap(), &("apply".to_owned(), 1));
}

#[tokio::test]
async fn a_step_that_finishes_while_stopping_counts_and_the_next_is_interrupted() {
    let world = World::script(
        r#"case "$1" in
init) trap 'exit 0' TERM; echo waiting; while true; do sleep 0.05; done;;
validate) while true; do sleep 0.05; done;;
esac"#,
    );
    let running = world.start(&["--op=apply"]);
    running.sees("stdout", "waiting").await;
    running.terminate();
    let run = running.end();
    run.failed("interrupted", Some("validate"));
    assert_eq!(
        run.steps(),
        [("init".to_owned(), 0), ("validate".to_owned(), 1)]
    );
}

#[tokio::test]
async fn a_stopped_run_whose_last_step_succeeds_has_succeeded() {
    let world = World::script(
        r#"[ "$1" = apply ] || exit 0
trap 'exit 0' TERM
echo waiting
while true; do sleep 0.05; done"#,
    );
    let running = world.start(&["--op=apply"]);
    running.sees("stdout", "waiting").await;
    running.terminate();
    running.end().succeeded();
}

#[test]
fn output_that_stays_open_delays_a_run_no_longer_than_the_grace() {
    let world = World::script(r#"[ "$1" = apply ] && (sleep 600 &) ; exit 0"#);
    let started = Instant::now();
    world.run(&["--op=apply", "--stop-timeout=1s"]).succeeded();
    assert!(started.elapsed() < Duration::from_secs(60));
}
