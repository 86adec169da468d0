//! Writing the attempt record and promoting a successful apply.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::run::{RunInputs, entries};
use super::super::{Owner, SecretPatch, secrets, with_protection};
use super::record::{APPLIED_OUTPUTS_KEY, Record, RecordKind};
use crate::api::keys::{annotations, finalizers};
use crate::client::{Access, ApiError, Class};
use crate::inputs::RENDERED_MAX;
use crate::names::JobName;

/// Writes the attempt record of an apply Job that exists (S-11); `current` is the record as read in
/// this pass. One that already names this Job with these inputs is not written again. Marks of
/// earlier attempts stay, and the applied record is not touched.
///
/// # Errors
/// A conflict when somebody wrote the record since it was read; `AlreadyExists` when there was none
/// then. The Job waits for its per-run Secret, and the next pass repairs.
pub async fn write_attempt(
    access: &Access,
    owner: &Owner,
    current: Option<&Record>,
    job: &JobName,
    inputs: &RunInputs,
) -> Result<Record, ApiError> {
    if let Some(current) = current
        && current.job().as_ref() == Some(job)
        && current.files.is_some()
        && current.inputs_hash() == inputs.provenance.inputs_hash
    {
        return Ok(current.clone());
    }
    write(
        access,
        owner,
        RecordKind::Attempt,
        current,
        &Content {
            job,
            inputs,
            digest: None,
        },
    )
    .await
}

/// What became of the inputs of a successful apply.
#[derive(Debug)]
pub enum Promotion {
    /// The applied record now is this.
    Written(Box<Record>),
    /// It named the Job already.
    Already,
    /// The API server refuses the record, by quota, policy or size: the pass goes on, with the
    /// Warning `AppliedInputsUnknown` (jobs.md §6.3).
    Refused(ApiError),
}

/// Promotes the inputs of a successful apply to the applied record, with the digest of the image it
/// ran (S-12); an unknown digest removes the one recorded. `inputs` come from the Job's per-run Secret
/// ([`per_run::inputs_of`](crate::operator::secrets::per_run::inputs_of)), else from the attempt record
/// naming the Job.
///
/// # Errors
/// Anything but a refusal: the per-run Secret stays and the next pass promotes again.
pub async fn promote(
    access: &Access,
    owner: &Owner,
    current: Option<&Record>,
    job: &JobName,
    inputs: &RunInputs,
    digest: Option<&str>,
) -> Result<Promotion, ApiError> {
    if current.and_then(Record::job).as_ref() == Some(job) {
        return Ok(Promotion::Already);
    }
    match write(
        access,
        owner,
        RecordKind::Applied,
        current,
        &Content {
            job,
            inputs,
            digest,
        },
    )
    .await
    {
        Ok(record) => Ok(Promotion::Written(Box::new(record))),
        Err(error) if error.class() == Class::Rejected => Ok(Promotion::Refused(error)),
        Err(error) => Err(error),
    }
}

struct Content<'a> {
    job: &'a JobName,
    inputs: &'a RunInputs,
    digest: Option<&'a str>,
}

impl Content<'_> {
    /// What each annotation of the record becomes; those of marks are not named.
    fn annotations(&self, kind: RecordKind) -> Vec<(&'static str, Option<&str>)> {
        let mut all = self.inputs.provenance.annotations().to_vec();
        all.push((annotations::JOB, Some(self.job.as_str())));
        if kind == RecordKind::Applied {
            all.push((annotations::IMAGE_DIGEST, self.digest));
        }
        all
    }
}

async fn write(
    access: &Access,
    owner: &Owner,
    kind: RecordKind,
    current: Option<&Record>,
    content: &Content<'_>,
) -> Result<Record, ApiError> {
    let api = secrets(access, owner.namespace());
    let written = match current {
        None => access.create(&api, &build(owner, kind, content)).await?,
        Some(current) => {
            let body = patch(owner, kind, current, content).body(&current.meta);
            access
                .patch(&api, &kind.secret_name(&owner.key), &body)
                .await?
        }
    };
    Ok(Record::of(written))
}

fn build(owner: &Owner, kind: RecordKind, content: &Content<'_>) -> Secret {
    let files = entries(&content.inputs.files);
    let annotations = content.annotations(kind).into_iter();
    Secret {
        metadata: ObjectMeta {
            annotations: Some(
                annotations
                    .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                    .collect(),
            ),
            ..bare(owner, kind)
        },
        type_: Some("Opaque".to_owned()),
        data: Some(
            files
                .into_iter()
                .map(|(key, bytes)| (key.to_owned(), ByteString(bytes.to_vec())))
                .collect(),
        ),
        ..Secret::default()
    }
}

/// Metadata of a new record: owned by the object alone, labelled and protected.
pub(super) fn bare(owner: &Owner, kind: RecordKind) -> ObjectMeta {
    ObjectMeta {
        name: Some(kind.secret_name(&owner.key)),
        namespace: Some(owner.namespace().to_owned()),
        labels: Some(owner.key.owner_labels()),
        owner_references: Some(vec![owner.reference()]),
        finalizers: Some(vec![finalizers::STATE_PROTECTION.to_owned()]),
        ..ObjectMeta::default()
    }
}

fn patch(owner: &Owner, kind: RecordKind, current: &Record, content: &Content<'_>) -> SecretPatch {
    let files = entries(&content.inputs.files);
    let mut patch = SecretPatch::new()
        .owner_references(Some(&[owner.reference()]))
        .finalizers(with_protection(&current.meta).as_deref());
    for (key, value) in owner.key.owner_labels() {
        patch = patch.label(&key, &value);
    }
    for (key, value) in content.annotations(kind) {
        patch = patch.annotation(key, value);
    }
    for dropped in dropped_keys(kind, &current.sizes, content.inputs.files.bytes()) {
        patch = patch.data(dropped, None);
    }
    for (key, bytes) in files {
        patch = patch.data(key, Some(bytes));
    }
    patch
}

/// The data keys a write removes: every one that is not a file, but for the exports record of an
/// attempt while it fits next to the files (S-11).
fn dropped_keys(
    kind: RecordKind,
    sizes: &BTreeMap<String, usize>,
    files: usize,
) -> impl Iterator<Item = &str> {
    sizes.iter().filter_map(move |(key, size)| {
        let kept = kind == RecordKind::Attempt
            && key == APPLIED_OUTPUTS_KEY
            && files + size <= RENDERED_MAX;
        (!kept).then_some(key.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(kind: RecordKind, files: usize) -> Vec<String> {
        let sizes = BTreeMap::from([
            (APPLIED_OUTPUTS_KEY.to_owned(), 400),
            ("stray".to_owned(), 1),
        ]);
        dropped_keys(kind, &sizes, files)
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn unknown_keys_go_and_the_exports_record_stays_while_it_fits() {
        assert_eq!(dropped(RecordKind::Attempt, 999_600), ["stray"]);
        assert_eq!(
            dropped(RecordKind::Attempt, 999_601),
            ["applied-cluster-outputs.json", "stray"]
        );
    }

    #[test]
    fn the_applied_record_holds_the_two_files_only() {
        assert_eq!(
            dropped(RecordKind::Applied, 0),
            ["applied-cluster-outputs.json", "stray"]
        );
    }
}
