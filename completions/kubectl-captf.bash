# Bash completion of kubectl-captf. Load it with:
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
