// Evidence for the end of an attempt. `message` is for people; recovery rules use the pattern, the exit code and the
// worker.

import type { AllocationState, Evidence, Job, TaskFailure } from '../model/job.ts';
import { formatWorker } from '../model/spec.ts';
import { minute, second, type Duration } from '../model/time.ts';
import type { AttemptView, WorkerRun } from './view.ts';

/** The message begins with this if neither the process nor the exit code of a program is left. */
export const vanishedPrefix = 'the program vanished';

/** The evidence of an end that a user requested. */
export function requestedBy({ endedBy }: Pick<Job, 'endedBy'>): Evidence {
  return { message: `requested by ${endedBy ?? 'the owner'}` };
}

export function vanishedEvidence({ run, worker, matched }: WorkerRun): Evidence {
  const found =
    run.state === 'vanished' ? run.detail : run.state === 'none' ? 'its files are gone' : 'it never started';
  return { message: `${vanishedPrefix} on ${formatWorker(worker)}: ${found}`, worker, ...matched };
}

/** The evidence of the end of a program without success. */
export function exitEvidence(
  { worker, matched }: WorkerRun,
  { exitCode, signal, failure }: { readonly exitCode: number; readonly signal?: string; readonly failure?: string },
): Evidence {
  if (failure !== undefined && exitCode === 0) return { message: failure, worker, unconfirmed: true, ...matched };
  const exitText = signal === undefined ? `exit code ${exitCode}` : `killed by ${signal}`;
  const message = `${exitText} on ${formatWorker(worker)}`;
  return { message, worker, exitCode, ...(signal === undefined ? {} : { signal }), ...matched };
}

export function silenceEvidence(runs: readonly WorkerRun[]): Evidence {
  const [only, ...others] = runs;
  const where = only === undefined || others.length > 0 ? 'on any worker' : `on ${formatWorker(only.worker)}`;
  return { message: `no output ${where} for as long as job.silence_timeout allows` };
}

export function failedCallEvidence({ worker, matched }: WorkerRun, timeout: Duration): Evidence {
  const minutes = Math.round(timeout / minute);
  const length = minutes > 0 ? `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}` : `${timeout / second} seconds`;
  return { message: `no output for ${length} after a failed call between workers`, worker, ...matched };
}

export function setupEvidence({ task, message: detail, tries, pattern }: TaskFailure): Evidence {
  const { worker } = task;
  const failed = task.kind === 'step' ? `step ${task.step} failed` : 'the command could not be started';
  const message = `${failed} on ${formatWorker(worker)} (${tries} ${tries === 1 ? 'try' : 'tries'}): ${detail}`;
  return { message, worker, ...(pattern === undefined ? {} : { pattern }) };
}

const messagesByState: Partial<Record<AllocationState, string>> = {
  absent: 'it no longer exists',
  releasing: 'another user is deleting it',
  foreign: 'another resource has its name',
};

export function lossEvidence(view: AttemptView): Evidence {
  const { allocation, observed } = view;
  const { lastObserved, readyAt } = allocation;
  const status = observed.kind === 'known' ? observed.value : undefined;
  const isFailure = readyAt === null && status !== undefined && status.cause !== 'preempted';
  const otherMessage = isFailure ? 'it failed before it was ready' : 'the cloud took it';
  const message = messagesByState[lastObserved?.state ?? 'lost'] ?? otherMessage;
  // The cloud may no longer report what it has reported before.
  const detail = status?.detail || lastObserved?.detail || '';
  return { message: detail === '' ? message : `${message} (${detail})`, ...rawError(view) };
}

/** The cloud's own message of the allocation's last error. */
export function rawError({ allocation: { lastError } }: AttemptView): { readonly raw?: string } {
  const error = lastError?.error;
  return error === undefined ? {} : { raw: error.raw === '' ? error.message : error.raw };
}
