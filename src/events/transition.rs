//! Counters that go up with a change of a condition (conditions-events.md §6.5).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::jobs::report::is_wait;

/// What is counted once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transition {
    /// `StateReadable`, `OutputsValid` or `IdentityAllowed` entered False, or has a new reason while
    /// False.
    EnteredFalse {
        /// The condition type.
        condition: String,
        /// Its reason.
        reason: String,
    },
    /// A condition has a wait reason it did not have.
    WaitBegan {
        /// The wait reason, such as `WaitingForRunLease`.
        reason: String,
    },
}

/// What the change of one condition counts; a changed message alone counts nothing.
#[must_use]
pub fn transition(before: Option<&Condition>, after: &Condition) -> Option<Transition> {
    let reason = after.reason.clone();
    let new_reason = before.is_none_or(|before| before.reason != after.reason);
    if is_wait(&after.reason) {
        return new_reason.then_some(Transition::WaitBegan { reason });
    }
    let counted = matches!(
        after.type_.as_str(),
        "StateReadable" | "OutputsValid" | "IdentityAllowed"
    );
    let entered = new_reason || before.is_some_and(|before| before.status != "False");
    (counted && after.status == "False" && entered).then(|| Transition::EnteredFalse {
        condition: after.type_.clone(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::diff::testing::condition;

    fn lost(message: &str) -> Condition {
        condition("StateReadable", "False", "StateLost", message)
    }

    #[test]
    fn b8_a_new_message_is_not_counted_and_a_new_reason_is() {
        assert_eq!(transition(Some(&lost("a")), &lost("b")), None);
        let corrupt = condition("StateReadable", "False", "StateCorrupt", "b");
        assert_eq!(
            transition(Some(&lost("a")), &corrupt),
            Some(Transition::EnteredFalse {
                condition: "StateReadable".into(),
                reason: "StateCorrupt".into()
            })
        );
    }

    #[test]
    fn entering_false_is_counted() {
        let read = condition("StateReadable", "True", "StateRead", "");
        assert!(transition(Some(&read), &lost("a")).is_some());
        assert!(transition(None, &lost("a")).is_some());
        assert_eq!(transition(Some(&lost("a")), &read), None);
    }

    #[test]
    fn b3_a_wait_is_counted_once() {
        let wait = condition(
            "ApplyJobSucceeded",
            "Unknown",
            "WaitingForRunLease",
            "held by a",
        );
        let same = condition(
            "ApplyJobSucceeded",
            "Unknown",
            "WaitingForRunLease",
            "held by b",
        );
        assert_eq!(
            transition(None, &wait),
            Some(Transition::WaitBegan {
                reason: "WaitingForRunLease".into()
            })
        );
        assert_eq!(transition(Some(&wait), &same), None);
    }

    #[test]
    fn b4_another_wait_reason_is_a_new_wait() {
        let wait = condition("ApplyJobSucceeded", "Unknown", "WaitingForRunLease", "");
        let gate = condition(
            "ApplyJobSucceeded",
            "Unknown",
            "WaitingForClusterOperation",
            "",
        );
        assert!(transition(Some(&wait), &gate).is_some());
    }

    #[test]
    fn other_conditions_are_not_counted() {
        let failed = condition("ApplyJobSucceeded", "False", "ApplyFailed", "");
        assert_eq!(transition(None, &failed), None);
    }
}
