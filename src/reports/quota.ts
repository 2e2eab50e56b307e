// Quota: the chips of each zone, generation and pricing: the limit, and what counts against it. Pure.

import { findAccelerator, generations } from '../catalogue/accelerators.ts';
import { quotaId, quotaOf, type Quota, type QuotaPricing } from '../catalogue/quotas.ts';
import { acceleratorsIn, regionOf, zones } from '../catalogue/zones.ts';
import type { Instant } from '../core/model/time.ts';

/** One limit of Google's quota API. A zone may have a limit of its own and share that of its region. */
export interface QuotaLimit extends Quota {
  readonly scope: 'zone' | 'region';
  readonly location: string;
  /** In the unit of the quota: TensorCores, which for v5e and v6e are chips. Null: no limit. */
  readonly limit: number | null;
}

export interface ReadLimits {
  readonly readAt: Instant;
  readonly limits: readonly QuotaLimit[];
}

/** A node, or a queued resource without nodes. Google counts it until it is deleted. */
export interface CountedTpu {
  readonly zone: string;
  readonly accelerator: string;
  readonly pricing: QuotaPricing | 'preemptible';
  readonly nodeCount: number;
  readonly use: QuotaHolder['use'];
  readonly holder: Omit<QuotaHolder, 'use' | 'chips'>;
}

export interface QuotaHolder {
  /** The owner of the job, the user in its metadata, or the installation; null: the creator is not known. */
  readonly owner: string | null;
  /** Id of the job of this installation; null without one. */
  readonly job: string | null;
  /** Name of the node or queued resource; of a job that waits, the name of the job. */
  readonly name: string;
  /** Google's state of the node, or of the queued resource if there is no node; `WAITING` for a job. */
  readonly state: string;
  /**
   * `requested`: a queued resource that waits for capacity. `waiting`: a job of this installation without a request at
   * Google, which may have refused it. `used`: everything else.
   */
  readonly use: 'used' | 'requested' | 'waiting';
  /** Its chips. */
  readonly chips: number;
  /**
   * The reason why it can be released. `ended`: the TPU was preempted, has failed or was terminated, and Google counts it
   * until it is deleted. `orphan`: no job claims it. `idle`: a finished job keeps it. Null while it is in use.
   */
  readonly reclaimable: 'ended' | 'orphan' | 'idle' | null;
  /** The command that releases it; null if its job does that, or if it is not reclaimable. */
  readonly command: string | null;
}

export interface QuotaRow {
  readonly project: string;
  readonly zone: string;
  /** `v5e`. */
  readonly generation: string;
  /** `pod`: v2 and v3 slices of several machines. `serving`: v5litepod-1, -4 and -8. Null: all others. */
  readonly variant: Quota['variant'];
  /** Preemptible TPUs count as spot. */
  readonly pricing: QuotaPricing;
  /** Google's id of the quota that leaves the least. */
  readonly quotaId: string;
  /** That quota is for the zone, or for its region: then used and requested chips of other zones count too. */
  readonly scope: 'zone' | 'region';
  /** `unknown`: the limit could not be read, or Google lists none. */
  readonly limitState: 'limited' | 'unlimited' | 'unknown';
  /** Null without a known limit. */
  readonly limitChips: number | null;
  /** Time at which the limit was read; null if it could not be read. */
  readonly limitReadAt: Instant | null;
  /** Chips of nodes, and of queued resources that have failed or lost their nodes; null if the zone could not be checked. */
  readonly usedChips: number | null;
  /** Part of the used chips that can be released: stopped but still counted, orphans, idle. */
  readonly reclaimableChips: number | null;
  /** Chips of queued resources and of jobs that wait; only the former take from what is left. */
  readonly requestedChips: number | null;
  /** The limit minus the chips of TPUs and queued resources, at least 0; null if one of them is not known. */
  readonly leftChips: number | null;
  /** The TPUs that use or request the chips, largest first. */
  readonly holders: readonly QuotaHolder[];
}

/** A limit as Google sets it: of one zone, or of a region and all its zones. */
export interface QuotaLimitRow extends Quota {
  readonly project: string;
  /** Both limits of a zone apply: its own, and the one that it shares with the other zones of its region. */
  readonly scope: 'zone' | 'region';
  /** The zone or the region. */
  readonly location: string;
  /** Google's id of the quota. */
  readonly quotaId: string;
  /** The limit in chips. */
  readonly limitChips: number;
  /** Time at which the limit was read. */
  readonly limitReadAt: Instant;
  /**
   * The limit minus the chips of TPUs and queued resources in the zone or region, at least 0; null if the TPUs there could
   * not be listed.
   */
  readonly leftChips: number | null;
}

