// Operations on a TPU itself, without a job. `wiring/` implements them with the cloud's API and SSH.

import type { LabTpu } from './tpus.ts';

/** `state` is Google's state in lower case, or `absent`. `unknown`: the cloud did not answer. */
export type TpuState = KnownTpuState | { readonly kind: 'unknown'; readonly message: string };

export interface KnownTpuState {
  readonly kind: 'known';
  readonly state: string;
  readonly zone: string;
  readonly workers: number;
  /** Distinguishes the TPU from an earlier or later one of the same name. */
  readonly uid?: string;
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

export interface DeviceHolder {
  readonly worker: number;
  readonly pid: number;
  readonly user: string;
  /** The command line, arguments separated by spaces. */
  readonly command: string;
}

export type WorkerAnswer =
  | { readonly kind: 'ended'; readonly worker: number; readonly code: number; readonly output: string }
  | { readonly kind: 'no_answer'; readonly worker: number; readonly message: string };

/** Holders on the workers that answered. Nothing is known of `unreachable` workers. */
export interface HolderScan {
  readonly holders: readonly DeviceHolder[];
  readonly unreachable: readonly { readonly worker: number; readonly message: string }[];
}

export type ReportProgress = (line: string) => void;

/** Methods take a TPU of the registry. They throw JobmanError with the cloud's message for a refusal. */
export interface TpuOperations {
  describe(tpu: LabTpu): Promise<TpuState>;
  /** Creates the TPU and waits until it is ready and accepts a login. Throws (4) if the name exists. */
  apply(tpu: LabTpu, report: ReportProgress, signal: AbortSignal): Promise<void>;
  /** Deletes the TPU and creates it like `apply`. Throws (4) if it differs from the registry or belongs to one job. */
  reapply(tpu: LabTpu, report: ReportProgress, signal: AbortSignal, options?: ReapplyOptions): Promise<void>;
  /** False if nothing of the name exists. Throws (4) if the TPU belongs to one job or differs from `uid`. */
  delete(
    tpu: LabTpu,
    report: ReportProgress,
    signal: AbortSignal,
    options?: Pick<ReapplyOptions, 'uid'>,
  ): Promise<boolean>;
  /** Stops and starts its machines, and waits until they answer. */
  restart(tpu: LabTpu, report: ReportProgress, signal: AbortSignal): Promise<void>;
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

export interface ReapplyOptions {
  /** Allows a different pricing of the existing TPU: a user confirmed it. */
  readonly anyPricing?: boolean;
  /** Changes only this TPU (`KnownTpuState.uid`): another user may have replaced it during the confirmation. */
  readonly uid?: string | undefined;
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
