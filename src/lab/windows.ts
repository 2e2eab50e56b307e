// Windows: each attempt of a `tpu` job has a number of its own among those of its user, by which people speak of it. Where tmux
// is installed, a window of that number shows the attempt's output; the number is there without it too.
//
// What is here is what only the lab knows of a job and its attempts. Phase, reason, stage and times are the job's own.

import type { Instant } from '../core/time.ts';

/** What a `tpu run` has said beside the spec of its job. */
export interface LabJob {
  /** The job's id, `000001`. */
  readonly job: string;
  /** Registry name; the same as the job's owner. */
  readonly user: string;
  /** The working directory as it was then, and its number; null where a script was run from elsewhere. */
  readonly directory: string;
  readonly directoryNumber: number | null;
  /** The full name of its TPU. */
  readonly tpu: string;
  /** Words for staging.sh behind `ka=`, in order, each as it is to arrive: `--config.training.learning_rate=0.01`. */
  readonly configs: readonly string[];
  readonly tag: string | null;
  /** False when it is not to be watched: no rule answers its end (`monitor=False`). */
  readonly monitor: boolean;
  /** Whether the program is told its stage (`--config.stage=n`). */
  readonly logStage: boolean;
  /** The attempt of another job that this one went on from or began again, on another TPU; null for most. */
  readonly father: { readonly job: string; readonly attempt: number; readonly how: 'resume' | 'rerun' } | null;
  /** What the first attempt's stage counts from: father's stage + 1 after a resume, else 0. */
  readonly baseStage: number;
}

/** One attempt as the lab sees it. */
export interface LabWindow {
  readonly user: string;
  /** Unique among those of the user that are not cleared; never given again while one that is shown refers to it. */
  readonly window: number;
  readonly job: string;
  /** The ordinal of the attempt. */
  readonly attempt: number;
  /** When the number was given, which is when its script began. */
  readonly openedAt: Instant;
  /** What `tpu upd-log` told, as the script wrote it; null before. */
  readonly report: WindowReport | null;
  /** When `tpu finish-job` was called for it; null while it was not. */
  readonly finishedAt: Instant | null;
  /** When its tmux window was closed by hand while the rest of the session stood; null otherwise. */
  readonly closedAt: Instant | null;
  /** When its owner cleared it off the list; it stays in the record. */
  readonly clearedAt: Instant | null;
}

/** The words behind `tpu upd-log SESSION:WINDOW`. */
export interface WindowReport {
  /** Absolute, with `output.log` in it. */
  readonly logFolder: string;
  /** The frozen copy of the code that the attempt runs; absolute. */
  readonly stageFolder: string;
  readonly tpu: string;
  /** As the script wrote it: `20250420_011026`. */
  readonly startTime: string;
  readonly at: Instant;
}
