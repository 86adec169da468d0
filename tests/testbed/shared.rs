//! The beds that the tests of one process share.

use std::ops::Deref;

use tokio::sync::OnceCell;

use super::bed::{Bed, Options};
use super::images::Images;
use super::skip;

/// The shared bed of level 1.
#[derive(Debug)]
pub(crate) struct ControlPlane(Bed);

/// The shared bed of level 2.
#[derive(Debug)]
pub(crate) struct Node {
    bed: Bed,
    images: OnceCell<Images>,
}

impl ControlPlane {
    /// The control plane of this test process, started by the first test that asks.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        skip::note("level-1", "");
        SHARED
            .get_or_init(|| async { Self(start(Options::control_plane()).await) })
            .await
    }
}

impl Node {
    /// The node of this test process, started by the first test that asks; `None` where it cannot run, which has then
    /// been said (and is a failure with `CI=true`). Use it as
    /// `let Some(node) = Node::shared().await else { return };`.
    pub(crate) async fn shared() -> Option<&'static Self> {
        static SHARED: OnceCell<Node> = OnceCell::const_new();
        if !skip::node_is_possible() {
            return None;
        }
        skip::note("level-2", "");
        let start = || async {
            Self {
                bed: start(Options::node()).await,
                images: OnceCell::new(),
            }
        };
        Some(SHARED.get_or_init(start).await)
    }

    /// The images in the node's registry, built and pushed for the first test that asks.
    pub(crate) async fn images(&'static self) -> &'static Images {
        let push = || async {
            tokio::task::spawn_blocking(|| Images::push(&self.bed))
                .await
                .expect("the push does not panic")
                .unwrap_or_else(|error| panic!("{error}"))
        };
        self.images.get_or_init(push).await
    }
}

async fn start(options: Options) -> Bed {
    tokio::task::spawn_blocking(move || Bed::start(options))
        .await
        .expect("the start does not panic")
        .unwrap_or_else(|error| panic!("{error}"))
}

impl Deref for ControlPlane {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.0
    }
}

impl Deref for Node {
    type Target = Bed;

    fn deref(&self) -> &Bed {
        &self.bed
    }
}
