//! The order of a pass (jobs.md §2; lifecycle.md §7, §8). The order binds; each step has a file.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::object::Working;
use super::preamble::Ownership;
use super::state::{Retained, StateRead};
use super::{PassError, Requeue, measure, status};
use crate::api::SourceStatus;
use crate::api::capi::Cluster;
use crate::api::conditions::{self, Deleting, State as _};
use crate::decide::{self, Action};
use crate::events::EventData;
use crate::jobs::history::History;
use crate::jobs::report::is_wait;
use crate::lease::{DEFER_REQUEUE, WAIT_REQUEUE};
use crate::names::{Kind, ObjectKey, Suffix};
use crate::operator::bookkeeping::{self, JobsRead};
use crate::operator::context::Context;
use crate::operator::secrets::Owner;
use crate::operator::secrets::records::{self, Marks, Records};
use crate::owner;

/// A pass over one TerraformCluster.
pub(super) struct Pass<'a> {
    pub(super) context: &'a Context,
    pub(super) object: Working,
    pub(super) owner: Owner,
    pub(super) suffix: Suffix,
    /// The owning Cluster; none when it does not exist, or while deleting.
    pub(super) cluster: Option<Cluster>,
    /// Name of the Cluster, empty when unknown.
    pub(super) cluster_name: String,
    pub(super) paused: Option<&'static str>,
    pub(super) now: Timestamp,
    /// The inputs records, once [`Pass::read_records`] read them.
    pub(super) records: Records,
    records_read: bool,
    /// The object's state backups, listed when there is no state.
    pub(super) backups: Vec<ObjectMeta>,
    /// Bytes of the inputs rendered in this pass, also of too large ones.
    pub(super) rendered: Option<usize>,
    /// Events about what was done already: they are told however the pass ends.
    pub(super) events: Vec<EventData>,
    /// Events about what the pass's patch writes: they are told once it succeeded.
    pub(super) written: Vec<EventData>,
    /// Conditions before the preamble.
    before: Vec<Condition>,
    /// `InputsApplied` was computed in this pass.
    pub(super) inputs_reported: bool,
    /// Bookkeeping went through: the finished Jobs may be marked once the status patch succeeded.
    bookkept: bool,
    /// An error that must not keep the results of this pass from being recorded.
    pub(super) late_error: Option<PassError>,
}

