//! The start sequence of a Job (jobs.md §5): leases, block-move, pause handshake, create, fence, record,
//! per-run Secret, in this order. The process may die between any two of its requests.

use futures::FutureExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::ResourceExt as _;
use tokio::time::Instant;

use crate::api::capi::Cluster;
use crate::client::{Access, ApiError, Deletion, Guard};
use crate::jobs::create::{AfterCreate, CreateFailure, Existing, after_failure};
use crate::jobs::facts::JobFacts;
use crate::jobs::outcome::LockVersion;
use crate::lease::Wait;
use crate::names::{JobName, Op, Suffix};
use crate::operator::leases::{Claims, Fenced, Held, Leases, RunningJobs, Taken};
use crate::operator::secrets::per_run::{Ensured, JobRef, Presence};
use crate::operator::secrets::records::Record;
use crate::operator::secrets::{Owner, RunInputs, per_run, plan_key, records};

/// What the object of a start must be able to do.
pub trait Startable: Send + Sync {
    /// Persists block-move now, saying whose Job it is and until when it can matter, and answers
    /// whether the object's own annotations pause it.
    fn block_move(
        &mut self,
        until: k8s_openapi::jiff::Timestamp,
    ) -> impl Future<Output = Result<bool, ApiError>> + Send;
    /// Takes block-move off now.
    fn unblock_move(&mut self) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// Reads live whether the object's own annotations pause it now.
    fn paused(&self) -> impl Future<Output = Result<bool, ApiError>> + Send;
    /// Takes `status.activeJob` off now when it names this Job on the API server.
    fn clear_active_job(
        &mut self,
        job: &JobName,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// What is only known once the leases are held, and goes into the Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// The state lock as it was before the Job; read for an apply.
    pub lock: Option<LockVersion>,
    /// Name of the plan key's Secret; for a Job that fingerprints a plan.
    pub plan_key: Option<String>,
}

/// One start, decided.
pub struct Start<'a> {
    /// The owner of Job and Secrets.
    pub owner: &'a Owner,
    /// Leases to take; they name the Job.
    pub claims: Claims,
    /// What it runs.
    pub op: Op,
    /// The object's suffix.
    pub suffix: &'a Suffix,
    /// What the Job mounts.
    pub inputs: &'a RunInputs,
    /// The attempt record as read in this pass.
    pub attempt: Option<&'a Record>,
    /// The Job fingerprints a plan.
    pub fingerprints: bool,
    /// Name of the owning Cluster.
    pub cluster: &'a str,
    /// The Jobs on the other side of the gate.
    pub running: RunningJobs<'a>,
    /// Builds the Job.
    pub build: &'a (dyn Fn(&Late) -> Job + Send + Sync),
}

impl Start<'_> {
    /// `namespace/name` of the Job.
    fn job(&self) -> String {
        format!("{}/{}", self.owner.namespace(), self.claims.run.holder)
    }

    /// A start that is put off leaves no condition, so the log is where it shows.
    fn log(&self, started: &Started) {
        match started {
            Started::Running { .. } | Started::Waiting(_) => {}
            Started::Deferred(why) => {
                tracing::debug!(Job = self.job(), why, "the start is deferred")
            }
            Started::Refused(why) => {
                tracing::debug!(Job = self.job(), why, "the fence refused the Job")
            }
        }
    }
}

/// How a start ended.
#[derive(Debug)]
pub enum Started {
    /// The Job runs: created by this pass, or found and adopted.
    Running {
        /// The Job.
        job: Box<JobFacts>,
    },
    /// The operation waits for a lease, with a condition.
    Waiting(Wait),
    /// Not now: no condition, back in five seconds (leases.md §6.6).
    Deferred(String),
    /// The fence refused a Job that this pass did not create: nothing was deleted, nothing given back;
    /// its creator or the stuck rule ends it (leases.md §6.7).
    Refused(String),
}

/// A start that failed; leases were given back as far as that was safe.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A request failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The plan key could not be made.
    #[error(transparent)]
    PlanKey(#[from] plan_key::PlanKeyError),
    /// The per-run Secret could not be made because the Job changed under it.
    #[error("Job {job} is not the one that was created any more: the next pass starts again")]
    JobChanged {
        /// The Job.
        job: JobName,
    },
}

/// Runs starts.
#[derive(Debug, Clone)]
pub struct Starter {
    access: Access,
    leases: Leases,
}

enum Before {
    Ready(Late),
    Paused,
}

enum Created {
    New(Job),
    Adopted(Job),
    Deferred(String),
}

impl Starter {
    /// A starter over these hands.
    #[must_use]
    pub fn new(access: Access, leases: Leases) -> Self {
        Self { access, leases }
    }

