// Quota: the limits of Google's quota API and the TPUs of the same projects, read side by side.

import { findAccelerator } from '../catalogue/accelerators.ts';
import { regionOf } from '../catalogue/zones.ts';
import { minute, second, type Duration } from '../core/model/time.ts';
import { isDesiredRunning, type Job } from '../core/model/job.ts';
import { alternativesOf, capacityAt, type TpuSpec } from '../core/model/spec.ts';
import type {
  CountedTpu,
  ProjectQuota,
  QuotaLimit,
  QuotaLimitRow,
  QuotaRow,
  ReadLimits,
  Shortfall,
} from '../reports/quota.ts';
import { quotaLimits, quotaRows, quotaShortfall } from '../reports/quota.ts';
import { withTimeout } from './concurrency.ts';
import { formatWhen, pluralize } from './format.ts';
import { reclaimReason, releaseCommand } from './reclaim.ts';
import { ownerName } from './tpu-phrases.ts';
import {
  observeTpus,
  suggestScope,
  tpuSpecs,
  type TpuCloud,
  type TpuQuery,
  type TpuRow,
  type UncheckedLocation,
} from './tpus.ts';

export interface UnreadLimits {
  readonly project: string;
  readonly message: string;
  /** `cloudquotas.quotas.get`; null if another reason is known. */
  readonly permission: string | null;
  /** A command that may repair it. */
  readonly fix: string | null;
}

export type LimitsAnswer =
  | {
      readonly ok: true;
      readonly limits: readonly QuotaLimit[];
      /** The ids of quotas whose entry has an unexpected form: their limits are not known. */
      readonly unreadable: readonly string[];
    }
  | { readonly ok: false; readonly problem: UnreadLimits };

export interface QuotaPort {
  /** Starts nothing and never throws. */
  limits(project: string): Promise<LimitsAnswer>;
}

/** The last limits of each project, which `create` uses if Google does not answer in time. */
export interface QuotaCache {
  read(project: string): ReadLimits | undefined;
  write(project: string, limits: ReadLimits): void;
}

export const noQuotaCache: QuotaCache = { read: () => undefined, write: () => undefined };

export interface QuotaQuery extends Pick<TpuQuery, 'project' | 'zone'> {
  /** False: the answer is not kept for `knownQuota` and `quotaWarnings`. */
  readonly isKept?: boolean;
}

export interface QuotaReport {
  readonly rows: readonly QuotaRow[];
  /** Every known limit once. */
  readonly limits: readonly QuotaLimitRow[];
  readonly unread: readonly UnreadLimits[];
  /** Projects with quotas whose entries have an unexpected form. */
  readonly unreadable: readonly { readonly project: string; readonly quotas: readonly string[] }[];
  /** Locations whose TPUs could not be listed. */
  readonly unchecked: readonly UncheckedLocation[];
  /** TPUs of a type that the catalogue does not know; no row counts them. */
  readonly uncounted: readonly string[];
  /** False if no project answered at all. */
  readonly anyAnswered: boolean;
  readonly projects: readonly string[];
  /** Those of `projects` that the TPU emulator serves. */
  readonly simulatedProjects: readonly string[];
  /** The flag that a mistyped project or zone of the query probably means. */
  readonly suggestion: string | null;
}

export interface QuotaParts extends Omit<Parameters<typeof observeTpus>[0], 'cloud'> {
  readonly cloud: TpuCloud;
  readonly quotas: QuotaPort;
  readonly cache: QuotaCache;
}

/** See `Client.knownQuota`. */
export function knownQuota(cache: QuotaCache, projects: readonly string[]): readonly QuotaRow[] {
  return projects.flatMap((project) => {
    const limits = cache.read(project);
    return limits === undefined ? [] : quotaRows({ project, limits, tpus: [], uncheckedZones: 'all' });
  });
}

