#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use tokio::time::{Instant, advance, timeout};

use super::*;
use crate::operator::metrics::{BuildInfo, Metrics};

const QUEUE: &str = "terraformcluster";

fn queue() -> WorkQueue<&'static str> {
    queue_with(&metrics())
}

fn metrics() -> Metrics {
    Metrics::new(BuildInfo {
        version: "v0.0.0",
        commit: "",
    })
}

fn queue_with(metrics: &Metrics) -> WorkQueue<&'static str> {
    WorkQueue::new(metrics.queue(QUEUE))
}

/// The next item if one is ready now.
async fn try_next(queue: &WorkQueue<&'static str>) -> Option<Item<&'static str>> {
    timeout(Duration::ZERO, queue.next()).await.ok().flatten()
}

/// Takes every key that is ready now and finishes it.
async fn drain(queue: &WorkQueue<&'static str>) -> Vec<&'static str> {
    let mut keys = Vec::new();
    while let Some(item) = try_next(queue).await {
        keys.push(*item.key());
        item.finish(Outcome::Done);
    }
    keys
}

fn has_sample(metrics: &Metrics, sample: &str) -> bool {
    metrics.encode().unwrap().lines().any(|line| line == sample)
}

#[tokio::test(start_paused = true)]
async fn a_key_added_twice_is_handed_out_once() {
    let queue = queue();
    queue.add("a");
    queue.add("a");
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn keys_come_out_in_the_order_they_came_in() {
    let queue = queue();
    for key in ["c", "a", "b", "a"] {
        queue.add(key);
    }
    assert_eq!(drain(&queue).await, ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn normal_keys_come_before_low_ones() {
    let queue = queue();
    queue.add_with("low", Priority::Low);
    queue.add("normal");
    assert_eq!(drain(&queue).await, ["normal", "low"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_key_is_raised_and_never_lowered() {
    let queue = queue();
    queue.add_with("first low", Priority::Low);
    queue.add_with("raised", Priority::Low);
    queue.add("raised");
    queue.add("kept");
    queue.add_with("kept", Priority::Low);
    assert_eq!(drain(&queue).await, ["raised", "kept", "first low"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_never_held_twice_at_once() {
    let queue = queue();
    queue.add("a");
    let held = try_next(&queue).await.unwrap();
    queue.add("a");
    assert!(try_next(&queue).await.is_none());
    held.finish(Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_held_runs_once_more() {
    let queue = queue();
    queue.add("a");
    let held = try_next(&queue).await.unwrap();
    queue.add("a");
    queue.add("a");
    held.finish(Outcome::Done);
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_held_queues_behind_what_is_ready() {
    let queue = queue();
    queue.add("a");
    let held = try_next(&queue).await.unwrap();
    queue.add("a");
    queue.add("b");
    held.finish(Outcome::Done);
    assert_eq!(drain(&queue).await, ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_after_its_delay() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(30));
    advance(Duration::from_millis(29_999)).await;
    assert!(try_next(&queue).await.is_none());
    advance(Duration::from_millis(1)).await;
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn of_several_delays_the_earliest_counts() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(60));
    queue.add_after("a", Duration::from_secs(5));
    queue.add_after("a", Duration::from_secs(30));
    advance(Duration::from_secs(5)).await;
    assert_eq!(drain(&queue).await, ["a"]);
    advance(Duration::from_secs(60)).await;
    assert!(drain(&queue).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_makes_a_delayed_key_ready_at_once() {
    let queue = queue();
    queue.add_after("a", Duration::from_secs(60));
    queue.add("a");
    assert_eq!(drain(&queue).await, ["a"]);
    advance(Duration::from_secs(60)).await;
    assert!(drain(&queue).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ready_key_is_not_delayed() {
    let queue = queue();
    queue.add("a");
    queue.add_after("a", Duration::from_secs(60));
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_ends_while_the_key_is_held_runs_it_once_more() {
    let queue = queue();
    queue.add("a");
    let held = try_next(&queue).await.unwrap();
    queue.add_after("a", Duration::from_secs(5));
    advance(Duration::from_secs(5)).await;
    assert!(try_next(&queue).await.is_none());
    held.finish(Outcome::Done);
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_may_ask_to_come_back() {
    let queue = queue();
    queue.add("a");
    try_next(&queue)
        .await
        .unwrap()
        .finish(Outcome::DoneAgainAfter(Duration::from_secs(30)));
    advance(Duration::from_secs(29)).await;
    assert!(try_next(&queue).await.is_none());
    advance(Duration::from_secs(1)).await;
    assert_eq!(drain(&queue).await, ["a"]);
}

/// How long after a failure the key comes back.
async fn time_until_next(queue: &WorkQueue<&'static str>) -> (Duration, Item<&'static str>) {
    let start = Instant::now();
    let item = queue.next().await.unwrap();
    (start.elapsed(), item)
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_backs_off_and_a_success_forgets_it() {
    let queue = queue();
    queue.add("a");
    let mut item = queue.next().await.unwrap();
    for expected in [5, 10, 20, 40] {
        item.finish(Outcome::Failed);
        let (waited, next) = time_until_next(&queue).await;
        assert_eq!(waited, Duration::from_millis(expected));
        item = next;
    }
    item.finish(Outcome::Done);
    queue.add("a");
    queue.next().await.unwrap().finish(Outcome::Failed);
    let (waited, item) = time_until_next(&queue).await;
    assert_eq!(waited, Duration::from_millis(5));
    item.finish(Outcome::DoneAgainAfter(Duration::from_secs(1)));
    queue.next().await.unwrap().finish(Outcome::Failed);
    assert_eq!(time_until_next(&queue).await.0, Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn keys_back_off_each_on_its_own() {
    let queue = queue();
    queue.add("a");
    for _ in 0..8 {
        queue.next().await.unwrap().finish(Outcome::Failed);
    }
    queue.add_with("b", Priority::Low);
    let (waited, item) = time_until_next(&queue).await;
    assert_eq!((*item.key(), waited), ("b", Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn an_event_ends_a_backoff() {
    let queue = queue();
    queue.add("a");
    for _ in 0..10 {
        queue.next().await.unwrap().finish(Outcome::Failed);
    }
    queue.add("a");
    assert_eq!(drain(&queue).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_item_dropped_without_outcome_counts_as_failed() {
    let queue = queue();
    queue.add("a");
    drop(queue.next().await.unwrap());
    assert_eq!(time_until_next(&queue).await.0, Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_worker_wakes_for_an_add() {
    let queue = queue();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    queue.add("a");
    assert_eq!(waiting.await.unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn every_waiting_worker_gets_a_key_when_there_are_enough() {
    let queue = queue();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.next().await.map(|item| *item.key()) })
        })
        .collect();
    tokio::task::yield_now().await;
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    let mut keys = Vec::new();
    for worker in workers {
        keys.extend(worker.await.unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_wakes_a_worker_that_waits_for_a_later_one() {
    let queue = queue();
    queue.add_after("late", Duration::from_secs(60));
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    queue.add_after("early", Duration::from_secs(1));
    assert_eq!(waiting.await.unwrap(), Some("early"));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_hands_out_nothing_and_ends_its_workers() {
    let queue = queue();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    tokio::task::yield_now().await;
    queue.shut_down();
    assert!(waiting.await.unwrap());
    queue.add("a");
    assert!(queue.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_measured_under_controller_runtimes_names() {
    let metrics = metrics();
    let queue = queue_with(&metrics);
    queue.add("a");
    queue.add("a");
    queue.add("b");
    assert!(has_sample(
        &metrics,
        r#"workqueue_depth{name="terraformcluster"} 2"#
    ));
    assert!(has_sample(
        &metrics,
        r#"workqueue_adds_total{name="terraformcluster"} 2"#
    ));
    let item = queue.next().await.unwrap();
    advance(Duration::from_secs(7)).await;
    assert!(has_sample(
        &metrics,
        r#"workqueue_depth{name="terraformcluster"} 1"#
    ));
    assert!(has_sample(
        &metrics,
        r#"workqueue_unfinished_work_seconds{name="terraformcluster"} 7.0"#
    ));
    assert!(has_sample(
        &metrics,
        r#"workqueue_longest_running_processor_seconds{name="terraformcluster"} 7.0"#
    ));
    item.finish(Outcome::Failed);
    assert!(has_sample(
        &metrics,
        r#"workqueue_retries_total{name="terraformcluster"} 1"#
    ));
    assert!(has_sample(
        &metrics,
        r#"workqueue_work_duration_seconds_sum{name="terraformcluster"} 7.0"#
    ));
    assert!(has_sample(
        &metrics,
        r#"workqueue_unfinished_work_seconds{name="terraformcluster"} 0.0"#
    ));
}
