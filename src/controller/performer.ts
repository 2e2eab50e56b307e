// Performer: carries out the actions of a committed decision, and stores each outcome for the next pass.

import { messageOf, mentionsDescriptorShortage } from '../app/errors.ts';
import type { Backend } from '../app/ports.ts';
import { subjectKey, type Subject, type Action } from '../core/model/decision.ts';
import {
  allocationOf,
  attemptOf,
  commandWorkers,
  stepsOf,
  type Allocation,
  type Attempt,
  type Job,
} from '../core/model/job.ts';
import type { Outcome, OutcomeResult } from '../core/model/observation.ts';
import { launchOf, resolvedStep } from '../core/decide/launch.ts';
import { minute, second } from '../core/model/time.ts';
import type { ControllerOptions } from './controller.ts';
import { filesOfRun, isSameOutput, type LogMirror } from './log-mirror.ts';
import type { DrainTimeouts, Output } from './log-tail.ts';
import { backoff, pause } from './timers.ts';

export type Performer = ReturnType<typeof createPerformer>;

interface QueuedAction {
  readonly id: string;
  readonly action: Action;
  readonly job: Job;
  /** `job/action key`: at most one of each is active. */
  readonly key: string;
  /** Its worker or allocation: a `stop` must not overtake the `start` on the same worker. */
  readonly target: string;
}

/** A release waits as long as output arrives, with a limit, because the machine costs money. */
const drainTimeouts: DrainTimeouts = { idle: 5 * second, total: 15 * minute };

export interface PerformerOptions extends Pick<
  ControllerOptions,
  'store' | 'backendOf' | 'clock' | 'logFiles' | 'meter'
> {
  readonly mirror: LogMirror;
  /** Limit per kind: a release must not wait for setup steps, which take minutes. */
  readonly maxConcurrent: Readonly<Record<Action['kind'], number>>;
  /** True while this controller certainly holds the lease; called right before each action. */
  readonly mayAct: () => boolean;
  /** Requests a pass: an outcome is available, or an action could not be done now. */
  readonly wake: (id: string) => void;
  readonly onReleased: () => void;
  readonly report: (line: string) => void;
}

export function createPerformer(options: PerformerOptions) {
  const { clock, mayAct, wake } = options;
  const waiting = new Map<string, QueuedAction>();
  const active = new Set<string>();
  const activeByKind: Record<Action['kind'], number> = { request: 0, release: 0, step: 0, start: 0, stop: 0 };
  const busyTargets = new Set<string>();
  /** By job, the value of `completions` when each action last returned, until a later pass has requested actions. */
  const completed = new Map<string, Map<string, number>>();
  const listeners: (() => void)[] = [];
  let completions = 0;
  let stopped = false;

  function next(): void {
    for (const order of waiting.values()) {
      if (stopped) return;
      const { kind } = order.action;
      if (activeByKind[kind] >= options.maxConcurrent[kind] || busyTargets.has(order.target)) continue;
      waiting.delete(order.key);
      active.add(order.key);
      activeByKind[kind] += 1;
      busyTargets.add(order.target);
      void run(order);
    }
  }

  async function run(order: QueuedAction): Promise<void> {
    try {
      await carryOut(order);
    } finally {
      active.delete(order.key);
      activeByKind[order.action.kind] -= 1;
      busyTargets.delete(order.target);
      wake(order.id);
      next();
      if (active.size === 0) for (const listener of listeners.splice(0)) listener();
    }
  }

  async function carryOut(order: QueuedAction): Promise<void> {
    const { action, job } = order;
    if (action.kind === 'release') await copyLastOutputs(options, job, action.allocation);
    // The commit may be long ago: the process may have been suspended, or this action may have waited in the queue.
    if (!mayAct()) return;
    let result: OutcomeResult;
    try {
      result = await actOn(options.backendOf(job.spec), job, action);
    } catch (error) {
      // Only an observation can show the effect of the action before the port threw.
      result = { kind: 'unclear', evidence: { message: messageOf(error) } };
    }
    if ((action.kind === 'step' || action.kind === 'start') && isDescriptorShortage(result))
      result = { kind: 'unclear', evidence: result.evidence };
    options.meter?.count('jobman_actions_total', { action: action.kind, outcome: result.kind });
    const of = 'attempt' in action && { attempt: action.attempt };
    const outcome = { subject: action, ...of, at: clock.now(), result };
    await writeOutcome(options, order.id, outcome, () => stopped);
    completions += 1;
    const ofJob = completed.get(order.id) ?? new Map<string, number>();
    completed.set(order.id, ofJob.set(order.key, completions));
    const line = tpuLogLine(action, result);
    if (line !== null)
      await writeTpuLog(options, job, `${action.kind} of ${allocationOf(job, action.allocation).name}: ${line}`);
    if (action.kind === 'release') options.onReleased();
  }

  return {
    get completions() {
      return completions;
    },
    /** Drops waiting actions that are not among them. One that returned since `completionsBefore` is not repeated. */
    perform(job: Job, actions: readonly Action[], completionsBefore: number): void {
      for (const [key, order] of waiting) if (order.id === job.id) waiting.delete(key);
      const completedOfJob = completed.get(job.id);
      for (const [key, at] of completedOfJob ?? []) if (at <= completionsBefore) completedOfJob?.delete(key);
      if (completedOfJob?.size === 0) completed.delete(job.id);
      for (const action of actions) {
        const key = `${job.id}/${subjectKey(action)}`;
        if (active.has(key) || completedOfJob?.has(key) === true) continue;
        waiting.set(key, { id: job.id, action, job, key, target: `${job.id}/${targetOf(action)}` });
      }
      next();
    },
    /** Afterwards the outcome is in the store, or never will be. */
    isPending(id: string, subject: Subject): boolean {
      const key = `${id}/${subjectKey(subject)}`;
      return waiting.has(key) || active.has(key);
    },
    /**
     * The `subjectKey`s of the active actions of a job. An outcome of one is not final: if the database does not confirm
     * it, it is written again.
     */
    activeOf(id: string): ReadonlySet<string> {
      const prefix = `${id}/`;
      return new Set([...active].flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : [])));
    },
    get size() {
      return waiting.size + active.size;
    },
    /** Active actions continue, and their outcomes are still written. */
    stop(): void {
      stopped = true;
      waiting.clear();
    },
    whenIdle(): Promise<void> {
      return active.size === 0 ? Promise.resolve() : new Promise((resolve) => listeners.push(resolve));
    },
  };
}

