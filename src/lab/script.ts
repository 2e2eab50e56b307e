// Script: what runs on this machine for an attempt of `tpu run`. It is in the spec when the job is created, so what depends on the
// attempt is asked of `tpu __begin`, and how it came out, of `tpu __end`. Between them it sources staging.sh in the directory.

/** The frozen text. `launcher` starts this program: its words before `tpu`. */
export function labScript(launcher: readonly string[]): string {
  return `# Made by tpu run. The directory and the arguments come from \`tpu __begin\`, which knows which attempt this is.
jobman_launcher=(${launcher.map(shellWord).join(' ')})
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
# A signal ends the wait, and not what is waited for.
while :; do
  wait "$jobman_child"
  jobman_code=$?
  kill -0 "$jobman_child" 2>/dev/null || break
done
jobman_verdict=$("\${jobman_launcher[@]}" tpu __end $jobman_stopped "\${0%/*}" "$jobman_code") || jobman_verdict=
exit "\${jobman_verdict:-$jobman_code}"
`;
}

/** The words that the script evaluates. An export of null takes the variable away. */
export function beginningText(of: {
  readonly folder: string;
  readonly args: readonly string[];
  readonly exports: Readonly<Record<string, string | null>>;
}): string {
  const lines = Object.entries(of.exports).map(([name, value]) =>
    value === null ? `unset -v ${name}` : `export ${name}=${shellWord(value)}`,
  );
  return [...lines, `jobman_folder=${shellWord(of.folder)}`, `set -- ${of.args.map(shellWord).join(' ')}`, ''].join(
    '\n',
  );
}

/**
 * Stand-ins for programs that the scripts call, by name, as files of `folder`, first on the PATH. `tmux` answers for the
 * attempt's own window, with or without tmux; `ssh` and `scp` know the port of the built-in cloud's workers.
 */
export function standIns(of: {
  readonly folder: string;
  readonly launcher: readonly string[];
  readonly window: string;
  readonly pane: string;
  /** The port of the workers of the built-in cloud; null where they are none of it. */
  readonly sshPort: number | null;
}): Readonly<Record<string, string>> {
  const { folder, launcher, window, pane, sshPort } = of;
  return {
    tpu: `#!/bin/sh\nexec ${launcher.map(shellWord).join(' ')} tpu "$@"\n`,
    tmux: tmuxStandIn({ folder, window, pane }),
    ...(sshPort !== null && {
      ssh: `#!/bin/sh\n${realOne('ssh', folder)}${portFor('-p', sshPort)}`,
      scp: `#!/bin/sh\n${realOne('scp', folder)}${portFor('-P', sshPort)}`,
    }),
  };
}

/**
 * Sets `real` to the program of that name elsewhere on PATH, or empty. The PATH is read again, because a script that puts its
 * conda environment in front must not make a stand-in call itself.
 */
function realOne(name: string, folder: string): string {
  return `real=
set -f
IFS=:
for at in $PATH; do
  [ "$at" = ${shellWord(folder)} ] || [ ! -x "$at/${name}" ] || [ -d "$at/${name}" ] || { real=$at/${name}; break; }
done
unset IFS
set +f
`;
}

/** The workers of the built-in cloud are on this machine's loopback addresses; no other host has that port. */
function portFor(flag: string, port: number): string {
  return `case " $* " in *[\\ @]127.*) set -- ${flag} ${port} "$@" ;; esac\nexec "\${real:?is not there}" "$@"\n`;
}

function tmuxStandIn(of: { readonly folder: string; readonly window: string; readonly pane: string }): string {
  return `#!/bin/sh
# \`tmux display-message -p [-t PANE] '#S:#I'\`, for the pane of this attempt.
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
        case $1 in '' | ${shellWord(of.pane)}) ;; *) return 1 ;; esac
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
  printf '%s\\n' ${shellWord(of.window)}
  exit
fi
${realOne('tmux', of.folder)}if [ -z "$real" ]; then
  echo 'tmux: there is none on this machine; of the window of this job only the name can be asked' >&2
  exit 1
fi
exec "$real" "$@"
`;
}

/** The word as one word of a POSIX shell, taken literally. Throws on a NUL, which no shell word can hold. */
export function shellWord(word: string): string {
  if (word.includes('\0')) throw new Error('a shell word cannot hold a NUL character');
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
