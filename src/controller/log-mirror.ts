// Log mirror: copies the output of programs, byte for byte, while they run. A tail begins at the length of our copy, so
// a dropped connection, a killed controller or a full disk loses and repeats nothing.

import { messageOf } from '../app/errors.ts';
import type { Clock, CopiedOutput, LogFiles, MachinePort, Backend, OutputFile, Pause } from '../app/ports.ts';
import { createArrivalRecorder, type Arrival } from '../core/model/arrival-times.ts';
import {
  allocationOf,
  commandWorkers,
  isForceRemoved,
  openAttempt,
  type Job,
  type Attempt,
} from '../core/model/job.ts';
import type { WorkerObservation } from '../core/model/observation.ts';
import { second, minute, type Duration, type Instant } from '../core/model/time.ts';
import type { ClockWatch } from './schedule.ts';
import { backoff, waitAtMost } from './timers.ts';

export interface Output extends CopiedOutput {
  readonly allocation: number;
}

export function isSameOutput(a: Output, b: Output): boolean {
  return a.attempt === b.attempt && a.worker === b.worker && a.file === b.file;
}

/** A drain ends after `idle` without a new byte, or after `total`. */
export interface DrainTimeouts {
  readonly idle: Duration;
  readonly total: Duration;
}

interface LogMirrorOptions {
  readonly logFiles: LogFiles;
  readonly clock: Clock;
  readonly mayAct: () => boolean;
  readonly wake: (id: string) => void;
  readonly report: (line: string) => void;
}

export type LogMirror = ReturnType<typeof createLogMirror>;

interface Tail {
  readonly job: Job;
  readonly machines: MachinePort;
  readonly output: Output;
  state: 'open' | 'waiting' | 'copied' | 'dropped';
  failures: number;
  /** Stores the last arrival time of the open tail. */
  endCopy: () => void;
  /** Counts the tails of this output; data from an earlier one is ignored. */
  generation: number;
  /** The last write; the length of the copy is correct only after it. */
  writing: Promise<void>;
  cancel: () => void;
  chunksWritten: number;
  activeDrains: number;
  readonly copiedListeners: (() => void)[];
}

