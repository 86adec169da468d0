//! The integration tests.

mod api;
