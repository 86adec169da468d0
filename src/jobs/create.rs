//! What follows from the answer to a Job create (jobs.md §5.1).

use super::facts::JobFacts;
use crate::api::keys::annotations as keys;

/// How the API server answered the create, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CreateFailure {
    /// Invalid, Forbidden, Unauthorized, BadRequest, RequestEntityTooLarge or NotFound: this create made
    /// no Job.
    Rejected,
    /// AlreadyExists.
    AlreadyExists,
    /// Anything else (timeout, lost connection, 5xx, TooManyRequests, Conflict): the Job may exist.
    Ambiguous,
}

impl CreateFailure {
    /// The class of an answer, by HTTP code and `reason` of its status; `code` is 0 when there was no
    /// answer. Texts are never looked at.
    #[must_use]
    pub fn classify(code: u16, reason: &str) -> Self {
        match (code, reason) {
            (409, "AlreadyExists") => Self::AlreadyExists,
            (400 | 401 | 403 | 404 | 413 | 422, _) => Self::Rejected,
            _ => Self::Ambiguous,
        }
    }
}

/// The Job of that name, read live after `AlreadyExists`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing<'a> {
    /// It could be read.
    Job(&'a JobFacts),
    /// The read failed, or found nothing any more.
    Unreadable,
}

/// What the pass does about its leases and itself after a failed create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterCreate {
    /// Give the leases back unless the Job exists in a live read; the pass ends with the error.
    ReleaseAndFail,
    /// Keep the leases and go on as if this pass had created it: fence, record, Secret.
    Adopt,
    /// Keep the leases (the Job exists); the pass ends without an error and comes back in 5 s.
    Defer,
    /// Keep the leases; the pass ends with the error.
    KeepAndFail,
}

/// Adoptable = controlled by this object's UID, not finished, not being deleted, same inputs hash.
///
/// Otherwise a stale cache would give a finished Job a second per-run Secret, which counts it twice, or
/// adopt the Job of a namesake that waits for garbage collection (jobs.md §5.1). `inputs_hash` is empty
/// for a Job that carries none.
#[must_use]
pub fn is_adoptable(existing: &JobFacts, owner_uid: &str, inputs_hash: &str) -> bool {
    existing.is_controlled_by(owner_uid)
        && !existing.state.is_finished()
        && !existing.deleting
        && existing.annotation(keys::INPUTS_HASH).unwrap_or_default() == inputs_hash
}

/// The table of create errors (jobs.md §5.1; B13 to B16). `existing` matters only after
/// `AlreadyExists`.
#[must_use]
pub fn after_failure(
    failure: CreateFailure,
    existing: Existing<'_>,
    owner_uid: &str,
    inputs_hash: &str,
) -> AfterCreate {
    match (failure, existing) {
        (CreateFailure::Rejected, _) => AfterCreate::ReleaseAndFail,
        (CreateFailure::Ambiguous, _) | (CreateFailure::AlreadyExists, Existing::Unreadable) => {
            AfterCreate::KeepAndFail
        }
        (CreateFailure::AlreadyExists, Existing::Job(job)) => {
            if is_adoptable(job, owner_uid, inputs_hash) {
                AfterCreate::Adopt
            } else {
                AfterCreate::Defer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;

    use super::*;
    use crate::jobs::testing::{JobBuilder, OWNER};
    use crate::names::Op;

    #[rstest]
    #[case(422, "Invalid", CreateFailure::Rejected)]
    #[case(403, "Forbidden", CreateFailure::Rejected)]
    #[case(401, "Unauthorized", CreateFailure::Rejected)]
    #[case(400, "BadRequest", CreateFailure::Rejected)]
    #[case(413, "RequestEntityTooLarge", CreateFailure::Rejected)]
    #[case(404, "NotFound", CreateFailure::Rejected)]
    #[case(409, "AlreadyExists", CreateFailure::AlreadyExists)]
    #[case(409, "Conflict", CreateFailure::Ambiguous)]
    #[case(429, "TooManyRequests", CreateFailure::Ambiguous)]
    #[case(504, "Timeout", CreateFailure::Ambiguous)]
    #[case(500, "", CreateFailure::Ambiguous)]
    #[case(0, "", CreateFailure::Ambiguous)]
    fn answers_are_classified(
        #[case] code: u16,
        #[case] reason: &str,
        #[case] class: CreateFailure,
    ) {
        assert_eq!(CreateFailure::classify(code, reason), class);
    }

    fn job() -> JobBuilder {
        JobBuilder::new(Op::Apply, 1).annotation("captf.io/inputs-hash", "h2:a")
    }

    fn after(failure: CreateFailure, existing: Existing<'_>) -> AfterCreate {
        after_failure(failure, existing, OWNER, "h2:a")
    }

    #[test]
    fn b13_a_rejected_create_gives_the_leases_back() {
        let after = after(CreateFailure::Rejected, Existing::Unreadable);
        assert_eq!(after, AfterCreate::ReleaseAndFail);
    }

    #[test]
    fn a10_j1_an_existing_job_of_ours_is_adopted() {
        let job = job().build();
        assert_eq!(
            after(CreateFailure::AlreadyExists, Existing::Job(&job)),
            AfterCreate::Adopt
        );
    }

    #[test]
    fn b15_an_existing_job_that_cannot_be_read_keeps_the_leases_and_fails() {
        let after = after(CreateFailure::AlreadyExists, Existing::Unreadable);
        assert_eq!(after, AfterCreate::KeepAndFail);
    }

    #[test]
    fn b16_an_ambiguous_error_keeps_the_leases_and_fails() {
        let after = after(CreateFailure::Ambiguous, Existing::Unreadable);
        assert_eq!(after, AfterCreate::KeepAndFail);
    }

    #[test]
    fn a_finished_deleting_foreign_or_other_job_is_not_adopted() {
        let others = [
            job().failed("12:10").build(),
            job().deleting().build(),
            job().controller("old-uid").build(),
            job().annotation("captf.io/inputs-hash", "h2:b").build(),
        ];
        for other in &others {
            assert_eq!(
                after(CreateFailure::AlreadyExists, Existing::Job(other)),
                AfterCreate::Defer
            );
        }
    }

    #[test]
    fn a_job_without_an_inputs_hash_is_adopted_by_a_start_without_one() {
        let job = JobBuilder::new(Op::Refresh, 1).build();
        assert!(is_adoptable(&job, OWNER, ""));
    }
}
