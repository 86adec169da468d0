//! Secrets, credentials, runner identity and state: exact requests, and the real API server.

mod api;
mod credentials_wire;
mod per_run_wire;
mod rbac_wire;
mod records_wire;
mod state_wire;
mod variables_wire;
