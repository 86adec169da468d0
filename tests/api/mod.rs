//! The API: what is installed, and what a real API server makes of it.

mod capi;
mod crds;
mod images;
mod install;
mod manifests;