/** The limits and the TPUs of one project. */
export interface ProjectQuota {
  readonly project: string;
  /** Null: they could not be read. */
  readonly limits: ReadLimits | null;
  readonly tpus: readonly CountedTpu[];
  /** Zones whose TPUs could not be listed; `all` for the whole project. */
  readonly uncheckedZones: 'all' | ReadonlySet<string>;
}

/** Rows with a limit or a TPU, by zone, generation and pricing. */
export function quotaRows(project: ProjectQuota): readonly QuotaRow[] {
  const known = indexed(project);
  const subjects = new Map<string, { readonly zone: string; readonly quota: Quota }>();
  const add = (zone: string, { generation, variant, pricing }: Quota): void => {
    const quota = { generation, variant, pricing };
    subjects.set(`${zone} ${quotaId(quota, 'zone')}`, { zone, quota });
  };
  for (const { quota, zone } of project.tpus.flatMap(withQuota)) add(zone, quota);
  for (const limit of project.limits?.limits ?? []) {
    if (limit.limit === null) continue;
    const zonesThere = limit.scope === 'zone' ? [limit.location] : (zonesByRegion[limit.location] ?? []);
    for (const zone of zonesThere) if (limit.scope === 'zone' || isOffered(zone, limit)) add(zone, limit);
  }
  return [...subjects.values()].map(({ zone, quota }) => quotaRow(known, zone, quota)).toSorted(byZone);
}

const zonesByRegion = Object.groupBy(zones, regionOf);

const offers = new Map<string, ReadonlySet<string>>();

/** False for an unknown zone, and for one in which the catalogue does not have such TPUs. */
export function isOffered(zone: string, { generation, variant }: Pick<Quota, 'generation' | 'variant'>): boolean {
  const key = (quota: Pick<Quota, 'generation' | 'variant'>) => `${quota.generation} ${quota.variant ?? ''}`;
  const known = offers.get(zone) ?? new Set(acceleratorsIn(zone).map((type) => key(quotaOf(type, 'spot'))));
  offers.set(zone, known);
  return known.has(key({ generation, variant }));
}

function byZone(one: QuotaRow, other: QuotaRow): number {
  const key = ({ zone, generation, variant, pricing }: QuotaRow) =>
    `${zone} ${generations.findIndex(({ name }) => name === generation)} ${variant ?? ''} ${pricing}`;
  return key(one) < key(other) ? -1 : 1;
}

function withQuota(tpu: CountedTpu) {
  const accelerator = findAccelerator(tpu.accelerator);
  return accelerator === undefined ? [] : [{ ...tpu, accelerator, quota: quotaOf(accelerator, tpu.pricing) }];
}

interface IndexedQuota {
  readonly project: ProjectQuota;
  readonly limits: ReadonlyMap<string, QuotaLimit>;
  /** By the id of the quota for a zone. */
  readonly holders: ReadonlyMap<string, readonly (QuotaHolder & { readonly zone: string })[]>;
}

function indexed(project: ProjectQuota): IndexedQuota {
  const limits = (project.limits?.limits ?? []).map((limit) => [limitKey(limit, limit), limit] as const);
  const holders = project.tpus.flatMap(withQuota).map(({ zone, holder, use, accelerator, nodeCount, quota }) => ({
    id: quotaId(quota, 'zone'),
    holder: { ...holder, use, chips: accelerator.chips * nodeCount, zone },
  }));
  const byId = Map.groupBy(holders, ({ id }) => id);
  return {
    project,
    limits: new Map(limits),
    holders: new Map([...byId].map(([id, some]) => [id, some.map(({ holder }) => holder)])),
  };
}

function limitKey(quota: Quota, { scope, location }: Pick<QuotaLimit, 'scope' | 'location'>): string {
  return `${location} ${quotaId(quota, scope)}`;
}

interface Count {
  readonly used: number;
  readonly requested: number;
  readonly waiting: number;
  readonly reclaimable: number;
  readonly holders: readonly QuotaHolder[];
}

/** In chips. Null if a zone there could not be checked. */
function countAt({ project, holders }: IndexedQuota, quota: Quota, isThere: (zone: string) => boolean): Count | null {
  const { uncheckedZones } = project;
  if (uncheckedZones === 'all' || [...uncheckedZones].some(isThere)) return null;
  const found = (holders.get(quotaId(quota, 'zone')) ?? [])
    .filter(({ zone }) => isThere(zone))
    .map(({ zone: _zone, ...holder }) => holder)
    .toSorted((one, other) => other.chips - one.chips || (one.name < other.name ? -1 : 1));
  const sum = (some: readonly QuotaHolder[]) => some.reduce((total, { chips }) => total + chips, 0);
  return {
    used: sum(found.filter(({ use }) => use === 'used')),
    requested: sum(found.filter(({ use }) => use === 'requested')),
    waiting: sum(found.filter(({ use }) => use === 'waiting')),
    reclaimable: sum(found.filter(({ use, reclaimable }) => use === 'used' && reclaimable !== null)),
    holders: found,
  };
}

