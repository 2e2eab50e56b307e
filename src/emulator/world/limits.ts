/**
 * The limits of a project and of the cloud: quota, chips in a zone, reservations, external addresses, calls a minute.
 * Every limit is a condition of the temper; without one there is plenty.
 */

import { accelerator as knownType, generations } from '../../catalogue/accelerators.ts';
import { offeredGenerations, regionOf } from '../../catalogue/zones.ts';
import { minute } from '../../core/time.ts';
import { texts, type CloudError } from '../wire/errors.ts';
import { timestampText } from '../wire/json.ts';
import { messageOf, textOf, type Data } from '../wire/messages.ts';
import { isLiving, type Condition, type NodeRecord } from './records.ts';
import { pricingOf, standing, strikes, strikesAt, useUp, type Place, type Pricing } from './temper.ts';
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

interface Reservation {
  readonly id: string;
  readonly zone: string;
  readonly generation: string;
  readonly chips: number;
  readonly condition: Condition;
}

/** The reservations of a project: those made for it, and those made for whoever asks. */
function reservationsOf(world: World, project: string): Reservation[] {
  return standing(world, 'reserve').flatMap((condition) => {
    const place = reservedPlace(condition.target);
    const owner = condition.options['project'];
    if (place === undefined || (owner !== undefined && owner !== project)) return [];
    const id = String(condition.options['name'] ?? `${place.generation}-${place.zone}`);
    return [{ ...place, id, chips: Number(condition.options['chips'] ?? 0), condition }];
  });
}

/** `us-central1-a/v5e` taken apart, in either order; undefined when it is not one zone and one generation. */
export function reservedPlace(target: string): { readonly zone: string; readonly generation: string } | undefined {
  const words = target.split('/');
  const generation = words.find((word) => offeredGenerations.includes(word));
  const zone = words.find((word) => word !== generation);
  return words.length === 2 && generation !== undefined && zone !== undefined && zone.includes('-')
    ? { zone, generation }
    : undefined;
}

/**
 * Why a reserved node cannot be made now: what it names has too few chips left, or, when it names none (`-` says so too),
 * all reservations of the zone together have. Clients write the full name, and gcloud a wrong zone in it, so the last
 * part alone counts.
 */
function reservedFailure(world: World, place: Place, node: Data, wanted: number): CloudError | undefined {
  const asked = nameIn(node);
  const offered = reservationsOf(world, place.project).filter(
    (each) =>
      each.zone === place.zone && each.generation === place.generation && (asked === undefined || each.id === asked),
  );
  const left = offered.reduce((sum, each) => sum + each.chips - usedOf(world, place.project, each), 0);
  return wanted <= left ? undefined : texts.reservationExhausted(world.eid());
}

function nameIn(node: Data): string | undefined {
  const name = textOf(messageOf(node, 'schedulingConfig'), 'reservationName');
  const id = name.slice(name.lastIndexOf('/') + 1);
  return id === '' || id === '-' ? undefined : id;
}

/** Chips in use of one reservation. Nodes that name none fill the reservations of their place from the first on. */
function usedOf(world: World, project: string, reservation: Reservation): number {
  const holders = world.nodes.values().filter((node) => holds(node, project, reservation));
  const chipsOf = (nodes: readonly NodeRecord[]): number =>
    nodes.reduce((sum, node) => sum + (knownType(node.type)?.chips ?? 0), 0);
  const named = (id: string): number => chipsOf(holders.filter((node) => nameIn(node.asked) === id));
  let unnamed = chipsOf(holders.filter((node) => nameIn(node.asked) === undefined));
  for (const each of reservationsOf(world, project)) {
    if (each.zone !== reservation.zone || each.generation !== reservation.generation) continue;
    const own = named(each.id);
    const filled = Math.min(unnamed, Math.max(0, each.chips - own));
    if (each.id === reservation.id) return own + filled;
    unnamed -= filled;
  }
  return 0;
}

function holds(node: NodeRecord, project: string, { zone, generation }: Reservation): boolean {
  return (
    node.project === project &&
    node.zone === zone &&
    node.state !== 'PREEMPTED' &&
    node.state !== 'TERMINATED' &&
    pricingOf(node.asked) === 'reserved' &&
    knownType(node.type)?.generation.name === generation
  );
}

/** The reservations of a project in those zones, as messages. */
export function reservationData(world: World, project: string, zones: readonly string[]): Data[] {
  return reservationsOf(world, project)
    .filter(({ zone }) => zones.includes(zone))
    .map((each) => {
      const generation = generations.find(({ name }) => name === each.generation);
      const units = generation?.coresPerChip ?? 1;
      const { since, until } = each.condition;
      return {
        name: `projects/${project}/locations/${each.zone}/reservations/${each.id}`,
        state: 'ACTIVE',
        standard: {
          size: each.chips * units,
          capacityUnits: generation?.counts === 'chips' ? 'CHIPS' : 'CORES',
          resourceType: generation?.configType,
          interval: {
            startTime: timestampText(since),
            ...(until === null ? {} : { endTime: timestampText(until) }),
          },
          usage: { total: String(usedOf(world, project, each) * units) },
        },
      };
    });
}
