// Lists all nodes and queued resources of a project. One call covers all zones (location `-`), unless a server refuses
// that.

import { mapConcurrent } from '../../app/concurrency.ts';
import type { AllocationRef, Clock, Orphan } from '../../app/ports.ts';
import { explainRefusal } from '../../app/refusal.ts';
import type { ShownTpu } from '../../core/model/spec.ts';
import type { UncheckedLocation, TpuScope, ObservedTpu } from '../../app/tpus.ts';
import { known, unknown, type Observed } from '../../core/model/observation.ts';
import type { SliceState } from '../../core/model/ready-periods.ts';
import { parseInstant } from '../../core/model/time.ts';
import {
  resourceId,
  unreachableText,
  unreadableText,
  type Location,
  type QueuedResource,
  type TpuApi,
  type TpuNode,
} from './api.ts';
import {
  groupByLocation,
  nodeOwner,
  queuedOwner,
  sharedTpuInstallation,
  sliceState,
  type ResourceOwner,
} from './resources.ts';

const allZones = '-';
const maxConcurrentZones = 8;
const needed = { permission: 'tpu.nodes.list', role: 'roles/tpu.viewer' };

type Inventory = { readonly tpus: readonly ObservedTpu[]; readonly unchecked: readonly UncheckedLocation[] };

/** The TPUs in a scope; zones that could not be checked are in `unchecked`. Never throws for failures of the cloud. */
export async function listTpus(api: TpuApi, { project, zones }: TpuScope): Promise<Inventory> {
  const [only] = zones ?? [];
  if (only !== undefined && zones?.length === 1) return (await listZone(api, project, only)).found;
  const all = await listZone(api, project, allZones);
  if (all.canListEachZone && zones !== null) {
    const each = await mapConcurrent(
      zones,
      maxConcurrentZones,
      async (zone) => (await listZone(api, project, zone)).found,
    );
    return { tpus: each.flatMap(({ tpus }) => tpus), unchecked: each.flatMap(({ unchecked }) => unchecked) };
  }
  if (zones === null) return all.found;
  const isNamed = (zone: string | null) => zone === null || zones.includes(zone);
  return {
    tpus: all.found.tpus.filter(({ zone }) => isNamed(zone)),
    unchecked: all.found.unchecked.filter(({ zone }) => isNamed(zone)),
  };
}

/** `canListEachZone`: the call was refused, so that calls for single zones may succeed. */
async function listZone(
  api: TpuApi,
  project: string,
  zone: string,
): Promise<{ readonly found: Inventory; readonly canListEachZone: boolean }> {
  const location = { project, zone };
  const [nodes, queue] = await Promise.all([api.listNodes(location), api.listQueuedResources(location)]);
  const reportedZone = zone === allZones ? null : zone;
  if (!nodes.ok || !queue.ok) {
    const { error } = nodes.ok ? (queue as Extract<typeof queue, { readonly ok: false }>) : nodes;
    // One of the two lists alone would be misleading.
    const { message, fix } = explainRefusal(error, { project, service: 'tpu.googleapis.com', needed });
    const gap = { project, zone: reportedZone, message, isEmulatorStopped: false };
    const unchecked = [fix === null ? gap : { ...gap, fix }];
    return { found: { tpus: [], unchecked }, canListEachZone: error.kind !== 'unreachable' };
  }
  const unreachableZones = new Set([...nodes.value.unreachable, ...queue.value.unreachable].map(resourceId));
  const unreadable = Map.groupBy(
    [...nodes.value.unreadable, ...queue.value.unreadable],
    (name) => zoneOf(name) ?? zone,
  );
  return {
    found: {
      tpus: joinQueuedResources(nodes.value.items, queue.value.items),
      unchecked: [
        ...[...unreachableZones].toSorted().map((one) => ({ zone: one, message: 'Google could not reach this zone' })),
        ...[...unreadable].map(([one, names]) => ({
          zone: one === allZones ? null : one,
          message: `${unreadableText(names)} and is not shown`,
        })),
      ].map((one) => ({ ...one, project, isEmulatorStopped: false })),
    },
    canListEachZone: false,
  };
}

/** The zone in the full name of a resource. */
function zoneOf(name: string): string | undefined {
  return /^projects\/[^/]+\/locations\/([^/]+)\//.exec(name)?.[1];
}

/** A queued resource without nodes is an entry of its own. */
function joinQueuedResources(nodes: readonly TpuNode[], queue: readonly QueuedResource[]): readonly ObservedTpu[] {
  const byName = new Map(queue.map((item) => [item.name, item]));
  const queuedNames = new Set(nodes.map(({ queuedResource }) => queuedResource));
  return [
    ...nodes.map((node) => describeTpu(node, byName.get(node.queuedResource ?? ''))),
    ...queue.filter(({ name }) => !queuedNames.has(name)).map((item) => describeTpu(undefined, item)),
  ];
}

