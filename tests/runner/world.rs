//! A pod's file system in a temporary folder, and the built binary run in it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use captf::inputs::{ClusterInputs, CommonInputs, Inputs, Rendered, Role, Variables, render};
use captf::names::{Kind, ObjectKey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::testbed::wait::{LIMIT, so, until};

/// The folders of a pod: module, runtime, inputs, working folder.
pub(super) struct World {
    folder: TempDir,
    runtime: PathBuf,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) exit: i32,
    pub(super) result: Value,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A run that goes on.
pub(super) struct Running<'a> {
    world: &'a World,
    child: Child,
}

impl World {
    /// A pod of the example cluster module with a real runtime and a state in a local file.
    pub(super) fn terraform() -> Self {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cluster/module");
        let world = Self::empty(runtime_on_path());
        for entry in fs::read_dir(&module)
            .expect("the example module")
            .map(Result::unwrap)
        {
            fs::copy(entry.path(), world.path("module").join(entry.file_name())).unwrap();
        }
        world.inputs(&json!({}));
        world
    }

    /// A pod whose runtime is a shell script. `version -json` is answered; the rest of the script decides by `$1`.
    /// `$CALLS` is a file that every call's arguments are appended to.
    pub(super) fn script(script: &str) -> Self {
        let mut world = Self::empty(PathBuf::new());
        let runtime = world.path("runtime");
        let calls = world.path("calls").display().to_string();
        let text = format!(
            "#!/bin/sh\nCALLS='{calls}'\n[ \"$1\" = version ] && echo '{{\"terraform_version\":\"9.9.9\"}}' && exit 0\n\
             echo \"$*\" >>\"$CALLS\"\n{script}\n"
        );
        fs::write(&runtime, text).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(world.path("module/main.tf"), "").unwrap();
        world.inputs(&json!({}));
        world.runtime = runtime;
        world
    }

