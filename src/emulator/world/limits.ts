/**
 * The limits of a project and of the cloud: quota, chips in a zone, reservations, external addresses, calls a minute.
 * Every limit is a condition of the temper; without one there is plenty.
 */
import { minute } from '../../core/time.ts';
import { accelerator as knownType } from '../../catalogue/accelerators.ts';
import { regionOf } from '../../catalogue/zones.ts';
import { type CloudError, texts } from '../wire/errors.ts';
import { type Data, messageOf } from '../wire/messages.ts';
import { isLiving } from './records.ts';
import { reservedFailure } from './reservations.ts';
import { type Place, type Pricing, pricingOf, strikes, strikesAt, useUp } from './temper.ts';
import type { World } from './world.ts';

/** Chips of one generation that a zone has when nobody said otherwise. */
const chipsPerZone = 16_384;

/** Why that many nodes cannot be made there now: a stockout, a reservation that is used up, or a zone that is full. */
export function provisioningFailure(world: World, place: Place, node: Data, nodeCount: number): CloudError | undefined {
  const stockout = strikes(world, 'stockout', place);
  if (stockout !== undefined) {
    useUp(world, stockout);
    return texts.noCapacity(place.zone, world.eid());
  }
  const wanted = (knownType(place.type)?.chips ?? 0) * nodeCount;
  // Reserved capacity was set aside: a zone that is full for others still has it.
  if (place.pricing === 'reserved') return reservedFailure(world, place, node, wanted);
  const { limit, used } = capacityAt(world, place);
  return used + wanted > limit ? texts.noCapacity(place.zone, world.eid()) : undefined;
}

function capacityAt(world: World, place: Place): { limit: number; used: number } {
  const said = strikes(world, 'capacity', place);
  let used = 0;
  for (const node of world.nodes.values()) {
    const accelerator = knownType(node.type);
    const holds = isLiving(node) || node.state === 'STOPPING' || node.state === 'DELETING';
    const same = node.zone === place.zone && accelerator?.generation.name === place.generation;
    if (holds && same && pricingOf(node.asked) !== 'reserved') used += accelerator.chips;
  }
  return { limit: said === undefined ? chipsPerZone : Number(said.options['chips']), used };
}

/**
 * The quota that this request would exceed. Counted is what was not deleted: preempted nodes and suspended or failed
 * queued resources too.
 */
export function quotaExceeded(
  world: World,
  place: Place,
  nodeCount: number,
): { readonly name: string; readonly limit: number } | undefined {
  const condition = strikes(world, 'quota', place);
  if (condition === undefined) return undefined;
  const limit = Number(condition.options['limit'] ?? 0);
  const region = regionOf(place.zone);
  const counts = (zone: string, type: string, pricing: Pricing): number => {
    const accelerator = knownType(type);
    const same = regionOf(zone) === region && pricing === place.pricing;
    return accelerator?.generation.name === place.generation && same ? quotaUnits(type) : 0;
  };
  let used = 0;
  for (const node of world.nodes.values()) {
    if (node.project === place.project && node.queuedResource === null)
      used += counts(node.zone, node.type, pricingOf(node.asked));
  }
  for (const queued of world.queued.values()) {
    if (queued.project !== place.project) continue;
    for (const { node } of queued.nodes) used += counts(queued.zone, String(node['acceleratorType']), pricingOf(node));
  }
  const wanted = quotaUnits(place.type) * nodeCount;
  if (used + wanted <= limit) return undefined;
  useUp(world, condition);
  return { name: quotaName(place), limit };
}

/** The unit that quota counts of a type: TensorCores, which v5e and v6e have one of in a chip. */
function quotaUnits(type: string): number {
  const known = knownType(type);
  return known === undefined ? 0 : known.chips * known.generation.coresPerChip;
}

/** `TPUV6EPreemptiblePerProjectPerRegionForTPUAPI`, `TPUV5sPreemptibleLitepodPer…`: the names of the service. */
function quotaName({ generation, pricing }: Place): string {
  const families: Readonly<Record<string, readonly string[]>> = {
    v5e: ['TPUV5s', 'Litepod'],
    v5p: ['TPUV5P'],
    v6e: ['TPUV6E'],
  };
  const [family, ending = ''] = families[generation] ?? [`TPU${generation.toUpperCase()}s`];
  return `${family}${pricing === 'spot' ? 'Preemptible' : ''}${ending}PerProjectPerRegionForTPUAPI`;
}

/** Why there are no external addresses left for that many more workers; one is needed for each, where they are asked for. */
export function addressesExceeded(world: World, place: Place, node: Data, nodeCount: number): CloudError | undefined {
  const condition = strikesAt(world, 'quota', place, 'addresses');
  if (condition === undefined || !hasExternal(node)) return undefined;
  const limit = Number(condition.options['limit'] ?? 0);
  const workers = knownType(place.type)?.workers ?? 0;
  const region = regionOf(place.zone);
  let used = 0;
  for (const each of world.nodes.values()) {
    const same = each.project === place.project && regionOf(each.zone) === region;
    if (same && isLiving(each) && hasExternal(each.asked)) used += each.workers.length;
  }
  if (used + workers * nodeCount <= limit) return undefined;
  useUp(world, condition);
  return texts.addressQuota(limit);
}

function hasExternal(node: Data): boolean {
  const networks = (node['networkConfigs'] ?? [messageOf(node, 'networkConfig')]) as Data[];
  return networks[0]?.['enableExternalIps'] === true;
}

/** Why this creation comes too soon after others: the limit of a minute of Google's time. */
export function rateExceeded(world: World, place: Place): CloudError | undefined {
  const condition = strikesAt(world, 'quota', place, 'requests');
  if (condition === undefined) return undefined;
  const limit = Number(condition.options['limit'] ?? 0);
  const since = world.now() - minute / world.speed;
  const recent = world.operations
    .values()
    .filter(({ project, verb, createTime }) => project === place.project && verb === 'create' && createTime > since);
  if (recent.length < limit) return undefined;
  useUp(world, condition);
  return texts.requestQuota(limit);
}
