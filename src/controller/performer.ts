// Performer: does what a committed decision asks, and writes the outcome to the store, as a fact for the next pass.
// Every action names the ordinal of what it acts on and may be done twice.

import { textOf, namesFileShortage } from '../app/errors.ts';
import type { Backend } from '../app/ports.ts';
import { subjectKey, type Subject } from '../core/decision.ts';
import type { Action } from '../core/decision.ts';
import {
  allocationOf,
  attemptOf,
  commandWorkers,
  stepsOf,
  type Allocation,
  type Attempt,
  type Job,
} from '../core/job.ts';
import type { OutcomeResult } from '../core/observation.ts';
import { launchFor, stepFor } from '../core/prepare.ts';
import { minute, second } from '../core/time.ts';
import type { ControllerOptions } from './controller.ts';
import { isSameOutput, type DrainPatience, type LogMirror, type Output } from './log-mirror.ts';
import { backoff, pause } from './timers.ts';

export type Performer = ReturnType<typeof createPerformer>;

interface Order {
  readonly id: string;
  readonly action: Action;
  readonly job: Job;
  /** `job/action key`: at most one of each is under way. */
  readonly key: string;
  /** The worker or allocation that it acts on: a `stop` must not overtake the `start` on the same worker. */
  readonly target: string;
}

/** How long a release waits for the last output: as long as it comes, with a limit, because the machine costs money. */
const lastWords: DrainPatience = { quiet: 5 * second, most: 15 * minute };

export interface PerformerOptions extends Pick<ControllerOptions, 'store' | 'backendOf' | 'clock' | 'logFiles'> {
  readonly mirror: LogMirror;
  /** How many actions of each kind may be under way at once: a release must not wait for setup steps, which take minutes. */
  readonly most: Readonly<Record<Action['kind'], number>>;
  /** True while the lease is ours beyond doubt; asked right before each action, because time passes between commit and act. */
  readonly mayAct: () => boolean;
  /** The job deserves a pass: an outcome is there, or an action could not be done now. */
  readonly wake: (id: string) => void;
  readonly released: () => void;
  readonly say: (line: string) => void;
}

export function createPerformer(options: PerformerOptions) {
  const { store, clock, mayAct, wake } = options;
  const waiting = new Map<string, Order>();
  const underWay = new Set<string>();
  const underWayOf: Record<Action['kind'], number> = { request: 0, release: 0, step: 0, start: 0, stop: 0 };
  const busyTargets = new Set<string>();
  /** By job, at which turn each of its actions came back last; kept until a pass that began later has asked for actions. */
  const cameBack = new Map<string, Map<string, number>>();
  const listeners: (() => void)[] = [];
  let turn = 0;
  let stopped = false;

  function next(): void {
    for (const order of waiting.values()) {
      if (stopped) return;
      const { kind } = order.action;
      if (underWayOf[kind] >= options.most[kind] || busyTargets.has(order.target)) continue;
      waiting.delete(order.key);
      underWay.add(order.key);
      underWayOf[kind] += 1;
      busyTargets.add(order.target);
      void run(order);
    }
  }

  async function run(order: Order): Promise<void> {
    try {
      await carryOut(order);
    } finally {
      underWay.delete(order.key);
      underWayOf[order.action.kind] -= 1;
      busyTargets.delete(order.target);
      wake(order.id);
      next();
      if (underWay.size === 0) for (const listener of listeners.splice(0)) listener();
    }
  }

  async function carryOut(order: Order): Promise<void> {
    const { action, job } = order;
    if (action.kind === 'release') await hearLastWords(options, job, action.allocation);
    // The commit may be long ago: the process may have been suspended, or this order may have waited for its turn.
    if (!mayAct()) return;
    let result: OutcomeResult;
    try {
      result = await actOn(options.backendOf(job.spec), job, action);
    } catch (error) {
      // What happened outside before the port threw, only an observation can tell.
      result = { kind: 'unclear', evidence: { detail: textOf(error) } };
    }
    if ((action.kind === 'step' || action.kind === 'start') && isOwnShortage(result))
      result = { kind: 'unclear', evidence: result.evidence };
    const of = 'attempt' in action && { attempt: action.attempt };
    const outcome = { subject: action, ...of, at: clock.now(), result };
    await writeDown(order.id, () => store.addOutcome(order.id, outcome));
    turn += 1;
    const ofJob = cameBack.get(order.id) ?? new Map<string, number>();
    cameBack.set(order.id, ofJob.set(order.key, turn));
    const words = wordsFor(action, result);
    if (words !== null)
      await note(options, job, `${action.kind} of ${allocationOf(job, action.allocation).name}: ${words}`);
    if (action.kind === 'release') options.released();
  }

  /** An outcome that is not written is as good as a lost reply, so a full disk is waited out for a while and then given up. */
  async function writeDown(id: string, write: () => Promise<void>): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      try {
        await write();
        return;
      } catch (error) {
        if (tries === 5 || stopped) {
          options.say(`job ${id}: an outcome could not be written and counts as unknown: ${textOf(error)}`);
          return;
        }
        await pause(clock, backoff(tries, second, 30 * second));
      }
    }
  }

  return {
    /** Counts what has come back. */
    get turn() {
      return turn;
    },
    /**
     * Begins these actions unless they are under way, and forgets what waits and is not among them any more. `job` is as it was
     * committed. `asOf` is the `turn` before its outcomes were read: an action that has come back since then is not repeated.
     */
    perform(job: Job, actions: readonly Action[], asOf: number): void {
      for (const [key, order] of waiting) if (order.id === job.id) waiting.delete(key);
      const news = cameBack.get(job.id);
      for (const [key, at] of news ?? []) if (at <= asOf) news?.delete(key);
      if (news?.size === 0) cameBack.delete(job.id);
      for (const action of actions) {
        const key = `${job.id}/${subjectKey(action)}`;
        if (underWay.has(key) || news?.has(key) === true) continue;
        waiting.set(key, { id: job.id, action, job, key, target: `${job.id}/${targetOf(action)}` });
      }
      next();
    },
    /** True while that action waits or is under way. Afterwards its outcome is in the store, or never will be. */
    isAt(id: string, subject: Subject): boolean {
      const key = `${id}/${subjectKey(subject)}`;
      return waiting.has(key) || underWay.has(key);
    },
    get size() {
      return waiting.size + underWay.size;
    },
    /** Begins nothing more. What is under way goes on, and its outcome is still written. */
    stop(): void {
      stopped = true;
      waiting.clear();
    },
    /** Resolves when nothing is under way. */
    settled(): Promise<void> {
      return underWay.size === 0 ? Promise.resolve() : new Promise((resolve) => listeners.push(resolve));
    },
  };
}

