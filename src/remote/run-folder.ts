// Run folder: the files that jobman leaves on a worker, and the shell functions that every script there begins with.
//
//   <root>/attempt_<n>/
//       script  env  launch   the program to run
//       secrets    variables that only the program may see; deleted once it has started
//       pid        pid, start in clock ticks since boot, boot id, start in ms; one line
//       resumed    the checkpoint that a resumed attempt got: its time in ms and its name, or "none"; one line
//       log        output and errors together, byte for byte
//       metrics    metrics that the program reports, a line each; absent until it reports one
//       bin/jobman `jobman mark` for the program (src/remote/mark.ts)
//       exit       exit code, end in ms, padding; one line, complete when the file exists
//       failure    why an exit code of 0 is not a success; a line that a run on the controller's own machine may leave
//                  before it exits
//       asked      exists once the program was asked to stop
//       never      the attempt was stopped before it had begun, and will never run
//   <root>/start_<n>.*/
//       the files of a launcher until it has won attempt_<n>; a leftover of an interrupted start is harmless
//   <root>/proofs/<allocation>/<step key>
//       The proof that a setup step holds. Its first line is the boot id at that time, because the results of a step
//       (a mount, a service) may not outlive a reboot. Each further line is a process that the step needs, with its
//       start in clock ticks: when one of them (a mount's daemon) has died, the proof is invalid.
//   <root>/workdir/
//       the job's copy of a working directory; `workdir.sent` next to it lists the files that were sent
//   <root>/steps/<allocation>/<step key>/try_<n>/
//       each try of a setup step, in the same form as an attempt

import { quote } from '../catalogue/shell.ts';
import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';

/** Quoted for the shell: `~/.jobman/runs/<installation>/<job id>`. */
export function remoteRoot(job: Pick<Job, 'installation' | 'id'>): string {
  return `"$HOME"/.jobman/runs/${quote(`${job.installation}/${job.id}`)}`;
}

/** On an own machine. Hosts may share the home folder, so that each worker needs its own. */
export function hostRoot(job: Pick<Job, 'installation' | 'id'>, worker: WorkerId): string {
  return `${remoteRoot(job)}/${worker}`;
}

/** Every process of the attempt on that worker carries this as JOBMAN_RUN. */
export function runMarker(job: Job, attempt: number | string, worker: WorkerId): string {
  return `${job.installation}/${job.id}/${attempt}/${worker}`;
}

export function jobMarker(job: Job): string {
  return `${job.installation}/${job.id}/`;
}

/** Its content identifies one boot of a machine. JOBMAN_BOOT_ID_FILE in a host's environment names another file. */
const bootIdFile = '/proc/sys/kernel/random/boot_id';

/** An attempt without pid and process counts as interrupted at its start after this time. */
export const startTimeoutMs = 10_000;

/** Shell functions. After a failed `try`, error is the end of its first line of errors: `: No space left on device`. */
export const tryFunctions = `
line_end='
'
try() {
  error=$("$@" 2>&1 >/dev/null) && return
  error=\${error%%"$line_end"*}
  error=\${error:+: \${error##*: }}
  return 1
}
# Programs, because a shell may say less about a full disk than they do, or nothing.
write() { printf '%s\\n' "$2" | cat >"$1"; }
decode() { base64 -d >"$1"; }
append() { base64 -d >>"$1"; }
`;

/** In base64: the shell never interprets the bytes. `to` is quoted. Needs `tryFunctions` and the script's `fail`. */
export function writeFileCommand(to: string, bytes: Uint8Array): string {
  const lines = Buffer.from(bytes)
    .toString('base64')
    .replaceAll(/.{1,76}/gu, '$&\n');
  return `try decode ${to} <<'END_OF_FILE' || fail "cannot write "${to}"$error"\n${lines}END_OF_FILE\n`;
}

/** Removes the job's folder, also parts that their owner may not enter, unless a program of the job is alive. */
export function removeScript(root: string, marker: string): string {
  return `
root=${root}
[ -e "$root" ] || exit 0
if grep -ls -e ${quote(`JOBMAN_RUN=${marker}`)} /proc/[0-9]*/environ >/dev/null 2>&1; then
  echo 'a program of the job still runs there' >&2
  exit 1
fi
chmod -R u+rwx -- "$root" 2>/dev/null
rm -rf -- "$root" || exit 1
# The folders above it, if no other job uses them.
rmdir -- "\${root%/*}" "\${root%/*/*}" 2>/dev/null || :
`;
}

export const readBootCommand = `read -r boot 2>/dev/null <"\${JOBMAN_BOOT_ID_FILE:-${bootIdFile}}" || boot=unknown`;

/**
 * Functions that the scripts share. They fork as little as possible, because they run for every worker at every
 * observation. `now`, `ticks`, `pid`, `found` and `members` are their results; the functions for pid files need `boot`
 * of `readBootCommand`.
 */
export const shellFunctions = `
# Milliseconds where date can, else full seconds.
read_clock() {
  now=$(date +%s%3N 2>/dev/null)
  case $now in '' | *[!0-9]*) now=$(date +%s)000 ;; esac
}

# Start time of process $1 in clock ticks since boot; empty if it does not exist or is a zombie.
read_ticks() {
  ticks=
  stat=
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null
  set -f
  set -- \${stat##*) }
  set +f
  [ $# -ge 20 ] || return 0
  case $1 in Z | X) return 0 ;; esac
  shift 19
  ticks=$1
}

# True for a proof of this boot whose processes are all alive.
is_proven() {
  {
    {
      read -r proven || return 1
      [ "$proven" = "$boot" ] || return 1
      while read -r needed since; do
        read_ticks "$needed"
        [ -n "$ticks" ] && [ "$ticks" = "$since" ] || return 1
      done
    } <"$1"
  } 2>/dev/null
}

# Reads the pid file of run folder $1. True if it is complete.
read_pid() {
  pid= pid_ticks= pid_boot= started=
  { read -r pid pid_ticks pid_boot started <"$1/pid"; } 2>/dev/null
  [ -n "$started" ]
}

# True while the process that wrote the pid file is alive. Compares its start time, because process ids are reused.
is_alive() {
  read_pid "$1" || return 1
  [ "$pid_boot" = "$boot" ] || return 1
  read_ticks "$pid"
  [ -n "$ticks" ] && [ "$ticks" = "$pid_ticks" ]
}

# The processes with text $1 in the file $2 of their folder in /proc. One grep for all, because the shell's read makes a system
# call for each byte. Skips processes that have ended, such as the grep itself.
list_processes() {
  listed=
  for file in $(LC_ALL=C grep -lsw -e "$1" /proc/[0-9]*/"$2" 2>/dev/null); do
    file=\${file#/proc/}
    read_ticks "\${file%/*}"
    [ -z "$ticks" ] || listed="$listed \${file%/*}"
  done
}

# The processes with exactly the marker $1. Without -F, because busybox' grep -F stops at the first NUL.
find_marked() {
  list_processes "JOBMAN_RUN=$1" environ
  found=$listed
}

# The living processes of session $1 (proc_pid_stat(5): state, parent, group, session). Valid only while its leader is alive.
find_members() {
  list_processes " [RSDTtIWPK] [0-9]* [0-9]* $1" stat
  members=$listed
}

nap() {
  sleep "$1" 2>/dev/null || sleep 1
}
`;

export const prelude = `
${readBootCommand}
${shellFunctions}`;
