// Launch: the values with which a command or a setup step starts on a worker, and the checkpoint folder of an attempt.

import { allocationOf, capacityOf, commandWorkers, type Allocation, type Attempt, type Job } from '../model/job.ts';
import { nodeNamePlaceholder, withBuckets } from '../model/spec.ts';
import type { CommandSpec, ResumeFrom, SecretRef, SetupStep, WorkerId } from '../model/spec.ts';
import { regionOf } from '../../catalogue/zones.ts';

/** The input of a host for one run of the command, without placeholders. */
export interface Launch {
  readonly attempt: Attempt;
  readonly script: string;
  readonly env: Readonly<Record<string, string>>;
  /** Variables that only the program may see. The host reads their values at the start and stores them nowhere else. */
  readonly secrets?: Readonly<Record<string, SecretRef>>;
  readonly workdir: string | null;
  readonly checkpointDir: string | null;
  /** The attempt continues an earlier one: the host finds JOBMAN_RESUME_FROM in `checkpointDir`. */
  readonly resume: boolean;
  /** The `checkpointOwner` whose records decide which entries of `checkpointDir` count. Absent: all entries count. */
  readonly checkpointOwner?: string;
  /** Source of JOBMAN_RESUME_FROM while the job has not written a checkpoint. The host finds the entry. */
  readonly resumeFrom?: ResumeFrom;
  /** The boot in which the worker was set up. In another boot the start fails. Absent: any boot. */
  readonly bootId?: string;
}

/**
 * The command of that attempt for that worker, with the node's name filled in. jobman's own variables override those of
 * the manifest, because the program relies on them. The host adds JOBMAN_RESUME_FROM, because only the host can see
 * which checkpoint is complete. `bootId` is that of the action.
 */
export function launchOf(job: Job, attempt: Attempt, worker: WorkerId, bootId?: string): Launch {
  const { command, capacity } = job.spec;
  const allocation = allocationOf(job, attempt.allocation);
  const checkpointDir = withNodeName(checkpointFolder(job, attempt), allocation);
  const gpus = worker === 'controller' ? undefined : allocation.slots?.[worker]?.gpus;
  // The owner's own value wins.
  const env: Record<string, string> = gpus === undefined ? {} : { [gpuVariable]: gpus.join(',') };
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
      ...(capacity.kind === 'tpu' && { JOBMAN_NODE_NAME: allocation.name }),
      ...addressVariables(command, allocation),
      ...(checkpointDir === null ? {} : { JOBMAN_CHECKPOINT_DIR: checkpointDir }),
    },
    ...(command.secrets === undefined ? {} : { secrets: command.secrets }),
    workdir: withNodeName(command.workdir, allocation),
    checkpointDir,
    resume: attempt.startMode === 'resume',
    ...(command.checkpoints === 'named' && { checkpointOwner: checkpointOwner(job, attempt) }),
    ...(command.resumeFrom !== undefined && { resumeFrom: command.resumeFrom }),
    ...(bootId !== undefined && { bootId }),
  };
}

/** The GPUs that CUDA shows to a program: those of the job's slot, if its host declares GPUs. */
const gpuVariable = 'CUDA_VISIBLE_DEVICES';

/** The port that JAX uses for its coordinator on Cloud TPU. */
const coordinatorPort = 8476;

/** Internal addresses of the workers that run the command, in their order; none if one is unknown. */
function addressVariables(command: CommandSpec, { hosts, workers }: Allocation): Readonly<Record<string, string>> {
  const addresses = commandWorkers(command, workers ?? 1).map((worker) =>
    worker === 'controller' ? null : (hosts?.[worker]?.internalIp ?? null),
  );
  const [first] = addresses;
  if (first === undefined || first === null || addresses.includes(null)) return {};
  return {
    JOBMAN_WORKER_HOSTS: addresses.join(','),
    JOBMAN_COORDINATOR_ADDRESS: `${first.includes(':') ? `[${first}]` : first}:${coordinatorPort}`,
  };
}

/** The step with the node's name and its region's buckets. The key stays the same, because the proof has that name. */
export function resolvedStep(step: SetupStep, allocation: Allocation, job: Pick<Job, 'spec'>): SetupStep {
  const capacity = capacityOf(job, allocation);
  const resolve = (text: string): string => {
    const named = withNodeName(text, allocation);
    return capacity.kind === 'tpu' ? withBuckets(named, regionOf(capacity.zone)) : named;
  };
  return { ...step, check: step.check === null ? null : resolve(step.check), apply: resolve(step.apply) };
}

function withNodeName(text: string, allocation: Allocation): string;
function withNodeName(text: string | null, allocation: Allocation): string | null;
function withNodeName(text: string | null, allocation: Allocation): string | null {
  return text === null ? null : text.replaceAll(nodeNamePlaceholder, allocation.name);
}

// ------------------------------------------------------------------------------------------ checkpoints
//
// In jobman's own folders (`000001-k3x9ab`) each start from the beginning has its own folder, so every entry
// counts. A folder that the manifest names may already contain entries of another job or of an earlier start. There
// each worker writes a record at a start from the beginning: a file whose first line names the start and its job,
// followed by the entries that exist already. An entry counts if a record of this start does not list it, or if it has
// changed since. Without such a record, nothing counts. No clocks are compared, because the times in the folder are
// those of a bucket or a worker.
//
// Each worker has its own record, because a mounted bucket shows a file that another worker replaced late or never.

/** Prefix of a record in a checkpoint folder; the writing worker follows. Its first line is a `checkpointOwner`. */
export const checkpointRecord = '.jobman-start.';

/**
 * The checkpoint folder of an attempt, with the placeholder for the node's name. Null if the job has none. A later
 * start from the beginning adds its ordinal (`000001-k3x9ab-3`), unless the manifest names the folder.
 */
export function checkpointFolder(job: Job, attempt: Attempt): string | null {
  const { checkpointDir, checkpoints } = job.spec.command;
  const { ordinal } = freshStartOf(job, attempt);
  const isFirst = !job.attempts.some((one) => one.ordinal < ordinal && one.startedAt !== null);
  return checkpointDir === null || checkpoints !== 'own' || isFirst ? checkpointDir : `${checkpointDir}-${ordinal}`;
}

/** `<installation>/<job id>/<attempt>`: the newest start from the beginning that this attempt is or continues. */
export function checkpointOwner(job: Job, attempt: Attempt): string {
  return `${job.installation}/${job.id}/${freshStartOf(job, attempt).ordinal}`;
}

/** The newest start from the beginning up to this attempt. An earlier one counts only if its command has started. */
function freshStartOf(job: Job, attempt: Attempt): Attempt {
  const beginning = job.attempts.findLast(
    ({ ordinal, stage, startedAt }) =>
      ordinal <= attempt.ordinal && stage === 0 && (ordinal === attempt.ordinal || startedAt !== null),
  );
  return beginning ?? attempt;
}
