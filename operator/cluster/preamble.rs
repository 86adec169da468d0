//! What comes before a pass (lifecycle.md §4): foreign management, owner, finalizer, pause. Its writes
//! are its own; none of them is part of the pass's patch.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::object::Working;
use crate::api::capi::Cluster;
use crate::api::conditions::{self, ConditionType, DependenciesReady, Paused, State as _, Status};
use crate::api::conditions::{Ready, Verdict};
use crate::api::keys::{annotations, finalizers};
use crate::client::{Access, ApiError};
use crate::owner::{self, ClusterOwner};

/// The finalizer that makes the garbage collector delete dependents first.
const FOREGROUND: &str = "foregroundDeletion";

/// Where the preamble leads.
#[derive(Debug)]
pub(super) enum Preamble {
    /// Nothing more in this pass; come back on the next event.
    Stop,
    /// Nothing more in this pass; come back by itself, since nothing will wake the object.
    Wait,
    /// Somebody wrote the object since it was read: come back in a moment.
    Again,
    /// Go on with the pass.
    Go(Box<Ownership>),
}

/// What the preamble found out for the pass.
#[derive(Debug, Clone)]
pub(super) struct Ownership {
    /// The owning Cluster; none when it does not exist, or while the object is being deleted.
    pub(super) cluster: Option<Cluster>,
    /// Why the object is paused, if it is.
    pub(super) paused: Option<&'static str>,
    /// A foreground deletion was made an ordinary one in this pass.
    pub(super) converted: bool,
}

/// What the object needs before a pass can run, given its owner as read. Pure: the acting part is
/// [`run`].
#[derive(Debug, PartialEq)]
enum Need {
    ConvertForegroundDeletion,
    LeaveAlone,
    WaitForOwner(Verdict, Wakes),
    AddFinalizer,
    Nothing,
}

/// Whether the gate's end wakes the object, or it must come back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakes {
    ByWatch,
    ByRequeue,
}

fn need(object: &Working, owner: ClusterOwner<'_>) -> Need {
    let finalizers = object.meta().finalizers.as_deref().unwrap_or_default();
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if object.deleting() {
        return if !has(finalizers::CLUSTER) {
            // Whatever still holds the object, it is not ours to finish.
            Need::LeaveAlone
        } else if has(FOREGROUND) {
            Need::ConvertForegroundDeletion
        } else {
            Need::Nothing
        };
    }
    if object.annotation(annotations::MANAGED_BY).is_some() {
        return Need::LeaveAlone;
    }
    match owner {
        ClusterOwner::Unowned => Need::WaitForOwner(
            DependenciesReady::WaitingForOwner.with(
                "no Cluster owns this object yet: a Cluster whose spec.infrastructureRef names it must exist",
            ),
            Wakes::ByRequeue,
        ),
        ClusterOwner::Mismatch { name, why } => Need::WaitForOwner(
            DependenciesReady::OwnerMismatch.with(format!("Cluster {name} does not own this object: {}", why.describe())),
            Wakes::ByWatch,
        ),
        // That the Cluster is gone closes a gate of the pass, which still looks after Jobs and state.
        ClusterOwner::Valid(_) | ClusterOwner::Gone { .. } if !has(finalizers::CLUSTER) => {
            Need::AddFinalizer
        }
        ClusterOwner::Valid(_) | ClusterOwner::Gone { .. } => Need::Nothing,
    }
}

/// Runs the preamble. `cluster` is the Cluster that the owner reference names, as read.
///
/// # Errors
/// When a write fails; a conflict means that the object was read too early.
pub(super) async fn run(
    access: &Access,
    object: &mut Working,
    cluster: Option<Cluster>,
    now: Timestamp,
) -> Result<Preamble, ApiError> {
    let meta = object.meta().clone();
    let mut converted = false;
    let owner = owner::cluster_owner(&meta, cluster.as_ref());
    let valid = matches!(owner, ClusterOwner::Valid(_));
    match need(object, owner) {
        Need::LeaveAlone => return Ok(Preamble::Stop),
        Need::WaitForOwner(gate, wakes) => {
            close_gate(object, gate, now);
            object.save(access).await?;
            return Ok(if wakes == Wakes::ByRequeue {
                Preamble::Wait
            } else {
                Preamble::Stop
            });
        }
        Need::AddFinalizer => {
            let mut all = meta.finalizers.clone().unwrap_or_default();
            all.push(finalizers::CLUSTER.to_owned());
            object.write_now(access, json!({"finalizers": all})).await?;
            return Ok(Preamble::Stop);
        }
        Need::ConvertForegroundDeletion => {
            let all: Vec<&String> = meta
                .finalizers
                .iter()
                .flatten()
                .filter(|name| *name != FOREGROUND)
                .collect();
            match object.write_now(access, json!({"finalizers": all})).await {
                Err(error) if error.is_conflict() => return Ok(Preamble::Again),
                written => written?,
            }
            converted = true;
        }
        Need::Nothing => {}
    }
    let cluster = cluster.filter(|_| valid);
    let paused = owner::paused(
        object.meta(),
        cluster.as_ref().is_some_and(|cluster| cluster.spec.paused),
    );
    let before =
        conditions::get(&object.reported().conditions, ConditionType::Paused).map(Status::of);
    let verdict = match paused {
        Some(why) => Paused::Paused.with(why),
        None => Paused::NotPaused.plain(),
    };
    let changed = before != Some(verdict.status());
    object.set(verdict, now);
    if changed {
        match object.save(access).await {
            Err(error) if error.is_conflict() => return Ok(Preamble::Again),
            saved => saved?,
        };
        // The event of this write starts the next pass. One that converted a deletion goes on: it has
        // that to tell.
        if paused.is_none() && !converted {
            return Ok(Preamble::Stop);
        }
    }
    Ok(Preamble::Go(Box::new(Ownership {
        cluster,
        paused,
        converted,
    })))
}

