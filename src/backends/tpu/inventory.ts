// Inventory: every node and queued resource of a project, whoever made them, for people. One list of each for all zones at
// once (the location `-`); zone by zone only where a server refuses that.

import { fanOut } from '../../app/fan-out.ts';
import type { AllocationRef, Clock, Stray } from '../../app/ports.ts';
import type { TpuMissed, TpuScope, TpuSeen } from '../../app/tpus.ts';
import { known, unknown, type Fact } from '../../core/observation.ts';
import { idOf, type Place, type QueuedResource, type TpuApi, type TpuNode } from './api.ts';
import { byPlace, nodeOwner, queuedOwner, sharedMaker, type Owner } from './meaning.ts';

const everywhere = '-';
const zonesAtOnce = 8;

type Found = { readonly tpus: readonly TpuSeen[]; readonly missed: readonly TpuMissed[] };

/** All that is in the place; what could not be asked is in `missed`. Never throws for what the cloud does. */
export async function listTpus(api: TpuApi, { project, zones }: TpuScope): Promise<Found> {
  const [only] = zones ?? [];
  if (only !== undefined && zones?.length === 1) return (await listZone(api, project, only)).found;
  const whole = await listZone(api, project, everywhere);
  if (whole.mayAskEach && zones !== null) {
    const each = await fanOut(zones, zonesAtOnce, async (zone) => (await listZone(api, project, zone)).found);
    return { tpus: each.flatMap(({ tpus }) => tpus), missed: each.flatMap(({ missed }) => missed) };
  }
  if (zones === null) return whole.found;
  const isNamed = (zone: string | null) => zone === null || zones.includes(zone);
  return {
    tpus: whole.found.tpus.filter(({ zone }) => isNamed(zone)),
    missed: whole.found.missed.filter(({ zone }) => isNamed(zone)),
  };
}

/** `mayAskEach`: the question as such was refused, so that another one may be answered. */
async function listZone(
  api: TpuApi,
  project: string,
  zone: string,
): Promise<{ readonly found: Found; readonly mayAskEach: boolean }> {
  const place = { project, zone };
  const [nodes, queue] = await Promise.all([api.listNodes(place), api.listQueuedResources(place)]);
  const told = zone === everywhere ? null : zone;
  if (!nodes.ok || !queue.ok) {
    const { error } = nodes.ok ? (queue as Extract<typeof queue, { readonly ok: false }>) : nodes;
    // Half of it would read as a zone without the other half.
    const missed = [{ project, zone: told, says: error.raw, asleep: false }];
    return { found: { tpus: [], missed }, mayAskEach: error.kind !== 'unreachable' };
  }
  const silent = new Set([...nodes.value.unreachable, ...queue.value.unreachable].map(idOf));
  return {
    found: {
      tpus: together(nodes.value.items, queue.value.items),
      missed: [...silent].toSorted().map((one) => ({
        project,
        zone: one,
        says: 'the cloud could not ask this zone',
        asleep: false,
      })),
    },
    mayAskEach: false,
  };
}

/** A node with the queued resource that made it is one thing; a queued resource without nodes stands for those to come. */
function together(nodes: readonly TpuNode[], queue: readonly QueuedResource[]): readonly TpuSeen[] {
  const byName = new Map(queue.map((item) => [item.name, item]));
  const made = new Set(nodes.map(({ queuedResource }) => queuedResource));
  return [
    ...nodes.map((node) => seenOf(node, byName.get(node.queuedResource ?? ''))),
    ...queue.filter(({ name }) => !made.has(name)).map((item) => seenOf(undefined, item)),
  ];
}

