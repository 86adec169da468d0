//! What the program does without a cluster: help, versions, completion, and every way in which a
//! connection cannot be made, each with one sentence and its exit code.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use super::program::{bare, run, run_with, said};

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: mgmt\n\
    contexts: [{name: mgmt, context: {cluster: c, user: u}}, {name: dev, context: {cluster: c, user: u}}]\n\
    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
    users: [{name: u, user: {token: t}}]\n";

/// A kubeconfig file with this text.
fn kubeconfig(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn without_arguments_it_prints_help() {
    let said = run(&[]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!("help", said.stdout);
    });
}

#[test]
fn help_is_a_command_too() {
    assert_eq!(run(&["help"]).stdout, run(&[]).stdout);
    for command in ["leases", "why", "completion", "manager", "runner"] {
        let said = run(&["help", command]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{command}");
        assert_eq!(said.stdout, run(&[command, "--help"]).stdout, "{command}");
    }
    assert_eq!(run(&["help", "nothing"]).code, 2);
}

#[test]
fn every_command_has_help_without_a_cluster() {
    for command in ["leases", "why", "version", "completion", "options"] {
        let said = run(&[command, "--help"]);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{command}");
        assert!(
            said.stdout.contains("Usage: kubectl captf "),
            "{command}: {}",
            said.stdout
        );
    }
}

#[test]
fn the_client_version_needs_no_cluster() {
    let said = run(&["version", "--client", "-o", "json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(report["clientVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["kinds"], "infrastructure.cluster.x-k8s.io/v1alpha1");
    assert_eq!(report["outputSchema"], "cli.captf.io/v1");
}

#[test]
fn the_client_version_is_known_although_the_cluster_is_not() {
    let (_dir, path) = kubeconfig(KUBECONFIG);
    let said = run_with(&path, &["version"]);
    assert_eq!(said.code, 0);
    assert!(said.stdout.starts_with("client "), "{said:?}");
    assert!(
        said.stderr
            .starts_with("note: the manager's version is not known: cannot reach"),
        "{said:?}"
    );
}

#[test]
fn no_kubeconfig_and_no_pod_is_said() {
    let said = run(&["leases"]);
    assert_eq!(said.code, 1);
    assert_eq!(
        said.stderr,
        "error: no cluster configured: /nonexistent/.kube/config does not exist and this is not a pod\n\
         hint: set KUBECONFIG or --kubeconfig\n"
    );
}

#[test]
fn a_broken_kubeconfig_is_named() {
    let (_dir, path) = kubeconfig("contexts: [\n");
    for args in [&["leases"][..], &["why", "tfc/demo"]] {
        let said = run_with(&path, args);
        assert_eq!(said.code, 1);
        assert!(said.is_refusal(), "{said:?}");
        assert!(
            said.stderr.contains(&path.display().to_string()),
            "{said:?}"
        );
    }
}

#[test]
fn an_unknown_context_names_the_known_ones() {
    let (_dir, path) = kubeconfig(KUBECONFIG);
    let said = run_with(&path, &["leases", "--context", "prod"]);
    assert_eq!(said.code, 1);
    assert_eq!(
        said.stderr,
        "error: context \"prod\" not found in kubeconfig\nhint: known contexts: mgmt, dev\n"
    );
}

#[test]
fn an_unreachable_server_is_named_with_its_context() {
    let (_dir, path) = kubeconfig(KUBECONFIG);
    for args in [&["leases"][..], &["why", "tfc/demo"]] {
        let said = run_with(&path, args);
        assert_eq!(said.code, 1);
        assert!(said.is_refusal(), "{said:?}");
        assert!(
            said.stderr.starts_with(
                "error: cannot reach https://127.0.0.1:1 (context mgmt): connection refused\n"
            ),
            "{said:?}"
        );
    }
}

#[test]
fn what_is_typed_wrong_ends_with_two() {
    for args in [
        &["leasse"][..],
        &["leases", "--no-such-flag"],
        &["leases", "-o", "xml"],
        &["leases", "--state", "Asleep"],
        &["leases", "--op", "destory"],
        &["leases", "-A", "some-lease"],
        &["leases", "--for", "demo"],
        &["leases", "--request-timeout", "soon"],
        &["leases", "--as-group", "system:masters"],
        &["why"],
        &["why", "deployment/x"],
        &["completion", "tcsh"],
    ] {
        let said = run(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.is_refusal(), "{args:?}: {said:?}");
    }
}

#[test]
fn the_operator_is_in_the_help_and_has_flags_of_its_own() {
    let help = run(&["--help"]).stdout;
    assert!(help.contains("  manager "), "{help}");
    assert!(!help.contains("runner"), "{help}");
    let manager = run(&["manager", "--help"]);
    assert_eq!(manager.code, 0);
    assert!(
        manager.stdout.contains("--leader-elect"),
        "{}",
        manager.stdout
    );
    assert!(!manager.stdout.contains("--as-group"), "{}", manager.stdout);
    let misplaced = run(&["--namespace", "x", "manager", "--leader-elect"]);
    assert_eq!(misplaced.code, 2);
    assert_eq!(
        misplaced.stderr,
        "error: manager takes no flags before its name\nhint: kubectl captf manager --leader-elect\n"
    );
}

#[test]
fn the_three_lives_answer_to_their_names() {
    let dir = tempfile::tempdir().unwrap();
    for (name, args, expected) in [
        ("manager", &["version"][..], "manager v"),
        ("runner", &["version"], "runner v"),
        ("kubectl-captf", &["version", "--client"], "client "),
    ] {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-captf"), &link).unwrap();
        let said = said(std::process::Command::new(&link).env_clear().args(args));
        assert!(said.stdout.starts_with(expected), "{name}: {said:?}");
        assert_eq!(said.code, 0, "{name}");
    }
}

#[test]
fn a_template_is_refused_with_the_way_to_do_it() {
    let said = run(&["leases", "-o", "go-template={{.}}"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("use -o json and jq"), "{said:?}");
}

#[test]
fn a_reader_that_goes_away_ends_the_program_by_sigpipe_and_quietly() {
    use std::os::unix::process::ExitStatusExt as _;
    let mut child = bare()
        .arg("options")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(
        (child.wait().unwrap().signal(), stderr.as_str()),
        (Some(13), "")
    );
}

#[test]
fn completion_offers_commands_flags_and_values() {
    let lines = |words: &[&str]| {
        let said = run(&[&["__complete", "--"], words].concat());
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{words:?}");
        said.stdout
    };
    assert!(lines(&["l"]).starts_with("leases\tList run and cluster leases"));
    assert!(lines(&["leases", "--wai"]).starts_with("--waiters\t"));
    assert_eq!(lines(&["leases", "-o", "j"]), "json\n:4\n");
    assert!(lines(&["manager", "--leader-elect-re"]).contains("--leader-elect-retry-period\t"));
    assert_eq!(
        lines(&["leases", "--sort-by=b"]),
        "--sort-by=backstop\tThe backstop that passes first comes first\n:4\n"
    );
}

#[test]
fn completion_offers_states_and_operations() {
    let said = run(&["__complete", "--", "leases", "--state", "H"]);
    assert_eq!(
        said.stdout,
        "HashGap\nHolderMissing\nHolderFinished\nHeld\n:4\n"
    );
    let said = run(&["__complete", "--", "leases", "--op", "apply,de"]);
    assert_eq!(said.stdout, "apply,destroy\n:4\n");
}

#[test]
fn the_completion_hook_is_installed_as_a_program() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let hook = dir.path().join("kubectl_complete-captf");
    let folder = dir.path().to_str().unwrap();
    for _ in 0..2 {
        let said = run(&["completion", "install", "--dir", folder]);
        assert_eq!(
            (said.code, said.stdout),
            (0, format!("{}\n", hook.display()))
        );
    }
    assert_eq!(
        fs::read_to_string(&hook).unwrap(),
        run(&["completion", "kubectl"]).stdout
    );
    let mode = fs::metadata(&hook).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(run(&["completion", "install", "--dir", "/nowhere"]).is_refusal());
}

#[test]
fn completion_of_a_cluster_that_is_not_there_is_empty_and_silent() {
    let (_dir, path) = kubeconfig(KUBECONFIG);
    for words in [&["why", ""][..], &["leases", ""], &["-n", ""]] {
        let said = run_with(&path, &[&["__complete", "--"], words].concat());
        assert_eq!(
            (said.code, said.stdout.as_str(), said.stderr.as_str()),
            (0, ":4\n", ""),
            "{words:?}"
        );
    }
    let contexts = run_with(&path, &["__complete", "--", "--context", ""]);
    assert_eq!(contexts.stdout, "mgmt\ndev\n:4\n");
}

#[test]
fn kubectls_completion_hook_is_the_same_program_by_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let hook = dir.path().join("kubectl_complete-captf");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-captf"), &hook).unwrap();
    let said = said(std::process::Command::new(&hook).env_clear().args(["vers"]));
    assert!(said.stdout.starts_with("version\t"), "{said:?}");
}
