//! The per-run Secret: a pod cannot start before it exists, so it is the fencing token of its Job
//! (README decision 3), and the call that deletes it counts the Job exactly once (S-18).

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::PartialObjectMeta;

use super::run::{Provenance, RunInputs, entries, files_of};
use super::{SecretMeta, metas, secrets};
use crate::client::{Access, ApiError, Class, Deletion, Guard};
use crate::names::{JobName, key, per_run_secret};

/// Data key that names the Job the Secret is meant for; the leading dot keeps it out of the runner's
/// copy of the files (README decision 10).
pub const JOB_UID_KEY: &str = ".job-uid";

/// A Job that exists: the owner of a per-run Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: JobName,
    /// Its UID.
    pub uid: String,
}

impl JobRef {
    fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            name: self.name.to_string(),
            uid: self.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    /// Whether the per-run Secret of this name is this Job's own, and not one that an earlier Job of
    /// the same name left (naming.md §6: exactly one owner, the Job).
    fn owns(&self, secret: &ObjectMeta) -> bool {
        secret
            .owner_references
            .iter()
            .flatten()
            .any(|owner| owner.uid == self.uid)
    }
}

/// The per-run Secret of `job`: the two files and the Job's UID, owned by the Job alone (naming.md §6).
#[must_use]
pub fn build(job: &JobRef, inputs: &RunInputs) -> Secret {
    let mut data: BTreeMap<String, ByteString> = entries(&inputs.files)
        .into_iter()
        .map(|(key, bytes)| (key.to_owned(), ByteString(bytes.to_vec())))
        .collect();
    data.insert(
        JOB_UID_KEY.to_owned(),
        ByteString(job.uid.clone().into_bytes()),
    );
    let annotations = inputs
        .provenance
        .annotations()
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
        .collect();
    Secret {
        metadata: ObjectMeta {
            name: Some(per_run_secret(&job.name)),
            namespace: Some(job.namespace.clone()),
            labels: Some(BTreeMap::from([(
                key::MANAGED.to_owned(),
                "true".to_owned(),
            )])),
            annotations: Some(annotations),
            owner_references: Some(vec![job.owner_reference()]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// What became of a per-run Secret that had to exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// This call made it.
    Created,
    /// It was there, owned by this Job.
    Kept,
    /// One that an earlier Job of this name left was replaced.
    Replaced,
    /// Nothing was written: the Job of this name is not the one meant any more. `live` is the UID
    /// found, `None` when no Job of the name exists.
    JobChanged {
        /// UID of the Job that now has the name.
        live: Option<String>,
    },
}

/// Makes the per-run Secret of a Job that exists and passed the fence (jobs.md §5.2): create; one
/// owned by this Job is kept; one of an earlier Job is deleted and made anew, but only while the
/// live Job of the name still is this one.
///
/// # Errors
/// Any refused or unanswered call. The Job then waits for its Secret and the next pass repairs.
pub async fn ensure(
    access: &Access,
    job: &JobRef,
    inputs: &RunInputs,
) -> Result<Ensured, ApiError> {
    let api = secrets(access, &job.namespace);
    let wanted = build(job, inputs);
    let refused = match access.create(&api, &wanted).await {
        Ok(_) => return Ok(Ensured::Created),
        Err(error) if error.class() == Class::AlreadyExists => error,
        Err(error) => return Err(error),
    };
    let Some(existing) = read_metadata(access, &job.namespace, &job.name).await? else {
        // Gone between the two calls: whoever deleted it decides; the next pass looks again.
        return Err(refused);
    };
    if job.owns(&existing) {
        return Ok(Ensured::Kept);
    }
    let live = live_job_uid(access, &job.namespace, &job.name).await?;
    if live.as_deref() != Some(job.uid.as_str()) {
        return Ok(Ensured::JobChanged { live });
    }
    delete_as_read(access, &job.namespace, &existing).await?;
    access
        .create(&api, &wanted)
        .await
        .map(|_| Ensured::Replaced)
}

/// What stood in the way of a Job about to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// No Secret of the name.
    None,
    /// One that an earlier Job left; it is deleted.
    Deleted,
    /// A Job of the name exists, or was made meanwhile: the create will meet it.
    JobExists,
}

/// Removes the per-run Secret that an earlier Job of this name left, before a Job is created: the new
/// pod would mount it and start before the fence (jobs.md §5 step 6).
///
/// # Errors
/// Any failed read, and a delete that was refused or lost a race: no Job may be created then.
pub async fn clear_leftover(
    access: &Access,
    namespace: &str,
    job: &JobName,
) -> Result<Leftover, ApiError> {
    let Some(existing) = read_metadata(access, namespace, job).await? else {
        return Ok(Leftover::None);
    };
    if live_job_uid(access, namespace, job).await?.is_some() {
        return Ok(Leftover::JobExists);
    }
    Ok(match delete_as_read(access, namespace, &existing).await? {
        Deletion::Deleted | Deletion::Gone => Leftover::Deleted,
        // Another Secret stands there now: a Job of the name was created and armed meanwhile.
        Deletion::Changed => Leftover::JobExists,
    })
}

/// What bookkeeping's delete did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// This very call deleted the Secret: the Job is counted now, and only now (S-18).
    Now,
    /// It was gone before, or belongs to a newer Job of the name: somebody else counted, or will.
    Elsewhere,
}

/// Deletes the per-run Secret of a finished Job, when it still is that Job's own (jobs.md §7.2 step 3).
///
/// # Errors
/// Any failed call. A delete without an answer may have happened; the Job is then counted by nobody,
/// never twice.
pub async fn delete_of_finished(access: &Access, job: &JobRef) -> Result<Counted, ApiError> {
    let Some(existing) = read_metadata(access, &job.namespace, &job.name).await? else {
        return Ok(Counted::Elsewhere);
    };
    // One that already waits for a foreign finalizer was deleted, and counted, by an earlier call.
    if !job.owns(&existing) || existing.deletion_timestamp.is_some() {
        return Ok(Counted::Elsewhere);
    }
    let guard = Guard::uid(existing.uid.as_deref().unwrap_or_default());
    let name = per_run_secret(&job.name);
    Ok(
        match access
            .delete(&secrets(access, &job.namespace), &name, &guard)
            .await?
        {
            Deletion::Deleted => Counted::Now,
            Deletion::Gone | Deletion::Changed => Counted::Elsewhere,
        },
    )
}

/// The inputs a Job was given, read live from its per-run Secret: what a successful apply is promoted
/// from. `None` when there is no such Secret, or it is not this Job's own (S-20).
///
/// # Errors
/// When the read fails.
pub async fn inputs_of(access: &Access, job: &JobRef) -> Result<Option<RunInputs>, ApiError> {
    let api = secrets(access, &job.namespace);
    let found = access.get(&api, &per_run_secret(&job.name)).await?;
    Ok(found
        .filter(|secret| job.owns(&secret.metadata))
        .and_then(|secret| {
            Some(RunInputs {
                files: files_of(secret.data.as_ref())?,
                provenance: Provenance::from_annotations(secret.metadata.annotations.as_ref()),
            })
        }))
}

/// Whether a per-run Secret of the Job's name exists, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// None: no pod of the Job can start.
    Missing,
    /// The Job's own: it is armed.
    Own,
    /// Another Job's of the same name.
    Other,
}

