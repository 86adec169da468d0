//! The operator against a real control plane: passes in process, one namespace per test.

mod api;
pub(crate) mod cut;
pub(crate) mod hand;
pub(crate) mod harness;
mod node;
pub(crate) mod sight;
