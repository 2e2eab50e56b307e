// Subjects: the texts by which the record names what an action acted on, back to what they name. Nothing else reads them.

import type { Attempt, StepFailure } from '../core/job.ts';
import type { WorkerId } from '../core/spec.ts';
import type { Subject, WorkerTask } from '../core/subject.ts';

/** The subject of a `subjectKey`; undefined for one of another version of jobman. */
export function subjectOf(key: string): Subject | undefined {
  const [kind = '', first = '', second = '', ...rest] = key.split('/');
  const third = rest.join('/');
  switch (kind) {
    case 'request':
    case 'release':
      return { kind, allocation: Number(first) };
    case 'step':
      return { kind, allocation: Number(first), worker: Number(second), step: third };
    case 'start':
      return { kind, attempt: Number(first), worker: workerOf(second) };
    case 'stop':
      return { kind, attempt: Number(first), worker: workerOf(second), how: third === 'kill' ? 'kill' : 'ask' };
    default:
      return undefined;
  }
}

/** An attempt whose failures may be kept by their task's key, as older records have them. */
export function attemptOf(stored: Attempt | OldAttempt): Attempt {
  if ('failures' in stored) return stored;
  const { stepFailures, ...attempt } = stored;
  const failures = Object.entries(stepFailures).map(([key, failure]) => ({ ...failure, task: taskOf(key) }));
  return { ...attempt, failures };
}

/** An attempt of a record that is older than `Attempt.failures`. */
export type OldAttempt = Omit<Attempt, 'failures'> & {
  readonly stepFailures: Readonly<Record<string, Omit<StepFailure, 'task'>>>;
};

function taskOf(key: string): WorkerTask {
  const [first = '', ...rest] = key.split('/');
  const second = rest.join('/');
  if (first === 'start' || first === 'stop') return { kind: first, worker: workerOf(second) };
  return { kind: 'step', worker: Number(first), step: second };
}

function workerOf(text: string): WorkerId {
  return text === 'here' ? text : Number(text);
}
