//! Reading the records.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::run::{Provenance, RunInputs, files_of};
use super::super::{Owner, secrets};
use crate::api::keys::annotations;
use crate::client::{Access, ApiError};
use crate::inputs::Rendered;
use crate::names::{InputsHash, JobName, ObjectKey, applied_inputs_secret, attempt_inputs_secret};

/// Data key of a pool's record of the exports it last applied.
pub(super) const APPLIED_OUTPUTS_KEY: &str = "applied-cluster-outputs.json";

/// What an older operator called `captf.io/interrupted-apply`: read and cleared, never written.
pub(super) const UNCONFIRMED_APPLY: &str = "captf.io/unconfirmed-apply";

/// Which of the two records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The newest apply Job created; it also carries the object's lasting marks.
    Attempt,
    /// The newest apply Job that succeeded.
    Applied,
}

impl RecordKind {
    /// The Secret of the record of one object.
    #[must_use]
    pub fn secret_name(self, key: &ObjectKey) -> String {
        match self {
            Self::Attempt => attempt_inputs_secret(key.kind, &key.name),
            Self::Applied => applied_inputs_secret(key.kind, &key.name),
        }
    }
}

/// One record as read from the API server.
#[derive(Debug, Clone)]
pub struct Record {
    pub(super) meta: ObjectMeta,
    pub(super) files: Option<Rendered>,
    /// Every data key with the size of its value.
    pub(super) sizes: BTreeMap<String, usize>,
}

impl Record {
    pub(super) fn of(secret: Secret) -> Self {
        let files = files_of(secret.data.as_ref());
        let sizes = secret
            .data
            .into_iter()
            .flatten()
            .map(|(key, value)| (key, value.0.len()))
            .collect();
        Self {
            meta: secret.metadata,
            files,
            sizes,
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.meta.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The Secret's metadata as read: name, uid and the resourceVersion that writes are locked to.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    /// The rendered files; `None` in a record that only carries marks.
    #[must_use]
    pub fn files(&self) -> Option<&Rendered> {
        self.files.as_ref()
    }

    /// Files and provenance together: what a Job of this record is given.
    #[must_use]
    pub fn inputs(&self) -> Option<RunInputs> {
        Some(RunInputs {
            files: self.files.clone()?,
            provenance: self.provenance(),
        })
    }

    /// Size of all data in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sizes.values().sum()
    }

    /// Where the files came from.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        Provenance::from_annotations(self.meta.annotations.as_ref())
    }

    /// Hash of the inputs; empty when none is recorded.
    #[must_use]
    pub fn inputs_hash(&self) -> InputsHash {
        InputsHash::new(
            self.annotation(annotations::INPUTS_HASH)
                .unwrap_or_default(),
        )
    }

    /// The apply Job the record is of.
    #[must_use]
    pub fn job(&self) -> Option<JobName> {
        self.annotation(annotations::JOB).map(JobName::new)
    }

    /// The image as it was pulled, `repository@sha256:…`; only on the applied record.
    #[must_use]
    pub fn image_digest(&self) -> Option<&str> {
        self.annotation(annotations::IMAGE_DIGEST)
            .filter(|digest| !digest.is_empty())
    }

    /// The recorded apply failed in a way that may have changed resources.
    #[must_use]
    pub fn may_have_applied(&self) -> bool {
        self.annotation(annotations::MAY_HAVE_APPLIED).is_some()
    }

    /// An apply or restore succeeded once, or a state with an inputs hash was read.
    #[must_use]
    pub fn applied(&self) -> bool {
        self.annotation(annotations::APPLIED).is_some()
    }

    /// The apply Job whose outcome nobody knows.
    #[must_use]
    pub fn interrupted_apply(&self) -> Option<JobName> {
        self.annotation(annotations::INTERRUPTED_APPLY)
            .or_else(|| self.annotation(UNCONFIRMED_APPLY))
            .filter(|job| !job.is_empty())
            .map(JobName::new)
    }
}

/// Both records of an object.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// The attempt record.
    pub attempt: Option<Record>,
    /// The applied record.
    pub applied: Option<Record>,
}

impl Records {
    /// The records alone prove that an apply succeeded once, so that a missing state is lost and not
    /// "none yet": the mark, a pinned digest, or an applied record (state-secrets.md §7).
    #[must_use]
    pub fn prove_an_apply(&self) -> bool {
        self.applied.is_some()
            || self
                .attempt
                .as_ref()
                .is_some_and(|attempt| attempt.applied() || attempt.image_digest().is_some())
    }

    /// Bytes of the files that the newest apply was given (lifecycle.md §6): the attempt record's, else
    /// the applied record's; none when no record has files.
    #[must_use]
    pub fn rendered_bytes(&self) -> Option<usize> {
        let bytes = |record: &Option<Record>| Some(record.as_ref()?.files()?.bytes());
        bytes(&self.attempt).or_else(|| bytes(&self.applied))
    }

    /// The apply Job whose outcome nobody knows.
    #[must_use]
    pub fn interrupted_apply(&self) -> Option<JobName> {
        self.attempt.as_ref()?.interrupted_apply()
    }

