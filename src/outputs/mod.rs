//! What a module answers: the contract outputs in a state, their rules, and what they say about the
//! object (contract.md §5, lifecycle.md §10 and §11.1).
//!
//! Outputs may be secret: problems name the output and the rule it breaks, never a value. The one
//! exception is what the module says about health, which is made for people.

mod cluster;
mod health;
mod machine;
mod problem;
mod shape;

pub use cluster::{ClusterOutputs, endpoint_verdict, is_provisioned};
pub use health::{Health, HealthState, health_verdict};
pub use machine::{MachineExpectations, MachineOutputs};
pub use problem::{Problem, outputs_verdict};
