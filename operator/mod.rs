//! The operator: it acts on what the rules of the library decide.

pub mod leases;
pub mod metrics;
pub mod queue;
pub mod settings;
