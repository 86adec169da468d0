//! What a Job is given: the contract inputs of its object, the user's variables, the two generated
//! files, and the hashes that tell one content from another (inputs.md, contract.md).
//!
//! Everything here is a pure function of what was read before. Values may be secret: no `Debug`
//! output, error or message of this module holds one.

mod canonical;
mod contract;
mod endpoint;
mod exports;
mod hash;
pub mod json;
mod render;
mod role;
mod variables;

#[cfg(test)]
mod golden;

pub use canonical::{CanonicalError, Numbers, canonical};
pub use contract::{
    Autoscaling, BootstrapData, ClusterInputs, ClusterNetwork, CommonInputs, Inputs, MachineInputs,
    MachinePoolInputs, NotBase64, View,
};
pub use endpoint::{
    Endpoint, EndpointInput, EndpointSource, RecordedClusterInputs, SourceChange,
    endpoint_available, endpoint_input, endpoint_write_back, latch_initialized,
};
pub use exports::{Exports, NotPublished, PUBLISHED_EXPORTS_MAX};
pub use hash::{approval_hash, inputs_hash};
pub use render::{MAIN_TF_JSON, RENDERED_MAX, RenderError, Rendered, TFVARS_JSON, render};
pub use role::{CONTRACT_VERSION, Input, Role};
pub use variables::{
    NameProblem, Origin, SourceContent, SourceKind, ValueFormat, Variable, VariableSource,
    Variables, VariablesError, check_variable_name,
};
