//! The evaluations of cli.md §21 (B1 to B14), with the refusals of §9.2.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;

use super::report::refusal;
use super::{
    Evaluation, Fact, HolderFacts, JobState, LeaseFacts, LivePod, OwnerFacts, State, evaluate,
};
use crate::lease::LeaseView;
use crate::plugin::read::wire::Condition;
use crate::plugin::report::{At, FreesKind};
use crate::plugin::time;

fn now() -> Timestamp {
    "2026-11-30T16:00:00Z".parse().unwrap()
}

fn millis_ago(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(now().as_millisecond() - millis).unwrap()
}

/// A run lease of TerraformCluster `demo` whose holder's Job does not exist.
fn lease(age_millis: i64) -> LeaseFacts {
    LeaseFacts {
        view: LeaseView {
            namespace: "team-a".into(),
            name: "captf-run-6d0be5af00180804-c".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            holder: "captf-c-demo-apply-a3-b9e2b2".into(),
            op: "apply".into(),
            acquired_at: millis_ago(age_millis),
            backstop: Duration::from_secs(4500),
            owner_kind: "TerraformCluster".into(),
            owner_name: "demo".into(),
            cluster: "demo".into(),
            lease: "run".into(),
        },
        written_at: Some(millis_ago(age_millis)),
        fenced: false,
        managed: true,
        job: Fact::Absent,
        pods: Fact::Found(Vec::new()),
        owner: Fact::NotRead,
    }
}

fn with_job(age: i64, state: JobState) -> LeaseFacts {
    let job = HolderFacts {
        state,
        uid: None,
        created: None,
        started: Some(time::plus(now(), -age)),
        deadline_seconds: Some(3600),
        finished: None,
        active_and_ready: Some((1, 1)),
    };
    LeaseFacts {
        job: Fact::Found(job),
        ..lease(age * 1000)
    }
}

fn waiting(reason: &str) -> Fact<OwnerFacts> {
    Fact::Found(OwnerFacts {
        name: "demo".into(),
        conditions: vec![Condition {
            kind: "ApplyJobSucceeded".into(),
            status: "Unknown".into(),
            reason: reason.into(),
            ..Condition::default()
        }],
    })
}

fn pod(stops: Option<i64>) -> Fact<Vec<LivePod>> {
    Fact::Found(vec![LivePod {
        name: "captf-c-demo-apply-a3-b9e2b2-x7k2p".into(),
        created: time::plus(now(), -300),
        stops: stops.map(|seconds| time::plus(now(), seconds)),
    }])
}

fn judged(facts: &LeaseFacts) -> Evaluation {
    evaluate(facts, now())
}

fn state(facts: &LeaseFacts) -> State {
    judged(facts).state
}

#[test]
fn b1_no_holder_is_free() {
    let mut facts = lease(1000);
    facts.view.holder.clear();
    assert_eq!(
        (state(&facts), judged(&facts).free),
        (State::Free, Some(true))
    );
}

#[rstest]
#[case(60_000, State::Starting)]
#[case(60_001, State::HolderMissing)]
fn b2_the_grace_ends_strictly_after_sixty_seconds(#[case] age: i64, #[case] expected: State) {
    assert_eq!(state(&lease(age)), expected);
}

#[rstest]
#[case(4_500_000, State::Held)]
#[case(4_500_001, State::PastBackstop)]
fn b3_the_backstop_ends_it_although_the_job_runs(#[case] age: i64, #[case] expected: State) {
    let mut facts = with_job(4500, JobState::Running);
    facts.view.acquired_at = millis_ago(age);
    assert_eq!(state(&facts), expected);
}

#[test]
fn b4_a_finished_job_with_a_running_pod_is_stopping() {
    let mut facts = with_job(300, JobState::Failed);
    facts.pods = pod(None);
    assert_eq!(
        (state(&facts), judged(&facts).free),
        (State::Stopping, Some(false))
    );
}

#[test]
fn b5_a_finished_job_without_live_pods_is_free() {
    assert_eq!(
        state(&with_job(300, JobState::Complete)),
        State::HolderFinished
    );
}

#[test]
fn b6_an_absent_job_with_a_pod_that_stops_is_stopping() {
    let mut facts = lease(300_000);
    facts.pods = pod(Some(480));
    assert_eq!(state(&facts), State::Stopping);
    assert_eq!(
        judged(&facts).frees.expected,
        Some(At("2026-11-30T16:08:00Z".parse().unwrap()))
    );
}

#[test]
fn b95_old_pods_bound_a_lease_that_is_refreshed_meanwhile() {
    let mut facts = lease(20_000);
    let made = |age: i64| LivePod {
        name: format!("p{age}"),
        created: time::plus(now(), -age),
        stops: None,
    };
    facts.pods = Fact::Found(vec![made(900), made(600)]);
    assert_eq!(state(&facts), State::Stopping);
    // The newest of them was made at 15:50:00; 4500 s later it no longer counts.
    assert_eq!(
        judged(&facts).frees.latest,
        Some(At("2026-11-30T17:05:00Z".parse().unwrap()))
    );
}

#[test]
fn b7_an_unfinished_job_without_pods_holds_it() {
    let evaluation = judged(&with_job(300, JobState::Running));
    assert_eq!(
        (evaluation.state, evaluation.detail),
        (State::Held, Some("NoPod"))
    );
}

