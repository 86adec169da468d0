//! The lasting consequences of finished Jobs: records, per-run Secrets, the count (jobs.md §7.2).

use crate::api::keys::annotations;
use crate::client::{Access, ApiError};
use crate::image;
use crate::jobs::facts::JobFacts;
use crate::jobs::history::{Finished, History};
use crate::jobs::outcome::Reach;
use crate::names::{JobName, Op};
use crate::operator::secrets::per_run::{Counted, JobRef};
use crate::operator::secrets::records::{
    Interruption, Marks, Promotion, Record, Records, mark, promote,
};
use crate::operator::secrets::{Owner, RunInputs, per_run};

/// What settling did, for events, metrics and the release of leases.
#[derive(Debug, Default)]
pub struct Settled {
    /// Uids of the Jobs counted now: this very pass deleted their per-run Secret.
    pub counted: Vec<String>,
    /// The digest pinned by a promotion in this pass, when it is another than before.
    pub pinned: Option<String>,
    /// Jobs that succeeded without a digest to pin.
    pub without_digest: Vec<String>,
    /// Jobs that succeeded while nothing holds their inputs.
    pub without_inputs: Vec<String>,
}

/// Settles every finished Job that is not bookkept, oldest first: an apply that succeeded is promoted
/// to the applied record, one that failed leaves its marks, and the per-run Secrets go. `records` is
/// kept up to date.
///
/// # Errors
/// Any failed request; the per-run Secret of the Job it concerned stays, and the next pass settles
/// again.
pub async fn settle(
    access: &Access,
    owner: &Owner,
    history: &History<'_>,
    records: &mut Records,
) -> Result<Settled, ApiError> {
    let mut settled = Settled::default();
    let unread: Vec<&Finished<'_>> = history.unread().collect();
    for finished in unread.iter().rev() {
        if finished.op == Op::Apply {
            if finished.outcome.is_success() {
                succeeded(access, owner, finished, records, &mut settled).await?;
            } else {
                failed(access, owner, finished, records).await?;
            }
        }
        let job = reference(owner, finished.job);
        if per_run::delete_of_finished(access, &job).await? == Counted::Now {
            settled.counted.push(job.uid);
        }
    }
    Ok(settled)
}

async fn succeeded(
    access: &Access,
    owner: &Owner,
    finished: &Finished<'_>,
    records: &mut Records,
    settled: &mut Settled,
) -> Result<(), ApiError> {
    let job = reference(owner, finished.job);
    let already = records.applied.as_ref().and_then(Record::job).as_ref() == Some(&job.name);
    if !already {
        match inputs(access, &job, records).await? {
            None => settled.without_inputs.push(job.name.to_string()),
            Some(inputs) => {
                let digest = digest(finished);
                let pinned = records.applied.as_ref().and_then(Record::image_digest);
                let unchanged = digest.is_some() && digest.as_deref() == pinned;
                let promoted = promote(
                    access,
                    owner,
                    records.applied.as_ref(),
                    &job.name,
                    &inputs,
                    digest.as_deref(),
                )
                .await?;
                match promoted {
                    Promotion::Written(record) => {
                        records.applied = Some(*record);
                        match digest {
                            Some(_) if unchanged => {}
                            Some(digest) => settled.pinned = Some(digest),
                            None => settled.without_digest.push(job.name.to_string()),
                        }
                    }
                    Promotion::Already => {}
                    Promotion::Refused(error) => {
                        tracing::warn!(Job = format!("{}/{}", owner.namespace(), job.name), error = %error, "the applied record was refused");
                        settled.without_inputs.push(job.name.to_string());
                    }
                }
            }
        }
    }
    let interrupted = records.interrupted_apply();
    let settles = finished
        .job
        .annotation(annotations::AFTER_INTERRUPTED_APPLY)
        == interrupted.as_ref().map(JobName::as_str)
        && interrupted.is_some();
    records.attempt = mark(
        access,
        owner,
        records.attempt.as_ref(),
        &Marks::apply_succeeded(settles),
    )
    .await?;
    Ok(())
}

async fn failed(
    access: &Access,
    owner: &Owner,
    finished: &Finished<'_>,
    records: &mut Records,
) -> Result<(), ApiError> {
    let job = JobName::new(finished.job.name.clone());
    let marks = match finished.reach() {
        None | Some(Reach::Nothing) => return Ok(()),
        Some(Reach::Apply) => Marks::default(),
        Some(Reach::Unconfirmed) => Marks {
            interruption: Some(Interruption::Record(job.clone())),
            ..Marks::default()
        },
    };
    let attempted = records.attempt.as_ref().and_then(Record::job).as_ref() == Some(&job);
    let marks = Marks {
        may_have_applied: attempted.then_some(true),
        ..marks
    };
    records.attempt = mark(access, owner, records.attempt.as_ref(), &marks).await?;
    Ok(())
}

/// The inputs of a successful apply: from its per-run Secret, else from the attempt record that names
/// it (jobs.md §6.3).
async fn inputs(
    access: &Access,
    job: &JobRef,
    records: &Records,
) -> Result<Option<RunInputs>, ApiError> {
    if let Some(inputs) = per_run::inputs_of(access, job).await? {
        return Ok(Some(inputs));
    }
    let attempt = records
        .attempt
        .as_ref()
        .filter(|record| record.job().as_ref() == Some(&job.name));
    Ok(attempt.and_then(Record::inputs))
}

/// The digest the kubelet ran, from the pod that was read.
fn digest(finished: &Finished<'_>) -> Option<String> {
    let pod = finished.reading?.pod.as_ref()?;
    image::pin(&pod.image_id, &pod.image)
}

fn reference(owner: &Owner, job: &JobFacts) -> JobRef {
    JobRef {
        namespace: owner.namespace().to_owned(),
        name: JobName::new(job.name.clone()),
        uid: job.uid.clone(),
    }
}
