// Look: what one script sees on one worker, and how its answer is read. It reads only.

import { constants } from 'node:os';
import type { RunSeen, WorkerSeen } from '../core/observation.ts';
import type { Instant } from '../core/time.ts';
import { prelude, startPatienceMs } from './run-folder.ts';
import { quote } from './quote.ts';

/**
 * The exit codes of a program that a machine ends before it goes down: 128 and SIGHUP, SIGKILL or SIGTERM. Such an end is the
 * program's own only while the machine has not begun again since; a segmentation fault is its own always.
 */
export const codesOfGoingDown: readonly number[] = [129, 137, 143];

/** The detail of a run that went with a boot of its machine. */
export const restartedWords = 'the machine was restarted';

/**
 * Prints, one thing a line: `jobman-look 1`, `boot <id>`, `now <ms>`, `proof <step key>` …, `run <n> …` …, `end`.
 * An answer without its `end` was cut and is no answer.
 */
export function lookScript(
  root: string,
  ask: {
    readonly allocation: number;
    /** The start of the marks of this job's attempts. */
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
