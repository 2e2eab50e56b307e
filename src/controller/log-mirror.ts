// Log mirror: copies what the programs write, byte for byte, while they run. A tail always begins at the length of our copy, so a
// dropped connection, a killed controller or a full disk loses and repeats nothing.

import { textOf } from '../app/errors.ts';
import type { Clock, LogFiles, MachinePort, Backend, Pause } from '../app/ports.ts';
import { allocationOf, commandWorkers, isUnread, openAttempt, type Job, type Attempt } from '../core/job.ts';
import type { WorkerFact } from '../core/observation.ts';
import type { WorkerId } from '../core/spec.ts';
import { second, minute, type Duration, type Instant } from '../core/time.ts';
import type { ClockWatch } from './schedule.ts';
import { backoff, bounded } from './timers.ts';

/** One attempt's output on one worker. */
export interface Output {
  readonly attempt: number;
  readonly allocation: number;
  readonly worker: WorkerId;
}

export function isSameOutput(a: Output, b: Output): boolean {
  return a.attempt === b.attempt && a.worker === b.worker;
}

/** How long a drain waits: without a new byte, and altogether. */
export interface DrainPatience {
  readonly quiet: Duration;
  readonly most: Duration;
}

interface LogMirrorOptions {
  readonly logFiles: LogFiles;
  readonly clock: Clock;
  /** False once another controller may be writing the same copies. */
  readonly mayAct: () => boolean;
  readonly wake: (id: string) => void;
  readonly say: (line: string) => void;
}

export type LogMirror = ReturnType<typeof createLogMirror>;

interface Tail {
  readonly job: Job;
  readonly machines: MachinePort;
  readonly output: Output;
  state: 'open' | 'waiting' | 'copied' | 'dropped';
  failures: number;
  /** Counts the tails made for this output; what an earlier one still sends is ignored. */
  turn: number;
  /** The writing under way: the length of the copy is true only after it. */
  writing: Promise<void>;
  callOff: () => void;
  progress: number;
  drains: number;
  readonly whenCopied: (() => void)[];
}

export function createLogMirror(options: LogMirrorOptions) {
  const { logFiles, clock, mayAct, wake } = options;
  const tails = new Tails();
  /** By job, the keys of the outputs that were copied to their ends. */
  const copied = new Map<string, Set<string>>();
  let stopped = false;

  const isCopied = (job: Job, output: Output): boolean => copied.get(job.id)?.has(keyOf(output)) === true;

  async function open(tail: Tail): Promise<void> {
    tail.callOff();
    tail.state = 'open';
    tail.turn += 1;
    const turn = tail.turn;
    const { job, output } = tail;
    const isOld = (): boolean => stopped || tail.turn !== turn || tail.state !== 'open';
    let from: number;
    try {
      await tail.writing;
      from = await logFiles.length(job, output.attempt, output.worker);
    } catch (error) {
      if (!isOld()) wait(tail, textOf(error));
      return;
    }
    if (isOld()) return;
    const ref = { job, allocation: allocationOf(job, output.allocation), worker: output.worker };
    tail.callOff = tail.machines.tail(ref, output.attempt, from, {
      async bytes(chunk) {
        if (isOld()) return;
        if (!mayAct()) {
          wait(tail, 'this controller does not hold the lease now');
          return;
        }
        const write = logFiles.append(job, output.attempt, output.worker, chunk);
        tail.writing = write.catch(() => undefined);
        try {
          await write;
          tail.failures = 0;
          tail.progress += 1;
        } catch (error) {
          if (!isOld()) wait(tail, textOf(error));
        }
      },
      ended() {
        if (isOld()) return;
        tail.state = 'copied';
        copied.set(job.id, (copied.get(job.id) ?? new Set<string>()).add(keyOf(output)));
        tails.drop(tail);
        for (const call of tail.whenCopied.splice(0)) call();
        wake(job.id);
      },
      dropped(reason) {
        if (isOld()) return;
        wait(tail, reason);
        // A dropped connection is the first sign of a preemption: observe now instead of at the next round.
        if (tail.failures === 1) wake(job.id);
      },
    });
  }

  function wait(tail: Tail, reason: string): void {
    tail.callOff();
    tail.state = 'waiting';
    if (tail.failures === 0) options.say(`job ${tail.job.id}: log of ${tail.job.id}/${keyOf(tail.output)}: ${reason}`);
    const length = backoff(tail.failures, second, 30 * second);
    tail.failures += 1;
    tail.callOff = clock.at(clock.now() + length, () => void open(tail));
  }

  function follow(job: Job, machines: MachinePort, output: Output): Tail | undefined {
    if (stopped || isCopied(job, output)) return undefined;
    const known = tails.get(job, output);
    if (known !== undefined) return known;
    const tail = newTail(job, machines, output);
    tails.add(tail);
    void open(tail);
    return tail;
  }

  return {
    /** Copies this output from now on until it has ended. Safe to repeat. */
    follow: (job: Job, machines: MachinePort, output: Output) => void follow(job, machines, output),
    /** Waits while more of it comes in. False when nothing came for `quiet` or it took `most`: it is disconnected or prints on. */
    async drain(job: Job, machines: MachinePort, output: Output, patience: DrainPatience): Promise<boolean> {
      const tail = follow(job, machines, output);
      if (tail === undefined) return isCopied(job, output);
      if (tail.state === 'waiting') void open(tail);
      await drained(tail, clock, patience);
      return isCopied(job, output);
    },
    /** True once all of it was copied by this controller. */
    isCopied,
    /** The outputs of that allocation which are followed and not yet copied to their end. */
    unfinished(job: Job, allocation: number): readonly Output[] {
      return [...tails.of(job)].map(({ output }) => output).filter((output) => output.allocation === allocation);
    },
    /** Stops following the hopeless outputs; a drained one only where its machine is gone. */
    giveUp(job: Job, isHopeless: (output: Output) => boolean, isGone: (output: Output) => boolean): void {
      for (const tail of tails.of(job)) {
        if (!isHopeless(tail.output)) continue;
        // A drain has a limit of its own, and a release waits for it.
        if (tail.drains > 0 && !isGone(tail.output)) continue;
        tail.state = 'dropped';
        end(tail);
        tails.drop(tail);
      }
    },
    /** Forgets what was copied of that job; to learn it again costs one short tail. */
    forget: (id: string) => void copied.delete(id),
    get size() {
      return tails.size;
    },
    /** Ends all tails. Nothing is appended after this returns but a chunk whose writing had begun. */
    stop(): void {
      stopped = true;
      for (const tail of tails.takeAll()) end(tail);
    },
  };
}

