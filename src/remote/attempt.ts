// An attempt on one worker after its launch: a look (which only reads), the output as it grows, and the end of the program
// with all its children.

import { constants } from 'node:os';
import type { RunSeen, WorkerSeen } from '../core/observation.ts';
import type { Instant } from '../core/time.ts';
import { prelude, quote, startPatienceMs } from './run-folder.ts';

/**
 * The exit codes of a program that a machine ends before it goes down: 128 and SIGHUP, SIGKILL or SIGTERM. Such an end is the
 * program's own only while the machine has not begun again since; a segmentation fault is its own always.
 */
export const codesOfGoingDown: readonly number[] = [129, 137, 143];

export const restartedWords = 'the machine was restarted';

/**
 * Prints, one thing a line: `jobman-look 1`, `boot <id>`, `now <ms>`, `proof <step key>` …, `run <n> …` …, `end`.
 * An answer without its `end` was cut and is no answer.
 */
export function lookScript(
  root: string,
  ask: {
    readonly allocation: number;
    readonly jobMark: string;
    readonly mark: (attempt: string) => string;
    /** The attempt whose program should be alive there by all that is recorded; looked for also without its folder. */
    readonly expected?: number;
  },
): string {
  return `
root=${root}
${prelude}
printf 'jobman-look 1\\n'
printf 'boot %s\\n' "$boot"
read_clock
printf 'now %s\\n' "$now"
for file in "$root"/proofs/${ask.allocation}/*; do
  ! is_proven "$file" || printf 'proof %s\\n' "\${file##*/}"
done

# True when a process of that attempt is alive. All of the job's are looked for once, and only when a launcher is gone; that
# there are none is believed the second time, because one that is just becoming another program shows no mark.
some=unknown
find_some() {
  some=$(LC_ALL=C grep -ls -e ${quote(`JOBMAN_RUN=${ask.jobMark}`)} /proc/[0-9]*/environ 2>/dev/null)
}
is_marked() {
  if [ "$some" = unknown ]; then
    find_some
    [ -n "$some" ] || { nap 0.05; find_some; }
  fi
  [ -n "$some" ] || return 1
  find_marked "${ask.mark('$1')}"
  [ -n "$found" ]
}

read_exit() {
  code= ended=
  { read -r code ended <"$1/exit"; } 2>/dev/null
  [ -n "$ended" ]
}
say_restarted() { printf 'run %s vanished ${restartedWords}\\n' "$attempt"; }
say_exit() {
  case $code in
    ${codesOfGoingDown.join(' | ')}) if read_pid "$1" && [ "$pid_boot" != "$boot" ]; then say_restarted; return; fi ;;
  esac
  printf 'run %s exited %s %s\\n' "$attempt" "$code" "$ended"
}

for dir in "$root"/attempt_*; do
  [ -d "$dir" ] || continue
  attempt=\${dir##*_}
  if read_exit "$dir"; then
    say_exit "$dir"
  elif read_pid "$dir"; then
    # A program may end between two of these questions, so the exit is asked for again once its launcher is gone.
    if is_alive "$dir"; then alive=yes
    elif read_exit "$dir"; then
      say_exit "$dir"
      continue
    elif is_marked "$attempt"; then alive=yes
    else alive=
    fi
    if [ -n "$alive" ]; then
      output=$(stat -c %Y "$dir/log" 2>/dev/null)
      printf 'run %s running %s %s000\\n' "$attempt" "$started" "\${output:-0}"
    elif [ "$pid_boot" != "$boot" ]; then
      say_restarted
    else
      printf 'run %s vanished its processes were killed from outside, and no exit code was written\\n' "$attempt"
    fi
  elif [ -e "$dir/never" ]; then
    printf 'run %s vanished it was stopped before it had begun\\n' "$attempt"
  else
    since=$(stat -c %Y "$dir" 2>/dev/null)
    since=\${since:-0}000
    if is_marked "$attempt" || [ $((now - since)) -lt ${startPatienceMs} ]; then
      printf 'run %s starting %s\\n' "$attempt" "$since"
    else
      printf 'run %s vanished its start was cut in the middle, and nothing ran\\n' "$attempt"
    fi
  fi
done
${ask.expected === undefined ? '' : lostFolder(ask.expected)}printf 'end\\n'
`;
}

