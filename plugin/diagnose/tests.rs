//! Each row of diagnosis.md that a TerraformCluster can show here, from facts made by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

mod held;
mod jobs;
mod notes;
mod waits;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use rstest::rstest;
use serde_json::{Value, json};

use super::diagnose;
use super::facts::{
    ActiveJob, Backup, Election, Event, Facts, LastRun, NodeView, Object, PodView, RunError,
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