/// Looks, live, whether a Job is armed (stuck rule and repair, jobs.md §5.3 and §10).
///
/// # Errors
/// When the read fails; that proves nothing about the Job.
pub async fn presence(access: &Access, job: &JobRef) -> Result<Presence, ApiError> {
    Ok(
        match read_metadata(access, &job.namespace, &job.name).await? {
            None => Presence::Missing,
            Some(existing) if job.owns(&existing) => Presence::Own,
            Some(_) => Presence::Other,
        },
    )
}

async fn read_metadata(
    access: &Access,
    namespace: &str,
    job: &JobName,
) -> Result<Option<ObjectMeta>, ApiError> {
    let found: Option<SecretMeta> = access
        .get(&metas(access, namespace), &per_run_secret(job))
        .await?;
    Ok(found.map(|secret| secret.metadata))
}

async fn live_job_uid(
    access: &Access,
    namespace: &str,
    job: &JobName,
) -> Result<Option<String>, ApiError> {
    let api = access.api::<PartialObjectMeta<Job>>(namespace);
    let found = access.get(&api, job.as_str()).await?;
    Ok(found.map(|job| job.metadata.uid.unwrap_or_default()))
}

/// Deletes what was read, by its uid. One that changed hands meanwhile answers the next create.
async fn delete_as_read(
    access: &Access,
    namespace: &str,
    read: &ObjectMeta,
) -> Result<Deletion, ApiError> {
    let guard = Guard::uid(read.uid.as_deref().unwrap_or_default());
    access
        .delete(
            &secrets(access, namespace),
            read.name.as_deref().unwrap_or_default(),
            &guard,
        )
        .await
}
