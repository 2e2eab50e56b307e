// Log mirror: decides which outputs of programs are followed (log-tail.ts), for how long, and which are complete.

import type { Clock, MachinePort, Backend, OutputFile, Pause } from '../app/ports.ts';
import {
  allocationOf,
  commandWorkers,
  isForceRemoved,
  lastAllocation,
  openAttempt,
  type Job,
  type Attempt,
} from '../core/model/job.ts';
import type { WorkerObservation } from '../core/model/observation.ts';
import { minute, type Instant } from '../core/model/time.ts';
import {
  openLogTail,
  outputKey,
  type DrainTimeouts,
  type LogTail,
  type LogTailOptions,
  type Output,
} from './log-tail.ts';
import type { ClockWatch } from './schedule.ts';

export function isSameOutput(a: Output, b: Output): boolean {
  return outputKey(a) === outputKey(b);
}

export type LogMirror = ReturnType<typeof createLogMirror>;

export function createLogMirror(options: LogTailOptions) {
  /** By job and output, because each pass reads those of its job. */
  const tails = new Map<string, Map<string, LogTail>>();
  /** By job, the keys of the completely copied outputs. */
  const copied = new Map<string, Set<string>>();
  let stopped = false;

  const tailsOf = ({ id }: Job): ReadonlyMap<string, LogTail> => tails.get(id) ?? new Map<string, LogTail>();
  const isCopied = (job: Job, output: Output): boolean => copied.get(job.id)?.has(outputKey(output)) === true;

  function remove(job: string, key: string): void {
    const ofJob = tails.get(job);
    ofJob?.delete(key);
    if (ofJob?.size === 0) tails.delete(job);
  }

  function follow(job: Job, machines: MachinePort, output: Output): LogTail | undefined {
    if (stopped || isCopied(job, output)) return undefined;
    const key = outputKey(output);
    const known = tails.get(job.id)?.get(key);
    if (known !== undefined) return known;
    const tail = openLogTail(options, { job, machines, output }, () => {
      copied.set(job.id, (copied.get(job.id) ?? new Set<string>()).add(outputKey(output)));
      remove(job.id, key);
      options.wake(job.id);
    });
    const ofJob = tails.get(job.id) ?? new Map<string, LogTail>();
    tails.set(job.id, ofJob.set(key, tail));
    return tail;
  }

  return {
    follow: (job: Job, machines: MachinePort, output: Output) => void follow(job, machines, output),
    /** Waits while more output arrives. False after a timeout: the worker is disconnected, or still prints. */
    async drain(job: Job, machines: MachinePort, output: Output, timeouts: DrainTimeouts): Promise<boolean> {
      await follow(job, machines, output)?.drain(timeouts);
      return isCopied(job, output);
    },
    isCopied,
    unfinished(job: Job, allocation: number): readonly Output[] {
      const outputs = tailsOf(job)
        .values()
        .map(({ output }) => output);
      return outputs.filter((output) => output.allocation === allocation).toArray();
    },
    /** Keeps following an output that is being drained, unless its machine is gone. */
    giveUp(job: Job, isHopeless: (output: Output) => boolean, isGone: (output: Output) => boolean): void {
      for (const [key, tail] of tailsOf(job)) {
        if (!isHopeless(tail.output)) continue;
        // A drain has its own limit, and a release waits for it.
        if (tail.isDraining && !isGone(tail.output)) continue;
        tail.end();
        remove(job.id, key);
      }
    },
    /** Finding out again costs one short tail per output. */
    forget: (id: string) => void copied.delete(id),
    /** Number of jobs with an output that is followed. */
    get size() {
      return tails.size;
    },
    stop(): void {
      stopped = true;
      for (const ofJob of tails.values()) for (const tail of ofJob.values()) tail.end();
      tails.clear();
    },
  };
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
  /** By unfinished job, the last pass in which its workers did not answer: nothing could be copied until then. */
  const silentAt = new Map<string, Instant>();

  function unfinishedOutputs(job: Job): readonly Output[] {
    if (isForceRemoved(job)) return [];
    const now = clock.now();
    return job.attempts
      .filter((one) => one.startedAt !== null && one.endedAt !== null && !isPastCopyTimeout(job, one, now))
      .flatMap((attempt) => outputsOf(job, attempt))
      .filter((output) => !mirror.isCopied(job, output) && isReadable(job, output));
  }

  /**
   * Counts from the latest of its end, the return of its capacity or workers and the controller's start. Ignores future
   * times.
   */
  function isPastCopyTimeout(job: Job, { ordinal, endedAt, allocation }: Attempt, now: Instant): boolean {
    const seenAt = job.attempts[ordinal]?.createdAt ?? job.finish?.at ?? endedAt;
    // The next round handles a jump that no round has noticed yet.
    if (seenAt === null || watch.hasJumpedSince(now)) return false;
    const seen = job.allocations[allocation - 1]?.lastObserved;
    const backAt = seen?.state === 'ready' ? seen.at : seenAt;
    const lastSilentAt = silentAt.get(job.id) ?? seenAt;
    const sinceAt = Math.max(seenAt, backAt, lastSilentAt > now ? seenAt : lastSilentAt);
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
      const isSilent = (lastAllocation(job)?.unreachableAt ?? null) !== null;
      if (job.finish === null && isSilent) silentAt.set(job.id, clock.now());
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
      if (!isOld && !isForceRemoved(job)) return;
      mirror.forget(job.id);
      silentAt.delete(job.id);
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
