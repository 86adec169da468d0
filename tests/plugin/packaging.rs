//! Files that are generated from the program or shipped beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::program::run;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares a checked-in file with what the program prints; `UPDATE=1` rewrites it.
fn is_current(path: &str, printed: &str) {
    let path = root(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, printed).unwrap();
    }
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == printed,
        "{} is out of date: run the tests with UPDATE=1",
        path.display()
    );
}

#[test]
fn completion_scripts_are_current() {
    for (shell, path) in [
        ("bash", "completions/kubectl-captf.bash"),
        ("zsh", "completions/_kubectl-captf"),
        ("fish", "completions/kubectl-captf.fish"),
        ("powershell", "completions/kubectl-captf.ps1"),
        ("kubectl", "completions/kubectl_complete-captf"),
    ] {
        let said = run(&["completion", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{shell}");
        is_current(path, &said.stdout);
    }
}

#[test]
fn the_bash_script_is_valid_bash() {
    let Ok(status) = std::process::Command::new("bash")
        .arg("-n")
        .arg(root("completions/kubectl-captf.bash"))
        .status()
    else {
        return;
    };
    assert!(status.success());
}

/// The platforms of the manifest.
fn manifest() -> Value {
    let text = fs::read_to_string(root("krew-manifest.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[test]
fn the_krew_manifest_says_what_krew_needs() {
    let manifest = manifest();
    assert_eq!(
        text(&manifest, "/apiVersion"),
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(text(&manifest, "/kind"), "Plugin");
    assert_eq!(text(&manifest, "/metadata/name"), "captf");
    assert_eq!(
        text(&manifest, "/spec/version"),
        format!("v{}", env!("CARGO_PKG_VERSION"))
    );
    assert!(text(&manifest, "/spec/homepage").starts_with("https://"));
}

#[test]
fn the_krew_descriptions_fit() {
    let manifest = manifest();
    let short = text(&manifest, "/spec/shortDescription");
    assert!(
        !short.is_empty() && short.len() <= 50 && !short.contains('\n'),
        "{short}"
    );
    let long = text(&manifest, "/spec/description");
    assert!(
        !long.is_empty() && long.lines().all(|line| line.len() <= 80),
        "{long}"
    );
    assert!(text(&manifest, "/spec/caveats").contains("completion"));
}

#[test]
fn every_krew_platform_is_whole_and_there_once() {
    let manifest = manifest();
    let mut seen = BTreeSet::new();
    for platform in manifest["spec"]["platforms"].as_array().unwrap() {
        let labels = platform["selector"]["matchLabels"].as_object().unwrap();
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["arch", "os"]);
        assert_eq!(platform["selector"].as_object().unwrap().len(), 1);
        let (os, arch) = (
            text(platform, "/selector/matchLabels/os"),
            text(platform, "/selector/matchLabels/arch"),
        );
        assert!(
            seen.insert((os.to_owned(), arch.to_owned())),
            "{os}/{arch} is there twice"
        );

        let windows = os == "windows";
        let (ending, binary) = if windows {
            (".zip", "kubectl-captf.exe")
        } else {
            (".tar.gz", "kubectl-captf")
        };
        assert!(
            text(platform, "/uri").ends_with(&format!("{os}-{arch}{ending}")),
            "{platform}"
        );
        assert_eq!(text(platform, "/bin"), binary);
        let sum = text(platform, "/sha256");
        assert!(
            sum.len() == 64 && sum.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
            "{sum}"
        );
        let files: Vec<&str> = platform["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| text(file, "/from"))
            .collect();
        assert_eq!(files, [binary, "LICENSE"]);
    }
    let expected = [
        ("darwin", "amd64"),
        ("darwin", "arm64"),
        ("linux", "amd64"),
        ("linux", "arm64"),
        ("windows", "amd64"),
    ];
    let expected: BTreeSet<_> = expected
        .map(|(os, arch)| (os.to_owned(), arch.to_owned()))
        .into();
    assert_eq!(seen, expected);
}
