//! The per-run Secret.

use captf::names::JobName;
use captf::operator::secrets::per_run::{self, Counted, Ensured, JobRef, Leftover, Presence};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use super::{Scene, data, inputs};

impl Scene {
    fn jobs(&self) -> Api<Job> {
        Api::namespaced(self.world.client.clone(), &self.world.namespace)
    }

    /// A Job whose pod never runs here.
    async fn job(&self, name: &str) -> JobRef {
        let job = json!({
            "metadata": {"name": name},
            "spec": {
                "suspend": true,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "source", "image": "registry.example.com/module:v1"}]
                }}
            }
        });
        let job: Job = serde_json::from_value(job).unwrap();
        let job = self
            .jobs()
            .create(&PostParams::default(), &job)
            .await
            .unwrap();
        JobRef {
            namespace: self.world.namespace.clone(),
            name: JobName::new(name),
            uid: job.uid().unwrap(),
        }
    }
}

#[tokio::test]
async fn made_kept_and_counted_by_exactly_one_of_two_deletes() {
    let scene = Scene::new().await;
    let job = scene.job("captf-c-prod-apply-a1-dbb569").await;
    let manager = &scene.manager;
    assert_eq!(
        per_run::presence(manager, &job).await.unwrap(),
        Presence::Missing
    );
    assert_eq!(
        per_run::ensure(manager, &job, &inputs("h2:a"))
            .await
            .unwrap(),
        Ensured::Created
    );
    assert_eq!(
        per_run::ensure(manager, &job, &inputs("h2:a"))
            .await
            .unwrap(),
        Ensured::Kept
    );
    assert_eq!(
        per_run::presence(manager, &job).await.unwrap(),
        Presence::Own
    );
    let secret = scene
        .secret("captf-run-captf-c-prod-apply-a1-dbb569")
        .await
        .unwrap();
    assert_eq!(data(&secret, ".job-uid").as_deref(), Some(job.uid.as_str()));
    assert_eq!(
        per_run::inputs_of(manager, &job).await.unwrap(),
        Some(inputs("h2:a"))
    );

    let (one, two) = tokio::join!(
        per_run::delete_of_finished(manager, &job),
        per_run::delete_of_finished(manager, &job)
    );
    let counted = [one.unwrap(), two.unwrap()];
    assert_eq!(
        counted
            .iter()
            .filter(|counted| **counted == Counted::Now)
            .count(),
        1,
        "{counted:?}"
    );
}

#[tokio::test]
async fn one_that_another_job_left_is_replaced_and_a_vanished_job_gets_none() {
    let scene = Scene::new().await;
    let manager = &scene.manager;
    let earlier = scene.job("captf-c-prod-apply-a1-earlier").await;
    let job = scene.job("captf-c-prod-apply-a1-dbb569").await;
    let mut leftover = per_run::build(&job, &inputs("h2:old"));
    leftover.metadata.owner_references = Some(vec![serde_json::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job", "name": earlier.name.as_str(), "uid": earlier.uid
    }))
    .unwrap()]);
    let create = async || {
        scene
            .secrets()
            .create(&PostParams::default(), &leftover)
            .await
            .unwrap()
    };

    create().await;
    assert_eq!(
        per_run::presence(manager, &job).await.unwrap(),
        Presence::Other
    );
    assert_eq!(
        per_run::delete_of_finished(manager, &job).await.unwrap(),
        Counted::Elsewhere
    );
    assert_eq!(per_run::inputs_of(manager, &job).await.unwrap(), None);
    assert_eq!(
        per_run::clear_leftover(manager, &job.namespace, &job.name)
            .await
            .unwrap(),
        Leftover::JobExists
    );
    assert_eq!(
        per_run::ensure(manager, &job, &inputs("h2:new"))
            .await
            .unwrap(),
        Ensured::Replaced
    );
    assert_eq!(
        per_run::inputs_of(manager, &job).await.unwrap(),
        Some(inputs("h2:new"))
    );

    per_run::delete_of_finished(manager, &job).await.unwrap();
    scene
        .jobs()
        .delete(job.name.as_str(), &DeleteParams::background())
        .await
        .unwrap();
    crate::testbed::wait::until(
        "the Job to go",
        crate::testbed::wait::LIMIT,
        async || match scene.jobs().get_opt(job.name.as_str()).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    create().await;
    assert_eq!(
        per_run::ensure(manager, &job, &inputs("h2:new"))
            .await
            .unwrap(),
        Ensured::JobChanged { live: None }
    );
    assert_eq!(
        per_run::clear_leftover(manager, &job.namespace, &job.name)
            .await
            .unwrap(),
        Leftover::Deleted
    );
    assert!(
        scene
            .secret("captf-run-captf-c-prod-apply-a1-dbb569")
            .await
            .is_none()
    );
}
