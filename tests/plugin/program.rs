//! Runs the built binary as a user would, in an environment of its own.

use std::path::Path;
use std::process::Command;

/// What the program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Said {
    /// Standard output, standard error and exit code, as a snapshot shows them.
    pub(crate) fn everything(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            text.push_str("--- stderr\n");
            text.push_str(&self.stderr);
        }
        text + &format!("--- exit {}\n", self.code)
    }

    /// Nothing on standard output, and on standard error one error sentence, perhaps with a hint.
    pub(crate) fn is_refusal(&self) -> bool {
        let lines: Vec<&str> = self.stderr.lines().collect();
        self.stdout.is_empty()
            && lines
                .first()
                .is_some_and(|line| line.starts_with("error: "))
            && lines.iter().skip(1).all(|line| line.starts_with("hint: "))
            && lines.len() <= 2
    }
}

/// The program without any configuration of the machine it runs on.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-captf"));
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("LANG", "C.UTF-8");
    command
}

/// Runs the program without any configuration.
pub(crate) fn run(args: &[&str]) -> Said {
    said(bare().args(args))
}

/// Runs the program with a kubeconfig.
pub(crate) fn run_with(kubeconfig: &Path, args: &[&str]) -> Said {
    said(bare().env("KUBECONFIG", kubeconfig).args(args))
}

/// Runs a command to its end.
pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().expect("the program starts");
    Said {
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code().unwrap_or(-1),
    }
}
