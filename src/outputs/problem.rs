//! What is wrong with outputs, and what `OutputsValid` says about it (conditions-events.md §3.10).

use crate::api::conditions::{OutputsValid, State as _, Verdict};

/// One thing that is wrong with one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    state: OutputsValid,
    message: String,
}

impl Problem {
    /// The output is not in the state although an apply succeeded: it is null or not declared, and it
    /// may be neither (C-13, C-13a).
    #[must_use]
    pub fn missing(output: &str) -> Self {
        Self {
            state: OutputsValid::OutputsMissing,
            message: format!(
                "output {output} is null or not declared: the module must declare it with a value"
            ),
        }
    }

    /// The output's value breaks the contract; nothing is written from it (C-16).
    #[must_use]
    pub fn invalid(output: &str, rule: impl AsRef<str>) -> Self {
        Self {
            state: OutputsValid::OutputsInvalid,
            message: format!("output {output}: {}", rule.as_ref()),
        }
    }

    /// The output is not known yet (C-14).
    #[must_use]
    pub fn pending(output: &str) -> Self {
        Self {
            state: OutputsValid::OutputsPending,
            message: format!("output {output} is not known yet"),
        }
    }

    /// The provider ID is another than the one that was written once (contract.md §5.4).
    #[must_use]
    pub fn provider_id_changed() -> Self {
        Self {
            state: OutputsValid::ProviderIdChanged,
            message: "output provider_id is another than spec.providerID, which is written once: the module must not \
                      replace the machine"
                .to_owned(),
        }
    }

    /// The machine is elsewhere than it was to be placed (contract.md §5.4).
    #[must_use]
    pub fn failure_domain_mismatch() -> Self {
        Self {
            state: OutputsValid::FailureDomainMismatch,
            message: "output failure_domain is not the Machine's spec.failureDomain: the module must place the machine \
                      there"
                .to_owned(),
        }
    }

    /// What `OutputsValid` would say if this were the only problem.
    #[must_use]
    pub const fn state(&self) -> OutputsValid {
        self.state
    }

    /// The problem in words, without any value.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Of several problems the one with the lowest rank gives the reason.
    const fn rank(&self) -> u8 {
        match self.state {
            OutputsValid::OutputsMissing => 0,
            OutputsValid::OutputsInvalid => 1,
            OutputsValid::FailureDomainMismatch => 2,
            OutputsValid::ProviderIdChanged => 3,
            OutputsValid::OutputsPending => 4,
            OutputsValid::InstancesTruncated => 5,
            OutputsValid::OutputsValid => 6,
        }
    }
}

/// What `OutputsValid` says: the reason of the gravest problem, the messages of all of them joined by
/// `; ` (conditions-events.md §3.10).
#[must_use]
pub fn outputs_verdict(problems: &[Problem]) -> Verdict {
    let Some(gravest) = problems.iter().min_by_key(|problem| problem.rank()) else {
        return OutputsValid::OutputsValid.plain();
    };
    let messages: Vec<&str> = problems.iter().map(Problem::message).collect();
    gravest.state.with(messages.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_problems_outputs_are_valid() {
        assert_eq!(outputs_verdict(&[]).reason(), "OutputsValid");
    }

    #[test]
    fn the_gravest_problem_gives_the_reason_and_all_give_the_message() {
        let problems = [
            Problem::pending("a"),
            Problem::invalid("b", "it is not an object"),
            Problem::missing("c"),
        ];
        assert_eq!(outputs_verdict(&problems[..1]).reason(), "OutputsPending");
        assert_eq!(outputs_verdict(&problems[..2]).reason(), "OutputsInvalid");
        let verdict = outputs_verdict(&problems);
        assert_eq!(verdict.reason(), "OutputsMissing");
        assert_eq!(
            verdict.message(),
            "output a is not known yet; output b: it is not an object; output c is null or not \
             declared: the module must declare it with a value"
        );
    }
}