/// How a pass ends.
pub(super) enum End {
    /// Come back after this time, or only on an event.
    Requeue(Option<SignedDuration>),
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        context: &'a Context,
        object: Working,
        ownership: Ownership,
        before: Vec<Condition>,
        now: Timestamp,
    ) -> Self {
        let owner = Owner::new(object.key(), object.uid());
        Self {
            context,
            suffix: owner.key.suffix(),
            cluster_name: owner::cluster_name(object.meta()),
            owner,
            cluster: ownership.cluster,
            paused: ownership.paused,
            object,
            now,
            records: Records::default(),
            records_read: false,
            backups: Vec::new(),
            rendered: None,
            events: ownership.converted.then(converted).into_iter().collect(),
            written: Vec::new(),
            before,
            inputs_reported: false,
            bookkept: false,
            late_error: None,
        }
    }

    pub(super) fn key(&self) -> &ObjectKey {
        &self.owner.key
    }

    /// Runs the pass and persists what it found, also after an error (lifecycle.md §5).
    pub(super) async fn run(mut self) -> Result<Requeue, PassError> {
        let uid = self.object.uid().to_owned();
        let read =
            bookkeeping::read(&self.context.access, &self.context.caches, self.key(), &uid).await;
        let (read, outcome) = match read {
            Ok(read) => {
                let outcome = Box::pin(self.flow(&read)).await;
                (read, outcome)
            }
            Err(error) => (JobsRead::default(), Err(error.into())),
        };
        let history = read.history(&uid);
        if outcome.is_err() && history.unread().next().is_none() {
            self.keep_waits();
        }
        if !self.inputs_reported {
            self.report_inputs_unread(&history);
        }
        let saved = self.finish(&history).await;
        let End::Requeue(requeue) = outcome?;
        saved?;
        match self.late_error.take() {
            Some(error) => Err(error),
            None => Ok(requeue.and_then(|after| after.try_into().ok())),
        }
    }

    /// A pass that failed does not know that a wait is over: it goes on as it was told, so that one wait
    /// stays one Event (leases.md §7).
    fn keep_waits(&mut self) {
        let waits: Vec<Condition> = self
            .before
            .iter()
            .filter(|before| is_wait(&before.reason))
            .cloned()
            .collect();
        for condition in &mut self.object.workspace().conditions {
            if let Some(wait) = waits.iter().find(|wait| wait.type_ == condition.type_) {
                condition.clone_from(wait);
            }
        }
    }

    /// Everything between the preamble and the status patch.
    async fn flow(&mut self, read: &JobsRead) -> Result<End, PassError> {
        self.set_up();
        let uid = self.object.uid().to_owned();
        let history = read.history(&uid);
        if history.active().is_none() || history.unread().next().is_some() {
            self.read_records().await?;
        }
        self.bookkeep(&history).await?;
        self.bookkept = true;
        if let Some(job) = history.active() {
            if let Some(end) = Box::pin(self.watch_active(job)).await? {
                return Ok(if self.is_released_elsewhere() {
                    gate()
                } else {
                    end
                });
            }
        } else if self.cache_lags(&history).await? {
            return Ok(End::Requeue(Some(seconds(DEFER_REQUEUE))));
        } else {
            self.record_vanished_apply(&history).await?;
        }
        self.settle_idle();
        if self.is_released_elsewhere() {
            return self.release_elsewhere().await;
        }
        if self.paused.is_some() {
            return self.rest_paused().await;
        }
        if self.object.deleting()
            && let Some(end) = self.blocked_by_dependents().await?
        {
            return Ok(end);
        }
        let state = self.read_state(&history).await?;
        match &state.retained {
            Some(Retained::Adopted) => return Ok(End::Requeue(Some(seconds(DEFER_REQUEUE)))),
            Some(Retained::Foreign { uid }) => return self.beside_retained_state(uid).await,
            None => {}
        }
        Box::pin(self.decide(&history, state)).await
    }

    async fn decide(
        &mut self,
        history: &History<'_>,
        mut state: StateRead,
    ) -> Result<End, PassError> {
        let deleting = self.object.deleting();
        let ready = if deleting {
            None
        } else {
            Some(self.prepare_credentials().await)
        };
        self.repair_ownership(&mut state).await;
        self.judge_lock(&mut state).await?;
        let built = if deleting {
            None
        } else {
            self.build_inputs().await?
        };
        let input = self.decision_input(history, &state, built.as_ref());
        let decision = decide::decide(&input);
        self.context
            .metrics
            .decision(Kind::TerraformCluster, &decision);
        self.report_inputs(history, &state, built.as_ref(), &decision);
        // A closed gate is looked at again, also when nothing is due behind it.
        let gated = matches!(ready, Some(None)) || (!deleting && built.is_none());
        match &decision.action {
            Action::None if gated => Ok(End::Requeue(Some(
                decision
                    .requeue
                    .map_or(seconds(WAIT_REQUEUE), |due| due.min(seconds(WAIT_REQUEUE))),
            ))),
            Action::None => Ok(End::Requeue(decision.requeue)),
            Action::DropFinalizer => self.drop_finalizer().await,
            Action::Retain => self.retain().await,
            Action::Start(run) => {
                Box::pin(self.begin(run, &decision, history, &state, built, ready)).await
            }
        }
    }

    /// Initial conditions and suffix (lifecycle.md §6).
    fn set_up(&mut self) {
        let generation = self.object.meta().generation.unwrap_or_default();
        let now = self.now;
        conditions::set_initial(
            &mut self.object.workspace().conditions,
            Kind::TerraformCluster,
            generation,
            now,
        );
        if self.object.deleting() {
            let message = match self.paused {
                Some(_) => {
                    "the deletion waits until the object is resumed: a paused object never destroys"
                }
                None => "",
            };
            self.object.set(Deleting::Deleting.with(message), now);
        }
        self.object.workspace().state_secret_suffix = Some(self.suffix.as_str().to_owned());
    }

    /// Reads the inputs records, once. A pass that only watches a running Job does without them.
    pub(super) async fn read_records(&mut self) -> Result<(), PassError> {
        if self.records_read {
            return Ok(());
        }
        self.records = records::read(&self.context.access, &self.owner).await?;
        self.records_read = true;
        let digest = self
            .records
            .applied
            .as_ref()
            .and_then(|record| record.image_digest().map(str::to_owned));
        self.report_source(|source| source.image_digest = digest);
        Ok(())
    }

    /// Reads the inputs records again, after they were written by other means than [`Pass::mark`].
    pub(super) async fn reread_records(&mut self) -> Result<(), PassError> {
        self.records_read = false;
        self.read_records().await
    }

    /// Puts marks on the attempt record.
    pub(super) async fn mark(&mut self, marks: &Marks) -> Result<(), PassError> {
        let current = self.records.attempt.as_ref();
        self.records.attempt =
            records::mark(&self.context.access, &self.owner, current, marks).await?;
        Ok(())
    }

    /// Changes `status.source`, which is never written empty.
    pub(super) fn report_source(&mut self, change: impl FnOnce(&mut SourceStatus)) {
        let mut source = self.object.workspace().source.take().unwrap_or_default();
        change(&mut source);
        self.object.workspace().source = (source != SourceStatus::default()).then_some(source);
    }

    /// What was done is told; then the one patch, the marks, and what the patch changed (lifecycle.md §5).
    async fn finish(&mut self, history: &History<'_>) -> Result<(), PassError> {
        for event in self.events.drain(..) {
            status::tell(self.context, &self.object, event);
        }
        status::summarise(&mut self.object, self.now);
        let saved = self.object.save(&self.context.access).await;
        self.object.note_writes(&self.context.caches);
        if !saved? {
            self.context.metrics.object_gone(&self.owner.key);
            return Ok(());
        }
        let inputs = self.rendered.or(self.records.rendered_bytes());
        measure::object(&self.context.metrics, &self.object, Some(history), inputs);
        if self.bookkept {
            bookkeeping::mark_bookkept(&self.context.access, self.owner.namespace(), history).await;
        }
        for event in self.written.drain(..) {
            status::tell(self.context, &self.object, event);
        }
        status::announce_with_jobs(self.context, &self.object, &self.before, history);
        Ok(())
    }
}

/// The garbage collector would have taken Jobs, state and inputs at once (lifecycle.md §4).
fn converted() -> EventData {
    EventData::normal(
        "ForegroundDeletionConverted",
        "took the finalizer foregroundDeletion off: the infrastructure is looked after before dependents go",
    )
}

/// A constant of the rules as a requeue.
pub(super) fn seconds(duration: std::time::Duration) -> SignedDuration {
    duration.try_into().unwrap_or(SignedDuration::MAX)
}

/// The requeue of everything that waits for a gate (lifecycle.md §1).
pub(super) fn gate() -> End {
    End::Requeue(Some(seconds(WAIT_REQUEUE)))
}
