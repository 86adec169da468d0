//! The outputs of the role `cluster` (contract.md §5.3).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::health::Health;
use super::problem::Problem;
use super::shape::{At, Broken, field, required};
use crate::api::FailureDomain;
use crate::api::conditions::{EndpointAvailable, State as _, Verdict};
use crate::inputs::{Endpoint, Exports};
use crate::state::{Output, State};

/// Most failure domains a cluster may have.
const FAILURE_DOMAINS_MAX: usize = 100;

/// The outputs of a cluster module, each with its own outcome: a field whose output is invalid keeps
/// its previous value (C-16, api.md §5).
#[derive(Clone, Debug)]
pub struct ClusterOutputs {
    /// `control_plane_endpoint`; it may stay null for ever.
    pub control_plane_endpoint: Result<Option<Endpoint>, Problem>,
    /// `failure_domains`; null and `[]` both clear the field.
    pub failure_domains: Result<Vec<FailureDomain>, Problem>,
    /// `exports`.
    pub exports: Exports,
    /// `health`.
    pub health: Result<Health, Problem>,
}

impl ClusterOutputs {
    /// Reads the outputs of a state. `applied` = an apply has succeeded (the state has an inputs hash,
    /// or the object is provisioned): until then an absent output is just not known yet.
    ///
    /// Terraform writes no entry for a null root output, so an absent nullable output reads as null,
    /// and only an absent `health` is missing (C-13a, S-5).
    #[must_use]
    pub fn read(outputs: &BTreeMap<String, Output>, applied: bool) -> Self {
        Self {
            control_plane_endpoint: field(outputs, "control_plane_endpoint", read_endpoint)
                .map(Option::flatten),
            failure_domains: field(outputs, "failure_domains", read_failure_domains)
                .map(Option::unwrap_or_default),
            exports: Exports::new(outputs.get("exports").and_then(Output::known)),
            health: required(outputs, "health", applied, Health::read),
        }
    }

    /// Everything that is wrong, in the contract's order; empty when the outputs are valid.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        [
            self.control_plane_endpoint.as_ref().err(),
            self.failure_domains.as_ref().err(),
            self.health.as_ref().err(),
        ]
        .into_iter()
        .flatten()
        .cloned()
        .collect()
    }

    /// The endpoint output when it is there and valid.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.control_plane_endpoint.as_ref().ok()?.as_ref()
    }

    /// The module says that its infrastructure is still coming up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.health.as_ref().is_ok_and(Health::is_pending)
    }
}

/// Host of 1 to 512 characters and port of 1 to 65535, or neither; half of it is invalid
/// (contract.md §5.3).
fn read_endpoint(value: &Value) -> Result<Option<Endpoint>, Broken> {
    let output = At::output(value);
    let host = output.attribute("host")?;
    let port = output.attribute("port")?;
    let (text, number) = (host.string_or_null()?, port.integer_or_null()?);
    if text.is_empty() && number == 0 {
        return Ok(None);
    }
    output.require(
        !text.is_empty() && number != 0,
        "has only one of host and port",
    )?;
    host.text(1, 512)?;
    port.require((1..=65535).contains(&number), "is not between 1 and 65535")?;
    let number = i32::try_from(number).map_err(|_| "port is out of range".to_owned())?;
    Ok(Some(Endpoint::new(text, number)))
}

/// At most 100, names of 1 to 256 characters, each once. `control_plane` is true unless the module
/// says otherwise (contract.md §5.3).
fn read_failure_domains(value: &Value) -> Result<Vec<FailureDomain>, Broken> {
    let output = At::output(value);
    let entries = output.list("entry")?;
    output.require(
        entries.len() <= FAILURE_DOMAINS_MAX,
        "has more than 100 entries",
    )?;
    let mut names = BTreeSet::new();
    entries
        .iter()
        .map(|entry| {
            let domain = read_failure_domain(entry)?;
            let name = entry.attribute("name")?;
            name.require(names.insert(domain.name.clone()), "is used twice")?;
            Ok(domain)
        })
        .collect()
}

fn read_failure_domain(entry: &At<'_>) -> Result<FailureDomain, Broken> {
    let control_plane = entry.optional("control_plane")?;
    let attributes = entry.optional("attributes")?;
    Ok(FailureDomain {
        name: entry.attribute("name")?.text(1, 256)?.to_owned(),
        control_plane: Some(control_plane.map_or(Ok(true), |flag| flag.bool())?),
        attributes: attributes.map_or_else(|| Ok(BTreeMap::new()), |map| map.strings())?,
    })
}

/// A cluster is provisioned, once and for all, when an apply succeeded (the state has an inputs hash),
/// the outputs are valid and health is not pending (contract.md §5.3, lifecycle.md §10.10). An
/// endpoint is not needed.
#[must_use]
pub fn is_provisioned(state: &State, outputs: &ClusterOutputs) -> bool {
    !state.inputs_hash.is_empty() && outputs.problems().is_empty() && !outputs.is_pending()
}

