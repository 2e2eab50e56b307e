// Launch: starts a command on a worker, detached and at most once, however many callers ask and however often.
//
// The launcher itself, already in its own session, creates the folder attempt_<n>; mkdir lets exactly one win. So an
// existing folder proves that a launcher ran, and every step before that point may be repeated. If the starter made the
// folder, a starter that was killed before the launcher began would leave an attempt that must never start. A launcher
// that is killed between mkdir and pid has run nothing; an observation reports that after a while.
//
// Before the start the devices are checked: a chip serves one process at a time, and a program that finds it taken
// fails with a meaningless error or waits forever.

import { checkpointRecord, type Launch } from '../core/decide/prepare.ts';
import { workdirPlaceholder, type ResumeFrom } from '../core/model/spec.ts';
import { writeFileCommand, prelude, quote } from './run-folder.ts';

export interface LauncherOptions {
  /** JOBMAN_RUN of its processes. Null: no marker, and processes that the program leaves behind stay. */
  readonly marker: string | null;
  readonly workdir: string | null;
  /** With a value, JOBMAN_CHECKPOINT_DIR is the absolute path of this folder. */
  readonly checkpointDir: string | null;
  /** JOBMAN_RESUME_FROM becomes the newest complete entry that counts, or the folder if it has no complete one. */
  readonly resume: boolean;
  /**
   * Entries that this owner's records do not list count (`checkpointRecord` in prepare.ts). Null: every entry counts.
   */
  readonly checkpointRecord: { readonly owner: string; readonly worker: string } | null;
  /** The source of JOBMAN_RESUME_FROM while the job has no checkpoint of its own. */
  readonly resumeFrom: ResumeFrom | null;
  /** The only boot of the machine in which it may start; null for any. */
  readonly bootId: string | null;
}

/**
 * The launcher, a program of its own (`sh <root>/start_<n>.x/launch attempt_<n>`). It prints one line to its starter
 * and then closes its output: `started`, `already` (another launcher made the folder), `restarted` (the machine was
 * restarted, so nothing ran) or `failed <why>` (nothing ran and there is no folder).
 */
export function launcherScript(options: LauncherOptions): string {
  const value = (text: string | null): string => quote(text ?? '');
  return `mark=${value(options.marker)}
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

/**
 * The first variable that a shell cannot export, because of its name or a NUL in its value; undefined if there is none.
 */
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

/** Prints `said <the launcher's line>`. Safe to repeat at any time, also by two callers at once. */
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
fail() { printf 'said failed %s\\n' "$1"; exit 0; }
command -v setsid >/dev/null || fail 'the host has no setsid'
command -v base64 >/dev/null || fail 'the host has no base64'
mkdir -p "$root" 2>/dev/null || fail "cannot make the folder $root"
if [ -d "$root/$folder" ]; then
  echo said already
  exit 0
fi
busy() { printf 'said busy %s\\n' "$1"; exit 0; }
${deviceCheck({ job: marker.split('/').slice(0, 2).join('/') + '/', attempt: marker })}check_devices
# What a start that was cut has left of its secrets.
for left in "$root"/start_*/secrets "$root"/attempt_*/secrets; do
  case $left in */"$folder"/* | */start_"$folder".*) ;; *) rm -f "$left" ;; esac
done
prepared=$(mktemp -d "$root/start_$folder.XXXXXX" 2>/dev/null) || fail "cannot write below $root"
${Object.entries(files)
  .map(([name, text]) => writeFileCommand(`"$prepared/${name}"`, encoder.encode(text)))
  .join('')}
# The launcher's line is all of its output: it lets go of the pipe once it has told how it went.
said=$(umask "$mask"; JOBMAN_RUN=${quote(marker)} setsid sh "$prepared/launch" "$folder" </dev/null 2>/dev/null 3<&- &)
printf 'said %s\\n' "$said"
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
${prelude}
# Whoever asked saw the machine set up in another boot than this. What was made for the command may be gone.
if [ -n "$boot_wanted" ] && [ "$boot" != "$boot_wanted" ] && [ ! -d "$dir" ]; then
  echo restarted
  rm -rf "$prepared"
  exit 0
