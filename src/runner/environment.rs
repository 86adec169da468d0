//! The environment of every step (runner.md §5).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::layout::JOB_UID_VARIABLE;
use super::request::Request;
use super::workdir::Workdir;

/// Variables with a runtime's or backend's prefix that a step gets nevertheless.
const KEPT: [&str; 3] = ["TF_IN_AUTOMATION", "TF_INPUT", "KUBE_NAMESPACE"];
/// Variables whose values are no secrets.
const NO_SECRETS: [&str; 8] = [
    "TF_DATA_DIR",
    "HOME",
    "TMPDIR",
    "TF_CLI_CONFIG_FILE",
    "TF_IN_AUTOMATION",
    "TF_INPUT",
    "KUBE_NAMESPACE",
    "PATH",
];
/// Parts of a variable's name that make its value a secret, however short.
const SECRET_NAMES: [&str; 9] = [
    "KEY",
    "SECRET",
    "TOKEN",
    "PASS",
    "CREDENTIAL",
    "PRIVATE",
    "AUTH",
    "CERT",
    "SESSION",
];
/// Values of at least this many bytes are secrets whatever their variable is called.
const LONG_VALUE: usize = 16;

/// The variables of a process.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// The environment of steps, made from the container's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Environment {
    pub(super) variables: Variables,
    /// The names that were taken away, sorted. `HOME` and the Job's token are replaced or dropped without
    /// mention, since every Job has them.
    pub(super) removed: Vec<String>,
}

impl Environment {
    /// Takes away what could change how the runtime behaves (`TF_*`, `KUBE_*`) and points it at the working folder.
    pub(super) fn new(container: Variables, request: &Request, workdir: &Workdir) -> Self {
        let mut removed = Vec::new();
        let mut variables: Variables = container
            .into_iter()
            .filter(|(name, _)| {
                let dropped = is_dropped(name);
                if dropped {
                    removed.push(name.to_string_lossy().into_owned());
                }
                !dropped && name != "HOME" && name != JOB_UID_VARIABLE
            })
            .collect();
        let mut set = |name: &str, value: &OsStr| variables.insert(name.into(), value.to_owned());
        set(
            "TF_DATA_DIR",
            request.workdir.join(".terraform").as_os_str(),
        );
        set("HOME", request.workdir.as_os_str());
        if let Some(folder) = &workdir.temporary {
            set("TMPDIR", folder.as_os_str());
        }
        if let Some(file) = &workdir.cli_config {
            set("TF_CLI_CONFIG_FILE", file.as_os_str());
        }
        Self { variables, removed }
    }

    /// The values that must not be shown (runner.md §11).
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().filter_map(|(name, value)| {
            let (name, value) = (name.to_str()?, value.to_str()?);
            is_secret(name, value).then_some(value)
        })
    }
}

fn is_dropped(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    (bytes.starts_with(b"TF_") || bytes.starts_with(b"KUBE_"))
        && !KEPT.iter().any(|kept| name == *kept)
}

fn is_secret(name: &str, value: &str) -> bool {
    if NO_SECRETS.contains(&name) || name.starts_with("KUBERNETES_") {
        return false;
    }
    let upper = name.to_uppercase();
    value.len() >= LONG_VALUE || SECRET_NAMES.iter().any(|part| upper.contains(part))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use super::super::request::tests::request;
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect()
    }

    fn environment(pairs: &[(&str, &str)], workdir: &Workdir) -> Environment {
        Environment::new(
            variables(pairs),
            &request(&["--op=apply"]).unwrap(),
            workdir,
        )
    }

    const BARE: Workdir = Workdir {
        cli_config: None,
        temporary: None,
    };

    /// The example of runner.md §5.
    #[test]
    fn what_changes_the_runtime_is_removed() {
        let names = [
            "TF_IN_AUTOMATION",
            "TF_INPUT",
            "KUBE_NAMESPACE",
            "CHECKPOINT_DISABLE",
            "TF_LOG",
            "TF_VAR_region",
            "TF_WORKSPACE",
            "TF_CLI_ARGS_apply",
            "KUBE_CONFIG_PATH",
            "AWS_ACCESS_KEY_ID",
            "KUBERNETES_SERVICE_HOST",
            "TF_PLUGIN_CACHE_DIR",
        ];
        let mut pairs: Vec<(&str, &str)> = names.map(|name| (name, "1")).to_vec();
        pairs.extend([
            ("HOME", "/root"),
            ("TMPDIR", "/tmp"),
            ("CAPTF_JOB_UID", "u1"),
        ]);
        let environment = environment(&pairs, &BARE);
        assert_eq!(
            environment.removed,
            [
                "KUBE_CONFIG_PATH",
                "TF_CLI_ARGS_apply",
                "TF_LOG",
                "TF_PLUGIN_CACHE_DIR",
                "TF_VAR_region",
                "TF_WORKSPACE"
            ]
        );
        assert_eq!(
            environment.variables,
            variables(&[
                ("AWS_ACCESS_KEY_ID", "1"),
                ("CHECKPOINT_DISABLE", "1"),
                ("HOME", "/captf/work"),
                ("KUBERNETES_SERVICE_HOST", "1"),
                ("KUBE_NAMESPACE", "1"),
                ("TF_DATA_DIR", "/captf/work/.terraform"),
                ("TF_INPUT", "1"),
                ("TF_IN_AUTOMATION", "1"),
                ("TMPDIR", "/tmp"),
            ])
        );
    }

    #[test]
    fn mirror_and_temporary_folder_are_named_where_they_exist() {
        let workdir = Workdir {
            cli_config: Some(PathBuf::from("/captf/work/cli.tfrc")),
            temporary: Some(PathBuf::from("/captf/work/tmp")),
        };
        let environment = environment(&[("TF_CLI_CONFIG_FILE", "/root/.terraformrc")], &workdir);
        assert_eq!(environment.removed, ["TF_CLI_CONFIG_FILE"]);
        assert_eq!(
            environment.variables[OsStr::new("TF_CLI_CONFIG_FILE")],
            "/captf/work/cli.tfrc"
        );
        assert_eq!(
            environment.variables[OsStr::new("TMPDIR")],
            "/captf/work/tmp"
        );
    }

    #[test]
    fn secrets_are_told_by_name_or_length() {
        let environment = environment(
            &[
                ("aws_secret_access_key", "short"),
                ("REGION", "eu-central-1"),
                ("CONNECTION", "sixteen-bytes-16"),
                ("PATH", "/usr/local/sbin:/usr/local/bin"),
                ("KUBERNETES_SERVICE_HOST", "a-very-long-host-name"),
                ("CAPTF_JOB_UID", "5f1d3c2a-0000-4000-8000-00000000000a"),
            ],
            &BARE,
        );
        let secrets: Vec<_> = environment.secrets().collect();
        assert_eq!(secrets, ["sixteen-bytes-16", "short"]);
    }
}
