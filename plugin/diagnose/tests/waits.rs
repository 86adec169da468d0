//! Waits for leases, slots and the next start.

use super::*;

#[test]
fn d37_a_running_holder_that_the_manager_does_not_know_is_waited_for() {
    let mut facts = waiting();
    facts.jobs = Fact::Found(vec![job(300, None)]);
    facts.run_lease = lease(&facts, 300, running_job(JobState::Running), Vec::new());
    let report = explain(&facts);
    assert_eq!(
        (report.verdict, report.row),
        (Verdict::Waiting, Some("D37"))
    );
    assert_eq!(report.root.node, 1);
    assert_eq!(
        report.next.last().map(|next| next.code),
        Some("OperationStarts")
    );
}

#[test]
fn d42_a_holder_past_its_deadline_is_still_ending() {
    let mut facts = waiting();
    facts.run_lease = lease(&facts, 3700, running_job(JobState::Ending), Vec::new());
    assert_eq!(row(&facts), "D42");
}

#[test]
fn d38_a_pod_of_the_finished_holder_is_waited_for() {
    let mut facts = waiting();
    let pod = pod(100, "Running", json!({}));
    facts.run_lease = lease(&facts, 120, running_job(JobState::Failed), vec![live(&pod)]);
    facts.pods = Fact::Found(vec![pod]);
    assert_eq!(
        shows(&facts),
        (Verdict::Waiting, "D38", "JobStopping".into())
    );
}

#[test]
fn d142_a_lease_refreshed_after_the_pod_was_made_waits_for_an_old_pod() {
    let mut facts = waiting();
    let pod = pod(100, "Running", json!({}));
    facts.run_lease = lease(&facts, 20, Fact::Absent, vec![live(&pod)]);
    facts.pods = Fact::Found(vec![pod]);
    let report = explain(&facts);
    assert_eq!(
        (report.row, report.code.as_str()),
        (Some("D142"), "OldPods")
    );
    // An orphaned pod promises no time at which it stops; the bound is its own age.
    assert!(report.next.iter().all(|next| next.code != "PodStops"));
    let latest = report
        .next
        .iter()
        .find(|next| next.code == "LeaseFrees")
        .and_then(|next| next.latest);
    assert_eq!(latest, Some(At("2026-11-30T17:13:20Z".parse().unwrap())));
}

#[rstest]
#[case::within(60, "D39", "Starting")]
#[case::past(61, "D40", "HolderMissing")]
fn d39_and_d40_part_at_sixty_seconds(#[case] age: i64, #[case] expected: &str, #[case] code: &str) {
    let mut facts = scene(&[]);
    facts.run_lease = lease(&facts, age, Fact::Absent, Vec::new());
    assert_eq!(shows(&facts), (Verdict::Waiting, expected, code.to_owned()));
}

#[test]
fn d40_a_finished_holder_is_taken_over_at_the_next_pass() {
    let mut facts = waiting();
    facts.run_lease = lease(&facts, 300, running_job(JobState::Complete), Vec::new());
    assert_eq!(
        shows(&facts),
        (Verdict::Waiting, "D40", "HolderFinished".into())
    );
}

#[test]
fn d41_the_hash_change_gap_counts_down_to_both_leases() {
    let mut facts = waiting();
    facts.run_lease = lease(&facts, 41, Fact::Absent, Vec::new());
    let mut cluster = lease(&facts, 40, Fact::Absent, Vec::new());
    if let Fact::Found(cluster) = &mut cluster {
        cluster.view.name = "captf-cluster-1960e37ce9a93a17".into();
        cluster.view.lease = "cluster".into();
    }
    facts.cluster_lease = cluster;
    let report = explain(&facts);
    assert_eq!((report.row, report.code.as_str()), (Some("D41"), "HashGap"));
    let gap = report.chain[0].gap.clone().unwrap();
    assert_eq!(
        (gap.cause, gap.old_hash6.as_str(), gap.remaining_seconds),
        ("InputsChanged", "dbb569", 20)
    );
    assert_eq!(gap.also_held, ["captf-cluster-1960e37ce9a93a17"]);
    assert_eq!(
        gap.takeover_latest,
        At("2026-11-30T16:00:50Z".parse().unwrap())
    );
}

#[test]
fn d41_needs_a_holder_of_this_objects_own_name_pattern() {
    let mut facts = waiting();
    let mut run = lease(&facts, 41, Fact::Absent, Vec::new());
    if let Fact::Found(run) = &mut run {
        run.view.holder = "captf-c-other-apply-a1-dbb569".into();
    }
    facts.run_lease = run;
    assert_eq!(row(&facts), "D39");
}

#[rstest]
#[case::exactly(4500, "D37")]
#[case::past(4501, "D43")]
fn d43_begins_strictly_past_the_backstop(#[case] age: i64, #[case] expected: &str) {
    let mut facts = waiting();
    facts.run_lease = lease(&facts, age, running_job(JobState::Running), Vec::new());
    assert_eq!(row(&facts), expected);
}

#[test]
fn d44_another_operation_holds_the_cluster_lease() {
    let mut facts = waiting();
    let name = "captf-cluster-1960e37ce9a93a17";
    for condition in &mut facts.object.status.conditions {
        if condition.reason == "WaitingForRunLease" {
            condition.message =
                format!("waiting for the cluster write lease {name}, held by Job x");
        }
    }
    let mut cluster = lease(&facts, 100, running_job(JobState::Running), Vec::new());
    if let Fact::Found(cluster) = &mut cluster {
        cluster.view.name = name.into();
        cluster.view.lease = "cluster".into();
    }
    facts.cluster_lease = cluster;
    assert_eq!(row(&facts), "D44");
}