function describeTpu(node: TpuNode | undefined, queued: QueuedResource | undefined): ObservedTpu {
  const resourceName = node?.name ?? queued?.name ?? '';
  const [, project = '', , zone = ''] = resourceName.split('/');
  const requestedNode = queued?.tpu?.nodeSpec?.[0]?.node;
  const shape = node ?? requestedNode ?? {};
  const queuedLabel = queuedOwner(queued);
  const { acceleratorType, acceleratorConfig } = shape;
  const config =
    acceleratorConfig === undefined ? [] : [acceleratorConfig.type ?? '', acceleratorConfig.topology ?? ''];
  return {
    project,
    zone,
    name: resourceId(resourceName),
    // Deleting our queued resource deletes its node; deleting the node would leave it behind. Foreign ones stay.
    resource: queuedLabel === undefined ? resourceName : (queued?.name ?? resourceName),
    nodeState: node === undefined ? null : (node.state ?? 'STATE_UNSPECIFIED'),
    queuedResourceState: queued === undefined ? null : (queued.state?.state ?? 'STATE_UNSPECIFIED'),
    accelerator: acceleratorType ?? (config.length === 0 ? null : config.join(' ').trim()),
    pricing: pricingOf(node, queued),
    // The reply has one entry for each node of a multislice.
    nodeCount: node === undefined ? Math.max(1, queued?.tpu?.nodeSpec?.length ?? 1) : 1,
    label: nodeOwner(node) ?? queuedLabel ?? null,
    sharedByInstallation: sharedTpuInstallation(node ?? requestedNode) ?? null,
    metadataOwner: shape.metadata?.['owner'] ?? null,
    createdAt: parseInstant(node?.createTime ?? queued?.createTime),
  };
}

function pricingOf(node: TpuNode | undefined, queued: QueuedResource | undefined): ObservedTpu['pricing'] {
  const { spot, preemptible, reserved } = node?.schedulingConfig ?? {};
  if (queued?.spot !== undefined || spot === true) return 'spot';
  if (queued?.bestEffort !== undefined || preemptible === true) return 'preemptible';
  return queued?.guaranteed?.reserved === true || reserved === true ? 'reserved' : 'ondemand';
}

/** Resources of these installations in the locations of `refs`. One failed location makes the result unknown. */
export async function findOrphans(
  refs: readonly AllocationRef[],
  options: { readonly apiFor: (project: string) => TpuApi; readonly clock: Clock },
): Promise<Observed<readonly Orphan[]>> {
  const since = options.clock.now();
  const answers = await Promise.all(
    groupByLocation(refs).map(({ location, refs: group }) => {
      const installations = new Set(group.map(({ job }) => job.installation));
      return findOrphansAt(options.apiFor(location.project), location, installations);
    }),
  );
  const orphans: Orphan[] = [];
  for (const answer of answers) {
    if (typeof answer === 'string') return unknown(answer, since);
    orphans.push(...answer);
  }
  return known(orphans, since);
}

async function findOrphansAt(
  api: TpuApi,
  location: Location,
  installations: ReadonlySet<string>,
): Promise<readonly Orphan[] | string> {
  // Nodes first: the second list then contains the queued resource of each node, unless it was deleted.
  const nodes = await api.listNodes(location);
  if (!nodes.ok) return nodes.error.raw;
  const queue = await api.listQueuedResources(location);
  if (!queue.ok) return queue.error.raw;
  const unreachable = [...nodes.value.unreachable, ...queue.value.unreachable];
  if (unreachable.length > 0) return unreachableText(unreachable);
  const unreadable = [...nodes.value.unreadable, ...queue.value.unreadable];
  if (unreadable.length > 0) return `the list is incomplete: ${unreadableText(unreadable)}`;

  const isOurs = (owner: ResourceOwner | undefined): owner is ResourceOwner =>
    owner !== undefined && installations.has(owner.installation);
  const queued = queue.value.items.filter((item) => isOurs(queuedOwner(item)));
  // A queued resource represents its node. A node whose queued resource is gone is listed itself.
  const queuedNames = new Set(queued.map(({ name }) => name));
  const alone = nodes.value.items.filter(
    (node) => isOurs(nodeOwner(node)) && !queuedNames.has(node.queuedResource ?? ''),
  );
  return [
    ...queued.flatMap((item) => {
      const ofItem = nodes.value.items.filter((node) => node.queuedResource === item.name);
      return toOrphan(item.name, queuedOwner(item), ofItem, item.state?.state, item);
    }),
    ...alone.flatMap((node) => toOrphan(node.name, nodeOwner(node), [node], node.state)),
  ];
}

function toOrphan(
  resource: string,
  owner: ResourceOwner | undefined,
  nodes: readonly TpuNode[],
  state = 'STATE_UNSPECIFIED',
  queued?: QueuedResource,
): readonly Orphan[] {
  if (owner === undefined) return [];
  const slices: SliceState[] = [];
  for (const node of nodes) {
    const slice = sliceOf(node, owner);
    while (slices.length <= slice) slices.push('other');
    slices[slice] = sliceState(node);
  }
  return [{ backend: 'tpu', resource, ...owner, state, slices, ...shownTpu(nodes[0], queued) }];
}

/** The price class of a queued node is that of its queued resource. */
export function shownTpu(node: TpuNode | undefined, queued: QueuedResource | undefined): ShownTpu {
  const requested = queued?.tpu?.nodeSpec?.[0]?.node;
  return {
    accelerator: (node ?? requested)?.acceleratorType ?? null,
    pricing: queued === undefined && node?.queuedResource !== undefined ? null : pricingOf(node, queued),
  };
}

/** The number at the end of its name (`nodeIds`). A node that is alone ends with its allocation's number. */
function sliceOf({ name }: TpuNode, { job, allocation }: ResourceOwner): number {
  const [, slice = '0'] = new RegExp(`-${job}-${allocation}-(\\d{1,4})$`).exec(name) ?? [];
  return Number(slice);
}
