//! CAPTF.