/// Reports a closed owner gate, on `Ready` too as long as nothing was provisioned (lifecycle.md §4).
fn close_gate(object: &mut Working, gate: Verdict, now: Timestamp) {
    if !object.reported().is_provisioned() {
        let ready = if gate.status() == Status::False {
            Ready::NotReady
        } else {
            Ready::ReadyUnknown
        };
        object.set(
            ready.with(format!("{}: {}", gate.reason(), gate.message())),
            now,
        );
    }
    object.set(gate, now);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::{Need, Wakes, need};
    use crate::api::TerraformCluster;
    use crate::api::capi::Cluster;
    use crate::operator::cluster::object::Working;
    use crate::owner::{ClusterOwner, Mismatch};

    const FINALIZER: &str = "terraformcluster.infrastructure.cluster.x-k8s.io";

    fn object(meta: &Value) -> Working {
        let object: TerraformCluster = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "TerraformCluster",
            "metadata": meta, "spec": {"source": {"image": "i"}}
        }))
        .unwrap();
        Working::new(object)
    }

    fn gate(meta: &Value, owner: ClusterOwner<'_>) -> (String, Wakes) {
        match need(&object(meta), owner) {
            Need::WaitForOwner(verdict, wakes) => {
                (format!("{}/{}", verdict.status(), verdict.reason()), wakes)
            }
            other => panic!("no gate: {other:?}"),
        }
    }

    #[test]
    fn without_an_owner_the_object_waits_and_gets_no_finalizer() {
        assert_eq!(
            gate(&json!({}), ClusterOwner::Unowned),
            ("Unknown/WaitingForOwner".into(), Wakes::ByRequeue)
        );
    }

    #[test]
    fn an_owner_that_is_gone_does_not_end_the_pass() {
        let gone = || ClusterOwner::Gone { name: "c" };
        assert_eq!(need(&object(&json!({})), gone()), Need::AddFinalizer);
        let finalized = object(&json!({"finalizers": [FINALIZER]}));
        assert_eq!(need(&finalized, gone()), Need::Nothing);
    }

    #[test]
    fn a_foreign_owner_closes_the_gate_until_a_watch_wakes_it() {
        let mismatch = ClusterOwner::Mismatch {
            name: "c",
            why: Mismatch::Uid,
        };
        assert_eq!(
            gate(&json!({}), mismatch),
            ("False/OwnerMismatch".into(), Wakes::ByWatch)
        );
    }

    #[test]
    fn an_owned_object_gets_the_finalizer_first() {
        let cluster = Cluster::default();
        assert_eq!(
            need(&object(&json!({})), ClusterOwner::Valid(&cluster)),
            Need::AddFinalizer
        );
        let owned = object(&json!({"finalizers": [FINALIZER]}));
        assert_eq!(need(&owned, ClusterOwner::Valid(&cluster)), Need::Nothing);
    }

    #[test]
    fn an_externally_managed_object_is_left_alone() {
        let managed = object(&json!({"annotations": {"cluster.x-k8s.io/managed-by": "x"}}));
        assert_eq!(need(&managed, ClusterOwner::Unowned), Need::LeaveAlone);
    }

    #[test]
    fn a_deleting_object_that_does_not_carry_our_finalizer_is_left_alone() {
        let meta =
            json!({"deletionTimestamp": "2026-10-01T12:00:00Z", "finalizers": ["somebody/else"]});
        assert_eq!(
            need(&object(&meta), ClusterOwner::Unowned),
            Need::LeaveAlone
        );
    }

    #[test]
    fn a_foreground_deletion_is_converted_before_anything_else() {
        let meta = json!({"deletionTimestamp": "2026-10-01T12:00:00Z", "finalizers": [FINALIZER, "foregroundDeletion"]});
        assert_eq!(
            need(&object(&meta), ClusterOwner::Unowned),
            Need::ConvertForegroundDeletion
        );
    }
}
