//! Each row of diagnosis.md that a TerraformCluster can show here, from facts made by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::{Value, json};

use super::diagnose;
use super::facts::{
    ActiveJob, Election, Event, Facts, LastRun, NodeView, Object, PodView, RunError,
};
use super::report::{Verdict, WhyReport};
use crate::jobs::pod::PodFacts;
use crate::lease::LeaseView;
use crate::names::{JobName, Kind, LeaseScope, ObjectKey, Op};
use crate::plugin::evaluate::{Fact, HolderFacts, JobState, LeaseFacts, LivePod, OwnerFacts};
use crate::plugin::read::wire::JobItem;
use crate::plugin::report::{At, Metadata};
use crate::plugin::time;
use crate::state::{HeldLock, LockHolder, LockInfo, LockVerdict};

const JOB: &str = "captf-c-demo-apply-a1-dbb569";

fn now() -> Timestamp {
    "2026-11-30T16:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    time::plus(now(), -seconds)
}

/// A cluster whose gates are open and which nobody has applied yet.
fn scene(conditions: &[(&str, &str, &str)]) -> Facts {
    let defaults = [
        ("DependenciesReady", "True", "DependenciesReady"),
        ("IdentityAllowed", "True", "IdentityAllowed"),
        ("CredentialsMirrored", "True", "Mirrored"),
        ("RunnerRBACReady", "True", "RBACReady"),
        ("ApplyJobSucceeded", "Unknown", "NoApplyYet"),
        ("StateReadable", "Unknown", "StateNotFound"),
    ];
    let kept = defaults
        .iter()
        .filter(|(kind, ..)| conditions.iter().all(|(other, ..)| other != kind));
    let conditions: Vec<Value> = kept
        .chain(conditions)
        .map(|(kind, status, reason)| {
            json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": ago(540).to_string()})
        })
        .collect();
    let object: Object = serde_json::from_value(json!({
        "metadata": {
            "name": "demo", "namespace": "team-a", "uid": "u1", "generation": 1,
            "labels": {"cluster.x-k8s.io/cluster-name": "demo"},
        },
        "spec": {"identityRef": {"name": "shared"}},
        "status": {"conditions": conditions, "observedGeneration": 1},
    }))
    .unwrap();
    Facts {
        now: now(),
        object,
        cluster: Fact::NotRead,
        election: Fact::Absent,
        manager_pods: Fact::NotRead,
        run_lease: Fact::Absent,
        cluster_lease: Fact::NotRead,
        machine_leases: Fact::NotRead,
        jobs: Fact::Found(Vec::new()),
        pods: Fact::Found(Vec::new()),
        events: Fact::Found(Vec::new()),
        pod_events: Fact::NotRead,
        node: Fact::NotRead,
        lock: Fact::NotRead,
    }
}

/// A cluster that waits for its run lease.
fn waiting() -> Facts {
    scene(&[("ApplyJobSucceeded", "Unknown", "WaitingForRunLease")])
}

fn explain(facts: &Facts) -> WhyReport {
    let metadata = Metadata {
        server_time: At(now()),
        clock_skew_seconds: 0,
        cli_version: "test",
        context: None,
        namespace: Some("team-a".into()),
        partial: false,
        unknowns: Vec::new(),
    };
    diagnose(facts, metadata)
}

fn shows(facts: &Facts) -> (Verdict, &'static str, String) {
    let report = explain(facts);
    (report.verdict, report.row.unwrap_or_default(), report.code)
}

fn row(facts: &Facts) -> &'static str {
    explain(facts).row.unwrap_or_default()
}

