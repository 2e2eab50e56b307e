// An attempt on one worker after its launch: an observation (which only reads), the growing output, and ending the
// program with all its children.

import { constants } from 'node:os';
import type { ResumedFrom } from '../core/model/job.ts';
import type { TailRequest } from '../app/ports.ts';
import type { RunStatus, WorkerStatus } from '../core/model/observation.ts';
import type { Instant } from '../core/model/time.ts';
import { quote } from '../catalogue/shell.ts';
import { prelude, startTimeoutMs } from './run-folder.ts';

/**
 * 128 plus SIGHUP, SIGKILL or SIGTERM, which a machine sends before it goes down. Such an exit is the program's own
 * only if the machine has not restarted since. A segmentation fault is always the program's own.
 */
const shutdownExitCodes: readonly number[] = [129, 137, 143];

const restartedMessage = 'the machine was restarted';

/**
 * Prints `jobman-observation 1`, `boot <id>`, `now <ms>`, `proof <step key>` …, `run <n> …` …, `resumed <n> …` …,
 * `metrics <n>` …, `end`. Without `end`, the answer was cut and counts as none.
 */
export function observeScript(
  root: string,
  query: {
    readonly allocation: number;
    readonly jobMarker: string;
    readonly marker: (attempt: string) => string;
    /** The attempt whose program should be alive there by the store; the script finds it even without its folder. */
    readonly expectedAttempt?: number;
    /** For this machine, whose clock is ours: starts and silences begin at `jumpedAt` at the earliest. */
    readonly clock?: { readonly now: Instant; readonly jumpedAt: Instant };
  },
): string {
  return `
root=${root}
${prelude}
printf 'jobman-observation 1\\n'
printf 'boot %s\\n' "$boot"
${query.clock === undefined ? 'read_clock' : `now=${query.clock.now}`}
printf 'now %s\\n' "$now"
after_jump() {
  at=$1
  [ "$at" -ge ${query.clock?.jumpedAt ?? 0} ] || at=${query.clock?.jumpedAt ?? 0}
}
for file in "$root"/proofs/${query.allocation}/*; do
  ! is_proven "$file" || printf 'proof %s\\n' "\${file##*/}"
done

# True if a process of that attempt is alive. Searches for all processes of the job once, and only after a launcher has died.
# Searches twice before it finds none: during an exec a process has no marker.
some=unknown
find_some() {
  some=$(LC_ALL=C grep -ls -e ${quote(`JOBMAN_RUN=${query.jobMarker}`)} /proc/[0-9]*/environ 2>/dev/null)
}
is_marked() {
  if [ "$some" = unknown ]; then
    find_some
    [ -n "$some" ] || { nap 0.05; find_some; }
  fi
  [ -n "$some" ] || return 1
  find_marked "${query.marker('$1')}"
  [ -n "$found" ]
}

read_exit() {
  code= ended=
  { read -r code ended <"$1/exit"; } 2>/dev/null
  [ -n "$ended" ]
}
print_restarted() { printf 'run %s vanished ${restartedMessage}\\n' "$attempt"; }
print_exit() {
  case $code in
    ${shutdownExitCodes.join(' | ')}) if read_pid "$1" && [ "$pid_boot" != "$boot" ]; then print_restarted; return; fi ;;
  esac
  failure=
  [ "$code" != 0 ] || { read -r failure <"$1/failure"; } 2>/dev/null
  printf 'run %s exited %s %s%s\\n' "$attempt" "$code" "$ended" "\${failure:+ $failure}"
}

for dir in "$root"/attempt_*; do
  [ -d "$dir" ] || continue
  attempt=\${dir##*_}
  if { read -r saved entry <"$dir/resumed"; } 2>/dev/null; then
    printf 'resumed %s %s %s\\n' "$attempt" "$saved" "$entry"
  fi
  [ ! -s "$dir/metrics" ] || printf 'metrics %s\\n' "$attempt"
  if read_exit "$dir"; then
    print_exit "$dir"
  elif read_pid "$dir"; then
    # A program may end between two checks, so read its exit again after the launcher has died.
    if is_alive "$dir"; then alive=yes
    elif read_exit "$dir"; then
      print_exit "$dir"
      continue
    elif is_marked "$attempt"; then alive=yes
    else alive=
    fi
    if [ -n "$alive" ]; then
      output=$(stat -c %Y "$dir/log" 2>/dev/null)
      after_jump "\${output:-0}000"
      printf 'run %s running %s %s\\n' "$attempt" "$started" "$at"
    elif [ "$pid_boot" != "$boot" ]; then
      print_restarted
    else
      printf 'run %s vanished another program killed its processes, so there is no exit code\\n' "$attempt"
    fi
  elif [ -e "$dir/never" ]; then
    printf 'run %s vanished it was stopped before it started\\n' "$attempt"
  else
    since=$(stat -c %Y "$dir" 2>/dev/null)
    after_jump "\${since:-0}000"
    if is_marked "$attempt" || [ $((now - at)) -lt ${startTimeoutMs} ]; then
      printf 'run %s starting %s\\n' "$attempt" "$at"
    else
      printf 'run %s vanished its start was interrupted before the command ran\\n' "$attempt"
    fi
  fi
done
${query.expectedAttempt === undefined ? '' : lostFolderCheck(query.expectedAttempt)}printf 'end\\n'
`;
}

