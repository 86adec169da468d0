//! The operator: it acts on what the rules of the library decide.

pub mod credentials;
pub mod leases;
pub mod metrics;
pub mod queue;
pub mod runner_rbac;
pub mod secrets;
pub mod settings;
pub mod start;
pub mod state;
