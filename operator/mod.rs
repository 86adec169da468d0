//! The wing that acts: watches, decides with `src`'s rules, writes.

pub mod settings;