/** A program whose folder was deleted still lives: its end cannot be read, but no other program may start. */
function lostFolderCheck(attempt: number): string {
  return `if [ ! -d "$root/attempt_${attempt}" ] && is_marked ${attempt}; then printf 'run ${attempt} starting %s\\n' "$now"; fi
`;
}

/**
 * Undefined for a malformed answer, which means unknown. Times are shifted to our clock; `at` is when the answer came.
 */
export function parseObservation(answer: string, at: Instant): WorkerStatus | undefined {
  const lines = answer.split('\n');
  if (lines.at(-1) !== '' || lines.at(-2) !== 'end' || lines[0] !== 'jobman-observation 1') return undefined;
  let bootId: string | undefined;
  let clockOffset: number | undefined;
  const proofs: string[] = [];
  const runs: RunStatus[] = [];
  const resumes = new Map<number, ResumedFrom>();
  const reportedMetrics: number[] = [];
  for (const line of lines.slice(1, -2)) {
    const [key, first = '', ...rest] = line.split(' ');
    if (key === 'boot' && first !== '') bootId = first;
    else if (key === 'now' && isNumber(first)) clockOffset = clockGap(at - Number(first));
    else if (key === 'proof' && first !== '') proofs.push(first);
    else if (key === 'resumed' && isNumber(first) && clockOffset !== undefined)
      resumes.set(Number(first), parseResumed(rest, clockOffset));
    else if (key === 'metrics' && isNumber(first)) reportedMetrics.push(Number(first));
    else if (key === 'run' && clockOffset !== undefined) {
      const run = parseRun(first, rest, clockOffset);
      if (run === undefined) return undefined;
      runs.push(run);
    } else return undefined;
  }
  if (bootId === undefined || clockOffset === undefined) return undefined;
  const complete = runs.map((run): RunStatus => {
    const resumedFrom = resumes.get(run.attempt);
    return resumedFrom === undefined ? run : { ...run, resumedFrom };
  });
  return {
    bootId,
    proofs,
    runs: complete.toSorted((a, b) => a.attempt - b.attempt),
    ...(reportedMetrics.length === 0 ? {} : { reportedMetrics }),
  };
}

function parseResumed([saved = '', ...entry]: readonly string[], clockOffset: number): ResumedFrom {
  return isNumber(saved)
    ? { entry: entry.join(' '), savedAt: Number(saved) + clockOffset }
    : { entry: null, savedAt: null };
}

/** A gap of up to two seconds may be the answer's travel time; ignoring it keeps timestamps stable. */
function clockGap(gap: number): number {
  return Math.abs(gap) < 2_000 ? 0 : gap;
}

function parseRun(number: string, fields: readonly string[], clockOffset: number): RunStatus | undefined {
  const [state, first = '', second = ''] = fields;
  if (!isNumber(number)) return undefined;
  const attempt = Number(number);
  switch (state) {
    case 'exited':
      return isNumber(first) && isNumber(second)
        ? exitedRun(attempt, Number(first), Number(second) + clockOffset, fields.slice(3).join(' '))
        : undefined;
    case 'running': {
      if (!isNumber(first) || !isNumber(second)) return undefined;
      const startedAt = Number(first) + clockOffset;
      return { attempt, state, startedAt, outputAt: Math.max(startedAt, Number(second) + clockOffset) };
    }
    case 'starting':
      return isNumber(first) ? { attempt, state, since: Number(first) + clockOffset } : undefined;
    case 'vanished':
      return { attempt, state, detail: fields.slice(1).join(' ') };
    default:
      return undefined;
  }
}

function exitedRun(attempt: number, exitCode: number, endedAt: Instant, failure: string): RunStatus {
  const signal = signalNames.get(exitCode - 128);
  return {
    attempt,
    state: 'exited',
    exitCode,
    endedAt,
    ...(signal === undefined ? {} : { signal }),
    ...(failure === '' ? {} : { failure }),
  };
}

/** `TERM` and not `SIGTERM`, as in the manifest. The numbers are those of Linux, where workers run. */
const signalNames = new Map(
  Object.entries(constants.signals).map(([name, number]) => [number, name.replace('SIG', '')]),
);

function isNumber(text: string): boolean {
  return /^\d{1,15}$/u.test(text);
}

export const tailExitCodes = { ended: 0, missing: 4 } as const;

/**
 * Sends a file of the run from byte `from` on, and exits with `ended` soon after the run. The last bytes may be missing:
 * `remainderScript` sends them. Ends by itself when the connection closes.
 */
