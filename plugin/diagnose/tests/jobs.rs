//! A Job that runs, one that failed, and the locks and leftovers of one.

use super::*;

#[test]
fn d54_an_active_job_is_the_work() {
    let report = explain(&active(300, Some(pod(290, "Running", json!({})))));
    assert_eq!(
        (report.verdict, report.row, report.code.as_str()),
        (Verdict::Running, Some("D54"), "JobRunning")
    );
    let codes: Vec<&str> = report.next.iter().map(|next| next.code).collect();
    assert_eq!(codes, ["JobStops", "PodStops", "LeaseFrees"]);
}

fn first_warnings(facts: &Facts) -> Vec<&'static str> {
    let report = explain(facts);
    let of_jobs = |code: &&str| ["JobRunning", "JobEvidence"].contains(code);
    report.chain[0]
        .warnings
        .iter()
        .map(|warning| warning.code)
        .filter(of_jobs)
        .collect()
}

#[test]
fn d14_a_pause_does_not_hide_the_job_that_runs_on() {
    let mut facts = active(300, Some(pod(290, "Running", json!({}))));
    assert_eq!(first_warnings(&facts), [""; 0]);
    facts
        .object
        .metadata
        .annotations
        .insert("cluster.x-k8s.io/paused".into(), String::new());
    assert_eq!(row(&facts), "D14");
    assert_eq!(first_warnings(&facts), ["JobRunning"]);
}

#[test]
fn a_running_job_that_no_run_lease_names_is_told_of() {
    let mut facts = active(300, Some(pod(290, "Running", json!({}))));
    facts.run_lease = Fact::Unreadable("forbidden".into());
    assert_eq!(first_warnings(&facts), [""; 0]);
    facts.run_lease = Fact::Absent;
    assert_eq!(row(&facts), "D54");
    assert_eq!(first_warnings(&facts), ["JobEvidence"]);
}

#[test]
fn d55_an_unschedulable_pod_says_why() {
    let mut pending = pod(90, "Pending", json!({}));
    pending.unschedulable = Some("0/3 nodes are available".into());
    let report = explain(&active(100, Some(pending)));
    assert_eq!(report.row, Some("D55"));
    assert!(report.chain[1].message.contains("0/3 nodes"));
}