/** Reads the quotas and starts nothing. Throws JobmanError without a project. */
export async function observeQuota(
  parts: QuotaParts,
  { project, zone }: Omit<QuotaQuery, 'isKept'>,
): Promise<QuotaReport> {
  const { cloud, quotas, cache } = parts;
  const asked = new Map<string, Promise<LimitsAnswer>>();
  const listing: TpuCloud = {
    ...cloud,
    list(scope) {
      const answer = quotas.limits(scope.project);
      // It is awaited after the lists. Without this handler an early failure would end the process.
      answer.catch(() => undefined);
      asked.set(scope.project, answer);
      return cloud.list(scope);
    },
  };
  // Even for one zone, list all: the other zones of its region count against the region's limit.
  const query = { all: true, ...(project === undefined ? {} : { project }) };
  const list = await observeTpus({ ...parts, cloud: listing }, query);
  // Read the jobs after the lists, so that a job that was created in between counts as waiting.
  const { jobs } = await parts.store.list({ maxFinished: 0 });
  const answers = await Promise.all([...asked].map(async ([name, answer]) => [name, await answer] as const));
  const readAt = parts.now();
  const rows: QuotaRow[] = [];
  const limitRows: QuotaLimitRow[] = [];
  const unread: UnreadLimits[] = [];
  for (const [name, answer] of answers) {
    if (answer.ok) cache.write(name, { readAt, limits: answer.limits });
    else unread.push(answer.problem);
    const limits = answer.ok ? { readAt, limits: answer.limits } : null;
    const known = projectQuota(name, limits, list.rows, list.unchecked);
    limitRows.push(...quotaLimits(known));
    rows.push(...quotaRows({ ...known, tpus: [...known.tpus, ...waitingJobs(jobs, name, list.rows)] }));
  }
  return {
    rows: zone === undefined ? rows : rows.filter((row) => row.zone === zone),
    limits: limitRows.filter(({ location }) => zone === undefined || location === zone || location === regionOf(zone)),
    unread,
    unreadable: answers.flatMap(([name, answer]) =>
      answer.ok && answer.unreadable.length > 0 ? [{ project: name, quotas: answer.unreadable }] : [],
    ),
    unchecked: list.unchecked,
    uncounted: list.rows.flatMap((row) => (countedTpu(row) === undefined ? row.resource : [])),
    anyAnswered: list.anyAnswered || answers.some(([, { ok }]) => ok),
    projects: list.projects,
    simulatedProjects: list.projects.filter((name) => cloud.isSimulated(name)),
    suggestion: suggestScope({ project, zone }, parts.settings, tpuSpecs(jobs, [])),
  };
}

function projectQuota(
  project: string,
  limits: ReadLimits | null,
  rows: readonly TpuRow[],
  unchecked: readonly UncheckedLocation[],
): ProjectQuota {
  return {
    project,
    limits,
    tpus: rows.filter((row) => row.project === project).flatMap((row) => countedTpu(row) ?? []),
    uncheckedZones: uncheckedZonesOf(unchecked.filter((one) => one.project === project)),
  };
}

function uncheckedZonesOf(unchecked: readonly UncheckedLocation[]): ProjectQuota['uncheckedZones'] {
  return unchecked.some(({ zone }) => zone === null) ? 'all' : new Set(unchecked.flatMap(({ zone }) => zone ?? []));
}

/** Jobs without a node or queued resource, because Google refused the request or jobman has not made it yet. */
function waitingJobs(jobs: readonly Job[], project: string, rows: readonly TpuRow[]): readonly CountedTpu[] {
  return jobs.flatMap((job): readonly CountedTpu[] => {
    const { capacity } = job.spec;
    const isWaiting = isDesiredRunning(job) && rows.every((row) => row.job !== job.id);
    if (capacity.kind !== 'tpu' || capacity.project !== project || capacity.ownership === 'persistent') return [];
    if (!isWaiting) return [];
    const { alternative = 0 } = job.allocations.findLast(({ goneAt }) => goneAt === null) ?? {};
    const { accelerator, zone, pricing, nodeCount = 1 } = capacityAt(capacity, alternative);
    const { id, owner, spec } = job;
    const holder = { owner, job: id, name: spec.name, state: 'WAITING', reclaimable: null, command: null };
    return [{ zone, accelerator, pricing, nodeCount, use: 'waiting', holder }];
  });
}

const waitingStates = ['CREATING', 'ACCEPTED', 'WAITING_FOR_RESOURCES', 'PROVISIONING'];