function keyOf({ attempt, worker }: Output): string {
  return `${attempt}/${worker}`;
}

function end(tail: Tail): void {
  tail.callOff();
  for (const call of tail.whenCopied.splice(0)) call();
}

function newTail(job: Job, machines: MachinePort, output: Output): Tail {
  return {
    job,
    machines,
    output,
    state: 'waiting',
    failures: 0,
    turn: 0,
    writing: Promise.resolve(),
    callOff: () => undefined,
    progress: 0,
    drains: 0,
    whenCopied: [],
  };
}

/** Resolves once the output is copied, or no more of it came in within that patience. */
async function drained(tail: Tail, clock: Clock, { quiet, most }: DrainPatience): Promise<void> {
  let isOver = false;
  const over = new Promise<void>((resolve) => tail.whenCopied.push(resolve)).then(() => (isOver = true));
  const began = clock.now();
  tail.drains += 1;
  for (let seen = -1; !isOver && seen < tail.progress;) {
    // A clock that was set back makes the wait longer, not endless: it ends without a new byte all the same.
    const left = most - (clock.now() - began);
    if (left <= 0) break;
    seen = tail.progress;
    await bounded(clock, over, Math.min(quiet, left));
  }
  tail.drains -= 1;
}

/** By job, because every pass of a job asks for its own, among those of a thousand jobs. */
class Tails {
  readonly #byJob = new Map<string, Map<string, Tail>>();
  size = 0;

  get(job: Job, output: Output): Tail | undefined {
    return this.#byJob.get(job.id)?.get(keyOf(output));
  }

  of(job: Job): Iterable<Tail> {
    return this.#byJob.get(job.id)?.values() ?? [];
  }

  add(tail: Tail): void {
    const ofJob = this.#byJob.get(tail.job.id) ?? new Map<string, Tail>();
    this.#byJob.set(tail.job.id, ofJob.set(keyOf(tail.output), tail));
    this.size += 1;
  }

  drop({ job, output }: Tail): void {
    const ofJob = this.#byJob.get(job.id);
    if (ofJob?.delete(keyOf(output)) !== true) return;
    this.size -= 1;
    if (ofJob.size === 0) this.#byJob.delete(job.id);
  }

