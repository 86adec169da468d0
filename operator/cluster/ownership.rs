//! Owner references and protection of the object's Secrets (state-secrets.md S-24, §5.3; capi.md §3).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PassError;
use super::pass::Pass;
use super::state::StateRead;
use crate::client::ApiError;
use crate::decide::Life;
use crate::events::EventData;
use crate::operator::secrets::records::Record;
use crate::operator::secrets::{self, SecretMeta, metas, plan_key};
use crate::operator::state::{Guarding, repair, wants_repair};

/// How many Secrets of each group were repaired, in the order of the event's note, and what failed.
#[derive(Debug, Default)]
struct Repairs {
    state: usize,
    backups: usize,
    inputs: usize,
    plan_key: usize,
    failed: Vec<ApiError>,
}

impl Repairs {
    /// 1 for a Secret that was written; a failure is kept, and the others are gone on with.
    fn count(&mut self, wrote: Result<bool, ApiError>) -> usize {
        match wrote {
            Ok(wrote) => usize::from(wrote),
            Err(error) => {
                self.failed.push(error);
                0
            }
        }
    }

    fn any(&self) -> bool {
        self.state + self.backups + self.inputs + self.plan_key > 0
    }
}

impl Pass<'_> {
    /// Secrets that lost their owner reference, carry one to an earlier uid of the object, or lost their
    /// protection are put right: after a restore of the management cluster, an adoption of retained
    /// state, a Retain that was withdrawn. A failure is logged and never fails the pass.
    pub(super) async fn repair_ownership(&mut self, state: &mut StateRead) {
        if self.life() == Life::Retaining {
            return;
        }
        let mut repairs = Repairs::default();
        if let Err(error) = self.try_repair(state, &mut repairs).await {
            tracing::warn!(error = %error, "the owner references of Secrets could not be repaired");
        }
        for error in &repairs.failed {
            tracing::warn!(error = %error, "the owner reference of a Secret could not be repaired");
        }
        if repairs.any() {
            let note = format!(
                "put owner reference and protection back on {} state, {} backup, {} inputs and {} plan key Secrets",
                repairs.state, repairs.backups, repairs.inputs, repairs.plan_key
            );
            self.events
                .push(EventData::normal("OwnerReferencesRepaired", note));
        }
    }

    /// Only state and records, which are at hand, say whether anything needs it, so that a pass reads no
    /// more than it must. They are written last: cut short, the next pass still sees the need.
    async fn try_repair(
        &mut self,
        state: &mut StateRead,
        repairs: &mut Repairs,
    ) -> Result<(), PassError> {
        let records = [&self.records.attempt, &self.records.applied];
        let records: Vec<ObjectMeta> = records
            .into_iter()
            .flatten()
            .map(Record::meta)
            .cloned()
            .collect();
        let chunks = std::mem::take(&mut state.chunks);
        let guarding = |index: usize| match index {
            0 => Guarding::OwnerAndProtection,
            // Terraform deletes surplus chunks itself.
            _ => Guarding::Owner,
        };
        let of_state = chunks
            .iter()
            .enumerate()
            .any(|(index, chunk)| wants_repair(&self.owner, chunk, guarding(index)));
        let of_records = records
            .iter()
            .any(|record| wants_repair(&self.owner, record, Guarding::OwnerAndProtection));
        if !of_state && !of_records {
            return Ok(());
        }
        let access = self.context.access.clone();
        for backup in secrets::list_backups(&access, self.key()).await? {
            let wrote = repair(&access, &self.owner, &backup, Guarding::OwnerAndProtection).await;
            repairs.backups += repairs.count(wrote);
        }
        let key = plan_key::name(&self.owner);
        let key: Option<SecretMeta> = access
            .get(&metas(&access, self.owner.namespace()), &key)
            .await?;
        if let Some(key) = key {
            let wrote = repair(&access, &self.owner, &key.metadata, Guarding::Owner).await;
            repairs.plan_key += repairs.count(wrote);
        }
        // A Job that holds the run lease may write its state right now (S-25).
        if of_state && self.run_lease_is_live().await?.is_none() {
            for (index, chunk) in chunks.iter().enumerate().rev() {
                let wrote = repair(&access, &self.owner, chunk, guarding(index)).await;
                repairs.state += repairs.count(wrote);
            }
        }
        for record in &records {
            let wrote = repair(&access, &self.owner, record, Guarding::OwnerAndProtection).await;
            repairs.inputs += repairs.count(wrote);
        }
        if repairs.inputs > 0 {
            self.reread_records().await?;
        }
        Ok(())
    }
}
