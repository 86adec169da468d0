//! The object of a pass: as it was read, and as the pass wants it to be.
//!
//! Writes go out in at most two requests at the end of a pass, metadata and spec first, then the
//! status with the resourceVersion that the first one returned (lifecycle.md §5); an unchanged part
//! sends nothing. The few writes that must come earlier go through [`Working::write_now`].

use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::core::{ObjectMeta, ResourceExt as _};
use serde_json::{Value, json};

use crate::api::conditions::{self, Verdict};
use crate::api::keys::finalizers;
use crate::api::{TerraformCluster, TerraformClusterStatus, WorkspaceStatus};
use crate::client::{Access, ApiError, merge_diff};
use crate::names::{Kind, ObjectKey};
use crate::operator::cache::Caches;

/// A TerraformCluster under work.
#[derive(Debug, Clone)]
pub(super) struct Working {
    /// As the API server has it, as far as this pass knows.
    stored: TerraformCluster,
    /// As this pass wants it.
    pub(super) next: TerraformCluster,
}

impl Working {
    /// Starts from the object as read.
    #[must_use]
    pub(super) fn new(read: TerraformCluster) -> Self {
        let mut next = read.clone();
        next.status.get_or_insert_default();
        Self { stored: read, next }
    }

    /// Kind, namespace and name.
    #[must_use]
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new(
            Kind::TerraformCluster,
            self.next.namespace().unwrap_or_default(),
            self.next.name_any(),
        )
    }

    /// The uid.
    #[must_use]
    pub(super) fn uid(&self) -> &str {
        self.next.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Metadata as this pass wants it.
    #[must_use]
    pub(super) fn meta(&self) -> &ObjectMeta {
        &self.next.metadata
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub(super) fn deleting(&self) -> bool {
        self.next.metadata.deletion_timestamp.is_some()
    }

    /// The status under work.
    pub(super) fn status(&mut self) -> &mut TerraformClusterStatus {
        self.next.status.get_or_insert_default()
    }

    /// The part of the status that every kind has.
    pub(super) fn workspace(&mut self) -> &mut WorkspaceStatus {
        &mut self.status().workspace
    }

    /// The part of the status that every kind has, to read.
    #[must_use]
    pub(super) fn reported(&self) -> &WorkspaceStatus {
        static EMPTY: std::sync::LazyLock<WorkspaceStatus> =
            std::sync::LazyLock::new(WorkspaceStatus::default);
        self.next
            .status
            .as_ref()
            .map_or(&EMPTY, |status| &status.workspace)
    }

    /// Records a condition.
    pub(super) fn set(&mut self, verdict: impl Into<Verdict>, now: Timestamp) {
        let generation = self.next.metadata.generation.unwrap_or_default();
        conditions::set(&mut self.workspace().conditions, verdict, generation, now);
    }

    /// An annotation as this pass wants it.
    #[must_use]
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.next
            .metadata
            .annotations
            .as_ref()?
            .get(key)
            .map(String::as_str)
    }

    /// Sets or removes an annotation, written at the end of the pass.
    pub(super) fn annotate(&mut self, key: &str, value: Option<&str>) {
        let annotations = self.next.metadata.annotations.get_or_insert_default();
        match value {
            Some(value) => annotations.insert(key.to_owned(), value.to_owned()),
            None => annotations.remove(key),
        };
    }

    /// Patches metadata now, under the resourceVersion known; the end of the pass builds on the answer.
    ///
    /// # Errors
    /// A conflict when somebody wrote the object since it was read.
    pub(super) async fn write_now(
        &mut self,
        access: &Access,
        metadata: Value,
    ) -> Result<(), ApiError> {
        let api = self.api(access);
        let mut patch = json!({"metadata": metadata});
        patch["metadata"]["resourceVersion"] = json!(self.stored.resource_version());
        let written: TerraformCluster = access.patch(&api, &self.next.name_any(), &patch).await?;
        self.rebase(written);
        Ok(())
    }

    /// Patches `status.activeJob` away now when it names `job` on the API server: a Job that is deleted
    /// because no pod of it could start did not vanish (jobs.md §8.3). It is read live, since another
    /// manager may have reported the Job after this pass read the object.
    ///
    /// # Errors
    /// A failed request, or a conflict when somebody writes the object at the same time; the Job must
    /// not be deleted then.
    pub(super) async fn release_active_job(
        &mut self,
        access: &Access,
        job: &str,
    ) -> Result<(), ApiError> {
        let api = self.api(access);
        let name = self.next.name_any();
        if names_job(self.next.status.as_ref(), job) {
            self.workspace().active_job = None;
        }
        let Some(live) = access.get(&api, &name).await? else {
            return Ok(());
        };
        if !names_job(live.status.as_ref(), job) {
            return Ok(());
        }
        let version = live.resource_version();
        let patch =
            json!({"metadata": {"resourceVersion": version}, "status": {"activeJob": null}});
        let written: TerraformCluster = access.patch_status(&api, &name, &patch).await?;
        // Over what somebody else wrote, the end of this pass must not write what it read before.
        if version == self.stored.resource_version() {
            self.rebase(written);
        }
        Ok(())
    }

    /// Writes what changed: metadata and spec, then status. An object that is gone meanwhile needs
    /// neither (lifecycle.md §5): `false`, and nothing of the pass is to be told.
    ///
    /// # Errors
    /// A conflict when somebody wrote the object since it was read; then nothing of the failed part
    /// is written.
    pub(super) async fn save(&mut self, access: &Access) -> Result<bool, ApiError> {
        match self.write(access).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write(&mut self, access: &Access) -> Result<(), ApiError> {
        let api = self.api(access);
        let name = self.next.name_any();
        if let Some(mut patch) = merge_diff(&main_part(&self.stored), &main_part(&self.next)) {
            patch["metadata"]["resourceVersion"] = json!(self.stored.resource_version());
            let had = self.has_our_finalizer();
            let written: TerraformCluster = access.patch(&api, &name, &patch).await?;
            self.rebase(written);
            if had && !self.has_our_finalizer() {
                tracing::info!("removed the finalizer");
            }
        }
        self.keep_transition_times();
        let status = merge_diff(&status_part(&self.stored), &status_part(&self.next));
        if let Some(status) = status.filter(|_| !self.gone()) {
            let patch = json!({"metadata": {"resourceVersion": self.stored.resource_version()}, "status": status});
            let written: TerraformCluster = access.patch_status(&api, &name, &patch).await?;
            self.rebase(written);
        }
        Ok(())
    }

    /// Tells the cache what the object's newest version is, as far as this pass knows.
    pub(super) fn note_writes(&self, caches: &Caches) {
        if let Some(version) = &self.stored.metadata.resource_version {
            caches.wrote(&self.key(), version);
        }
    }

    fn keep_transition_times(&mut self) {
        let stored = self.stored.status.as_ref();
        let before = stored.map_or(&[][..], |status| &status.workspace.conditions);
        if let Some(status) = &mut self.next.status {
            conditions::keep_transition_times(&mut status.workspace.conditions, before);
        }
    }

    fn has_our_finalizer(&self) -> bool {
        self.stored
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == finalizers::CLUSTER)
    }

    /// The last finalizer of a deleting object was taken off: the API server has let it go.
    #[must_use]
    pub(super) fn gone(&self) -> bool {
        self.deleting() && self.stored.finalizers().is_empty()
    }

    /// Goes on from what the API server answered: its metadata with our pending changes, our spec and
    /// status.
    fn rebase(&mut self, written: TerraformCluster) {
        let annotations = self.next.metadata.annotations.take();
        let wanted = merge_diff(
            &json!(self.stored.metadata.annotations),
            &json!(annotations),
        );
        let finalizers = self.next.metadata.finalizers.take();
        let finalizers = (finalizers != self.stored.metadata.finalizers).then_some(finalizers);
        self.next.metadata = written.metadata.clone();
        self.stored = written;
        if let Some(finalizers) = finalizers {
            self.next.metadata.finalizers = finalizers;
        }
        for (key, value) in wanted.iter().filter_map(Value::as_object).flatten() {
            self.annotate(key, value.as_str());
        }
    }

    fn api(&self, access: &Access) -> Api<TerraformCluster> {
        access.api(&self.next.namespace().unwrap_or_default())
    }
}

fn names_job(status: Option<&TerraformClusterStatus>, job: &str) -> bool {
    let active = status.and_then(|status| status.workspace.active_job.as_ref());
    active.is_some_and(|active| active.name == job)
}

fn main_part(object: &TerraformCluster) -> Value {
    json!({
        "metadata": {
            "annotations": object.metadata.annotations.clone().unwrap_or_default(),
            "finalizers": object.metadata.finalizers.clone().unwrap_or_default(),
        },
        "spec": object.spec,
    })
}

fn status_part(object: &TerraformCluster) -> Value {
    object
        .status
        .as_ref()
        .map_or_else(|| json!({}), |status| json!(status))
}
