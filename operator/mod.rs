//! The operator: it acts on what the rules of the library decide.

pub mod credentials;
pub mod leases;
pub mod runner_rbac;
pub mod secrets;
pub mod start;
pub mod state;
