//! The one integration test binary.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod bed;
mod house;
mod kill;
mod leases;
mod manager;
mod operator;
mod plugin;
mod runner;
mod secrets;
mod testbed;
mod wire;
