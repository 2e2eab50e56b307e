/** Quota, chips, reservations, addresses and calls per minute. Each limit is a fault condition. */

import { findAccelerator as knownType, generations } from '../../catalogue/accelerators.ts';
import { type Quota, quotaId, quotaOf, quotaUnits } from '../../catalogue/quotas.ts';
import { acceleratorsIn, offeredGenerations, regionOf, zones } from '../../catalogue/zones.ts';
import { minute } from '../../core/model/time.ts';
import { cloudErrors, type CloudError } from '../wire/errors.ts';
import { formatTimestamp } from '../wire/json.ts';
import { messageOf, textOf, type Data } from '../wire/messages.ts';
import { isLive, type FaultCondition, type NodeRecord } from './records.ts';
import {
  pricingOf,
  conditionsOf,
  findCondition,
  findConditionOn,
  countUse,
  type FaultSubject,
  type Pricing,
} from './faults.ts';
import type { World } from './world.ts';

/** Chips of one generation in a zone without a `capacity` condition. */
const chipsPerZone = 16_384;

export function provisioningFailure(
  world: World,
  subject: FaultSubject,
  node: Data,
  nodeCount: number,
): CloudError | undefined {
  const stockout = findCondition(world, 'stockout', subject);
  if (stockout !== undefined) {
    countUse(world, stockout);
    return cloudErrors.noCapacity(subject.zone, world.eid());
  }
  const wanted = (knownType(subject.type)?.chips ?? 0) * nodeCount;
  // Reserved capacity is separate from the capacity of the zone.
  if (subject.pricing === 'reserved') return reservationFailure(world, subject, node, wanted);
  const { limit, used } = capacityAt(world, subject);
  return used + wanted > limit ? cloudErrors.noCapacity(subject.zone, world.eid()) : undefined;
}

function capacityAt(world: World, subject: FaultSubject): { limit: number; used: number } {
  const condition = findCondition(world, 'capacity', subject);
  let used = 0;
  for (const node of world.nodes.values()) {
    const accelerator = knownType(node.type);
    const holds = isLive(node) || node.state === 'STOPPING' || node.state === 'DELETING';
    const same = node.zone === subject.zone && accelerator?.generation.name === subject.generation;
    if (holds && same && pricingOf(node.spec) !== 'reserved') used += accelerator.chips;
  }
  return { limit: condition === undefined ? chipsPerZone : Number(condition.options['chips']), used };
}

/** The unit of the limits of a condition on this target. */
export function quotaUnitOf(target: string): string {
  const terms = target.split('/');
  if (terms.includes('addresses')) return 'addresses';
  if (terms.includes('requests')) return 'requests per minute';
  const generation = generations.find(({ name, prefix }) =>
    terms.some((term) => term === name || term.startsWith(prefix)),
  );
  if (generation === undefined) return 'cores (of v5e and v6e: chips)';
  return generation.coresPerChip === 1 ? 'chips' : 'cores';
}

/** Counts all resources but deleted ones, also preempted nodes and suspended or failed queued resources. */
export function quotaExceeded(
  world: World,
  subject: FaultSubject,
  nodeCount: number,
): { readonly name: string; readonly limit: number } | undefined {
  const condition = findCondition(world, 'quota', subject);
  const accelerator = knownType(subject.type);
  if (condition === undefined || accelerator === undefined) return undefined;
  const limit = Number(condition.options['limit']);
  const region = regionOf(subject.zone);
  const id = quotaId(quotaOf(accelerator, subject.pricing), 'region');
  const counts = (zone: string, type: string, pricing: Pricing): number => {
    const other = knownType(type);
    const isSame =
      other !== undefined && regionOf(zone) === region && quotaId(quotaOf(other, pricing), 'region') === id;
    return isSame ? quotaUnits(other) : 0;
  };
  let used = 0;
  for (const node of world.nodes.values()) {
    if (node.project === subject.project && node.queuedResource === null)
      used += counts(node.zone, node.type, pricingOf(node.spec));
  }
  for (const queued of world.queued.values()) {
    if (queued.project !== subject.project) continue;
    for (const { node } of queued.nodes) used += counts(queued.zone, String(node['acceleratorType']), pricingOf(node));
  }
  if (used + quotaUnits(accelerator) * nodeCount <= limit) return undefined;
  countUse(world, condition);
  return { name: id, limit };
}

export interface RegionLimit {
  readonly region: string;
  /** -1: no limit. */
  readonly limit: number;
}

/** The quotas of a project with their limits in every region that offers the generation. */
export function quotasOf(
  world: World,
  project: string,
): readonly (Quota & { readonly limits: readonly RegionLimit[] })[] {
  const offers = zones.flatMap((zone) => acceleratorsIn(zone).map((accelerator) => ({ zone, accelerator })));
  const quotas = new Map<string, Quota & { readonly limits: Map<string, number> }>();
  for (const { zone, accelerator } of offers) {
    for (const pricing of ['ondemand', 'spot'] as const) {
      const quota = quotaOf(accelerator, pricing);
      const id = quotaId(quota, 'region');
      const known = quotas.get(id) ?? { ...quota, limits: new Map<string, number>() };
      quotas.set(id, known);
      const region = regionOf(zone);
      if ((known.limits.get(region) ?? -1) >= 0) continue;
      // A condition on one type or one node has no counterpart in Google's API.
      const subject = { project, zone, type: '', generation: quota.generation, pricing, names: [] };
      known.limits.set(region, Number(findCondition(world, 'quota', subject)?.options['limit'] ?? -1));
    }
  }
  return [...quotas.values()].map(({ limits, ...quota }) => ({
    ...quota,
    limits: [...limits].map(([region, limit]) => ({ region, limit })),
  }));
}

