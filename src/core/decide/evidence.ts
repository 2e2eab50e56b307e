// Evidence for the end of an attempt. `message` is for people; recovery rules use the pattern, the exit code and the
// worker.

import type { AllocationState, Attempt, Evidence, TaskFailure } from '../model/job.ts';
import type { WorkerId } from '../model/spec.ts';
import { minute, second } from '../model/time.ts';
import type { Duration } from '../model/time.ts';
import type { View, WorkerRun } from './view.ts';

/** The pattern in the output of that attempt on one worker. */
export function matchedPattern(
  { status }: WorkerRun,
  attempt: Attempt,
): { readonly pattern?: string; readonly line?: string } {
  const matched = status?.matched;
  return matched?.attempt === attempt.ordinal ? { pattern: matched.pattern, line: matched.line } : {};
}

/** The beginning of the evidence if neither process nor exit of a program is left. */
export const vanishedPrefix = 'the program vanished';

export function vanishedEvidence(workerRun: WorkerRun, attempt: Attempt): Evidence {
  const { run, worker } = workerRun;
  const found =
    run.state === 'vanished' ? run.detail : run.state === 'none' ? 'its files are gone' : 'it never started';
  return {
    message: `${vanishedPrefix} on ${workerName(worker)}: ${found}`,
    worker,
    ...matchedPattern(workerRun, attempt),
  };
}

/** For a program that exited without success. */
export function exitEvidence(
  workerRun: WorkerRun,
  { exitCode, signal, failure }: { readonly exitCode: number; readonly signal?: string; readonly failure?: string },
  attempt: Attempt,
): Evidence {
  const { worker } = workerRun;
  if (failure !== undefined && exitCode === 0)
    return { message: failure, worker, unconfirmed: true, ...matchedPattern(workerRun, attempt) };
  const exitText = signal === undefined ? `exit code ${exitCode}` : `killed by ${signal}`;
  return {
    message: `${exitText} on ${workerName(worker)}`,
    worker,
    exitCode,
    ...(signal === undefined ? {} : { signal }),
    ...matchedPattern(workerRun, attempt),
  };
}

export function silenceEvidence(runs: readonly WorkerRun[]): Evidence {
  const [only, ...others] = runs;
  const where = only === undefined || others.length > 0 ? 'on any worker' : `on ${workerName(only.worker)}`;
  return { message: `no output ${where} for as long as job.silence_timeout allows` };
}

export function failedCallEvidence(workerRun: WorkerRun, attempt: Attempt, timeout: Duration): Evidence {
  const minutes = Math.round(timeout / minute);
  const length = minutes > 0 ? `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}` : `${timeout / second} seconds`;
  const detail = `no output for ${length} after a failed call between workers`;
  return { message: detail, worker: workerRun.worker, ...matchedPattern(workerRun, attempt) };
}

export function setupEvidence({ task, message: detail, tries, pattern }: TaskFailure): Evidence {
  const { worker } = task;
  const failed = task.kind === 'step' ? `step ${task.step} failed` : 'the command could not be started';
  return {
    message: `${failed} on ${workerName(worker)} (${tries} ${tries === 1 ? 'try' : 'tries'}): ${detail}`,
    worker,
    ...(pattern === undefined ? {} : { pattern }),
  };
}

export function lossEvidence(view: View): Evidence {
  return { message: lossDetail(view), ...rawError(view) };
}

function lossDetail({ allocation, observed }: View): string {
  const detail =
    observed.kind === 'known' && observed.value.detail !== ''
      ? observed.value.detail
      : allocation?.lastObserved?.detail;
  const messages: Partial<Record<AllocationState, string>> = {
    absent: 'it no longer exists',
    releasing: 'another user is deleting it',
    foreign: 'another resource has its name',
  };
  const isFailure = allocation?.readyAt === null && observed.kind === 'known' && observed.value.cause !== 'preempted';
  const lossMessage = isFailure ? 'it failed before it was ready' : 'the cloud took it';
  const message = messages[allocation?.lastObserved?.state ?? 'lost'] ?? lossMessage;
  return detail === undefined || detail === '' ? message : `${message} (${detail})`;
}

/** The cloud's own message of the allocation's last error. */
export function rawError({ allocation }: View): { readonly raw?: string } {
  const error = allocation?.lastError?.error;
  return error === undefined ? {} : { raw: error.raw === '' ? error.message : error.raw };
}

/** `worker 3`, or `this machine`. */
export function workerName(worker: WorkerId): string {
  return worker === 'controller' ? 'this machine' : `worker ${worker}`;
}
