//! The outputs of the role `machine` (contract.md §5.4).

use std::collections::BTreeMap;

use serde_json::Value;

use super::health::Health;
use super::problem::Problem;
use super::shape::{At, Broken, field, required};
use crate::api::{AddressType, MachineAddress};
use crate::state::{Output, State};

/// Most addresses a machine may have.
const ADDRESSES_MAX: usize = 256;

/// The order in which addresses are reported; of one type they are sorted.
const ADDRESS_ORDER: [AddressType; 5] = [
    AddressType::InternalIp,
    AddressType::InternalDns,
    AddressType::ExternalIp,
    AddressType::ExternalDns,
    AddressType::Hostname,
];

/// The outputs of a machine module, each with its own outcome: a field whose output is invalid keeps
/// its previous value (C-16, api.md §6).
#[derive(Clone, Debug)]
pub struct MachineOutputs {
    /// `provider_id`; null and empty are the same.
    pub provider_id: Result<Option<String>, Problem>,
    /// `addresses`, in the order in which they are reported.
    pub addresses: Result<Vec<MachineAddress>, Problem>,
    /// `failure_domain`.
    pub failure_domain: Result<Option<String>, Problem>,
    /// `interruptible`; null is false.
    pub interruptible: Result<bool, Problem>,
    /// `health`.
    pub health: Result<Health, Problem>,
}

/// What the object says that its outputs must agree with.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineExpectations<'a> {
    /// `spec.providerID`, which is written once.
    pub provider_id: Option<&'a str>,
    /// `Machine.spec.failureDomain`, where the machine was to be placed.
    pub failure_domain: Option<&'a str>,
    /// `status.initialization.provisioned`: a provider ID that is missing later is a matter of health.
    pub provisioned: bool,
}

impl MachineOutputs {
    /// Reads the outputs of a state. `applied` = an apply has succeeded (the state has an inputs hash,
    /// or the object is provisioned): until then an absent output is just not known yet.
    #[must_use]
    pub fn read(outputs: &BTreeMap<String, Output>, applied: bool) -> Self {
        Self {
            provider_id: field(outputs, "provider_id", read_provider_id).map(Option::flatten),
            addresses: required(outputs, "addresses", applied, read_addresses),
            failure_domain: field(outputs, "failure_domain", read_failure_domain),
            interruptible: field(outputs, "interruptible", |value| At::output(value).bool())
                .map(Option::unwrap_or_default),
            health: required(outputs, "health", applied, Health::read),
        }
    }

    /// Everything that is wrong, in the contract's order; empty when the outputs are valid.
    #[must_use]
    pub fn problems(&self, expected: MachineExpectations<'_>) -> Vec<Problem> {
        [
            self.provider_problem(expected),
            self.addresses.as_ref().err().cloned(),
            self.domain_problem(expected),
            self.interruptible.as_ref().err().cloned(),
            self.health.as_ref().err().cloned(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn provider_problem(&self, expected: MachineExpectations<'_>) -> Option<Problem> {
        match (&self.provider_id, expected.provider_id) {
            (Err(problem), _) => Some(problem.clone()),
            (Ok(None), _) if !expected.provisioned => Some(Problem::pending("provider_id")),
            (Ok(Some(found)), Some(own)) if found != own => Some(Problem::provider_id_changed()),
            _ => None,
        }
    }

    fn domain_problem(&self, expected: MachineExpectations<'_>) -> Option<Problem> {
        match (&self.failure_domain, expected.failure_domain) {
            (Err(problem), _) => Some(problem.clone()),
            (Ok(found), Some(wanted)) if found.as_deref() != Some(wanted) => {
                Some(Problem::failure_domain_mismatch())
            }
            _ => None,
        }
    }

    /// The module says that its infrastructure is still coming up.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.health.as_ref().is_ok_and(Health::is_pending)
    }

    /// A machine is provisioned, once and for all, when an apply succeeded (the state has an inputs
    /// hash), the outputs are valid with a provider ID, and health is not pending (contract.md §5.4,
    /// lifecycle.md §10.10).
    #[must_use]
    pub fn is_provisioned(&self, state: &State, expected: MachineExpectations<'_>) -> bool {
        !state.inputs_hash.is_empty()
            && matches!(self.provider_id, Ok(Some(_)))
            && self.problems(expected).is_empty()
            && !self.is_pending()
    }
}

/// 1 to 512 characters; `""` is null.
fn read_provider_id(value: &Value) -> Result<Option<String>, Broken> {
    let output = At::output(value);
    if output.string()?.is_empty() {
        return Ok(None);
    }
    output.text(1, 512).map(|text| Some(text.to_owned()))
}

fn read_failure_domain(value: &Value) -> Result<String, Broken> {
    At::output(value).text(1, 256).map(str::to_owned)
}

/// At most 256 addresses of known types, each of 1 to 256 characters, in reported order.
fn read_addresses(value: &Value) -> Result<Vec<MachineAddress>, Broken> {
    let output = At::output(value);
    let entries = output.list("entry")?;
    output.require(entries.len() <= ADDRESSES_MAX, "has more than 256 entries")?;
    let mut addresses = entries
        .iter()
        .map(read_address)
        .collect::<Result<Vec<_>, _>>()?;
    let rank = |address: &MachineAddress| {
        ADDRESS_ORDER
            .iter()
            .position(|type_| *type_ == address.type_)
    };
    addresses.sort_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.address.cmp(&b.address))
    });
    Ok(addresses)
}

