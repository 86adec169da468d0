//! What the Jobs of one object say about its past (jobs.md §7).

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::names::{Op, key, next_attempt};

use super::backoff::FailureRun;
use super::facts::JobFacts;
use super::outcome::{self, LockVersion, Outcome, Reach, Reading};
use super::pull;
use super::result::{Plan, RunResult};
use crate::api::keys::annotations as keys;

/// Readings of finished, not bookkept Jobs by Job UID.
pub type Readings = BTreeMap<String, Reading>;

/// A finished Job with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished<'a> {
    /// The Job.
    pub job: &'a JobFacts,
    /// What it ran.
    pub op: Op,
    /// When it finished.
    pub at: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// What was read of it; nothing for a bookkept Job, whose pod is never read again.
    pub reading: Option<&'a Reading>,
    /// See [`outcome::lock_untouched`].
    pub lock_untouched: bool,
}

impl<'a> Finished<'a> {
    /// Whether this pass is the first (or repeats the first) to read its result.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !self.job.is_bookkept()
    }

    /// Its result, when one was read.
    #[must_use]
    pub fn result(&self) -> Option<&'a RunResult> {
        self.reading?.result.as_ref().ok()
    }

    /// The plan in its result.
    #[must_use]
    pub fn plan(&self) -> Option<&'a Plan> {
        self.result()?.plan.as_ref()
    }

    /// Fingerprint of the plan it made: from its result, else from the annotation that bookkeeping left.
    #[must_use]
    pub fn plan_hash(&self) -> Option<&'a str> {
        self.plan()
            .map(|plan| plan.hash.as_str())
            .or_else(|| self.job.annotation(keys::PLAN_HASH))
    }

    /// The kubelet's reason when its image could not be pulled: from its pod, else from the mark made
    /// while it ran (jobs.md §7.4).
    #[must_use]
    pub fn pull_failure(&self) -> Option<&'a str> {
        let waiting = self
            .reading
            .and_then(|reading| reading.pod.as_ref())
            .and_then(|pod| pod.source.waiting())
            .map(|(reason, _)| reason)
            .filter(|reason| pull::is_pull_failure(reason));
        waiting.or_else(|| self.job.annotation(keys::PULL_FAILED))
    }

    /// How far a failed apply came; nothing for other Jobs and for bookkept ones, whose records are
    /// already written.
    #[must_use]
    pub fn reach(&self) -> Option<Reach> {
        let failed_apply = self.op == Op::Apply && !self.outcome.is_success();
        (failed_apply && self.is_new()).then(|| {
            self.reading.map_or_else(
                || outcome::reach(&Reading::nothing(), self.lock_untouched),
                |reading| outcome::reach(reading, self.lock_untouched),
            )
        })
    }

    /// Whether it is an apply that remediates drift.
    #[must_use]
    pub fn is_remediation(&self) -> bool {
        self.op == Op::Apply && self.job.is_marked(keys::DRIFT_REMEDIATION)
    }

    /// The annotations that go on the Job once the status patch that records it succeeded
    /// (jobs.md §6.2, lifecycle.md §9).
    #[must_use]
    pub fn marks(&self) -> BTreeMap<&'static str, String> {
        let mark = match self.outcome {
            Outcome::Interrupted => Some(keys::INTERRUPTED),
            Outcome::Blocked => Some(keys::DESTRUCTIVE_PLAN_BLOCKED),
            Outcome::PlanChanged => Some(keys::PLAN_CHANGED),
            Outcome::PlanUnreadable => Some(keys::PLAN_UNREADABLE),
            Outcome::Succeeded | Outcome::Deadline | Outcome::Failed => None,
        };
        let mut marks: BTreeMap<&'static str, String> = [Some(keys::BOOKKEPT), mark]
            .into_iter()
            .flatten()
            .map(|key| (key, "true".to_owned()))
            .collect();
        if let Some(plan) = self.plan() {
            marks.insert(keys::PLAN_HASH, plan.hash.clone());
        }
        marks
    }
}

