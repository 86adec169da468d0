//! The operator: it acts on what the rules of the library decide.

pub mod active;
pub mod bookkeeping;
pub mod cache;
pub mod cluster;
pub mod context;
pub mod controller;
pub mod credentials;
pub mod diagnostics;
pub mod election;
pub mod events;
pub mod health;
pub mod leases;
pub mod logging;
pub mod manager;
pub mod metrics;
pub mod queue;
pub mod runner_rbac;
pub mod secrets;
pub mod settings;
pub mod skew;
pub mod start;
pub mod state;
pub mod tls;
pub mod watch;
