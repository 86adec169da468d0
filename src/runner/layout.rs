//! What must be there before anything runs: the inputs of this Job, and the image's module and runtime
//! (runner.md §3).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The key of the per-run Secret that names the Job it belongs to.
const JOB_UID_FILE: &str = ".job-uid";
/// The variable that tells a pod which Job it belongs to.
pub(super) const JOB_UID_VARIABLE: &str = "CAPTF_JOB_UID";
/// Endings of the files that make a folder a module.
const MODULE_FILES: [&str; 4] = [".tf", ".tf.json", ".tofu", ".tofu.json"];

/// The image does not hold what the module contract demands. Nothing was executed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadLayout {
    #[error("the image's module folder {} cannot be read: {source}", path.display())]
    Module { path: PathBuf, source: io::Error },
    #[error("the image's module folder {} holds no .tf, .tf.json, .tofu or .tofu.json file", .0.display())]
    EmptyModule(PathBuf),
    #[error("the runtime command is empty")]
    NoRuntime,
    #[error("the image's runtime {} cannot be found: {source}", path.display())]
    Runtime { path: PathBuf, source: io::Error },
    #[error("the image's runtime {} is a directory, not a program", .0.display())]
    RuntimeIsDirectory(PathBuf),
    #[error("the image's runtime {} is not executable", .0.display())]
    RuntimeNotExecutable(PathBuf),
    #[error("the runtime {0:?} is not on PATH")]
    RuntimeNotOnPath(String),
}

/// The inputs are not those of this pod's Job. Nothing was executed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForeignInputs {
    #[error("the inputs in {} belong to another Job of the same name; nothing was executed", .0.display())]
    OtherJob(PathBuf),
    #[error("the inputs in {} name no Job although this pod belongs to one; nothing was executed", .0.display())]
    NoJob(PathBuf),
    #[error("the Job that the inputs in {} belong to cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// The inputs and the pod must name the same Job, because Job names repeat; both unnamed is a runner that somebody
/// started by hand (R-5a, README decision 10).
pub(super) fn check_job(config: &Path, own_uid: Option<&OsStr>) -> Result<(), ForeignInputs> {
    let own_uid = own_uid.filter(|uid| !uid.is_empty());
    let named = match fs::read_to_string(config.join(JOB_UID_FILE)) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(source) => {
            return Err(ForeignInputs::Unreadable {
                path: config.to_owned(),
                source,
            });
        }
    };
    match (named, own_uid) {
        (None, None) => Ok(()),
        (Some(named), Some(own)) if OsStr::new(named.trim()) == own => Ok(()),
        (None, Some(_)) => Err(ForeignInputs::NoJob(config.to_owned())),
        (Some(_), _) => Err(ForeignInputs::OtherJob(config.to_owned())),
    }
}

/// The module folder must be readable and hold at least one file of the language.
pub(super) fn check_module(module: &Path) -> Result<(), BadLayout> {
    let unreadable = |source| BadLayout::Module {
        path: module.to_owned(),
        source,
    };
    for entry in fs::read_dir(module).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let is_source = name
            .to_str()
            .is_some_and(|name| MODULE_FILES.iter().any(|ending| name.ends_with(ending)));
        if is_source && !entry.file_type().map_err(unreadable)?.is_dir() {
            return Ok(());
        }
    }
    Err(BadLayout::EmptyModule(module.to_owned()))
}

/// The runtime must be a program: a path that leads to an executable file, or a name that is found on PATH.
pub(super) fn check_runtime(command: &[String], path: Option<OsString>) -> Result<(), BadLayout> {
    let program = command
        .first()
        .filter(|program| !program.is_empty())
        .ok_or(BadLayout::NoRuntime)?;
    if program.contains('/') {
        return check_program(Path::new(program));
    }
    let folders = path.unwrap_or_default();
    let found =
        std::env::split_paths(&folders).any(|folder| check_program(&folder.join(program)).is_ok());
    if found {
        Ok(())
    } else {
        Err(BadLayout::RuntimeNotOnPath(program.clone()))
    }
}

fn check_program(path: &Path) -> Result<(), BadLayout> {
    let metadata = fs::metadata(path).map_err(|source| BadLayout::Runtime {
        path: path.to_owned(),
        source,
    })?;
    if metadata.is_dir() {
        Err(BadLayout::RuntimeIsDirectory(path.to_owned()))
    } else if metadata.permissions().mode() & 0o111 == 0 {
        Err(BadLayout::RuntimeNotExecutable(path.to_owned()))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_module_needs_a_file_of_the_language() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("nested.tf")).unwrap();
        fs::write(folder.path().join("README.md"), "").unwrap();
        assert!(matches!(
            check_module(folder.path()),
            Err(BadLayout::EmptyModule(_))
        ));
        fs::write(folder.path().join("main.tofu.json"), "{}").unwrap();
        assert!(check_module(folder.path()).is_ok());
        assert!(matches!(
            check_module(Path::new("/nowhere")),
            Err(BadLayout::Module { .. })
        ));
    }

    #[test]
    fn a_runtime_is_an_executable_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runtime");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        let check = |path: &Path| check_runtime(&[path.to_str().unwrap().to_owned()], None);
        assert!(matches!(check(&link), Err(BadLayout::Runtime { .. })));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            check(&link),
            Err(BadLayout::RuntimeNotExecutable(_))
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o645)).unwrap();
        assert!(check(&link).is_ok());
        assert!(matches!(
            check(folder.path()),
            Err(BadLayout::RuntimeIsDirectory(_))
        ));
    }

    #[test]
    fn a_runtime_without_a_slash_is_looked_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let search = Some(OsString::from(format!(
            "/nowhere:{}",
            folder.path().display()
        )));
        assert!(check_runtime(&["tool".to_owned()], search.clone()).is_ok());
        assert!(matches!(
            check_runtime(&["other".to_owned()], search),
            Err(BadLayout::RuntimeNotOnPath(_))
        ));
        assert!(matches!(
            check_runtime(&[], None),
            Err(BadLayout::NoRuntime)
        ));
        assert!(matches!(
            check_runtime(&[String::new()], None),
            Err(BadLayout::NoRuntime)
        ));
    }

    #[test]
    fn inputs_and_pod_must_name_the_same_job() {
        let config = tempfile::tempdir().unwrap();
        let uid = |text| Some(OsStr::new(text));
        assert!(check_job(config.path(), None).is_ok());
        assert!(check_job(config.path(), uid("")).is_ok());
        assert!(matches!(
            check_job(config.path(), uid("u1")),
            Err(ForeignInputs::NoJob(_))
        ));
        fs::write(config.path().join(".job-uid"), "u1").unwrap();
        assert!(check_job(config.path(), uid("u1")).is_ok());
        assert!(matches!(
            check_job(config.path(), uid("u2")),
            Err(ForeignInputs::OtherJob(_))
        ));
        assert!(matches!(
            check_job(config.path(), None),
            Err(ForeignInputs::OtherJob(_))
        ));
    }
}
