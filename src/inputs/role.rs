//! The module contract `v1alpha1`: roles, the inputs each role is given and the outputs it must
//! have (contract.md §1, §4, §5).

use std::fmt;

use crate::names::Kind;

/// The contract version that is injected as `captf_contract` and hashed (contract.md C-2).
pub const CONTRACT_VERSION: &str = "v1alpha1";

/// What a module is for; each kind has exactly one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The infrastructure that machines share.
    Cluster,
    /// One machine.
    Machine,
    /// A scaling group.
    MachinePool,
}

impl Role {
    /// The role's name in the contract.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Machine => "machine",
            Self::MachinePool => "machinepool",
        }
    }

    /// The inputs that the generated root declares, in contract order (contract.md §4).
    #[must_use]
    pub const fn inputs(self) -> &'static [Input] {
        match self {
            Self::Cluster => CLUSTER_INPUTS,
            Self::Machine => MACHINE_INPUTS,
            Self::MachinePool => MACHINEPOOL_INPUTS,
        }
    }

    /// The outputs that a module must declare, in contract order (contract.md §5).
    #[must_use]
    pub const fn outputs(self) -> &'static [&'static str] {
        match self {
            Self::Cluster => &[
                "control_plane_endpoint",
                "failure_domains",
                "exports",
                "health",
            ],
            Self::Machine => &[
                "provider_id",
                "addresses",
                "failure_domain",
                "interruptible",
                "health",
            ],
            Self::MachinePool => &[
                "provider_id",
                "provider_id_list",
                "replicas",
                "instances",
                "health",
            ],
        }
    }
}

impl From<Kind> for Role {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::TerraformCluster => Self::Cluster,
            Kind::TerraformMachine => Self::Machine,
            Kind::TerraformMachinePool => Self::MachinePool,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One contract input as the generated root declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The variable's name.
    pub name: &'static str,
    /// The exact type expression.
    pub root_type: &'static str,
    /// Declared with a default of `null`.
    pub nullable: bool,
    /// Declared sensitive.
    pub sensitive: bool,
}

const fn input(name: &'static str, root_type: &'static str) -> Input {
    Input {
        name,
        root_type,
        nullable: false,
        sensitive: false,
    }
}

const fn nullable(name: &'static str, root_type: &'static str) -> Input {
    Input {
        nullable: true,
        ..input(name, root_type)
    }
}

const CONTRACT: Input = input("captf_contract", "string");
const CLUSTER: Input = input("captf_cluster", "any");
const OBJECT: Input = input("captf_object", "any");
const TAGS: Input = input("captf_tags", "map(string)");
const CLUSTER_OUTPUTS: Input = input("captf_cluster_outputs", "any");
const KUBERNETES_VERSION: Input = nullable("kubernetes_version", "string");
const BOOTSTRAP_DATA: Input = Input {
    sensitive: true,
    ..input("bootstrap_data", "string")
};
const BOOTSTRAP_FORMAT: Input = input("bootstrap_format", "string");

const CLUSTER_INPUTS: &[Input] = &[
    CONTRACT,
    CLUSTER,
    OBJECT,
    TAGS,
    nullable(
        "control_plane_endpoint",
        "object({host=string, port=number})",
    ),
    KUBERNETES_VERSION,
    input("control_plane_initialized", "bool"),
    nullable(
        "cluster_network",
        "object({pods=list(string), services=list(string), service_domain=string, \
         api_server_port=number})",
    ),
];

const MACHINE_INPUTS: &[Input] = &[
    CONTRACT,
    CLUSTER,
    OBJECT,
    TAGS,
    CLUSTER_OUTPUTS,
    input("machine_name", "string"),
    BOOTSTRAP_DATA,
    BOOTSTRAP_FORMAT,
    nullable("failure_domain", "string"),
    KUBERNETES_VERSION,
    input("control_plane", "bool"),
];

const MACHINEPOOL_INPUTS: &[Input] = &[
    CONTRACT,
    CLUSTER,
    OBJECT,
    TAGS,
    CLUSTER_OUTPUTS,
    input("machinepool_name", "string"),
    input("replicas", "number"),
    BOOTSTRAP_DATA,
    BOOTSTRAP_FORMAT,
    input("failure_domains", "list(string)"),
    input("cluster_failure_domains", "list(string)"),
    KUBERNETES_VERSION,
    input("node_labels", "map(string)"),
    input(
        "autoscaling",
        "object({enabled=bool, min=number, max=number})",
    ),
];