fi
if ! mkdir "$dir" 2>/dev/null; then
  if [ -d "$dir" ]; then echo already; else echo "failed cannot make the folder $dir"; fi
  rm -rf "$prepared"
  exit 0
fi

# A signal to the whole group is for the program. A trap, unlike an ignored signal, is not handed on to it.
# And whoever asked may be gone before it is told how it went: the answer is then lost, and not the program.
trap : HUP INT QUIT USR1 USR2 ALRM TERM PIPE

give_up() {
  echo "failed $1"
  rm -rf "$dir" "$prepared"
  exit 0
}
mv "$prepared"/* "$dir/" 2>/dev/null || give_up "cannot write below $root"
rmdir "$prepared" 2>/dev/null
printf '' 2>/dev/null >>"$dir/log" || give_up "cannot write below $root"
# Room for the last word, so that a program that fills the disk can still be told how it ended.
printf '%39s\\n' '' >"$dir/exit.new" 2>/dev/null || give_up "cannot write below $root"
read_clock
read_ticks $$
printf '%s %s %s %s\\n' $$ "$ticks" "$boot" "$now" >"$dir/pid" 2>/dev/null || give_up "cannot write below $root"
echo started
exec >/dev/null 2>&1

expand() {
  case $1 in
    '~') expanded=$HOME ;;
    '~/'*) expanded=$HOME/\${1#'~/'} ;;
    '${workdirPlaceholder}'*) expanded=$root/workdir\${1#'${workdirPlaceholder}'} ;;
    *) expanded=$1 ;;
  esac
}

# The absolute path of a folder or file of checkpoints. An address (gs://bucket/folder) is the program's to understand.
expand_checkpoints() {
  expand "$1"
  case $expanded in /* | *://*) ;; *) expanded=$PWD/$expanded ;; esac
}

newline='
'

# Lists what is in the current folder, in order: folders by name, files also with size and time. All in one go, because a few
# processes for each of many entries take minutes. A name with a line end in it would be several lines.
list_entries() {
  {
    find . -mindepth 1 ! -path './.*' ! -path "*$newline*" -type d -exec stat -c '%n/' {} +
    find . -mindepth 1 ! -path './.*' ! -path "*$newline*" ! -type d -exec stat -c '%n//%s %Y' {} +
  } | LC_ALL=C sort
} 2>/dev/null

# Sets recorded to the first line of record $1, or to nothing. Others may write into the folder: only a regular file of a usual size is
# read, because a FIFO, a device and some files of /proc, to which a link may lead, have no end.
read_owner() {
  recorded=
  [ ! -h "$1" ] && [ -f "$1" ] && [ "$(stat -L -c %s "$1")" -le ${maxRecordBytes} ] || return 0
  recorded=$(head -c 4096 "$1" | head -n 1)
} 2>/dev/null

# Sets records to the records in folder $1 of the start $2, one line for each.
find_records() {
  records=
  for record in "$1"/${checkpointRecord}*; do
    read_owner "$record"
    [ "$recorded" != "$2" ] || records="$records\${records:+$newline}\${record##*/}"
  done
}

# At a start from the beginning, records in the folder what is there already: it is not this start's. Later attempts find this
# worker's record and leave it. It is written under another name first: a half of it would let old entries count.
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
    # A link of one of these names would lead to a file or folder of the user.
    rm -f "$half" "$name"
    set -C
    {
      printf '%s\\n' "$owner"
      list_entries
    } >"$half" && mv "$half" "$name"
  ) 2>/dev/null
}

# Sets own to the entries of folder $1 that were made or changed since the start $2, one line for each: one of its records does not
# list them as they are.
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

