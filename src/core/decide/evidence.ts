// Evidence: what an ending rests on. `detail` is for people; rules ask for the pattern, the exit code and the worker.

import type { Attempt, Evidence, TaskFailure } from '../model/job.ts';
import type { WorkerId } from '../model/spec.ts';
import { minute, second } from '../model/time.ts';
import type { Duration } from '../model/time.ts';
import type { WorkerRun, View } from './facts.ts';

/** The pattern that has been found in the output of that attempt there. */
export function matchedPattern(
  { status }: WorkerRun,
  attempt: Attempt,
): { readonly pattern?: string; readonly line?: string } {
  const matched = status?.matched;
  return matched?.attempt === attempt.ordinal ? { pattern: matched.pattern, line: matched.line } : {};
}

/** The evidence begins with this where no process of a program is left and nothing says how it ended. */
export const vanishedPrefix = 'the program vanished';

/** A program of which no process and no exit is left. */
export function vanishedEvidence(workerRun: WorkerRun, attempt: Attempt): Evidence {
  const { run, worker } = workerRun;
  const found =
    run.state === 'vanished' ? run.detail : run.state === 'none' ? 'its files are gone' : 'it never came to life';
  return {
    detail: `${vanishedPrefix} on ${workerName(worker)}: ${found}`,
    worker,
    ...matchedPattern(workerRun, attempt),
  };
}

/** A program that has ended, and not well. */
export function exitEvidence(
  workerRun: WorkerRun,
  { exitCode, signal, failure }: { readonly exitCode: number; readonly signal?: string; readonly failure?: string },
  attempt: Attempt,
): Evidence {
  const { worker } = workerRun;
  if (failure !== undefined && exitCode === 0)
    return { detail: failure, worker, unconfirmed: true, ...matchedPattern(workerRun, attempt) };
  const exitText = signal === undefined ? `exit code ${exitCode}` : `killed by ${signal}`;
  return {
    detail: `${exitText} on ${workerName(worker)}`,
    worker,
    exitCode,
    ...(signal === undefined ? {} : { signal }),
    ...matchedPattern(workerRun, attempt),
  };
}

/** A program that has printed nothing anywhere for longer than `job.silence_timeout`. */
export function silenceEvidence(runs: readonly WorkerRun[]): Evidence {
  const [only, ...others] = runs;
  const where = only === undefined || others.length > 0 ? 'on any worker' : `on ${workerName(only.worker)}`;
  return { detail: `no output ${where} for as long as job.silence_timeout allows` };
}

/** A program that prints nothing after a failed call between workers. */
export function failedCallEvidence(workerRun: WorkerRun, attempt: Attempt, timeout: Duration): Evidence {
  const minutes = Math.round(timeout / minute);
  const length = minutes > 0 ? `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}` : `${timeout / second} seconds`;
  const detail = `no output for ${length} after a failed call between workers`;
  return { detail, worker: workerRun.worker, ...matchedPattern(workerRun, attempt) };
}

/** A step, or the start of the command, that has used up its tries on one worker. */
export function setupEvidence({ task, detail, tries, pattern }: TaskFailure): Evidence {
  const { worker } = task;
  const failed = task.kind === 'step' ? `step ${task.step} failed` : 'the command could not be started';
  return {
    detail: `${failed} on ${workerName(worker)} (${tries} ${tries === 1 ? 'try' : 'tries'}): ${detail}`,
    worker,
    ...(pattern === undefined ? {} : { pattern }),
  };
}

/** An allocation that will not be usable again. */
export function lossEvidence(view: View): Evidence {
  return { detail: lossDetail(view), ...rawError(view) };
}

function lossDetail({ allocation, observed }: View): string {
  const detail =
    observed.kind === 'known' && observed.value.detail !== ''
      ? observed.value.detail
      : allocation?.lastObserved?.detail;
  const messages = { absent: 'it is gone', releasing: 'somebody else deletes it', foreign: 'its name is taken' };
  const state = allocation?.lastObserved?.state;
  const isFailure = allocation?.readyAt === null && observed.kind === 'known' && observed.value.cause !== 'preempted';
  const lossMessage = isFailure ? 'it failed before it was ready' : 'the cloud took it';
  const message = state === 'absent' || state === 'releasing' || state === 'foreign' ? messages[state] : lossMessage;
  return detail === undefined || detail === '' ? message : `${message} (${detail})`;
}

/** The cloud's own words for the last error of the allocation, where there is one. */
export function rawError({ allocation }: View): { readonly raw?: string } {
  const error = allocation?.lastError?.error;
  return error === undefined ? {} : { raw: error.raw === '' ? error.message : error.raw };
}

/** `worker 3`, or `this machine`. */
export function workerName(worker: WorkerId): string {
  return worker === 'controller' ? 'this machine' : `worker ${worker}`;
}
