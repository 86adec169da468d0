//! What the finished Jobs say in the conditions (jobs.md §7.4, lifecycle.md §14.3).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::conditions::{
    ApplyJobSucceeded, DriftJobSucceeded, RestoreJobSucceeded, State, Verdict,
};
use crate::api::keys::annotations as keys;
use crate::api::{LastRun, RunErrorKind};
use crate::names::Op;

use super::history::{Finished, History};
use super::outcome::{Outcome, Reach};
use super::pull::PullFailure;
use super::result::ErrorKind;

/// The way out of a deletion that cannot go on.
const RETAIN_HINT: &str = "deletionPolicy: Retain ends the deletion without a destroy";

/// What becomes of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// It stays as it is stored.
    Keep,
    /// It is set.
    Set(Verdict),
    /// It goes.
    Remove,
}

/// The Job a condition's message is about: the message starts `Job <name>` and ends there or goes on
/// after a colon; nothing when it does not (conditions-events.md §1.1).
#[must_use]
pub fn named_job(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("Job ")?;
    let name = rest.split_once(':').map_or(rest, |(name, _)| name);
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

/// A message about a Job, in the form that [`named_job`] reads.
#[must_use]
pub fn job_message(job: &str, detail: Option<&str>) -> String {
    match detail.map(str::trim).filter(|detail| !detail.is_empty()) {
        Some(detail) => format!("Job {job}: {detail}"),
        None => format!("Job {job}"),
    }
}

/// Waits for a lease, a Job slot or a moved Job: reasons that end with the wait and leave nothing to keep.
#[must_use]
pub fn is_wait(reason: &str) -> bool {
    matches!(
        reason,
        "WaitingForRunLease"
            | "WaitingForClusterOperation"
            | "WaitingForMachineOperations"
            | "WaitingForJobSlot"
            | "WaitingForMovedJob"
    )
}

/// `ApplyJobSucceeded` from the newest finished apply or destroy; a newer failed plan stands for the
/// apply it would have planned (jobs.md §7.4).
///
/// `stored` is the condition as it is; `last_run` is `status.lastRun` as it is, from which a bookkept
/// Job's details are taken again after a wait hid them. While `deleting`, an apply that stopped for an
/// approval says that it needs none any more.
#[must_use]
pub fn apply(
    history: &History<'_>,
    stored: Option<&Condition>,
    last_run: Option<&LastRun>,
    deleting: bool,
) -> Report {
    let base = history.newest(&[Op::Apply, Op::Destroy, Op::Plan]);
    let base = base.filter(|newest| newest.op != Op::Plan || !newest.outcome.is_success());
    let base = base.or_else(|| history.newest(&[Op::Apply, Op::Destroy]));
    match base {
        None if is_worth_keeping(stored) => Report::Keep,
        None => Report::Set(ApplyJobSucceeded::NoApplyYet.plain()),
        Some(job) if deleting && job.outcome.awaits_approval() => Report::Set(moot_approval(job)),
        Some(job) if is_told(job, stored) => Report::Keep,
        Some(job) => Report::Set(apply_verdict(job, stored, last_run)),
    }
}

/// A deleting object applies nothing, so a plan that stopped an apply needs nobody any more.
fn moot_approval(job: &Finished<'_>) -> Verdict {
    let message = job_message(
        &job.job.name,
        Some(
            "nothing was applied; the object is being deleted: no apply runs and nothing needs an approval",
        ),
    );
    match job.outcome {
        Outcome::PlanChanged => ApplyJobSucceeded::PlanChanged.with(message),
        _ => ApplyJobSucceeded::DestructivePlanBlocked.with(message),
    }
}

/// First match (jobs.md §7.4, table).
fn apply_verdict(
    job: &Finished<'_>,
    stored: Option<&Condition>,
    last_run: Option<&LastRun>,
) -> Verdict {
    let message = |detail: Option<String>| job_message(&job.job.name, detail.as_deref());
    let failure = || message(failure_detail(job, last_run));
    match job.outcome {
        Outcome::Blocked => {
            let detail =
                summary(job, last_run).unwrap_or_else(|| "the plan deletes or replaces".to_owned());
            let again = if job.plan_hash().is_none() {
                "; the runner reported no plan: it plans again in 10 minutes"
            } else {
                ""
            };
            ApplyJobSucceeded::DestructivePlanBlocked.with(message(Some(format!(
                "{detail}; nothing was applied{again}"
            ))))
        }
        Outcome::PlanChanged => {
            let detail = summary(job, last_run).unwrap_or_else(|| {
                "the approved plan no longer fits, other changes were planned".to_owned()
            });
            ApplyJobSucceeded::PlanChanged
                .with(message(Some(format!("{detail}; nothing was applied"))))
        }
        Outcome::Succeeded if job.op == Op::Destroy => {
            ApplyJobSucceeded::DestroySucceeded.with(message(None))
        }
        Outcome::Succeeded => ApplyJobSucceeded::ApplySucceeded.with(message(None)),
        _ if job.pull_failure().is_some() => {
            ApplyJobSucceeded::ImagePullFailed.with(pull_message(job, stored))
        }
        Outcome::Deadline => ApplyJobSucceeded::JobDeadlineExceeded.with(failure()),
        _ if is_image_invalid(job, last_run) => ApplyJobSucceeded::ImageInvalid.with(failure()),
        _ if job.op == Op::Destroy => ApplyJobSucceeded::DestroyFailed.with(failure()),
        _ => ApplyJobSucceeded::ApplyFailed.with(failure()),
    }
}

/// Whether the condition stands as it is while the active Job repairs what the Job it names left: it
/// holds until an apply started after that one reports its own outcome (lifecycle.md §14.3).
#[must_use]
pub fn is_being_repaired(history: &History<'_>, stored: Option<&Condition>) -> bool {
    let repairs = history
        .active()
        .filter(|job| job.op == Some(Op::Apply))
        .and_then(|job| job.annotation(keys::AFTER_INTERRUPTED_APPLY));
    let failed = stored.filter(|stored| stored.reason == ApplyJobSucceeded::ApplyFailed.reason());
    repairs.is_some() && repairs == failed.and_then(|stored| named_job(&stored.message))
}

/// `ApplyJobSucceeded` after a blocked apply: other inputs are due now, so that the block does not
/// stand any more, and what came before it does; or they are those of the blocked apply again
/// (lifecycle.md §14.3, "lifted block"). Nothing without a blocked apply. `current` is the hash of the
/// current inputs.
#[must_use]
pub fn block(
    history: &History<'_>,
    stored: Option<&Condition>,
    last_run: Option<&LastRun>,
    current: &str,
) -> Option<Verdict> {
    let job = history
        .newest(&[Op::Apply])
        .filter(|newest| newest.outcome == Outcome::Blocked)?;
    if job.job.annotation(keys::INPUTS_HASH) == Some(current) {
        let told = stored.is_some_and(|stored| {
            stored.reason == ApplyJobSucceeded::DestructivePlanBlocked.reason()
        });
        return (!told).then(|| apply_verdict(job, stored, last_run));
    }
    let before = history
        .finished()
        .iter()
        .filter(|finished| finished.op == Op::Apply && !finished.outcome.awaits_approval())
        .find(|finished| finished.at <= job.at);
    let lifted = |what: String| {
        let detail = format!("its block does not stand any more, the inputs changed since; {what}");
        job_message(&job.job.name, Some(&detail))
    };
    Some(match before {
        Some(before) if !before.outcome.is_success() => {
            ApplyJobSucceeded::ApplyFailed.with(lifted(format!(
                "the apply before it, Job {}, failed",
                before.job.name
            )))
        }
        _ => ApplyJobSucceeded::ApplySucceeded
            .with(lifted("the last successful apply stands".to_owned())),
    })
}

/// `DriftJobSucceeded` from the newest finished drift or refresh; a running drift Job says so, a running
/// refresh does not, it would flap (jobs.md §7.4, drift-health.md §3).
#[must_use]
pub fn drift(
    history: &History<'_>,
    stored: Option<&Condition>,
    last_run: Option<&LastRun>,
) -> Report {
    if let Some(active) = history.active().filter(|job| job.op == Some(Op::Drift)) {
        let message = job_message(&active.name, None);
        return Report::Set(DriftJobSucceeded::DriftJobRunning.with(message));
    }
    let stored = stored.filter(|stored| stored.reason != "DriftJobRunning");
    let Some(job) = history.newest(&[Op::Drift, Op::Refresh]) else {
        return if is_worth_keeping(stored) {
            Report::Keep
        } else {
            Report::Set(DriftJobSucceeded::DriftNotChecked.plain())
        };
    };
    if is_told(job, stored) {
        return Report::Keep;
    }
    let message = |detail: Option<String>| job_message(&job.job.name, detail.as_deref());
    Report::Set(if job.outcome.is_success() {
        DriftJobSucceeded::DriftChecked.with(message(None))
    } else if job.pull_failure().is_some() {
        DriftJobSucceeded::ImagePullFailed.with(pull_message(job, stored))
    } else if job.outcome == Outcome::Deadline {
        DriftJobSucceeded::DriftJobDeadlineExceeded.with(message(failure_detail(job, last_run)))
    } else {
        DriftJobSucceeded::DriftJobFailed.with(message(failure_detail(job, last_run)))
    })
}

/// `RestoreJobSucceeded` from the newest finished restore, its deadline included; a wait that is over
/// and left no Job goes (jobs.md §7.4, leases.md §7).
#[must_use]
pub fn restore(
    history: &History<'_>,
    stored: Option<&Condition>,
    last_run: Option<&LastRun>,
) -> Report {
    let waited = stored.is_some_and(|stored| is_wait(&stored.reason));
    let Some(job) = history.newest(&[Op::Restore]) else {
        return if waited { Report::Remove } else { Report::Keep };
    };
    // A bookkept restore was told when it was read; since then a request that names no backup may have
    // been told.
    if !job.is_new() && stored.is_some() && !waited {
        return Report::Keep;
    }
    let message = |detail: Option<String>| job_message(&job.job.name, detail.as_deref());
    Report::Set(if job.outcome.is_success() {
        RestoreJobSucceeded::StateRestored.with(message(None))
    } else if job.pull_failure().is_some() {
        RestoreJobSucceeded::ImagePullFailed.with(pull_message(job, stored))
    } else {
        RestoreJobSucceeded::RestoreFailed.with(message(failure_detail(job, last_run)))
    })
}

/// `ApplyJobSucceeded` after an apply Job vanished while it ran; it stands until an apply started after
/// it reports (jobs.md §8.3).
#[must_use]
pub fn vanished_apply(job: &str, guarded: bool) -> Verdict {
    let guard = if guarded {
        "it is guarded: a plan that deletes or replaces waits for an approval"
    } else {
        "it is not guarded"
    };
    ApplyJobSucceeded::ApplyFailed.with(format!(
        "Job {job}: disappeared while it ran and may have applied part of its change; \
         an apply of the current inputs is due, {guard}"
    ))
}

/// The condition of a running Job whose image cannot be pulled (jobs.md §9). `op` says on which
/// condition it goes.
#[must_use]
pub fn pull_failed(op: Op, job: &str, failure: &PullFailure) -> Verdict {
    let detail = pull_detail(op, &format!("image {}", failure.image), &failure.reason);
    let message = job_message(job, Some(&detail));
    match op {
        Op::Apply | Op::Plan | Op::Destroy => ApplyJobSucceeded::ImagePullFailed.with(message),
        Op::Drift | Op::Refresh => DriftJobSucceeded::ImagePullFailed.with(message),
        Op::Restore => RestoreJobSucceeded::ImagePullFailed.with(message),
    }
}

/// A wait for a lease or slot, on the condition of the operation; nothing for a reason the condition
/// does not know (leases.md §7).
#[must_use]
pub fn wait(op: Op, reason: &str, message: &str) -> Option<Verdict> {
    let verdict = match op {
        Op::Apply | Op::Plan | Op::Destroy => match reason {
            "WaitingForRunLease" => ApplyJobSucceeded::WaitingForRunLease,
            "WaitingForClusterOperation" => ApplyJobSucceeded::WaitingForClusterOperation,
            "WaitingForMachineOperations" => ApplyJobSucceeded::WaitingForMachineOperations,
            "WaitingForJobSlot" => ApplyJobSucceeded::WaitingForJobSlot,
            _ => return None,
        }
        .with(message),
        Op::Drift | Op::Refresh => match reason {
            "WaitingForRunLease" => DriftJobSucceeded::WaitingForRunLease,
            "WaitingForJobSlot" => DriftJobSucceeded::WaitingForJobSlot,
            _ => return None,
        }
        .with(message),
        Op::Restore => match reason {
            "WaitingForRunLease" => RestoreJobSucceeded::WaitingForRunLease,
            "WaitingForClusterOperation" => RestoreJobSucceeded::WaitingForClusterOperation,
            "WaitingForMachineOperations" => RestoreJobSucceeded::WaitingForMachineOperations,
            "WaitingForJobSlot" => RestoreJobSucceeded::WaitingForJobSlot,
            _ => return None,
        }
        .with(message),
    };
    Some(verdict)
}

fn is_worth_keeping(stored: Option<&Condition>) -> bool {
    stored.is_some_and(|stored| !is_wait(&stored.reason))
}

/// A bookkept Job that the stored condition names was told already; the condition stays word for word.
fn is_told(job: &Finished<'_>, stored: Option<&Condition>) -> bool {
    !job.is_new()
        && stored.is_some_and(|stored| named_job(&stored.message) == Some(job.job.name.as_str()))
}

/// What is known of an error: from the result, else from the recorded last run of the same Job.
struct Told<'a> {
    kind: &'a str,
    step: Option<&'a str>,
    summary: &'a str,
    resource: Option<&'a str>,
}

