//! CAPTF.

pub mod image;
pub mod jobs;
pub mod names;
pub mod text;
