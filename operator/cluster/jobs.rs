//! The object's Jobs in a pass: bookkeeping, the active one, cache lag, the vanished apply (jobs.md §7
//! to §12).

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::core::PartialObjectMeta;
use serde_json::json;

use super::pass::{End, Pass, seconds};
use super::{PassError, inputs};
use crate::api::conditions::{self, ConditionType, InfrastructureHealthy, State as _};
use crate::api::keys::annotations;
use crate::api::{ActiveJob, Operation};
use crate::client::{Deletion, Guard};
use crate::decide::{ACTIVE_JOB_REQUEUE, InputsView};
use crate::events::{EventData, RelatedJob};
use crate::jobs::facts::JobFacts;
use crate::jobs::history::History;
use crate::jobs::lag::{self, LiveJob, Situation as LagSituation};
use crate::jobs::last_run;
use crate::jobs::policy::EffectivePolicy;
use crate::jobs::prune::{HistoryLimits, prune};
use crate::jobs::pull::PullFailure;
use crate::jobs::report::{self, Report};
use crate::jobs::stuck::{self, RepairContext};
use crate::lease::{DEFAULT_BACKSTOP, DEFER_REQUEUE, ReleaseMoment, backstop_of_deadline};
use crate::names::{JobName, Op, cluster_write_lease};
use crate::operator::active::{self, Action, Situation};
use crate::operator::bookkeeping;
use crate::operator::leases::HeldBy;
use crate::operator::secrets::per_run::JobRef;
use crate::operator::secrets::records::{Interruption, Marks, Record};
use crate::operator::start::Started;

/// The requeue after a Job that cannot start was deleted (lifecycle.md §1).
const AFTER_STUCK: Duration = Duration::from_secs(1);

