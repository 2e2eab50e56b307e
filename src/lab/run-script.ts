// The script that runs on this machine for an attempt of `tpu run`. It is in the spec from the job's creation, so it
// asks `tpu __begin` for everything that depends on the attempt, and `tpu __end` for the result. In between it sources
// staging.sh in the directory.

import { launcherLine } from '../core/model/spec-version.ts';
import { quote } from '../catalogue/shell.ts';

export const labScript = `# Created by tpu run. \`tpu __begin\` prints the directory and the arguments of this attempt.
${launcherLine}
jobman_begun=$("\${jobman_launcher[@]}" tpu __begin "\${0%/*}") || exit
eval "$jobman_begun"
jobman_stopped=
trap 'jobman_stopped=--stopped' TERM INT HUP QUIT USR1 USR2
(
  trap - TERM INT HUP QUIT USR1 USR2
  cd -- "$jobman_folder" || exit 1
  unset -v jobman_begun jobman_folder jobman_launcher jobman_stopped
  source ./staging.sh "$@"
) &
jobman_child=$!
# A signal ends the wait, but not the script.
while :; do
  wait "$jobman_child"
  jobman_code=$?
  kill -0 "$jobman_child" 2>/dev/null || break
done
jobman_verdict=$("\${jobman_launcher[@]}" tpu __end $jobman_stopped "\${0%/*}" "$jobman_code") || jobman_verdict=
exit "\${jobman_verdict:-$jobman_code}"
`;

/** The shell code that the script evaluates. A null export unsets the variable. */
export function beginShellCode(of: {
  readonly folder: string;
  readonly args: readonly string[];
  readonly exports: Readonly<Record<string, string | null>>;
}): string {
  const lines = Object.entries(of.exports).map(([name, value]) =>
    value === null ? `unset -v ${name}` : `export ${name}=${quote(value)}`,
  );
  return [...lines, `jobman_folder=${quote(of.folder)}`, `set -- ${of.args.map(quote).join(' ')}`, ''].join('\n');
}

/** Files of `folder`, first on PATH: `tmux` for the attempt's own window, `ssh` and `scp` for the emulator's port. */
export function wrapperPrograms(of: {
  readonly folder: string;
  readonly launcher: readonly string[];
  readonly window: string;
  readonly pane: string;
  /** The port of the TPU emulator's workers; null for other workers. */
  readonly sshPort: number | null;
}): Readonly<Record<string, string>> {
  const { folder, launcher, window, pane, sshPort } = of;
  return {
    tpu: `#!/bin/sh\nexec ${launcher.map(quote).join(' ')} tpu "$@"\n`,
    tmux: tmuxWrapper({ folder, window, pane }),
    ...(sshPort !== null && {
      ssh: `#!/bin/sh\n${findRealProgram('ssh', folder)}${addPortOption('-p', sshPort)}`,
      scp: `#!/bin/sh\n${findRealProgram('scp', folder)}${addPortOption('-P', sshPort)}`,
    }),
  };
}

/** Reads PATH at each call: a script that prepends its conda environment must not make a wrapper call itself. */
function findRealProgram(name: string, folder: string): string {
  return `real=
set -f
IFS=:
for at in $PATH; do
  [ "$at" = ${quote(folder)} ] || [ ! -x "$at/${name}" ] || [ -d "$at/${name}" ] || { real=$at/${name}; break; }
done
unset IFS
set +f
`;
}

/** The TPU emulator's workers have loopback addresses of this machine. No other host uses the port. */
function addPortOption(flag: string, port: number): string {
  return `case " $* " in *[\\ @]127.*) set -- ${flag} ${port} "$@" ;; esac\nexec "\${real:?not found}" "$@"\n`;
}

function tmuxWrapper(of: { readonly folder: string; readonly window: string; readonly pane: string }): string {
  return `#!/bin/sh
# Answers \`tmux display-message -p [-t PANE] '#S:#I'\` for the pane of this attempt.
asks() {
  [ "$1" = display-message ] || return 1
  shift
  prints= format=
  while [ $# -gt 0 ]; do
    case $1 in
      -p) prints=yes ;;
      -pt | -t)
        [ "$1" = -t ] || prints=yes
        shift
        case $1 in '' | ${quote(of.pane)}) ;; *) return 1 ;; esac
        ;;
      -*) return 1 ;;
      *)
        [ -z "$format" ] || return 1
        format=$1
        ;;
    esac
    shift
  done
  [ -n "$prints" ] && [ "$format" = '#S:#I' ]
}
if asks "$@"; then
  printf '%s\\n' ${quote(of.window)}
  exit
fi
${findRealProgram('tmux', of.folder)}if [ -z "$real" ]; then
  echo "tmux is not installed here; only display-message with '#S:#I' works" >&2
  exit 1
fi
exec "$real" "$@"
`;
}
