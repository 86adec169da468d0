//! Starting the Job that was decided: checks, rendering, name, leases, start (jobs.md §5; lifecycle.md
//! §13).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;

use super::hand::Hand;
use super::jobs::related;
use super::pass::{End, Pass, gate, seconds};
use super::provisions::Credentials;
use super::state::StateRead;
use super::{PassError, inputs};
use crate::api::ImagePullPolicy;
use crate::api::conditions::{ApplyJobSucceeded, Deleting, State as _, Verdict};
use crate::api::keys::{TRUE, annotations};
use crate::decide::{
    self, ACTIVE_JOB_REQUEUE, APPROVAL_REQUEUE, Cause, Decision, Reason, Run, STATE_REQUEUE,
};
use crate::events::EventData;
use crate::inputs::Rendered;
use crate::jobs::anatomy::{self, JobRequest};
use crate::jobs::facts::JobFacts;
use crate::jobs::history::History;
use crate::jobs::moved;
use crate::jobs::policy::EffectivePolicy;
use crate::jobs::report;
use crate::jobs::slots::{self, ClusterSlots, Slots};
use crate::lease::{Claim, DEFER_REQUEUE, WAIT_REQUEUE, backstop_of_deadline};
use crate::names::{InputsHash, JobName, JobSeed, LeaseScope, Op, Tick};
use crate::operator::leases::Claims;
use crate::operator::secrets::{Provenance, RunInputs};
use crate::operator::start::{Late, Start, Started};
use crate::operator::state::ensure_labels;

/// A Job about to be started.
struct Plan {
    name: JobName,
    op: Op,
    attempt: i32,
    inputs: RunInputs,
    policy: EffectivePolicy,
    credentials: String,
    annotations: BTreeMap<String, String>,
    guard: Option<anatomy::Guard>,
    force_unlock: Option<String>,
}

