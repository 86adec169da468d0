//! The images that pods of a node run: the example modules, and the manager's image, which is also the runner's.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::bed::Bed;
use super::programs::{last_line_of, repository};

/// References as pods use them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Images {
    /// The no-op modules of `examples/`, with a shell and Terraform (or OpenTofu).
    pub(crate) cluster: String,
    pub(crate) machine: String,
    pub(crate) machinepool: String,
    /// `kubectl-captf` as `/manager` and `/runner`.
    pub(crate) manager: String,
}

impl Images {
    /// Builds what is not in the cache and pushes all of it to the bed's registry. Blocks.
    pub(crate) fn push(bed: &Bed) -> Result<Self, String> {
        let mut script = Command::new(repository().join("tests/testbed/images.sh"));
        script.arg(&bed.ready().registry).arg(static_binary()?);
        let line = last_line_of(script)?;
        let images: Self = serde_json::from_str(&line)
            .map_err(|error| format!("images.sh printed {line}: {error}"))?;
        let inside = |repository: String| format!("{}/{repository}", bed.ready().inside_registry);
        Ok(Self {
            cluster: inside(images.cluster),
            machine: inside(images.machine),
            machinepool: inside(images.machinepool),
            manager: inside(images.manager),
        })
    }
}

/// The product as a static binary: `CAPTF_STATIC_BINARY`, or what cargo builds now (minutes the first time).
fn static_binary() -> Result<PathBuf, String> {
    if let Some(binary) = std::env::var_os("CAPTF_STATIC_BINARY") {
        return Ok(binary.into());
    }
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let status = Command::new(env!("CARGO"))
        .current_dir(repository())
        .args([
            "build",
            "--quiet",
            "--locked",
            "--bin",
            "kubectl-captf",
            "--target",
            &target,
        ])
        // Debug information would not fit into the runner's memory limit.
        .args(["--config", "profile.dev.strip=\"symbols\""])
        .status();
    match status {
        Ok(status) if status.success() => {
            Ok(target_folder().join(target).join("debug/kubectl-captf"))
        }
        other => Err(format!("the static binary did not build: {other:?}")),
    }
}

fn target_folder() -> &'static Path {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().unwrap_or(temporary)
}
