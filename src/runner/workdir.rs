//! The folder that the runtime works in (runner.md §4).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::request::Request;

/// The working folder cannot be made ready.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {source}", path.display())]
pub(super) struct WorkdirError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Where the prepared parts of the working folder are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Workdir {
    /// Configuration that allows the image's provider mirror only; `None` without a mirror (R-8).
    pub(super) cli_config: Option<PathBuf>,
    /// A temporary folder; `None` where the container has one.
    pub(super) temporary: Option<PathBuf>,
}

/// Makes the folder of the steps, copies the inputs into it, and writes the runtime's configuration.
pub(super) fn prepare(request: &Request, has_temporary: bool) -> Result<Workdir, WorkdirError> {
    make_folder(&request.root())?;
    copy_inputs(&request.config, &request.root())?;
    let cli_config = request
        .providers
        .is_dir()
        .then(|| request.workdir.join("cli.tfrc"));
    if let Some(path) = &cli_config {
        write_private(path, mirror_only(&request.providers).as_bytes())?;
    }
    let temporary = (!has_temporary).then(|| request.workdir.join("tmp"));
    if let Some(path) = &temporary {
        make_folder(path)?;
    }
    Ok(Workdir {
        cli_config,
        temporary,
    })
}

/// Writes a file that only this user can read.
pub(super) fn write_private(path: &Path, content: &[u8]) -> Result<(), WorkdirError> {
    private_file(path)
        .and_then(|mut file| io::Write::write_all(&mut file, content))
        .map_err(|source| WorkdirError {
            what: "cannot write",
            path: path.to_owned(),
            source,
        })
}

fn private_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}

fn make_folder(path: &Path) -> Result<(), WorkdirError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| WorkdirError {
            what: "cannot make the folder",
            path: path.to_owned(),
            source,
        })
}

/// Copies the inputs: top-level entries that lead to regular files and whose names do not start with a dot. That skips
/// the links and folders by which the kubelet swaps a Secret volume, and the token of the Job (R-7).
fn copy_inputs(from: &Path, to: &Path) -> Result<(), WorkdirError> {
    let unreadable = |source| WorkdirError {
        what: "cannot read the inputs in",
        path: from.to_owned(),
        source,
    };
    for entry in fs::read_dir(from).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (name, source) = (entry.file_name(), entry.path());
        if name.as_encoded_bytes().starts_with(b".") || !source.is_file() {
            continue;
        }
        let target = to.join(&name);
        let copied = fs::File::open(&source)
            .and_then(|mut input| io::copy(&mut input, &mut private_file(&target)?));
        copied.map_err(|e| WorkdirError {
            what: "cannot copy the inputs to",
            path: target,
            source: e,
        })?;
    }
    Ok(())
}

/// A configuration in which every provider of every host comes from the image's mirror (R-8).
fn mirror_only(mirror: &Path) -> String {
    let path = hcl_string(&mirror.to_string_lossy());
    format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path    = {path}\n    include = [\"*/*/*\"]\n  }}\n  direct {{\n    exclude = [\"*/*/*\"]\n  }}\n}}\n"
    )
}

/// A text as a quoted string of the configuration language.
fn hcl_string(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace("${", "$${")
        .replace("%{", "%%{");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::super::request::tests::request;
    use super::*;

    /// A Secret volume as the kubelet mounts it, and a request that reads it.
    fn world(folder: &Path) -> Request {
        let config = folder.join("config");
        let version = config.join("..2026_01_01");
        fs::create_dir_all(version.join("restore")).unwrap();
        fs::write(version.join("main.tf.json"), "{}").unwrap();
        fs::write(version.join(".job-uid"), "u").unwrap();
        symlink("..2026_01_01", config.join("..data")).unwrap();
        for name in ["main.tf.json", ".job-uid", "restore"] {
            symlink(format!("..data/{name}"), config.join(name)).unwrap();
        }
        let flag = |name: &str| format!("--{name}={}", folder.join(name).display());
        request(&[
            "--op=apply",
            &flag("config"),
            &flag("workdir"),
            &flag("providers"),
        ])
        .unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_real_files_of_a_secret_volume_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let request = world(folder.path());
        prepare(&request, true).unwrap();
        let root = request.root();
        let names: Vec<_> = fs::read_dir(&root)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["main.tf.json"]);
        assert_eq!(mode(&root), 0o700);
        assert_eq!(mode(&root.join("main.tf.json")), 0o600);
    }

    #[test]
    fn without_a_mirror_there_is_no_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let workdir = prepare(&world(folder.path()), true).unwrap();
        assert_eq!(
            workdir,
            Workdir {
                cli_config: None,
                temporary: None
            }
        );
    }

    #[test]
    fn with_a_mirror_every_provider_comes_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let request = world(folder.path());
        fs::create_dir(&request.providers).unwrap();
        let file = prepare(&request, true).unwrap().cli_config.unwrap();
        assert_eq!(file, request.workdir.join("cli.tfrc"));
        assert_eq!(mode(&file), 0o600);
        let mirror = request.providers.display();
        assert_eq!(
            fs::read_to_string(file).unwrap(),
            format!(
                r#"provider_installation {{
  filesystem_mirror {{
    path    = "{mirror}"
    include = ["*/*/*"]
  }}
  direct {{
    exclude = ["*/*/*"]
  }}
}}
"#
            )
        );
    }

    #[test]
    fn a_temporary_folder_is_made_where_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let request = world(folder.path());
        let temporary = prepare(&request, false).unwrap().temporary.unwrap();
        assert_eq!(
            (temporary.clone(), mode(&temporary)),
            (request.workdir.join("tmp"), 0o700)
        );
    }

    #[test]
    fn missing_inputs_are_named() {
        let request =
            request(&["--op=apply", "--config=/nowhere", "--workdir=/proc/nowhere"]).unwrap();
        let error = prepare(&request, true).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot make the folder /proc/nowhere/root: "),
            "{error}"
        );
    }
}