impl Pass<'_> {
    /// Starts what was decided, or says why not.
    pub(super) async fn begin(
        &mut self,
        run: &Run,
        decision: &Decision,
        history: &History<'_>,
        state: &StateRead,
        built: Option<inputs::Built>,
        ready: Option<Option<Credentials>>,
    ) -> Result<End, PassError> {
        if run.op != Op::Apply {
            return Ok(self.refuse_operation(run.op));
        }
        if let Some(until) = self.moved_job() {
            let wait = ApplyJobSucceeded::WaitingForMovedJob.with(moved::message(until));
            self.object.set(wait, self.now);
            return Ok(gate());
        }
        let credentials = match ready {
            Some(credentials) => credentials,
            None => self.prepare_credentials().await,
        };
        let (Some(credentials), Some(built)) = (credentials, built) else {
            return Ok(gate());
        };
        let policy = match EffectivePolicy::merge(&[&self.policy()]) {
            Ok(policy) => policy,
            Err(error) => {
                return Ok(self.refuse(ApplyJobSucceeded::JobPolicyInvalid.with(error.to_string())));
            }
        };
        if let Err(error) = policy.check() {
            return Ok(self.refuse(ApplyJobSucceeded::JobPolicyInvalid.with(error.to_string())));
        }
        if let Some(wait) = slots::wait(self.slots(), run.op, self.object.uid()) {
            self.object.set(
                ApplyJobSucceeded::WaitingForJobSlot.with(wait.message),
                self.now,
            );
            return Ok(End::Requeue(Some(wait.requeue)));
        }
        let files = match built.files {
            Ok(files) => files,
            Err(error) => {
                return Ok(self.refuse(ApplyJobSucceeded::InputsTooLarge.with(error.to_string())));
            }
        };
        if let Some(end) = self.labels_forbid(state).await? {
            return Ok(end);
        }
        let attempt = history.next_attempt(run.op);
        let name = self.job_name(run.op, attempt, &built.hash);
        let plan = Plan {
            force_unlock: self.force_unlock(state, &name).await?,
            name,
            op: run.op,
            attempt,
            inputs: self.run_inputs(files, &built.hash),
            credentials: credentials.secret,
            annotations: self.job_annotations(&built.hash, decision, history),
            guard: decide::guard(self.key().kind, run, &built.hash, &InputsHash::default()),
            policy,
        };
        let started = Box::pin(self.start(&plan, None)).await?;
        Ok(self.report_started(started, &plan, decision))
    }

    /// Operations this manager does not run are told on the object, so that nobody waits for them: the
    /// infrastructure and its state stay as they are.
    fn refuse_operation(&mut self, op: Op) -> End {
        match op {
            Op::Destroy => self.object.set(
                Deleting::Deleting.with(
                    "the state describes infrastructure, and this version of the manager runs no destroy Jobs: set \
                     spec.deletionPolicy: Retain to let the object go and keep infrastructure and state",
                ),
                self.now,
            ),
            Op::Plan => self.object.set(
                ApplyJobSucceeded::PlanAwaitingApproval.with(
                    "applyPolicy is Manual, and this version of the manager makes no TerraformPlans: set \
                     spec.applyPolicy: Automatic to apply the change",
                ),
                self.now,
            ),
            Op::Apply | Op::Refresh | Op::Drift | Op::Restore => {}
        }
        End::Requeue(Some(APPROVAL_REQUEUE))
    }

    /// Goes on with an active Job that nobody armed (jobs.md §5.3).
    pub(super) async fn arm(&mut self, job: &JobFacts) -> Result<Started, PassError> {
        self.read_records().await?;
        let recorded = self
            .records
            .attempt
            .as_ref()
            .filter(|attempt| attempt.job().is_some_and(|name| name.as_str() == job.name));
        let inputs = match recorded.and_then(|attempt| attempt.inputs()) {
            Some(inputs) => inputs,
            None => match self.rebuilt_for(job).await? {
                Some(inputs::Built {
                    files: Ok(files),
                    hash,
                    ..
                }) => self.run_inputs(files, &hash),
                _ => {
                    return Ok(Started::Deferred(
                        "the files of the Job are not at hand".to_owned(),
                    ));
                }
            },
        };
        let api = self.context.access.api::<Job>(self.owner.namespace());
        let Some(live) = self.context.access.get(&api, &job.name).await? else {
            return Ok(Started::Deferred("the Job is gone".to_owned()));
        };
        let Ok(policy) = EffectivePolicy::merge(&[&self.policy()]) else {
            return Ok(Started::Deferred(
                "the Job policy cannot be read".to_owned(),
            ));
        };
        let plan = Plan {
            name: JobName::new(job.name.clone()),
            op: job.op.unwrap_or(Op::Apply),
            attempt: job.attempt.unwrap_or(1),
            inputs,
            policy,
            credentials: String::new(),
            annotations: BTreeMap::new(),
            guard: None,
            force_unlock: None,
        };
        Box::pin(self.start(&plan, Some(&live))).await
    }

    /// Runs the start sequence, from its beginning or, for a Job that exists, from the fence.
    async fn start(&mut self, plan: &Plan, existing: Option<&Job>) -> Result<Started, PassError> {
        let access = self.context.access.clone();
        let build = |late: &Late| anatomy::build(&self.request(plan, late));
        let running = || {
            self.context
                .caches
                .running_machine_operations(self.owner.namespace(), &self.cluster_name)
        };
        let mut hand = Hand {
            access: &access,
            object: self.object.clone(),
        };
        let start = Start {
            owner: &self.owner,
            claims: self.claims(plan),
            op: plan.op,
            suffix: &self.suffix,
            inputs: &plan.inputs,
            attempt: self.records.attempt.as_ref(),
            fingerprints: anatomy::fingerprints_plan(plan.op, plan.guard.as_ref()),
            cluster: &self.cluster_name,
            running: &running,
            build: &build,
        };
        let started = match existing {
            None => Box::pin(self.context.starter.start(&start, &mut hand)).await,
            Some(job) => self.context.starter.repair(&start, job, &mut hand).await,
        };
        self.object = hand.object;
        Ok(started?)
    }

    fn report_started(&mut self, started: Started, plan: &Plan, decision: &Decision) -> End {
        match started {
            Started::Running { job } => {
                self.report_active(&job);
                let image = self.object.next.spec.workspace.source.image.clone();
                self.report_source(|source| source.image = Some(image.clone()));
                let note = format!(
                    "created Job {} to {} with image {image}, attempt {}: {}",
                    plan.name,
                    plan.op,
                    plan.attempt,
                    decision.reason.as_str()
                );
                self.written
                    .push(EventData::normal("JobCreated", note).about(related(&job)));
                if decision.reason == Reason::Due(Cause::InputsChanged) {
                    self.context
                        .metrics
                        .inputs_hash_changed(self.owner.key.kind);
                    let note =
                        "the inputs differ from those of the state, and are applied".to_owned();
                    self.events
                        .push(EventData::normal("InputsChanged", note).about(related(&job)));
                }
                if let Some(id) = &plan.force_unlock {
                    self.context.metrics.force_unlocked(self.owner.key.kind);
                    let note = format!(
                        "Job {} unlocks the state from the stale lock {id}",
                        plan.name
                    );
                    self.events
                        .push(EventData::warning("ForceUnlocked", note).about(related(&job)));
                }
                self.report_applying(plan.name.as_str());
                End::Requeue(Some(ACTIVE_JOB_REQUEUE))
            }
            Started::Waiting(wait) => {
                if let Some(verdict) = report::wait(plan.op, wait.reason(), &wait.message(plan.op))
                {
                    self.object.set(verdict, self.now);
                }
                End::Requeue(Some(seconds(WAIT_REQUEUE)))
            }
            Started::Deferred(_) | Started::Refused(_) => {
                End::Requeue(Some(seconds(DEFER_REQUEUE)))
            }
        }
    }

    /// No Job starts until a person changes something; the reason stands in the condition.
    fn refuse(&mut self, verdict: Verdict) -> End {
        self.object.set(verdict, self.now);
        End::Requeue(Some(APPROVAL_REQUEUE))
    }

    /// Labels that Terraform selects its state with are put back before any Job; where that fails none
    /// starts (decision 14).
    async fn labels_forbid(&mut self, state: &StateRead) -> Result<Option<End>, PassError> {
        if !state.exists {
            return Ok(None);
        }
        let check = ensure_labels(&self.context.access, &self.owner, &self.cluster_name).await?;
        if let Some(note) = &check.repaired {
            self.events
                .push(EventData::warning("StateLabelsRepaired", note.clone()));
        }
        Ok(check.refused.map(|verdict| {
            self.object.set(verdict, self.now);
            End::Requeue(Some(STATE_REQUEUE))
        }))
    }

    fn slots(&self) -> Slots<'_> {
        let options = &self.context.options;
        let caches = &self.context.caches;
        let known = !self.cluster_name.is_empty();
        Slots {
            active: caches.unfinished_jobs(),
            limit: options.max_active_jobs,
            cluster: known.then(|| ClusterSlots {
                name: &self.cluster_name,
                active: caches
                    .unfinished_jobs_of_cluster(self.owner.namespace(), &self.cluster_name),
                limit: slots::cluster_limit(
                    self.object.next.spec.max_active_jobs,
                    options.cluster_max_active_jobs,
                ),
            }),
        }
    }

    fn job_name(&self, op: Op, attempt: i32, hash: &InputsHash) -> JobName {
        JobSeed {
            kind: self.key().kind,
            name: &self.key().name,
            op,
            attempt,
            inputs: hash,
            tick: &Tick::none(),
        }
        .job_name()
    }

    fn run_inputs(&self, files: Rendered, hash: &InputsHash) -> RunInputs {
        RunInputs {
            files,
            provenance: Provenance {
                image: self.object.next.spec.workspace.source.image.clone(),
                identity: self.identity(),
                inputs_hash: hash.clone(),
            },
        }
    }

    fn job_annotations(
        &self,
        hash: &InputsHash,
        decision: &Decision,
        history: &History<'_>,
    ) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([(
            annotations::INPUTS_HASH.to_owned(),
            hash.as_str().to_owned(),
        )]);
        if history.last_apply_failed(self.apply_records())
            && decision.reason != Reason::Due(Cause::NoState)
        {
            all.insert(annotations::AFTER_FAILED_APPLY.to_owned(), TRUE.to_owned());
        }
        if let Some(job) = self.records.interrupted_apply() {
            all.insert(
                annotations::AFTER_INTERRUPTED_APPLY.to_owned(),
                job.to_string(),
            );
        }
        all
    }

    fn claims(&self, plan: &Plan) -> Claims {
        let deadline = u64::try_from(plan.policy.deadline.value).unwrap_or_default();
        let (run, cluster) = self.lease_names();
        let claim = |scope, lease| Claim {
            scope,
            lease,
            namespace: self.owner.namespace().to_owned(),
            holder: plan.name.clone(),
            op: plan.op,
            owner_kind: self.key().kind,
            owner_name: self.key().name.clone(),
            cluster: self.cluster_name.clone(),
            backstop: backstop_of_deadline(Duration::from_secs(deadline)),
        };
        Claims {
            run: claim(LeaseScope::Run, run),
            cluster: cluster
                .filter(|_| plan.op.mutating())
                .map(|name| claim(LeaseScope::Cluster, name)),
        }
    }

    fn request(&self, plan: &Plan, late: &Late) -> JobRequest {
        let source = &self.object.next.spec.workspace.source;
        let mut annotations = plan.annotations.clone();
        if let Some(lock) = &late.lock {
            annotations.insert(
                annotations::STATE_LOCK_VERSION.to_owned(),
                lock.as_annotation().to_owned(),
            );
        }
        JobRequest {
            object: self.key().clone(),
            owner_uid: self.owner.uid.clone(),
            cluster: self.cluster_name.clone(),
            name: plan.name.clone(),
            op: plan.op,
            attempt: plan.attempt,
            image: source.image.clone(),
            pull_policy: source
                .image_pull_policy
                .clone()
                .unwrap_or(ImagePullPolicy::IfNotPresent),
            runner_image: self.context.options.runner_image.clone(),
            credentials_secret: plan.credentials.clone(),
            policy: plan.policy.clone(),
            annotations,
            plan_key_secret: late.plan_key.clone(),
            force_unlock: plan.force_unlock.clone(),
            guard: plan.guard.clone(),
            restore: None,
            runner_events: self.context.options.runner_events,
        }
    }
}
