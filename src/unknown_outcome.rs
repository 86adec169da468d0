//! What `ApplyOutcomeUnknown` says, and how the Job is read back from it (jobs.md §8.3, diagnosis.md D90).
//!
//! The record of the Job lies in a Secret, so the condition is the only place where a reader of the
//! object finds its name. The sentence is made and read here alone.

use crate::api::keys::annotations;
use crate::names::{Op, ParsedJobName};

/// The condition's message: an apply whose outcome nobody knows, and what a person does about it.
#[must_use]
pub fn message(job: &str, deleting: bool) -> String {
    let held = if deleting {
        " The deletion is held until then."
    } else {
        ""
    };
    format!(
        "Job {job} may have created resources that no state records. Look for them; when there are none, set the \
         annotation {}={job} on the object.{held}",
        annotations::CONFIRM_NO_RESOURCES
    )
}

/// The Job that [`message`] names; none when the text is of another form or names no apply, since a
/// command with a wrong name would confirm nothing.
#[must_use]
pub fn job(message: &str) -> Option<&str> {
    let name = message.strip_prefix("Job ")?.split(' ').next()?;
    ParsedJobName::parse(name)
        .is_some_and(|parts| parts.op == Op::Apply)
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{job, message};

    const JOB: &str = "captf-c-demo-apply-a3-b9e2b2";

    #[test]
    fn d90_the_job_to_confirm_is_the_one_that_the_condition_names() {
        for deleting in [false, true] {
            assert_eq!(job(&message(JOB, deleting)), Some(JOB));
        }
    }

    #[test]
    fn d90_a_message_of_another_form_names_no_job() {
        for other in [
            "",
            "Job ",
            "Job unknown may have created resources",
            "Job captf-c-demo-destroy-a3-b9e2b2 may have created resources",
            "the Job is gone",
        ] {
            assert_eq!(job(other), None, "{other}");
        }
    }
}