    /// Starts the Job, or says why not.
    ///
    /// # Errors
    /// When a request fails in a way that the table of jobs.md §5.1 makes an error of the pass.
    pub async fn start(
        &self,
        start: &Start<'_>,
        object: &mut impl Startable,
    ) -> Result<Started, StartError> {
        let started = self.take_and_start(start, object).await?;
        start.log(&started);
        Ok(started)
    }

    async fn take_and_start(
        &self,
        start: &Start<'_>,
        object: &mut impl Startable,
    ) -> Result<Started, StartError> {
        let held = match self.leases.take(&start.claims, start.running).await? {
            Taken::Go(held) => *held,
            Taken::Wait(wait) => return Ok(Started::Waiting(wait)),
            Taken::Defer(why) => return Ok(Started::Deferred(why)),
        };
        let late = match self.prepare(start, object).await {
            Ok(Before::Ready(late)) => late,
            Ok(Before::Paused) => {
                self.leases.give_back(&start.claims).await;
                object.unblock_move().await?;
                return Ok(Started::Deferred(
                    "the object or its Cluster is paused".to_owned(),
                ));
            }
            Err(error) => {
                self.leases.give_back(&start.claims).await;
                return Err(error);
            }
        };
        let held = match self.last_checks(start, held).await {
            Ok(Taken::Go(held)) => *held,
            Ok(Taken::Wait(wait)) => {
                self.leases.give_back(&start.claims).await;
                return Ok(Started::Deferred(wait.message(start.op)));
            }
            Ok(Taken::Defer(why)) => {
                self.leases.give_back(&start.claims).await;
                return Ok(Started::Deferred(why));
            }
            Err(error) => {
                self.leases.give_back(&start.claims).await;
                return Err(error.into());
            }
        };
        match self.create(start, &(start.build)(&late)).await? {
            Created::New(job) => self.arm(start, &job, Some(&held), object).await,
            Created::Adopted(job) => self.arm(start, &job, None, object).await,
            Created::Deferred(why) => Ok(Started::Deferred(why)),
        }
    }

    /// Goes on at the fence with a Job that exists and is not armed (jobs.md §5.3).
    ///
    /// # Errors
    /// As [`Starter::start`], from the fence on.
    pub async fn repair(
        &self,
        start: &Start<'_>,
        job: &Job,
        object: &mut impl Startable,
    ) -> Result<Started, StartError> {
        let started = self.arm(start, job, None, object).await?;
        start.log(&started);
        Ok(started)
    }

    /// Steps 1 to 5: block-move, pause handshake, plan key, state lock's version.
    async fn prepare(
        &self,
        start: &Start<'_>,
        object: &mut impl Startable,
    ) -> Result<Before, StartError> {
        let namespace = start.owner.namespace();
        let until = self.access.now().saturating_add(start.claims.run.backstop);
        let own = object
            .block_move(until.unwrap_or(k8s_openapi::jiff::Timestamp::MAX))
            .await?;
        if own || self.cluster_paused(start).await? {
            return Ok(Before::Paused);
        }
        let plan_key = match start.fingerprints {
            true => Some(plan_key::ensure(&self.access, start.owner).await?),
            false => None,
        };
        let lock = match start.op {
            Op::Apply => {
                let lock = self
                    .access
                    .get(
                        &self.access.api::<Lease>(namespace),
                        &start.suffix.lock_lease(),
                    )
                    .await?;
                Some(lock.map_or(LockVersion::Absent, |lock| {
                    LockVersion::At(lock.resource_version().unwrap_or_default())
                }))
            }
            _ => None,
        };
        Ok(Before::Ready(Late { lock, plan_key }))
    }

    async fn cluster_paused(&self, start: &Start<'_>) -> Result<bool, ApiError> {
        let api = self.access.api::<Cluster>(start.owner.namespace());
        Ok(self
            .access
            .get(&api, start.cluster)
            .await?
            .is_some_and(|cluster| cluster.spec.paused))
    }

    /// Step 6: the leases once more, and no Secret that an earlier Job of this name left.
    async fn last_checks(&self, start: &Start<'_>, held: Held) -> Result<Taken, ApiError> {
        let taken = self
            .leases
            .ensure_fresh(&start.claims, held, start.running)
            .await?;
        if matches!(taken, Taken::Go(_)) {
            let job = &start.claims.run.holder;
            per_run::clear_leftover(&self.access, start.owner.namespace(), job).await?;
        }
        Ok(taken)
    }

