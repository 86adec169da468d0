#![allow(clippy::unwrap_used, clippy::expect_used)]

use rstest::rstest;

use super::*;
use crate::names::Kind;

const OWN: &str = "captf-c-prod-apply-a2-44bb70-x4k8d";

fn object() -> ObjectKey {
    ObjectKey::new(Kind::TerraformCluster, "team-a", "prod")
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn lease(who: &str) -> LockLease {
    LockLease {
        holder_identity: "5f0c".into(),
        lock_info: Some(format!(
            r#"{{"ID":"5f0c-id","Operation":"OperationTypeApply","Info":"","Who":"{who}","Version":"1.16.4","Created":"2026-11-30T16:00:00.123456789Z","Path":""}}"#
        )),
        ..LockLease::default()
    }
}

fn held(lease: &LockLease) -> HeldLock {
    read_lock(&object(), Some(lease)).expect("the lock is held")
}

fn facts(pod: PodFact, job_deadline: Option<u64>, now: &str) -> LockFacts {
    LockFacts {
        pod,
        job_deadline: job_deadline.map(Duration::from_secs),
        effective_deadline: Duration::from_secs(7200),
        now: at(now),
    }
}

fn verdict(lease: &LockLease, facts: LockFacts) -> LockVerdict {
    held(lease).judge(Some(&facts))
}

fn stale() -> LockVerdict {
    LockVerdict::Stale {
        lock_id: "5f0c-id".into(),
    }
}

#[test]
fn no_lease_or_no_holder_is_free() {
    assert_eq!(read_lock(&object(), None), None);
    assert_eq!(read_lock(&object(), Some(&LockLease::default())), None);
}

#[rstest]
#[case(&format!("runner@{OWN}"), true)]
#[case(&format!("@{OWN}"), true)]
#[case(&format!("a@b@{OWN}"), true)]
#[case("@captf-c-prod-destroy-a1-44bb70-x4k8d", true)]
#[case("@captf-m-prod-apply-a2-44bb70-x4k8d", false)]
#[case("@captf-c-other-apply-a2-44bb70-x4k8d", false)]
#[case("@captf-c-prod-apply-a2-44bb70", false)]
#[case("ann@workstation-7", false)]
#[case(OWN, false)]
#[case("", false)]
fn holder_is_own_only_as_a_pod_of_own_jobs_after_the_last_at(#[case] who: &str, #[case] own: bool) {
    let holder = held(&lease(who)).holder;
    assert_eq!(matches!(holder, LockHolder::OwnPod { .. }), own);
    assert_eq!(matches!(holder, LockHolder::Foreign), !own);
}

#[test]
fn an_own_holder_names_its_job() {
    let holder = held(&lease(&format!("@{OWN}"))).holder;
    let expected = LockHolder::OwnPod {
        pod: OWN.into(),
        job: "captf-c-prod-apply-a2-44bb70".into(),
    };
    assert_eq!(holder, expected);
}

#[rstest]
#[case(None)]
#[case(Some("not json".to_owned()))]
fn unparsable_info_is_an_unknown_holder_and_never_stale(#[case] info: Option<String>) {
    let lease = LockLease {
        lock_info: info,
        ..lease("")
    };
    let held = held(&lease);
    assert_eq!(held.holder, LockHolder::Unknown);
    assert_eq!(held.id, "5f0c");
    assert_eq!(
        verdict(&lease, facts(PodFact::Ended, None, "2030-01-01T00:00:00Z")),
        LockVerdict::Foreign
    );
}

#[test]
fn s8_an_own_pod_seen_ended_is_stale_at_any_age() {
    let ended = facts(PodFact::Ended, Some(3600), "2026-11-30T16:00:01Z");
    assert_eq!(verdict(&lease(&format!("@{OWN}")), ended), stale());
}

#[test]
fn s10_an_own_pod_alive_is_never_stale_whatever_the_age() {
    let alive = facts(PodFact::Alive, Some(60), "2030-01-01T00:00:00Z");
    assert_eq!(
        verdict(&lease(&format!("@{OWN}")), alive),
        LockVerdict::Live
    );
}

#[rstest]
// Created 16:00:00.123; the Job's deadline of one hour + 900 s end at 17:15:00.123.
#[case(
    Some(3600),
    "2026-11-30T17:15:00Z",
    "2026-11-30T17:15:00.123456789Z",
    false
)]
#[case(
    Some(3600),
    "2026-11-30T17:15:01Z",
    "2026-11-30T17:15:00.123456789Z",
    true
)]
// Job gone: the object's effective deadline, two hours, is the larger.
#[case(None, "2026-11-30T17:15:01Z", "2026-11-30T18:15:00.123456789Z", false)]
#[case(None, "2026-11-30T18:15:01Z", "2026-11-30T18:15:00.123456789Z", true)]
fn an_absent_pod_is_stale_only_after_deadline_and_margin(
    #[case] deadline: Option<u64>,
    #[case] now: &str,
    #[case] after: &str,
    #[case] expected: bool,
) {
    let verdict = verdict(
        &lease(&format!("@{OWN}")),
        facts(PodFact::Absent, deadline, now),
    );
    if expected {
        assert_eq!(verdict, stale());
    } else {
        let stale_after = Some(at(after));
        assert_eq!(verdict, LockVerdict::Unproven { stale_after });
    }
}