  takeAll(): readonly Tail[] {
    const all = [...this.#byJob.values()].flatMap((ofJob) => [...ofJob.values()]);
    this.#byJob.clear();
    this.size = 0;
    return all;
  }
}

/** How long after its end a log that could not be copied is tried again; twice that where the clock was set back. */
const patience = 5 * minute;

export type LogFollowers = ReturnType<typeof createLogFollowers>;

/** Which outputs of a job are to be copied now, and which are given up. */
export function createLogFollowers(options: {
  readonly mirror: LogMirror;
  readonly clock: Clock;
  readonly watch: ClockWatch;
  readonly lease: { readonly pause: Pause | undefined };
}) {
  const { mirror, clock, watch, lease } = options;

  function unfinishedOutputs(job: Job): readonly Output[] {
    if (isUnread(job)) return [];
    const now = clock.now();
    return job.attempts
      .filter((one) => one.startedAt !== null && one.endedAt !== null && !isLongOver(job, one, now))
      .flatMap((attempt) => outputsOf(job, attempt))
      .filter((output) => !mirror.isCopied(job, output) && isWithinReach(job, output));
  }

  /**
   * Counted from when its end was observed, from when its capacity came back (as from maintenance), or from when a controller ran
   * again: before that nothing could be read. A time far ahead was written by a clock that has been set back since.
   */
  function isLongOver(job: Job, { ordinal, endedAt, allocation }: Attempt, now: Instant): boolean {
    const seenAt = job.attempts[ordinal]?.createdAt ?? job.settled?.at ?? endedAt;
    // A jump that no round has noticed yet is left to the next round.
    if (seenAt === null || watch.hasJumpedSince(now)) return false;
    const seen = job.allocations[allocation - 1]?.seen;
    const backAt = seen?.state === 'ready' ? seen.at : seenAt;
    const sinceAt = Math.max(seenAt, backAt);
    const { pause } = lease;
    // A pause that ends later than now was noted before the clock was set back.
    const resumedAt = pause !== undefined && pause.from < sinceAt + patience ? Math.min(pause.until, now) : sinceAt;
    return Math.abs(now - Math.max(sinceAt, resumedAt, watch.jumpedAt)) > patience;
  }

  return {
    /** True while an output of an ended attempt is not copied to its end, and its machine may still answer. */
    isUnfinished: (job: Job) => unfinishedOutputs(job).length > 0,
    /** Follows what runs, and what has ended and is not copied yet; gives up what comes from machines that will not answer. */
    follow(job: Job, backend: Backend, workers: readonly WorkerFact[]): void {
      const unfinished = unfinishedOutputs(job);
      const open = job.removed ? undefined : openAttempt(job);
      const isGone = ({ allocation, worker }: Output): boolean =>
        worker !== 'here' && job.allocations[allocation - 1]?.goneAt !== null;
      const isUnwanted = (output: Output): boolean =>
        output.attempt !== open?.ordinal && !unfinished.some((one) => isSameOutput(one, output));
      mirror.giveUp(job, (output) => isGone(output) || isUnwanted(output), isGone);
      for (const { allocation, worker, fact } of workers) {
        const hasRun = fact.kind === 'known' && fact.value.runs.some((run) => run.attempt === open?.ordinal);
        if (open !== undefined && hasRun)
          mirror.follow(job, backend.machines, { attempt: open.ordinal, allocation, worker });
      }
      for (const output of unfinished) mirror.follow(job, backend.machines, output);
    },
    /** No pass of the job is due any more. */
    rest(job: Job): void {
      // While its logs may still be followed, what was copied must be known, or each pass would copy it again.
      const isOld = job.attempts.every((attempt) => attempt.endedAt !== null && isLongOver(job, attempt, clock.now()));
      if (isOld || isUnread(job)) mirror.forget(job.id);
    },
  };
}

function outputsOf(job: Job, attempt: Attempt): readonly Output[] {
  const workers = commandWorkers(job.spec.command, job.allocations[attempt.allocation - 1]?.workers ?? 0);
  return workers.map((worker) => ({ attempt: attempt.ordinal, allocation: attempt.allocation, worker }));
}

/** A released worker takes its output along; what ran on this machine can be read without the capacity. */
function isWithinReach(job: Job, { allocation, worker }: Output): boolean {
  const from = job.allocations[allocation - 1];
  return worker === 'here' || (from !== undefined && from.goneAt === null && from.releasedAt === null);
}