/** An outcome that cannot be stored counts as a lost reply, so the retries end. */
async function writeOutcome(
  { store, clock, report }: PerformerOptions,
  id: string,
  outcome: Outcome,
  isStopped: () => boolean,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    try {
      await store.addOutcome(id, outcome);
      return;
    } catch (error) {
      if (tries < 5 && !isStopped()) await pause(clock, backoff(tries, second, 30 * second));
      // Another controller may have read the outcome meanwhile.
      if (tries === 5 || isStopped()) {
        report(`job ${id}: cannot store an outcome, so it counts as unknown: ${messageOf(error)}`);
        return;
      }
    }
  }
}

function actOn({ capacity, machines }: Backend, job: Job, action: Action): Promise<OutcomeResult> {
  const ref = { job, allocation: allocationOf(job, action.allocation) };
  switch (action.kind) {
    case 'request':
      return capacity.request(ref);
    case 'release':
      machines.disconnect(ref);
      return capacity.release(ref);
    case 'step': {
      const step = stepsOf(job).find((one) => one.name === action.step);
      if (step === undefined) throw new Error(`job ${job.id} has no setup step ${action.step}`);
      return machines.runStep({ ...ref, worker: action.worker }, resolvedStep(step, ref.allocation, job));
    }
    case 'start':
      return machines.start(
        { ...ref, worker: action.worker },
        launchOf(job, attemptOf(job, action.attempt), action.worker, action.bootId),
      );
    case 'stop':
      return machines.stop({ ...ref, worker: action.worker }, action.attempt, action.signal, job.spec.stop.signal);
  }
}

/** A lack of file descriptors on this machine is not a failure of the job. A step's own result has an exit code. */
function isDescriptorShortage(result: OutcomeResult): result is Extract<OutcomeResult, { kind: 'failed' }> {
  return (
    result.kind === 'failed' &&
    result.evidence.exitCode === undefined &&
    mentionsDescriptorShortage(result.evidence.message)
  );
}

/** A released machine loses its logs, so the rest of the outputs is copied first, within limits. */
async function copyLastOutputs({ backendOf, mirror }: PerformerOptions, job: Job, ordinal: number): Promise<void> {
  const allocation = allocationOf(job, ordinal);
  const { machines } = backendOf(job.spec);
  if (allocation.lastObserved?.state === 'ready') {
    const followed = mirror.unfinished(job, ordinal);
    const others = lastOutputs(job, allocation).filter((one) => !followed.some((other) => isSameOutput(one, other)));
    const outputs = [...followed, ...others];
    await Promise.all(outputs.map((output) => mirror.drain(job, machines, output, drainTimeouts)));
  }
}

async function writeTpuLog({ logFiles, clock, report }: PerformerOptions, job: Job, line: string): Promise<void> {
  try {
    await logFiles.note(job, 'tpu', clock.now(), line);
  } catch (error) {
    report(`job ${job.id}: cannot write tpu.log: ${messageOf(error)}`);
  }
}

function targetOf(action: Action): string {
  return 'worker' in action ? `${action.allocation}/${action.worker}` : `${action.allocation}`;
}

/** Null for a refused request, which is logged as an event. */
function tpuLogLine({ kind }: Action, result: OutcomeResult): string | null {
  if (kind !== 'request' && kind !== 'release') return null;
  if (result.kind === 'done') return 'accepted';
  const error = result.kind === 'unclear' ? undefined : result.error;
  if (error === undefined) return `${result.kind}: ${result.evidence.message}`;
  return kind === 'request' ? null : `${result.kind} (${error.kind}): ${error.message} ${error.raw}`;
}

/** Outputs of the last ended attempt, which a controller that started later does not follow yet. */
function lastOutputs({ attempts, spec }: Job, { ordinal, workers }: Allocation): readonly Output[] {
  const hasRun = ({ allocation, startedAt, endedAt }: Attempt): boolean =>
    allocation === ordinal && startedAt !== null && endedAt !== null;
  const attempt = attempts.findLast(hasRun);
  if (attempt === undefined) return [];
  return commandWorkers(spec.command, workers ?? 0)
    .filter((worker) => worker !== 'controller')
    .flatMap((worker) => filesOfRun({ attempt: attempt.ordinal, allocation: ordinal, worker }));
}