impl Pass<'_> {
    /// Settles finished Jobs, reports them, prunes, and gives back the leases of those counted now
    /// (jobs.md §7.2).
    pub(super) async fn bookkeep(&mut self, history: &History<'_>) -> Result<(), PassError> {
        let access = &self.context.access;
        let settled = bookkeeping::settle(access, &self.owner, history, &mut self.records).await?;
        if let Some(digest) = settled.pinned.clone() {
            self.events.push(EventData::normal(
                "DigestPinned",
                format!("pinned the module image to {digest}"),
            ));
            self.report_source(|source| source.image_digest = Some(digest));
        }
        for job in &settled.without_digest {
            self.events.push(EventData::warning(
                "DigestUnknown",
                format!(
                    "Job {job}: the digest of the image it ran is not known, so nothing is pinned"
                ),
            ));
        }
        for job in &settled.without_inputs {
            self.events.push(EventData::warning(
                "AppliedInputsUnknown",
                format!("Job {job} succeeded, but the inputs it applied could not be recorded"),
            ));
        }
        self.report_history(history);
        for finished in history
            .unread()
            .filter(|finished| settled.counted.contains(&finished.job.uid))
        {
            let retry = history.retry_number(finished);
            self.context
                .metrics
                .job_counted(self.owner.key.kind, finished, retry);
            self.give_back_leases_of(&finished.job.name).await;
        }
        let policy = self.policy();
        let limits = HistoryLimits::new(
            policy.successful_jobs_history_limit,
            policy.failed_jobs_history_limit,
        );
        bookkeeping::prune(access, self.owner.namespace(), &prune(history, limits)).await?;
        Ok(())
    }

    /// R1: the leases that a counted Job held (seed: Release).
    async fn give_back_leases_of(&self, job: &str) {
        let job = JobName::new(job);
        let (run, cluster) = self.lease_names();
        let leases: Vec<&str> = std::iter::once(run.as_str())
            .chain(cluster.as_deref())
            .collect();
        let held = HeldBy {
            namespace: self.owner.namespace(),
            job: &job,
            leases: &leases,
        };
        self.context
            .leases
            .release(held, ReleaseMoment::Finished)
            .await;
    }

    /// Names of the run lease and of the cluster write lease; the latter while the gate is on and the
    /// cluster's name is known.
    pub(super) fn lease_names(&self) -> (String, Option<String>) {
        let cluster = self
            .context
            .options
            .cluster_operation_gate
            .then_some(self.cluster_name.as_str());
        let cluster = cluster.and_then(|name| cluster_write_lease(self.owner.namespace(), name));
        (self.suffix.run_lease(), cluster)
    }

    /// What a pass does while a Job is active. Ends the pass, unless the Job was deleted on a paused
    /// object, which then counts as idle (lifecycle.md §7, §8).
    pub(super) async fn watch_active(&mut self, job: &JobFacts) -> Result<Option<End>, PassError> {
        let known_active = self
            .object
            .reported()
            .active_job
            .as_ref()
            .is_some_and(|active| active.name == job.name);
        let seen_started = self
            .context
            .caches
            .last_seen_pod(&job.uid)
            .is_some_and(|pod| pod.source.has_started());
        let situation = Situation {
            seen_started,
            repair: RepairContext {
                known_active,
                paused: self.paused.is_some(),
                deleting: self.object.deleting(),
                files_at_hand: !known_active && !seen_started && self.has_files_of(job).await?,
            },
        };
        let reference = self.reference(job);
        match active::examine(&self.context.access, job, &reference, situation).await? {
            Action::Watch => {}
            Action::AwaitCreator(wait) => {
                self.block_move();
                return Ok(Some(End::Requeue(Some(wait))));
            }
            Action::Arm => match Box::pin(self.arm(job)).await? {
                Started::Running { .. } => {}
                Started::Refused(why) if job.age(self.now) >= stuck::STUCK_AGE => {
                    return self.end_stuck(job, &reference, &why).await;
                }
                // Unarmed, it stays unnamed, so that the next pass may try again.
                Started::Waiting(_) | Started::Deferred(_) | Started::Refused(_) => {
                    self.block_move();
                    return Ok(Some(End::Requeue(Some(seconds(DEFER_REQUEUE)))));
                }
            },
            Action::Delete(why) => return self.end_stuck(job, &reference, &why).await,
            Action::ReportPull(failure) => self.report_pull(job, &failure).await?,
            Action::UnmarkPull => {
                self.mark_job(job, json!({annotations::PULL_FAILED: null}))
                    .await?
            }
        }
        if !known_active {
            self.tell_of_unrecorded(job);
        }
        self.report_active(job);
        let requeue = self.paused.is_none().then_some(ACTIVE_JOB_REQUEUE);
        Ok(Some(End::Requeue(requeue)))
    }

    /// A Job that can never start is deleted; on a paused object the pass goes on as if nothing ran.
    async fn end_stuck(
        &mut self,
        job: &JobFacts,
        reference: &JobRef,
        why: &str,
    ) -> Result<Option<End>, PassError> {
        self.delete_stuck(job, reference, why).await?;
        let again = End::Requeue(Some(seconds(AFTER_STUCK)));
        Ok(self.paused.is_none().then_some(again))
    }

    /// Whoever created this Job stopped before the status patch that records it, which JobCreated
    /// follows: the pass that records the Job tells of it, so that it is told once (failover.md C9 to
    /// C11).
    fn tell_of_unrecorded(&mut self, job: &JobFacts) {
        let note = format!(
            "Job {} to {}, attempt {}, was created and not yet recorded in the status",
            job.name,
            job.op.unwrap_or(Op::Apply),
            job.attempt.unwrap_or(1),
        );
        self.written
            .push(EventData::normal("JobCreated", note).about(related(job)));
    }

    /// Mirrors the active Job into the status and keeps the object from being moved meanwhile.
    pub(super) fn report_active(&mut self, job: &JobFacts) {
        let start_time = job.started.unwrap_or(job.created);
        self.object.workspace().active_job = Some(ActiveJob {
            name: job.name.clone(),
            operation: Operation::from(job.op.unwrap_or(Op::Apply).as_str()),
            attempt: job.attempt.unwrap_or(1).max(1),
            start_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                start_time,
            )),
        });
        self.block_move();
        if job.op == Some(Op::Apply) {
            self.report_applying(&job.name);
        }
    }

    /// A Job runs: the object cannot be moved meanwhile.
    fn block_move(&mut self) {
        if self.object.annotation(annotations::BLOCK_MOVE).is_none() {
            // Until when its Job can run is not at hand: a whole backstop from now covers it.
            let deadline = EffectivePolicy::merge(&[&self.policy()])
                .ok()
                .and_then(|policy| u64::try_from(policy.deadline.value).ok())
                .map_or(DEFAULT_BACKSTOP, |seconds| {
                    backstop_of_deadline(Duration::from_secs(seconds))
                });
            let until = self.now.saturating_add(deadline).unwrap_or(self.now);
            let until = self.block_move_until(until);
            self.object.annotate(annotations::BLOCK_MOVE, Some(&until));
        }
    }

    /// An apply runs: what the conditions that follow from it say.
    pub(super) fn report_applying(&mut self, job: &str) {
        if !self.object.reported().is_provisioned() {
            let verdict =
                InfrastructureHealthy::Provisioning.with(format!("Job {job} applies the module"));
            self.object.set(verdict, self.now);
        }
        self.report_inputs_applied(&InputsView::ApplyRuns {
            job: job.to_owned(),
        });
    }

    /// The conditions and `status.lastRun` that finished Jobs give rise to (jobs.md §7.4).
    pub(super) fn report_history(&mut self, history: &History<'_>) {
        let last_run = self.object.reported().last_run.clone();
        let stored = |condition| conditions::get(&self.object.reported().conditions, condition);
        let told = stored(ConditionType::ApplyJobSucceeded);
        let apply = if report::is_being_repaired(history, told) {
            Report::Keep
        } else {
            report::apply(history, told, last_run.as_ref(), self.object.deleting())
        };
        let drift = report::drift(
            history,
            stored(ConditionType::DriftJobSucceeded),
            last_run.as_ref(),
        );
        for verdict in [apply, drift] {
            if let Report::Set(verdict) = verdict {
                self.object.set(verdict, self.now);
            }
        }
        if let Some(run) = last_run::last_run(history, last_run.as_ref()) {
            self.object.workspace().last_run = Some(run);
        }
        if let Some(result) = history
            .unread()
            .next()
            .and_then(|finished| finished.result())
        {
            let version = result.runtime_version.clone();
            self.report_source(|source| {
                source.runtime_version = (!version.is_empty()).then_some(version)
            });
        }
        self.report_vanished(history);
    }

    /// Nothing runs: block-move and `status.activeJob` go with the pass's patch. The mark of a Job that
    /// may run where the object was moved from stays.
    pub(super) fn settle_idle(&mut self) {
        if self.moved_job().is_none() {
            self.object.annotate(annotations::BLOCK_MOVE, None);
        }
        self.object.workspace().active_job = None;
    }

    /// Whether the Job cache is behind the API server; then nothing may be cleared (jobs.md §12).
    pub(super) async fn cache_lags(&self, history: &History<'_>) -> Result<bool, PassError> {
        let listed: Vec<&str> = self.listed(history);
        let situation = LagSituation {
            listed: &listed,
            active_job: self
                .object
                .reported()
                .active_job
                .as_ref()
                .map(|active| active.name.as_str()),
            block_move: self.object.annotation(annotations::BLOCK_MOVE).is_some(),
            deleting: self.object.deleting(),
        };
        if let Some(name) = situation.active_to_read()
            && lag::active_is_behind(&self.live_job(name).await?)
        {
            return Ok(true);
        }
        if !situation.needs_lease() {
            return Ok(false);
        }
        let lease = self.suffix.run_lease();
        let holder = self
            .context
            .leases
            .live_holder(self.owner.namespace(), &lease)
            .await?;
        match situation.holder_to_read(holder.as_deref()) {
            Some(name) => Ok(lag::holder_is_behind(
                &self.live_job(name).await?,
                self.key(),
            )),
            None => Ok(false),
        }
    }

    fn listed<'h>(&self, history: &History<'h>) -> Vec<&'h str> {
        let finished = history
            .finished()
            .iter()
            .map(|finished| finished.job.name.as_str());
        finished
            .chain(history.active().map(|job| job.name.as_str()))
            .collect()
    }

    async fn live_job(&self, name: &str) -> Result<LiveJob, PassError> {
        let api = self
            .context
            .access
            .api::<PartialObjectMeta<Job>>(self.owner.namespace());
        let found = self.context.access.get(&api, name).await?;
        Ok(found.map_or(LiveJob::Absent, |job| {
            LiveJob::Found(job.metadata.labels.unwrap_or_default())
        }))
    }

    /// An apply Job that `status.activeJob` names, also live, and that does not exist any more may have
    /// applied part of its change (jobs.md §8.3). The lag check before has read that it is gone.
    pub(super) async fn record_vanished_apply(
        &mut self,
        history: &History<'_>,
    ) -> Result<(), PassError> {
        let named = self.object.reported().active_job.clone();
        let Some(vanished) = named.filter(|active| {
            active.operation == Operation::Apply && history.job(&active.name).is_none()
        }) else {
            return Ok(());
        };
        if !self.live_status_names(&vanished.name).await? {
            return Ok(());
        }
        let job = JobName::new(vanished.name);
        let attempted = self.records.attempt.as_ref().and_then(Record::job).as_ref() == Some(&job);
        let marks = Marks {
            may_have_applied: attempted.then_some(true),
            interruption: Some(Interruption::Record(job.clone())),
            ..Marks::default()
        };
        self.mark(&marks).await?;
        self.report_vanished(history);
        Ok(())
    }

    /// The condition of an apply that vanished; it holds until an apply started after it reports
    /// (lifecycle.md §14.3).
    pub(super) fn report_vanished(&mut self, history: &History<'_>) {
        if self.object.deleting() {
            return;
        }
        let Some(job) = self
            .records
            .interrupted_apply()
            .filter(|job| history.job(job.as_str()).is_none())
        else {
            return;
        };
        let newer = history.newest(&[Op::Apply]).is_some_and(|newest| {
            newest.job.annotation(annotations::AFTER_INTERRUPTED_APPLY) == Some(job.as_str())
        });
        if !newer {
            self.object
                .set(report::vanished_apply(job.as_str(), true), self.now);
        }
    }

    async fn live_status_names(&self, job: &str) -> Result<bool, PassError> {
        let api = self
            .context
            .access
            .api::<crate::api::TerraformCluster>(self.owner.namespace());
        let live = self.context.access.get(&api, &self.key().name).await?;
        let active = live
            .and_then(|live| live.status)
            .and_then(|status| status.workspace.active_job);
        Ok(active.is_some_and(|active| active.name == job))
    }

    /// Whether the files of exactly this Job can be had again: the attempt record names it, or the
    /// inputs built now have its hash (jobs.md §5.3).
    async fn has_files_of(&mut self, job: &JobFacts) -> Result<bool, PassError> {
        self.read_records().await?;
        let recorded = self.records.attempt.as_ref().is_some_and(|attempt| {
            attempt.job().is_some_and(|name| name.as_str() == job.name) && attempt.files().is_some()
        });
        Ok(recorded || self.rebuilt_for(job).await?.is_some())
    }

    /// The inputs as they are now, when they are those of this Job.
    pub(super) async fn rebuilt_for(
        &mut self,
        job: &JobFacts,
    ) -> Result<Option<inputs::Built>, PassError> {
        let built = self.try_build_inputs().await?;
        let hash = job.annotation(annotations::INPUTS_HASH).unwrap_or_default();
        Ok(built.ok().filter(|built| built.hash.as_str() == hash))
    }

    async fn delete_stuck(
        &mut self,
        job: &JobFacts,
        reference: &JobRef,
        why: &str,
    ) -> Result<(), PassError> {
        let access = &self.context.access;
        self.object.release_active_job(access, &job.name).await?;
        let api = access.api::<Job>(self.owner.namespace());
        if access
            .delete(&api, &job.name, &Guard::uid(&reference.uid))
            .await?
            == Deletion::Deleted
        {
            let note = format!("deleted Job {}: {why}", job.name);
            self.events
                .push(EventData::warning("StuckJobDeleted", note).about(related(job)));
        }
        Ok(())
    }

    async fn report_pull(
        &mut self,
        job: &JobFacts,
        failure: &PullFailure,
    ) -> Result<(), PassError> {
        let op = job.op.unwrap_or(Op::Apply);
        self.object
            .set(report::pull_failed(op, &job.name, failure), self.now);
        if job.is_marked(annotations::PULL_FAILED) {
            return Ok(());
        }
        self.mark_job(job, json!({annotations::PULL_FAILED: failure.reason}))
            .await
    }

    async fn mark_job(&self, job: &JobFacts, marks: serde_json::Value) -> Result<(), PassError> {
        let api = self.context.access.api::<Job>(self.owner.namespace());
        let patch = json!({"metadata": {"uid": job.uid, "annotations": marks}});
        match self.context.access.patch(&api, &job.name, &patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn reference(&self, job: &JobFacts) -> JobRef {
        JobRef {
            namespace: self.owner.namespace().to_owned(),
            name: JobName::new(job.name.clone()),
            uid: job.uid.clone(),
        }
    }
}

/// A Job as an event names it.
pub(super) fn related(job: &JobFacts) -> RelatedJob {
    RelatedJob {
        name: job.name.clone(),
        uid: job.uid.clone(),
    }
}
