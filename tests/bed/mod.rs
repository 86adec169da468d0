//! The test bed holds what it promises to the tests that stand on it.

mod api;
mod life;
mod node;
