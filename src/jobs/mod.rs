//! Jobs: what they look like, what their past says, and when one may start (jobs.md).
//!
//! Everything here is a pure function of what was read: no client, no clock.

pub mod backoff;
pub mod facts;
pub mod keys;
pub mod pod;
pub mod result;
#[cfg(test)]
pub(crate) mod testing;
pub mod verdict;
