//! CAPTF: Cluster API on any infrastructure that Terraform or OpenTofu can reach.
//!
//! The crate is one library and one binary, `kubectl-captf`. `src` decides (pure
//! rules and what both wings share), `operator` acts, `plugin` explains.

pub mod cli;
pub mod client;
pub mod lease;
pub mod names;
#[path = "../plugin/mod.rs"]
mod plugin;
