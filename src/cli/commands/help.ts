// A completion script passes the typed arguments to `jobman __complete`; without proposals it completes file names.

import { exitCode } from '../../app/errors.ts';
import type { Program } from '../command.ts';
import type { Shell } from '../completion/proposals.ts';
import { refuseJson, type Cli } from '../context.ts';
import { printHelp } from '../find-command.ts';

export function helpOf(program: Program) {
  return async ({ io, json }: Cli, _flags: object, ...args: readonly string[]): Promise<number> => {
    refuseJson(json, 'Help');
    return printHelp(io, program, args);
  };
}

export async function version(cli: Cli): Promise<number> {
  const { version: own } = cli.io;
  if (cli.json) cli.printJson({ version: own });
  else cli.print(`jobman ${own}`);
  return exitCode.ok;
}

export async function completion(cli: Cli, _flags: object, shell: Shell): Promise<number> {
  refuseJson(cli.json, '`jobman completion`');
  cli.io.stdout.write(completionScript(shell));
  return exitCode.ok;
}

export function completionScript(shell: Shell, name = 'jobman'): string {
  return { bash, zsh, fish }[shell].replaceAll('PROGRAM', name);
}

/**
 * `COMP_WORDS` splits at `=` and `:`, so the script splits the line itself. Bash replaces only the text after the last
 * `=` of an argument, and a value follows a candidate that ends with `=`. Bash inserts a candidate unquoted, so the
 * script quotes it: the name of another user's job may be `$(a command)`. The other shells quote.
 */
const bash = `# PROGRAM completion for bash: source <(PROGRAM completion bash)
_PROGRAM() {
  local line="\${COMP_LINE:0:COMP_POINT}" candidate quoted last front=""
  local -a typed
  read -ra typed <<< "$line"
  [[ $line == *[[:space:]] ]] && typed+=("")
  last="\${typed[\${#typed[@]}-1]}"
  [[ $last == *=* && $COMP_WORDBREAKS == *=* ]] && front="\${last%"\${last##*=}"}"
  COMPREPLY=()
  while IFS=$'\\t' read -r candidate _; do
    [[ $candidate == *= ]] && compopt -o nospace
    printf -v quoted %q "\${candidate#"$front"}"
    COMPREPLY+=("$quoted")
  done < <("\${typed[0]}" __complete "\${typed[@]:1}" 2>/dev/null)
}
complete -o default -F _PROGRAM PROGRAM
`;

const zsh = `#compdef PROGRAM
# PROGRAM completion for zsh: source <(PROGRAM completion zsh)
_PROGRAM() {
  local line
  local -a candidates begun
  for line in "\${(@f)$("\${words[1]}" __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    if [[ \${line%%$'\\t'*} == *= ]]; then
      begun+=("\${line%%$'\\t'*}")
    else
      candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
    fi
  done
  if (( \${#candidates} + \${#begun} )); then
    (( \${#candidates} )) && _describe PROGRAM candidates
    (( \${#begun} )) && compadd -S '' -- "\${(@)begun}"
  else
    _files
  fi
}
compdef _PROGRAM PROGRAM
`;

const fish = `# PROGRAM completion for fish: PROGRAM completion fish | source
function __PROGRAM_complete
  set -l typed (commandline -opc) (commandline -ct)
  set -l found ($typed[1] __complete $typed[2..] 2>/dev/null)
  if set -q found[1]
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
`;