    /// Step 7: creates the Job, or adopts the one that is there (jobs.md §5.1).
    async fn create(&self, start: &Start<'_>, job: &Job) -> Result<Created, StartError> {
        let api = self.access.api::<Job>(start.owner.namespace());
        let error = match self.access.create(&api, job).await {
            Ok(created) => {
                tracing::info!(Job = start.job(), op = start.op.as_str(), "created a Job");
                return Ok(Created::New(created));
            }
            Err(error) => error,
        };
        let failure = error.create_failure();
        let found = match failure {
            CreateFailure::AlreadyExists => self
                .access
                .get(&api, start.claims.run.holder.as_str())
                .await
                .ok()
                .flatten(),
            CreateFailure::Rejected | CreateFailure::Ambiguous => None,
        };
        let facts = found.as_ref().map(JobFacts::from);
        let existing = facts.as_ref().map_or(Existing::Unreadable, Existing::Job);
        let hash = start.inputs.provenance.inputs_hash.as_str();
        match (
            after_failure(failure, existing, &start.owner.uid, hash),
            found,
        ) {
            (AfterCreate::ReleaseAndFail, _) => {
                self.leases.give_back(&start.claims).await;
                Err(error.into())
            }
            (AfterCreate::Adopt, Some(found)) => Ok(Created::Adopted(found)),
            (AfterCreate::Defer, _) => Ok(Created::Deferred(format!(
                "Job {} exists and cannot be adopted",
                start.claims.run.holder
            ))),
            (AfterCreate::Adopt | AfterCreate::KeepAndFail, _) => Err(error.into()),
        }
    }

    /// Steps 7a to 9: fence, attempt record, per-run Secret. `held` are the leases of the pass that
    /// created the Job; an adopted Job has none.
    async fn arm(
        &self,
        start: &Start<'_>,
        job: &Job,
        held: Option<&Held>,
        object: &mut impl Startable,
    ) -> Result<Started, StartError> {
        let reference = JobRef {
            namespace: start.owner.namespace().to_owned(),
            name: start.claims.run.holder.clone(),
            uid: job.uid().unwrap_or_default(),
        };
        let since = match self.fence(start, &reference, held, object).await? {
            Fenced::Passed { since } => since,
            Fenced::AnotherPass => {
                return Ok(Started::Deferred(
                    "another pass works on this Job".to_owned(),
                ));
            }
            Fenced::Refused(why) if held.is_none() => return Ok(Started::Refused(why)),
            Fenced::Refused(why) => return self.disarm(start, &reference, object, why).await,
        };
        if start.op == Op::Apply {
            records::write_attempt(
                &self.access,
                start.owner,
                start.attempt,
                &reference.name,
                start.inputs,
            )
            .await?;
        }
        self.write_secret(start, &reference, since, object).await?;
        Ok(Started::Running {
            job: Box::new(JobFacts::from(job)),
        })
    }

    async fn fence(
        &self,
        start: &Start<'_>,
        job: &JobRef,
        held: Option<&Held>,
        object: &impl Startable,
    ) -> Result<Fenced, ApiError> {
        let paused =
            || async { Ok(object.paused().await? || self.cluster_paused(start).await?) }.boxed();
        self.leases
            .fence(&start.claims, &job.uid, held, start.running, &paused)
            .await
    }

    /// The Secret, within the ten seconds that the fence holds; later, only behind a second fence.
    async fn write_secret(
        &self,
        start: &Start<'_>,
        job: &JobRef,
        since: Instant,
        object: &impl Startable,
    ) -> Result<(), StartError> {
        let changed = || StartError::JobChanged {
            job: job.name.clone(),
        };
        if Fenced::expired(since) {
            let api = self.access.api::<Job>(&job.namespace);
            let live = self.access.get(&api, job.name.as_str()).await?;
            if live.and_then(|live| live.uid()).as_deref() != Some(job.uid.as_str()) {
                return Err(changed());
            }
            match self.fence(start, job, None, object).await? {
                Fenced::Passed { since } if !Fenced::expired(since) => {}
                Fenced::Passed { .. } | Fenced::Refused(_) | Fenced::AnotherPass => {
                    return Err(changed());
                }
            }
        }
        match per_run::ensure(&self.access, job, start.inputs).await? {
            Ensured::Created | Ensured::Kept | Ensured::Replaced => Ok(()),
            Ensured::JobChanged { .. } => Err(changed()),
        }
    }

    /// The fence refused the Job that this pass created: it is deleted before any pod of it could start,
    /// unless another pass armed it meanwhile (leases.md §6.7).
    async fn disarm(
        &self,
        start: &Start<'_>,
        job: &JobRef,
        object: &mut impl Startable,
        why: String,
    ) -> Result<Started, StartError> {
        if per_run::presence(&self.access, job).await? != Presence::Own {
            object.clear_active_job(&job.name).await?;
            let api = self.access.api::<Job>(&job.namespace);
            let deleted = self
                .access
                .delete(&api, job.name.as_str(), &Guard::uid(&job.uid))
                .await?;
            if deleted == Deletion::Deleted {
                tracing::info!(
                    Job = start.job(),
                    why,
                    "deleted the Job before any pod of it could start"
                );
            }
            if matches!(deleted, Deletion::Deleted | Deletion::Gone) {
                self.leases.give_back(&start.claims).await;
            }
        }
        Ok(Started::Deferred(why))
    }
}
