//! Everything before the first step: checks, working folder, environment, keys and secrets (runner.md §2).

use std::env;
use std::path::PathBuf;

use super::environment::Environment;
use super::failure::Failure;
use super::layout::{self, JOB_UID_VARIABLE};
use super::plan::PlanKey;
use super::redact::{Redactor, Secrets};
use super::request::{Operation, Request};
use super::restore;
use super::secrets;
use super::steps::restored_state;
use super::workdir;

/// What the steps of a run need.
pub(super) struct Prepared {
    /// The folder that steps run in.
    pub(super) root: PathBuf,
    pub(super) environment: Environment,
    /// The key of plan fingerprints, of a run that makes one.
    pub(super) key: Option<PlanKey>,
    pub(super) secrets: Secrets,
    pub(super) redactor: Redactor,
}

/// Checks that this run may start and makes its working folder ready. Nothing is executed.
pub(super) fn prepare(request: &Request) -> Result<Prepared, Failure> {
    check(request)?;
    let failed = |error: &dyn std::error::Error| Failure::prepare(error.to_string());
    let workdir =
        workdir::prepare(request, env::var_os("TMPDIR").is_some()).map_err(|e| failed(&e))?;
    let environment = Environment::new(env::vars_os().collect(), request, &workdir);
    if !environment.removed.is_empty() {
        tracing::info!(
            names = environment.removed.join(", "),
            "variables that steps do not get"
        );
    }
    if let Operation::Restore { chunks, .. } = request.operation {
        restore::assemble(&request.config, chunks, &restored_state(request))
            .map_err(|e| failed(&e))?;
    }
    let key = request
        .operation
        .fingerprints()
        .then(|| PlanKey::read(&request.plan_key_file))
        .transpose()
        .map_err(|e| failed(&e))?;
    let root = request.root();
    let mut hidden = Secrets::default();
    environment.secrets().for_each(|value| hidden.add(value));
    secrets::add_inputs(&mut hidden, &root).map_err(|e| failed(&e))?;
    let redactor = Redactor::new(&hidden);
    Ok(Prepared {
        root,
        environment,
        key,
        secrets: hidden,
        redactor,
    })
}

/// The inputs must be those of this Job, and the image must hold a module and a runtime (runner.md §3).
fn check(request: &Request) -> Result<(), Failure> {
    layout::check_job(&request.config, env::var_os(JOB_UID_VARIABLE).as_deref())
        .map_err(|e| Failure::foreign_inputs(e.to_string()))?;
    layout::check_module(&request.module)
        .and_then(|()| layout::check_runtime(&request.runtime, env::var_os("PATH")))
        .map_err(|e| Failure::image_layout(e.to_string()))
}
