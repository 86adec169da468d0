//! `copy`: the running executable becomes a file that the module image's container can run (runner.md §1).

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Everybody may run the copy: the module image's user is not known.
const MODE: u32 = 0o755;

/// The executable could not be copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    #[error("cannot read the running executable: {0}")]
    Source(io::Error),
    #[error("cannot write {}: {source}", path.display())]
    Destination { path: PathBuf, source: io::Error },
}

/// Copies the running executable to `destination`, piece by piece: the init container has 64 MiB of memory.
pub(super) fn copy_self(destination: &Path) -> Result<(), CopyError> {
    // Not the path of the executable: it may be gone or replaced, the running one is not.
    let source = File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?));
    copy(source.map_err(CopyError::Source)?, destination)
}

fn copy(mut source: File, destination: &Path) -> Result<(), CopyError> {
    let failed = |source| CopyError::Destination {
        path: destination.to_owned(),
        source,
    };
    let mut target = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(MODE)
        .open(destination)
        .map_err(failed)?;
    io::copy(&mut source, &mut target).map_err(failed)?;
    // The mode of a new file is subject to the umask, that of an old one was not touched.
    fs::set_permissions(destination, Permissions::from_mode(MODE)).map_err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_copy_is_whole_and_everybody_may_run_it() {
        let folder = tempfile::tempdir().unwrap();
        let destination = folder.path().join("runner");
        fs::write(&destination, vec![b'x'; 100]).unwrap();
        copy_self(&destination).unwrap();
        assert_eq!(
            fs::read(&destination).unwrap(),
            fs::read(std::env::current_exe().unwrap()).unwrap()
        );
        assert_eq!(
            fs::metadata(&destination).unwrap().permissions().mode() & 0o777,
            0o755
        );
    }

    #[test]
    fn a_destination_that_cannot_be_written_is_named() {
        let error = copy_self(Path::new("/nowhere/runner"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot write /nowhere/runner: "),
            "{error}"
        );
    }
}
