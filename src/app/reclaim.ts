// Reclaim: TPUs that cost money or count against the quota without use: why, and how a person gives each of them back.

import { quote } from '../catalogue/shell.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';
import type { Actor } from '../core/model/user.ts';
import { generalProblem, roleProblem } from '../core/policy/permissions.ts';
import type { QuotaHolder } from '../reports/quota.ts';
import type { Client } from './client.ts';
import { pause } from './concurrency.ts';
import { capitalize } from './format.ts';
import type { KnownTpu } from './known-tpus.ts';
import type { Orphan } from './ports.ts';
import type { TpuRow } from './tpus.ts';

type ReclaimReason = NonNullable<QuotaHolder['reclaimable']>;

/** Google does not give these back until they are deleted. */
const endedStates = ['PREEMPTED', 'TERMINATED', 'SUSPENDED', 'FAILED'];
/** A kept TPU counts as idle after this time without a command. */
const idleAfter: Duration = 10 * minute;

/** The reason why a TPU can be released; null while it may be in use. */
export function reclaimReason({ owner, nodeState, queuedResourceState, idleMs }: TpuRow): ReclaimReason | null {
  const states = [nodeState, queuedResourceState].filter((state) => state !== null);
  if (states.includes('DELETING')) return null;
  if (states.some((state) => endedStates.includes(state))) return 'ended';
  if (owner.kind === 'orphan') return 'orphan';
  // Only of our own finished jobs: whether people use another TPU over SSH is not known.
  return owner.kind === 'job' && owner.isFinished && idleMs !== null && idleMs >= idleAfter ? 'idle' : null;
}

/** After `is STATE, `. */
export const reclaimPhrases: Readonly<Record<ReclaimReason, string>> = {
  ended: 'but Google still counts it',
  orphan: 'an orphan: no job claims it',
  idle: 'kept by a finished job',
};

/** The command that releases a TPU; null if only its job does that. */
export function releaseCommand({ owner, resource, zone, project, name }: TpuRow): string | null {
  if (owner.kind === 'job') return owner.isFinished ? releaseJobCommand(owner.id) : null;
  const id = quote(resource.slice(resource.lastIndexOf('/') + 1));
  if (owner.kind === 'orphan') return `jobman gc ${id} --yes`;
  if (owner.kind === 'shared') return `tpu delete ${quote(name)}`;
  const location = `--zone ${quote(zone)} --project ${quote(project)}`;
  return resource.includes('/queuedResources/')
    ? `gcloud compute tpus queued-resources delete ${id} ${location} --force`
    : `gcloud compute tpus tpu-vm delete ${id} ${location}`;
}

function releaseJobCommand(id: string): string {
  return `jobman stop ${Number(id)} --release`;
}

/** The orphan that the row shows; none for another TPU. */
export function orphansIn({ owner, label, resource, state }: TpuRow): readonly Orphan[] {
  if (owner.kind !== 'orphan' || label === null) return [];
  return [{ backend: 'tpu', resource, ...label, state }];
}

/** Messages of refusals, with their full stop. */
export const releaseRefusals = {
  shared: (name: string): string => `${name} is a TPU that people share; gc never deletes it.`,
  foreign: (name: string): string => `${name} does not belong to this installation; gc never touches it.`,
};

/**
 * `job`: stopping the job with a release gives the TPU back. `orphan`: see `releaseOrphans`. `none`: jobman does not release it
 * for this actor; the reason is a sentence.
 */
export type TpuRelease = { readonly command: string | null } & (
  | { readonly kind: 'job'; readonly job: string }
  | { readonly kind: 'orphan'; readonly orphan: Orphan }
  | { readonly kind: 'none'; readonly reason: string }
);

/** The way to give the TPU back, and the equal command. Whether the actor may stop a job is not checked here. */
export function releaseOf(tpu: KnownTpu, actor: Actor): TpuRelease {
  const { row, job, name, ownership, use, state } = tpu;
  const none = (reason: string, command: string | null = null): TpuRelease => ({ kind: 'none', reason, command });
  if (state === 'DELETING') return none(`${name} is being deleted.`);
  const command = row === null ? null : releaseCommand(row);
  const [orphan] = row === null ? [] : orphansIn(row);
  if (orphan !== undefined) {
    const problem = generalProblem(actor, 'orphans', 'release TPUs');
    return problem === null ? { kind: 'orphan', orphan, command } : none(`${capitalize(problem)}.`, command);
  }
  if (job !== null && use === 'ended' && !job.isFinished) return none(`Job ${job.id} releases ${name} itself.`);
  if (job !== null && ownership === 'persistent')
    return none(`${name} existed before job ${job.id} and stays after it. The commands of the job end its program.`);
  if (job !== null) {
    const problem = roleProblem(actor, 'stop');
    const stop = releaseJobCommand(job.id);
    return problem === null ? { kind: 'job', job: job.id, command: stop } : none(`${capitalize(problem)}.`, stop);
  }
  return none(releaseRefusals[row?.owner.kind === 'shared' ? 'shared' : 'foreign'](name), command);
}

/** A small TPU disappears within this time, a large one takes minutes. */
const releaseTimeout: Duration = 20 * second;
const pollInterval: Duration = second;

/** `gone`: it is deleted. `releasing`: the cloud deletes it. */
export interface OrphanAnswer<One extends Orphan> {
  readonly orphan: One;
  readonly outcome: 'gone' | 'releasing' | 'failed';
  /** A sentence; without a full stop for a failure. */
  readonly message: string;
}

type OrphanClient = Pick<Client, 'releaseOrphan' | 'observeOrphans' | 'forgetOrphan'>;

/** Releases all of them, and answers for each once it is gone, or after 20 seconds. The signal ends only the waiting. */
export async function* releaseOrphans<One extends Orphan & { readonly presence?: 'present' | 'gone' | 'unknown' }>(
  client: OrphanClient,
  orphans: readonly One[],
  now: () => Instant,
  signal: AbortSignal,
): AsyncGenerator<OrphanAnswer<One>, void> {
  const forget = async (orphan: One): Promise<OrphanAnswer<One>> => {
    await client.forgetOrphan(orphan);
    return { orphan, outcome: 'gone', message: `${orphan.resource} is deleted.` };
  };
  let left: readonly One[] = [];
  for (const orphan of orphans) {
    if (orphan.presence === 'gone') {
      yield await forget(orphan);
      continue;
    }
    const result = await client.releaseOrphan(orphan);
    if (result.kind === 'done') left = [...left, orphan];
    else {
      const message = `${orphan.resource} was not released: ${result.evidence.message}`;
      yield { orphan, outcome: 'failed', message };
    }
  }
  const until = now() + releaseTimeout;
  while (left.length > 0 && !signal.aborted) {
    const seen = await client.observeOrphans(left);
    const isGone = ({ resource }: One) => seen.some((one) => one.resource === resource && one.presence === 'gone');
    for (const orphan of left.filter(isGone)) yield await forget(orphan);
    left = left.filter((orphan) => !isGone(orphan));
    if (left.length === 0 || now() >= until) break;
    await pause(pollInterval, signal);
  }
  for (const orphan of left)
    yield { orphan, outcome: 'releasing', message: `Deleting ${orphan.resource}. Check again: jobman gc` };
}
