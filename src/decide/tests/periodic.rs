use super::*;

const UID: &str = "uid-1";

#[test]
fn a_refresh_follows_each_apply_of_a_machine() {
    let mut input = machine();
    input.schedule.last_apply_succeeded = Some(at("12:59"));
    assert_eq!(reason(&input), "RefreshAfterApply");
    input.schedule.last_refresh = Some(at("12:58"));
    assert_eq!(reason(&input), "RefreshAfterApply");
    input.schedule.last_refresh = Some(at("12:59"));
    assert_eq!(reason(&input), "UpToDate");
}

#[test]
fn a_cluster_is_not_refreshed_after_an_apply() {
    let mut input = settled();
    input.schedule.last_apply_succeeded = Some(at("12:59"));
    assert_eq!(reason(&input), "UpToDate");
}

#[rstest]
#[case(0, 30)]
#[case(1, 30)]
#[case(2, 60)]
#[case(3, 120)]
#[case(4, 240)]
#[case(5, 300)]
#[case(6, 300)]
#[case(1000, 300)]
fn j16_b32_pending_refreshes_are_spaced(#[case] samples: u32, #[case] delay: i64) {
    let mut input = settled();
    input.state = StateView::Present {
        inputs_hash: hash("h2:a"),
        pending: true,
    };
    input.schedule.pending_refreshes = samples;
    input.schedule.last_refresh = Some(at("13:00"));
    let decision = decide(&input);
    assert_eq!(decision.reason.as_str(), "UpToDate");
    assert_eq!(decision.requeue, seconds(delay));
    input.now = at("13:00") + SignedDuration::from_secs(delay);
    assert_eq!(reason(&input), "HealthPending");
}

#[test]
fn a_pending_object_never_refreshed_is_due_now() {
    let mut input = settled();
    input.state = StateView::Present {
        inputs_hash: hash("h2:a"),
        pending: true,
    };
    assert_eq!(reason(&input), "HealthPending");
}

#[test]
fn a_converging_pool_is_refreshed_every_30_s_and_its_jitter() {
    let mut input = Input {
        kind: Kind::TerraformMachinePool,
        uid: UID.into(),
        ..settled()
    };
    input.schedule.converging = true;
    input.schedule.last_refresh = Some(at("13:00"));
    assert_eq!(
        decide(&input).requeue,
        Some(SignedDuration::new(30, 401_775_683))
    );
    input.now = at("13:00:31");
    assert_eq!(reason(&input), "MembershipConverging");
}

#[rstest]
#[case(60, 3, 401_775_683)]
#[case(300, 21, 401_775_683)]
#[case(1800, 51, 401_775_683)]
fn deadlines_are_shifted_by_the_objects_jitter(
    #[case] interval: u64,
    #[case] seconds: i64,
    #[case] nanos: i32,
) {
    let mut input = Input {
        uid: UID.into(),
        ..settled()
    };
    input.schedule.last_drift_check = Some(at("13:00"));
    input.schedule.drift_interval = Duration::from_secs(interval);
    let expected = SignedDuration::new(i64::try_from(interval).unwrap() + seconds, nanos);
    assert_eq!(decide(&input).requeue, Some(expected));
}

#[test]
fn b31_the_first_drift_check_is_one_interval_after_the_last_apply() {
    let mut input = settled();
    input.schedule.drift_interval = Duration::from_secs(1800);
    input.schedule.last_apply_succeeded = Some(at("12:40"));
    assert_eq!(decide(&input).requeue, minutes(10));
}

#[test]
fn j19_b31_without_history_it_is_one_interval_after_the_creation() {
    let mut input = Input {
        created: at("12:45"),
        ..settled()
    };
    input.schedule.drift_interval = Duration::from_secs(1800);
    assert_eq!(decide(&input).requeue, minutes(15));
}

#[test]
fn an_interval_of_zero_is_off() {
    let input = settled();
    assert_eq!(decide(&input).requeue, None);
}

#[test]
fn membership_comes_before_health_and_drift() {
    let mut input = settled();
    input.schedule.membership_interval = Duration::from_secs(60);
    input.schedule.health_interval = Duration::from_secs(300);
    input.schedule.drift_interval = Duration::from_secs(1800);
    assert_eq!(reason(&input), "MembershipRefreshDue");
    input.schedule.last_refresh = Some(at("12:59:30"));
    assert_eq!(reason(&input), "DriftDue");
    input.schedule.membership_interval = Duration::ZERO;
    input.schedule.last_refresh = Some(at("12:50"));
    assert_eq!(reason(&input), "HealthCheckDue");
}

#[test]
fn a_refresh_in_backoff_lets_a_due_drift_check_go() {
    let mut input = Input {
        failures: failed(Op::Refresh, 1, "12:59:30"),
        ..settled()
    };
    input.schedule.membership_interval = Duration::from_secs(60);
    let decision = decide(&input);
    assert_eq!(decision.reason.as_str(), "MembershipRefreshDueBackoff");
    assert_eq!(decision.requeue, seconds(30));
    input.schedule.drift_interval = Duration::from_secs(1800);
    assert_eq!(decide(&input).op(), Some(Op::Drift));
}

#[test]
fn the_pass_comes_back_at_the_soonest_deadline() {
    let mut input = settled();
    input.schedule.drift_interval = Duration::from_secs(1800);
    input.schedule.last_drift_check = Some(at("12:55"));
    input.schedule.membership_interval = Duration::from_secs(60);
    input.schedule.last_refresh = Some(at("12:59:40"));
    assert_eq!(decide(&input).requeue, seconds(40));
}