/**
 * A program whose folder was taken away (by a hand, or by itself while it cleaned up) lives all the same. Nobody can read
 * what it prints or how it ends, and still nothing may be started beside it.
 */
function lostFolder(attempt: number): string {
  return `if [ ! -d "$root/attempt_${attempt}" ] && is_marked ${attempt}; then printf 'run ${attempt} starting %s\\n' "$now"; fi
`;
}

/**
 * Reads a look's answer. Undefined when it is not one, word for word: whoever asked then knows nothing. Instants are
 * moved by the difference between the worker's clock and ours, `at` being our time when the answer came.
 */
export function parseLook(answer: string, at: Instant): WorkerSeen | undefined {
  const lines = answer.split('\n');
  if (lines.at(-1) !== '' || lines.at(-2) !== 'end' || lines[0] !== 'jobman-look 1') return undefined;
  let bootId: string | undefined;
  let behind: number | undefined;
  const proofs: string[] = [];
  const runs: RunSeen[] = [];
  for (const line of lines.slice(1, -2)) {
    const [word, first = '', ...rest] = line.split(' ');
    if (word === 'boot' && first !== '') bootId = first;
    else if (word === 'now' && isNumber(first)) behind = clockGap(at - Number(first));
    else if (word === 'proof' && first !== '') proofs.push(first);
    else if (word === 'run' && behind !== undefined) {
      const run = parseRun(first, rest, behind);
      if (run === undefined) return undefined;
      runs.push(run);
    } else return undefined;
  }
  if (bootId === undefined || behind === undefined) return undefined;
  return { bootId, proofs, runs: runs.toSorted((a, b) => a.attempt - b.attempt) };
}

/** The answer's own way takes a moment; a gap of that size says nothing about the clocks, and instants should not wander. */
function clockGap(gap: number): number {
  return Math.abs(gap) < 2_000 ? 0 : gap;
}

function parseRun(number: string, words: readonly string[], behind: number): RunSeen | undefined {
  const [state, first = '', second = ''] = words;
  if (!isNumber(number)) return undefined;
  const attempt = Number(number);
  switch (state) {
    case 'exited':
      return isNumber(first) && isNumber(second) ? exited(attempt, Number(first), Number(second) + behind) : undefined;
    case 'running': {
      if (!isNumber(first) || !isNumber(second)) return undefined;
      const startedAt = Number(first) + behind;
      return { attempt, state, startedAt, outputAt: Math.max(startedAt, Number(second) + behind) };
    }
    case 'starting':
      return isNumber(first) ? { attempt, state, since: Number(first) + behind } : undefined;
    case 'vanished':
      return { attempt, state, detail: words.slice(1).join(' ') };
    default:
      return undefined;
  }
}

/** A run that ended with that code; 128 + n is how a shell says that signal n ended it. */
export function exited(attempt: number, exitCode: number, endedAt: Instant): RunSeen {
  const signal = signalNames.get(exitCode - 128);
  return { attempt, state: 'exited', exitCode, endedAt, ...(signal === undefined ? {} : { signal }) };
}

/** `TERM` and not `SIGTERM`: the words of the manifest. Numbers are those of Linux, where workers run. */
const signalNames = new Map(
  Object.entries(constants.signals).map(([name, number]) => [number, name.replace('SIG', '')]),
);

function isNumber(word: string): boolean {
  return /^\d{1,15}$/u.test(word);
}

export const tailCodes = { over: 0, missing: 4 } as const;

/**
 * Sends the log from byte `from` on as it grows, and ends with `over` soon after the run has. The last bytes may then
 * still be missing: `restScript` sends them, from where the receiver has come to. Ends by itself when we have gone.
 */