/** Undefined for a type that the catalogue does not know. */
function countedTpu(row: TpuRow): CountedTpu | undefined {
  const { accelerator, zone, pricing, nodeCount, nodeState, state, name } = row;
  if (accelerator === null || findAccelerator(accelerator) === undefined) return undefined;
  const use = nodeState === null && waitingStates.includes(state) ? 'requested' : 'used';
  const reclaimable = reclaimReason(row);
  const holder = {
    owner: ownerName(row),
    job: row.job,
    name,
    state,
    reclaimable,
    command: reclaimable === null ? null : releaseCommand(row),
  };
  return { zone, accelerator, pricing, nodeCount, use, holder };
}

// ------------------------------------------------------------------------------------------ create

/** A user waits for the answers, so this is the limit for all of them together. */
export const quotaCheckTimeout: Duration = 1.5 * second;
/** A warning from older limits would often be wrong. */
const limitsMaxAge: Duration = 60 * minute;

/** A sentence without a full stop for each alternative that exceeds the quota. Never throws; takes at most `quotaCheckTimeout`. */
export async function quotaWarnings(
  parts: Pick<QuotaParts, 'cloud' | 'quotas' | 'cache' | 'now'>,
  capacity: TpuSpec,
): Promise<readonly string[]> {
  if (capacity.ownership === 'persistent') return [];
  const { project } = capacity;
  const inTime = <T>(reading: Promise<T>): Promise<T | undefined> =>
    withTimeout(quotaCheckTimeout, reading, () => undefined).catch(() => undefined);
  const [fresh, list] = await Promise.all([
    inTime(readLimits(parts, project)),
    inTime(parts.cloud.list({ project, zones: null })),
  ]);
  const limits = fresh ?? recentLimits(parts, project);
  if (limits === undefined || list === undefined) return [];
  const { tpus, unchecked } = list;
  const age = fresh === undefined ? ` (limits read ${formatWhen(limits.readAt, { now: parts.now() })})` : '';
  const known: ProjectQuota = {
    project,
    limits,
    tpus: tpus.flatMap(({ zone, accelerator, pricing, nodeCount, name }) => {
      const holder = { owner: null, job: null, name, state: '', reclaimable: null, command: null };
      return accelerator === null ? [] : [{ zone, accelerator, pricing, nodeCount, use: 'used' as const, holder }];
    }),
    uncheckedZones: uncheckedZonesOf(unchecked),
  };
  return alternativesOf(capacity).flatMap((alternative) => {
    const { accelerator, zone, pricing } = alternative;
    const { nodeCount = 1 } = capacity;
    const shortfall = quotaShortfall(known, { accelerator, zone, pricing, nodeCount });
    return shortfall === null ? [] : [`${accelerator} ${pricing} in ${zone} ${formatShortfall(shortfall, age)}`];
  });
}

/** The last limits, unless they are old or the clock was set back. */
function recentLimits({ cache, now }: Pick<QuotaParts, 'cache' | 'now'>, project: string): ReadLimits | undefined {
  const cached = cache.read(project);
  const age = cached === undefined ? Number.POSITIVE_INFINITY : now() - cached.readAt;
  return age >= 0 && age < limitsMaxAge ? cached : undefined;
}

async function readLimits(
  { quotas, cache, now }: Pick<QuotaParts, 'quotas' | 'cache' | 'now'>,
  project: string,
): Promise<ReadLimits | undefined> {
  const answer = await quotas.limits(project);
  if (!answer.ok) return undefined;
  const limits = { readAt: now(), limits: answer.limits };
  cache.write(project, limits);
  return limits;
}

/** `age`: the age of the limits as a phrase, empty for new ones. */
function formatShortfall(
  { zone, scope, wantedChips, limitChips, usedChips, generation, pricing }: Shortfall,
  age: string,
): string {
  const where = scope === 'zone' ? 'this zone' : `the region of ${zone}`;
  const quota = `the quota of ${generation} ${pricing}: it has ${pluralize(wantedChips, 'chip')}, and`;
  return usedChips === null || wantedChips > limitChips
    ? `can never fit ${quota} the limit in ${where} is ${limitChips}${age}. Ask Google for more quota, or choose another type, zone or pricing`
    : `exceeds ${quota} ${Math.max(0, limitChips - usedChips)} of ${limitChips} are left in ${where}${age}. To see what uses them: jobman quota`;
}
