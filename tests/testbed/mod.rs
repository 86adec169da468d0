//! Real clusters to test against, and the tools to set a scene on them and to disturb it.
//!
//! Two levels: [`ControlPlane::shared`] is etcd, the API server and the controller manager (no root needed; Jobs and
//! garbage collection are real, no pod ever runs), [`Node::shared`] adds a real node, a registry and Cluster API's own
//! controllers. One bed of each level per test process, one namespace per test ([`World`]).
//! A test that stops components starts a bed of its own ([`Bed::start`]).

#![allow(
    dead_code,
    reason = "a toolbox: its tools do not wait for a test that uses them"
)]

mod account;
pub(crate) mod bed;
pub(crate) mod fault;
pub(crate) mod images;
pub(crate) mod jobs;
mod programs;
pub(crate) mod shared;
mod skip;
pub(crate) mod wait;
pub(crate) mod world;

pub(crate) use bed::{Action, Bed, Component, Options, sweep};
pub(crate) use programs::repository;
pub(crate) use shared::{ControlPlane, Node};
pub(crate) use world::{MANAGER_NAMESPACE, World};
