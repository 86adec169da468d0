//! `TerraformPlan`.

use captf::api::{PlanSummary, TerraformPlan};
use kube::api::Api;
use serde_json::{Value, json};

use super::{Kind, accepted, refused, world};

async fn plans() -> Kind {
    Kind::of(&world().await, "TerraformPlan")
}

fn unapproved() -> Value {
    json!({
        "targetRef": {"kind": "TerraformCluster", "name": "c1"},
        "planHash": "p2:0123",
        "inputsHash": "h2:4567",
        "reason": "Manual",
        "summary": {"create": 1, "update": 0, "replace": 0, "delete": 2, "resources": ["a.b (delete)"]}
    })
}

fn with(extra: Value) -> Value {
    let mut spec = unapproved();
    spec.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    spec
}

fn approval() -> Value {
    json!({"approved": true, "approvedBy": "alice"})
}

#[tokio::test]
async fn a_plan_is_created_unapproved_or_approved_with_its_approver() {
    let plans = plans().await;
    accepted(plans.create("unset", unapproved()).await);
    accepted(
        plans
            .create("false", with(json!({"approved": false})))
            .await,
    );
    accepted(plans.create("approved", with(approval())).await);
}

#[tokio::test]
async fn an_unapproved_plan_can_be_approved() {
    let plans = plans().await;
    accepted(plans.create("unset", unapproved()).await);
    accepted(plans.patch_spec("unset", approval()).await);
    accepted(
        plans
            .create("false", with(json!({"approved": false})))
            .await,
    );
    accepted(plans.patch_spec("false", approval()).await);
}

#[tokio::test]
async fn an_approval_needs_its_approver() {
    let plans = plans().await;
    let message = "approvedBy is required when approved is true";
    let answer = plans.create("p1", with(json!({"approved": true}))).await;
    refused(answer, "spec.approvedBy", message);
    accepted(plans.create("p1", unapproved()).await);
    let answer = plans.patch_spec("p1", json!({"approved": true})).await;
    refused(answer, "spec.approvedBy", message);
}

#[tokio::test]
async fn an_approver_needs_an_approval() {
    let plans = plans().await;
    let message = "approvedBy can only be set when approved is true";
    for extra in [
        json!({"approvedBy": "alice"}),
        json!({"approved": false, "approvedBy": "alice"}),
    ] {
        refused(
            plans.create("p1", with(extra)).await,
            "spec.approvedBy",
            message,
        );
    }
}

#[tokio::test]
async fn an_approval_stands() {
    let plans = plans().await;
    accepted(plans.create("p1", with(approval())).await);
    accepted(
        plans
            .patch("p1", json!({"metadata": {"labels": {"a": "b"}}}))
            .await,
    );
    for change in [
        json!({"approved": false, "approvedBy": null}),
        json!({"approved": null, "approvedBy": null}),
        json!({"approvedBy": "mallory"}),
    ] {
        let answer = plans.patch_spec("p1", change).await;
        refused(answer, "spec.approved", "neither withdrawn nor changed");
    }
}

#[tokio::test]
async fn everything_but_the_approval_is_immutable() {
    let plans = plans().await;
    accepted(plans.create("p1", unapproved()).await);
    for (field, value) in [
        ("targetRef", json!({"name": "c2"})),
        ("targetRef", json!({"kind": "TerraformMachinePool"})),
        ("planHash", json!("p2:other")),
        ("inputsHash", json!("h2:other")),
        ("reason", json!("Destructive")),
        ("summary", json!({"delete": 0})),
        ("summary", json!({"resources": null})),
        ("summary", json!({"truncated": true})),
    ] {
        let mut change = json!({});
        change[field] = value;
        let path = format!("spec.{field}");
        let answer = plans.patch_spec("p1", change).await;
        refused(answer, &path, &format!("{path} is immutable"));
    }
}

#[tokio::test]
async fn a_required_field_cannot_be_left_out() {
    let plans = plans().await;
    for field in ["targetRef", "planHash", "inputsHash", "reason", "summary"] {
        let mut spec = unapproved();
        spec.as_object_mut().unwrap().remove(field);
        refused(
            plans.create("p1", spec).await,
            &format!("spec.{field}"),
            "Required value",
        );
    }
}

#[tokio::test]
async fn an_empty_summary_is_refused() {
    let answer = plans()
        .await
        .create("p1", with(json!({"summary": {}})))
        .await;
    refused(answer, "spec.summary", "at least 1 properties");
}

#[tokio::test]
async fn a_machine_has_no_plan() {
    let target = json!({"targetRef": {"kind": "TerraformMachine", "name": "m1"}});
    refused(
        plans().await.create("p1", with(target)).await,
        "spec.targetRef.kind",
        "Unsupported value",
    );
}

#[tokio::test]
async fn the_types_write_the_four_main_counts_and_the_others_only_when_not_0() {
    let world = world().await;
    accepted(
        Kind::of(&world, "TerraformPlan")
            .create("p1", unapproved())
            .await,
    );
    let typed: Api<TerraformPlan> = Api::namespaced(world.client.clone(), &world.namespace);
    let read = typed.get("p1").await.unwrap();
    assert_eq!(serde_json::to_value(&read.spec).unwrap(), unapproved());
    let moves = PlanSummary {
        moved: 1,
        ..PlanSummary::default()
    };
    assert_eq!(
        serde_json::to_value(moves).unwrap(),
        json!({"create": 0, "update": 0, "replace": 0, "delete": 0, "move": 1})
    );
}

#[tokio::test]
async fn a_phase_is_one_of_the_five() {
    let plans = plans().await;
    accepted(plans.create("p1", unapproved()).await);
    for phase in ["Pending", "Approved", "Applied", "Superseded", "Failed"] {
        accepted(plans.patch_status("p1", json!({"phase": phase})).await);
    }
    refused(
        plans.patch_status("p1", json!({"phase": "Done"})).await,
        "status.phase",
        "Unsupported value",
    );
}
