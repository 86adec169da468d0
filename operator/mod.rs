//! The operator: it acts on what the rules of the library decide.

pub mod active;
pub mod bookkeeping;
pub mod cache;
pub mod cluster;
pub mod context;
pub mod controller;
pub mod credentials;
pub mod events;
pub mod leases;
pub mod logging;
pub mod metrics;
pub mod queue;
pub mod runner_rbac;
pub mod secrets;
pub mod settings;
pub mod start;
pub mod state;
pub mod watch;
