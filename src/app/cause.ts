// Cause: what an attempt ended of, as a person says it: lengths beside the keys that set them, signals beside the codes
// that stand for them.

import type { Evidence } from '../core/job.ts';
import { patterns } from '../core/patterns.ts';
import type { JobSpec, Reason } from '../core/spec.ts';
import { lengthText, workerText } from './figures.ts';

/** The parts of a spec that a cause names. */
export type Spec = Pick<JobSpec, 'limits' | 'capacity'>;

/**
 * One phrase: `no output on any worker for 30m (job.silence_timeout)`, `killed by SIGKILL (exit code 137) on worker 3`. The
 * core's own phrase where that says it all. Never ends in a full stop of ours.
 */
export function causeText(spec: Spec, reason: Reason, evidence: Evidence): string {
  const { limits, capacity } = spec;
  const isPlain = evidence.worker === undefined || capacity.kind === 'local';
  const where = isPlain ? '' : ` on ${workerText(evidence.worker)}`;
  switch (reason) {
    case 'hung':
      return limits.silenceTimeout === null || evidence.pattern !== undefined
        ? evidence.detail
        : `no output${capacity.kind === 'local' ? '' : ' on any worker'} for ${lengthText(limits.silenceTimeout)} (job.silence_timeout)`;
    case 'timed_out':
      return limits.maxRuntime === null
        ? evidence.detail
        : `it ran for ${lengthText(limits.maxRuntime)}, which is all that it may (job.max_runtime)`;
    case 'command_failed':
      if (evidence.exitCode === undefined && evidence.signal === undefined) return evidence.detail;
      return `${exitText(evidence)}${where}`;
    case 'succeeded':
    case 'stopped':
    case 'preempted':
    case 'unreachable':
    case 'allocation_failed':
    case 'setup_failed':
      return evidence.detail;
  }
}

/** `killed by SIGKILL (exit code 137)`; a shell tells a signal as 128 and its number, and so do we. */
export function exitText({ signal, exitCode }: Pick<Evidence, 'signal' | 'exitCode'>): string {
  const code = exitCode === undefined ? '' : `exit code ${exitCode}`;
  return signal === undefined ? code : `killed by SIG${signal}${code === '' ? '' : ` (${code})`}`;
}

/**
 * The usual reason of that end, for who has not met it before; null where the words say it themselves. A guess that
 * holds mostly, so it is told as what such an end mostly means and never as what happened.
 */
export function mostlyMeans({ pattern, signal, exitCode }: Evidence): string | null {
  // Its own words are the better witness.
  const said = patterns.find(({ name }) => name === pattern);
  if (said !== undefined) return said.means;
  if (signal !== undefined) return signalsMean[signal] ?? null;
  return exitCode === undefined ? null : (codesMean[exitCode] ?? null);
}

/** Sources: signal(7) for what sends each; the kernel's memory killer sends SIGKILL. */
const signalsMean: Readonly<Record<string, string>> = {
  KILL: 'mostly the machine ran out of memory, or somebody killed it',
  TERM: 'somebody, or the machine going down, asked it to end',
  INT: 'somebody interrupted it',
  HUP: 'the session that it belonged to ended',
  SEGV: 'it touched memory that is not its own: a mistake in compiled code, mostly a library',
  BUS: 'it touched memory that is not there: mostly a file that was cut, or full shared memory',
  ABRT: 'it gave up by itself: what it printed last says why',
  ILL: 'it was built for another processor than this one',
  FPE: 'it divided by zero in compiled code',
  PIPE: 'it wrote to a program that had ended',
  XCPU: 'a limit on its time of computing ended it',
  XFSZ: 'a file of its grew beyond a limit',
};

/** Sources: POSIX, "Exit Status for Commands" (126 and 127 of a shell); timeout(1) of GNU coreutils (124). */
const codesMean: Readonly<Record<number, string>> = {
  124: 'what `timeout` says when it ended a program',
  126: 'something that it called is there and cannot be run',
  127: 'something that it called was not found',
};