function seenOf(node: TpuNode | undefined, queued: QueuedResource | undefined): TpuSeen {
  const whole = node?.name ?? queued?.name ?? '';
  const [, project = '', , zone = ''] = whole.split('/');
  const asked = queued?.tpu?.nodeSpec?.[0]?.node;
  const shape = node ?? asked ?? {};
  const queuedLabel = queuedOwner(queued);
  const { acceleratorType, acceleratorConfig } = shape;
  const config =
    acceleratorConfig === undefined ? [] : [acceleratorConfig.type ?? '', acceleratorConfig.topology ?? ''];
  return {
    project,
    zone,
    name: idOf(whole),
    // A node goes with its queued resource, which would otherwise stay behind; somebody else's stays as it is.
    resource: queuedLabel === undefined ? whole : (queued?.name ?? whole),
    node: node === undefined ? null : (node.state ?? 'STATE_UNSPECIFIED'),
    queued: queued === undefined ? null : (queued.state?.state ?? 'STATE_UNSPECIFIED'),
    type: acceleratorType ?? (config.length === 0 ? null : config.join(' ').trim()),
    pricing: pricingOf(node, queued),
    label: nodeOwner(node) ?? queuedLabel ?? null,
    sharedBy: sharedMaker(node ?? asked) ?? null,
    owner: shape.metadata?.['owner'] ?? null,
    createdAt: momentOf(node?.createTime ?? queued?.createTime),
  };
}

function pricingOf(node: TpuNode | undefined, queued: QueuedResource | undefined): TpuSeen['pricing'] {
  const { spot, preemptible, reserved } = node?.schedulingConfig ?? {};
  if (queued?.spot !== undefined || spot === true) return 'spot';
  if (queued?.bestEffort !== undefined || preemptible === true) return 'preemptible';
  return queued?.guaranteed?.reserved === true || reserved === true ? 'reserved' : 'ondemand';
}

function momentOf(text: string | undefined): number | null {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) ? null : at;
}

/** The place of these allocations; of several, each is asked once, and any that could not be asked makes all unknown. */
export async function sweepPlaces(
  refs: readonly AllocationRef[],
  options: { readonly apiFor: (project: string) => TpuApi; readonly clock: Clock },
): Promise<Fact<readonly Stray[]>> {
  const since = options.clock.now();
  const answers = await Promise.all(
    byPlace(refs).map(({ place, refs: group }) => {
      const installations = new Set(group.map(({ job }) => job.installation));
      return sweepPlace(options.apiFor(place.project), place, installations);
    }),
  );
  const strays: Stray[] = [];
  for (const answer of answers) {
    if (typeof answer === 'string') return unknown(answer, since);
    strays.push(...answer);
  }
  return known(strays, since);
}

async function sweepPlace(
  api: TpuApi,
  place: Place,
  installations: ReadonlySet<string>,
): Promise<readonly Stray[] | string> {
  // Nodes first: the queued resource of any of them is then in the second list, unless it has gone.
  const nodes = await api.listNodes(place);
  if (!nodes.ok) return nodes.error.raw;
  const queue = await api.listQueuedResources(place);
  if (!queue.ok) return queue.error.raw;
  const unreachable = [...nodes.value.unreachable, ...queue.value.unreachable];
  if (unreachable.length > 0) return `the list is not whole: ${unreachable.join(', ')} could not be asked`;

  const isOurs = (owner: Owner | undefined): owner is Owner =>
    owner !== undefined && installations.has(owner.installation);
  const queued = queue.value.items.filter((item) => isOurs(queuedOwner(item)));
  // A node goes with its queued resource, which is listed instead of it; one whose queued resource has gone stands alone.
  const queuedNames = new Set(queued.map(({ name }) => name));
  const alone = nodes.value.items.filter(
    (node) => isOurs(nodeOwner(node)) && !queuedNames.has(node.queuedResource ?? ''),
  );
  return [
    ...queued.flatMap((item) => strayOf(item.name, queuedOwner(item), item.state?.state)),
    ...alone.flatMap((node) => strayOf(node.name, nodeOwner(node), node.state)),
  ];
}

function strayOf(resource: string, owner: Owner | undefined, state = 'STATE_UNSPECIFIED'): readonly Stray[] {
  return owner === undefined ? [] : [{ backend: 'tpu', resource, ...owner, state }];
}
