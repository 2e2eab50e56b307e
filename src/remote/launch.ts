// Launch: starts a command on a worker, detached and at most once, however many callers ask and however often.
//
// The launcher itself, already in its own session, creates the folder attempt_<n>; mkdir lets exactly one win. So an
// existing folder proves that a launcher ran, and every step before that point may be repeated. If the starter made the
// folder, a starter that was killed before the launcher began would leave an attempt that must never start. A launcher
// that is killed between mkdir and pid has run nothing; an observation reports that after a while.
//
// Before the start the devices are checked: a chip serves one process at a time, and a program that finds it taken
// fails with a meaningless error or waits forever.

import { checkpointRecord, type Launch } from '../core/decide/launch.ts';
import { workdirPlaceholder, type ResumeFrom } from '../core/model/spec.ts';
import { holderFunctions } from '../catalogue/devices.ts';
import { quote } from '../catalogue/shell.ts';
import { markScript } from './mark.ts';
import { prelude, tryFunctions, writeFileCommand } from './run-folder.ts';

export interface LauncherOptions {
  /** JOBMAN_RUN of its processes. Null: no marker, and processes that the program leaves behind stay. */
  readonly marker: string | null;
  readonly workdir: string | null;
  /** With a value, JOBMAN_CHECKPOINT_DIR is the absolute path of this folder. */
  readonly checkpointDir: string | null;
  /** JOBMAN_RESUME_FROM becomes the newest complete entry that counts, or the folder if it has no complete one. */
  readonly resume: boolean;
  /** Entries that this owner's records do not list count (`checkpointRecord`). Null: every entry counts. */
  readonly checkpointRecord: { readonly owner: string; readonly worker: string } | null;
  /** The source of JOBMAN_RESUME_FROM while the job has no checkpoint of its own. */
  readonly resumeFrom: ResumeFrom | null;
  /** The only boot of the machine in which it may start; null for any. */
  readonly bootId: string | null;
}

/**
 * Prints one line to its starter and then closes its output: `started`, `already` (another launcher made the folder),
 * `restarted` (the machine has rebooted, so nothing ran) or `failed <why>` (nothing ran and there is no folder).
 */
export function launcherScript(options: LauncherOptions): string {
  const value = (text: string | null): string => quote(text ?? '');
  return `marker=${value(options.marker)}
workdir=${value(options.workdir)}
checkpoints=${value(options.checkpointDir)}
resume=${options.resume ? 'yes' : ''}
owner=${value(options.checkpointRecord?.owner ?? null)}
worker=${value(options.checkpointRecord?.worker ?? null)}
begin=${value(options.resumeFrom === null || options.resumeFrom.kind === 'job' ? null : options.resumeFrom.path)}
begin_kind=${value(options.resumeFrom?.kind ?? null)}
begin_job=${value(options.resumeFrom?.kind === 'folder' ? (options.resumeFrom.job ?? null) : null)}
boot_wanted=${value(options.bootId)}
${launcherBody}`;
}

function exportLines(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}=${quote(value)}\n`)
    .join('');
}

/** A variable that a shell cannot export, because of its name or a NUL in its value. */
export function invalidVariable(env: Readonly<Record<string, string>>): string | undefined {
  return Object.keys(env).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || env[name]?.includes('\0'));
}

function checkpointRecordOf({ checkpointOwner: owner, env }: Launch): LauncherOptions['checkpointRecord'] {
  return owner === undefined ? null : { owner, worker: env['JOBMAN_WORKER'] ?? '0' };
}

/** The files of an attempt's launcher, by name. `secrets` are the values of the secrets that the launch names. */
export function attemptFiles(
  launch: Launch,
  marker: string,
  secrets: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  return {
    script: launch.script,
    mark: markScript,
    // Only the shell that becomes the command reads these files; `secrets` is deleted once that shell has read it.
    env: exportLines({ ...launch.env, JOBMAN_RUN: marker }),
    ...(Object.keys(secrets).length === 0 ? {} : { secrets: exportLines(secrets) }),
    launch: launcherScript({
      marker,
      workdir: launch.workdir,
      checkpointDir: launch.checkpointDir,
      resume: launch.resume,
      checkpointRecord: checkpointRecordOf(launch),
      resumeFrom: launch.resumeFrom ?? null,
      bootId: launch.bootId ?? null,
    }),
  };
}

/** Prints `launch <the launcher's line>`. Safe to repeat at any time, also by two callers at once. */
export function startScript(
  root: string,
  launch: Launch,
  marker: string,
  secrets: Readonly<Record<string, string>> = {},
): string {
  const folder = `attempt_${launch.attempt.ordinal}`;
  const encoder = new TextEncoder();
  const files = attemptFiles(launch, marker, secrets);
  return `
mask=$(umask)
umask 077
root=${root}
folder=${folder}
${tryFunctions}fail() { printf 'launch failed %s\\n' "$1"; exit 0; }
command -v setsid >/dev/null || fail 'the host has no setsid'
command -v base64 >/dev/null || fail 'the host has no base64'
try mkdir -p "$root" || fail "cannot create the folder $root$error"
if [ -d "$root/$folder" ]; then
  echo launch already
  exit 0
fi
busy() { printf 'launch busy %s\\n' "$1"; exit 0; }
${deviceCheck({ job: marker.split('/').slice(0, 2).join('/') + '/', attempt: marker })}check_devices
# Delete the secrets of interrupted starts.
for left in "$root"/start_*/secrets "$root"/attempt_*/secrets; do
  case $left in */"$folder"/* | */start_"$folder".*) ;; *) rm -f "$left" ;; esac
done
prepared=$(mktemp -d "$root/start_$folder.XXXXXX" 2>/dev/null) ||
  try mktemp -d "$root/start_$folder.XXXXXX" || fail "cannot write to $root$error"
${Object.entries(files)
  .map(([name, text]) => writeFileCommand(`"$prepared/${name}"`, encoder.encode(text)))
  .join('')}
# The launcher prints one line and closes the pipe.
result=$(umask "$mask"; JOBMAN_RUN=${quote(marker)} setsid sh "$prepared/launch" "$folder" </dev/null 2>/dev/null 3<&- &)
printf 'launch %s\\n' "$result"
`;
}

