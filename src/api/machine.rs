//! `TerraformMachine` (api.md §6).

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RemediationPolicy, WorkspaceSpec, WorkspaceStatus, wire_enum::wire_enum};

wire_enum! {
    /// What an address of a machine is (capi.md, MachineAddress).
    pub enum AddressType {
        /// Name of the host.
        Hostname = "Hostname",
        /// Address that other networks reach.
        ExternalIp = "ExternalIP",
        /// Address inside the cluster's network.
        InternalIp = "InternalIP",
        /// Name that other networks resolve.
        ExternalDns = "ExternalDNS",
        /// Name inside the cluster's network.
        InternalDns = "InternalDNS",
    }
}

/// Infrastructure of one machine, made by one Terraform or OpenTofu module (api.md §6).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "TerraformMachine",
    plural = "terraformmachines",
    namespaced,
    shortname = "tfm",
    category = "cluster-api",
    status = "TerraformMachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Infrastructure of one machine, made by one Terraform or OpenTofu module.",
    validation = Rule::new("self.spec.source == oldSelf.spec.source")
        .message("spec.source is immutable: create a new TerraformMachine instead")
        .field_path(".spec.source"),
    validation = Rule::new(concat!(
        "has(self.spec.identityRef) == has(oldSelf.spec.identityRef)",
        " && (!has(self.spec.identityRef) || self.spec.identityRef == oldSelf.spec.identityRef)",
    ))
    .message("spec.identityRef is immutable: create a new TerraformMachine instead")
    .field_path(".spec.identityRef"),
    validation = Rule::new(concat!(
        "has(self.spec.variables) == has(oldSelf.spec.variables)",
        " && (!has(self.spec.variables) || self.spec.variables == oldSelf.spec.variables)",
    ))
    .message("spec.variables is immutable: create a new TerraformMachine instead")
    .field_path(".spec.variables"),
    validation = Rule::new(concat!(
        "has(self.spec.variablesFrom) == has(oldSelf.spec.variablesFrom)",
        " && (!has(self.spec.variablesFrom) || self.spec.variablesFrom == oldSelf.spec.variablesFrom)",
    ))
    .message("spec.variablesFrom is immutable: create a new TerraformMachine instead")
    .field_path(".spec.variablesFrom"),
    validation = Rule::new(concat!(
        "!has(oldSelf.spec.providerID)",
        " || (has(self.spec.providerID) && self.spec.providerID == oldSelf.spec.providerID)",
    ))
    .message("providerID can only be set once")
    .field_path(".spec.providerID")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformMachineSpec {
    /// What all workload kinds share: the module, its credentials, its Jobs, its variables. Module,
    /// credentials and variables are immutable.
    #[serde(flatten)]
    pub workspace: WorkspaceSpec,
    /// The Node's provider ID, copied once from the module's output.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Drift checks of this machine; they are only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<MachineDriftPolicy>,
    /// Remediation, field by field over what the cluster's defaults say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationPolicy>,
}

/// Drift checks of a machine (api.md §6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDriftPolicy {
    /// Seconds between checks; 0 disables them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub interval_seconds: Option<i32>,
}

/// What a `TerraformMachine` reports (api.md §6, §8).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct TerraformMachineStatus {
    /// What all workload kinds report.
    #[serde(flatten)]
    pub workspace: WorkspaceStatus,
    /// Addresses of the machine, in canonical order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<MachineAddress>,
    /// The failure domain that the machine is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,
    /// Whether the provider may take the machine away at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptible: Option<bool>,
    /// Consecutive samples in which the machine was not healthy; unset when healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub unhealthy_samples: Option<i32>,
}

/// One address of a machine (api.md §6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// What the address is.
    #[serde(rename = "type")]
    pub type_: AddressType,
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_is_written_back_as_it_was_read() {
        let written = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "TerraformMachine",
            "metadata": {"name": "m1", "namespace": "t1"},
            "spec": {
                "source": {"image": "registry.example/machine:v1"},
                "providerID": "noop://m1",
                "drift": {"intervalSeconds": 0},
                "remediation": {"annotateMachine": false, "unhealthyThreshold": 3}
            },
            "status": {
                "initialization": {"provisioned": true},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "failureDomain": "fd1",
                "interruptible": false,
                "unhealthySamples": 1
            }
        });
        let read: TerraformMachine = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn an_address_of_a_newer_type_decodes() {
        let written = json!({"type": "LinkLocal", "address": "fe80::1"});
        let read: MachineAddress = serde_json::from_value(written.clone()).unwrap();
        assert!(!read.type_.is_known());
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn an_unset_field_is_not_written() {
        let machine = TerraformMachine::new("m1", TerraformMachineSpec::default());
        let spec: Value = serde_json::to_value(&machine.spec).unwrap();
        assert_eq!(spec, json!({"source": {"image": ""}}));
    }

    // api.md §6, M1 to M5
    #[test]
    fn what_a_machine_was_made_from_is_immutable() {
        use kube::CustomResourceExt as _;
        let crd = serde_json::to_value(TerraformMachine::crd()).unwrap();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let rules = root["x-kubernetes-validations"].as_array().unwrap();
        let found: Vec<(&str, &str)> = rules
            .iter()
            .map(|rule| {
                (
                    rule["fieldPath"].as_str().unwrap(),
                    rule["message"].as_str().unwrap(),
                )
            })
            .collect();
        let expected = [
            (".spec.source", "spec.source is immutable"),
            (".spec.identityRef", "spec.identityRef is immutable"),
            (".spec.variables", "spec.variables is immutable"),
            (".spec.variablesFrom", "spec.variablesFrom is immutable"),
            (".spec.providerID", "providerID can only be set once"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (path, fragment) in expected {
            let message = found.iter().find(|(found, _)| *found == path).unwrap().1;
            assert!(message.contains(fragment), "{message}");
        }
    }
}
