//! Why an object waits: facts gathered from the cluster, a verdict from pure rules, a report.
//!
//! The rows are those of diagnosis.md: [`facts`] holds what was read, [`verdict`] walks the checks in
//! the order of diagnosis.md §1.2 and stops at the first that applies, [`report`] is what it found
//! and [`render`] prints it for people. Only [`gather`] talks to the cluster.

mod checks;
pub(crate) mod facts;
pub(crate) mod gather;
mod lines;
pub(crate) mod render;
pub(crate) mod report;
mod rows;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use verdict::diagnose;
