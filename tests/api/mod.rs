//! The API: what is installed, and what a real API server makes of it.

mod capi;
mod crds;
mod install;
mod manifests;