    /// The record that a destroy, or the re-apply of an immutable kind, renders (jobs.md §6.3): the
    /// attempt when it may have applied and was not promoted since; else the record of the state's own
    /// hash, applied first; else applied, else attempt. Records without files do not count.
    #[must_use]
    pub fn to_render(&self, state_hash: &InputsHash) -> Option<&Record> {
        let with_files = |record: &'_ &Record| record.files.is_some();
        let attempt = self.attempt.as_ref().filter(with_files);
        let applied = self.applied.as_ref().filter(with_files);
        let unpromoted = attempt.filter(|attempt| {
            attempt.may_have_applied() && attempt.job() != applied.and_then(Record::job)
        });
        let of_state = || {
            let matching =
                |record: &&Record| !state_hash.is_empty() && record.inputs_hash() == *state_hash;
            applied
                .filter(matching)
                .or_else(|| attempt.filter(matching))
        };
        unpromoted.or_else(of_state).or(applied).or(attempt)
    }
}

/// Reads both records from the API server.
///
/// # Errors
/// When either read fails; a missing record is none.
pub async fn read(access: &Access, owner: &Owner) -> Result<Records, ApiError> {
    let api = secrets(access, owner.namespace());
    let attempt = RecordKind::Attempt.secret_name(&owner.key);
    let applied = RecordKind::Applied.secret_name(&owner.key);
    let (attempt, applied) =
        futures::try_join!(access.get(&api, &attempt), access.get(&api, &applied))?;
    Ok(Records {
        attempt: attempt.map(Record::of),
        applied: applied.map(Record::of),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(hash: &str, job: &str, marks: &[&str]) -> Record {
        let mut all = BTreeMap::from([
            (annotations::INPUTS_HASH.to_owned(), hash.to_owned()),
            (annotations::JOB.to_owned(), job.to_owned()),
        ]);
        all.extend(
            marks
                .iter()
                .map(|&mark| (mark.to_owned(), "true".to_owned())),
        );
        Record {
            meta: ObjectMeta {
                annotations: Some(all),
                ..ObjectMeta::default()
            },
            files: Some(Rendered::restore()),
            sizes: BTreeMap::new(),
        }
    }

    fn rendered(attempt: Option<Record>, applied: Option<Record>, state: &str) -> Option<String> {
        let records = Records { attempt, applied };
        records
            .to_render(&InputsHash::new(state))
            .and_then(Record::job)
            .map(|job| job.to_string())
    }

    #[test]
    fn an_unpromoted_attempt_that_may_have_applied_comes_first() {
        let attempt = record("h2:b", "two", &["captf.io/may-have-applied"]);
        let chosen = rendered(Some(attempt), Some(record("h2:a", "one", &[])), "h2:a");
        assert_eq!(chosen.as_deref(), Some("two"));
    }

    #[test]
    fn a_promoted_attempt_is_not_preferred_for_its_mark() {
        let attempt = record("h2:b", "one", &["captf.io/may-have-applied"]);
        let chosen = rendered(Some(attempt), Some(record("h2:a", "one", &[])), "h2:a");
        assert_eq!(chosen.as_deref(), Some("one"));
    }

    #[test]
    fn the_record_of_the_states_hash_comes_next_applied_first() {
        let attempt = || Some(record("h2:b", "two", &[]));
        let applied = |hash| Some(record(hash, "one", &[]));
        assert_eq!(
            rendered(attempt(), applied("h2:a"), "h2:b").as_deref(),
            Some("two")
        );
        assert_eq!(
            rendered(attempt(), applied("h2:b"), "h2:b").as_deref(),
            Some("one")
        );
    }

    #[test]
    fn without_a_match_the_applied_record_then_the_attempt() {
        let attempt = || Some(record("h2:b", "two", &[]));
        assert_eq!(
            rendered(attempt(), Some(record("h2:a", "one", &[])), "").as_deref(),
            Some("one")
        );
        assert_eq!(rendered(attempt(), None, "h2:z").as_deref(), Some("two"));
        assert_eq!(rendered(None, None, "h2:z"), None);
    }

    #[test]
    fn a_record_of_marks_alone_renders_nothing() {
        let mut marks = record("", "one", &["captf.io/applied"]);
        marks.files = None;
        assert_eq!(rendered(Some(marks), None, ""), None);
    }

    #[test]
    fn each_trace_of_an_apply_proves_it() {
        let none = Records {
            attempt: Some(record("h2:a", "one", &[])),
            applied: None,
        };
        assert!(!none.prove_an_apply());
        for mark in ["captf.io/applied", "captf.io/image-digest"] {
            let records = Records {
                attempt: Some(record("h2:a", "one", &[mark])),
                applied: None,
            };
            assert!(records.prove_an_apply(), "{mark}");
        }
        assert!(
            Records {
                attempt: None,
                applied: Some(record("h2:a", "one", &[]))
            }
            .prove_an_apply()
        );
    }

    #[test]
    fn the_older_name_of_an_interrupted_apply_is_read() {
        let mut record = record("h2:a", "one", &[]);
        let all = record.meta.annotations.get_or_insert_default();
        all.insert(
            "captf.io/unconfirmed-apply".to_owned(),
            "captf-m-web-apply-a1-abcdef".to_owned(),
        );
        assert_eq!(
            record.interrupted_apply(),
            Some(JobName::new("captf-m-web-apply-a1-abcdef"))
        );
    }
}
