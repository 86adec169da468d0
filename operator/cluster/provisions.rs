//! What a Job needs before it can be started: credentials, the runner's account, inputs (lifecycle.md §8
//! steps 9 and 12).

use std::collections::BTreeSet;

use super::pass::Pass;
use super::{PassError, inputs};
use crate::api::JobPolicy;
use crate::api::conditions::{DependenciesReady, State as _, Status, Verdict};
use crate::api::keys::annotations;
use crate::events::EventData;
use crate::inputs::{RecordedClusterInputs, SourceChange};
use crate::jobs::policy::DEFAULT_SERVICE_ACCOUNT;
use crate::operator::credentials::{self, Identity};
use crate::operator::runner_rbac;
use crate::operator::secrets::records::Record;
use crate::operator::secrets::variables;

/// The credentials of a pass, ready to be mounted.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    /// Name of the Secret.
    pub(super) secret: String,
}

impl Pass<'_> {
    /// The identity whose credentials Jobs use.
    pub(super) fn identity(&self) -> Option<Identity> {
        Identity::effective([self.object.next.spec.workspace.identity_ref.as_ref()])
    }

    /// Identity, mirror and runner RBAC (lifecycle.md §8 step 9). A failed request makes them not ready
    /// and is returned after the status patch, so that it never stops bookkeeping.
    pub(super) async fn prepare_credentials(&mut self) -> Option<Credentials> {
        let access = &self.context.access;
        let prepared = credentials::prepare(access, &self.owner, self.identity().as_ref()).await;
        self.object.set(prepared.identity_allowed.clone(), self.now);
        self.object
            .set(prepared.credentials_mirrored.clone(), self.now);
        self.events.extend(
            prepared
                .events
                .iter()
                .map(|event| EventData::normal(event.reason(), event.note())),
        );
        self.late_error = prepared
            .error
            .map(PassError::from)
            .or(self.late_error.take());
        let secret = prepared.mount?;
        let account = self
            .policy()
            .service_account_name
            .unwrap_or_else(|| DEFAULT_SERVICE_ACCOUNT.to_owned());
        let in_use: BTreeSet<String> = self.context.caches.runner_accounts(self.owner.namespace());
        let rbac = runner_rbac::prepare(access, self.owner.namespace(), &account, &in_use).await;
        let ready = rbac.condition.status() == Status::True;
        self.object.set(rbac.condition, self.now);
        self.late_error = rbac.error.map(PassError::from).or(self.late_error.take());
        ready.then_some(Credentials { secret })
    }

    pub(super) fn policy(&self) -> JobPolicy {
        self.object
            .next
            .spec
            .workspace
            .jobs
            .clone()
            .unwrap_or_default()
    }

    /// Builds the current inputs and reports the gate; `None` while a gate is closed.
    pub(super) async fn build_inputs(&mut self) -> Result<Option<inputs::Built>, PassError> {
        match self.try_build_inputs().await? {
            Ok(built) => {
                self.rendered = built.bytes();
                let change = match built.endpoint_source {
                    SourceChange::Keep => None,
                    SourceChange::RecordUser => Some(Some("user")),
                    SourceChange::Remove => Some(None),
                };
                if let Some(value) = change {
                    self.object.annotate(annotations::ENDPOINT_SOURCE, value);
                }
                self.object
                    .set(DependenciesReady::DependenciesReady, self.now);
                Ok(Some(built))
            }
            Err(gate) => {
                self.object.set(gate, self.now);
                Ok(None)
            }
        }
    }

    /// Builds the current inputs without reporting anything.
    pub(super) async fn try_build_inputs(
        &self,
    ) -> Result<Result<inputs::Built, Verdict>, PassError> {
        let Some(cluster) = &self.cluster else {
            return Ok(Err(DependenciesReady::OwnerNotFound.with(format!(
                "the Cluster {} that owns this object does not exist",
                self.cluster_name
            ))));
        };
        let entries = &self.object.next.spec.workspace.variables_from;
        let sources =
            variables::read(&self.context.access, self.owner.namespace(), entries).await?;
        Ok(
            inputs::build(&self.object, cluster, self.recorded_inputs(), &sources)
                .map_err(|error| error.verdict()),
        )
    }

    /// What the newest apply was given; `None` before the first one.
    pub(super) fn recorded_inputs(&self) -> Option<RecordedClusterInputs> {
        let records = [&self.records.attempt, &self.records.applied];
        let mut recorded = records.into_iter().flatten().peekable();
        recorded.peek()?;
        // A record may hold marks alone.
        let files = recorded.find_map(Record::files);
        Some(files.map_or_else(RecordedClusterInputs::default, |files| {
            RecordedClusterInputs::read(files.tfvars.as_bytes())
        }))
    }
}
