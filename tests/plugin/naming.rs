//! Objects as they are named on the command line, against a real API server (cli.md §4).

use captf::names::LeaseScope::{Cluster, Run};
use serde_json::Value;

use super::scene::{JOB, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_does_not_exist_keeps_nobody_from_the_others() {
    let scene = Scene::new().await;
    let said = scene.run(&["why", "tfc/missing", "tfc/demo", "cluster/other"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stdout.starts_with("terraformcluster/demo: "),
        "{said:?}"
    );
    assert!(
        said.stderr
            .contains("error: terraformcluster \"missing\" not found")
            && said.stderr.contains("error: cluster \"other\" not found"),
        "{said:?}"
    );
    let said = scene.run(&["why", "tfc/missing", "tfc/demo", "-o", "json"]);
    let list: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(list["kind"], "WhyReportList");
    assert_eq!(list["items"][0]["object"]["name"], "demo");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_stands_for_the_object_of_its_job() {
    let scene = Scene::new().await;
    scene.job(JOB).await;
    let pod = scene.run_pod(JOB).await.metadata.name.unwrap();
    let said = scene.run(&["why", &format!("pod/{pod}"), "-o", "name"]);
    assert_eq!(
        said.stdout,
        "terraformcluster.infrastructure.cluster.x-k8s.io/demo\n"
    );
    assert!(scene.run(&["why", "pod/other"]).is_refusal());
}

#[tokio::test(flavor = "multi_thread")]
async fn both_leases_of_an_object_are_read_by_name_where_they_may_not_be_listed() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    scene.lease(Cluster, JOB, 3).await;
    let who = scene
        .getter(&["leases", "jobs", "pods", "terraformclusters"])
        .await;
    let said = scene.run(&["leases", "--for", "tfc/demo", "-o", "name", "--as", &who]);
    let mut names: Vec<&str> = said.stdout.lines().collect();
    names.sort_unstable();
    let mut expected = [scene.cluster_lease(), scene.run_lease()]
        .map(|name| format!("lease.coordination.k8s.io/{name}"));
    expected.sort();
    assert_eq!(names, expected, "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn completion_offers_the_names_of_a_typed_kind_in_its_spelling() {
    let scene = Scene::new().await;
    scene.lease(Run, JOB, 3).await;
    let offered = |words: &[&str]| scene.completed(words);
    assert_eq!(offered(&["why", "tfc/"]), "tfc/demo\n:4\n");
    assert_eq!(offered(&["why", "cluster/"]), "cluster/demo\n:4\n");
    assert_eq!(offered(&["why", "tfc", ""]), "demo\n:4\n");
    assert_eq!(offered(&["why", "clu"]), "cluster/\n:6\n");
    assert_eq!(
        offered(&["why", "lease/"]),
        format!("lease/{}\n:4\n", scene.run_lease())
    );
    assert_eq!(offered(&["why", "deployment/"]), ":4\n");
}
