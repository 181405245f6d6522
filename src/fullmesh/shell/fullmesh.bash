# Completion for bash: the command itself says which words may follow. If there are none, bash offers files.
_fullmesh() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]/#\~/$HOME}" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _fullmesh fullmesh
