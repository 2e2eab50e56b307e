// Billing: what Google has charged, by group, and its difference from the estimate of the usage ledger.

import { compareText } from '../core/model/compare-text.ts';
import { day, utcDate, type Duration, type Instant } from '../core/model/time.ts';
import { costReport } from './cost.ts';
import type { UsageRow } from './usage.ts';

export type BillingGrouping = 'day' | 'service' | 'sku' | 'user' | 'job';

/** Aggregated rows of the export. Amounts are in `currency`. */
export interface BilledRow {
  /** `2026-11-20`, in UTC. */
  readonly day: string;
  readonly service: string | null;
  readonly sku: string | null;
  readonly project: string | null;
  /** Our labels on the resource; null without them. */
  readonly installation: string | null;
  readonly job: string | null;
  /** `USD`. */
  readonly currency: string;
  /** Before credits. */
  readonly cost: number;
  /** Negative. */
  readonly credits: number;
  /** Cost and credits in US dollars, at the conversion rate of the export; null without a rate. */
  readonly netUsd: number | null;
}

/** A charge in one currency. Amounts in different currencies are never added. */
export interface BilledAmount {
  /** `USD`, `EUR`. */
  readonly currency: string;
  /** Before credits. */
  readonly costAmount: number;
  /** Discounts and other credits: negative. */
  readonly creditsAmount: number;
  /** The sum of both: what Google charges. */
  readonly netAmount: number;
}

/** Billed and estimated costs of the TPUs of jobs on the same days, in US dollars. */
export interface BillingComparison {
  /** Charged for resources with the label of a job. Null without an export or without a conversion rate. */
  readonly billedUsd: number | null;
  /** By list prices or prices of the settings. Null if nothing has a price. */
  readonly estimateUsd: number | null;
  /** Allocated time without a price: the estimate does not contain it. */
  readonly unpricedMs: Duration;
  /** Billed minus estimated. Null if one of them is missing. */
  readonly differenceUsd: number | null;
}

/** A field that the report is not grouped by is null. */
export interface BillingGroup {
  /** `2026-11-20`, in UTC. */
  readonly day: string | null;
  /** Google's name of the service: `Cloud TPU`. */
  readonly service: string | null;
  /** Google's description of the SKU. */
  readonly sku: string | null;
  /** The owner of the job; null for charges without a job of this installation. */
  readonly user: string | null;
  /** Id of the job; null for charges without a job of this installation. */
  readonly job: string | null;
  /** Name of the job. */
  readonly name: string | null;
  /** One entry for each currency; empty if the export has no charge. */
  readonly billed: readonly BilledAmount[];
  /** Null for services and SKUs, which an estimate does not have, and if nothing can be compared. */
  readonly comparison: BillingComparison | null;
}

export interface BillingReport {
  /** The kinds of the groups. */
  readonly by: readonly BillingGrouping[];
  readonly since: Instant;
  readonly until: Instant;
  /** In the order of days, then the most expensive first. */
  readonly groups: readonly BillingGroup[];
  readonly billed: readonly BilledAmount[];
  /** Null if nothing can be compared. */
  readonly comparison: BillingComparison | null;
  /** The days that are compared: from the first usage in the export to the last day that is complete. Null for none. */
  readonly compared: { readonly since: Instant; readonly until: Instant } | null;
  /** Dates of the price tables of the estimates, and `settings`; sorted. */
  readonly prices: readonly string[];
}

export interface BillingParts {
  readonly by: readonly BillingGrouping[];
  /** Midnight in UTC. */
  readonly since: Instant;
  /** Midnight in UTC. */
  readonly until: Instant;
  /** Null without an export: the report then has estimates only. */
  readonly exported: {
    readonly rows: readonly BilledRow[];
    readonly firstUsageAt: Instant | null;
    readonly exportedAt: Instant | null;
  } | null;
  /** The ledger's rows that overlap the period. */
  readonly usage: readonly UsageRow[];
  /** Null before the first job. */
  readonly installation: string | null;
  readonly now: Instant;
}

/**
 * Google's services report usage within a day, some later, so the days before this age count as complete.
 * https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables#data-loads
 */
const completeAfter: Duration = day;

export function billingReport(parts: BillingParts): BillingReport {
  const { by, since, until, exported, usage, installation } = parts;
  const jobs = new Map(usage.map((row) => [row.job, row]));
  const compared = comparedPeriod(parts);
  const isComparable = by.every((one) => one === 'day' || one === 'user' || one === 'job');
  const groups = new Map<string, Group>();
  const total = newGroup(ungrouped);

  const groupOf = (about: GroupAbout): Group => {
    const key = JSON.stringify(by.map((one) => about[one]));
    const known = groups.get(key);
    if (known !== undefined) return known;
    const named = by.includes('job') ? { name: about.name } : {};
    const group = newGroup({ ...ungrouped, ...Object.fromEntries(by.map((one) => [one, about[one]])), ...named });
    groups.set(key, group);
    return group;
  };

  for (const row of exported?.rows ?? []) {
    const job = installation !== null && row.installation === installation ? row.job : null;
    const known = job === null ? undefined : jobs.get(job);
    const about = { ...row, job, user: known?.owner ?? null, name: known?.jobName ?? null };
    const isCompared = job !== null && isWithin(compared, Date.parse(row.day));
    for (const group of [groupOf(about), total]) addBilled(group, row, isCompared);
  }
  const prices = new Set<string>();
  for (const one of compared === null ? [] : estimates(parts, compared)) {
    for (const price of one.prices) prices.add(price);
    for (const group of isComparable ? [groupOf(one), total] : [total]) addEstimate(group, one);
  }

  const hasBill = exported !== null;
  return {
    by,
    since,
    until,
    groups: [...groups.values()]
      .map((group) => finished(group, isComparable ? compared : null, hasBill))
      .toSorted(compareGroups),
    billed: [...total.billed].map(netAmount),
    comparison: compared === null ? null : comparisonOf(total, hasBill),
    compared,
    prices: [...prices].toSorted(),
  };
}

