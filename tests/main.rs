//! The one integration test binary.
#![allow(clippy::unwrap_used, clippy::expect_used)]

<<<<<<< HEAD
mod api;
=======
mod bed;
>>>>>>> bed
mod house;
mod testbed;
