// The state of a TPU, and scripts on its workers, without a job. `wiring/` implements them with the cloud's API and SSH.

import type { DeviceHolder } from '../app/lab-job.ts';
import type { LabTpu } from './tpus.ts';

/** `state` is Google's state in lower case, or `absent`. `unknown`: the cloud did not answer. */
export type TpuState = KnownTpuState | { readonly kind: 'unknown'; readonly message: string };

export interface KnownTpuState {
  readonly kind: 'known';
  readonly state: string;
  readonly zone: string;
  readonly workers: number;
  /** The TPU or its queued resource. Absent if neither exists. */
  readonly found?: FoundTpu;
}

export interface FoundTpu {
  /** Distinguishes the TPU from an earlier or later one of the same name. Null for a queued resource without a node. */
  readonly creationTime: string | null;
  readonly accelerator?: string;
  readonly pricing?: LabTpu['pricing'];
  /** The job that it was created for; null for a TPU of the lab. */
  readonly job: string | null;
  /** The owner in its metadata. */
  readonly owner?: string;
}

/** Follows `is`: `ready`, `being created`. `state` is Google's state in lower case. */
export function formatTpuState(state: string): string {
  const passive: Readonly<Record<string, string>> = {
    creating: 'being created',
    deleting: 'being deleted',
    repairing: 'being repaired',
  };
  return passive[state] ?? state.replaceAll('_', ' ');
}

export type WorkerAnswer =
  | { readonly kind: 'ended'; readonly worker: number; readonly code: number; readonly output: string }
  | { readonly kind: 'no_answer'; readonly worker: number; readonly message: string };

/** Holders on the workers that answered. Nothing is known of `unreachable` workers. */
export interface HolderScan {
  readonly holders: readonly DeviceHolder[];
  readonly unreachable: readonly { readonly worker: number; readonly message: string }[];
}

/** Methods take a TPU of the registry. They throw JobmanError with the cloud's message for a refusal. */
export interface TpuOperations {
  describe(tpu: LabTpu): Promise<TpuState>;
  /** Runs a /bin/sh script on all workers in parallel, as the site's login. The script is transferred as a file. */
  onWorkers(tpu: LabTpu, script: string, options: WorkerScriptOptions): Promise<readonly WorkerAnswer[]>;
  /** Finds programs that hold /dev/accel* or /dev/vfio/* on the workers. */
  holders(tpu: LabTpu, signal: AbortSignal): Promise<HolderScan>;
  /**
   * Ends `pids`, programs with one of `folders` in their command line, and their children. SIGKILL follows `graceMs`. A
   * run that only loads from such a folder (`--config.load_from=`) does not match.
   */
  endPrograms(tpu: LabTpu, what: EndRequest, signal: AbortSignal): Promise<EndResult>;
  close(): void;
}

export interface WorkerScriptOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Secrets by environment variable. They appear in no command line and no file that stays. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly workers?: readonly number[];
}

export interface EndRequest {
  readonly folders: readonly string[];
  readonly pids: readonly { readonly worker: number; readonly pid: number }[];
  readonly graceMs: number;
}

export interface EndResult {
  readonly ended: readonly DeviceHolder[];
  readonly left: readonly DeviceHolder[];
  readonly unreachable: readonly { readonly worker: number; readonly message: string }[];
}