function isWithin(period: BillingReport['compared'], at: Instant): boolean {
  return period !== null && at >= period.since && at < period.until;
}

/** Days without a whole export would show a difference that later disappears. */
function comparedPeriod({ since, until, exported }: BillingParts): BillingReport['compared'] {
  if (exported === null) return { since, until };
  const { firstUsageAt, exportedAt } = exported;
  if (firstUsageAt === null || exportedAt === null) return null;
  const from = Math.max(since, startOfDay(firstUsageAt));
  const end = Math.min(until, startOfDay(exportedAt - completeAfter));
  return from < end ? { since: from, until: end } : null;
}

function startOfDay(at: Instant): Instant {
  return Math.floor(at / day) * day;
}

type GroupAbout = Pick<BillingGroup, BillingGrouping | 'name'>;

/** The fields of a group of everything. */
export const ungrouped: GroupAbout = { day: null, service: null, sku: null, user: null, job: null, name: null };

/** Changes while a report is made. */
interface Group extends GroupAbout {
  readonly billed: Map<string, { cost: number; credits: number }>;
  /** Of jobs, on the compared days. */
  billedUsd: number | null;
  estimate: { usd: number; priced: boolean; unpricedMs: Duration };
  /** True if it has a charge or an estimate of a job on the compared days. */
  hasJob: boolean;
}

function newGroup(about: GroupAbout): Group {
  return {
    ...about,
    billed: new Map(),
    billedUsd: 0,
    estimate: { usd: 0, priced: false, unpricedMs: 0 },
    hasJob: false,
  };
}

function addBilled(group: Group, { currency, cost, credits, netUsd }: BilledRow, isCompared: boolean): void {
  const sum = group.billed.get(currency) ?? { cost: 0, credits: 0 };
  sum.cost += cost;
  sum.credits += credits;
  group.billed.set(currency, sum);
  if (!isCompared) return;
  group.hasJob = true;
  group.billedUsd = group.billedUsd === null || netUsd === null ? null : group.billedUsd + netUsd;
}

interface JobEstimate extends GroupAbout {
  readonly usd: number | null;
  readonly unpricedMs: Duration;
  readonly prices: readonly string[];
}

function addEstimate(group: Group, { usd, unpricedMs }: JobEstimate): void {
  const { estimate } = group;
  group.hasJob = true;
  estimate.usd += usd ?? 0;
  estimate.priced ||= usd !== null;
  estimate.unpricedMs += unpricedMs;
}

/** Of each day and job. Only TPUs have our labels in a bill, and the TPU emulator has none. */
function estimates({ usage, now }: BillingParts, period: { readonly since: Instant; readonly until: Instant }) {
  const rows = usage.filter(({ source, simulated }) => source === 'tpu' && !simulated);
  const result: JobEstimate[] = [];
  for (let at = period.since; at < Math.min(period.until, now); at += day) {
    const isToday = ({ from, until }: UsageRow): boolean => from < at + day && (until ?? now) > at;
    const { groups, prices } = costReport(rows.filter(isToday), { by: 'job', since: at, until: at + day }, now);
    for (const { key: job, name, owner: user, held } of groups) {
      if (held.durationMs === 0) continue;
      const about = { day: utcDate(at), service: null, sku: null, user, job, name };
      result.push({ ...about, usd: held.estimateUsd, unpricedMs: held.unpricedMs, prices });
    }
  }
  return result;
}

function finished(group: Group, compared: BillingReport['compared'], hasBill: boolean): BillingGroup {
  const { billed, billedUsd: _usd, estimate: _estimate, hasJob, ...about } = group;
  const isCompared = hasJob && compared !== null;
  return {
    ...about,
    billed: [...billed].map(netAmount),
    comparison: isCompared ? comparisonOf(group, hasBill) : null,
  };
}

function comparisonOf({ billedUsd, estimate }: Group, hasBill: boolean): BillingComparison {
  const { usd, priced, unpricedMs } = estimate;
  const billed = hasBill ? billedUsd : null;
  const estimateUsd = priced || unpricedMs === 0 ? usd : null;
  const differenceUsd = billed === null || estimateUsd === null ? null : billed - estimateUsd;
  return { billedUsd: billed, estimateUsd, unpricedMs, differenceUsd };
}

function netAmount([currency, { cost, credits }]: readonly [
  string,
  { readonly cost: number; readonly credits: number },
]): BilledAmount {
  return { currency, costAmount: cost, creditsAmount: credits, netAmount: cost + credits };
}

function compareGroups(one: BillingGroup, other: BillingGroup): number {
  return compareText(one.day ?? '', other.day ?? '') || amountOf(other) - amountOf(one);
}

function amountOf({ billed, comparison }: BillingGroup): number {
  return billed[0]?.netAmount ?? comparison?.estimateUsd ?? 0;
}
