//! `kubectl-captf`: operator, Job runner and kubectl plugin in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    captf::cli::main()
}