export function followScript(
  root: string,
  run: { readonly attempt: number; readonly mark: string; readonly from: number },
): string {
  return `
root=${root}
dir=$root/attempt_${run.attempt}
mark=${quote(run.mark)}
${prelude}
[ -d "$dir" ] || exit ${tailCodes.missing}

# True when nothing of it is alive and nothing more will be written.
is_over() {
  [ ! -e "$dir/exit" ] && [ ! -e "$dir/never" ] || return 0
  turns=$((turns + 1))
  [ $((turns % 10)) -eq 0 ] && read_pid "$dir" || return 1
  ! is_alive "$dir" || return 1
  find_marked "$mark"
  [ -z "$found" ] || return 1
  # One that is just becoming another program shows no mark.
  nap 0.05
  find_marked "$mark"
  [ -z "$found" ]
}
turns=0
# A tail that begins behind the end would not wait for it.
until [ -e "$dir/log" ] && [ "$(wc -c <"$dir/log")" -ge ${run.from} ]; do
  ! is_over || exit ${tailCodes.over}
  nap 0.3
done
tail -c +${run.from + 1} -f "$dir/log" 3<&- &
follower=$!
( cat <&3; kill -s TERM $$ ) >/dev/null 2>&1 &
watcher=$!
exec 3<&-
trap 'kill $follower $watcher 2>/dev/null; exit 1' TERM
until is_over; do nap 0.3; done
kill $follower $watcher 2>/dev/null
exit ${tailCodes.over}
`;
}

/** Sends what is there from that byte on. For a log that has ended. */
export function restScript(root: string, run: { readonly attempt: number; readonly from: number }): string {
  return `
root=${root}
log=$root/attempt_${run.attempt}/log
[ -d "\${log%/log}" ] || exit ${tailCodes.missing}
[ ! -e "$log" ] || tail -c +${run.from + 1} "$log"
`;
}

/** How long a kill is repeated before what is left is reported: processes that wait in the kernel die late. */
const killTurns = 50;

/**
 * Prints one line: `gone` (nothing of it is alive, or will ever be), `asked <how many>` or `left <pids>`. An attempt that
 * has no folder yet gets one that says `never`, so that a launcher that is still on its way finds it taken. One whose folder
 * was taken away while its program runs is stopped by its mark, as any other; a launcher on its way carries the mark as
 * well, and is given a moment to find that it came too late.
 */
export function stopScript(
  root: string,
  stop: { readonly attempt: number; readonly mark: string; readonly how: 'ask' | 'kill'; readonly signal: string },
): string {
  return `
umask 077
root=${root}
dir=$root/attempt_${stop.attempt}
mark=${quote(stop.mark)}
${prelude}
mkdir -p "$root" || exit 1
if mkdir "$dir" 2>/dev/null; then
  find_marked "$mark"
  [ -z "$found" ] || { nap 0.2; find_marked "$mark"; }
  if [ -z "$found" ]; then
    printf '' >"$dir/never" && echo gone
    exit
  fi
fi
[ -d "$dir" ] || { echo "there is no folder $dir" >&2; exit 1; }
${stop.how === 'ask' ? askBody(stop.signal) : killBody}`;
}

/**
 * The launcher is left alone: it waits for the program and writes down how it ended. So is what runs in a container of the
 * attempt's command, where it can be seen from here: docker's client, which waits at the end of the line `line` (see
 * src/setup/docker.ts), hands the signal on, and a program may take a second one for impatience.
 */
function askBody(signal: string): string {
  return `
printf '' >"$dir/asked"
find_marked "$mark"
members=
launcher=
if is_alive "$dir"; then
  launcher=$pid
  find_members "$pid"
fi
is_told_inside() {
  [ -p "$dir/line" ] && [ -n "$launcher" ] && [ -e "/proc/$1/ns/mnt" ] && ! [ "/proc/$1/ns/mnt" -ef "/proc/$launcher/ns/mnt" ]
}
count=0
for one in $(printf '%s\\n' $found $members | sort -u); do
  [ "$one" != "$launcher" ] || continue
  ! is_told_inside "$one" || continue
  count=$((count + 1))
  kill -s ${quote(signal)} "$one" 2>/dev/null
done
if [ $count -eq 0 ] && [ -z "$launcher" ]; then echo gone; else echo "asked $count"; fi
`;
}

/**
 * Again and again until two searches have found none, because a program may be starting new ones meanwhile, and one that is
 * just becoming another program shows no mark.
 */
const killBody = `
printf '' >"$dir/asked"
turns=0
quiet=0
members=
if is_alive "$dir"; then find_members "$pid"; fi
while [ $quiet -lt 2 ]; do
  find_marked "$mark"
  if [ -n "$found$members" ]; then
    quiet=0
    kill -s KILL $found $members 2>/dev/null
    members=
  else
    quiet=$((quiet + 1))
  fi
  turns=$((turns + 1))
  [ $turns -lt ${killTurns} ] || { echo "left$found"; exit; }
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
