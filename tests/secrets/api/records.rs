//! The inputs records and the plan key.

use captf::names::{InputsHash, JobName};
use captf::operator::secrets::plan_key;
use captf::operator::secrets::records::{self, Interruption, Marks, Promotion};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Scene, inputs};

#[tokio::test]
async fn attempts_marks_and_promotion_leave_what_others_wrote() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let (manager, first, second) = (&scene.manager, JobName::new("job-1"), JobName::new("job-2"));
    let attempt = records::write_attempt(manager, &owner, None, &first, &inputs("h2:a"))
        .await
        .unwrap();
    let doubt = Marks {
        may_have_applied: Some(true),
        interruption: Some(Interruption::Record(first.clone())),
        ..Marks::default()
    };
    let attempt = records::mark(manager, &owner, Some(&attempt), &doubt)
        .await
        .unwrap()
        .unwrap();
    let foreign = json!({"metadata": {"annotations": {"captf.io/of-another-version": "1"}}, "data": {"stray": "eA=="}});
    let api = scene.secrets();
    api.patch(
        "captf-inputs-c-prod",
        &PatchParams::default(),
        &Patch::Merge(&foreign),
    )
    .await
    .unwrap();

    let stale =
        records::write_attempt(manager, &owner, Some(&attempt), &second, &inputs("h2:b")).await;
    assert!(stale.unwrap_err().is_conflict(), "somebody wrote it since");
    let read = records::read(manager, &owner).await.unwrap();
    let attempt = records::write_attempt(
        manager,
        &owner,
        read.attempt.as_ref(),
        &second,
        &inputs("h2:b"),
    )
    .await
    .unwrap();
    assert_eq!(attempt.job(), Some(second.clone()));
    assert_eq!(attempt.inputs(), Some(inputs("h2:b")));
    assert!(attempt.may_have_applied());
    assert_eq!(attempt.interrupted_apply(), Some(first));
    let stored = scene.secret("captf-inputs-c-prod").await.unwrap();
    assert_eq!(
        stored.metadata.annotations.unwrap()["captf.io/of-another-version"],
        "1"
    );
    assert!(!stored.data.unwrap().contains_key("stray"));

    let digest = Some("registry.example.com/module@sha256:aa");
    let promoted = records::promote(manager, &owner, None, &second, &inputs("h2:b"), digest)
        .await
        .unwrap();
    assert!(matches!(promoted, Promotion::Written(record) if record.image_digest() == digest));
    records::mark(
        manager,
        &owner,
        Some(&attempt),
        &Marks::apply_succeeded(true),
    )
    .await
    .unwrap();
    let read = records::read(manager, &owner).await.unwrap();
    assert!(read.prove_an_apply());
    assert_eq!(read.interrupted_apply(), None);
    assert_eq!(
        read.to_render(&InputsHash::new("h2:b"))
            .unwrap()
            .image_digest(),
        digest
    );
    let again = records::promote(
        manager,
        &owner,
        read.applied.as_ref(),
        &second,
        &inputs("h2:b"),
        digest,
    )
    .await;
    assert!(matches!(again.unwrap(), Promotion::Already));
}

#[tokio::test]
async fn a_record_over_the_servers_limit_is_refused_without_failing_the_pass() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let mut large = inputs("h2:a");
    large.files.tfvars = "x".repeat(2 * 1024 * 1024);
    let job = JobName::new("job-1");
    let promoted = records::promote(&scene.manager, &owner, None, &job, &large, None)
        .await
        .unwrap();
    assert!(matches!(promoted, Promotion::Refused(_)), "{promoted:?}");
}

#[tokio::test]
async fn the_plan_key_is_made_once_and_never_rotated() {
    let scene = Scene::new().await;
    let owner = scene.owner("prod").await;
    let (one, two) = tokio::join!(
        plan_key::ensure(&scene.manager, &owner),
        plan_key::ensure(&scene.manager, &owner)
    );
    assert_eq!(
        (one.unwrap().as_str(), two.unwrap().as_str()),
        ("captf-plankey-c-prod", "captf-plankey-c-prod")
    );
    let made = scene.secret("captf-plankey-c-prod").await.unwrap();
    assert_eq!(made.data.as_ref().unwrap()["key"].0.len(), 32);
    plan_key::ensure(&scene.manager, &owner).await.unwrap();
    assert_eq!(scene.secret("captf-plankey-c-prod").await, Some(made));
    assert!(plan_key::delete(&scene.manager, &owner).await.unwrap());
    assert!(!plan_key::delete(&scene.manager, &owner).await.unwrap());
}