# Makes the complete entry $1 the best one where it is newer. Where two are of the same age (a bucket keeps full seconds) the one with
# the longer name is taken, and of those the later in order, so that step_10 comes after step_9.
compare_best() {
  is_complete "$1" || return 0
  if [ -n "$best" ]; then
    [ "$best" -nt "$1" ] && return 0
    [ "$1" -nt "$best" ] || [ \${#1} -ge \${#best} ] || return 0
  fi
  best=$1
}

# Sets best to the newest entry of $1 that is complete and, where $2 names a start, was made since. Without one, uncounted says that
# there are others.
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

# What the job begins from by its manifest. Of another job's folder only what is that job's counts.
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

# A script that names its interpreter gets it; any other is for bash, or for sh where there is no bash.
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
    # With the home of the login, not with one that the command's own variables name.
    expand_checkpoints "$checkpoints"
    jobman_folder=$expanded
    if [ -n "$resume" ]; then
      newest_complete "$jobman_folder" "$owner"
      jobman_from=$best
      case $jobman_folder in
        *://*) jobman_from=$jobman_folder ;;
        *) [ -n "$best$uncounted$begin" ] || jobman_from=$jobman_folder ;;
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
      echo "jobman: there is no checkpoint \${begin_job:+of job $begin_job }at $source to begin from (job.resume_from)"
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
  # Programs take a path as it is: a tilde would become a folder of that name, and the checkpoints would not be in the bucket.
  [ -z "$jobman_folder" ] || export JOBMAN_CHECKPOINT_DIR="$jobman_folder"
  [ -z "$jobman_from" ] || export JOBMAN_RESUME_FROM="$jobman_from"
  exec "$@"
)
code=$?
rm -f "$dir/secrets"

# What the program left behind: all that carries the mark or is in this session. One that is just becoming another program
# shows no mark, but its session. After a stop they may still be saving their work, and whoever asked will lose patience
# himself. Otherwise they were forgotten: they are asked to end, and then killed.
find_others() {
  others=
  find_members $$
  find_marked "$mark"
  for other in $members $found; do
    [ "$other" = $$ ] || others="$others $other"
  done
  [ -n "$others" ]
}
if [ -n "$mark" ]; then
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

# Without this line the program would be taken for one that vanished, and run again. Where it cannot be written (a full
# disk that does not even take a new name) it stays running until it can, or until somebody ends it.
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
 * killed: they carry the job's marker, and were asked to end long ago. Any other process is reported with its pid and
 * command line, and never touched. Calls `busy` with a sentence about such a process, or `fail` about processes that do
 * not die.
 *
 * The devices are `accel0` and so on up to v4, `vfio/0` and so on since v5 (Google's public launchers search for both).
 * A host without devices needs no check. JOBMAN_DEVICES in its environment names another folder than /dev. Only the
 * administrator can see the devices of other users' processes, and the login of a TPU VM may use sudo.
 */
function deviceCheck(markers: { readonly job: string; readonly attempt: string }): string {
  return `
as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@" 2>/dev/null || "$@"; fi
}
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
    for holder in $(as_administrator find /proc/[0-9]*/fd -type l \\
      \\( -lname "$devices/accel[0-9]*" -o -lname "$devices/vfio/[0-9]*" \\) 2>/dev/null |
      sed -n 's,^/proc/\\([0-9]*\\)/fd/.*,\\1,p' | sort -un); do
      [ -d "/proc/$holder" ] && ! is_marked_with "$holder" ${quote(markers.attempt)} || continue
      if is_marked_with "$holder" ${quote(markers.job)}; then
        ours="$ours $holder"
        continue
      fi
      line=$(tr '\\0' ' ' <"/proc/$holder/cmdline" 2>/dev/null | tr -dc '[:print:]' | cut -c1-200)
      [ -z "$line" ] || busy "process $holder (\${line% })"
    done
    [ -n "$ours" ] || return 0
    rounds=$((rounds + 1))
    [ $rounds -lt 20 ] || fail "processes of an earlier attempt hold its TPU and do not die:$ours"
    as_administrator kill -s KILL $ours 2>/dev/null
    sleep 0.2 2>/dev/null || sleep 1
  done
}
`;
}
