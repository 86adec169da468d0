//! CAPTF.

pub mod names;
