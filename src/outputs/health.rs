//! The output `health` and what `InfrastructureHealthy` says (contract.md §5.2).

use serde_json::Value;

use super::problem::Problem;
use super::shape::{At, Broken};
use crate::api::conditions::{InfrastructureHealthy, State as _, Verdict};

/// The closed set of states a module may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// Still coming up: not provisioned, looked at again soon.
    Pending,
    /// Up.
    Running,
    /// Up with less than it should have.
    Degraded,
    /// Stopped.
    Stopped,
    /// Gone for good.
    Terminated,
    /// The module cannot tell.
    Unknown,
}

impl HealthState {
    /// All states, in the contract's order.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Degraded,
        Self::Stopped,
        Self::Terminated,
        Self::Unknown,
    ];

    /// The state as a module writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Degraded => "degraded",
            Self::Stopped => "stopped",
            Self::Terminated => "terminated",
            Self::Unknown => "unknown",
        }
    }
}

/// The output `health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The state.
    pub state: HealthState,
    /// Whether what runs is healthy.
    pub healthy: bool,
    /// A sentence for people, empty when there is none.
    pub message: String,
    /// Short reasons.
    pub reasons: Vec<String>,
}

impl Health {
    /// Reads the value; extra attributes are ignored.
    pub(super) fn read(value: &Value) -> Result<Self, Broken> {
        let output = At::output(value);
        let state = output.attribute("state")?;
        let word = state.string()?;
        let known = HealthState::ALL
            .into_iter()
            .find(|state| state.as_str() == word);
        let words = HealthState::ALL.map(HealthState::as_str).join(", ");
        state.require(known.is_some(), &format!("is none of {words}"))?;
        let message = output.optional("message")?;
        let reasons = output.optional("reasons")?;
        let reasons = reasons.map_or_else(|| Ok(Vec::new()), |list| list.list("reason"))?;
        Ok(Self {
            state: known.unwrap_or(HealthState::Unknown),
            healthy: output.attribute("healthy")?.bool()?,
            message: message
                .map_or(Ok(""), |message| message.string())?
                .to_owned(),
            reasons: reasons
                .iter()
                .map(|reason| reason.string().map(str::to_owned))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The module says that its infrastructure is still coming up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.state == HealthState::Pending
    }

    /// The condition's state by the table of contract.md §5.2.
    #[must_use]
    pub const fn condition(&self) -> InfrastructureHealthy {
        match (self.state, self.healthy) {
            (HealthState::Pending, _) => InfrastructureHealthy::InstancePending,
            (HealthState::Running, true) => InfrastructureHealthy::Healthy,
            (HealthState::Running, false) => InfrastructureHealthy::InstanceUnhealthy,
            (HealthState::Degraded, _) => InfrastructureHealthy::InstanceDegraded,
            (HealthState::Stopped, _) => InfrastructureHealthy::InstanceStopped,
            (HealthState::Terminated, _) => InfrastructureHealthy::InstanceTerminated,
            (HealthState::Unknown, _) => InfrastructureHealthy::HealthUnknown,
        }
    }

    /// `<message>; reasons: a, b`; a part that is unset is left out, and without both the message is
    /// the condition's reason (C-20).
    fn text(&self) -> String {
        let reasons = match self.reasons.as_slice() {
            [] => None,
            reasons => Some(format!("reasons: {}", reasons.join(", "))),
        };
        let message = Some(self.message.clone()).filter(|message| !message.is_empty());
        let parts: Vec<String> = message.into_iter().chain(reasons).collect();
        if parts.is_empty() {
            self.condition().reason().to_owned()
        } else {
            parts.join("; ")
        }
    }
}

/// What `InfrastructureHealthy` says of an observed state; a null or unreadable output is an unknown
/// health (C-19). Observed means that the state has an inputs hash or the object is provisioned;
/// before that the reasons of provisioning stay (lifecycle.md §10.9).
#[must_use]
pub fn health_verdict(health: &Result<Health, Problem>) -> Verdict {
    match health {
        Ok(health) => health.condition().with(health.text()),
        Err(problem) => InfrastructureHealthy::HealthUnknown.with(problem.message()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::conditions::Status;

    fn verdict(value: &Value) -> Verdict {
        health_verdict(&Ok(Health::read(value).unwrap()))
    }

    #[rstest]
    #[case("pending", true, Status::False, "InstancePending")]
    #[case("pending", false, Status::False, "InstancePending")]
    #[case("running", true, Status::True, "Healthy")]
    #[case("running", false, Status::False, "InstanceUnhealthy")]
    #[case("degraded", true, Status::False, "InstanceDegraded")]
    #[case("stopped", true, Status::False, "InstanceStopped")]
    #[case("terminated", true, Status::False, "InstanceTerminated")]
    #[case("unknown", true, Status::Unknown, "HealthUnknown")]
    fn infrastructure_healthy_by_state(
        #[case] state: &str,
        #[case] healthy: bool,
        #[case] status: Status,
        #[case] reason: &str,
    ) {
        let verdict = verdict(&json!({"state": state, "healthy": healthy}));
        assert_eq!((verdict.status(), verdict.reason()), (status, reason));
        assert_eq!(verdict.message(), reason);
    }

    #[rstest]
    #[case(json!("two of three"), json!(["a", "b"]), "two of three; reasons: a, b")]
    #[case(json!("two of three"), json!(null), "two of three")]
    #[case(json!(null), json!(["a"]), "reasons: a")]
    #[case(json!(""), json!([]), "InstanceDegraded")]
    fn c20_message_and_reasons_are_joined(
        #[case] message: Value,
        #[case] reasons: Value,
        #[case] expected: &str,
    ) {
        let value = json!({
            "state": "degraded", "healthy": false, "message": message, "reasons": reasons, "x": 1,
        });
        assert_eq!(verdict(&value).message(), expected);
    }

    #[rstest]
    #[case(json!({"state": "rebooting", "healthy": true}),
           "state is none of pending, running, degraded, stopped, terminated, unknown")]
    #[case(json!({"state": null, "healthy": true}), "state is not a string")]
    #[case(json!({"healthy": true}), "state is missing")]
    #[case(json!({"state": "running"}), "healthy is missing")]
    #[case(json!({"state": "running", "healthy": "yes"}), "healthy is not true or false")]
    #[case(json!({"state": "running", "healthy": true, "message": 1}), "message is not a string")]
    #[case(json!({"state": "running", "healthy": true, "reasons": "a"}), "reasons is not a list")]
    #[case(json!({"state": "running", "healthy": true, "reasons": [1]}), "reason 1 is not a string")]
    #[case(json!("running"), "it is not an object")]
    fn c18_a_health_outside_the_shape_is_invalid(#[case] value: Value, #[case] rule: &str) {
        assert_eq!(Health::read(&value), Err(rule.to_owned()));
    }

    #[test]
    fn c19_no_health_or_an_invalid_one_is_unknown() {
        let none = health_verdict(&Err(Problem::pending("health")));
        assert_eq!(none.reason(), "HealthUnknown");
        let problem = Problem::invalid("health", "state is missing");
        let verdict = health_verdict(&Err(problem));
        assert_eq!(verdict.reason(), "HealthUnknown");
        assert_eq!(verdict.message(), "output health: state is missing");
    }
}
