// Worker figures: what the machine of a worker and the program on it use now. They are measured on demand for `top`;
// jobman stores none of them and decides nothing from them.

import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';

/** Null for what the machine does not report. Percentages are from 0 to 100, of the whole machine. */
export interface MachineFigures {
  readonly cpuPercent: number | null;
  readonly memoryUsedBytes: number | null;
  readonly memoryTotalBytes: number | null;
  /** Used bytes of the file system of `/`; null if not known. */
  readonly diskUsedBytes: number | null;
  readonly diskTotalBytes: number | null;
  /** Bytes received over the network in a second, on all interfaces except loopback; null if not known. */
  readonly receivedBytesPerSecond: number | null;
  readonly sentBytesPerSecond: number | null;
  /** Share of the time in which the chips computed, as libtpu reports it; the mean of the chips of the worker. */
  readonly dutyPercent: number | null;
  /** CPU of the processes in the session of the program; null while it does not run, and for a pod. */
  readonly programCpuPercent: number | null;
  readonly programMemoryBytes: number | null;
}

export interface WorkerFigures extends MachineFigures {
  /** `running`: the program is alive. `exited`: it has ended. `absent`: it has not started, or vanished. */
  readonly program: 'running' | 'exited' | 'absent';
}

/** Before the first answer of a machine. */
export const unknownFigures: MachineFigures = {
  cpuPercent: null,
  memoryUsedBytes: null,
  memoryTotalBytes: null,
  diskUsedBytes: null,
  diskTotalBytes: null,
  receivedBytesPerSecond: null,
  sentBytesPerSecond: null,
  dutyPercent: null,
  programCpuPercent: null,
  programMemoryBytes: null,
};

/** One attempt on one worker. */
export interface FiguresTarget {
  readonly worker: WorkerId;
  /** From 1. */
  readonly attempt: number;
}

export type FiguresAnswer =
  | { readonly kind: 'known'; readonly at: Instant; readonly figures: WorkerFigures }
  /** The worker did not answer in time or cannot be reached; `reason` is the text of the connection or of the cloud. */
  | { readonly kind: 'unknown'; readonly reason: string };

/** Measures workers. Never rejects for a worker, and answers within ten seconds. Takes no lock and writes nothing. */
export interface WorkerMeter {
  measure(job: Job, target: FiguresTarget): Promise<FiguresAnswer>;
  close(): void;
}
