//! An active Job: does it run, does it still need its per-run Secret, or can it never start (jobs.md
//! §5.3, §9, §10)?

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::client::{Access, ApiError};
use crate::jobs::facts::JobFacts;
use crate::jobs::pod::PodFacts;
use crate::jobs::pull::{self, PullAction, PullContext, PullFailure};
use crate::jobs::stuck::{self, Repair, RepairContext, RunSecret};
use crate::operator::bookkeeping::pods_of;
use crate::operator::secrets::per_run::{self, JobRef, Presence};

/// What is to be done about an active Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Watch it.
    Watch,
    /// Its creator may still be at work, or died before it armed it: come back after this time, and
    /// leave it unnamed until then.
    AwaitCreator(SignedDuration),
    /// Somebody created it and did not arm it: go on at the fence.
    Arm,
    /// It can never start: delete it. The text goes into the event.
    Delete(String),
    /// Its module image cannot be pulled: report it and leave the Job to its deadline.
    ReportPull(PullFailure),
    /// The image was pulled in the end: take the mark off.
    UnmarkPull,
}

/// What the decision rests on besides Job, pods and Secret.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    /// See [`RepairContext`].
    pub repair: RepairContext,
    /// The pod watch saw a container of it run.
    pub seen_started: bool,
}

/// Looks at an active Job, live, as far as it has not been seen running.
///
/// # Errors
/// When a read fails: nothing is known, so nothing is done.
pub async fn examine(
    access: &Access,
    job: &JobFacts,
    reference: &JobRef,
    situation: Situation,
) -> Result<Action, ApiError> {
    let now = access.now();
    if situation.seen_started && !job.is_marked(crate::api::keys::annotations::PULL_FAILED) {
        return Ok(Action::Watch);
    }
    let young = job.age(now) < stuck::STUCK_AGE;
    if young && stuck::repair(job, None, None, now, situation.repair) == Repair::No {
        return Ok(Action::Watch);
    }
    let secret = match per_run::presence(access, reference).await? {
        Presence::Missing => RunSecret::Missing,
        Presence::Own | Presence::Other => RunSecret::Present,
    };
    if let Repair::Later(wait) = stuck::repair(job, Some(secret), None, now, situation.repair) {
        return Ok(Action::AwaitCreator(wait));
    }
    if young && secret == RunSecret::Present {
        return Ok(Action::Watch);
    }
    let pods = pods_of(access, &reference.namespace, &job.name).await?;
    Ok(judge(job, secret, &pods, situation, now))
}

fn judge(
    job: &JobFacts,
    secret: RunSecret,
    pods: &[PodFacts],
    situation: Situation,
    now: Timestamp,
) -> Action {
    if stuck::repair(job, Some(secret), Some(pods), now, situation.repair) == Repair::Fence {
        return Action::Arm;
    }
    if stuck::is_stuck(job, secret, Some(pods), now) {
        return Action::Delete(
            "its per-run Secret does not exist and no pod of it ever started".to_owned(),
        );
    }
    if let Some(why) = stuck::config_failure(job, pods, now) {
        return Action::Delete(why);
    }
    let context = PullContext {
        paused: situation.repair.paused,
        record_exists: false,
    };
    match pull::check(job, pods, now, context) {
        PullAction::None => Action::Watch,
        PullAction::Unmark => Action::UnmarkPull,
        PullAction::Report(failure) | PullAction::FallBack(failure) => Action::ReportPull(failure),
        PullAction::Delete(failure) => Action::Delete(format!(
            "its image {} cannot be pulled: {}",
            failure.image, failure.reason
        )),
    }
}
