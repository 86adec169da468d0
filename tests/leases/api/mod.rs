//! On a real API server.

mod acquire;
mod fence;
mod gate;
mod manager;
mod release;
mod rivals;
mod starts;
mod waits;

use crate::testbed::{ControlPlane, World};

/// A namespace on the shared control plane.
async fn scene() -> (&'static ControlPlane, World) {
    let bed = ControlPlane::shared().await;
    (bed, World::new(bed).await)
}

/// The same with the TerraformCluster `prod`.
async fn prod() -> (&'static ControlPlane, World) {
    let (bed, world) = scene().await;
    world.cluster("prod").create().await;
    (bed, world)
}
