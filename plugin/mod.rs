//! What explains: the kubectl plugin.
//!
//! One file per command. Every command takes [`Settings`] (the resolved global
//! flags) and its own arguments, reads the cluster with read-only requests and
//! prints a report. Rules about leases, names and hashes are never restated
//! here: the plugin calls the functions of the core that the operator calls, so
//! the two cannot disagree (cli.md, design rule 1).
//!
//! The way of one answer: [`read`] gathers facts (async), [`diagnose`] and
//! [`evaluate`] turn them into a report (pure), [`output`] prints it.

mod args;
mod colour;
mod complete;
pub(crate) mod completion;
mod connect;
mod diagnose;
mod error;
mod evaluate;
mod exit;
pub(crate) mod leases;
mod object;
mod output;
mod read;
mod report;
mod runtime;
mod session;
mod settings;
mod time;
pub(crate) mod version;
pub(crate) mod why;

pub(crate) use args::GlobalArgs;
pub(crate) use complete::complete;
pub(crate) use error::Error;
pub(crate) use exit::Exit;
pub(crate) use output::{complain, print};
pub(crate) use runtime::block_on;
pub(crate) use settings::Settings;