/** Every limit of the project once; none for a quota without a limit. */
export function quotaLimits(project: ProjectQuota): readonly QuotaLimitRow[] {
  const known = indexed(project);
  const { limits, readAt } = project.limits ?? { limits: [], readAt: 0 };
  return limits.flatMap(({ generation, variant, pricing, scope, location }) => {
    const quota = { generation, variant, pricing };
    const found = leftOf(known, quota, { scope, location });
    if (found === undefined || found.limit === null) return [];
    const { limit: limitChips, left: leftChips } = found;
    const id = quotaId(quota, scope);
    return {
      project: project.project,
      scope,
      location,
      ...quota,
      quotaId: id,
      limitChips,
      limitReadAt: readAt,
      leftChips,
    };
  });
}

interface Left {
  readonly scope: 'zone' | 'region';
  readonly state: QuotaRow['limitState'];
  readonly limit: number | null;
  readonly used: number | null;
  readonly left: number | null;
}

/** In chips. Undefined without a known limit. */
function leftOf(
  known: IndexedQuota,
  quota: Quota,
  { scope, location }: Pick<QuotaLimit, 'scope' | 'location'>,
): Left | undefined {
  const limit = known.limits.get(limitKey(quota, { scope, location }));
  if (limit === undefined) return undefined;
  if (limit.limit === null) return { scope, state: 'unlimited', limit: null, used: null, left: null };
  const perChip = generations.find(({ name }) => name === quota.generation)?.coresPerChip ?? 1;
  const count = countAt(known, quota, (one) => (scope === 'zone' ? one : regionOf(one)) === location);
  const chips = limit.limit / perChip;
  const used = count === null ? null : count.used + count.requested;
  return { scope, state: 'limited', limit: chips, used, left: used === null ? null : Math.max(0, chips - used) };
}

/** The limit that leaves the least. */
function leastLeft(known: IndexedQuota, zone: string, quota: Quota): Left {
  const found = (['zone', 'region'] as const).flatMap(
    (scope) => leftOf(known, quota, { scope, location: scope === 'zone' ? zone : regionOf(zone) }) ?? [],
  );
  const limited = found.filter(({ state }) => state === 'limited');
  const [first] = limited.toSorted((one, other) => (one.left ?? one.limit ?? 0) - (other.left ?? other.limit ?? 0));
  return first ?? found[0] ?? { scope: 'zone', state: 'unknown', limit: null, used: null, left: null };
}

function quotaRow(known: IndexedQuota, zone: string, quota: Quota): QuotaRow {
  const count = countAt(known, quota, (one) => one === zone);
  const { scope, state, limit, left } = leastLeft(known, zone, quota);
  return {
    project: known.project.project,
    zone,
    ...quota,
    quotaId: quotaId(quota, scope),
    scope,
    limitState: state,
    limitChips: limit,
    limitReadAt: known.project.limits?.readAt ?? null,
    usedChips: count?.used ?? null,
    reclaimableChips: count?.reclaimable ?? null,
    requestedChips: count === null ? null : count.requested + count.waiting,
    leftChips: left,
    holders: count?.holders ?? [],
  };
}

export interface Shortfall {
  readonly zone: string;
  readonly generation: string;
  readonly pricing: QuotaPricing;
  readonly scope: 'zone' | 'region';
  readonly wantedChips: number;
  readonly limitChips: number;
  /** Null: the TPUs of the project could not be listed, and the request exceeds the whole limit. */
  readonly usedChips: number | null;
}

/** By how much a request exceeds what is left; null if it does not, or if that is not known. */
export function quotaShortfall(
  project: ProjectQuota,
  request: {
    readonly zone: string;
    readonly accelerator: string;
    readonly pricing: QuotaPricing | 'preemptible';
    readonly nodeCount?: number;
  },
): Shortfall | null {
  const accelerator = findAccelerator(request.accelerator);
  if (accelerator === undefined) return null;
  const quota = quotaOf(accelerator, request.pricing);
  const { scope, limit, used, left } = leastLeft(indexed(project), request.zone, quota);
  const wantedChips = accelerator.chips * (request.nodeCount ?? 1);
  if (limit === null || wantedChips <= (left ?? limit)) return null;
  const { generation, pricing } = quota;
  return { zone: request.zone, generation, pricing, scope, wantedChips, limitChips: limit, usedChips: used };
}
