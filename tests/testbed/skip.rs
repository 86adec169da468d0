//! What a machine lacks for a node, and the report of which tests ran on which level.

use std::io::Write;
use std::process::Command;
use std::sync::OnceLock;

use super::programs;

/// Whether this machine can run a node. Where it cannot, the calling test says exactly what is missing, past the test
/// harness's capture; with `CI=true` it fails instead.
pub(crate) fn node_is_possible() -> bool {
    static MISSING: OnceLock<Vec<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(missing_for_a_node);
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(", ");
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "no node on this machine, missing: {missing}"
    );
    note("skipped", &missing);
    let _ = writeln!(std::io::stderr(), "{} skipped: {missing}", test_name());
    false
}

fn missing_for_a_node() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root".to_owned());
    }
    let script = programs::repository().join("hack/dependencies.sh");
    match Command::new(&script).arg("--check").output() {
        Ok(output) => missing.extend(
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .map(str::to_owned),
        ),
        Err(error) => missing.push(format!("{}: {error}", script.display())),
    }
    missing
}

/// Appends a line `<what> <test> <detail>` to the file named by `CAPTF_TEST_REPORT`; `hack/test-levels.sh` counts them.
pub(crate) fn note(what: &str, detail: &str) {
    let Some(path) = std::env::var_os("CAPTF_TEST_REPORT") else {
        return;
    };
    let line = format!("{what} {} {detail}", test_name());
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    // One write of one line: tests of several threads append to the same file.
    let written =
        file.and_then(|mut file| file.write_all(format!("{}\n", line.trim_end()).as_bytes()));
    written.expect("the file named by CAPTF_TEST_REPORT can be written");
}

/// The test harness names each test's thread after the test.
pub(crate) fn test_name() -> String {
    std::thread::current()
        .name()
        .unwrap_or("unnamed")
        .to_owned()
}
