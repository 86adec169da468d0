//! What every pass works with.

use std::sync::Arc;

use crate::client::Access;
use crate::operator::cache::Caches;
use crate::operator::events::Events;
use crate::operator::leases::Leases;
use crate::operator::metrics::Metrics;
use crate::operator::start::Starter;
use crate::operator::state::StateReader;

/// Hands and senses of the controllers. Clones share everything.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub access: Access,
    /// The two leases.
    pub leases: Leases,
    /// Starts of Jobs.
    pub starter: Starter,
    /// What the watches hold.
    pub caches: Arc<Caches>,
    /// Terraform's state.
    pub states: Arc<StateReader>,
    /// Events for people.
    pub events: Events,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// What the flags say.
    pub options: Arc<Options>,
}

/// The flags that passes look at (manager.md §1.1).
#[derive(Debug, Clone)]
pub struct Options {
    /// Image of the init container that injects the runner.
    pub runner_image: String,
    /// Runners post progress events.
    pub runner_events: bool,
    /// Cluster and machine operations exclude each other.
    pub cluster_operation_gate: bool,
    /// Running Jobs over all; 0 = no cap.
    pub max_active_jobs: i32,
    /// Running Jobs per cluster; 0 = no cap.
    pub cluster_max_active_jobs: i32,
}
