//! `kubectl captf completion SHELL`: scripts that forward to the completion engine (cli.md §17).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::error::{Error, last_cause};
use super::exit::Exit;
use super::output;

/// Arguments of `completion`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct CompletionArgs {
    /// The shell; kubectl prints the hook that kubectl itself calls (kubectl_complete-captf)
    #[arg(value_enum, value_name = "SHELL", required = true)]
    shell: Option<Shell>,

    #[command(subcommand)]
    install: Option<Install>,
}

/// The way to complete "kubectl captf".
#[derive(Subcommand, Clone, Debug)]
enum Install {
    /// Install kubectl_complete-captf, which kubectl calls to complete "kubectl captf"
    Install {
        /// Folder on PATH; otherwise the program's own, or the first of PATH that can be written to
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// A shell with a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
    /// PowerShell
    Powershell,
    /// The executable kubectl_complete-captf, for completion of "kubectl captf"
    Kubectl,
}

impl Shell {
    const fn script(self) -> &'static str {
        match self {
            Self::Bash => BASH,
            Self::Zsh => ZSH,
            Self::Fish => FISH,
            Self::Powershell => POWERSHELL,
            Self::Kubectl => KUBECTL,
        }
    }
}

/// Prints the script, or installs the hook.
///
/// # Errors
///
/// Output that cannot be written, and no folder for the hook.
pub(crate) fn run(args: &CompletionArgs) -> Result<Exit, Error> {
    let text = match (&args.install, args.shell) {
        (Some(Install::Install { dir }), _) => {
            format!("{}\n", install(dir.as_deref())?.display())
        }
        (None, Some(shell)) => shell.script().to_owned(),
        (None, None) => String::new(),
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

/// Writes the hook into the folder asked for, else beside the program, else into the first folder of
/// `PATH` that can be written to (cli.md §17). Answers with its path.
fn install(dir: Option<&Path>) -> Result<PathBuf, Error> {
    let folders: Vec<PathBuf> = match dir {
        Some(dir) => vec![dir.to_owned()],
        None => {
            let program = std::env::current_exe().ok();
            let own = program.and_then(|program| program.parent().map(Path::to_owned));
            let path = std::env::var_os("PATH").unwrap_or_default();
            own.into_iter()
                .chain(std::env::split_paths(&path).filter(|folder| folder.is_absolute()))
                .collect()
        }
    };
    let mut why = String::from("no folder is on PATH");
    for folder in folders {
        let (name, text) = HOOK;
        let path = folder.join(name);
        match write_executable(&path, text) {
            Ok(()) => return Ok(path),
            Err(error) => why = format!("{}: {}", path.display(), last_cause(&error)),
        }
    }
    Err(Error::NoPlace { why })
}

/// Puts the whole file there at once, so that kubectl never runs half of one.
fn write_executable(path: &Path, text: &str) -> std::io::Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = std::fs::write(&draft, text)
        .and_then(|()| make_executable(&draft))
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The hook's file name and text.
const HOOK: (&str, &str) = if cfg!(windows) {
    (
        "kubectl_complete-captf.bat",
        "@kubectl-captf __complete -- %*\r\n",
    )
} else {
    ("kubectl_complete-captf", KUBECTL)
};

const BASH: &str = r#"# Bash completion of kubectl-captf. Load it with:
#   source <(kubectl-captf completion bash)
# The words typed so far are handed to the program, which knows the candidates.

_kubectl_captf() {
    local line typed directive=0 current
    typed=${COMP_LINE:0:COMP_POINT}
    local -a words
    read -ra words <<<"$typed"
    [[ $typed == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) directive=${line#:} ;;
            # Bash takes "=" for the end of a word and completes only what follows it.
            *) line=${line%%$'\t'*}
               [[ $current == *=* ]] && line=${line#"${current%%=*}="}
               COMPREPLY+=("$line") ;;
        esac
    done < <(kubectl-captf __complete -- "${words[@]:1}" 2>/dev/null)
    if ((directive & 2)); then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _kubectl_captf kubectl-captf
"#;

const ZSH: &str = r#"#compdef kubectl-captf
# Zsh completion of kubectl-captf. Put it as _kubectl-captf into a folder of $fpath.
# The words typed so far are handed to the program, which knows the candidates.

_kubectl-captf() {
    local line directive=0
    local -a plain described options
    for line in "${(@f)$(kubectl-captf __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            :*) directive=${line#:} ;;
            *$'\t'*) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
            ?*) plain+=("$line") ;;
        esac
    done
    (( directive & 2 )) && options=(-S '')
    (( $#described )) && _describe 'candidate' described $options
    (( $#plain )) && compadd $options -a plain
    return 0
}

if [[ $funcstack[1] == _kubectl-captf ]]; then
    _kubectl-captf "$@"
else
    compdef _kubectl-captf kubectl-captf
fi
"#;

const FISH: &str = r"# Fish completion of kubectl-captf. Save it as ~/.config/fish/completions/kubectl-captf.fish
# The words typed so far are handed to the program, which knows the candidates.

function __kubectl_captf_complete
    set -l words (commandline -opc) (commandline -ct)
    kubectl-captf __complete -- $words[2..-1] 2>/dev/null | string match --invert --regex '^:'
end

complete --command kubectl-captf --no-files --arguments '(__kubectl_captf_complete)'
";

const POWERSHELL: &str = r"# PowerShell completion of kubectl-captf. Add it to $PROFILE.
# The words typed so far are handed to the program, which knows the candidates.

Register-ArgumentCompleter -Native -CommandName 'kubectl-captf' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '' }
    & kubectl-captf __complete -- @words 2>$null | Where-Object { $_ -notmatch '^:' } | ForEach-Object {
        $value, $description = $_ -split [char]9, 2
        if (-not $description) { $description = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
    }
}
";

const KUBECTL: &str = r#"#!/bin/sh
# kubectl_complete-captf: put it on PATH, executable, and kubectl completes "kubectl captf".
exec kubectl-captf __complete -- "$@"
"#;
