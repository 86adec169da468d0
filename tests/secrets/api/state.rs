//! State Secrets and their lock.

use std::io::Write as _;
use std::time::Duration;

use captf::names::{InputsHash, render_label_map, state_selector};
use captf::operator::secrets::Owner;
use captf::operator::state::{
    Guarding, StateRead, StateReader, adopt, delete_stale_lock, ensure_labels, judge_lock, observe,
    repair,
};
use captf::state::{LockVerdict, State};
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ResourceExt as _;
use serde_json::{Value, json};

use super::{Scene, access};
use crate::testbed::ControlPlane;

const STATE: &[u8] = br#"{"version":4,"terraform_version":"1.11.4","serial":7,"lineage":"one",
    "outputs":{"exports":{"value":{"network_id":"net-1"},"type":"string","sensitive":true}},
    "resources":[{"mode":"managed","type":"terraform_data","instances":[{},{}]},{"mode":"data"}]}"#;

/// The compressed state in as many pieces as asked for, as Terraform's backend cuts it.
fn pieces(count: usize) -> Vec<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(STATE).unwrap();
    let bytes = encoder.finish().unwrap();
    bytes
        .chunks(bytes.len().div_ceil(count))
        .map(<[u8]>::to_vec)
        .collect()
}

impl Scene {
    /// Writes the state as Terraform's backend does: by chunks, with the map it was given.
    async fn write_state(&self, owner: &Owner, chunks: usize) {
        let mut labels = owner.key.backend_labels("prod");
        assert!(render_label_map(&labels).contains("owner-kind"));
        labels.extend(state_selector(&owner.key.suffix()));
        labels.insert("app.kubernetes.io/managed-by".into(), "terraform".into());
        for (index, piece) in pieces(chunks).into_iter().enumerate() {
            self.create_secret(json!({
                "metadata": {
                    "name": owner.key.suffix().state_secret(index),
                    "labels": labels,
                    "annotations": {"encoding": "gzip"}
                },
                "type": "Opaque",
                "data": {"tfstate": ByteString(piece)}
            }))
            .await;
        }
    }

    async fn patch_secret(&self, name: &str, patch: Value) {
        self.secrets()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    async fn read(&self, reader: &StateReader, owner: &Owner) -> StateRead {
        reader
            .read(&self.manager, owner.namespace(), &owner.key.suffix())
            .await
            .unwrap()
    }
}

fn state(read: StateRead) -> std::sync::Arc<State> {
    match read {
        StateRead::State(state) => state,
        other => panic!("expected a state, got {other:?}"),
    }
}

#[tokio::test]
async fn chunks_are_one_state_until_one_is_missing() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let reader = StateReader::default();
    assert!(matches!(scene.read(&reader, &owner).await, StateRead::None));

    scene.write_state(&owner, 3).await;
    let read = state(scene.read(&reader, &owner).await);
    assert_eq!(
        (read.serial, read.lineage.as_str(), read.managed_resources),
        (7, "one", 1)
    );
    assert_eq!(
        read.outputs["exports"].value.get(),
        r#"{"network_id":"net-1"}"#
    );
    assert!(
        std::sync::Arc::ptr_eq(&read, &state(scene.read(&reader, &owner).await)),
        "from memory"
    );

    let middle = owner.key.suffix().state_secret(1);
    scene
        .secrets()
        .delete(&middle, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let StateRead::Unreadable(problem) = scene.read(&reader, &owner).await else {
        panic!("a chunk is missing");
    };
    assert_eq!(problem.verdict().reason(), "StateInconsistent");
}

#[tokio::test]
async fn adoption_owns_every_chunk_and_proves_the_apply_once() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let reader = StateReader::default();
    scene.write_state(&owner, 2).await;
    let hash = InputsHash::new("h2:abc");
    let chunks = state(scene.read(&reader, &owner).await).chunks.clone();
    assert!(adopt(&scene.manager, &owner, &chunks, &hash).await.unwrap());

    let read = state(scene.read(&reader, &owner).await);
    assert_eq!(read.inputs_hash, hash);
    for index in 0..2 {
        let secret = scene
            .secret(&owner.key.suffix().state_secret(index))
            .await
            .unwrap();
        assert_eq!(secret.owner_references(), [owner.reference()]);
        assert_eq!(secret.finalizers().len(), usize::from(index == 0));
    }
    assert!(
        !adopt(&scene.manager, &owner, &read.chunks, &hash)
            .await
            .unwrap(),
        "nothing left to write"
    );

    let chunk = owner.key.suffix().state_secret(1);
    scene
        .patch_secret(&chunk, json!({"metadata": {"ownerReferences": []}}))
        .await;
    let read = state(scene.read(&reader, &owner).await);
    let mut repaired = Vec::new();
    for secret in &read.chunks {
        let wrote = repair(&scene.manager, &owner, secret, Guarding::Owner).await;
        repaired.push(wrote.unwrap());
    }
    assert_eq!(repaired, [false, true]);
    let secret = scene.secret(&chunk).await.unwrap();
    assert_eq!(secret.owner_references(), [owner.reference()]);

    let base = owner.key.suffix().state_secret(0);
    scene
        .patch_secret(&base, json!({"metadata": {"finalizers": []}}))
        .await;
    let read = state(scene.read(&reader, &owner).await);
    let protected = Guarding::OwnerAndProtection;
    assert!(
        repair(&scene.manager, &owner, &read.chunks[0], protected)
            .await
            .unwrap()
    );
    let secret = scene.secret(&base).await.unwrap();
    assert_eq!(secret.finalizers(), ["captf.io/state-protection"]);
}