#[test]
fn a_lost_job_is_given_at_least_an_hour() {
    let facts = LockFacts {
        effective_deadline: Duration::from_secs(60),
        ..facts(PodFact::Absent, None, "2026-11-30T17:00:00Z")
    };
    assert_eq!(
        verdict(&lease(&format!("@{OWN}")), facts),
        LockVerdict::Unproven {
            stale_after: Some(at("2026-11-30T17:15:00.123456789Z"))
        }
    );
}

#[test]
fn the_age_counts_from_the_later_of_created_and_the_servers_write() {
    let written = LockLease {
        written_at: Some(at("2026-11-30T16:30:00Z")),
        ..lease(&format!("@{OWN}"))
    };
    assert_eq!(held(&written).since, Some(at("2026-11-30T16:30:00Z")));
    let earlier = LockLease {
        written_at: Some(at("2026-11-30T15:00:00Z")),
        ..written
    };
    assert_eq!(
        held(&earlier).since,
        Some(at("2026-11-30T16:00:00.123456789Z"))
    );
}

#[test]
fn a_lock_of_unknown_age_is_never_proven_by_time() {
    let mut ageless = lease("");
    ageless.lock_info = Some(format!(r#"{{"ID":"5f0c-id","Who":"@{OWN}"}}"#));
    assert_eq!(
        verdict(
            &ageless,
            facts(PodFact::Absent, Some(1), "2030-01-01T00:00:00Z")
        ),
        LockVerdict::Unproven { stale_after: None }
    );
}

#[test]
fn an_own_lock_without_facts_is_unproven() {
    let lock = held(&lease(&format!("@{OWN}")));
    assert_eq!(lock.own_pod(), Some((OWN, "captf-c-prod-apply-a2-44bb70")));
    let unproven = LockVerdict::Unproven { stale_after: None };
    assert_eq!(lock.judge(None), unproven);
}

#[test]
fn s9_a_foreign_lock_is_reported_with_holder_operation_and_time() {
    let lease = lease("ann@workstation-7");
    let verdict = verdict(&lease, facts(PodFact::Absent, None, "2030-01-01T00:00:00Z"));
    assert_eq!(verdict, LockVerdict::Foreign);
    let report = held(&lease).report(&verdict).unwrap();
    let message = report.message();
    assert!(
        message.starts_with(
            "the state is locked (ID 5f0c-id, by ann@workstation-7, operation \
             OperationTypeApply, since 2026-11-30T16:00:00.123456789Z): "
        ),
        "{message}"
    );
}

#[test]
fn an_unproven_lock_says_what_is_missing_and_until_when() {
    let lease = lease(&format!("@{OWN}"));
    let verdict = verdict(
        &lease,
        facts(PodFact::Absent, Some(3600), "2026-11-30T16:10:00Z"),
    );
    let report = held(&lease).report(&verdict).unwrap();
    let message = report.message();
    assert!(message.contains(&format!("pod {OWN} does not exist and nobody saw it end")));
    assert!(message.contains("it counts as stale after 2026-11-30T17:15:00Z"));
}

#[test]
fn live_and_stale_locks_are_not_reported() {
    let held = held(&lease(&format!("@{OWN}")));
    assert_eq!(held.report(&LockVerdict::Live), None);
    assert_eq!(held.report(&stale()), None);
}
