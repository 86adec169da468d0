//! The house rules: which module may know which.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no sources in {folder}");
    files
}

/// Lines of code that name `module`, with comments left out.
fn mentions(file: &Path, module: &str) -> Vec<String> {
    fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .filter(|line| line.contains(module))
        .map(|line| {
            format!(
                "{}: {}",
                file.strip_prefix(root()).unwrap().display(),
                line.trim()
            )
        })
        .collect()
}

fn nobody_in(files: &[PathBuf], modules: &[&str]) {
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| modules.iter().flat_map(|module| mentions(file, module)))
        .collect();
    assert!(
        found.is_empty(),
        "forbidden dependencies:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_core_knows_neither_wing() {
    let core: Vec<PathBuf> = sources("src")
        .into_iter()
        .filter(|file| !file.ends_with("src/cli.rs") && !file.ends_with("src/main.rs"))
        .collect();
    nobody_in(
        &core,
        &[
            "crate::operator",
            "crate::plugin",
            "captf::operator",
            "captf::plugin",
        ],
    );
}

#[test]
fn the_wings_do_not_know_each_other() {
    nobody_in(&sources("operator"), &["crate::plugin"]);
    nobody_in(&sources("plugin"), &["crate::operator"]);
}

#[test]
fn what_decides_has_no_client_no_clock_and_no_async() {
    let pure: Vec<PathBuf> = [
        "src/lease",
        "src/names",
        "src/decide",
        "src/jobs",
        "src/inputs",
        "src/state",
        "src/outputs",
    ]
    .into_iter()
    .filter(|folder| root().join(folder).exists())
    .flat_map(sources)
    .collect();
    nobody_in(
        &pure,
        &[
            "kube::Client",
            "kube::Api",
            "crate::client",
            "tokio",
            "async fn",
            "Timestamp::now",
            "SystemTime",
            "Instant::now",
        ],
    );
}

#[test]
fn path_attributes_stand_in_two_lines_only() {
    let files: Vec<PathBuf> = ["src", "operator", "plugin"]
        .into_iter()
        .flat_map(sources)
        .collect();
    let lines: Vec<String> = files
        .iter()
        .flat_map(|file| mentions(file, "#[path"))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("src/lib.rs")),
        "{lines:?}"
    );
}
