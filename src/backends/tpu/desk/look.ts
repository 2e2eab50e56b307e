// A look at one TPU by its name, wherever it is. What could not be asked is unknown, and unknown is never absent.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import type { Place, QueuedResource, TpuApi, TpuNode } from '../api.ts';
import { isNotThere } from '../errors.ts';
import { nodeOwner, queuedOwner } from '../ownership.ts';

export type NodeLook =
  | { readonly kind: 'there'; readonly place: Place; readonly node: TpuNode }
  /** There is no node; perhaps a place in Google's queue of that name. `place` is null where several zones were asked. */
  | { readonly kind: 'absent'; readonly place: Place | null; readonly queued: QueuedResource | null }
  | { readonly kind: 'unknown'; readonly says: string };

/** Asks every one of those zones side by side; the first that has a node of that name is where it is. */
export async function lookForNode(
  api: TpuApi,
  name: string,
  { project, zones }: { readonly project: string; readonly zones: readonly string[] },
): Promise<NodeLook> {
  const looks = await Promise.all(zones.map((zone) => lookIn(api, { project, zone }, name)));
  const there = looks.find(({ kind }) => kind === 'there');
  if (there !== undefined) return there;
  const unknown = looks.find(({ kind }) => kind === 'unknown');
  if (unknown !== undefined) return unknown;
  const queued = looks.find((look) => look.kind === 'absent' && look.queued !== null);
  if (queued !== undefined) return queued;
  return looks.length === 1 && looks[0] !== undefined ? looks[0] : { kind: 'absent', place: null, queued: null };
}

async function lookIn(api: TpuApi, place: Place, name: string): Promise<NodeLook> {
  const node = await api.getNode(place, name);
  if (node.ok) return { kind: 'there', place, node: node.value };
  if (!isNotThere(node)) return { kind: 'unknown', says: node.error.raw };
  const queued = await api.getQueuedResource(place, name);
  if (queued.ok) return { kind: 'absent', place, queued: queued.value };
  if (!isNotThere(queued)) return { kind: 'unknown', says: queued.error.raw };
  return { kind: 'absent', place, queued: null };
}

/** Google's word for the state, in small letters. */
export function stateWord(look: Exclude<NodeLook, { readonly kind: 'unknown' }>): string {
  if (look.kind === 'there') return (look.node.state ?? 'STATE_UNSPECIFIED').toLowerCase();
  return look.queued === null ? 'absent' : (look.queued.state?.state ?? 'STATE_UNSPECIFIED').toLowerCase();
}

/** Nobody knows how it is, so nothing is changed. */
export function cannotTell({ name }: Pick<LabTpu, 'name'>, says: string): JobmanError {
  return new JobmanError(`How ${name} is cannot be told now; nothing was changed.`, exitCode.unreachable, [says]);
}

/** Throws for a TPU that jobman made for one job: it belongs to that job, also where the registry names it. */
export function refuseOfOneJob({ name }: LabTpu, look: Exclude<NodeLook, { readonly kind: 'unknown' }>): void {
  const owner = look.kind === 'there' ? nodeOwner(look.node) : queuedOwner(look.queued ?? undefined);
  if (owner === undefined) return;
  throw new JobmanError(
    `${name} was made by jobman for job ${owner.job} alone and goes with it; it is no TPU of the lab. Nothing was changed.`,
    exitCode.conflict,
    [`jobman cancel ${Number(owner.job)}    ends that job and releases its TPU`],
  );
}
