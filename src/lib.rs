//! CAPTF.

pub mod inputs;
pub mod names;
