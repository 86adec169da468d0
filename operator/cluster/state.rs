//! Reading the state and what follows from it: adoption, outputs, the latch (lifecycle.md §10, §11.1).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::PassError;
use super::inputs::endpoint;
use super::pass::Pass;
use crate::api::conditions::{
    self, InfrastructureHealthy, OutputsValid, State as _, StateReadable, Verdict,
};
use crate::api::keys::{annotations, labels};
use crate::api::{ApiEndpoint, Initialization};
use crate::decide::{Life, StateView};
use crate::events::EventData;
use crate::inputs::{EndpointSource, endpoint_available, endpoint_write_back};
use crate::jobs::history::History;
use crate::names::{InputsHash, JobName};
use crate::operator::secrets::records::{Interruption, Marks, Record};
use crate::operator::secrets::{self, adopt_retained};
use crate::operator::state::{self as state_ops, JudgedLock, Observed};
use crate::outputs::{
    ClusterOutputs, endpoint_verdict, health_verdict, is_provisioned, outputs_verdict,
};
use crate::state::State;
use crate::unknown_outcome;

/// The state as a pass saw it.
#[derive(Debug)]
pub(super) struct StateRead {
    /// For the decision.
    pub(super) view: StateView,
    /// A state Secret exists.
    pub(super) exists: bool,
    /// Metadata of the state Secrets as read, the base first; empty once they were written since.
    pub(super) chunks: Vec<ObjectMeta>,
    /// The state lock, when somebody holds it.
    pub(super) lock: Option<JudgedLock>,
    /// What was found of an earlier object's Retain; then nothing else of this says anything.
    pub(super) retained: Option<Retained>,
}

/// State that an earlier object of the same name left behind.
#[derive(Debug)]
pub(super) enum Retained {
    /// It is this object's from now on; the next pass reads it.
    Adopted,
    /// It is not this object's to use.
    Foreign {
        /// Uid of the earlier object.
        uid: String,
    },
}

impl StateRead {
    fn new(view: StateView, exists: bool) -> Self {
        Self {
            view,
            exists,
            chunks: Vec::new(),
            lock: None,
            retained: None,
        }
    }

    fn retained(retained: Retained) -> Self {
        Self {
            retained: Some(retained),
            ..Self::new(StateView::Held, true)
        }
    }
}