#[test]
fn b8_b9_an_unreadable_job_or_pod_list_is_unknown() {
    let job = LeaseFacts {
        job: Fact::Unreadable("forbidden".into()),
        ..lease(300_000)
    };
    assert_eq!((state(&job), judged(&job).free), (State::Unknown, None));
    let pods = LeaseFacts {
        pods: Fact::Unreadable("forbidden".into()),
        ..with_job(300, JobState::Complete)
    };
    assert_eq!((state(&pods), judged(&pods).free), (State::Unknown, None));
}

#[test]
fn b13_an_acquire_time_in_the_future_is_within_the_grace_and_a_skewed_clock() {
    let evaluation = judged(&lease(-94_000));
    assert_eq!(evaluation.state, State::Starting);
    assert!(
        evaluation
            .warnings
            .iter()
            .any(|warning| warning.code == "ManagerClockSkew")
    );
}

#[test]
fn b14_a_reservation_that_is_not_refreshed_lapses() {
    let facts = LeaseFacts {
        owner: waiting("WaitingForMachineOperations"),
        ..lease(95_000)
    };
    let evaluation = judged(&facts);
    assert_eq!(evaluation.state, State::HolderMissing);
    assert!(
        evaluation
            .warnings
            .iter()
            .any(|warning| warning.code == "ReservationLapsed")
    );
}

#[rstest]
#[case("WaitingForMachineOperations", State::Reserved)]
#[case("WaitingForRunLease", State::HashGap)]
#[case("NoApplyYet", State::Starting)]
fn the_owner_tells_why_a_holder_within_its_grace_has_no_job(
    #[case] reason: &str,
    #[case] expected: State,
) {
    let facts = LeaseFacts {
        owner: waiting(reason),
        ..lease(41_000)
    };
    let evaluation = judged(&facts);
    assert_eq!((evaluation.state, evaluation.free), (expected, Some(false)));
}

#[test]
fn a_pod_that_lives_is_named_instead_of_the_grace() {
    let facts = LeaseFacts {
        pods: pod(None),
        ..lease(5000)
    };
    assert_eq!(state(&facts), State::Stopping);
}

#[test]
fn an_orphaned_pod_promises_no_time() {
    let facts = LeaseFacts {
        pods: pod(None),
        ..lease(300_000)
    };
    assert_eq!(judged(&facts).frees.expected, None);
}

#[test]
fn a_held_lease_promises_its_backstop_and_expects_its_deadline() {
    let frees = judged(&with_job(720, JobState::Running)).frees;
    assert_eq!(frees.kind, FreesKind::PodStop);
    assert_eq!(
        frees.expected,
        Some(At("2026-11-30T16:58:00Z".parse().unwrap()))
    );
    assert_eq!(
        frees.latest,
        Some(At("2026-11-30T17:03:00Z".parse().unwrap()))
    );
}

#[test]
fn the_latest_end_of_a_grace_is_that_of_the_slower_clock() {
    let facts = LeaseFacts {
        written_at: Some(millis_ago(2000)),
        ..lease(20_000)
    };
    let frees = judged(&facts).frees;
    assert_eq!(
        frees.earliest,
        Some(At("2026-11-30T16:00:40Z".parse().unwrap()))
    );
    assert_eq!(
        frees.latest,
        Some(At("2026-11-30T16:00:58Z".parse().unwrap()))
    );
}

#[test]
fn a_lease_that_the_fence_wrote_again_shows_no_skew() {
    let written = Some(millis_ago(290_000));
    let unfenced = LeaseFacts {
        written_at: written,
        ..with_job(300, JobState::Running)
    };
    assert_eq!(judged(&unfenced).warnings.len(), 1);
    let fenced = LeaseFacts {
        fenced: true,
        ..unfenced
    };
    assert!(judged(&fenced).warnings.is_empty());
}

fn refused(facts: &LeaseFacts) -> Option<&'static str> {
    refusal(&judged(facts), facts, now())
}

#[test]
fn a_release_by_hand_is_refused_while_anything_may_still_run() {
    assert_eq!(
        refused(&with_job(300, JobState::Running)),
        Some("HolderLive")
    );
    assert_eq!(
        refused(&LeaseFacts {
            pods: pod(None),
            ..lease(300_000)
        }),
        Some("HolderStopping")
    );
    assert_eq!(refused(&lease(20_000)), Some("WithinGrace"));
    assert_eq!(
        refused(&LeaseFacts {
            job: Fact::Unreadable("403".into()),
            ..lease(300_000)
        }),
        Some("Unverifiable")
    );
    assert_eq!(
        refused(&LeaseFacts {
            managed: false,
            ..lease(300_000)
        }),
        Some("NotCaptfLease")
    );
    assert_eq!(
        refused(&with_job(7200, JobState::Running)),
        Some("PastBackstopLive")
    );
}

#[rstest]
#[case(62_000, Some("WithinGrace"))]
#[case(62_001, None)]
fn a_release_by_hand_waits_two_seconds_longer_than_the_grace(
    #[case] age: i64,
    #[case] expected: Option<&'static str>,
) {
    assert_eq!(refused(&lease(age)), expected);
}

#[test]
fn b53_a_fresh_write_is_not_releasable_whatever_time_it_names() {
    let facts = LeaseFacts {
        written_at: Some(millis_ago(1000)),
        ..lease(600_000)
    };
    assert_eq!(state(&facts), State::HolderMissing);
    assert_eq!(refused(&facts), Some("WithinGrace"));
}
