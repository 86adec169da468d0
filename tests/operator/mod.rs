//! The operator against a real control plane: passes in process, one namespace per test.

mod api;
pub(crate) mod harness;
mod node;
