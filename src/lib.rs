//! CAPTF: Cluster API on any infrastructure that Terraform or OpenTofu can reach.
//!
//! The crate is one library and one binary, `kubectl-captf`. `src` decides (pure
//! rules and what both wings share), `operator` acts, `plugin` explains.

pub mod api;
pub mod cli;
pub mod client;
pub mod decide;
pub mod events;
pub mod image;
pub mod inputs;
pub mod jobs;
pub mod lease;
pub mod names;
pub mod outputs;
pub mod owner;
pub mod runner;
pub mod state;
pub mod text;
pub mod unknown_outcome;

/// The version of this build, as `vX.Y.Z`.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The commit this build was made from, when the build was told.
pub const COMMIT: Option<&str> = option_env!("CAPTF_COMMIT");

#[path = "../operator/mod.rs"]
pub mod operator;
#[path = "../plugin/mod.rs"]
pub mod plugin;
