//! What a real API server accepts, refuses and stores of our kinds (api.md §17).

mod cluster;
mod discovery;
mod identity;
mod plan;
mod ratchet;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::{Value, json};

use crate::testbed::{ControlPlane, World};

/// A namespace of its own on the shared control plane.
async fn world() -> World {
    World::bare(ControlPlane::shared().await).await
}

/// The objects of one kind in a world, and what the server says about writes to them.
struct Kind {
    name: &'static str,
    api: Api<DynamicObject>,
}

type Answer = Result<DynamicObject, Box<Status>>;

impl Kind {
    fn of(world: &World, name: &'static str) -> Self {
        Self {
            name,
            api: world.api(name),
        }
    }

    /// Creates an object with this spec.
    async fn create(&self, name: &str, spec: Value) -> Answer {
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": self.name,
            "metadata": {"name": name},
            "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        answer(self.api.create(&PostParams::default(), &object).await)
    }

    /// Merges a patch into an object; null removes a field.
    async fn patch(&self, name: &str, patch: Value) -> Answer {
        let patch = Patch::Merge(&patch);
        answer(self.api.patch(name, &PatchParams::default(), &patch).await)
    }

    /// Merges a patch into an object's spec.
    async fn patch_spec(&self, name: &str, spec: Value) -> Answer {
        self.patch(name, json!({ "spec": spec })).await
    }

    /// Merges a patch into an object's status.
    async fn patch_status(&self, name: &str, status: Value) -> Answer {
        let patch = json!({ "status": status });
        answer(
            self.api
                .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await,
        )
    }
}

fn answer(result: kube::Result<DynamicObject>) -> Answer {
    result.map_err(|error| match error {
        kube::Error::Api(status) => status,
        other => panic!("no answer: {other}"),
    })
}

#[track_caller]
fn accepted(answer: Answer) -> DynamicObject {
    answer.unwrap_or_else(|status| panic!("refused: {}", status.message))
}

/// The write is refused as invalid, by a cause that names the field and says this.
#[track_caller]
fn refused(answer: Answer, field: &str, fragment: &str) {
    let status = answer.expect_err("refused");
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let causes = status
        .details
        .map_or_else(Vec::new, |details| details.causes);
    assert!(
        causes
            .iter()
            .any(|cause| cause.field == field && cause.message.contains(fragment)),
        "no cause at {field} with {fragment:?} in {causes:#?}"
    );
}
