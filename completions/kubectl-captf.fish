# Fish completion of kubectl-captf. Save it as ~/.config/fish/completions/kubectl-captf.fish
# The words typed so far are handed to the program, which knows the candidates.

function __kubectl_captf_complete
    set -l words (commandline -opc) (commandline -ct)
    kubectl-captf __complete -- $words[2..-1] 2>/dev/null | string match --invert --regex '^:'
end

complete --command kubectl-captf --no-files --arguments '(__kubectl_captf_complete)'
