// Prepare: what stands between a ready worker and the command, and what is handed over when it starts.

import type { Action } from './decision.ts';
import { allocationOf, commandWorkers, failureOf, stepsOf, capacityOf, taskKey } from './job.ts';
import type { Allocation, Attempt, Job, StepFailure, WorkerTask } from './job.ts';
import { doubling, earliest, minute, second } from './time.ts';
import type { Instant } from './time.ts';
import { nodeNameMark, withBuckets } from './spec.ts';
import type { ResumeFrom, SecretSource, SetupStep, WorkerId } from './spec.ts';
import type { View } from './facts.ts';
import { regionOf } from '../catalogue/zones.ts';

// ------------------------------------------------------------------------------------------ steps

/** Workers that answer and have a step before them, each with its first unproven one. Later steps wait for their turn. */
export function unprovenWorkers(view: View): readonly { readonly worker: number; readonly step: SetupStep }[] {
  if (view.attempt?.commandOnly === true) return [];
  return view.workers.flatMap(({ worker, seen }) => {
    if (worker === 'here' || seen === undefined) return [];
    const { proofs } = seen;
    const step = stepsOf(view.job).find(({ key }) => !proofs.includes(key));
    return step === undefined ? [] : [{ worker, step }];
  });
}

/** The steps that should be under way now, side by side, and when the next one that has to wait is due. */
export function stepsDue(
  view: View,
  attempt: Attempt,
): { readonly actions: readonly Action[]; readonly wakeAt: Instant | undefined } {
  const actions: Action[] = [];
  let wakeAt: Instant | undefined;
  for (const { worker, step } of unprovenWorkers(view)) {
    const dueAt = tryAgainAt(view.job, attempt, { kind: 'step', worker, step: step.name });
    if (dueAt > view.now) wakeAt = earliest(wakeAt, dueAt);
    else {
      const { allocation, ordinal } = attempt;
      actions.push({ kind: 'step', allocation, worker, step: step.name, attempt: ordinal });
    }
  }
  return { actions, wakeAt };
}

/** True when no further try follows that failure. */
export function areTriesUsedUp(job: Job, { tries, isFinal }: StepFailure): boolean {
  return isFinal === true || tries >= Math.max(1, job.spec.limits.setupTries);
}

/** When something that failed on a worker may be tried again: after 5 s, doubling to 2 min; the past when it never failed. */
export function tryAgainAt(job: Job, attempt: Attempt, task: WorkerTask): Instant {
  const failure = failureOf(attempt, task);
  if (failure === undefined) return 0;
  const tries = Math.max(1, failure.tries);
  return failure.lastAt + doubling(5 * second, 2 * minute, tries, job.id, attempt.ordinal, taskKey(task));
}

// ------------------------------------------------------------------------------------------ the command

/** Everything a host needs to run the command once. Texts are final: marks are filled in. */
export interface Launch {
  readonly attempt: Attempt;
  readonly script: string;
  readonly env: Readonly<Record<string, string>>;
  /** Variables that only the program may see. Whoever starts it reads their values then, and writes them down nowhere else. */
  readonly secrets?: Readonly<Record<string, SecretSource>>;
  readonly workdir: string | null;
  readonly checkpointDir: string | null;
  /** True when the attempt continues an earlier one: the host then finds JOBMAN_RESUME_FROM in `checkpointDir`. */
  readonly resume: boolean;
  /** The `checkpointOwner` by whose records entries of `checkpointDir` count. Absent: all of them count. */
  readonly checkpointOwner?: string;
  /** The source of JOBMAN_RESUME_FROM while the job has no checkpoint of its own; the host finds the entry. */
  readonly resumeFrom?: ResumeFrom;
  /** The boot in which the worker's setup holds: on any other nothing starts, and the answer is `failed`. Absent: it needs none. */
  readonly bootId?: string;
}

/**
 * The command of that attempt for that worker, with the node's name filled in. Of the words that jobman adds, the
 * host adds JOBMAN_RESUME_FROM itself, since only it can see which checkpoint is complete; what the manifest says about
 * one of them does not count, because the program relies on them. `bootId` is the action's.
 */
