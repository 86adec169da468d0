//! The shell around the passes: caches, election, servers and the process itself, against a real API
//! server, and what the process says to bad input.

mod api;
mod offline;
pub(crate) mod program;
