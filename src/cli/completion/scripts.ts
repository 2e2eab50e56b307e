// The shells' side of completion. Each script hands the words typed so far to `jobman __complete`, which answers one
// candidate a line with its meaning after a tab. Where nothing is proposed the shell completes file names.

import type { Shell } from './shells.ts';

export function completionScript(shell: Shell): string {
  switch (shell) {
    case 'bash':
      return bash;
    case 'zsh':
      return zsh;
    case 'fish':
      return fish;
  }
}

/** `COMP_WORDS` splits at `=` and `:`; the words are therefore put together again from the line itself. */
const bash = `# jobman completion for bash: source <(jobman completion bash)
_jobman() {
  local line="\${COMP_LINE:0:COMP_POINT}" candidate
  local -a typed
  read -ra typed <<< "$line"
  [[ $line == *[[:space:]] ]] && typed+=("")
  COMPREPLY=()
  while IFS=$'\\t' read -r candidate _; do
    COMPREPLY+=("$candidate")
  done < <("\${typed[0]}" __complete "\${typed[@]:1}" 2>/dev/null)
}
complete -o default -F _jobman jobman
`;

const zsh = `#compdef jobman
# jobman completion for zsh: source <(jobman completion zsh)
_jobman() {
  local line
  local -a candidates
  for line in "\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] && candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#candidates} )); then
    _describe jobman candidates
  else
    _files
  fi
}
compdef _jobman jobman
`;

const fish = `# jobman completion for fish: jobman completion fish | source
function __jobman_complete
  set -l typed (commandline -opc) (commandline -ct)
  set -l found ($typed[1] __complete $typed[2..] 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c jobman -f -a '(__jobman_complete)'
`;
