//! The built runner, in a pod's folders: with the real runtime where it can show the case, else with a script in its
//! place.

mod events;
mod interrupted;
mod operations;
mod secrets;
mod steps;
mod usage;
mod world;
