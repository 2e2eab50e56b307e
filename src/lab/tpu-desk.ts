// Operations on a TPU itself, without a job. `wiring/` builds them over the cloud's API and SSH.

import type { LabTpu } from './tpus.ts';

/**
 * `state` is Google's word in small letters (`ready`, `preempted`), `absent` where the cloud has no TPU of that name. `unknown`:
 * the cloud could not be asked; `says` is why.
 */
export type TpuState = KnownState | { readonly kind: 'unknown'; readonly says: string };

export interface KnownState {
  readonly kind: 'known';
  readonly state: string;
  readonly zone: string;
  readonly workers: number;
  /** An id that tells it from another TPU of that name, created before or after it. */
  readonly made?: string;
}

export interface Holder {
  readonly worker: number;
  readonly pid: number;
  readonly user: string;
  /** Its command line, its words parted by blanks. */
  readonly command: string;
}

export type WorkerAnswer =
  | { readonly kind: 'ended'; readonly worker: number; readonly code: number; readonly output: string }
  | { readonly kind: 'no_answer'; readonly worker: number; readonly says: string };

/** The holders on workers that answered; of the `missed` workers nothing is known. */
export interface Holders {
  readonly holders: readonly Holder[];
  readonly missed: readonly { readonly worker: number; readonly says: string }[];
}

/** Prints a line of progress of a long operation. */
export type Say = (line: string) => void;

/** Every method takes a TPU of the registry. Throws JobmanError for what the cloud refuses, with its raw words. */
export interface TpuDesk {
  describe(tpu: LabTpu): Promise<TpuState>;
  /** Creates it and waits until it is ready and lets us in. Throws (4) where one of that name is there already. */
  apply(tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void>;
  /**
   * Deletes what is there, sees it gone, and creates it as `apply` does. Throws (4) and changes nothing where what is there is
   * of another type or pricing than the registry says, or belongs to one job.
   */
  reapply(tpu: LabTpu, say: Say, signal: AbortSignal, options?: ReapplyOptions): Promise<void>;
  /**
   * Deletes it with the queued resource that made it, and waits until it is gone. False where nothing of that name exists.
   * Throws (4) and changes nothing where it belongs to one job, or is another one than `made`.
   */
  delete(tpu: LabTpu, say: Say, signal: AbortSignal, options?: Pick<ReapplyOptions, 'made'>): Promise<boolean>;
  /** Stops and starts its machines, and waits until they answer again. */
  restart(tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void>;
  /** Runs a script of /bin/sh on every worker side by side, as the site's login; its text travels as a file. */
  onWorkers(tpu: LabTpu, script: string, options: RunOptions): Promise<readonly WorkerAnswer[]>;
  /** Finds the programs that hold /dev/accel* or /dev/vfio/* on the workers. */
  holders(tpu: LabTpu, signal: AbortSignal): Promise<Holders>;
  /**
   * Ends programs whose command line names one of those folders as a word or as the value of an option, with what they started;
   * and those of `pids`. Asked first, killed after `graceMs`. A run that only loads from such a folder (`--config.load_from=`)
   * is another one.
   */
  end(tpu: LabTpu, what: EndRequest, signal: AbortSignal): Promise<EndAnswer>;
  close(): void;
}

export interface ReapplyOptions {
  /** The TPU that exists may have another pricing: somebody agreed to that. */
  readonly anyPricing?: boolean;
  /** Only if it is still that one (`TpuState.made`): while somebody was asked about it, another may have made it anew. */
  readonly made?: string | undefined;
}

export interface RunOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Secrets by the name of the variable that the script finds them in; they stand in no command line and no file that stays. */
  readonly secrets?: Readonly<Record<string, string>>;
  readonly workers?: readonly number[];
}

export interface EndRequest {
  readonly folders: readonly string[];
  readonly pids: readonly { readonly worker: number; readonly pid: number }[];
  readonly graceMs: number;
}

export interface EndAnswer {
  readonly ended: readonly Holder[];
  readonly left: readonly Holder[];
  readonly missed: readonly { readonly worker: number; readonly says: string }[];
}