export function createLogMirror(options: LogMirrorOptions) {
  const { logFiles, clock, mayAct, wake } = options;
  const tails = new Map<string, Tail>();
  /** By job, the keys of the completely copied outputs. */
  const copied = new Map<string, Set<string>>();
  let stopped = false;

  const tailKey = (job: Job, output: Output): string => `${job.id}/${outputKey(output)}`;
  const tailsOf = ({ id }: Job): Tail[] => [...tails.values()].filter(({ job }) => job.id === id);
  const isCopied = (job: Job, output: Output): boolean => copied.get(job.id)?.has(outputKey(output)) === true;

  async function open(tail: Tail): Promise<void> {
    tail.cancel();
    tail.state = 'open';
    tail.generation += 1;
    const generation = tail.generation;
    const { job, output } = tail;
    const isOld = (): boolean => stopped || tail.generation !== generation || tail.state !== 'open';
    let from: number;
    try {
      await tail.writing;
      from = await logFiles.length(job, output);
    } catch (error) {
      if (!isOld()) wait(tail, messageOf(error));
      return;
    }
    if (isOld()) return;
    const ref = { job, allocation: allocationOf(job, output.allocation), worker: output.worker };
    const request = { attempt: output.attempt, file: output.file, from };
    const copy = createCopy(options, tail, from);
    tail.cancel = tail.machines.tail(ref, request, {
      async bytes(chunk) {
        if (isOld()) return;
        if (!mayAct()) {
          wait(tail, 'this controller does not hold the lease');
          return;
        }
        try {
          await copy.append(chunk);
          tail.failures = 0;
          tail.chunksWritten += 1;
        } catch (error) {
          if (!isOld()) wait(tail, messageOf(error));
        }
      },
      ended() {
        if (isOld()) return;
        tail.state = 'copied';
        copied.set(job.id, (copied.get(job.id) ?? new Set<string>()).add(outputKey(output)));
        tails.delete(tailKey(job, output));
        endTail(tail);
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
    tail.cancel();
    tail.endCopy();
    tail.state = 'waiting';
    if (tail.failures === 0) options.report(`job ${tail.job.id}: log of ${tailKey(tail.job, tail.output)}: ${reason}`);
    const length = backoff(tail.failures, second, 30 * second);
    tail.failures += 1;
    tail.cancel = clock.at(clock.now() + length, () => void open(tail));
  }

  function follow(job: Job, machines: MachinePort, output: Output): Tail | undefined {
    if (stopped || isCopied(job, output)) return undefined;
    const known = tails.get(tailKey(job, output));
    if (known !== undefined) return known;
    const tail: Tail = { ...freshTail(), job, machines, output };
    tails.set(tailKey(job, output), tail);
    void open(tail);
    return tail;
  }

  return {
    follow: (job: Job, machines: MachinePort, output: Output) => void follow(job, machines, output),
    /** Waits while more output arrives. False after a timeout: the worker is disconnected, or still prints. */
    async drain(job: Job, machines: MachinePort, output: Output, timeouts: DrainTimeouts): Promise<boolean> {
      const tail = follow(job, machines, output);
      if (tail === undefined) return isCopied(job, output);
      if (tail.state === 'waiting') void open(tail);
      await waitUntilDrained(tail, clock, timeouts);
      return isCopied(job, output);
    },
    isCopied,
    unfinished(job: Job, allocation: number): readonly Output[] {
      return tailsOf(job).flatMap(({ output }) => (output.allocation === allocation ? [output] : []));
    },
    /** Keeps following an output that is being drained, unless its machine is gone. */
    giveUp(job: Job, isHopeless: (output: Output) => boolean, isGone: (output: Output) => boolean): void {
      for (const tail of tailsOf(job)) {
        if (!isHopeless(tail.output)) continue;
        // A drain has its own limit, and a release waits for it.
        if (tail.activeDrains > 0 && !isGone(tail.output)) continue;
        tail.state = 'dropped';
        endTail(tail);
        tails.delete(tailKey(job, tail.output));
      }
    },
    /** Finding out again costs one short tail per output. */
    forget: (id: string) => void copied.delete(id),
    get size() {
      return tails.size;
    },
    /** Ends all tails. Afterwards only a write that had already begun is appended. */
    stop(): void {
      stopped = true;
      for (const tail of tails.values()) endTail(tail);
      tails.clear();
    },
  };
}

/** Appends to the copy of an output from that length on, and stores when its bytes arrived. */
function createCopy({ logFiles, clock }: LogMirrorOptions, tail: Tail, from: number) {
  const { job, output } = tail;
  const recorder = createArrivalRecorder();
  let length = from;
  // A time that cannot be stored is missed, and the copy continues.
  const record = (arrivals: readonly Arrival[]): void => {
    if (arrivals.length > 0) logFiles.recordArrivals(job, output, arrivals).catch(() => undefined);
  };
  tail.endCopy = () => record(recorder.end());
  return {
    async append(chunk: Uint8Array): Promise<void> {
      const write = logFiles.append(job, output, chunk);
      tail.writing = write.catch(() => undefined);
      await write;
      const before = length;
      length += chunk.length;
      record(recorder.add(before, length, clock.now()));
    },
  };
}

function outputKey({ attempt, worker, file }: Output): string {
  return `${attempt}/${worker}/${file}`;
}

function endTail(tail: Tail): void {
  tail.cancel();
  tail.endCopy();
  for (const call of tail.copiedListeners.splice(0)) call();
}

function freshTail(): Omit<Tail, 'job' | 'machines' | 'output'> {
  return {
    state: 'waiting',
    failures: 0,
    endCopy: () => undefined,
    generation: 0,
    writing: Promise.resolve(),
    cancel: () => undefined,
    chunksWritten: 0,
    activeDrains: 0,
    copiedListeners: [],
  };
}

async function waitUntilDrained(tail: Tail, clock: Clock, { idle, total }: DrainTimeouts): Promise<void> {
  let isOver = false;
  const over = new Promise<void>((resolve) => tail.copiedListeners.push(resolve)).then(() => (isOver = true));
  const began = clock.now();
  tail.activeDrains += 1;
  for (let seen = -1; !isOver && seen < tail.chunksWritten;) {
    // If the clock was set back the wait is longer, but not endless: it still ends without a new byte.
    const left = total - (clock.now() - began);
    if (left <= 0) break;
    seen = tail.chunksWritten;
    await waitAtMost(clock, over, Math.min(idle, left));
  }
  tail.activeDrains -= 1;
}

/** An incomplete log is retried for this long after its end; twice as long if the clock was set back. */
const copyTimeout = 5 * minute;

export type LogFollowers = ReturnType<typeof createLogFollowers>;

export function createLogFollowers(options: {
  readonly mirror: LogMirror;
  readonly clock: Clock;
  readonly watch: ClockWatch;
  readonly lease: { readonly lastPause: Pause | undefined };
}) {
  const { mirror, clock, watch, lease } = options;

  function unfinishedOutputs(job: Job): readonly Output[] {
    if (isForceRemoved(job)) return [];
    const now = clock.now();
    return job.attempts
      .filter((one) => one.startedAt !== null && one.endedAt !== null && !isPastCopyTimeout(job, one, now))
      .flatMap((attempt) => outputsOf(job, attempt))
      .filter((output) => !mirror.isCopied(job, output) && isReadable(job, output));
  }

  /** Counts from the latest of its end, its capacity's return and the controller's start. Ignores future times. */
  function isPastCopyTimeout(job: Job, { ordinal, endedAt, allocation }: Attempt, now: Instant): boolean {
    const seenAt = job.attempts[ordinal]?.createdAt ?? job.finish?.at ?? endedAt;
    // The next round handles a jump that no round has noticed yet.
    if (seenAt === null || watch.hasJumpedSince(now)) return false;
    const seen = job.allocations[allocation - 1]?.lastObserved;
    const backAt = seen?.state === 'ready' ? seen.at : seenAt;
    const sinceAt = Math.max(seenAt, backAt);
    const { lastPause } = lease;
    // A pause that ends later than now was recorded before the clock was set back.
    const resumedAt =
      lastPause !== undefined && lastPause.from < sinceAt + copyTimeout ? Math.min(lastPause.until, now) : sinceAt;
    return Math.abs(now - Math.max(sinceAt, resumedAt, watch.jumpedAt)) > copyTimeout;
  }

  return {
    /** True while an output of an ended attempt is not completely copied, and its machine may still answer. */
    isUnfinished: (job: Job) => unfinishedOutputs(job).length > 0,
    /** Follows running and uncopied outputs; gives up outputs of machines that will not answer. */
    follow(job: Job, backend: Backend, workers: readonly WorkerObservation[]): void {
      const unfinished = unfinishedOutputs(job);
      const open = job.removed ? undefined : openAttempt(job);
      const isGone = ({ allocation, worker }: Output): boolean =>
        worker !== 'controller' && job.allocations[allocation - 1]?.goneAt !== null;
      const isUnwanted = (output: Output): boolean =>
        output.attempt !== open?.ordinal && !unfinished.some((one) => isSameOutput(one, output));
      mirror.giveUp(job, (output) => isGone(output) || isUnwanted(output), isGone);
      for (const { allocation, worker, observed } of workers) {
        if (open === undefined || observed.kind === 'unknown') continue;
        const { runs, reportedMetrics = [] } = observed.value;
        const attempt = open.ordinal;
        if (!runs.some((run) => run.attempt === attempt)) continue;
        mirror.follow(job, backend.machines, { attempt, allocation, worker, file: 'log' });
        const ref = { job, allocation: allocationOf(job, allocation), worker };
        if (reportedMetrics.includes(attempt) || backend.machines.isTailFree?.(ref) === true)
          mirror.follow(job, backend.machines, { attempt, allocation, worker, file: 'metrics' });
      }
      for (const output of unfinished) mirror.follow(job, backend.machines, output);
    },
    forget(job: Job): void {
      // While the job's logs may still be followed, forgetting would copy them again in each pass.
      const isOld = job.attempts.every(
        (attempt) => attempt.endedAt !== null && isPastCopyTimeout(job, attempt, clock.now()),
      );
      if (isOld || isForceRemoved(job)) mirror.forget(job.id);
    },
  };
}

function outputsOf(job: Job, attempt: Attempt): readonly Output[] {
  const workers = commandWorkers(job.spec.command, job.allocations[attempt.allocation - 1]?.workers ?? 0);
  return workers.flatMap((worker) => filesOfRun({ attempt: attempt.ordinal, allocation: attempt.allocation, worker }));
}

const outputFiles: readonly OutputFile[] = ['log', 'metrics'];

/** All files of a run that has ended; a file that the program never wrote is empty. */
export function filesOfRun(run: Omit<Output, 'file'>): readonly Output[] {
  return outputFiles.map((file) => ({ ...run, file }));
}

/** A released worker loses its output; output on this machine can be read without the capacity. */
function isReadable(job: Job, { allocation, worker }: Output): boolean {
  const from = job.allocations[allocation - 1];
  return worker === 'controller' || (from !== undefined && from.goneAt === null && from.releasedAt === null);
}
