//! The shell around the passes: caches, election, servers and the process itself, against a real API
//! server.

mod api;