impl Pass<'_> {
    /// Reads the state, adopts it after a successful apply, and reports what it holds.
    pub(super) async fn read_state(
        &mut self,
        history: &History<'_>,
    ) -> Result<StateRead, PassError> {
        let context = self.context;
        let Observed { read, labels } = state_ops::observe(
            &context.access,
            &context.states,
            &self.owner,
            &self.cluster_name,
        )
        .await?;
        if let Some(note) = &labels.repaired {
            self.events
                .push(EventData::warning("StateLabelsRepaired", note.clone()));
        }
        if let Some(verdict) = labels.refused {
            self.object.set(verdict, self.now);
            return Ok(StateRead::new(StateView::Held, true));
        }
        if let Some(retained) = self.retained(&read).await? {
            return Ok(retained);
        }
        match read {
            state_ops::StateRead::None => self.without_state().await,
            state_ops::StateRead::Unreadable(problem) => {
                self.object.set(problem.verdict(), self.now);
                Ok(StateRead::new(StateView::Held, true))
            }
            state_ops::StateRead::State(state) => self.with_state(state, history).await,
        }
    }

    /// State or records that an earlier object of this name left behind with Retain: nothing of them is
    /// used until the object says `spec.adoptRetainedState`, and a deletion leaves them as they are
    /// (deletion.md §7). Labels with the object's own uid are those of a Retain that was withdrawn.
    async fn retained(
        &mut self,
        read: &state_ops::StateRead,
    ) -> Result<Option<StateRead>, PassError> {
        let Some(uid) = self.retained_from(read).await? else {
            return Ok(None);
        };
        let own = uid == self.owner.uid && self.life() != Life::Retaining;
        let adopts = self.object.next.spec.workspace.adopt_retained_state == Some(true);
        if own || adopts {
            let count = adopt_retained(&self.context.access, &self.owner).await?;
            if !own {
                let note =
                    format!("took over {count} Secrets that the object with uid {uid} left behind");
                self.events
                    .push(EventData::normal("RetainedStateAdopted", note));
            }
            return Ok(Some(StateRead::retained(Retained::Adopted)));
        }
        if self.life() == Life::Retaining && uid == self.owner.uid {
            return Ok(None);
        }
        self.object.set(
            StateReadable::RetainedStateFound.with(format!(
                "an earlier object of this name with uid {uid} left its state behind: set \
                 spec.adoptRetainedState: true to take it over, or delete the Secrets labelled {}={uid}",
                labels::RETAINED_FROM_UID
            )),
            self.now,
        );
        Ok(Some(StateRead::retained(Retained::Foreign { uid })))
    }

    /// The uid on any Secret that Retain kept. Where the state itself does not show one, the Secrets are
    /// looked for one by one: a label on any of them counts (deletion.md §7).
    async fn retained_from(
        &mut self,
        read: &state_ops::StateRead,
    ) -> Result<Option<String>, PassError> {
        let access = &self.context.access;
        let found = match read {
            state_ops::StateRead::State(state) => state.chunks.clone(),
            state_ops::StateRead::None => {
                self.backups = secrets::list_backups(access, self.key()).await?;
                self.backups.clone()
            }
            state_ops::StateRead::Unreadable(_) => {
                let kept = secrets::find_kept(access, self.key()).await?;
                kept.iter().cloned().collect()
            }
        };
        let records = [&self.records.attempt, &self.records.applied];
        let mut kept = records
            .into_iter()
            .flatten()
            .map(Record::meta)
            .chain(&found);
        Ok(kept.find_map(secrets::retained_from).map(str::to_owned))
    }

    /// Status or records prove that an apply succeeded once; backups may, too (deletion.md §4).
    pub(super) fn is_known_to_have_applied(&self) -> bool {
        self.object.reported().is_provisioned() || self.records.prove_an_apply()
    }

    /// No state Secret: never applied, lost, or nobody knows (state-secrets.md §7).
    async fn without_state(&mut self) -> Result<StateRead, PassError> {
        let held = if self.is_known_to_have_applied() || !self.backups.is_empty() {
            Some(StateReadable::StateLost.with(
                "the object applied before and its state Secret is gone: put the Secret back from a copy, or set \
                 spec.deletionPolicy: Retain to let the object go",
            ))
        } else {
            self.unknown_outcome().await?
        };
        if let Some(verdict) = held {
            self.object.set(verdict, self.now);
            return Ok(StateRead::new(StateView::Held, false));
        }
        self.object.set(StateReadable::StateNotFound, self.now);
        self.set_if_absent(OutputsValid::OutputsPending.plain());
        self.set_if_absent(InfrastructureHealthy::WaitingForProvisioning.plain());
        Ok(StateRead::new(StateView::Absent, false))
    }

    /// An apply whose outcome nobody knows holds the object while no state exists, until a person says
    /// that it left no resources (jobs.md §8.3).
    async fn unknown_outcome(&mut self) -> Result<Option<Verdict>, PassError> {
        let Some(job) = self.records.interrupted_apply() else {
            return Ok(None);
        };
        match self.object.annotation(annotations::CONFIRM_NO_RESOURCES) {
            Some(confirmed) if confirmed.trim() == job.as_str() => {
                self.consume_confirmation().await?;
                return Ok(None);
            }
            Some(other) => tracing::info!(
                confirmed = other,
                unconfirmed = job.as_str(),
                "the confirmation names another Job than the one in doubt, and is ignored"
            ),
            None => {}
        }
        let message = unknown_outcome::message(job.as_str(), self.object.deleting());
        Ok(Some(StateReadable::ApplyOutcomeUnknown.with(message)))
    }

    /// Takes the confirmation and then the record it settles away. Cut between the two, a person is asked
    /// again: names of Jobs repeat, so a confirmation that is left behind could settle a later doubt.
    async fn consume_confirmation(&mut self) -> Result<(), PassError> {
        let gone = serde_json::json!({"annotations": {annotations::CONFIRM_NO_RESOURCES: null}});
        self.object
            .annotate(annotations::CONFIRM_NO_RESOURCES, None);
        self.object.write_now(&self.context.access, gone).await?;
        let marks = Marks {
            interruption: Some(Interruption::Clear),
            may_have_applied: Some(false),
            ..Marks::default()
        };
        self.mark(&marks).await
    }

    async fn with_state(
        &mut self,
        state: Arc<State>,
        history: &History<'_>,
    ) -> Result<StateRead, PassError> {
        self.object.set(StateReadable::StateRead, self.now);
        self.object.workspace().observed_state_serial = i64::try_from(state.serial)
            .ok()
            .filter(|serial| *serial > 0);
        self.context.metrics.state_read(
            self.key(),
            state.managed_resources,
            state.compressed_bytes,
        );
        let state = self.adopt(state, history).await?;
        let applied = !state.inputs_hash.is_empty();
        if applied {
            self.mark_applied().await?;
        }
        self.report_outputs(&state);
        let pending = conditions::is(
            &self.object.reported().conditions,
            InfrastructureHealthy::InstancePending,
        );
        let view = StateView::Present {
            inputs_hash: state.inputs_hash.clone(),
            pending,
        };
        Ok(StateRead {
            chunks: state.chunks.clone(),
            ..StateRead::new(view, true)
        })
    }

    /// After a successful apply the state carries the hash of its inputs and belongs to the object
    /// (state-secrets.md §6).
    async fn adopt(
        &mut self,
        state: Arc<State>,
        history: &History<'_>,
    ) -> Result<Arc<State>, PassError> {
        let access = &self.context.access;
        let hash = history
            .adoption_source()
            .and_then(|source| source.job.annotation(annotations::INPUTS_HASH));
        if let Some(hash) = hash.filter(|hash| *hash != state.inputs_hash.as_str()) {
            let hash = InputsHash::new(hash);
            if state_ops::adopt(access, &self.owner, &state.chunks, &hash).await? {
                let note = format!(
                    "adopted the state of serial {} with the inputs {hash}",
                    state.serial
                );
                self.events.push(EventData::normal("StateAdopted", note));
            }
            let mut adopted = State::clone(&state);
            adopted.inputs_hash = hash;
            // Written just now: they are as they should be, and not as they were read.
            adopted.chunks.clear();
            return Ok(Arc::new(adopted));
        }
        Ok(state)
    }

    /// Remembers that an apply succeeded once: a state that is missing later is lost then.
    async fn mark_applied(&mut self) -> Result<(), PassError> {
        let marks = Marks {
            applied: true,
            ..Marks::default()
        };
        self.mark(&marks).await
    }

    /// Outputs onto spec and status, health, and the latch `provisioned` (lifecycle.md §10, §11.1).
    fn report_outputs(&mut self, state: &State) {
        let provisioned = self.object.reported().is_provisioned();
        let applied = !state.inputs_hash.is_empty() || provisioned;
        let outputs = ClusterOutputs::read(&state.outputs, applied);
        self.object
            .set(outputs_verdict(&outputs.problems()), self.now);
        if !applied {
            return;
        }
        self.report_endpoint(&outputs);
        self.report_failure_domains(&outputs);
        let becomes_provisioned = !provisioned && is_provisioned(state, &outputs);
        self.report_exports(&outputs, becomes_provisioned);
        self.object.set(health_verdict(&outputs.health), self.now);
        if becomes_provisioned {
            self.object.workspace().initialization = Some(Initialization {
                provisioned: Some(true),
            });
            self.written.push(EventData::normal(
                "Provisioned",
                "the infrastructure is provisioned",
            ));
        }
        let own = endpoint(self.object.next.spec.control_plane_endpoint.as_ref());
        let cluster = self
            .cluster
            .as_ref()
            .and_then(|cluster| endpoint(Some(&cluster.spec.control_plane_endpoint)));
        let available = endpoint_available(own.as_ref(), outputs.endpoint(), cluster.as_ref());
        if let Some(verdict) = endpoint_verdict(available, self.object.reported().is_provisioned())
        {
            self.object.set(verdict, self.now);
        }
    }

    /// The module's endpoint goes to the spec once, when nobody else owns it (inputs.md I-3).
    fn report_endpoint(&mut self, outputs: &ClusterOutputs) {
        let own = endpoint(self.object.next.spec.control_plane_endpoint.as_ref());
        let source =
            EndpointSource::from_annotation(self.object.annotation(annotations::ENDPOINT_SOURCE));
        let rendered_null = self
            .recorded_inputs()
            .is_some_and(|recorded| recorded.endpoint_was_null);
        let Some(found) =
            endpoint_write_back(source, rendered_null, outputs.endpoint(), own.as_ref())
        else {
            return;
        };
        self.object.next.spec.control_plane_endpoint = Some(ApiEndpoint {
            host: Some(found.host.clone()),
            port: Some(found.port),
        });
        self.object.annotate(
            annotations::ENDPOINT_SOURCE,
            EndpointSource::Module.as_annotation(),
        );
        let note = format!(
            "the control plane endpoint is {}:{}",
            found.host, found.port
        );
        self.written
            .push(EventData::normal("ControlPlaneEndpointSet", note));
    }

    fn report_failure_domains(&mut self, outputs: &ClusterOutputs) {
        let Ok(domains) = &outputs.failure_domains else {
            return;
        };
        if self.object.status().failure_domains != *domains {
            self.object.status().failure_domains = domains.clone();
            let names: Vec<&str> = domains.iter().map(|domain| domain.name.as_str()).collect();
            let note = format!("the failure domains are now: {}", names.join(", "));
            self.written
                .push(EventData::normal("FailureDomainsChanged", note));
        }
    }

    /// The warning is told once per transition: the field held a value, or the outputs are new.
    fn report_exports(&mut self, outputs: &ClusterOutputs, becomes_provisioned: bool) {
        let generation = self.object.meta().generation;
        let fresh = becomes_provisioned || generation != self.object.reported().observed_generation;
        match outputs.exports.published() {
            Ok(published) => self.object.status().exports = Some(published),
            Err(error) => {
                if self.object.status().exports.take().is_some() || fresh {
                    self.written
                        .push(EventData::warning("ExportsNotPublished", error.to_string()));
                }
            }
        }
    }

    fn set_if_absent(&mut self, verdict: Verdict) {
        if conditions::get(&self.object.reported().conditions, verdict.condition()).is_none() {
            self.object.set(verdict, self.now);
        }
    }

    /// The state lock (decision 13): somebody else's is reported and waited for; a stale one of ours is
    /// opened by the next Job.
    pub(super) async fn judge_lock(&mut self, state: &mut StateRead) -> Result<(), PassError> {
        let context = self.context;
        let deadline = self
            .object
            .next
            .spec
            .workspace
            .jobs
            .as_ref()
            .and_then(|jobs| jobs.active_deadline_seconds);
        let deadline = Duration::from_secs(
            deadline
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or(3600),
        );
        let ended = |pod: &str| {
            let seen = context
                .caches
                .last_seen_pod_named(self.owner.namespace(), pod);
            seen.is_some_and(|pod| pod.phase.is_terminal())
        };
        let lock = state_ops::judge_lock(&context.access, &self.owner, deadline, &ended).await?;
        let Some(lock) = lock else { return Ok(()) };
        if let Some(verdict) = lock.report()
            && state.view != StateView::Held
        {
            self.object.set(verdict, self.now);
        }
        state.lock = Some(lock);
        Ok(())
    }

    /// The id that the Job about to start unlocks with. Without a state no Job could: then a stale lock
    /// is taken away here, before the Job.
    pub(super) async fn force_unlock(
        &mut self,
        state: &StateRead,
        job: &JobName,
    ) -> Result<Option<String>, PassError> {
        let Some(lock) = &state.lock else {
            return Ok(None);
        };
        if state.exists {
            return Ok(lock.force_unlock_id().map(str::to_owned));
        }
        if state_ops::delete_stale_lock(&self.context.access, &self.owner, lock).await? {
            let note = format!(
                "removed a stale state lock before Job {job}: its holder ended, and without a state no Job could \
                 unlock it"
            );
            self.events.push(EventData::warning("ForceUnlocked", note));
        }
        Ok(None)
    }
}
