// Log tail: copies one output of a program, byte for byte, while it runs. It begins at the length of our copy, so a
// dropped connection, a killed controller or a full disk loses and repeats nothing.

import { messageOf } from '../app/errors.ts';
import type { Clock, CopiedOutput, LogFiles, MachinePort } from '../app/ports.ts';
import { createArrivalRecorder, type Arrival } from '../core/model/arrival-times.ts';
import { allocationOf, type Job } from '../core/model/job.ts';
import { second, type Duration } from '../core/model/time.ts';
import { backoff, waitAtMost } from './timers.ts';

export interface Output extends CopiedOutput {
  readonly allocation: number;
}

export function outputKey({ attempt, worker, file }: Output): string {
  return `${attempt}/${worker}/${file}`;
}

/** A drain ends after `idle` without a new byte, or after `total`. */
export interface DrainTimeouts {
  readonly idle: Duration;
  readonly total: Duration;
}

export interface LogTailOptions {
  readonly logFiles: LogFiles;
  readonly clock: Clock;
  readonly mayAct: () => boolean;
  readonly wake: (id: string) => void;
  readonly report: (line: string) => void;
}

export type LogTail = ReturnType<typeof openLogTail>;

/** Reconnects until the output is completely copied, which calls `onCopied`, or until `end`. */
export function openLogTail(
  options: LogTailOptions,
  { job, machines, output }: { readonly job: Job; readonly machines: MachinePort; readonly output: Output },
  onCopied: () => void,
) {
  const { logFiles, clock, mayAct, wake, report } = options;
  let state: 'open' | 'waiting' | 'ended' = 'waiting';
  let failures = 0;
  /** Data from an earlier connection is ignored. */
  let connections = 0;
  let copy: ReturnType<typeof createCopy> | undefined;
  /** The last write; the length of the copy is correct only after it. */
  let writing: Promise<void> = Promise.resolve();
  let cancel: () => void = () => undefined;
  const drains = createDrains(clock);

  async function open(): Promise<void> {
    cancel();
    state = 'open';
    connections += 1;
    const connection = connections;
    const isOld = (): boolean => connection !== connections || state !== 'open';
    let from: number;
    try {
      await writing;
      from = await logFiles.length(job, output);
    } catch (error) {
      if (!isOld()) wait(messageOf(error));
      return;
    }
    if (isOld()) return;
    const newCopy = createCopy(options, job, output, from);
    copy = newCopy;
    const ref = { job, allocation: allocationOf(job, output.allocation), worker: output.worker };
    cancel = machines.tail(
      ref,
      { attempt: output.attempt, file: output.file, from },
      {
        async bytes(chunk) {
          if (isOld()) return;
          if (!mayAct()) {
            wait('this controller does not hold the lease');
            return;
          }
          try {
            const write = newCopy.append(chunk);
            writing = write.catch(() => undefined);
            await write;
            failures = 0;
            drains.noteProgress();
          } catch (error) {
            if (!isOld()) wait(messageOf(error));
          }
        },
        ended() {
          if (!isOld()) void finish(isOld);
        },
        dropped(reason) {
          if (isOld()) return;
          wait(reason);
          // A dropped connection is the first sign of a preemption: observe now instead of at the next round.
          if (failures === 1) wake(job.id);
        },
      },
    );
  }

  /** A machine may be released only once every server can read its logs. */
  async function finish(isOld: () => boolean): Promise<void> {
    try {
      await writing;
      await logFiles.store(job);
    } catch (error) {
      if (!isOld()) wait(messageOf(error));
      return;
    }
    if (isOld()) return;
    end();
    onCopied();
  }

  function wait(reason: string): void {
    cancel();
    copy?.end();
    state = 'waiting';
    if (failures === 0) report(`job ${job.id}: log ${outputKey(output)} is not copied now: ${reason}`);
    const length = backoff(failures, second, 30 * second);
    failures += 1;
    cancel = clock.at(clock.now() + length, () => void open());
  }

  /** Afterwards only a write that had already begun is appended. */
  function end(): void {
    state = 'ended';
    cancel();
    copy?.end();
    drains.end();
  }

  void open();
  return {
    output,
    get isDraining() {
      return drains.areActive;
    },
    /** Waits while more output arrives. */
    async drain(timeouts: DrainTimeouts): Promise<void> {
      if (state === 'waiting') void open();
      await drains.wait(timeouts);
    },
    end,
  };
}

/** The waits for the rest of one output. */
function createDrains(clock: Clock) {
  let active = 0;
  let progress = 0;
  let isOver = false;
  const over = Promise.withResolvers<void>();
  return {
    get areActive() {
      return active > 0;
    },
    noteProgress: () => void (progress += 1),
    end(): void {
      isOver = true;
      over.resolve();
    },
    async wait({ idle, total }: DrainTimeouts): Promise<void> {
      const began = clock.now();
      active += 1;
      for (let seen = -1; !isOver && seen < progress;) {
        // If the clock was set back the wait is longer, but not endless: it still ends without a new byte.
        const left = total - (clock.now() - began);
        if (left <= 0) break;
        seen = progress;
        await waitAtMost(clock, over.promise, Math.min(idle, left));
      }
      active -= 1;
    },
  };
}

/** Appends to the copy of an output from that length on, and stores when its bytes arrived. */
function createCopy({ logFiles, clock }: LogTailOptions, job: Job, output: Output, from: number) {
  const recorder = createArrivalRecorder();
  let length = from;
  // A time that cannot be stored is missed, and the copy continues.
  const record = (arrivals: readonly Arrival[]): void => {
    if (arrivals.length > 0) logFiles.recordArrivals(job, output, arrivals).catch(() => undefined);
  };
  return {
    async append(chunk: Uint8Array): Promise<void> {
      const before = length;
      await logFiles.append(job, output, chunk, before);
      length += chunk.length;
      record(recorder.add(before, length, clock.now()));
    },
    /** Stores the last arrival time. */
    end: () => record(recorder.end()),
  };
}
