//! Jobs: what they look like, what their past says, and when one may start (jobs.md).
//!
//! Everything here is a pure function of what was read: no client, no clock.

pub mod anatomy;
pub mod backoff;
pub mod create;
pub mod facts;
pub mod history;
pub mod lag;
pub mod last_run;
pub mod moved;
pub mod outcome;
pub mod pod;
pub mod policy;
pub mod prune;
pub mod pull;
pub mod report;
pub mod result;
pub mod slots;
pub mod stuck;
#[cfg(test)]
pub(crate) mod testing;