/// What `EndpointAvailable` says: `available` as of
/// [`endpoint_available`](crate::inputs::endpoint_available); without one, only a provisioned cluster
/// waits for it (lifecycle.md §11.1).
#[must_use]
pub fn endpoint_verdict(available: bool, provisioned: bool) -> Option<Verdict> {
    if available {
        Some(EndpointAvailable::EndpointAvailable.plain())
    } else if provisioned {
        Some(EndpointAvailable::WaitingForEndpoint.with(
            "neither the module's output control_plane_endpoint nor the Cluster names an endpoint: \
             declare the output or set spec.controlPlaneEndpoint of the Cluster",
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::api::conditions::Status;
    use crate::names::InputsHash;
    use crate::outputs::{health_verdict, outputs_verdict};

    fn outputs(value: Value) -> BTreeMap<String, Output> {
        let values: BTreeMap<String, Value> = serde_json::from_value(value).unwrap();
        values
            .into_iter()
            .map(|(name, value)| {
                let text = format!(r#"{{"value":{value},"type":"dynamic"}}"#);
                (name, serde_json::from_str(&text).unwrap())
            })
            .collect()
    }

    fn read(value: Value) -> ClusterOutputs {
        ClusterOutputs::read(&outputs(value), true)
    }

    fn healthy() -> Value {
        json!({"state": "running", "healthy": true})
    }

    fn state(hash: &str) -> State {
        State {
            serial: 1,
            lineage: String::new(),
            terraform_version: String::new(),
            outputs: BTreeMap::new(),
            managed_resources: 0,
            compressed_bytes: 0,
            inputs_hash: InputsHash::new(hash),
            chunks: Vec::new(),
        }
    }

    #[test]
    fn valid_outputs_are_read_with_defaults_and_extra_attributes_ignored() {
        let outputs = read(json!({
            "control_plane_endpoint": {"host": "api", "port": 6443, "extra": 1},
            "failure_domains": [
                {"name": "a"},
                {"name": "b", "control_plane": false, "attributes": {"k": "v"}, "x": null},
                {"name": "c", "control_plane": null, "attributes": null},
            ],
            "exports": {"b": 1, "a": 2},
            "health": healthy(),
            "unknown_output": 7,
        }));
        assert_eq!(outputs.endpoint(), Some(&Endpoint::new("api", 6443)));
        let domain = |name: &str, control_plane, attributes: Value| FailureDomain {
            name: name.into(),
            control_plane: Some(control_plane),
            attributes: serde_json::from_value(attributes).unwrap(),
        };
        assert_eq!(
            outputs.failure_domains,
            Ok(vec![
                domain("a", true, json!({})),
                domain("b", false, json!({"k": "v"})),
                domain("c", true, json!({})),
            ])
        );
        assert_eq!(
            outputs_verdict(&outputs.problems()).reason(),
            "OutputsValid"
        );
    }

    #[test]
    fn c13a_absent_nullable_outputs_read_as_null() {
        let outputs = read(json!({"health": healthy()}));
        assert_eq!(outputs.control_plane_endpoint, Ok(None));
        assert_eq!(outputs.failure_domains, Ok(vec![]));
        assert_eq!(outputs.exports.as_str(), "{}");
        assert!(outputs.problems().is_empty());
    }

    #[test]
    fn c13a_absent_health_after_a_successful_apply_is_missing() {
        let outputs = read(json!({}));
        let verdict = outputs_verdict(&outputs.problems());
        assert_eq!(
            (verdict.status(), verdict.reason()),
            (Status::False, "OutputsMissing")
        );
        assert_eq!(health_verdict(&outputs.health).reason(), "HealthUnknown");
    }

    #[test]
    fn before_the_first_successful_apply_an_absent_output_is_pending() {
        let outputs = ClusterOutputs::read(&BTreeMap::new(), false);
        let verdict = outputs_verdict(&outputs.problems());
        assert_eq!(
            (verdict.status(), verdict.reason()),
            (Status::Unknown, "OutputsPending")
        );
    }

    #[test]
    fn c14_null_health_is_pending() {
        let outputs = read(json!({"health": null}));
        assert_eq!(
            outputs_verdict(&outputs.problems()).reason(),
            "OutputsPending"
        );
    }

    #[rstest]
    #[case(json!({"host": "api"}), "port is missing")]
    #[case(json!({"port": 1}), "host is missing")]
    #[case(json!({"host": "api", "port": null}), "it has only one of host and port")]
    #[case(json!({"host": "", "port": 6443}), "it has only one of host and port")]
    #[case(json!({"host": "x".repeat(513), "port": 1}), "host has not 1 to 512 characters")]
    #[case(json!({"host": "api", "port": 65536}), "port is not between 1 and 65535")]
    #[case(json!({"host": "api", "port": -1}), "port is not between 1 and 65535")]
    #[case(json!({"host": "api", "port": 64.5}), "port is not a whole number")]
    #[case(json!({"host": "api", "port": "6443"}), "port is not a number")]
    #[case(json!({"host": 1, "port": 6443}), "host is not a string")]
    #[case(json!("api:6443"), "it is not an object")]
    fn an_endpoint_that_breaks_the_contract_is_invalid(#[case] value: Value, #[case] rule: &str) {
        let outputs = read(json!({"control_plane_endpoint": value, "health": healthy()}));
        let verdict = outputs_verdict(&outputs.problems());
        assert_eq!(verdict.reason(), "OutputsInvalid");
        assert_eq!(
            verdict.message(),
            format!("output control_plane_endpoint: {rule}")
        );
        assert_eq!(outputs.endpoint(), None);
    }

    #[rstest]
    #[case(json!({"host": null, "port": null}))]
    #[case(json!({"host": "", "port": 0}))]
    fn an_endpoint_with_neither_part_is_null(#[case] value: Value) {
        let outputs = read(json!({"control_plane_endpoint": value, "health": healthy()}));
        assert_eq!(outputs.control_plane_endpoint, Ok(None));
    }

    #[rstest]
    #[case(json!({"a": {}}), "it is not a list")]
    #[case(json!(["a"]), "entry 1 is not an object")]
    #[case(json!([{"name": "a"}, {}]), "name of entry 2 is missing")]
    #[case(json!([{"name": ""}]), "name of entry 1 has not 1 to 256 characters")]
    #[case(json!([{"name": "é".repeat(257)}]), "name of entry 1 has not 1 to 256 characters")]
    #[case(json!([{"name": "a"}, {"name": "a"}]), "name of entry 2 is used twice")]
    #[case(json!([{"name": "a", "control_plane": 1}]),
           "control_plane of entry 1 is not true or false")]
    #[case(json!([{"name": "a", "attributes": {"k": 1}}]),
           "attributes of entry 1 is not a map of strings")]
    #[case(json!(vec![json!({"name": "a"}); 101]), "it has more than 100 entries")]
    fn failure_domains_that_break_the_contract_are_invalid(
        #[case] value: Value,
        #[case] rule: &str,
    ) {
        let outputs = read(json!({"failure_domains": value, "health": healthy()}));
        assert_eq!(
            outputs_verdict(&outputs.problems()).message(),
            format!("output failure_domains: {rule}")
        );
    }

    #[test]
    fn hundred_failure_domains_with_long_names_are_valid() {
        let domains: Vec<Value> = (0..100)
            .map(|index| json!({"name": format!("{index:0>3}{}", "é".repeat(253))}))
            .collect();
        let outputs = read(json!({"failure_domains": domains, "health": healthy()}));
        assert_eq!(outputs.failure_domains.map(|list| list.len()), Ok(100));
    }

    #[test]
    fn problems_never_quote_a_value() {
        let planted = json!("planted-secret");
        let outputs = read(json!({
            "control_plane_endpoint": {"host": planted, "port": planted},
            "failure_domains": [{"name": "planted-secret"}, {"name": "planted-secret"}],
            "exports": planted,
            "health": {"state": planted, "healthy": true},
        }));
        let verdict = outputs_verdict(&outputs.problems());
        assert_eq!(verdict.message().matches("; ").count(), 2);
        assert!(!format!("{verdict:?} {outputs:?}").contains("planted"));
    }

    #[rstest]
    #[case("h2:a", healthy(), true)]
    #[case("", healthy(), false)]
    #[case("h2:a", json!({"state": "pending", "healthy": true}), false)]
    #[case("h2:a", json!({"state": "unknown", "healthy": false}), true)]
    #[case("h2:a", json!({"state": "stopped", "healthy": false}), true)]
    #[case("h2:a", json!({"state": "rebooting", "healthy": true}), false)]
    #[case("h2:a", json!(null), false)]
    fn provisioned_needs_a_hash_valid_outputs_and_no_pending(
        #[case] hash: &str,
        #[case] health: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(
            is_provisioned(&state(hash), &read(json!({"health": health}))),
            expected
        );
    }

    #[rstest]
    #[case(true, false, Some("EndpointAvailable"))]
    #[case(true, true, Some("EndpointAvailable"))]
    #[case(false, true, Some("WaitingForEndpoint"))]
    #[case(false, false, None)]
    fn endpoint_available_is_said_once_provisioned_or_there(
        #[case] available: bool,
        #[case] provisioned: bool,
        #[case] reason: Option<&str>,
    ) {
        let verdict = endpoint_verdict(available, provisioned);
        assert_eq!(verdict.map(|verdict| verdict.reason()), reason);
    }
}
