//! Level 1: `leases` and `why` in every state of a lease (leases.md §11a) and at every gate, on real
//! objects of a real API server. Snapshots hold no times and no random names.

use captf::names::LeaseScope::{Cluster, Run};
use serde_json::{Value, json};

use super::program::run_with;
use super::scene::{JOB, OBJECT, Scene};
use crate::testbed::wait::{LIMIT, until};
use crate::testbed::{Bed, Options};

/// Replaces what differs from run to run, then compares with the checked-in snapshot.
macro_rules! shows {
    ($scene:expr, $name:literal, $($arg:literal),+) => {{
        let said = $scene.run(&[$($arg),+]);
        let settled = $scene.settled(&said.everything());
        insta::with_settings!({
            filters => FILTERS.to_vec(),
            omit_expression => true,
            prepend_module_to_snapshot => false,
        }, {
            insta::assert_snapshot!($name, settled);
        });
    }};
}

/// Times, lengths of time, random parts of names, and what the API server numbers.
const FILTERS: [(&str, &str); 10] = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\d\d:\d\d:\d\dZ", "<clock>"),
    (r"(dbb569)-[a-z0-9]{5}\b", "$1-<pod>"),
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "<uid>",
    ),
    (r#"(resourceVersion"?: )"\d+""#, r#"$1"<n>""#),
    (r#"((age|remaining)Seconds"?: )-?\d+"#, "$1<n>"),
    (r"captf-run-[0-9a-f]{16}-m", "captf-run-<machine>-m"),
    (r"\b\d+[hms](\d+[ms])?( ago| left| off)", "<length>$2"),
    // Padding follows the width of what it pads.
    (r"(\bin |<=| {2,})\d+[hms](\d+[ms])? +", "$1<length> "),
    (r"(\bin |<=)\d+[hms](\d+[ms])?\b", "$1<length>"),
];

#[tokio::test]
async fn without_a_holder_it_is_free() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 620).await;
    scene.empty_holder().await;
    scene.waits_for_run_lease().await;
    shows!(scene, "free_no_holder.leases", "leases");
    shows!(scene, "free_no_holder.leases_json", "leases", "-o", "json");
    shows!(scene, "free_no_holder.why", "why", "tfc/demo");
    shows!(
        scene,
        "free_no_holder.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn past_its_backstop_it_is_free_whatever_its_holder_does() {
    let scene = Scene::new().await;
    scene.job(JOB).await;
    scene.run_pod(JOB).await;
    scene.lease(Run, JOB, 7200).await;
    scene.waits_for_run_lease().await;
    shows!(scene, "free_backstop.leases", "leases");
    shows!(scene, "free_backstop.leases_json", "leases", "-o", "json");
    shows!(scene, "free_backstop.why", "why", "tfc/demo");
    shows!(
        scene,
        "free_backstop.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn a_finished_holder_frees_it() {
    let scene = Scene::new().await;
    let job = scene.job(JOB).await;
    scene.lease(Run, JOB, 620).await;
    scene.fence(&job).await;
    let ending = crate::testbed::jobs::Ending::success(&json!({}));
    crate::testbed::jobs::finish(&scene.world.client, &scene.world.namespace, JOB, ending).await;
    scene.waits_for_run_lease().await;
    shows!(scene, "free_holder_finished.leases", "leases");
    shows!(
        scene,
        "free_holder_finished.leases_json",
        "leases",
        "-o",
        "json"
    );
    shows!(scene, "free_holder_finished.why", "why", "tfc/demo");
    shows!(
        scene,
        "free_holder_finished.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn an_absent_holder_past_the_grace_frees_it() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 620).await;
    scene.waits_for_run_lease().await;
    shows!(scene, "free_holder_absent.leases", "leases");
    shows!(
        scene,
        "free_holder_absent.leases_json",
        "leases",
        "-o",
        "json"
    );
    shows!(scene, "free_holder_absent.why", "why", "tfc/demo");
    shows!(
        scene,
        "free_holder_absent.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn within_the_grace_it_is_held_for_the_job_to_come() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 1).await;
    shows!(scene, "held_grace.leases", "leases");
    shows!(scene, "held_grace.leases_json", "leases", "-o", "json");
    shows!(scene, "held_grace.why", "why", "tfc/demo");
    shows!(
        scene,
        "held_grace.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn within_the_grace_under_an_older_name_it_is_the_hash_change_gap() {
    let scene = Scene::new().await;
    scene.waits_for_run_lease().await;
    scene.lease(Run, JOB, 1).await;
    scene.lease(Cluster, JOB, 1).await;
    shows!(scene, "held_grace_gap.leases", "leases");
    shows!(scene, "held_grace_gap.leases_json", "leases", "-o", "json");
    shows!(scene, "held_grace_gap.why", "why", "tfc/demo");
    shows!(
        scene,
        "held_grace_gap.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn within_the_grace_of_a_cluster_that_waits_for_machines_it_is_reserved() {
    let scene = Scene::new().await;
    scene.waits_for_machines().await;
    scene
        .machine_lease("web", "captf-m-web-apply-a1-abcdef", 1)
        .await;
    scene.lease(Run, JOB, 1).await;
    scene.lease(Cluster, JOB, 1).await;
    // The names hold a hash of the namespace, so their order differs from run to run.
    shows!(
        scene,
        "held_grace_reserved.leases",
        "leases",
        "--sort-by=owner"
    );
    shows!(
        scene,
        "held_grace_reserved.leases_wide",
        "leases",
        "--sort-by=owner",
        "-o",
        "wide"
    );
    shows!(
        scene,
        "held_grace_reserved.leases_waiters",
        "leases",
        "--sort-by=owner",
        "--waiters"
    );
    shows!(
        scene,
        "held_grace_reserved.leases_json",
        "leases",
        "--sort-by=owner",
        "-o",
        "json"
    );
    shows!(scene, "held_grace_reserved.why", "why", "tfc/demo");
    shows!(
        scene,
        "held_grace_reserved.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn a_running_holder_holds_it() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    let job = scene.job(JOB).await;
    scene.fence(&job).await;
    scene.run_pod(JOB).await;
    scene.active(JOB).await;
    shows!(scene, "held_running.leases", "leases");
    shows!(scene, "held_running.leases_json", "leases", "-o", "json");
    shows!(scene, "held_running.leases_wide", "leases", "-o", "wide");
    shows!(scene, "held_running.leases_yaml", "leases", "-o", "yaml");
    shows!(scene, "held_running.leases_name", "leases", "-o", "name");
    shows!(scene, "held_running.why", "why", "tfc/demo");
    shows!(
        scene,
        "held_running.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn an_operation_waits_for_another_job_that_holds_it() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    let job = scene.job(JOB).await;
    scene.fence(&job).await;
    scene.run_pod(JOB).await;
    scene.waits_for_run_lease().await;
    shows!(scene, "held_running_wait.why", "why", "tfc/demo");
    shows!(
        scene,
        "held_running_wait.why_json",
        "why",
        "tfc/demo",
        "-o",
        "json"
    );
}

#[tokio::test]
async fn a_pod_of_a_deleted_holder_holds_it() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    scene.job(JOB).await;
    scene.run_pod(JOB).await;
    scene.orphan(JOB).await;
    assert_eq!(scene.pods(JOB).await.len(), 1);
    scene.waits_for_run_lease().await;
    shows!(scene, "held_pods.leases", "leases");
    shows!(scene, "held_pods.leases_json", "leases", "-o", "json");
    shows!(scene, "held_pods.why", "why", "tfc/demo");
    shows!(scene, "held_pods.why_json", "why", "tfc/demo", "-o", "json");
}

#[tokio::test]
async fn a_job_that_cannot_be_read_leaves_it_unknown() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    scene.waits_for_run_lease().await;
    let who = scene.reader(&["leases", "terraformclusters"]).await;
    let said = |args: &[&str]| scene.run(&[args, &["--as", &who]].concat());
    for (name, args) in [
        ("unknown.leases", &["leases"][..]),
        ("unknown.leases_json", &["leases", "-o", "json"]),
        ("unknown.why", &["why", "tfc/demo"]),
        ("unknown.why_json", &["why", "tfc/demo", "-o", "json"]),
    ] {
        let settled = scene.settled(&said(args).everything());
        insta::with_settings!({
            filters => FILTERS.to_vec(),
            omit_expression => true,
            prepend_module_to_snapshot => false,
        }, {
            insta::assert_snapshot!(name, settled);
        });
    }
}

#[tokio::test]
async fn the_owner_gate_says_which_check_failed() {
    let scene = Scene::new().await;
    scene
        .world
        .patch(
            "Cluster",
            OBJECT,
            json!({"spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TerraformCluster", "name": "other"}}}),
        )
        .await;
    scene
        .conditions(&[("DependenciesReady", "False", "OwnerMismatch", "")])
        .await;
    shows!(scene, "gate_owner.why", "why", "tfc/demo");
}

#[tokio::test]
async fn the_pause_gate_names_who_paused_and_how_to_end_it() {
    let scene = Scene::new().await;
    scene
        .world
        .patch("Cluster", OBJECT, json!({"spec": {"paused": true}}))
        .await;
    scene
        .conditions(&[(
            "Paused",
            "True",
            "Paused",
            "Cluster spec.paused is set to true",
        )])
        .await;
    shows!(scene, "gate_paused.why", "why", "cluster/demo");
}

#[tokio::test]
async fn the_identity_gate_names_the_identity() {
    let scene = Scene::new().await;
    let message = "identity shared does not allow this namespace";
    scene
        .conditions(&[
            ("IdentityAllowed", "False", "NamespaceNotAllowed", message),
            ("CredentialsMirrored", "Unknown", "MirrorPending", ""),
        ])
        .await;
    let said = scene.run(&["why", "tfc/demo", "--exit-code", "-o", "json"]);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!((report["row"].as_str(), said.code), (Some("D29"), 4));
    shows!(scene, "gate_identity.why", "why", "tfc/demo");
}

#[tokio::test]
async fn the_credentials_gate_names_the_secret_in_the_way() {
    let scene = Scene::new().await;
    let message = "Secret captf-creds-shared is not a mirror of identity shared";
    scene
        .conditions(&[("CredentialsMirrored", "False", "MirrorFailed", message)])
        .await;
    shows!(scene, "gate_credentials.why", "why", "tfc/demo");
}

#[tokio::test]
async fn a_failed_apply_backs_off_and_says_until_when() {
    let scene = Scene::new().await;
    scene.job(JOB).await;
    let ending = crate::testbed::jobs::Ending::failure(&json!({}));
    crate::testbed::jobs::finish(&scene.world.client, &scene.world.namespace, JOB, ending).await;
    let message = format!("Job {JOB}: step apply: Error: boom");
    scene
        .conditions(&[("ApplyJobSucceeded", "False", "ApplyFailed", &message)])
        .await;
    shows!(scene, "backoff.why", "why", "tfc/demo");
    shows!(scene, "backoff.why_json", "why", "tfc/demo", "-o", "json");
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_named() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    let job = scene.job(JOB).await;
    scene.fence(&job).await;
    scene.active(JOB).await;
    let pod = scene.pods(JOB).await.remove(0);
    let waiting =
        json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"});
    scene
        .world
        .patch_status(
            "Pod",
            pod.metadata.name.as_deref().unwrap(),
            json!({"phase": "Pending", "containerStatuses": [{
                "name": "source", "image": "x", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": waiting}}]}),
        )
        .await;
    shows!(scene, "image_pull.why", "why", "tfc/demo");
}

#[tokio::test]
async fn a_foreign_state_lock_is_named_with_its_holder() {
    let scene = Scene::new().await;
    let suffix = scene.run_lease().replace("captf-run-", "");
    let info = json!({"ID": "5f0c", "Operation": "OperationTypeApply", "Who": "ann@workstation-7",
        "Version": "1.11.4", "Created": "2026-10-01T12:00:00Z"});
    scene
        .world
        .create(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("lock-tfstate-default-{suffix}"), "namespace": scene.world.namespace,
                "annotations": {"app.terraform.io/lock-info": info.to_string()}},
            "spec": {"holderIdentity": "5f0c"},
        }))
        .await;
    let message = "the state is locked (ID 5f0c, by ann@workstation-7)";
    scene
        .conditions(&[("StateReadable", "False", "StateLocked", message)])
        .await;
    let said = scene.run(&["why", "tfc/demo", "-o", "json"]);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(report["row"], "D83");
    assert!(said.stdout.contains("ann@workstation-7"), "{}", said.stdout);
    // The state lock is none of the two leases.
    assert!(!scene.run(&["leases"]).stdout.contains("lock-tfstate"));
}

#[tokio::test]
async fn a_lost_state_holds_a_deletion_and_names_the_way_out() {
    let scene = Scene::new().await;
    scene
        .world
        .patch("TerraformCluster", OBJECT, json!({"metadata": {"finalizers": ["terraformcluster.infrastructure.cluster.x-k8s.io"]}}))
        .await;
    scene
        .conditions(&[(
            "StateReadable",
            "False",
            "StateLost",
            "the state Secret is gone",
        )])
        .await;
    scene
        .world
        .patch_status(
            "TerraformCluster",
            OBJECT,
            json!({"stateBackups": [
            {"serial": 4, "takenAt": "2026-10-01T12:00:00Z", "bytes": 1000, "resources": 2},
            {"serial": 7, "takenAt": "2026-10-02T12:00:00Z", "bytes": 1000, "resources": 3}]}),
        )
        .await;
    scene
        .world
        .api("TerraformCluster")
        .delete(OBJECT, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    shows!(scene, "state_held.why", "why", "tfc/demo");
}

#[tokio::test]
async fn an_applied_cluster_is_idle() {
    let scene = Scene::new().await;
    scene
        .conditions(&[
            (
                "ApplyJobSucceeded",
                "True",
                "ApplySucceeded",
                "Job captf-c-demo-apply-a1-dbb569",
            ),
            ("StateReadable", "True", "StateRead", ""),
            ("InputsApplied", "True", "InputsApplied", ""),
            ("Ready", "True", "Ready", ""),
        ])
        .await;
    shows!(scene, "idle.why", "why", "demo");
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_named_with_where_it_does() {
    let scene = Scene::new().await;
    let said = scene.run(&["why", "tfc/nothing"]);
    assert_eq!(said.code, 1);
    assert!(said.is_refusal(), "{said:?}");
    assert_eq!(
        scene.settled(&said.stderr),
        "error: terraformcluster \"nothing\" not found in namespace \"<namespace>\"\n\
         hint: kubectl get terraformclusters -n <namespace>\n"
    );
    let lease = scene.run(&["leases", "nothing"]);
    assert_eq!((lease.code, lease.stdout.as_str()), (1, ""));
    assert!(
        lease
            .stderr
            .starts_with("error: lease \"nothing\" not found"),
        "{}",
        lease.stderr
    );
    assert_eq!(
        scene.run(&["leases", "nothing", "--ignore-not-found"]).code,
        0
    );
}

#[tokio::test]
async fn a_reader_without_rights_is_refused_with_the_command_that_shows_it() {
    let scene = Scene::new().await;
    let who = scene.reader(&[]).await;
    for args in [&["leases"][..], &["why", "tfc/demo"]] {
        let said = scene.run(&[args, &["--as", &who]].concat());
        assert_eq!(said.code, 6, "{said:?}");
        assert!(said.is_refusal(), "{said:?}");
        assert!(
            said.stderr.contains("forbidden\nhint: kubectl auth can-i "),
            "{said:?}"
        );
    }
}

#[tokio::test]
async fn an_empty_list_is_no_error() {
    let scene = Scene::new().await;
    let said = scene.run(&["leases"]);
    assert_eq!((said.stdout.as_str(), said.code), ("", 0));
    assert_eq!(
        scene.settled(&said.stderr),
        "No leases found in <namespace> namespace.\n"
    );
    let list: Value = serde_json::from_str(&scene.run(&["leases", "-o", "json"]).stdout).unwrap();
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn yaml_and_json_carry_the_same_data() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    let json: Value = serde_json::from_str(&scene.run(&["leases", "-o", "json"]).stdout).unwrap();
    let yaml: Value = serde_saphyr::from_str(&scene.run(&["leases", "-o", "yaml"]).stdout).unwrap();
    assert_eq!(json["items"][0]["name"], yaml["items"][0]["name"]);
    assert_eq!(
        json["items"][0]["frees"]["latest"],
        yaml["items"][0]["frees"]["latest"]
    );
}

#[tokio::test]
async fn colour_is_a_choice_of_the_flag() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 7200).await;
    for args in [&["leases", "--time", "utc"][..], &["why", "tfc/demo"]] {
        let plain = scene.run(&[args, &["--color", "never"]].concat());
        let painted = scene.run(&[args, &["--color", "always"]].concat());
        assert!(painted.stdout.contains('\u{1b}'), "{painted:?}");
        assert!(!plain.stdout.contains('\u{1b}'), "{plain:?}");
    }
}

#[tokio::test]
async fn many_holders_are_judged_by_tables_and_pages() {
    let scene = Scene::new().await;
    let finished = "captf-c-demo-apply-a2-000002";
    scene.job(JOB).await;
    scene.job(finished).await;
    let ending = crate::testbed::jobs::Ending::success(&json!({}));
    crate::testbed::jobs::finish(
        &scene.world.client,
        &scene.world.namespace,
        finished,
        ending,
    )
    .await;
    for number in 0..38 {
        let machine = format!("m{number}");
        let holder = match number {
            0 => JOB.to_owned(),
            1 => finished.to_owned(),
            _ => format!("captf-m-{machine}-apply-a1-abcdef"),
        };
        scene.machine_lease(&machine, &holder, 620).await;
    }

    let said = scene.run(&["leases", "-o", "json", "--chunk-size", "7", "-v", "6"]);
    let list: Value = serde_json::from_str(&said.stdout).unwrap();
    let count = |state: &str| {
        let items = list["items"].as_array().unwrap().iter();
        items.filter(|lease| lease["state"] == state).count()
    };
    assert_eq!(
        (
            count("Held"),
            count("HolderFinished"),
            count("HolderMissing")
        ),
        (1, 1, 36),
        "{}",
        said.stderr
    );
    let requests = |part: &str| {
        said.stderr
            .lines()
            .filter(|line| line.contains(part))
            .count()
    };
    assert_eq!(requests("/leases?"), 6, "{}", said.stderr);
    // One table of the operator's Jobs, one of all Jobs to confirm the many that have none.
    assert_eq!(
        (requests("/jobs?"), requests("/jobs/")),
        (2, 0),
        "{}",
        said.stderr
    );
    assert!(!said.stderr.contains("/secrets"), "{}", said.stderr);
}

#[tokio::test]
async fn a_cluster_without_the_kinds_is_told_from_one_without_the_object() {
    let bed = tokio::task::spawn_blocking(|| Bed::start(Options::control_plane()))
        .await
        .unwrap()
        .unwrap();
    let mut kubectl = bed.kubectl();
    kubectl.args([
        "delete",
        "crd",
        "terraformclusters.infrastructure.cluster.x-k8s.io",
    ]);
    let deleted = tokio::task::spawn_blocking(move || kubectl.output())
        .await
        .unwrap()
        .unwrap();
    assert!(deleted.status.success());
    let said = until("the kind to be gone", LIMIT, async || {
        let said = run_with(bed.kubeconfig(), &["why", "tfc/demo"]);
        if said.stderr.contains("does not serve") {
            Ok(said)
        } else {
            Err(said.stderr)
        }
    })
    .await;
    assert_eq!(said.code, 1);
    assert!(said.is_refusal(), "{said:?}");
    assert_eq!(
        said.stderr,
        "error: this cluster does not serve infrastructure.cluster.x-k8s.io/v1alpha1 terraformclusters\n\
         hint: is CAPTF installed, and is this the management cluster?\n"
    );
    // Leases are Kubernetes' own, so an empty list stays an empty list.
    assert_eq!(
        run_with(bed.kubeconfig(), &["leases", "-A", "-o", "wide"]).code,
        0
    );
}

#[tokio::test]
async fn a_malformed_lease_among_good_ones_is_listed_with_what_is_odd() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    scene
        .world
        .create(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "captf-run-odd", "namespace": scene.world.namespace,
                "labels": {"captf.io/lease": "run"},
                "annotations": {"captf.io/lease-acquired-at": "yesterday"}},
            "spec": {"holderIdentity": "nobody's job", "leaseDurationSeconds": 1},
        }))
        .await;
    let list: Value = serde_json::from_str(&scene.run(&["leases", "-o", "json"]).stdout).unwrap();
    let leases = list["items"].as_array().unwrap();
    let odd = leases
        .iter()
        .find(|lease| lease["name"] == "captf-run-odd")
        .unwrap();
    assert_eq!(odd["warnings"][0]["code"], "Unmanaged");
    assert_eq!(
        (&odd["releasable"], &odd["refusal"]),
        (&json!(false), &json!("NotCaptfLease"))
    );
    assert_eq!(leases.len(), 2);
}