/** A node with external addresses needs one per worker. */
export function addressesExceeded(
  world: World,
  subject: FaultSubject,
  node: Data,
  nodeCount: number,
): CloudError | undefined {
  const condition = findConditionOn(world, 'quota', subject, 'addresses');
  if (condition === undefined || !hasExternalIp(node)) return undefined;
  const limit = Number(condition.options['limit']);
  const workers = knownType(subject.type)?.workers ?? 0;
  const region = regionOf(subject.zone);
  let used = 0;
  for (const each of world.nodes.values()) {
    const same = each.project === subject.project && regionOf(each.zone) === region;
    if (same && isLive(each) && hasExternalIp(each.spec)) used += each.workers.length;
  }
  if (used + workers * nodeCount <= limit) return undefined;
  countUse(world, condition);
  return cloudErrors.addressQuota(limit);
}

function hasExternalIp(node: Data): boolean {
  const networks = (node['networkConfigs'] ?? [messageOf(node, 'networkConfig')]) as Data[];
  return networks[0]?.['enableExternalIps'] === true;
}

/** Per minute of Google's time. */
export function rateExceeded(world: World, subject: FaultSubject): CloudError | undefined {
  const condition = findConditionOn(world, 'quota', subject, 'requests');
  if (condition === undefined) return undefined;
  const limit = Number(condition.options['limit']);
  const since = world.now() - minute / world.speed;
  const recent = world.operations
    .values()
    .filter(({ project, verb, createTime }) => project === subject.project && verb === 'create' && createTime > since);
  if (recent.length < limit) return undefined;
  countUse(world, condition);
  return cloudErrors.requestQuota(limit);
}

interface Reservation {
  readonly id: string;
  readonly zone: string;
  readonly generation: string;
  readonly chips: number;
  readonly condition: FaultCondition;
}

/** The reservations that a project may use: its own, and those without a project. */
function reservationsOf(world: World, project: string): Reservation[] {
  return conditionsOf(world, 'reserve').flatMap((condition) => {
    const parsed = parseReservationTarget(condition.target);
    const owner = condition.options['project'];
    if (parsed === undefined || (owner !== undefined && owner !== project)) return [];
    const id = String(condition.options['name'] ?? `${parsed.generation}-${parsed.zone}`);
    return [{ ...parsed, id, chips: Number(condition.options['chips'] ?? 0), condition }];
  });
}

/** Splits `us-central1-a/v5e`, in either order; undefined unless it is one zone and one generation. */
export function parseReservationTarget(
  target: string,
): { readonly zone: string; readonly generation: string } | undefined {
  const terms = target.split('/');
  const generation = terms.find((term) => offeredGenerations.includes(term));
  const zone = terms.find((term) => term !== generation);
  return terms.length === 2 && generation !== undefined && zone !== undefined && zone.includes('-')
    ? { zone, generation }
    : undefined;
}

/** `-` means all reservations of the zone. gcloud sends a wrong zone, so only the last part of a name counts. */
function reservationFailure(world: World, subject: FaultSubject, node: Data, wanted: number): CloudError | undefined {
  const reservationId = reservationIdOf(node);
  const offered = reservationsOf(world, subject.project).filter(
    (each) =>
      each.zone === subject.zone &&
      each.generation === subject.generation &&
      (reservationId === undefined || each.id === reservationId),
  );
  const left = offered.reduce((sum, each) => sum + each.chips - usedChips(world, subject.project, each), 0);
  return wanted <= left ? undefined : cloudErrors.reservationExhausted(world.eid());
}

function reservationIdOf(node: Data): string | undefined {
  const name = textOf(messageOf(node, 'schedulingConfig'), 'reservationName');
  const id = name.slice(name.lastIndexOf('/') + 1);
  return id === '' || id === '-' ? undefined : id;
}

/** Nodes that name none fill the reservations of their zone in order. */
function usedChips(world: World, project: string, reservation: Reservation): number {
  const holders = world.nodes.values().filter((node) => usesReservation(node, project, reservation));
  const chipsOf = (nodes: readonly NodeRecord[]): number =>
    nodes.reduce((sum, node) => sum + (knownType(node.type)?.chips ?? 0), 0);
  const named = (id: string): number => chipsOf(holders.filter((node) => reservationIdOf(node.spec) === id));
  let unnamed = chipsOf(holders.filter((node) => reservationIdOf(node.spec) === undefined));
  for (const each of reservationsOf(world, project)) {
    if (each.zone !== reservation.zone || each.generation !== reservation.generation) continue;
    const own = named(each.id);
    const filled = Math.min(unnamed, Math.max(0, each.chips - own));
    if (each.id === reservation.id) return own + filled;
    unnamed -= filled;
  }
  return 0;
}

function usesReservation(node: NodeRecord, project: string, { zone, generation }: Reservation): boolean {
  return (
    node.project === project &&
    node.zone === zone &&
    node.state !== 'PREEMPTED' &&
    node.state !== 'TERMINATED' &&
    pricingOf(node.spec) === 'reserved' &&
    knownType(node.type)?.generation.name === generation
  );
}

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
          capacityUnits: generation?.sizeUnit === 'chips' ? 'CHIPS' : 'CORES',
          resourceType: generation?.configType,
          interval: {
            startTime: formatTimestamp(since),
            ...(until === null ? {} : { endTime: formatTimestamp(until) }),
          },
          usage: { total: String(usedChips(world, project, each) * units) },
        },
      };
    });
}
