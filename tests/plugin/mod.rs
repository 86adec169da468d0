//! The kubectl plugin through its front door: the built binary, against nothing, against bad input
//! and against a real API server.

mod api;
mod connection;
mod naming;
mod offline;
mod packaging;
mod program;
mod scene;
