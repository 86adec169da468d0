//! The lasting marks on the attempt record: what is known about the object's applies beyond the
//! newest one (state-secrets.md §5, jobs.md §8.3).

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::{Owner, SecretPatch, secrets};
use super::record::{Record, RecordKind, UNCONFIRMED_APPLY};
use super::write::bare;
use crate::api::keys::{TRUE, annotations};
use crate::client::{Access, ApiError};
use crate::names::JobName;

/// What becomes of the record of an apply whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interruption {
    /// This Job's outcome is unknown; an earlier one recorded stays (jobs.md §8.3).
    Record(JobName),
    /// It is settled: by the success of an apply started after it, by a restore, or by a person.
    Clear,
}

/// Changes of marks. What is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// An apply or restore succeeded, or a state with an inputs hash was read. Never taken back.
    pub applied: bool,
    /// Whether the recorded attempt may have changed resources.
    pub may_have_applied: Option<bool>,
    /// The apply whose outcome is unknown.
    pub interruption: Option<Interruption>,
    /// Forget which images could not be pulled.
    pub forget_unpullable: bool,
}

impl Marks {
    /// After an apply succeeded and was promoted: applied, no attempt in doubt, every image worth
    /// another try. `settles` tells whether it was started after the apply in doubt
    /// (`captf.io/after-interrupted-apply`).
    #[must_use]
    pub fn apply_succeeded(settles: bool) -> Self {
        Self {
            applied: true,
            may_have_applied: Some(false),
            interruption: settles.then_some(Interruption::Clear),
            forget_unpullable: true,
        }
    }

    /// After a restore newer than the newest apply succeeded (state-secrets.md §9).
    #[must_use]
    pub fn restore_succeeded() -> Self {
        Self {
            applied: true,
            may_have_applied: Some(false),
            interruption: Some(Interruption::Clear),
            forget_unpullable: false,
        }
    }

    /// The annotations that have to change: each with its new value, or without one when it goes.
    fn changes(&self, current: Option<&Record>) -> Vec<(&'static str, Option<&str>)> {
        let present = |key: &str| {
            current
                .and_then(|record| record.meta.annotations.as_ref())
                .is_some_and(|all| all.contains_key(key))
        };
        let mut changes = Vec::new();
        if self.applied && !present(annotations::APPLIED) {
            changes.push((annotations::APPLIED, Some(TRUE)));
        }
        match self.may_have_applied {
            Some(true) if !present(annotations::MAY_HAVE_APPLIED) => {
                changes.push((annotations::MAY_HAVE_APPLIED, Some(TRUE)));
            }
            Some(false) if present(annotations::MAY_HAVE_APPLIED) => {
                changes.push((annotations::MAY_HAVE_APPLIED, None));
            }
            _ => {}
        }
        match &self.interruption {
            Some(Interruption::Record(job))
                if current.and_then(Record::interrupted_apply).is_none() =>
            {
                changes.push((annotations::INTERRUPTED_APPLY, Some(job.as_str())));
            }
            Some(Interruption::Clear) => {
                let both = [annotations::INTERRUPTED_APPLY, UNCONFIRMED_APPLY];
                changes.extend(
                    both.into_iter()
                        .filter(|key| present(key))
                        .map(|key| (key, None)),
                );
            }
            _ => {}
        }
        if self.forget_unpullable && present(annotations::UNPULLABLE_IMAGES) {
            changes.push((annotations::UNPULLABLE_IMAGES, None));
        }
        changes
    }
}

/// Puts marks on the attempt record, in one write, or in none when they are there. When the record is
/// gone and something must be remembered, a record of marks alone is made: without it a lost state
/// would read as "none yet".
///
/// Returns the record as it is now; `None` when there is none and nothing had to be remembered.
///
/// # Errors
/// A conflict when somebody wrote the record since it was read, and any other failed call.
pub async fn mark(
    access: &Access,
    owner: &Owner,
    current: Option<&Record>,
    marks: &Marks,
) -> Result<Option<Record>, ApiError> {
    let changes = marks.changes(current);
    if changes.is_empty() {
        return Ok(current.cloned());
    }
    let api = secrets(access, owner.namespace());
    let written = match current {
        Some(current) => {
            let patch = changes
                .into_iter()
                .fold(SecretPatch::new(), |patch, (key, value)| {
                    patch.annotation(key, value)
                });
            let name = RecordKind::Attempt.secret_name(&owner.key);
            access
                .patch(&api, &name, &patch.body(&current.meta))
                .await?
        }
        None => {
            let remembered = changes
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
            let metadata = ObjectMeta {
                annotations: Some(remembered.collect()),
                ..bare(owner, RecordKind::Attempt)
            };
            let secret = Secret {
                metadata,
                type_: Some("Opaque".to_owned()),
                ..Secret::default()
            };
            access.create(&api, &secret).await?
        }
    };
    Ok(Some(Record::of(written)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn record(annotations: &[(&str, &str)]) -> Record {
        let annotations = annotations
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Record {
            meta: ObjectMeta {
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            files: None,
            sizes: BTreeMap::new(),
        }
    }

    #[test]
    fn the_first_interrupted_apply_stays() {
        let marks = Marks {
            interruption: Some(Interruption::Record(JobName::new("second"))),
            ..Marks::default()
        };
        assert_eq!(
            marks.changes(Some(&record(&[("captf.io/interrupted-apply", "first")]))),
            []
        );
        assert_eq!(
            marks.changes(None),
            [("captf.io/interrupted-apply", Some("second"))]
        );
    }

    #[test]
    fn clearing_takes_both_names_of_the_interrupted_apply() {
        let both = record(&[
            ("captf.io/interrupted-apply", "a"),
            ("captf.io/unconfirmed-apply", "a"),
        ]);
        assert_eq!(
            Marks::restore_succeeded().changes(Some(&both)),
            [
                ("captf.io/applied", Some("true")),
                ("captf.io/interrupted-apply", None),
                ("captf.io/unconfirmed-apply", None)
            ]
        );
    }

    #[test]
    fn an_apply_settles_only_the_interruption_it_started_after() {
        let doubted = record(&[
            ("captf.io/interrupted-apply", "a"),
            ("captf.io/applied", "true"),
        ]);
        assert_eq!(Marks::apply_succeeded(false).changes(Some(&doubted)), []);
        assert_eq!(
            Marks::apply_succeeded(true).changes(Some(&doubted)),
            [("captf.io/interrupted-apply", None)]
        );
    }

    #[test]
    fn marks_that_are_there_need_no_write() {
        let marked = record(&[
            ("captf.io/applied", "true"),
            ("captf.io/may-have-applied", "true"),
        ]);
        let marks = Marks {
            applied: true,
            may_have_applied: Some(true),
            ..Marks::default()
        };
        assert_eq!(marks.changes(Some(&marked)), []);
    }

    #[test]
    fn success_forgets_unpullable_images() {
        let marked = record(&[
            ("captf.io/applied", "true"),
            ("captf.io/unpullable-images", "[]"),
        ]);
        assert_eq!(
            Marks::apply_succeeded(false).changes(Some(&marked)),
            [("captf.io/unpullable-images", None)]
        );
    }
}