/// The run lease, taken this long ago by [`JOB`].
fn lease(facts: &Facts, age: i64, job: Fact<HolderFacts>, pods: Vec<LivePod>) -> Fact<LeaseFacts> {
    let key = ObjectKey::new(Kind::TerraformCluster, "team-a", "demo");
    Fact::Found(LeaseFacts {
        view: LeaseView {
            namespace: "team-a".into(),
            name: key.suffix().run_lease(),
            uid: "l".into(),
            resource_version: "7".into(),
            holder: JOB.into(),
            op: Op::Apply.as_str().into(),
            acquired_at: ago(age),
            backstop: std::time::Duration::from_secs(4500),
            owner_kind: Kind::TerraformCluster.as_str().into(),
            owner_name: "demo".into(),
            cluster: "demo".into(),
            lease: LeaseScope::Run.as_str().into(),
        },
        written_at: Some(ago(age)),
        fenced: false,
        managed: true,
        job,
        pods: Fact::Found(pods),
        owner: Fact::Found(OwnerFacts {
            name: "demo".into(),
            conditions: facts.object.status.conditions.clone(),
        }),
    })
}

/// The object's Job, created this long ago; `condition` ends it.
fn job(age: i64, condition: Option<(&str, &str)>) -> JobItem {
    let conditions: Vec<Value> = condition
        .iter()
        .map(|(kind, reason)| json!({"type": kind, "status": "True", "reason": reason, "lastTransitionTime": ago(30).to_string()}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": JOB, "namespace": "team-a", "uid": "j1", "creationTimestamp": ago(age).to_string(),
            "labels": {
                "captf.infrastructure.cluster.x-k8s.io/op": "apply",
                "captf.infrastructure.cluster.x-k8s.io/attempt": "1",
            },
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "TerraformCluster", "name": "demo", "uid": "u1", "controller": true}],
        },
        "spec": {"activeDeadlineSeconds": 3600},
        "status": {"startTime": ago(age).to_string(), "conditions": conditions},
    }))
    .unwrap()
}

fn running_job(state: JobState) -> Fact<HolderFacts> {
    Fact::Found(HolderFacts {
        state,
        ..HolderFacts::from(&job(300, None))
    })
}

/// A pod of the Job; `status` is laid over a running one.
fn pod(age: i64, phase: &str, status: Value) -> PodView {
    let mut all = json!({"phase": phase});
    if let (Some(all), Some(extra)) = (all.as_object_mut(), status.as_object()) {
        all.extend(extra.clone());
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{JOB}-q8w2r"), "uid": "p1", "creationTimestamp": ago(age).to_string(),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": "j1", "controller": true}],
        },
        "spec": {"containers": [{"name": "source", "image": "registry.example.com/m:v1"}]},
        "status": all,
    }))
    .unwrap();
    PodView {
        facts: PodFacts::from(&pod),
        job: JOB.into(),
        node: "node-7".into(),
        stops: None,
        stopping_since: None,
        unschedulable: None,
    }
}

fn live(pod: &PodView) -> LivePod {
    LivePod {
        name: pod.facts.name.clone(),
        created: pod.facts.created,
        stops: pod.stops,
    }
}

/// A cluster whose Job is active with this pod.
fn active(age: i64, pod: Option<PodView>) -> Facts {
    let mut facts = scene(&[]);
    facts.jobs = Fact::Found(vec![job(age, None)]);
    facts.object.status.active_job = Some(ActiveJob { name: JOB.into() });
    let pods: Vec<PodView> = pod.into_iter().collect();
    facts.run_lease = lease(
        &facts,
        age,
        running_job(JobState::Running),
        pods.iter().map(live).collect(),
    );
    facts.pods = Fact::Found(pods);
    facts
}

#[test]
fn d17_nothing_due_is_idle() {
    let facts = scene(&[
        ("ApplyJobSucceeded", "True", "ApplySucceeded"),
        ("StateReadable", "True", "StateRead"),
        ("InputsApplied", "True", "InputsApplied"),
        ("Ready", "True", "Ready"),
    ]);
    assert_eq!(shows(&facts), (Verdict::Idle, "D17", "UpToDate".into()));
}

fn election(renewed: i64) -> Fact<Election> {
    Fact::Found(Election {
        holder: "manager-0".into(),
        acquired: Some(ago(3600)),
        renewed: Some(ago(renewed)),
        duration_seconds: 15,
    })
}

#[test]
fn d2_an_expired_election_outranks_every_wait() {
    let mut facts = waiting();
    facts.election = election(21);
    assert_eq!(
        shows(&facts),
        (Verdict::Unreconciled, "D2", "ManagerNotLeading".into())
    );
}

