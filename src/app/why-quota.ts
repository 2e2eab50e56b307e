// The part of the `why` answer about a request that exceeds a quota: the limit, and the jobs here that use it.

import { findAccelerator } from '../catalogue/accelerators.ts';
import { parseQuotaError, quotaId, quotaOf, quotaUnits } from '../catalogue/quotas.ts';
import { regionOf } from '../catalogue/zones.ts';
import { isUnconfirmed, lastAllocation, openAttempt, type Allocation, type Job } from '../core/model/job.ts';
import { capacityAt, type TpuSpec } from '../core/model/spec.ts';
import { phaseOf } from '../core/decide/phase.ts';
import type { Instant } from '../core/model/time.ts';
import { lastRequestFailure } from './cloud-status.ts';
import { firstJobs, formatList, pluralize } from './format.ts';
import { heldCapacity } from './views.ts';

/** The quota that refused the newest request, as Google's error states it. */
export interface RefusingQuota {
  readonly project: string;
  readonly id: string;
  readonly scope: 'zone' | 'region';
  readonly location: string;
  /** `v4 spot in region us-central2` */
  readonly name: string;
  readonly limitChips: number;
  /** In Google's unit, as in the error. */
  readonly limitCores: number;
  readonly wantedChips: number;
  readonly refusedAt: Instant;
  /** Google's own message. */
  readonly error: string;
}

/** Null if no quota refused the request that the job repeats, or if the error names no limit. */
export function refusingQuota(job: Job): RefusingQuota | null {
  const attempt = openAttempt(job);
  const allocation = lastAllocation(job);
  if (attempt === undefined || allocation === undefined || allocation.readyAt !== null) return null;
  const { error, at: refusedAt = 0 } = allocation.lastError ?? lastRequestFailure(job, attempt) ?? {};
  const capacity = capacityAt(job.spec.capacity, allocation.alternative ?? 0);
  if (error?.kind !== 'quota' || capacity.kind !== 'tpu') return null;
  const refused = parseQuotaError(error.raw);
  const used = quotaUse(capacity);
  // The error may be about another alternative.
  if (refused === undefined || used === null || quotaId(refused, 'zone') !== used.id) return null;
  const { scope, location, limit, generation, pricing } = refused;
  if (locationOf(capacity, scope) !== location) return null;
  return {
    project: capacity.project,
    id: used.id,
    scope,
    location,
    name: `${generation} ${pricing} in ${scope} ${location}`,
    limitChips: limit / used.unitsPerChip,
    limitCores: limit,
    wantedChips: used.chips,
    refusedAt,
    error: error.raw,
  };
}

function quotaUse({ accelerator: name, pricing, nodeCount = 1 }: TpuSpec) {
  const accelerator = findAccelerator(name);
  if (accelerator === undefined) return null;
  return {
    id: quotaId(quotaOf(accelerator, pricing), 'zone'),
    chips: accelerator.chips * nodeCount,
    unitsPerChip: quotaUnits(accelerator) / accelerator.chips,
  };
}

function locationOf({ zone }: TpuSpec, scope: RefusingQuota['scope']): string {
  return scope === 'zone' ? zone : regionOf(zone);
}

export interface QuotaHolders {
  /**
   * `4 of the 8 chips of v4 spot in region us-central2 are used by job 000002 (vit-000002-1, 4 chips, running); this job
   * needs 8, 4 more than are free`
   */
  readonly phrase: string;
  /** Those of the jobs that have finished and keep their TPUs, with their chips; the largest first. */
  readonly finished: readonly Holder[];
  /** The chips that the job needs beyond the free ones; not positive if enough are free. */
  readonly missing: number;
}

interface Holder {
  readonly job: Job;
  readonly chips: number;
}

/** Null if none of these jobs uses the quota. */
export function quotaHolders(quota: RefusingQuota, jobs: readonly Job[]): QuotaHolders | null {
  const holders = jobs
    .map((job) => ({ job, chips: job.allocations.reduce((sum, one) => sum + chipsOf(job, one, quota), 0) }))
    .filter(({ chips }) => chips > 0)
    .toSorted((one, other) => other.chips - one.chips);
  if (holders.length === 0) return null;
  const used = holders.reduce((sum, { chips }) => sum + chips, 0);
  const names = formatList(firstJobs(holders.map(formatHolder), maxNamedJobs));
  const missing = quota.wantedChips - (quota.limitChips - used);
  const more = missing > 0 ? `, ${missing} more than are free` : '';
  return {
    phrase: `${used} of the ${pluralize(quota.limitChips, 'chip')} of ${quota.name} are used by ${names}; this job needs ${quota.wantedChips}${more}`,
    finished: holders.filter(({ job }) => heldCapacity(job) !== null),
    missing,
  };
}

const maxNamedJobs = 3;

/** Google counts a TPU until it is deleted. */
function chipsOf({ spec }: Job, allocation: Allocation, { project, id, scope, location }: RefusingQuota): number {
  const { ownership, goneAt, alternative = 0 } = allocation;
  const capacity = capacityAt(spec.capacity, alternative);
  if (capacity.kind !== 'tpu' || capacity.project !== project || locationOf(capacity, scope) !== location) return 0;
  if (ownership === 'persistent' || goneAt !== null || isUnconfirmed(allocation)) return 0;
  const use = quotaUse(capacity);
  return use?.id === id ? use.chips : 0;
}

function formatHolder({ job, chips }: Holder): string {
  const { name } = lastAllocation(job) ?? {};
  const keeps = heldCapacity(job) === null ? '' : ' and kept';
  return `job ${job.id} (${name ?? job.spec.name}, ${pluralize(chips, 'chip')}, ${phaseOf(job)}${keeps})`;
}
