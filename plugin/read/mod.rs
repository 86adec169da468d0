//! Reading the cluster: lean answers, read-only requests, no discovery.
//!
//! Group, version and plural names are compiled in (cli.md, design rule 6). Answers are decoded
//! straight from the bytes into structs that hold only what a report uses: `managedFields`, pod
//! templates and the like are skipped, never built.

mod jobs;
mod pages;
mod request;
mod server;
pub(crate) mod wire;

pub(crate) use jobs::{JobRow, TableError, job_rows};
pub(crate) use pages::{Keyed, Listed, each_page, list};
pub(crate) use request::{Request, Resource};
pub(crate) use server::{ApiServer, Form, PAGE, Query};