fn told<'a>(job: &Finished<'a>, last_run: Option<&'a LastRun>) -> Option<Told<'a>> {
    if let Some(result) = job.result() {
        let error = result.error.as_ref()?;
        return Some(Told {
            kind: error.kind.as_str(),
            step: error.step.as_deref(),
            summary: &error.summary,
            resource: error.resources.first().map(String::as_str),
        });
    }
    let error = last_run
        .filter(|run| run.job == job.job.name)?
        .error
        .as_ref()?;
    Some(Told {
        kind: error.kind.as_str(),
        step: error.step.as_deref(),
        summary: error.summary.as_deref().unwrap_or_default(),
        resource: error.resources.first().map(String::as_str),
    })
}

fn summary(job: &Finished<'_>, last_run: Option<&LastRun>) -> Option<String> {
    told(job, last_run)
        .map(|told| told.summary.trim().to_owned())
        .filter(|summary| !summary.is_empty())
}

fn is_image_invalid(job: &Finished<'_>, last_run: Option<&LastRun>) -> bool {
    told(job, last_run).is_some_and(|told| told.kind == RunErrorKind::ImageLayout.as_str())
}

/// The failed step and the first failing resource, else the summary; what is missing is said.
fn failure_detail(job: &Finished<'_>, last_run: Option<&LastRun>) -> Option<String> {
    let deadline = (job.outcome == Outcome::Deadline)
        .then(|| "it did not finish before its deadline".to_owned());
    let error = match told(job, last_run) {
        Some(told) if told.kind == ErrorKind::Interrupted.as_str() => deadline.is_none().then(|| {
            told.step.map_or_else(
                || "stopped from outside".to_owned(),
                |step| format!("stopped from outside in step {step}"),
            )
        }),
        Some(told) => Some(step_detail(&told)),
        None if job.outcome == Outcome::PlanUnreadable => {
            Some("it left no readable plan".to_owned())
        }
        None if !job.is_new() || deadline.is_some() => None,
        None if job.op == Op::Apply && job.reach() == Some(Reach::Unconfirmed) => Some(
            "it left no result after its runner may have started; it may have applied part of its change"
                .to_owned(),
        ),
        None => Some("it left no result".to_owned()),
    };
    let parts: Vec<String> = [deadline, error].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn step_detail(told: &Told<'_>) -> String {
    let what = told.resource.unwrap_or_else(|| told.summary.trim()).trim();
    match (told.step, what) {
        (Some(step), "") => format!("step {step} failed"),
        (Some(step), what) => format!("step {step} failed: {what}"),
        (None, "") => "the run failed".to_owned(),
        (None, what) => what.to_owned(),
    }
}

/// The message of a Job that ended because its image could not be pulled. What was told while it ran
/// stays word for word: it is one failure, and the pod that showed the image is gone by now.
fn pull_message(job: &Finished<'_>, stored: Option<&Condition>) -> String {
    let name = job.job.name.as_str();
    let told = stored.filter(|stored| {
        stored.reason == ApplyJobSucceeded::ImagePullFailed.reason()
            && named_job(&stored.message) == Some(name)
    });
    if let Some(told) = told {
        return told.message.clone();
    }
    let image = job
        .reading
        .and_then(|reading| reading.pod.as_ref())
        .map(|pod| format!("image {}", pod.image));
    let detail = pull_detail(
        job.op,
        image.as_deref().unwrap_or("its image"),
        job.pull_failure().unwrap_or_default(),
    );
    job_message(name, Some(&detail))
}

fn pull_detail(op: Op, image: &str, reason: &str) -> String {
    format!("{image} cannot be pulled ({reason}); {}", pull_hint(op))
}

fn pull_hint(op: Op) -> String {
    match op {
        Op::Apply | Op::Plan => {
            "an apply runs the image of the spec only: push it, correct spec.source.image or name pull \
             Secrets in spec.jobs.imagePullSecrets"
                .to_owned()
        }
        Op::Destroy => format!(
            "a destroy never runs another release: push the image back or name pull Secrets in \
             spec.jobs.imagePullSecrets; {RETAIN_HINT}"
        ),
        Op::Refresh | Op::Drift | Op::Restore => {
            "no other image is tried: push it back or name pull Secrets in spec.jobs.imagePullSecrets"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