    fn empty(runtime: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["module", "config", "tmp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("key"), [7; 32]).unwrap();
        Self { folder, runtime }
    }

    /// A path in the pod.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Renders the inputs of a cluster with these user variables, as a Job gets them but for the backend.
    pub(super) fn inputs(&self, variables: &Value) {
        let inputs = Inputs::Cluster(ClusterInputs {
            common: CommonInputs {
                cluster_name: "prod".to_owned(),
                cluster_namespace: "team-a".to_owned(),
                object: ObjectKey::new(Kind::TerraformCluster, "team-a", "prod"),
                template: String::new(),
            },
            control_plane_endpoint: None,
            kubernetes_version: None,
            control_plane_initialized: false,
            cluster_network: None,
        });
        let variables = Variables::merge(Role::Cluster, &[], Some(variables)).unwrap();
        let Rendered { main, tfvars } = render(&inputs, &variables).unwrap();
        let main = main.replace("\"kubernetes\": {}", "\"local\": {}");
        assert!(main.contains("\"local\""), "no backend in {main}");
        self.write_inputs(&main, &tfvars);
    }

    pub(super) fn write_inputs(&self, main: &str, tfvars: &str) {
        fs::write(self.path("config/main.tf.json"), main).unwrap();
        fs::write(self.path("config/terraform.tfvars.json"), tfvars).unwrap();
    }

    /// The runner with the arguments of a Job and these flags on top.
    pub(super) fn command(&self, flags: &[&str]) -> Command {
        let flag = |name: &str, value: &Path| {
            let mut flag = OsString::from(format!("--{name}="));
            flag.push(value);
            flag
        };
        let mut backend = OsString::from("--backend-config=path=");
        backend.push(self.path("state.tfstate"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-captf"));
        command
            .args([
                "runner",
                "run",
                "--image=registry.example/module:v1",
                "--lock-timeout=0s",
            ])
            .args([
                flag("bin", &self.runtime),
                flag("module", &self.path("module")),
                flag("providers", &self.path("providers")),
                flag("workdir", &self.path("work")),
                flag("config", &self.path("config")),
                flag("plan-key-file", &self.path("key")),
                flag("result", &self.path("result")),
                backend,
            ])
            .args(flags)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TMPDIR", self.path("tmp"))
            .envs([
                ("TF_IN_AUTOMATION", "1"),
                ("TF_INPUT", "0"),
                ("CHECKPOINT_DISABLE", "1"),
            ])
            .stdin(Stdio::null());
        command
    }

    /// Runs the runner to its end.
    pub(super) fn run(&self, flags: &[&str]) -> Finished {
        self.run_command(self.command(flags))
    }

    pub(super) fn run_command(&self, command: Command) -> Finished {
        self.spawn(command).end()
    }

    pub(super) fn start(&self, flags: &[&str]) -> Running<'_> {
        self.spawn(self.command(flags))
    }

    fn spawn(&self, mut command: Command) -> Running<'_> {
        command.stdout(File::create(self.path("stdout")).unwrap());
        command.stderr(File::create(self.path("stderr")).unwrap());
        Running {
            world: self,
            child: command.spawn().unwrap(),
        }
    }
}

/// A pod's end ends its processes. Here what a runtime left behind is found by its working folder.
impl Drop for World {
    fn drop(&mut self) {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            let pid = process
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let folder = fs::read_link(process.path().join("cwd"));
            if let (Some(pid), Ok(folder)) = (pid.and_then(Pid::from_raw), folder)
                && folder.starts_with(self.folder.path())
            {
                let _ended_meanwhile = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Running<'_> {
    /// Waits until the file contains a text.
    pub(super) async fn sees(&self, file: &str, text: &str) {
        until(&format!("{text:?} in {file}"), LIMIT, async || {
            let content = self.world.read(file);
            so(content.contains(text), || {
                format!("{content}\n{}", self.world.read("stderr"))
            })
        })
        .await;
    }

    pub(super) fn terminate(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits for the end.
    pub(super) fn end(mut self) -> Finished {
        let status = self.child.wait().unwrap();
        let message = self.world.read("result");
        assert!(
            message.len() <= 4096,
            "the result has {} bytes",
            message.len()
        );
        let (stdout, stderr) = (self.world.read("stdout"), self.world.read("stderr"));
        let exit = status
            .code()
            .unwrap_or_else(|| panic!("ended by {:?}: {stderr}", status.signal()));
        Finished {
            exit,
            result: serde_json::from_str(&message)
                .unwrap_or_else(|e| panic!("{e} in {message:?}\n{stderr}")),
            stdout,
            stderr,
        }
    }
}

impl Finished {
    /// Names and exit codes of the steps that ran.
    pub(super) fn steps(&self) -> Vec<(String, i64)> {
        let steps = self.result["steps"].as_array().unwrap();
        steps
            .iter()
            .map(|step| {
                (
                    step["name"].as_str().unwrap().to_owned(),
                    step["exit"].as_i64().unwrap(),
                )
            })
            .collect()
    }

    /// The run succeeded.
    pub(super) fn succeeded(&self) -> &Self {
        assert_eq!(
            (self.exit, &self.result["error"]),
            (0, &Value::Null),
            "{self:#?}"
        );
        self
    }

    /// The run failed in this way.
    pub(super) fn failed(&self, kind: &str, step: Option<&str>) -> &Self {
        let error = &self.result["error"];
        assert_eq!(
            (self.exit, &error["kind"], &error["step"]),
            (1, &json!(kind), &json!(step)),
            "{self:#?}"
        );
        self
    }

    pub(super) fn tail(&self) -> &str {
        self.result["error"]["tail"].as_str().unwrap()
    }
}

/// Terraform, or OpenTofu where there is none.
fn runtime_on_path() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    ["terraform", "tofu"]
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|candidate| candidate.is_file())
        .expect("the tests of the runner need terraform or tofu on PATH")
}