#[test]
fn d45_a_lost_race_is_tried_again() {
    let mut facts = waiting();
    for condition in &mut facts.object.status.conditions {
        condition.message = "another manager took it first".into();
    }
    assert_eq!(shows(&facts), (Verdict::Waiting, "D45", "LostRace".into()));
}

#[test]
fn a_wait_whose_lease_is_gone_is_cleared_by_the_next_pass() {
    assert_eq!(
        shows(&waiting()),
        (Verdict::Waiting, "D40", "Cleared".into())
    );
}

#[test]
fn an_unreadable_job_is_unknown_and_never_free() {
    let mut facts = waiting();
    facts.run_lease = lease(
        &facts,
        300,
        Fact::Unreadable("cannot get job".into()),
        Vec::new(),
    );
    let report = explain(&facts);
    assert_eq!(
        (report.verdict, report.code.as_str()),
        (Verdict::Unknown, "Unreadable")
    );
    assert_eq!(
        report.next[0].latest,
        Some(At("2026-11-30T17:10:00Z".parse().unwrap()))
    );
}

/// The run lease of a machine of the cluster.
fn machine_lease(facts: &Facts, number: usize, job: Fact<HolderFacts>) -> LeaseFacts {
    let Fact::Found(mut lease) = lease(facts, 30, job, Vec::new()) else {
        panic!("a lease")
    };
    let machine = format!("m{number}");
    lease.view.name = format!("captf-run-{number}-m");
    lease.view.holder = JobName::compose(Kind::TerraformMachine, &machine, Op::Apply, 1, "abcdef")
        .as_str()
        .to_owned();
    lease.view.owner_kind = Kind::TerraformMachine.as_str().into();
    lease.view.owner_name = machine;
    lease.owner = Fact::NotRead;
    lease
}

#[test]
fn d48_every_machine_operation_is_a_link_of_its_own() {
    let mut facts = scene(&[(
        "ApplyJobSucceeded",
        "Unknown",
        "WaitingForMachineOperations",
    )]);
    facts.run_lease = lease(&facts, 12, Fact::Absent, Vec::new());
    let machines =
        (1..=7).map(|number| machine_lease(&facts, number, running_job(JobState::Running)));
    facts.machine_leases = Fact::Found(machines.collect());
    let report = explain(&facts);
    assert_eq!((report.row, report.chain.len()), (Some("D48"), 8));
    assert!(
        report.chain[1..]
            .iter()
            .all(|link| link.parent == Some(0) && link.code == "JobRunning")
    );
}

#[test]
fn d49_a_machine_lease_without_a_job_yet_is_told_apart() {
    let mut facts = scene(&[(
        "ApplyJobSucceeded",
        "Unknown",
        "WaitingForMachineOperations",
    )]);
    facts.machine_leases = Fact::Found(vec![machine_lease(&facts, 1, Fact::Absent)]);
    assert_eq!(explain(&facts).chain[1].row, Some("D49"));
}

#[rstest]
#[case("20 Jobs run in all", "D51")]
#[case("20 Jobs of cluster demo run", "D52")]
fn slots_are_told_apart_by_their_scope(#[case] message: &str, #[case] expected: &str) {
    let mut facts = scene(&[("ApplyJobSucceeded", "Unknown", "WaitingForJobSlot")]);
    for condition in &mut facts.object.status.conditions {
        condition.message = message.into();
    }
    assert_eq!(row(&facts), expected);
}

#[test]
fn a_moved_job_is_waited_for_until_its_mark_says() {
    let mut facts = scene(&[("ApplyJobSucceeded", "Unknown", "WaitingForMovedJob")]);
    let mut mark = |uid: &str, until: &str| {
        let key = "clusterctl.cluster.x-k8s.io/block-move".to_owned();
        let marks = &mut facts.object.metadata.annotations;
        marks.insert(key, format!("{uid} {until}"));
        explain(&facts)
    };
    let until = "2999-10-01T13:00:00Z";
    let report = mark("source", until);
    assert_eq!(
        (report.verdict, report.row),
        (Verdict::Waiting, Some("D154"))
    );
    let passes = report
        .next
        .iter()
        .find(|next| next.code == "Passes")
        .unwrap();
    assert_eq!(passes.latest.unwrap().0.to_string(), until);
    assert_eq!(mark("source", "2001-10-01T13:00:00Z").row, Some("D40"));
}

#[test]
fn d139_a_due_apply_that_nothing_holds_up_is_being_started() {
    assert_eq!(
        shows(&scene(&[])),
        (Verdict::Waiting, "D139", "StartDeferred".into())
    );
}

#[rstest]
#[case("ImageInvalid", "D69")]
#[case("InputsTooLarge", "D70")]
#[case("JobPolicyInvalid", "D71")]
fn a_refused_start_outranks_that_it_is_due(#[case] reason: &str, #[case] expected: &str) {
    let facts = scene(&[
        ("ApplyJobSucceeded", "False", reason),
        ("InputsApplied", "False", "ApplyPending"),
    ]);
    let report = explain(&facts);
    assert_eq!(
        (report.verdict, report.row),
        (Verdict::NeedsAction, Some(expected))
    );
}
