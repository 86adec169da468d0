//! Where the bed's programs lie; they are built when they are missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The repository that the tests were compiled from.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with `testbed`, `capi-manager`, `clusterctl` and the CRDs: `CAPTF_TESTBED`, or what
/// `tests/testbed/build.sh` built (a second when nothing changed, minutes the first time).
pub(crate) fn folder() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOLDER.get_or_init(find_or_build) {
        Ok(path) => Ok(path),
        Err(error) => Err(error.clone()),
    }
}

fn find_or_build() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("CAPTF_TESTBED") {
        return Ok(folder.into());
    }
    let script = repository().join("tests/testbed/build.sh");
    last_line_of(Command::new(&script)).map(PathBuf::from)
}

/// Runs a script that shows its progress on standard error and its result as the last line of standard output.
pub(crate) fn last_line_of(mut command: Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{shown} did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown} failed: {}", output.status));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .last()
        .map(str::to_owned)
        .ok_or_else(|| format!("{shown} printed nothing"))
}