/// A blocked apply that is the newest one (approvals.md §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// Inputs hash on the Job.
    pub inputs_hash: Option<&'a str>,
    /// Approval hash on the Job (guarded pool apply).
    pub approval_hash: Option<&'a str>,
    /// When it finished.
    pub at: Timestamp,
}

/// Records besides the Jobs that keep an apply due (jobs.md §3, "lastApplyFailed").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ApplyRecords {
    /// A pool's exports change was applied in part.
    pub partial_exports: bool,
    /// An interrupted or unconfirmed apply is recorded.
    pub interrupted_apply: bool,
}

/// The Jobs of one object, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct History<'a> {
    owned: Vec<&'a JobFacts>,
    finished: Vec<Finished<'a>>,
    running: Vec<&'a JobFacts>,
}

impl<'a> History<'a> {
    /// Sorts and judges the Jobs that the object with this UID controls; a namesake's are left out
    /// (jobs.md §7.1, J11).
    ///
    /// `readings` holds what was read of finished Jobs that are not bookkept, by Job UID; `lock` is the
    /// state lock Lease as read now, nothing when it was not read or could not be.
    #[must_use]
    pub fn new(
        jobs: &'a [JobFacts],
        owner_uid: &str,
        readings: &'a Readings,
        lock: Option<&LockVersion>,
    ) -> Self {
        let owned: Vec<&JobFacts> = jobs
            .iter()
            .filter(|job| job.is_controlled_by(owner_uid))
            .collect();
        let mut finished: Vec<Finished<'_>> = owned
            .iter()
            .filter_map(|job| judge(job, readings, lock))
            .collect();
        finished.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| b.job.name.cmp(&a.job.name)));
        let mut running: Vec<&JobFacts> = owned
            .iter()
            .copied()
            .filter(|job| !job.state.is_finished())
            .collect();
        running.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.name.cmp(&a.name)));
        Self {
            owned,
            finished,
            running,
        }
    }

    /// Finished Jobs, newest first, ties by name descending (jobs.md §7.1).
    #[must_use]
    pub fn finished(&self) -> &[Finished<'a>] {
        &self.finished
    }

    /// Finished Jobs that are not bookkept, newest first.
    pub fn unread(&self) -> impl Iterator<Item = &Finished<'a>> {
        self.finished.iter().filter(|finished| finished.is_new())
    }

    /// The active Job: the newest unfinished one by creation (jobs.md §7.1).
    #[must_use]
    pub fn active(&self) -> Option<&'a JobFacts> {
        self.running.first().copied()
    }

    /// A Job of the object by its name, finished or not.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&'a JobFacts> {
        self.owned.iter().copied().find(|job| job.name == name)
    }

    /// The attempt number of the next Job of an operation (naming.md §5.4).
    #[must_use]
    pub fn next_attempt(&self, op: Op) -> i32 {
        next_attempt(
            self.owned
                .iter()
                .filter(|job| job.op == Some(op))
                .filter_map(|job| job.labels.get(key::ATTEMPT))
                .map(String::as_str),
        )
    }

    /// The newest finished Job of any of these operations.
    #[must_use]
    pub fn newest(&self, ops: &[Op]) -> Option<&Finished<'a>> {
        self.finished
            .iter()
            .find(|finished| ops.contains(&finished.op))
    }

    /// The newest success of an operation.
    #[must_use]
    pub fn newest_success(&self, op: Op) -> Option<&Finished<'a>> {
        self.of(op).find(|finished| finished.outcome.is_success())
    }

    /// Counted failures of an operation since its newest success: interrupted (unless by the deadline),
    /// blocked and plan-changed ones are skipped (jobs.md §7.3, J4, J21).
    #[must_use]
    pub fn failures(&self, op: Op) -> FailureRun {
        let mut run = FailureRun::default();
        for finished in self
            .since_success(op)
            .filter(|finished| finished.outcome.counts())
        {
            run.count += 1;
            run.last = run.last.or(Some(finished.at));
        }
        run
    }

    /// Retry number of a finished Job: 1 + older failed Jobs of its operation since that operation's
    /// previous success, blocked and plan-changed ones not counted (jobs.md §7.3).
    #[must_use]
    pub fn retry_number(&self, of: &Finished<'_>) -> u32 {
        self.of(of.op)
            .skip_while(|finished| finished.job.uid != of.job.uid)
            .skip(1)
            .take_while(|finished| !finished.outcome.is_success())
            .filter(|finished| !finished.outcome.awaits_approval())
            .fold(1, |number: u32, _| number.saturating_add(1))
    }

    /// Whether an apply is due because the newest one failed (jobs.md §3).
    ///
    /// A blocked or plan-changed apply is no failure, unless it started while one was due after a
    /// failure; a remediation never is; a recorded partial or interrupted apply always is.
    #[must_use]
    pub fn last_apply_failed(&self, records: ApplyRecords) -> bool {
        let by_job = self.newest(&[Op::Apply]).is_some_and(|newest| {
            if newest.outcome.awaits_approval() {
                newest.job.is_marked(keys::AFTER_FAILED_APPLY)
            } else {
                !newest.outcome.is_success() && !newest.is_remediation()
            }
        });
        by_job || records.partial_exports || records.interrupted_apply
    }

    /// Failed applies (not blocked, not plan-changed) that finished after the last successful drift
    /// check, newest first up to an apply success: the remediation cap counts them (jobs.md §8.2, J10).
    #[must_use]
    pub fn remediation_failures(&self, last_drift_check: Option<Timestamp>) -> u32 {
        self.since_success(Op::Apply)
            .take_while(|finished| last_drift_check.is_none_or(|check| finished.at > check))
            .filter(|finished| !finished.outcome.awaits_approval())
            .fold(0, |count: u32, _| count.saturating_add(1))
    }

    /// The newest finished apply, when it was blocked.
    #[must_use]
    pub fn blocked(&self) -> Option<Blocked<'a>> {
        let newest = self.newest(&[Op::Apply])?;
        (newest.outcome == Outcome::Blocked).then(|| Blocked {
            inputs_hash: newest.job.annotation(keys::INPUTS_HASH),
            approval_hash: newest.job.annotation(keys::APPROVAL_HASH),
            at: newest.at,
        })
    }

    /// Inputs hash whose newest plan changes nothing, so that it needs no approval (approvals.md §4.3).
    ///
    /// `empty_hash` is the fingerprint of the empty plan.
    #[must_use]
    pub fn empty_plan(&self, empty_hash: &str) -> Option<&'a str> {
        let newest = self.newest(&[Op::Plan, Op::Apply])?;
        let planned = match newest.op {
            Op::Plan => newest.outcome.is_success(),
            _ => newest.outcome == Outcome::PlanChanged,
        };
        (planned && newest.plan_hash() == Some(empty_hash))
            .then(|| newest.job.annotation(keys::INPUTS_HASH))
            .flatten()
    }

    /// The Job whose inputs hash the state takes over: the newer of the newest apply and the newest
    /// restore, each only if it succeeded (lifecycle.md §10.5).
    #[must_use]
    pub fn adoption_source(&self) -> Option<&Finished<'a>> {
        let succeeded = |op| {
            self.newest(&[op])
                .filter(|newest| newest.outcome.is_success())
        };
        match (succeeded(Op::Apply), succeeded(Op::Restore)) {
            (Some(apply), Some(restore)) if restore.at > apply.at => Some(restore),
            (apply, restore) => apply.or(restore),
        }
    }

    fn of(&self, op: Op) -> impl Iterator<Item = &Finished<'a>> {
        self.finished
            .iter()
            .filter(move |finished| finished.op == op)
    }

    fn since_success(&self, op: Op) -> impl Iterator<Item = &Finished<'a>> {
        self.of(op)
            .take_while(|finished| !finished.outcome.is_success())
    }
}

fn judge<'a>(
    job: &'a JobFacts,
    readings: &'a Readings,
    lock: Option<&LockVersion>,
) -> Option<Finished<'a>> {
    let op = job.op?;
    let reading = readings.get(&job.uid).filter(|_| !job.is_bookkept());
    Some(Finished {
        job,
        op,
        at: job.state.finished_at()?,
        outcome: Outcome::of(job, op, reading)?,
        reading,
        lock_untouched: outcome::lock_untouched(job, lock),
    })
}

#[cfg(test)]
mod tests;
