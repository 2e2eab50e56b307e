// The look: one or two list calls per zone, however many jobs have something there. A resource is asked for by name only if
// it should be in the lists and is not. An unanswered question makes the fact unknown, never absent.

import type { AllocationRef, Clock } from '../../app/ports.ts';
import { isPermanent } from '../../core/allocate.ts';
import type { CloudError } from '../../core/job.ts';
import { known, unknown, type AllocationSeen, type Fact, type Unknown } from '../../core/observation.ts';
import { minute, type Duration, type Instant } from '../../core/time.ts';
import { fanOut } from '../../app/fan-out.ts';
import {
  idOf,
  type Answer,
  type Listing,
  type Operation,
  type Place,
  type QueuedResource,
  type TpuApi,
  type TpuNode,
} from './api.ts';
import { allocationSeen, asOne, byPlace, creationOf, nodeIds, tpuOf, type Creation, type Target } from './meaning.ts';

/** Single questions under way at once in one zone. */
const questionsAtOnce = 16;
/** A node is made in five minutes at most; one that takes longer is asked about at its create. */
const creatingLongest: Duration = 15 * minute;

const notLooked = 'it was not looked at';

type Listed<T> =
  | { readonly ok: true; readonly items: ReadonlyMap<string, T> }
  | { readonly ok: false; readonly unknown: Unknown };

/** Looks at all of them, zone by zone, side by side. The answer is in the order of the question. */
export async function lookAtAll(
  refs: readonly AllocationRef[],
  options: { readonly apiFor: (project: string) => TpuApi; readonly clock: Clock },
): Promise<readonly Fact<AllocationSeen>[]> {
  const facts = new Map<AllocationRef, Fact<AllocationSeen>>();
  await Promise.all(
    byPlace(refs).map(async ({ place, refs: group }) => {
      const seen = await lookAtPlace(options.apiFor(place.project), place, group, options.clock);
      for (const [index, ref] of group.entries())
        facts.set(ref, seen[index] ?? unknown(notLooked, options.clock.now()));
    }),
  );
  return refs.map((ref) => facts.get(ref) ?? unknown(notLooked, options.clock.now()));
}

async function lookAtPlace(
  api: TpuApi,
  place: Place,
  refs: readonly AllocationRef[],
  clock: Clock,
): Promise<readonly Fact<AllocationSeen>[]> {
  const since = clock.now();
  const isQueueAsked = refs.some((ref) => tpuOf(ref).mode === 'queued-resources');
  // The queue first: a node that appears between the two lists is then seen, and one that goes is seen going.
  const queue: Listed<QueuedResource> = isQueueAsked
    ? listed(await api.listQueuedResources(place), since)
    : { ok: true, items: new Map() };
  const nodes = listed(await api.listNodes(place), since);
  // Asked for at most once a look, and only by an allocation that was accepted and cannot be seen.
  let operations: Promise<Answer<Listing<Operation>>> | undefined;
  const asker: Asker = { api, place, since, operations: () => (operations ??= api.listOperations(place)) };
  return fanOut(refs, questionsAtOnce, async (ref) => {
    if (!nodes.ok) return nodes.unknown;
    const isQueued = tpuOf(ref).mode === 'queued-resources';
    if (isQueued && !queue.ok) return queue.unknown;
    const { name } = ref.allocation;
    const found = nodeIds(ref).map((id) => nodes.items.get(id));
    const node = asOne(found);
    // A standing TPU may be the work of a queued resource with a name of its own.
    const queuedId = ref.allocation.ownership === 'standing' ? idOf(node?.queuedResource ?? name) : name;
    const queued = isQueued && queue.ok ? queue.items.get(queuedId) : undefined;
    return lookAtOne(asker, ref, { found, queued });
  });
}

interface Asker {
  readonly api: TpuApi;
  readonly place: Place;
  readonly since: Instant;
  readonly operations: () => Promise<Answer<Listing<Operation>>>;
}

async function lookAtOne(
  asker: Asker,
  ref: AllocationRef,
  inLists: { readonly found: readonly (TpuNode | undefined)[]; readonly queued: QueuedResource | undefined },
): Promise<Fact<AllocationSeen>> {
  const { since } = asker;
  let node = asOne(inLists.found);
  let { queued } = inLists;
  const isMissing = inLists.found.every((one) => one === undefined) && queued === undefined;
  let creation: Creation | undefined;
  if (isBeingMade(ref) && (isMissing || isLate(ref, node, since))) {
    const operations = await asker.operations();
    if (!operations.ok) return unanswered(operations.error, since);
    creation = creationOf(operations.value.items, targetOf(ref), ref.allocation);
  }
  // Lists may be partial, and "absent" has consequences. A create that is pending or failed is a second witness by itself.
  const isNodeAsked = isMissing ? isAwaited(ref) && creation === undefined : node === undefined && isNodeDue(queued);
  if (isNodeAsked) {
    const found = [...inLists.found];
    for (const [index, id] of nodeIds(ref).entries()) {
      if (found[index] !== undefined) continue;
      const again = await asker.api.getNode(asker.place, id);
      if (again.ok) found[index] = again.value;
      else if (again.status !== 'NOT_FOUND') return unanswered(again.error, since);
    }
    node = asOne(found);
  }
  if (isNodeAsked && isMissing && tpuOf(ref).mode === 'queued-resources') {
    const again = await asker.api.getQueuedResource(asker.place, ref.allocation.name);
    if (again.ok) queued = again.value;
    else if (again.status !== 'NOT_FOUND') return unanswered(again.error, since);
  }
  return known(allocationSeen(ref, { node, queued, creation }), since);
}

function listed<T extends { readonly name: string }>(answer: Answer<Listing<T>>, since: Instant): Listed<T> {
  if (!answer.ok) return { ok: false, unknown: unanswered(answer.error, since) };
  const { items, unreachable } = answer.value;
  if (unreachable.length > 0) {
    const reason = `the list is not whole: ${unreachable.join(', ')} could not be asked`;
    return { ok: false, unknown: unknown(reason, since) };
  }
  return { ok: true, items: new Map(items.map((item) => [idOf(item.name), item])) };
}

/** A refusal travels in the unknown fact: what the cloud does not show is not absent. */
function unanswered({ kind, raw, noLogin }: CloudError, since: Instant): Unknown {
  const refused = isPermanent(kind) && { refused: kind };
  return { ...unknown(raw, since), ...refused, ...(noLogin === true && { noLogin }) };
}

/**
 * True while its absence would mean something: somebody has confirmed a request or release, or it was there before.
 * An unconfirmed request is repeated in any case, and that finds what the list missed.
 */
function isAwaited({ allocation }: AllocationRef): boolean {
  if (allocation.requestedAt === null || allocation.goneAt !== null) return false;
  return allocation.acceptedAt !== null || allocation.ownership === 'standing';
}

function isBeingMade({ allocation }: AllocationRef): boolean {
  return allocation.acceptedAt !== null && allocation.readyAt === null && allocation.releasedAt === null;
}

function isLate({ allocation }: AllocationRef, node: TpuNode | undefined, now: Instant): boolean {
  return node?.state === 'CREATING' && now - (allocation.acceptedAt ?? now) > creatingLongest;
}

function isNodeDue(queued: QueuedResource | undefined): boolean {
  return queued?.state?.state === 'ACTIVE';
}

function targetOf(ref: AllocationRef): Target {
  return tpuOf(ref).mode === 'tpu-vm' ? `nodes/${ref.allocation.name}` : `queuedResources/${ref.allocation.name}`;
}