fn read_address(entry: &At<'_>) -> Result<MachineAddress, Broken> {
    let named = entry.attribute("type")?;
    let type_ = AddressType::from(named.string()?);
    named.require(
        type_.is_known(),
        "is none of Hostname, ExternalIP, InternalIP, ExternalDNS, InternalDNS",
    )?;
    Ok(MachineAddress {
        type_,
        address: entry.attribute("address")?.text(1, 256)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::names::InputsHash;
    use crate::outputs::outputs_verdict;

    fn read(value: Value) -> MachineOutputs {
        let values: BTreeMap<String, Value> = serde_json::from_value(value).unwrap();
        let outputs = values
            .into_iter()
            .map(|(name, value)| {
                let text = format!(r#"{{"value":{value},"type":"dynamic"}}"#);
                (name, serde_json::from_str(&text).unwrap())
            })
            .collect();
        MachineOutputs::read(&outputs, true)
    }

    fn healthy() -> Value {
        json!({"state": "running", "healthy": true})
    }

    fn machine(over: Value) -> MachineOutputs {
        let mut outputs = json!({
            "provider_id": "noop://m1", "addresses": [], "failure_domain": "fd1", "health": healthy(),
        });
        for (key, value) in over.as_object().unwrap() {
            outputs[key] = value.clone();
        }
        read(outputs)
    }

    fn says(outputs: &MachineOutputs, expected: MachineExpectations<'_>) -> (&'static str, String) {
        let verdict = outputs_verdict(&outputs.problems(expected));
        (verdict.reason(), verdict.message().to_owned())
    }

    #[test]
    fn c32_addresses_are_reported_by_type_then_by_address() {
        let address =
            |type_: &str, address: &str| json!({"type": type_, "address": address, "x": 1});
        let outputs = machine(json!({"addresses": [
            address("Hostname", "h"), address("ExternalDNS", "x.example"), address("ExternalIP", "1.2.3.4"),
            address("InternalDNS", "i.example"), address("InternalIP", "10.0.0.2"), address("InternalIP", "10.0.0.1"),
        ]}));
        let found: Vec<String> = outputs
            .addresses
            .unwrap()
            .iter()
            .map(|found| format!("{} {}", found.type_, found.address))
            .collect();
        assert_eq!(
            found,
            [
                "InternalIP 10.0.0.1",
                "InternalIP 10.0.0.2",
                "InternalDNS i.example",
                "ExternalIP 1.2.3.4",
                "ExternalDNS x.example",
                "Hostname h"
            ]
        );
    }

    #[rstest]
    #[case(json!({"provider_id": 1}), "output provider_id: it is not a string")]
    #[case(json!({"provider_id": "x".repeat(513)}), "output provider_id: it has not 1 to 512 characters")]
    #[case(json!({"addresses": {}}), "output addresses: it is not a list")]
    #[case(json!({"addresses": [{"type": "IP", "address": "a"}]}),
           "output addresses: type of entry 1 is none of Hostname, ExternalIP, InternalIP, ExternalDNS, InternalDNS")]
    #[case(json!({"addresses": [{"type": "Hostname", "address": ""}]}),
           "output addresses: address of entry 1 has not 1 to 256 characters")]
    #[case(json!({"addresses": vec![json!({"type": "Hostname", "address": "a"}); 257]}),
           "output addresses: it has more than 256 entries")]
    #[case(json!({"failure_domain": ""}), "output failure_domain: it has not 1 to 256 characters")]
    #[case(json!({"interruptible": "no"}), "output interruptible: it is not true or false")]
    fn c16_a_value_that_breaks_the_contract_is_invalid(#[case] over: Value, #[case] message: &str) {
        let said = says(&machine(over), MachineExpectations::default());
        assert_eq!(said, ("OutputsInvalid", message.to_owned()));
    }

    #[test]
    fn c14_no_provider_id_is_not_known_yet_until_provisioned() {
        for none in [json!(null), json!("")] {
            let outputs = machine(json!({"provider_id": none}));
            let unprovisioned = MachineExpectations::default();
            assert_eq!(says(&outputs, unprovisioned).0, "OutputsPending");
            let provisioned = MachineExpectations {
                provisioned: true,
                provider_id: Some("noop://m1"),
                ..unprovisioned
            };
            assert_eq!(says(&outputs, provisioned).0, "OutputsValid");
        }
    }

    #[test]
    fn c13a_an_absent_list_of_addresses_is_missing_and_absent_nullables_are_null() {
        let outputs = read(json!({"provider_id": "p", "health": healthy()}));
        assert_eq!(
            says(&outputs, MachineExpectations::default()).0,
            "OutputsMissing"
        );
        let outputs = read(json!({"provider_id": "p", "addresses": [], "health": healthy()}));
        assert_eq!(outputs.interruptible, Ok(false));
        assert_eq!(outputs.failure_domain, Ok(None));
        assert_eq!(
            says(&outputs, MachineExpectations::default()).0,
            "OutputsValid"
        );
    }

    #[test]
    fn another_provider_id_than_the_one_written_once_is_a_violation() {
        let other = MachineExpectations {
            provider_id: Some("noop://m0"),
            ..MachineExpectations::default()
        };
        assert_eq!(says(&machine(json!({})), other).0, "ProviderIDChanged");
    }

    #[rstest]
    #[case(Some("fd1"), "OutputsValid")]
    #[case(None, "OutputsValid")]
    #[case(Some("fd2"), "FailureDomainMismatch")]
    fn the_failure_domain_must_be_the_one_asked_for(
        #[case] wanted: Option<&str>,
        #[case] reason: &str,
    ) {
        let expected = MachineExpectations {
            failure_domain: wanted,
            ..MachineExpectations::default()
        };
        assert_eq!(says(&machine(json!({})), expected).0, reason);
    }

    #[rstest]
    #[case("h2:a", json!({}), true)]
    #[case("", json!({}), false)]
    #[case("h2:a", json!({"provider_id": null}), false)]
    #[case("h2:a", json!({"health": {"state": "pending", "healthy": true}}), false)]
    #[case("h2:a", json!({"health": {"state": "stopped", "healthy": false}}), true)]
    #[case("h2:a", json!({"health": null}), false)]
    fn provisioned_needs_a_hash_a_provider_id_and_no_pending(
        #[case] hash: &str,
        #[case] over: Value,
        #[case] expected: bool,
    ) {
        let state = State {
            serial: 1,
            lineage: String::new(),
            terraform_version: String::new(),
            outputs: BTreeMap::new(),
            managed_resources: 0,
            compressed_bytes: 0,
            inputs_hash: InputsHash::new(hash),
            chunks: Vec::new(),
        };
        let found = machine(over).is_provisioned(&state, MachineExpectations::default());
        assert_eq!(found, expected);
    }
}
