//! Access to the API server for both wings: one way to connect, one way to call.
//!
//! Every call runs under a limit (kube has none of its own), nothing is retried
//! below the caller, and errors say which verb failed on which object and what
//! that proves about the write ([`Class`]).

mod access;
mod clock;
mod connect;
mod error;
mod patch;
mod proxy;

pub use access::{Access, Deletion, Guard};
pub use clock::{Clock, RawClock};
pub use connect::{ConnectError, connect};
pub use error::{ApiError, Class, innermost};
pub use patch::merge_diff;
pub use proxy::{of_environment as proxy_of_environment, proxy_in_use};
