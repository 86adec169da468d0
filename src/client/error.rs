//! Errors of API calls, classified by what they prove.

use std::time::Duration;

use crate::jobs::create::CreateFailure;

/// What an error proves about the request it answers (jobs.md §5.1, leases.md §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// 404: the object, or for a create its namespace, does not exist.
    NotFound,
    /// 409 with reason `AlreadyExists`: the create met an object of that name.
    AlreadyExists,
    /// 409 otherwise: somebody else wrote first, or a precondition did not hold.
    Conflict,
    /// 400, 401, 403, 413, 422: the server refused the request and did nothing.
    Rejected,
    /// Timeout, lost connection, 429, 5xx: a write may have happened.
    Unknown,
}

/// An API call that failed: the verb, the object, and why.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {object}: {cause}")]
pub struct ApiError {
    /// The verb in the API's words, `get`, `list`, `create`, `update`, `patch` or `delete`.
    pub verb: &'static str,
    /// The object as `Kind namespace/name`.
    pub object: String,
    /// Why it failed.
    #[source]
    pub cause: Cause,
}

/// Why an API call failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The API server answered with a failure.
    #[error("{}", status_text(.0))]
    Status(Box<kube::core::Status>),
    /// No usable answer: connection, TLS, decoding.
    #[error("{}", innermost(.0.as_ref()))]
    Transport(#[source] Box<kube::Error>),
    /// No answer within the limit.
    #[error("no answer from the API server within {0:?}")]
    Timeout(Duration),
}

impl ApiError {
    pub(crate) fn new(verb: &'static str, object: String, cause: Cause) -> Self {
        Self {
            verb,
            object,
            cause,
        }
    }

    /// What this error proves about the request.
    #[must_use]
    pub fn class(&self) -> Class {
        let Cause::Status(status) = &self.cause else {
            return Class::Unknown;
        };
        match status.code {
            404 => Class::NotFound,
            409 if status.reason == "AlreadyExists" => Class::AlreadyExists,
            409 => Class::Conflict,
            400 | 401 | 403 | 413 | 422 => Class::Rejected,
            _ => Class::Unknown,
        }
    }

    /// What this error proves about the create it answers (leases.md §8, "Rejected").
    #[must_use]
    pub fn create_failure(&self) -> CreateFailure {
        match &self.cause {
            Cause::Status(status) => CreateFailure::classify(status.code, &status.reason),
            Cause::Transport(_) | Cause::Timeout(_) => CreateFailure::Ambiguous,
        }
    }

    /// True for a missing object.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.class() == Class::NotFound
    }

    /// True for a lost race: a stale resourceVersion or another uid.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.class() == Class::Conflict
    }

    /// True for 403, whatever the verb.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(&self.cause, Cause::Status(status) if status.code == 403)
    }

    /// A word for metrics, from a closed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self.class() {
            Class::NotFound => "not_found",
            Class::AlreadyExists => "already_exists",
            Class::Conflict => "conflict",
            Class::Rejected => "rejected",
            Class::Unknown => "unknown",
        }
    }
}

impl From<kube::Error> for Cause {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Status(status),
            other => Self::Transport(Box::new(other)),
        }
    }
}

fn status_text(status: &kube::core::Status) -> String {
    match (status.message.is_empty(), status.reason.is_empty()) {
        (false, _) => status.message.clone(),
        (true, false) => status.reason.clone(),
        (true, true) => format!("the API server answered {}", status.code),
    }
}

/// The last error of the chain names the cause ("connection refused"); the outer
/// ones only name layers.
#[must_use]
pub fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::{ApiError, Cause, Class};
    use crate::jobs::create::CreateFailure;

    #[test]
    fn an_unanswered_call_is_unknown() {
        let late = ApiError::new(
            "create",
            "Job ns/a".into(),
            Cause::Timeout(std::time::Duration::from_secs(3)),
        );
        assert_eq!(late.class(), Class::Unknown);
        assert_eq!(late.create_failure(), CreateFailure::Ambiguous);
        assert_eq!(
            late.to_string(),
            "create Job ns/a: no answer from the API server within 3s"
        );
    }
}