/** In bytes. The record of a folder with a million files is smaller. */
const maxRecordBytes = 256 * 1024 * 1024;

/** Its own output stays out of the program's log, and the program's variables out of this shell (e.g. \`folder\`). */
const launcherBody = `
unset JOBMAN_RUN
folder=$1
mask=$(umask)
umask 077
prepared=\${0%/*}
root=\${prepared%/*}
dir=$root/$folder
${prelude}${tryFunctions}
# The caller observed the setup in another boot, and its results may be lost.
if [ -n "$boot_wanted" ] && [ "$boot" != "$boot_wanted" ] && [ ! -d "$dir" ]; then
  echo restarted
  rm -rf "$prepared"
  exit 0
fi
if ! try mkdir "$dir"; then
  if [ -d "$dir" ]; then echo already; else echo "failed cannot create the folder $dir$error"; fi
  rm -rf "$prepared"
  exit 0
fi

# Signals to the group are for the program. It does not inherit a trap, but it would inherit an ignored signal.
# The caller may close the pipe before it has the answer, which must not end the program.
trap : HUP INT QUIT USR1 USR2 ALRM TERM PIPE

give_up() {
  echo "failed $1"
  rm -rf "$dir" "$prepared"
  exit 0
}
try mv "$prepared"/* "$dir/" || give_up "cannot write to $root$error"
rmdir "$prepared" 2>/dev/null
try touch "$dir/log" || give_up "cannot write to $root$error"
# Reserve space for the exit code, because the program may fill the disk.
try write "$dir/exit.new" "$(printf '%39s' '')" || give_up "cannot write to $root$error"
read_clock
read_ticks $$
[ -n "$ticks" ] || give_up "the host has no /proc, so jobman could not see whether the program lives"
try write "$dir/pid" "$$ $ticks $boot $now" || give_up "cannot write to $root$error"
echo started
exec >/dev/null 2>&1
# A program without this command still runs.
mkdir "$dir/bin" && mv "$dir/mark" "$dir/bin/jobman" && chmod 700 "$dir/bin/jobman"

expand() {
  case $1 in
    '~') expanded=$HOME ;;
    '~/'*) expanded=$HOME/\${1#'~/'} ;;
    '${workdirPlaceholder}'*) expanded=$root/workdir\${1#'${workdirPlaceholder}'} ;;
    *) expanded=$1 ;;
  esac
}

# The absolute path of a folder or file of checkpoints. A URL (gs://bucket/folder) stays unchanged for the program.
expand_checkpoints() {
  expand "$1"
  case $expanded in /* | *://*) ;; *) expanded=$PWD/$expanded ;; esac
}

newline='
'

# Lists the current folder, sorted: folders by name, files with size and time. Skips names with a line end. One find for all,
# because a process for each of many entries takes minutes.
list_entries() {
  {
    find . -mindepth 1 ! -path './.*' ! -path "*$newline*" -type d -exec stat -c '%n/' {} +
    find . -mindepth 1 ! -path './.*' ! -path "*$newline*" ! -type d -exec stat -c '%n//%s %Y' {} +
  } | LC_ALL=C sort
} 2>/dev/null

# Sets recorded to the first line of record $1, or to nothing. Reads only regular files of a usual size: other users may write
# into the folder, and a FIFO, a device or a link into /proc may have no end.
read_owner() {
  recorded=
  [ ! -h "$1" ] && [ -f "$1" ] && [ "$(stat -L -c %s "$1")" -le ${maxRecordBytes} ] || return 0
  recorded=$(head -c 4096 "$1" | head -n 1)
} 2>/dev/null

# Sets records to the records in folder $1 of the start $2, one per line.
find_records() {
  records=
  for record in "$1"/${checkpointRecord}*; do
    read_owner "$record"
    [ "$recorded" != "$2" ] || records="$records\${records:+$newline}\${record##*/}"
  done
}

# A fresh start records the existing entries of the folder, which are not its own. Later attempts keep this worker's record.
# Renames a complete file, because half a record would make old entries count.
record_start() {
  (
    cd "$1" || exit
    name=${checkpointRecord}$worker
    for record in ${checkpointRecord}*; do
      read_owner "$record"
      case $recorded in '' | "$owner") ;; *) rm -f "$record" ;; esac
    done
    read_owner "$name"
    [ "$recorded" != "$owner" ] || exit
    half=.jobman-half.$worker.$$.tmp
    # A link with one of these names could point to a file of the user.
    rm -f "$half" "$name"
    set -C
    {
      printf '%s\\n' "$owner"
      list_entries
    } >"$half" && mv "$half" "$name"
  ) 2>/dev/null
}

# Sets own to the entries of folder $1 that are new or changed since the start $2, one per line: those that a record of it does
# not list in their present form.
find_own() {
  own=
  find_records "$1" "$2"
  [ -n "$records" ] || return 0
  (cd "$1" && list_entries) >"$dir/entries"
  own=$(
    while read -r record; do
      LC_ALL=C awk 'FILENAME == ARGV[1] { listed[$0]; next } !($0 in listed)' "$1/$record" "$dir/entries"
    done <<END | cut -d/ -f2 | LC_ALL=C sort -u
$records
END
  )
  rm -f "$dir/entries"
} 2>/dev/null

is_complete() {
  case \${1##*/} in
    *tmp | *partial | tmp[!a-zA-Z0-9]* | partial[!a-zA-Z0-9]*) return 1 ;;
    *[!a-zA-Z0-9]tmp[!a-zA-Z0-9]* | *[!a-zA-Z0-9]partial[!a-zA-Z0-9]*) return 1 ;;
  esac
  [ -e "$1" ]
}

# Makes the complete entry $1 the best one if it is newer. Of two with the same time (a bucket stores full seconds), the longer
# name wins, then the later name, so that step_10 comes after step_9.
compare_best() {
  is_complete "$1" || return 0
  if [ -n "$best" ]; then
    [ "$best" -nt "$1" ] && return 0
    [ "$1" -nt "$best" ] || [ \${#1} -ge \${#best} ] || return 0
  fi
  best=$1
}

# Sets best to the newest complete entry of $1; with a start $2, only of entries since that start. If there is none, uncounted
# is set when there are older ones.
newest_complete() {
  best= uncounted=
  if [ -z "$2" ]; then
    for entry in "$1"/*; do compare_best "$entry"; done
    return 0
  fi
  find_own "$1" "$2"
  while IFS= read -r name; do
    [ -z "$name" ] || compare_best "$1/$name"
  done <<END
$own
END
  [ -z "$best" ] || return 0
  for entry in "$1"/*; do
    if is_complete "$entry"; then
      uncounted=yes
      break
    fi
  done
}

# For the usage ledger: which work of earlier attempts is kept.
record_resume() {
  if [ -z "$best" ]; then
    echo none >"$dir/resumed"
  else
    saved=$(stat -L -c %Y "$best") && printf '%s000 %s\\n' "$saved" "\${best##*/}" >"$dir/resumed"
  fi
} 2>/dev/null

# Finds the checkpoint of job.resume_from. In another job's folder only that job's entries count.
find_beginning() {
  expand_checkpoints "$begin"
  source=$expanded
  best=$source
  case $source in *://*) return 0 ;; esac
  if [ "$begin_kind" = folder ]; then
    its_owner=
    if [ -n "$begin_job" ]; then
      for record in "$source"/${checkpointRecord}*; do
        read_owner "$record"
        case $recorded in
          '') ;;
          */"$begin_job"/*) its_owner=$recorded ;;
          *) return 1 ;;
        esac
      done
    fi
    newest_complete "$source" "$its_owner"
  fi
  [ -e "$best" ]
}

# A script without an interpreter line runs in bash, or in sh on a host without bash.
first=
read -r first <"$dir/script"
case $first in
  '#!'*) chmod 700 "$dir/script" && set -- "$dir/script" ;;
  *) if command -v bash >/dev/null; then set -- bash "$dir/script"; else set -- sh "$dir/script"; fi ;;
esac

(
  exec >>"$dir/log" 2>&1
  umask "$mask"
  jobman_folder= jobman_from=
  expand "\${workdir:-$HOME}"
  cd "$expanded" || exit 126
  if [ -n "$checkpoints" ]; then
    # Before the command's variables, which may change HOME.
    expand_checkpoints "$checkpoints"
    jobman_folder=$expanded
    if [ -n "$resume" ]; then
      newest_complete "$jobman_folder" "$owner"
      jobman_from=$best
      case $jobman_folder in
        *://*) jobman_from=$jobman_folder ;;
        *)
          [ -n "$best$uncounted$begin" ] || jobman_from=$jobman_folder
          record_resume
          ;;
      esac
    fi
    case $jobman_folder in
      *://*) ;;
      *)
        mkdir -p "$jobman_folder" 2>/dev/null
        [ -z "$owner" ] || record_start "$jobman_folder"
        ;;
    esac
  fi
  if [ -z "$jobman_from" ] && [ -n "$begin" ]; then
    if ! find_beginning; then
      echo "jobman: job.resume_from found no checkpoint \${begin_job:+of job $begin_job }at $source"
      exit 66
    fi
    jobman_from=$best
  fi
  . "$dir/env"
  if [ -f "$dir/secrets" ]; then
    exec 4<"$dir/secrets"
    rm -f "$dir/secrets"
    . /proc/self/fd/4
    exec 4<&-
  fi
  # Absolute, because programs do not expand a tilde.
  [ -z "$jobman_folder" ] || export JOBMAN_CHECKPOINT_DIR="$jobman_folder"
  [ -z "$jobman_from" ] || export JOBMAN_RESUME_FROM="$jobman_from"
  # At the end, so that an installed jobman comes first.
  export JOBMAN_METRICS="$dir/metrics" JOBMAN_MARK="$dir/bin/jobman" PATH="$PATH:$dir/bin"
  exec "$@"
)
code=$?
rm -f "$dir/secrets"

# Finds the remaining processes of the program, by the marker or the session: during an exec a process has no marker. After a
# stop they may still save their work, so the caller decides when to kill. Otherwise end them, and then kill.
find_others() {
  others=
  find_members $$
  find_marked "$marker"
  for other in $members $found; do
    [ "$other" = $$ ] || others="$others $other"
  done
  [ -n "$others" ]
}
if [ -n "$marker" ]; then
  turns=0
  while find_others; do
    if [ ! -e "$dir/asked" ]; then
      [ $turns -ne 0 ] || kill -s TERM $others
      [ $turns -lt 25 ] || kill -s KILL $others
    fi
    turns=$((turns + 1))
    nap 0.2
  done
fi

# Without this line jobman would report the program as vanished and run it again. If the disk is full, the launcher keeps
# running until it can write the line.
read_clock
while :; do
  {
    if printf '%-39s\\n' "$code $now" 1<>"$dir/exit.new" && mv "$dir/exit.new" "$dir/exit"; then break; fi
  } 2>/dev/null
  [ -d "$dir" ] || break
  nap 1
done
`;

