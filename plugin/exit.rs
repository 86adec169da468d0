//! Exit codes of the plugin commands (cli.md §11): part of the interface.

use std::process::ExitCode;

/// How a plugin command ended.
///
/// The order is the order of weight: of several objects the highest code wins
/// (cli.md §7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// The command did what was asked; an empty list counts as done.
    Done = 0,
    /// Connection, API error, object not found, internal error.
    Failed = 1,
    /// A bad flag or argument, or an ambiguous name.
    Usage = 2,
    /// `--exit-code`: the object waits.
    Waiting = 3,
    /// `--exit-code`: a person must act.
    NeedsPerson = 4,
    /// Not authenticated, or a required permission is missing (401, 403).
    NotAllowed = 6,
    /// SIGINT before a result.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
