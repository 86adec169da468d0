//! What is left when an object goes.

use captf::names::JobName;
use captf::operator::secrets::{Owner, Retained};
use captf::operator::secrets::{
    adopt_retained, delete_records, delete_state, find_kept, plan_key, records, release_backups,
    retain, retained_from,
};
use captf::operator::state::{StateRead, StateReader};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::{Scene, inputs};
use crate::testbed::wait::{LIMIT, until};

impl Scene {
    /// State in two chunks, a backup, both records, a plan key and the lock Lease.
    async fn with_everything(&self) -> Owner {
        let owner = self.owner("prod").await;
        let suffix = owner.key.suffix();
        let mut labels = owner.key.backend_labels("prod");
        labels.extend(captf::names::state_selector(&suffix));
        for index in 0..2 {
            self.create_secret(json!({"metadata": {
                "name": suffix.state_secret(index),
                "labels": labels,
                "ownerReferences": [owner.reference()],
                "finalizers": if index == 0 { json!(["captf.io/state-protection"]) } else { json!([]) }
            }}))
            .await;
        }
        self.create_secret(json!({"metadata": {
            "name": suffix.state_backup(1),
            "labels": {"captf.io/state-backup": "true", "captf.io/state-backup-suffix": suffix.as_str()},
            "ownerReferences": [owner.reference()],
            "finalizers": ["captf.io/state-protection"]
        }}))
        .await;
        let job = JobName::new("job-1");
        records::write_attempt(&self.manager, &owner, None, &job, &inputs("h2:a"))
            .await
            .unwrap();
        records::promote(&self.manager, &owner, None, &job, &inputs("h2:a"), None)
            .await
            .unwrap();
        plan_key::ensure(&self.manager, &owner).await.unwrap();
        let lock: Lease =
            serde_json::from_value(json!({"metadata": {"name": suffix.lock_lease()}})).unwrap();
        self.leases()
            .create(&PostParams::default(), &lock)
            .await
            .unwrap();
        owner
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    /// Deletes the object and waits until garbage collection has taken a Secret that it owned.
    async fn delete_owner_and_wait_for(&self, owner: &Owner, secret: &str) {
        let objects = self.world.api("TerraformCluster");
        objects
            .delete(&owner.key.name, &DeleteParams::background())
            .await
            .unwrap();
        until(
            &format!("{secret} to be collected"),
            LIMIT,
            async || match self.secret(secret).await {
                None => Ok(()),
                Some(found) => Err(format!("{:?}", found.metadata)),
            },
        )
        .await;
    }
}

#[tokio::test]
async fn cleanup_deletes_everything_but_backups_which_are_collected() {
    let scene = Scene::new().await;
    let owner = scene.with_everything().await;
    let suffix = owner.key.suffix();
    for _ in 0..2 {
        delete_state(&scene.manager, &owner).await.unwrap();
        delete_records(&scene.manager, &owner).await.unwrap();
        plan_key::delete(&scene.manager, &owner).await.unwrap();
    }
    for name in [
        suffix.state_secret(0),
        suffix.state_secret(1),
        "captf-inputs-c-prod".into(),
        "captf-applied-c-prod".into(),
        "captf-plankey-c-prod".into(),
    ] {
        assert_eq!(scene.secret(&name).await, None, "{name}");
    }
    assert!(
        scene
            .leases()
            .get_opt(&suffix.lock_lease())
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(release_backups(&scene.manager, &owner).await.unwrap(), 1);
    scene
        .delete_owner_and_wait_for(&owner, &suffix.state_backup(1))
        .await;
}

#[tokio::test]
async fn retained_secrets_outlive_the_object_hold_the_next_and_are_adopted() {
    let scene = Scene::new().await;
    let owner = scene.with_everything().await;
    let suffix = owner.key.suffix();
    let counts = Retained {
        state: 2,
        backups: 1,
        records: 2,
    };
    assert_eq!(retain(&scene.manager, &owner).await.unwrap(), counts);
    assert_eq!(
        retain(&scene.manager, &owner).await.unwrap(),
        counts,
        "can be repeated"
    );
    assert!(
        scene
            .leases()
            .get_opt(&suffix.lock_lease())
            .await
            .unwrap()
            .is_none()
    );
    scene
        .delete_owner_and_wait_for(&owner, "captf-plankey-c-prod")
        .await;

    let next = Owner::new(owner.key.clone(), "the-uid-of-a-later-object");
    let kept = find_kept(&scene.manager, &next.key).await.unwrap();
    assert_eq!(
        (kept.state.len(), kept.backups.len(), kept.records.len()),
        (2, 1, 2)
    );
    let labelled: Vec<&str> = kept.iter().filter_map(retained_from).collect();
    assert_eq!(labelled, [owner.uid.as_str(); 5]);
    assert_eq!(
        delete_state(&scene.manager, &next).await.unwrap(),
        0,
        "not the next object's to delete"
    );
    delete_records(&scene.manager, &next).await.unwrap();

    assert_eq!(adopt_retained(&scene.manager, &next).await.unwrap(), 5);
    let kept = find_kept(&scene.manager, &next.key).await.unwrap();
    assert_eq!(kept.iter().find_map(retained_from), None);
    assert_eq!(kept.iter().count(), 5);
    let read = StateReader::default()
        .read(&scene.manager, next.namespace(), &suffix)
        .await
        .unwrap();
    assert!(!matches!(read, StateRead::None));
    let base = scene.secret(&suffix.base_state_secret()).await.unwrap();
    assert!(
        base.labels()
            .contains_key("clusterctl.cluster.x-k8s.io/move"),
        "backend labels stay"
    );
}