/**
 * Shell text that ends when no other process holds the chips. Leftovers of an earlier attempt of the same job are
 * killed: they have the job's marker, and jobman has already ended that attempt. Any other process is reported with its
 * pid and command line, and never touched. Calls `busy` for such a process, or `fail` for processes that survive a kill.
 * A host without devices needs no check.
 */
function deviceCheck(markers: { readonly job: string; readonly attempt: string }): string {
  return `${holderFunctions}
is_marked_with() {
  as_administrator cat "/proc/$1/environ" 2>/dev/null | tr '\\0' '\\n' | LC_ALL=C grep -q "^JOBMAN_RUN=$2"
}
check_devices() {
  devices=\${JOBMAN_DEVICES:-/dev}
  set -- "$devices"/accel[0-9]* "$devices"/vfio/[0-9]*
  [ -e "$1" ] || [ -e "$2" ] || return 0
  rounds=0
  while :; do
    ours=
    for holder in $(find_holders); do
      [ -d "/proc/$holder" ] && ! is_marked_with "$holder" ${quote(markers.attempt)} || continue
      if is_marked_with "$holder" ${quote(markers.job)}; then
        ours="$ours $holder"
        continue
      fi
      line=$(print_process "$holder" | cut -f3- | cut -c1-200)
      [ -z "$line" ] || busy "process $holder ($line)"
    done
    [ -n "$ours" ] || return 0
    rounds=$((rounds + 1))
    [ $rounds -lt 20 ] || fail "processes of an earlier attempt use its TPU and do not end after a kill:$ours"
    as_administrator kill -s KILL $ours 2>/dev/null
    sleep 0.2 2>/dev/null || sleep 1
  done
}
`;
}
