// Letting go: deletes what is this allocation's, and nothing else. What is there is read first, so that the labels speak
// and not the name. A release is never given up: whatever was refused is asked again, since settled means empty.

import type { AllocationRef, Stray } from '../../app/ports.ts';
import type { OutcomeResult } from '../../core/observation.ts';
import { idOf } from './api.ts';
import type { Operation, Place, QueuedResource, TpuApi, TpuNode } from './api.ts';
import type { Answer } from './call.ts';
import { isNotThere } from './errors.ts';
import { isAnother } from './meaning.ts';
import { done, failed, outcomeOf, refused, refusedBy } from './outcomes.ts';
import { isSameOwner, nodeOwner, ownerOf, queuedOwner } from './ownership.ts';
import type { Owner } from './ownership.ts';
import { nodeIds, placeOf, tpuOf } from './places.ts';

/** Lets an allocation go. `done` means that the cloud has taken the order, or that nothing of ours is there. */
export function releaseAllocation(api: TpuApi, ref: AllocationRef): Promise<OutcomeResult> {
  if (ref.allocation.ownership === 'standing') return releaseStanding(api, ref);
  const what = { id: ref.allocation.name, nodeIds: nodeIds(ref), isQueued: tpuOf(ref).mode === 'queued-resources' };
  return releaseOwned(api, placeOf(ref), what, ownerOf(ref));
}

/** Lets go of what a sweep found. */
export async function releaseFound(apiFor: (project: string) => TpuApi, stray: Stray): Promise<OutcomeResult> {
  const [, project, zone, collection, id] =
    /^projects\/([^/]+)\/locations\/([^/]+)\/(nodes|queuedResources)\/([^/]+)$/.exec(stray.resource) ?? [];
  if (project === undefined || zone === undefined || id === undefined) {
    const message = `${stray.resource} is not the name of a node or a queued resource`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  const owner: Owner = { installation: stray.installation, job: stray.job, allocation: stray.allocation };
  const what = { id, nodeIds: [id], isQueued: collection === 'queuedResources' };
  return releaseOwned(apiFor(project), { project, zone }, what, owner);
}

async function releaseOwned(
  api: TpuApi,
  place: Place,
  {
    id,
    nodeIds: ids,
    isQueued,
  }: { readonly id: string; readonly nodeIds: readonly string[]; readonly isQueued: boolean },
  owner: Owner,
): Promise<OutcomeResult> {
  if (isQueued) {
    const queued = await api.getQueuedResource(place, id);
    if (queued.ok && isSameOwner(queuedOwner(queued.value), owner)) return deleteQueued(api, place, queued.value);
    if (!queued.ok && !isNotThere(queued)) return failed(queued.error);
  }
  // Of a multislice whose queued resource has gone there may be one node left, or several.
  for (const nodeId of ids) {
    const node = await api.getNode(place, nodeId);
    if (!node.ok && !isNotThere(node)) return failed(node.error);
    if (!node.ok || !isSameOwner(nodeOwner(node.value), owner)) continue;
    const deleted = await deleteNode(api, place, node.value);
    if (deleted.kind !== 'done') return deleted;
  }
  return done;
}

/**
 * A standing TPU belongs to all who use it. It is deleted in one case only: the job's own rules say that a new one is to
 * be made (a re-apply), and the record has committed to that. Even then not when somebody has made it anew since, and
 * not when it is the owned allocation of some job.
 */
async function releaseStanding(api: TpuApi, ref: AllocationRef): Promise<OutcomeResult> {
  const { job, allocation } = ref;
  const isReapplied = job.spec.recovery.rules.some(({ answer }) => answer.on === 'new');
  if (!isReapplied || allocation.releasedAt === null) {
    const message = `${allocation.name} is a standing TPU, and no rule of this job says that it may be made anew`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  const place = placeOf(ref);
  const node = await api.getNode(place, allocation.name);
  if (!node.ok) return node.status === 'NOT_FOUND' ? done : failed(node.error);
  if (nodeOwner(node.value) !== undefined) {
    const message = `${allocation.name} was made by a jobman for one job and is no standing TPU; it is left alone`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  // It is the next one already: another than the job had, or made after it was to go.
  if (isAnother(allocation, node.value)) return done;
  if (Date.parse(node.value.createTime ?? '') > allocation.releasedAt) return done;
  const queuedId = idOf(node.value.queuedResource ?? '');
  if (queuedId === '') return deleteNode(api, place, node.value);
  const queued = await api.getQueuedResource(place, queuedId);
  if (!queued.ok) return queued.status === 'NOT_FOUND' ? deleteNode(api, place, node.value) : failed(queued.error);
  if ((queued.value.tpu?.nodeSpec?.length ?? 0) > 1) {
    const message = `${allocation.name} is one of several TPUs of the queued resource ${queuedId}, which would all go with it`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  return deleteQueued(api, place, queued.value);
}

/**
 * With force its nodes go first. While it is being provisioned the cloud takes the order and gives it up two seconds later,
 * in the operation; a look then finds it as before, and it is asked again.
 */
async function deleteQueued(api: TpuApi, place: Place, queued: QueuedResource): Promise<OutcomeResult> {
  if (queued.state?.state === 'DELETING') return done;
  return deletion(await api.deleteQueuedResource(place, idOf(queued.name)));
}

async function deleteNode(api: TpuApi, place: Place, node: TpuNode): Promise<OutcomeResult> {
  if (node.state === 'DELETING') return done;
  return deletion(await api.deleteNode(place, idOf(node.name)));
}

function deletion(answer: Answer<Operation>): OutcomeResult {
  if (!answer.ok && answer.status === 'NOT_FOUND') return done;
  const outcome = answer.ok && answer.value.error !== undefined ? refusedBy(answer.value.error) : outcomeOf(answer);
  return outcome.kind === 'refused' ? { ...outcome, kind: 'failed' } : outcome;
}
