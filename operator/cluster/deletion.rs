//! A TerraformCluster that is being deleted (deletion.md §3).

use kube::api::ListParams;
use kube::core::{ApiResource, GroupVersionKind};

use super::PassError;
use super::pass::{End, Pass, gate, seconds};
use crate::api::conditions::{DeletionBlocked, State as _};
use crate::api::keys::{annotations, finalizers, labels};
use crate::api::{ApiKind, DeletionPolicy, GROUP, VERSION};
use crate::decide::{Life, STATE_REQUEUE};
use crate::events::EventData;
use crate::lease::DEFER_REQUEUE;
use crate::names::{credentials_mirror, label_value};
use crate::operator::credentials::mirror::{self, Left};
use crate::operator::credentials::{Identity, MirrorEvent};
use crate::operator::secrets::{self, SecretMeta, plan_key};
use crate::owner;

/// How many dependents of a kind a message names.
const NAMED: usize = 3;

impl Pass<'_> {
    /// Whether the object stays or goes, and how.
    pub(super) fn life(&self) -> Life {
        let policy = &self.object.next.spec.workspace.deletion_policy;
        match (self.object.deleting(), policy) {
            (false, _) => Life::Live,
            (true, Some(DeletionPolicy::Retain)) => Life::Retaining,
            (true, _) => Life::Destroying,
        }
    }

    /// Whether the object goes while somebody else manages its infrastructure, who goes on with it.
    pub(super) fn is_released_elsewhere(&self) -> bool {
        self.object.deleting() && self.object.annotation(annotations::MANAGED_BY).is_some()
    }

    /// Lets an externally managed object go, paused or not: its Secrets stay as with Retain, and the
    /// mirror is left to garbage collection (deletion.md §8).
    pub(super) async fn release_elsewhere(&mut self) -> Result<End, PassError> {
        if self.run_lease_is_live().await?.is_some() {
            return Ok(gate());
        }
        let access = &self.context.access;
        let kept = secrets::retain(access, &self.owner).await?;
        self.delete_run_state().await?;
        Ok(self.let_go(
            "ExternallyManagedReleased",
            format!(
                "somebody else manages the infrastructure; {}",
                self.kept_note(kept)
            ),
        ))
    }

    /// A paused object rests. One that is being deleted, has no owner and never applied anything has
    /// nothing to rest for (deletion.md §4).
    pub(super) async fn rest_paused(&mut self) -> Result<End, PassError> {
        let unowned = owner::cluster_reference(self.object.meta()).is_none();
        if self.object.deleting() && unowned && self.never_applied().await? {
            return self.drop_finalizer().await;
        }
        Ok(End::Requeue(None))
    }

    /// No trace of an apply anywhere, and nobody depends on the object.
    async fn never_applied(&mut self) -> Result<bool, PassError> {
        self.read_records().await?;
        if self.is_known_to_have_applied() || self.records.interrupted_apply().is_some() {
            return Ok(false);
        }
        let (machines, pools) = self.all_dependents().await?;
        let (access, namespace) = (&self.context.access, self.owner.namespace());
        let kept = secrets::find_kept(access, self.key()).await?;
        // Also by name: one without its labels is found by no selector.
        let state = access
            .get::<SecretMeta>(
                &secrets::metas(access, namespace),
                &self.suffix.state_secret(0),
            )
            .await?;
        Ok(machines.is_empty()
            && pools.is_empty()
            && kept.state.is_empty()
            && kept.backups.is_empty()
            && state.is_none())
    }

    async fn all_dependents(&self) -> Result<(Vec<String>, Vec<String>), PassError> {
        let machines = self
            .dependents(ApiKind::TerraformMachine, "terraformmachines")
            .await?;
        let pools = self
            .dependents(ApiKind::TerraformMachinePool, "terraformmachinepools")
            .await?;
        Ok((machines, pools))
    }

    /// Machines and pools of the cluster go first (deletion.md §2).
    pub(super) async fn blocked_by_dependents(&mut self) -> Result<Option<End>, PassError> {
        let (machines, pools) = self.all_dependents().await?;
        if machines.is_empty() && pools.is_empty() {
            self.object.set(DeletionBlocked::NotBlocked, self.now);
            return Ok(None);
        }
        let message = format!(
            "{} and {} of the cluster must be deleted first",
            counted("TerraformMachine", &machines),
            counted("TerraformMachinePool", &pools)
        );
        self.object
            .set(DeletionBlocked::DependentsExist.with(message), self.now);
        Ok(Some(gate()))
    }

    /// Names of the objects of a kind with the cluster's label, read live; a kind that is not installed
    /// has none.
    async fn dependents(&self, kind: ApiKind, plural: &str) -> Result<Vec<String>, PassError> {
        if self.cluster_name.is_empty() {
            return Ok(Vec::new());
        }
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(GROUP, VERSION, kind.as_str()),
            plural,
        );
        let selection = ListParams::default().labels(&format!(
            "{}={}",
            labels::CLUSTER_NAME,
            label_value(&self.cluster_name)
        ));
        let found = match self
            .context
            .access
            .list_metadata(self.owner.namespace(), &resource, &selection)
            .await
        {
            Err(error) if error.is_not_found() => Vec::new(),
            found => found?,
        };
        let mut names: Vec<String> = found.into_iter().filter_map(|meta| meta.name).collect();
        names.sort();
        Ok(names)
    }

    /// The object goes and nothing has to be destroyed: everything of ours goes, the finalizer last
    /// (state-secrets.md §7).
    pub(super) async fn drop_finalizer(&mut self) -> Result<End, PassError> {
        if let Some(end) = self.run_lease_is_live().await? {
            return Ok(end);
        }
        let access = &self.context.access;
        secrets::delete_state(access, &self.owner).await?;
        secrets::delete_records(access, &self.owner).await?;
        self.delete_run_state().await?;
        if let Some(end) = self.leave_mirror().await? {
            return Ok(end);
        }
        secrets::release_backups(access, &self.owner).await?;
        Ok(self.let_go("FinalizerRemoved", "nothing was left to destroy".to_owned()))
    }

    /// The object goes and its infrastructure stays, with state, backups and records (deletion.md §6).
    pub(super) async fn retain(&mut self) -> Result<End, PassError> {
        if let Some(end) = self.run_lease_is_live().await? {
            return Ok(end);
        }
        let kept = secrets::retain(&self.context.access, &self.owner).await?;
        let note = self.kept_note(kept);
        self.delete_run_state().await?;
        if let Some(end) = self.leave_mirror().await? {
            return Ok(end);
        }
        Ok(self.let_go("InfrastructureRetained", note))
    }

    fn kept_note(&self, kept: secrets::Retained) -> String {
        format!(
            "kept the infrastructure with {} state, {} backup and {} inputs Secrets, labelled {}={}; a new object of \
             this name adopts them with spec.adoptRetainedState: true",
            kept.state,
            kept.backups,
            kept.records,
            labels::RETAINED_FROM_UID,
            self.object.uid()
        )
    }

    /// The state of an earlier object is in the way: nothing runs, and a deletion lets go at once and
    /// leaves its Secrets as they are (deletion.md §7).
    pub(super) async fn beside_retained_state(&mut self, uid: &str) -> Result<End, PassError> {
        if !self.object.deleting() {
            return Ok(End::Requeue(Some(STATE_REQUEUE)));
        }
        let note = format!("the state retained from the object with uid {uid} stays as it is");
        self.delete_run_state().await?;
        if let Some(end) = self.leave_mirror().await? {
            return Ok(end);
        }
        Ok(self.let_go("FinalizerRemoved", note))
    }

    /// Plan key and leases go: they serve runs only.
    async fn delete_run_state(&self) -> Result<(), PassError> {
        plan_key::delete(&self.context.access, &self.owner).await?;
        self.context.leases.delete_all_of(self.key()).await?;
        Ok(())
    }

    /// The object's share in the mirror of its credentials goes; with the last share, the mirror. Where
    /// others keep writing it, the whole cleanup is repeated.
    async fn leave_mirror(&mut self) -> Result<Option<End>, PassError> {
        let Some(Identity::Cluster(name)) = self.identity() else {
            return Ok(None);
        };
        match mirror::leave(&self.context.access, &self.owner, &name).await? {
            Left::Conflict => return Ok(Some(End::Requeue(Some(seconds(DEFER_REQUEUE))))),
            Left::Deleted => {
                let removed = MirrorEvent::Removed {
                    secret: credentials_mirror(&name),
                    identity: name,
                };
                self.events
                    .push(EventData::normal(removed.reason(), removed.note()));
            }
            Left::NotAUser | Left::Removed => {}
        }
        Ok(None)
    }

    /// The finalizer goes with the pass's patch.
    fn let_go(&mut self, reason: &'static str, note: String) -> End {
        let finalizers = self.object.next.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|finalizer| finalizer != finalizers::CLUSTER);
        self.written.push(EventData::normal(reason, note));
        End::Requeue(None)
    }

    /// Cleanup waits while a Job may still hold the run lease (leases.md §8, finalizer rule).
    pub(super) async fn run_lease_is_live(&self) -> Result<Option<End>, PassError> {
        let lease = self.suffix.run_lease();
        let holder = self
            .context
            .leases
            .live_holder(self.owner.namespace(), &lease)
            .await?;
        Ok(holder.map(|_| End::Requeue(Some(seconds(DEFER_REQUEUE)))))
    }
}

/// "2 TerraformMachines (a, b)", with how many more.
fn counted(kind: &str, names: &[String]) -> String {
    if names.is_empty() {
        return format!("0 {kind}s");
    }
    let shown = names
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} {kind}s ({shown} and {more} more)", names.len()),
        _ => format!("{} {kind}s ({shown})", names.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn dependents_are_counted_and_three_named() {
        let names = |n: usize| (1..=n).map(|i| format!("m{i}")).collect::<Vec<_>>();
        assert_eq!(
            counted("TerraformMachine", &names(0)),
            "0 TerraformMachines"
        );
        assert_eq!(
            counted("TerraformMachine", &names(2)),
            "2 TerraformMachines (m1, m2)"
        );
        assert_eq!(
            counted("TerraformMachine", &names(5)),
            "5 TerraformMachines (m1, m2, m3 and 2 more)"
        );
    }
}
