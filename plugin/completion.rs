//! `kubectl captf completion SHELL`: scripts that forward to the completion engine (cli.md §17).

use clap::{Args, ValueEnum};

use super::error::Error;
use super::exit::Exit;
use super::output;

/// Arguments of `completion`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell; kubectl prints the hook that kubectl itself calls (kubectl_complete-captf)
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
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

/// Prints the script.
///
/// # Errors
///
/// Output that cannot be written.
pub(crate) fn run(args: &CompletionArgs) -> Result<Exit, Error> {
    output::print(args.shell.script())?;
    Ok(Exit::Done)
}

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
