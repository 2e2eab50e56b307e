// Script: what runs on this machine for an attempt of `tpu run`. It stands in the spec from the moment the job is created, so
// all that may be another with each attempt is asked of `tpu __begin` when it begins; and how the attempt came out, of
// `tpu __end`. Between them it does what people do by hand: it goes to the directory and sources staging.sh.

import { shellWord } from './shell-words.ts';

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
jobman_verdict=$("\${jobman_launcher[@]}" tpu __end $jobman_stopped "$jobman_code") || jobman_verdict=
exit "\${jobman_verdict:-$jobman_code}"
`;
}

/** What the script is to do, as the words that it evaluates. An export of null takes the variable away. */
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
 * What stands in for programs that the scripts call, by name; each is a file of a folder that comes first on the PATH.
 * `tmux` answers for the attempt's own window whether tmux is there or not, and hands everything else on. `tpu` is this very
 * program. `ssh`, on the built-in cloud only, knows the port that its workers share.
 */
export function standIns(of: {
  readonly launcher: readonly string[];
  /** `session:number`. */
  readonly window: string;
  readonly pane: string;
  /** The real ones; null where there is none. */
  readonly tmux: string | null;
  readonly ssh: { readonly path: string; readonly port: number } | null;
}): Readonly<Record<string, string>> {
  const tpu = `#!/bin/sh\nexec ${of.launcher.map(shellWord).join(' ')} tpu "$@"\n`;
  const handOn =
    of.tmux === null
      ? `echo 'tmux: there is no tmux on this machine; the window of this job can only be asked for its name' >&2\nexit 1\n`
      : `exec ${shellWord(of.tmux)} "$@"\n`;
  const tmux = `#!/bin/sh
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
      *) [ -z "$format" ] || return 1; format=$1 ;;
    esac
    shift
  done
  [ -n "$prints" ] && [ "$format" = '#S:#I' ]
}
if asks "$@"; then
  printf '%s\\n' ${shellWord(of.window)}
  exit
fi
${handOn}`;
  if (of.ssh === null) return { tmux, tpu };
  return { tmux, tpu, ssh: `#!/bin/sh\nexec ${shellWord(of.ssh.path)} -p ${of.ssh.port} "$@"\n` };
}