export function followScript(root: string, run: TailRequest & { readonly marker: string }): string {
  return `
root=${root}
dir=$root/attempt_${run.attempt}
file=$dir/${run.file}
marker=${quote(run.marker)}
${prelude}
[ -d "$dir" ] || exit ${tailExitCodes.missing}

# True if no process of the attempt is alive and no output will follow.
is_over() {
  [ ! -e "$dir/exit" ] && [ ! -e "$dir/never" ] || return 0
  turns=$((turns + 1))
  [ $((turns % 10)) -eq 0 ] && read_pid "$dir" || return 1
  ! is_alive "$dir" || return 1
  find_marked "$marker"
  [ -z "$found" ] || return 1
  # During an exec a process has no marker.
  nap 0.05
  find_marked "$marker"
  [ -z "$found" ]
}
turns=0
# tail does not wait for a position beyond the end of the file.
until [ -e "$file" ] && [ "$(wc -c <"$file")" -ge ${run.from} ]; do
  ! is_over || exit ${tailExitCodes.ended}
  nap 0.3
done
tail -c +${run.from + 1} -f "$file" 3<&- &
follower=$!
( cat <&3; kill -s TERM $$ ) >/dev/null 2>&1 &
watcher=$!
exec 3<&-
trap 'kill $follower $watcher 2>/dev/null; exit 1' TERM
until is_over; do nap 0.3; done
kill $follower $watcher 2>/dev/null
exit ${tailExitCodes.ended}
`;
}

export function remainderScript(root: string, { attempt, file, from }: TailRequest): string {
  return `
root=${root}
file=$root/attempt_${attempt}/${file}
[ -d "\${file%/*}" ] || exit ${tailExitCodes.missing}
[ ! -e "$file" ] || tail -c +${from + 1} "$file"
`;
}

/** Limit for repeating a kill before the rest is reported: processes that wait in the kernel die late. */
const maxKillRounds = 50;

/**
 * Prints one line: `gone` (no process is alive, and none will start), `asked <count>` or `left <pids>`. An attempt
 * without a folder gets one with the file `never`, which stops a late launcher. If the folder was deleted while the
 * program runs, the marker finds the program; a late launcher has the marker too, and gets a short time to exit.
 */
export function stopScript(
  root: string,
  stop: { readonly attempt: number; readonly marker: string; readonly how: 'stop' | 'kill'; readonly signal: string },
): string {
  return `
umask 077
root=${root}
dir=$root/attempt_${stop.attempt}
marker=${quote(stop.marker)}
${prelude}
mkdir -p "$root" || exit 1
if mkdir "$dir" 2>/dev/null; then
  find_marked "$marker"
  [ -z "$found" ] || { nap 0.2; find_marked "$marker"; }
  if [ -z "$found" ]; then
    printf '' >"$dir/never" && echo gone
    exit
  fi
fi
[ -d "$dir" ] || { echo "there is no folder $dir" >&2; exit 1; }
${stop.how === 'stop' ? signalBody(stop.signal) : killBody}`;
}

/**
 * Spares the launcher: it waits for the program and writes its exit. Spares processes inside a container of the
 * attempt's command if they are visible here: docker's client, which waits at the end of the pipe `line` (see
 * src/setup/docker.ts), forwards the signal, and a second signal may make a program quit at once.
 */
function signalBody(signal: string): string {
  return `
printf '' >"$dir/asked"
find_marked "$marker"
members=
launcher=
if is_alive "$dir"; then
  launcher=$pid
  find_members "$pid"
fi
is_inside_container() {
  [ -p "$dir/line" ] && [ -n "$launcher" ] && [ -e "/proc/$1/ns/mnt" ] && ! [ "/proc/$1/ns/mnt" -ef "/proc/$launcher/ns/mnt" ]
}
count=0
for one in $(printf '%s\\n' $found $members | sort -u); do
  [ "$one" != "$launcher" ] || continue
  ! is_inside_container "$one" || continue
  count=$((count + 1))
  kill -s ${quote(signal)} "$one" 2>/dev/null
done
if [ $count -eq 0 ] && [ -z "$launcher" ]; then echo gone; else echo "asked $count"; fi
`;
}

/** Repeats until two searches find none: a program may start new ones, and during an exec it shows no marker. */
const killBody = `
printf '' >"$dir/asked"
turns=0
quiet=0
members=
if is_alive "$dir"; then find_members "$pid"; fi
while [ $quiet -lt 2 ]; do
  find_marked "$marker"
  if [ -n "$found$members" ]; then
    quiet=0
    kill -s KILL $found $members 2>/dev/null
    members=
  else
    quiet=$((quiet + 1))
  fi
  turns=$((turns + 1))
  [ $turns -lt ${maxKillRounds} ] || { echo "left$found"; exit; }
  [ $quiet -eq 2 ] || nap 0.1
done
if [ ! -e "$dir/exit" ]; then
  if read_pid "$dir"; then
    read_clock
    printf '%-39s\\n' "137 $now" 1<>"$dir/exit.new" && mv "$dir/exit.new" "$dir/exit"
  else
    printf '' >"$dir/never"
  fi
fi
echo gone
`;