#[test]
fn d148_five_seconds_past_the_election_is_only_a_new_leader() {
    let mut facts = waiting();
    facts.election = election(20);
    let report = explain(&facts);
    assert_eq!(report.row, Some("D40"));
    assert_eq!(report.chain[0].warnings[0].code, "LeaderChanging");
}

#[test]
fn d1_and_d149_are_told_apart_by_the_managers_pods() {
    let mut facts = waiting();
    facts.election = election(60);
    facts.manager_pods = Fact::Found(Vec::new());
    assert_eq!(row(&facts), "D1");
    let restarting: Pod = serde_json::from_value(json!({
        "metadata": {}, "status": {"containerStatuses": [{"name": "manager", "image": "", "imageID": "", "ready": false, "restartCount": 4}]}
    }))
    .unwrap();
    facts.manager_pods = Fact::Found(vec![restarting]);
    assert_eq!(shows(&facts).2, "ManagerUnreachable");
}

#[test]
fn d4_no_condition_at_all_means_that_nobody_looked() {
    let mut facts = scene(&[]);
    facts.object.status.conditions.clear();
    assert_eq!(
        shows(&facts),
        (Verdict::Unreconciled, "D4", "NotReconciled".into())
    );
}

#[test]
fn d14_a_paused_object_is_paused_by_its_annotation() {
    let mut facts = waiting();
    facts
        .object
        .metadata
        .annotations
        .insert("cluster.x-k8s.io/paused".into(), "true".into());
    assert_eq!(shows(&facts), (Verdict::Paused, "D14", "Paused".into()));
}

#[test]
fn d15_a_paused_cluster_names_the_command_that_ends_it() {
    let mut facts = scene(&[("Paused", "True", "Paused")]);
    facts.cluster = Fact::Found(
        serde_json::from_value(json!({"metadata": {"name": "demo"}, "spec": {"paused": true}}))
            .unwrap(),
    );
    let report = explain(&facts);
    assert_eq!(report.row, Some("D15"));
    assert_eq!(
        report.actions[0].command[1..4],
        ["patch", "cluster.cluster.x-k8s.io", "demo"]
    );
}

#[test]
fn d151_an_object_left_over_by_a_move_needs_the_same_move_again() {
    let mut facts = scene(&[]);
    facts.object.metadata.annotations.insert(
        "clusterctl.cluster.x-k8s.io/delete-for-move".into(),
        String::new(),
    );
    assert_eq!(
        shows(&facts),
        (Verdict::NeedsAction, "D151", "MoveCutOff".into())
    );
}

