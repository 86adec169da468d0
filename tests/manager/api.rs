//! Against the shared control plane.

mod caches;
mod election;
mod process;