#[tokio::test]
async fn labels_edited_away_are_put_back_before_a_job() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    scene.write_state(&owner, 2).await;
    assert!(
        ensure_labels(&scene.manager, &owner, "prod")
            .await
            .unwrap()
            .repaired
            .is_none()
    );

    let chunk = owner.key.suffix().state_secret(1);
    let edited = json!({"metadata": {"labels": {"captf.io/managed": null, "extra": "stays"}}});
    scene.patch_secret(&chunk, edited).await;
    let check = ensure_labels(&scene.manager, &owner, "prod").await.unwrap();
    let note = check.repaired.unwrap();
    assert!(
        note.contains(&format!("{chunk}: captf.io/managed")),
        "{note}"
    );
    let labels = scene.secret(&chunk).await.unwrap().labels().clone();
    assert_eq!(
        (
            labels["captf.io/managed"].as_str(),
            labels["extra"].as_str()
        ),
        ("true", "stays")
    );

    let moved = ensure_labels(&scene.manager, &owner, "renamed")
        .await
        .unwrap()
        .repaired
        .unwrap();
    assert!(
        moved.contains("cluster.x-k8s.io/cluster-name"),
        "a changed map is this case too: {moved}"
    );
}

#[tokio::test]
async fn a_state_no_selector_finds_is_not_taken_for_none() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    scene.write_state(&owner, 1).await;
    let base = owner.key.suffix().base_state_secret();
    scene
        .patch_secret(&base, json!({"metadata": {"labels": null}}))
        .await;

    let observed = observe(&scene.manager, &StateReader::default(), &owner, "prod")
        .await
        .unwrap();
    assert_eq!(state(observed.read).serial, 7);
    assert!(observed.labels.repaired.is_some());
}

#[tokio::test]
async fn without_the_right_to_patch_no_job_starts_and_the_label_is_named() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    scene.write_state(&owner, 1).await;
    let base = owner.key.suffix().base_state_secret();
    scene
        .patch_secret(
            &base,
            json!({"metadata": {"labels": {"captf.io/managed": "no"}}}),
        )
        .await;
    let reader = format!("reader-of-{}", scene.world.namespace);
    let role: k8s_openapi::api::rbac::v1::Role = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]
    }))
    .unwrap();
    let binding: k8s_openapi::api::rbac::v1::RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": reader}]
    }))
    .unwrap();
    let (client, namespace) = (scene.world.client.clone(), &scene.world.namespace);
    Api::namespaced(client.clone(), namespace)
        .create(&PostParams::default(), &role)
        .await
        .unwrap();
    Api::namespaced(client, namespace)
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    let access = access(ControlPlane::shared().await.config_as(&reader).await);

    let check = ensure_labels(&access, &owner, "prod").await.unwrap();
    assert!(!check.may_start());
    let verdict = check.refused.unwrap();
    assert_eq!(verdict.reason(), "StateInconsistent");
    let expected = format!("label captf.io/managed of Secret {base}");
    assert!(
        verdict.message().starts_with(&expected),
        "{}",
        verdict.message()
    );
}

#[tokio::test]
async fn a_lock_of_an_ended_pod_is_stale_and_removed_only_as_judged() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let name = "captf-c-prod-apply-a1-dbb569-x7k2p";
    let pods: Api<Pod> = Api::namespaced(scene.world.client.clone(), &scene.world.namespace);
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "source", "image": "registry.example.com/module:v1"}]}
    });
    crate::testbed::wait::until(
        "the default ServiceAccount",
        crate::testbed::wait::LIMIT,
        async || {
            let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
            pods.create(&PostParams::default(), &pod)
                .await
                .map_err(|error| error.to_string())
        },
    )
    .await;
    let lock_name = owner.key.suffix().lock_lease();
    let info =
        json!({"ID": "id-1", "Operation": "OperationTypeApply", "Who": format!("root@{name}")});
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": lock_name, "annotations": {"app.terraform.io/lock-info": info.to_string()}},
        "spec": {"holderIdentity": "id-1"}
    }))
    .unwrap();
    let leases: Api<Lease> = Api::namespaced(scene.world.client.clone(), &scene.world.namespace);
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let hour = Duration::from_secs(3600);
    let judge = async || {
        judge_lock(&scene.manager, &owner, hour, &|_| false)
            .await
            .unwrap()
            .unwrap()
    };

    let live = judge().await;
    assert_eq!(live.verdict, LockVerdict::Live);
    assert!(
        !delete_stale_lock(&scene.manager, &owner, &live)
            .await
            .unwrap()
    );

    let ended = json!({"status": {"phase": "Failed"}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&ended))
        .await
        .unwrap();
    let stale = judge().await;
    assert_eq!(stale.force_unlock_id(), Some("id-1"));
    let touched = json!({"metadata": {"annotations": {"touched": "1"}}});
    leases
        .patch(&lock_name, &PatchParams::default(), &Patch::Merge(&touched))
        .await
        .unwrap();
    assert!(
        !delete_stale_lock(&scene.manager, &owner, &stale)
            .await
            .unwrap(),
        "written since"
    );

    let gone = kube::api::DeleteParams::default().grace_period(0);
    pods.delete(name, &gone).await.unwrap();
    let absent = judge().await;
    assert!(
        matches!(
            absent.verdict,
            LockVerdict::Unproven {
                stale_after: Some(_)
            }
        ),
        "{absent:?}"
    );
    assert!(absent.report().unwrap().message().contains(name));
    let seen = judge_lock(&scene.manager, &owner, hour, &|pod| pod == name)
        .await
        .unwrap()
        .unwrap();
    assert!(
        delete_stale_lock(&scene.manager, &owner, &seen)
            .await
            .unwrap()
    );
    assert!(leases.get_opt(&lock_name).await.unwrap().is_none());
}