function actOn({ capacity, machines }: Backend, job: Job, action: Action): Promise<OutcomeResult> {
  const ref = { job, allocation: allocationOf(job, action.allocation) };
  switch (action.kind) {
    case 'request':
      return capacity.request(ref);
    case 'release':
      machines.forget(ref);
      return capacity.release(ref);
    case 'step': {
      const step = stepsOf(job).find((one) => one.name === action.step);
      if (step === undefined) throw new Error(`job ${job.id} has no setup step ${action.step}`);
      return machines.step({ ...ref, worker: action.worker }, stepFor(step, ref.allocation, job));
    }
    case 'start':
      return machines.start(
        { ...ref, worker: action.worker },
        launchFor(job, attemptOf(job, action.attempt), action.worker, action.bootId),
      );
    case 'stop':
      return machines.stop({ ...ref, worker: action.worker }, action.attempt, action.how, job.spec.stop.signal);
  }
}

/** A lack of file descriptors here is no failure of the job. A result with an exit code is the step's own. */
function isOwnShortage(result: OutcomeResult): result is Extract<OutcomeResult, { kind: 'failed' }> {
  return (
    result.kind === 'failed' && result.evidence.exitCode === undefined && namesFileShortage(result.evidence.detail)
  );
}

/** What is not copied yet is copied first, within bounds: a released machine takes its logs with it. */
async function hearLastWords({ backendOf, mirror }: PerformerOptions, job: Job, ordinal: number): Promise<void> {
  const allocation = allocationOf(job, ordinal);
  const { machines } = backendOf(job.spec);
  if (allocation.seen?.state === 'ready') {
    const followed = mirror.unfinished(job, ordinal);
    const others = lastOutputs(job, allocation).filter((one) => !followed.some((other) => isSameOutput(one, other)));
    const outputs = [...followed, ...others];
    await Promise.all(outputs.map((output) => mirror.drain(job, machines, output, lastWords)));
  }
}

async function note({ logFiles, clock, say }: PerformerOptions, job: Job, line: string): Promise<void> {
  try {
    await logFiles.note(job, 'tpu', clock.now(), line);
  } catch (error) {
    say(`job ${job.id}: tpu.log could not be written: ${textOf(error)}`);
  }
}

function targetOf(action: Action): string {
  return 'worker' in action ? `${action.allocation}/${action.worker}` : `${action.allocation}`;
}

/** A line for `tpu.log`; null for a refused request, which is logged as an event. */
function wordsFor({ kind }: Action, result: OutcomeResult): string | null {
  if (kind !== 'request' && kind !== 'release') return null;
  if (result.kind === 'done') return 'accepted';
  const error = result.kind === 'unclear' ? undefined : result.error;
  if (error === undefined) return `${result.kind}: ${result.evidence.detail}`;
  return kind === 'request' ? null : `${result.kind} (${error.kind}): ${error.message} ${error.raw}`;
}

/** The outputs of the last attempt that ran there and has ended: a controller that began later does not follow them yet. */
function lastOutputs({ attempts, spec }: Job, { ordinal, workers }: Allocation): readonly Output[] {
  const hasRun = ({ allocation, startedAt, endedAt }: Attempt): boolean =>
    allocation === ordinal && startedAt !== null && endedAt !== null;
  const attempt = attempts.findLast(hasRun);
  if (attempt === undefined) return [];
  return commandWorkers(spec.command, workers ?? 0)
    .filter((worker) => worker !== 'here')
    .map((worker) => ({ attempt: attempt.ordinal, allocation: ordinal, worker }));
}
