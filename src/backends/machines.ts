// Machines: looking at workers and acting on them, over whatever transport reaches them. Shared by every backend whose
// workers are machines with a shell.

import type { AllocationRef, MachinePort, WorkerRef } from '../app/ports.ts';
import type { Job } from '../core/job.ts';
import type { WorkerId } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { Reach } from '../remote/transport.ts';

/** What a backend says about its workers; the rest is the same for all. */
export interface MachinesParts {
  /** The way to that worker. Called for every action, so it must be cheap; transports are pooled behind it. */
  readonly reach: (ref: WorkerRef) => Promise<Reach>;
  /**
   * The folder of this job on that worker, as a word of a shell text: `"$HOME"/.jobman/runs/ab12cd/000001`, with all that
   * is not ours quoted. See `remoteRoot` for the usual one.
   */
  readonly root: (ref: WorkerRef) => string;
  /** Takes what a setup step prints. */
  readonly stepLog: (job: Job, step: string, worker: WorkerId, chunk: Uint8Array) => Promise<void>;
  /** A file of this machine that a step needs on the worker. Throws when it cannot be read. */
  readonly readFile: (path: string) => Promise<Uint8Array>;
  readonly now: () => Instant;
  /** Lets go of connections to this allocation. */
  readonly forget: (ref: AllocationRef) => void;
}

export type CreateMachines = (parts: MachinesParts) => MachinePort;
