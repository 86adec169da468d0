//! The built manager is killed (SIGKILL) after each of its writes in turn, and a second one finishes the
//! work (failover.md §4, §6).

mod api;
pub(crate) mod proxy;
pub(crate) mod terraform;
mod witness;
