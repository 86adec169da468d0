//! CAPTF.

pub mod inputs;
pub mod names;
pub mod state;
