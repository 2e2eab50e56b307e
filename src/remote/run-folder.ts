// The run folder: what jobman leaves on a worker, and the words of shell that every script there begins with.
//
//   <root>/attempt_<n>/   script  env  launch   what was to run
//                         secrets               variables that only the program may see; gone once it has started
//                         pid                   pid, start in clock ticks since boot, boot id, start in ms; one line
//                         log                   output and errors together, byte for byte
//                         exit                  exit code, end in ms, blanks; one line, complete from the moment it is there
//                         failure               why an exit code of 0 is no success; a line that a run on the controller's own
//                                               machine may leave before it exits
//                         asked                 there once the program was asked to stop
//                         never                 there when the attempt was stopped before it had begun: it will never run
//   <root>/start_<n>.*/   what a launcher takes with it when it has won attempt_<n>; a leftover of a cut start is harmless
//   <root>/proofs/<allocation>/<step key>       a setup step was seen to hold; its first line is the boot id at that time, since
//                                               what a step makes (a mount, a service) may not outlive a reboot; each further
//                                               line is a process that it needs, with its start in clock ticks: when one of
//                                               them has died (a mount's daemon) the proof counts no more
//   <root>/workdir/       the job's copy of a working directory, and beside it `workdir.sent`, what was sent there
//   <root>/steps/<allocation>/<step key>/try_<n>/   as an attempt: each try of a setup step

import type { Job } from '../core/job.ts';
import type { WorkerId } from '../core/spec.ts';

/**
 * The root of a job on a remote worker, as a shell word: below the login's home folder, whatever that is called.
 * `~/.jobman/runs/<installation>/<job id>`.
 */
export function remoteRoot(job: Job): string {
  return `"$HOME"/.jobman/runs/${quote(`${job.installation}/${job.id}`)}`;
}

/** The mark that every process of one attempt on one worker carries in its environment as JOBMAN_RUN. */
export function runMark(job: Job, attempt: number | string, worker: WorkerId): string {
  return `${job.installation}/${job.id}/${attempt}/${worker}`;
}

export function jobMark(job: Job): string {
  return `${job.installation}/${job.id}/`;
}

/** The file that tells one boot of a machine from the next. JOBMAN_BOOT_ID_FILE in a host's environment names another. */
export const bootIdFile = '/proc/sys/kernel/random/boot_id';

/** How long an attempt may be without a pid and without a process before its start counts as cut in the middle. */
export const startPatienceMs = 10_000;

/**
 * Writes a file from bytes that travel inside the script, in base64, so that none of them is ever read by a shell. `to`
 * is a shell word. When it cannot be written the script's own `fail` is called.
 */
export function fileText(to: string, bytes: Uint8Array): string {
  const lines = Buffer.from(bytes)
    .toString('base64')
    .replaceAll(/.{1,76}/gu, '$&\n');
  return `base64 -d 2>/dev/null >${to} <<'END_OF_FILE' || fail "cannot write "${to}\n${lines}END_OF_FILE\n`;
}

/** Reads into `boot` what tells this boot of the machine from every other. */
export const readBoot = `read -r boot 2>/dev/null <"\${JOBMAN_BOOT_ID_FILE:-${bootIdFile}}" || boot=unknown`;

/**
 * Functions that the scripts share. They fork as little as they can: these run for every worker and every look.
 * `now`, `ticks`, `pid`, `found` and `members` are their answers; what they do with a pid file needs `boot` of `readBoot`.
 */
export const shellFunctions = `
# Milliseconds where date can, else full seconds.
read_clock() {
  now=$(date +%s%3N 2>/dev/null)
  case $now in '' | *[!0-9]*) now=$(date +%s)000 ;; esac
}

# When the process of that number began, in clock ticks since boot; empty when there is none or only its remains.
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

# Reads the pid file of that run folder: true when it is complete.
read_pid() {
  pid= pid_ticks= pid_boot= started=
  { read -r pid pid_ticks pid_boot started <"$1/pid"; } 2>/dev/null
  [ -n "$started" ]
}

# True while the process that wrote the pid file is alive. A number alone says nothing: it may be somebody else's by now.
is_alive() {
  read_pid "$1" || return 1
  [ "$pid_boot" = "$boot" ] || return 1
  read_ticks "$pid"
  [ -n "$ticks" ] && [ "$ticks" = "$pid_ticks" ]
}

# The processes that have that text in that file of theirs in /proc. One grep for all of them: the shell's own read asks the
# kernel for each single byte. The grep may find itself, so whoever is gone after it does not count.
list_processes() {
  listed=
  for file in $(LC_ALL=C grep -lsw -e "$1" /proc/[0-9]*/"$2" 2>/dev/null); do
    file=\${file#/proc/}
    read_ticks "\${file%/*}"
    [ -z "$ticks" ] || listed="$listed \${file%/*}"
  done
}

# The processes that carry exactly that mark. Not with -F: the grep of busybox would stop at the first NUL, and there is one
# after each variable.
find_marked() {
  list_processes "JOBMAN_RUN=$1" environ
  found=$listed
}

# The living processes of that session (proc_pid_stat(5): state, parent, group, session). Meaningful only while its leader
# is known to be alive.
find_members() {
  list_processes " [RSDTtIWPK] [0-9]* [0-9]* $1" stat
  members=$listed
}

nap() {
  sleep "$1" 2>/dev/null || sleep 1
}
`;

export const prelude = `
${readBoot}
${shellFunctions}`;

/** The word in single quotes, taken literally by every POSIX shell. Throws on a NUL, which no shell word can hold. */
export function quote(word: string): string {
  if (word.includes('\0')) throw new Error('a shell word cannot hold a NUL character');
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