export function launchFor(job: Job, attempt: Attempt, worker: WorkerId, bootId?: string): Launch {
  const { command, capacity } = job.spec;
  const allocation = allocationOf(job, attempt.allocation);
  const checkpointDir = withNodeName(checkpointFolder(job, attempt), allocation);
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(command.env)) env[name] = withNodeName(value, allocation);
  return {
    attempt,
    script: withNodeName(command.script, allocation),
    env: {
      ...env,
      JOBMAN_JOB_ID: job.id,
      JOBMAN_ATTEMPT: String(attempt.ordinal),
      JOBMAN_STAGE: String(attempt.stage),
      JOBMAN_WORKER: String(worker),
      JOBMAN_WORKERS: String(commandWorkers(command, allocation.workers ?? 1).length),
      ...(capacity.kind === 'tpu' ? { JOBMAN_NODE_NAME: allocation.name } : {}),
      ...(checkpointDir === null ? {} : { JOBMAN_CHECKPOINT_DIR: checkpointDir }),
    },
    ...(command.secrets === undefined ? {} : { secrets: command.secrets }),
    workdir: withNodeName(command.workdir, allocation),
    checkpointDir,
    resume: attempt.how === 'resume',
    ...(command.checkpoints === 'named' && { checkpointOwner: checkpointOwner(job, attempt) }),
    ...(command.resumeFrom !== undefined && { resumeFrom: command.resumeFrom }),
    ...(bootId !== undefined && { bootId }),
  };
}

/** The step with the node's real name and its region's buckets in its texts. Its key stays, since the proof is named after it. */
export function stepFor(step: SetupStep, allocation: Allocation, job: Pick<Job, 'spec'>): SetupStep {
  const capacity = capacityOf(job, allocation);
  const final = (text: string): string => {
    const named = withNodeName(text, allocation);
    return capacity.kind === 'tpu' ? withBuckets(named, regionOf(capacity.zone)) : named;
  };
  return { ...step, check: step.check === null ? null : final(step.check), apply: final(step.apply) };
}

function withNodeName(text: string, allocation: Allocation): string;
function withNodeName(text: string | null, allocation: Allocation): string | null;
function withNodeName(text: string | null, allocation: Allocation): string | null {
  return text === null ? null : text.replaceAll(nodeNameMark, allocation.name);
}

// ------------------------------------------------------------------------------------------ checkpoints
//
// In jobman's own folders (`000001-k3x9ab`) each start from the beginning has a folder of its own, so every entry counts. A folder
// that the manifest names may already hold entries of another job or of an earlier start. There each worker writes a
// record at a start from the beginning: a file whose first line names the start and its job, followed by the entries that exist
// already. An entry counts if a record of this start does not list it, or if it has changed since. If there is no such
// record, nothing counts. No clocks are compared, because the folder's times are those of a bucket or a worker.
//
// Each worker has a record of its own because a mounted bucket shows a file that another worker has replaced late or not at all.

/** The name of a record in a checkpoint folder, followed by the worker that wrote it. Its first line is a `checkpointOwner`. */
export const checkpointRecord = '.jobman-start.';

/**
 * The checkpoint folder of an attempt, with the placeholder for the node's name; null if the job has none. A later start from
 * the beginning gets the attempt's number as a suffix (`000001-k3x9ab-3`), unless the manifest names the folder.
 */
export function checkpointFolder(job: Job, attempt: Attempt): string | null {
  const { checkpointDir, checkpoints } = job.spec.command;
  const { ordinal } = beginningOf(job, attempt);
  const isFirst = !job.attempts.some((one) => one.ordinal < ordinal && one.startedAt !== null);
  return checkpointDir === null || checkpoints !== 'own' || isFirst ? checkpointDir : `${checkpointDir}-${ordinal}`;
}

/** `<installation>/<job id>/<attempt>`: the newest start from the beginning that this attempt continues, or is. */
export function checkpointOwner(job: Job, attempt: Attempt): string {
  return `${job.installation}/${job.id}/${beginningOf(job, attempt).ordinal}`;
}

function beginningOf(job: Job, attempt: Attempt): Attempt {
  const beginning = job.attempts.findLast(
    ({ ordinal, stage, startedAt }) =>
      ordinal <= attempt.ordinal && stage === 0 && (ordinal === attempt.ordinal || startedAt !== null),
  );
  return beginning ?? attempt;
}
