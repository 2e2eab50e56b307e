// Checkpoint use: which other jobs use a checkpoint folder, and where the checkpoint is that a job is to begin from.

import { checkpointFolder } from '../core/checkpoints.ts';
import type { Job } from '../core/job.ts';
import { phaseOf } from '../core/phase.ts';
import type { JobSpec } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { Beyond } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import type { Store } from './ports.ts';
import { unfinishedOthers } from './in-use.ts';
import { resolve } from './refs.ts';

/**
 * The question before a job begins in a checkpoint folder that another unfinished job uses, while neither shares it on purpose.
 * Null when there is none. `job` is the job that is to run again; null for one that is to be created.
 */
export async function checkpointsInUse(
  store: Pick<Store, 'list'>,
  spec: JobSpec,
  job: Job | null,
): Promise<Beyond | null> {
  if (spec.command.checkpoints !== 'named') return null;
  const [other] = await usersOf(store, spec, job);
  if (other === undefined) return null;
  return {
    sentence: `job ${other.id} (${other.spec.name}) of ${other.owner}, which is ${phaseOf(other)}, keeps its checkpoints in the same folder (${spec.command.checkpointDir}), so each job could overwrite the checkpoints of the other`,
    cost: null,
    remedy: 'Give the job another name or folder, or share the folder on purpose with job.checkpoint_shared: true.',
  };
}

/** The warning about a folder that is shared on purpose, while another unfinished job uses it; null when none does. */
export async function sharedCheckpoints(store: Pick<Store, 'list'>, spec: JobSpec): Promise<string | null> {
  if (spec.command.checkpoints !== 'shared') return null;
  const others = await usersOf(store, spec, null);
  if (others.length === 0) return null;
  const named = others.slice(0, 3).map((one) => `job ${one.id} (${one.spec.name}), which is ${phaseOf(one)}`);
  const more = others.length > named.length ? ` and ${others.length - named.length} more` : '';
  return `the checkpoint folder ${spec.command.checkpointDir} is also used by ${named.join(', ')}${more}: each job may resume from a checkpoint of another (job.checkpoint_shared)`;
}

async function usersOf(store: Pick<Store, 'list'>, spec: JobSpec, job: Job | null): Promise<readonly Job[]> {
  const { checkpointStorage: storage } = spec.command;
  if (storage === undefined) return [];
  return unfinishedOthers(store, job, (other) => other.command.checkpointStorage === storage);
}

/** The spec with the folder of the job that `job.resume_from` names. Throws when there is no such job, or it has no folder. */
export async function withResumeFrom(store: Store, spec: JobSpec, owner: string, now: Instant): Promise<JobSpec> {
  const { resumeFrom } = spec.command;
  if (resumeFrom?.kind !== 'job') return spec;
  const { job: source } = await resolve(store, resumeFrom.job, owner, now);
  const it = `job ${source.id} (${source.spec.name})`;
  const newest = source.attempts.findLast(({ startedAt }) => startedAt !== null);
  const path = newest === undefined ? source.spec.command.checkpointDir : checkpointFolder(source, newest);
  if (path === null)
    throw new JobmanError(
      `The job cannot begin from ${it}, whose manifest names no job.checkpoint_dir. Name a path as job.resume_from.`,
      exitCode.usage,
    );
  if (isOnThisMachine(source.spec) !== isOnThisMachine(spec) && !path.includes('://'))
    throw new JobmanError(
      `The job cannot begin from ${it}: its checkpoints are ${isOnThisMachine(source.spec) ? 'on this machine' : 'on TPU workers'}. Copy them and name the path as job.resume_from.`,
      exitCode.usage,
    );
  return { ...spec, command: { ...spec.command, resumeFrom: { kind: 'folder', path, job: source.id } } };
}

function isOnThisMachine({ capacity, command }: JobSpec): boolean {
  return capacity.kind === 'local' || command.place === 'here';
}
