//! The object's part in a start: block-move, pause, `status.activeJob`.

use k8s_openapi::jiff::Timestamp;
use kube::core::PartialObjectMeta;
use serde_json::json;

use super::object::Working;
use super::pass::Pass;
use crate::api::TerraformCluster;
use crate::api::keys::annotations;
use crate::client::{Access, ApiError};
use crate::jobs::moved::{self, BlockMove};
use crate::names::JobName;
use crate::operator::start::Startable;
use crate::owner;

impl Pass<'_> {
    /// The value of block-move: whose Job it is and until when it can matter (decision 16).
    pub(super) fn block_move_until(&self, until: Timestamp) -> String {
        block_move_value(&self.owner.uid, until)
    }

    /// Until when a Job may run where the object was moved from (decision 16).
    pub(super) fn moved_job(&self) -> Option<Timestamp> {
        let mark = self.object.annotation(annotations::BLOCK_MOVE);
        moved::moved_job(mark, self.object.uid(), self.now)
    }
}

fn block_move_value(uid: &str, until: Timestamp) -> String {
    let uid = uid.to_owned();
    BlockMove { uid, until }.to_string()
}

/// The object's part in a start.
pub(super) struct Hand<'a> {
    pub(super) access: &'a Access,
    pub(super) object: Working,
}

impl Startable for Hand<'_> {
    async fn block_move(&mut self, until: Timestamp) -> Result<bool, ApiError> {
        let value = block_move_value(self.object.uid(), until);
        let metadata = json!({"annotations": {annotations::BLOCK_MOVE: value}});
        self.object.annotate(annotations::BLOCK_MOVE, Some(&value));
        self.object.write_now(self.access, metadata).await?;
        Ok(owner::paused(self.object.meta(), false).is_some())
    }

    async fn unblock_move(&mut self) -> Result<(), ApiError> {
        self.object.annotate(annotations::BLOCK_MOVE, None);
        self.object
            .write_now(
                self.access,
                json!({"annotations": {annotations::BLOCK_MOVE: null}}),
            )
            .await
    }

    async fn paused(&self) -> Result<bool, ApiError> {
        let api = self
            .access
            .api::<PartialObjectMeta<TerraformCluster>>(&self.object.key().namespace);
        let live = self.access.get(&api, &self.object.key().name).await?;
        Ok(live.is_some_and(|live| owner::paused(&live.metadata, false).is_some()))
    }

    async fn clear_active_job(&mut self, job: &JobName) -> Result<(), ApiError> {
        self.object
            .release_active_job(self.access, job.as_str())
            .await
    }
}
