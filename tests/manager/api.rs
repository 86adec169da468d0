//! Against the shared control plane, or one of the tests' own where definitions are changed.

mod caches;
mod definitions;
mod election;
mod process;
mod signals;
mod trouble;