#[rstest]
#[case("containerStatuses", "source", "D56")]
#[case("initContainerStatuses", "runner", "D57")]
fn a_pull_failure_is_told_apart_by_its_container(
    #[case] list: &str,
    #[case] name: &str,
    #[case] expected: &str,
) {
    let waiting = json!({list: [{"name": name, "image": "x", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    assert_eq!(
        row(&active(100, Some(pod(90, "Pending", waiting)))),
        expected
    );
}

#[test]
fn d58_an_image_that_has_a_fallback_needs_no_person() {
    let waiting = json!({"containerStatuses": [{"name": "source", "image": "x", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]});
    let mut facts = active(150, Some(pod(140, "Pending", waiting)));
    let mut destroy = job(150, None);
    destroy.metadata.labels.insert(
        "captf.infrastructure.cluster.x-k8s.io/op".into(),
        "destroy".into(),
    );
    facts.jobs = Fact::Found(vec![destroy]);
    let report = explain(&facts);
    assert_eq!(report.row, Some("D58"));
    assert_ne!(report.verdict, Verdict::NeedsAction);
}

#[test]
fn d61_a_container_that_cannot_be_created_is_waited_out() {
    let waiting = json!({"containerStatuses": [{"name": "source", "image": "x", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": "CreateContainerConfigError"}}}]});
    assert_eq!(
        shows(&active(130, Some(pod(125, "Pending", waiting)))),
        (Verdict::Waiting, "D61", "JobStuck".into())
    );
}

#[rstest]
#[case::young(30, "D140")]
#[case::old(60, "D60")]
fn a_pod_without_its_secret_is_unarmed_and_then_stuck(#[case] age: i64, #[case] expected: &str) {
    let mut facts = active(age, Some(pod(age, "Pending", json!({}))));
    facts.pod_events = Fact::Found(vec![Event {
        reason: "FailedMount".into(),
        note: format!("MountVolume.SetUp failed: secret \"captf-run-{JOB}\" not found"),
        ..Event::default()
    }]);
    assert_eq!(row(&facts), expected);
}

#[test]
fn d62_a_job_that_gets_no_pod_is_told_from_one_that_just_started() {
    assert_eq!(row(&active(10, None)), "D54");
    assert_eq!(row(&active(61, None)), "D62");
}

#[test]
fn d153_a_pod_on_a_lost_node_outranks_the_running_job() {
    let mut facts = active(300, Some(pod(290, "Running", json!({}))));
    facts.node = Fact::Found(NodeView {
        name: "node-7".into(),
        ready: Some(("Unknown".into(), None)),
    });
    assert_eq!(
        shows(&facts),
        (Verdict::NeedsAction, "D153", "NodeLost".into())
    );
}

/// A cluster whose newest apply failed this way.
fn failed(reason: &str, condition: (&str, &str)) -> Facts {
    let mut facts = scene(&[("ApplyJobSucceeded", "False", reason)]);
    facts.jobs = Fact::Found(vec![job(300, Some(condition))]);
    facts
}

#[rstest]
#[case("ApplyFailed", ("Failed", "BackoffLimitExceeded"), "D64")]
#[case("JobDeadlineExceeded", ("Failed", "DeadlineExceeded"), "D63")]
fn a_failure_backs_off_and_names_its_cause(
    #[case] reason: &str,
    #[case] condition: (&str, &str),
    #[case] cause: &str,
) {
    let report = explain(&failed(reason, condition));
    assert_eq!(
        (report.verdict, report.row, report.code.as_str()),
        (Verdict::BackingOff, Some("D65"), reason)
    );
    assert_eq!(report.chain[1].row, Some(cause));
    // One failure of three: one minute from its end, which was 30 s ago.
    assert_eq!(
        report.next[0].latest,
        Some(At("2026-11-30T16:00:30Z".parse().unwrap()))
    );
}

#[test]
fn d72_a_job_that_disappeared_is_told_from_one_that_failed() {
    let mut facts = failed("ApplyFailed", ("Failed", "BackoffLimitExceeded"));
    for condition in &mut facts.object.status.conditions {
        condition.message =
            format!("Job {JOB}: disappeared while it ran and may have applied part of its change");
    }
    assert_eq!(explain(&facts).chain[1].row, Some("D72"));
}

#[test]
fn d141_a_run_that_refused_its_inputs_is_a_warning() {
    let mut facts = scene(&[]);
    facts.object.status.last_run = Some(LastRun {
        job: JOB.into(),
        error: Some(RunError {
            kind: "interrupted".into(),
            step: "prepare".into(),
            ..RunError::default()
        }),
        ..LastRun::default()
    });
    assert_eq!(explain(&facts).chain[0].warnings[0].code, "TokenMismatch");
}

fn locked(who: &str, holder: LockHolder, verdict: LockVerdict) -> Facts {
    let mut facts = scene(&[("StateReadable", "False", "StateLocked")]);
    let info = LockInfo {
        id: "5f0c".into(),
        who: who.into(),
        ..LockInfo::default()
    };
    let lock = HeldLock {
        id: "5f0c".into(),
        info: Some(info),
        holder,
        since: Some(ago(540)),
    };
    facts.lock = Fact::Found((lock, verdict));
    facts
}

#[test]
fn a_lock_is_told_apart_by_its_holder() {
    let own = || LockHolder::OwnPod {
        pod: format!("{JOB}-q8w2r"),
        job: JOB.into(),
    };
    let stale = LockVerdict::Stale {
        lock_id: "5f0c".into(),
    };
    let unproven = LockVerdict::Unproven {
        stale_after: Some(time::plus(now(), 600)),
    };
    assert_eq!(row(&locked("runner@pod", own(), stale)), "D82");
    assert_eq!(
        shows(&locked("runner@pod", own(), unproven)).2,
        "LockUnproven"
    );
    assert_eq!(
        row(&locked(
            "ann@workstation-7",
            LockHolder::Foreign,
            LockVerdict::Foreign
        )),
        "D83"
    );
    assert_eq!(
        row(&locked("ann", LockHolder::Foreign, LockVerdict::Foreign)),
        "D84"
    );
}

#[test]
fn d146_a_lock_without_a_state_is_told_from_a_locked_state() {
    let own = LockHolder::OwnPod {
        pod: format!("{JOB}-q8w2r"),
        job: JOB.into(),
    };
    let mut facts = locked(
        "runner@pod",
        own,
        LockVerdict::Unproven { stale_after: None },
    );
    for condition in &mut facts.object.status.conditions {
        if condition.kind == "StateReadable" {
            condition.reason = "StateNotFound".into();
            condition.status = "Unknown".into();
        }
    }
    facts.object.status.last_run = Some(LastRun {
        error: Some(RunError {
            step: "init".into(),
            ..RunError::default()
        }),
        ..LastRun::default()
    });
    assert_eq!(row(&facts), "D146");
}

#[test]
fn d144_is_told_from_d88_by_the_first_word() {
    let mut facts = scene(&[("StateReadable", "False", "StateInconsistent")]);
    for condition in &mut facts.object.status.conditions {
        condition.message = "label captf.io/managed of Secret tfstate-default-x".into();
    }
    assert_eq!(
        shows(&facts),
        (Verdict::NeedsAction, "D144", "StateLabels".into())
    );
}

fn deleting(mut facts: Facts) -> Facts {
    facts.object.metadata.deletion_timestamp = Some(ago(60));
    facts.object.metadata.finalizers =
        vec!["terraformcluster.infrastructure.cluster.x-k8s.io".into()];
    facts
}

#[test]
fn d113_a_lost_state_holds_the_deletion() {
    let facts = deleting(scene(&[("StateReadable", "False", "StateLost")]));
    assert_eq!(
        shows(&facts),
        (Verdict::DeletionHeld, "D113", "StateLost".into())
    );
}

#[test]
fn d109_the_pause_outranks_a_held_deletion() {
    let mut facts = deleting(scene(&[("StateReadable", "False", "StateLost")]));
    facts
        .object
        .metadata
        .annotations
        .insert("cluster.x-k8s.io/paused".into(), String::new());
    assert_eq!(shows(&facts).0, Verdict::Paused);
}

#[test]
fn d110_dependents_come_before_everything_else_of_a_deletion() {
    let facts = deleting(scene(&[
        ("DeletionBlocked", "True", "DependentsExist"),
        ("StateReadable", "False", "StateLost"),
    ]));
    assert_eq!(
        shows(&facts),
        (Verdict::Waiting, "D110", "DependentsExist".into())
    );
}

#[test]
fn d120_a_foreign_finalizer_is_named() {
    let mut facts = deleting(scene(&[]));
    facts.object.metadata.finalizers = vec!["example.com/keep".into()];
    assert_eq!(shows(&facts).1, "D120");
}

#[test]
fn a_deletion_that_nothing_known_holds_is_never_idle() {
    let mut facts = deleting(scene(&[
        ("Deleting", "True", "Deleting"),
        ("InputsApplied", "True", "InputsApplied"),
        ("ApplyJobSucceeded", "True", "ApplySucceeded"),
    ]));
    assert_eq!(shows(&facts).0, Verdict::Waiting);
    for condition in &mut facts.object.status.conditions {
        condition.message = "set spec.deletionPolicy: Retain".into();
    }
    let report = explain(&facts);
    assert_eq!(
        (report.verdict, report.code.as_str()),
        (Verdict::NeedsAction, "Deleting")
    );
    assert_eq!(report.chain[0].message, "set spec.deletionPolicy: Retain");
}

#[test]
fn every_promise_has_a_bound_or_says_that_it_has_none() {
    let cases = [
        waiting(),
        scene(&[]),
        active(300, Some(pod(290, "Running", json!({})))),
        failed("ApplyFailed", ("Failed", "x")),
    ];
    for facts in cases {
        for next in explain(&facts).next {
            let bounded = next.latest.is_some() || next.expected.is_some();
            let said = ["within", "no bound", "by itself", "starts the next"]
                .iter()
                .any(|word| next.message.contains(word));
            assert!(bounded || said, "{}", next.message);
        }
    }
}
