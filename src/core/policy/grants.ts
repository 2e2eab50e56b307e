// Grants: the capacity that each entry of the setting `grants` allows, and the budget that it sets for each user. Every
// budget that matches a job limits it, so that another grant cannot lift a limit of money.
//
// Persistent TPUs cost a job nothing and need no grant. The dollars of the TPU emulator count separately: a user can try a
// budget there without spending it.

import { chipCount, generationOf } from '../../catalogue/accelerators.ts';
import {
  allocationOf,
  heldAllocations,
  isDesiredRunning,
  openAttempt,
  type BudgetPeriod,
  type Job,
} from '../model/job.ts';
import type { OwnerSpending } from '../model/observation.ts';
import { alternativesOf, capacityAt, isSimulated, type JobSpec, type Pricing, type TpuSpec } from '../model/spec.ts';
import { day, type Instant } from '../model/time.ts';
import type { UserName } from '../model/user.ts';

/** An entry of the setting `grants`. An absent field matches everything. */
export interface Grant {
  /** A zone or a pattern with stars. */
  readonly zone?: string;
  /** A type, a generation or a pattern with stars. */
  readonly accelerator?: string;
  readonly pricing?: Pricing;
  /** That all jobs together may hold. */
  readonly chips?: number;
  /** The last day, or the time at which it ends. */
  readonly until?: string;
  /** For each user and period. */
  readonly budgetUsd?: number;
  readonly budgetPeriod?: BudgetPeriod;
}

/** The part of a capacity that decides whether a grant matches it. */
type GrantedCapacity = Pick<TpuSpec, 'zone' | 'accelerator' | 'pricing'>;

/** The spending of a user on one kind of capacity, in US dollars. */
export interface UserSpending {
  /** Every owner name of the user. */
  readonly owners: readonly UserName[];
  readonly accelerator: string;
  readonly zone: string;
  readonly pricing: Pricing;
  readonly simulated: boolean;
  /** Since the start of each current period. */
  readonly spentUsd: Readonly<Record<BudgetPeriod, number>>;
  /** Per hour, now. */
  readonly rateUsd: number;
}

export function grantMatches(grant: Grant, { zone, accelerator, pricing }: GrantedCapacity): boolean {
  return (
    (grant.zone === undefined || matchesPattern(zone, grant.zone)) &&
    (grant.pricing === undefined || grant.pricing === pricing) &&
    (grant.accelerator === undefined ||
      matchesPattern(accelerator, grant.accelerator) ||
      generationOf(accelerator)?.name === grant.accelerator)
  );
}

/** A pattern has only letters, digits, `-` and `*`, as the settings require. */
function matchesPattern(name: string, pattern: string): boolean {
  return new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(name);
}

export function isGrantValid({ until }: Grant, now: Instant): boolean {
  return until === undefined || now < grantEnd(until);
}

/** The first time after the grant; NaN for an invalid text. */
export function grantEnd(until: string): Instant {
  const [, date = '', time] = /^(\d{4}-\d\d-\d\d)(T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/.exec(until) ?? [];
  const midnight = Date.parse(date);
  // Date.parse silently turns 30 February into 2 March.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return Number.NaN;
  return time === undefined ? midnight + day : Date.parse(until);
}

/** Capacity that counts against the chips of a grant. */
export interface HeldCapacity extends Pick<TpuSpec, 'accelerator' | 'zone' | 'pricing'> {
  /** The id. */
  readonly job: string;
  /** Null for a type that the catalogue does not know. */
  readonly chips: number | null;
}

/** The held capacity, or else the next request, so that a job created just now counts. */
export function heldCapacity(job: Job): readonly HeldCapacity[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent' || isSimulated(capacity)) return [];
  const held = heldAllocations(job).map(({ alternative = 0 }) => capacityAt(capacity, alternative));
  const counted = held.length > 0 ? held : isDesiredRunning(job) ? [capacity] : [];
  return counted.map(({ accelerator, zone, pricing, nodeCount }) => ({
    job: job.id,
    accelerator,
    zone,
    pricing,
    chips: chipCount(accelerator, nodeCount),
  }));
}

/** `spot v4-* in us-*`, `all TPUs`. */
function formatGrant({ accelerator, zone, pricing }: Grant): string {
  const type = [pricing, accelerator].filter((part) => part !== undefined).join(' ');
  const where = zone === undefined ? '' : ` in ${zone}`;
  return `${accelerator === undefined ? `${type === '' ? 'all' : type} TPUs` : type}${where}`;
}

// ------------------------------------------------------------------------------------------ budgets of users

/** The start of the current periods of the calendar, in UTC. A week begins on Monday. */
export function periodStarts(now: Instant): Readonly<Record<BudgetPeriod, Instant>> {
  const today = now - (now % day);
  const date = new Date(today);
  const sinceMonday = (date.getUTCDay() + 6) % 7;
  return { day: today, week: today - sinceMonday * day, month: Date.UTC(date.getUTCFullYear(), date.getUTCMonth()) };
}

function periodEnd(period: BudgetPeriod, now: Instant): Instant {
  const start = periodStarts(now)[period];
  if (period !== 'month') return start + (period === 'day' ? day : 7 * day);
  const date = new Date(start);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
}

/** The owner's spending for each budget that matches one of these TPUs. `spending` was read at `now`. */
export function ownerSpendingOf(
  grants: readonly Grant[],
  owner: string,
  capacity: readonly TpuSpec[],
  spending: readonly UserSpending[],
  now: Instant,
): readonly OwnerSpending[] {
  return grants.flatMap((grant) => {
    const { budgetUsd, budgetPeriod: period = 'month' } = grant;
    const limited = capacity.find((one) => one.ownership === 'ephemeral' && grantMatches(grant, one));
    if (budgetUsd === undefined || limited === undefined || !isGrantValid(grant, now)) return [];
    const counted = spending.filter(
      (one) => one.owners.includes(owner) && one.simulated === isSimulated(limited) && grantMatches(grant, one),
    );
    const sum = (amountOf: (one: UserSpending) => number) => counted.reduce((total, one) => total + amountOf(one), 0);
    return {
      spentUsd: sum(({ spentUsd }) => spentUsd[period]),
      budgetUsd,
      rateUsd: sum(({ rateUsd }) => rateUsd),
      ownerBudget: { grant: formatGrant(grant), period, endsAt: periodEnd(period, now) },
    };
  });
}

/** The TPUs that a job holds or requests now. */
export function currentCapacity(job: Job): readonly TpuSpec[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu') return [];
  const attempt = openAttempt(job);
  const current = attempt === undefined ? [] : [allocationOf(job, attempt.allocation)];
  const used = new Set([...heldAllocations(job), ...current].map(({ alternative = 0 }) => alternative));
  return [...used].map((alternative) => capacityAt(capacity, alternative));
}

/** All TPUs that a job with this spec may request. */
export function possibleCapacity({ capacity }: JobSpec): readonly TpuSpec[] {
  if (capacity.kind !== 'tpu') return [];
  return [...alternativesOf(capacity).keys()].map((alternative) => capacityAt(capacity, alternative));
}

/** True if a budget of any owner matches one of these TPUs. */
export function hasBudget(grants: readonly Grant[], capacity: readonly TpuSpec[], now: Instant): boolean {
  return ownerSpendingOf(grants, '', capacity, [], now).length > 0;
}