#[rstest]
#[case(
    "DependenciesReady",
    "Unknown",
    "WaitingForOwner",
    Verdict::Waiting,
    "D18"
)]
#[case(
    "DependenciesReady",
    "False",
    "OwnerMismatch",
    Verdict::NeedsAction,
    "D20"
)]
#[case(
    "DependenciesReady",
    "False",
    "OwnerNotFound",
    Verdict::NeedsAction,
    "D21"
)]
#[case(
    "DependenciesReady",
    "False",
    "VariablesSourceNotFound",
    Verdict::NeedsAction,
    "D26"
)]
#[case(
    "DependenciesReady",
    "False",
    "VariablesInvalid",
    Verdict::NeedsAction,
    "D27"
)]
#[case(
    "IdentityAllowed",
    "False",
    "IdentityNotFound",
    Verdict::NeedsAction,
    "D28"
)]
#[case(
    "IdentityAllowed",
    "False",
    "NamespaceNotAllowed",
    Verdict::NeedsAction,
    "D29"
)]
#[case(
    "IdentityAllowed",
    "False",
    "SecretNotFound",
    Verdict::NeedsAction,
    "D30"
)]
#[case(
    "IdentityAllowed",
    "False",
    "CredentialsIncomplete",
    Verdict::NeedsAction,
    "D31"
)]
#[case(
    "IdentityAllowed",
    "Unknown",
    "IdentityCheckFailed",
    Verdict::Waiting,
    "D32"
)]
#[case(
    "CredentialsMirrored",
    "False",
    "MirrorFailed",
    Verdict::NeedsAction,
    "D33"
)]
#[case(
    "CredentialsMirrored",
    "Unknown",
    "MirrorPending",
    Verdict::Waiting,
    "D34"
)]
#[case("RunnerRBACReady", "False", "RBACFailed", Verdict::NeedsAction, "D35")]
#[case(
    "RunnerRBACReady",
    "False",
    "ServiceAccountNotOptedIn",
    Verdict::NeedsAction,
    "D36"
)]
#[case("StateReadable", "False", "StateLost", Verdict::NeedsAction, "D85")]
#[case("StateReadable", "False", "StateCorrupt", Verdict::NeedsAction, "D86")]
#[case(
    "StateReadable",
    "False",
    "StateEncrypted",
    Verdict::NeedsAction,
    "D87"
)]
#[case(
    "StateReadable",
    "False",
    "StateInconsistent",
    Verdict::NeedsAction,
    "D88"
)]
#[case(
    "StateReadable",
    "False",
    "RetainedStateFound",
    Verdict::NeedsAction,
    "D89"
)]
#[case(
    "StateReadable",
    "False",
    "ApplyOutcomeUnknown",
    Verdict::NeedsAction,
    "D90"
)]
#[case(
    "ApplyJobSucceeded",
    "False",
    "ImageInvalid",
    Verdict::NeedsAction,
    "D69"
)]
#[case(
    "ApplyJobSucceeded",
    "False",
    "InputsTooLarge",
    Verdict::NeedsAction,
    "D70"
)]
#[case(
    "ApplyJobSucceeded",
    "False",
    "JobPolicyInvalid",
    Verdict::NeedsAction,
    "D71"
)]
#[case(
    "ApplyJobSucceeded",
    "Unknown",
    "PlanAwaitingApproval",
    Verdict::NeedsAction,
    "D74"
)]
#[case(
    "ApplyJobSucceeded",
    "Unknown",
    "PlanChanged",
    Verdict::NeedsAction,
    "D75"
)]
#[case(
    "ApplyJobSucceeded",
    "False",
    "DestructivePlanBlocked",
    Verdict::NeedsAction,
    "D76"
)]
#[case(
    "RestoreJobSucceeded",
    "False",
    "RestoreBackupNotFound",
    Verdict::NeedsAction,
    "D93"
)]
#[case(
    "RestoreJobSucceeded",
    "False",
    "RestoreFailed",
    Verdict::NeedsAction,
    "D94"
)]
fn a_gate_yields_its_row(
    #[case] condition: &str,
    #[case] status: &str,
    #[case] reason: &str,
    #[case] verdict: Verdict,
    #[case] expected: &str,
) {
    let report = explain(&scene(&[(condition, status, reason)]));
    assert_eq!(
        (report.verdict, report.row, report.code.as_str()),
        (verdict, Some(expected), reason)
    );
    assert_eq!(report.chain[0].row, Some(expected));
}

#[test]
fn a_reason_of_a_newer_operator_is_shown_as_it_is() {
    let report = explain(&scene(&[(
        "DependenciesReady",
        "Unknown",
        "WaitingForTheMoon",
    )]));
    assert_eq!(
        (report.verdict, report.code.as_str()),
        (Verdict::Waiting, "WaitingForTheMoon")
    );
    assert_eq!(report.row, None);
}

#[test]
fn a_failed_owner_gate_outranks_the_identity() {
    let facts = scene(&[
        ("DependenciesReady", "False", "OwnerMismatch"),
        ("IdentityAllowed", "False", "IdentityNotFound"),
    ]);
    let report = explain(&facts);
    assert_eq!(report.row, Some("D20"));
    assert_eq!(
        report.chain[0].warnings[0].message,
        "its credentials identity does not exist"
    );
}

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
fn d139_a_due_apply_that_nothing_holds_up_is_being_started() {
    assert_eq!(
        shows(&scene(&[])),
        (Verdict::Waiting, "D139", "StartDeferred".into())
    );
}

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
