// Cost: what jobs have used and its estimated price, by group and by use of the capacity.

import { day, hour, utcDate, type Duration, type Instant } from '../core/model/time.ts';
import type { UsageRow } from './usage.ts';

export type CostGrouping = 'job' | 'user' | 'tag' | 'accelerator' | 'zone' | 'day';

/** The uses of capacity, in the order of reports. */
export const usageUses = [
  'useful',
  'lost',
  'setup',
  'idle',
  'kept',
  'waiting',
] as const satisfies readonly UsageRow['use'][];

export interface CostQuery {
  readonly by: CostGrouping;
  /** Absent: from the first usage. */
  readonly since?: Instant;
  /** Absent, or in the future: until now. */
  readonly until?: Instant;
  /** The number of groups; the others are counted together. Absent: all. */
  readonly limit?: number;
}

/** Sums over several allocations. */
export interface CostAmount {
  /** Time of all allocations together. */
  readonly durationMs: Duration;
  /** Chips (TPU chips or GPUs) × time; capacity without chips adds nothing. An hour of four chips is 14,400,000. */
  readonly chipMs: Duration;
  /** Estimated dollars of the part that has a price. Null if no part of `durationMs` has one. */
  readonly estimateUsd: number | null;
  /** The part of `durationMs` without a price. */
  readonly unpricedMs: Duration;
  /** The part of `durationMs` that Google does not charge: it preempted the TPU within a minute. */
  readonly freeMs: Duration;
}

/** The uses of capacity. No time counts in two of them. */
export interface CostSplit {
  /** All time in which capacity was held: the sum of the other amounts without `waiting`. */
  readonly held: CostAmount;
  /** The command ran, and its work is kept. */
  readonly useful: CostAmount;
  /** The command ran, and its work since the last checkpoint was lost. */
  readonly lost: CostAmount;
  /** Ready, before the command ran. */
  readonly setup: CostAmount;
  /** Ready, and no attempt used it. */
  readonly idle: CostAmount;
  /** Ready after the job had finished. */
  readonly kept: CostAmount;
  /** Requested and not ready yet, which is not charged; chips are those of the request. */
  readonly waiting: CostAmount;
}

/** The uses with some time, without `waiting`, in which no capacity is held. */
export function heldUses(split: CostSplit): readonly Exclude<(typeof usageUses)[number], 'waiting'>[] {
  return usageUses.filter((use) => use !== 'waiting').filter((use) => split[use].durationMs > 0);
}

export interface CostGroup extends CostSplit {
  /**
   * By `by`: job id, for a job in a cluster its name; user; tag; accelerator type or flavor; zone or `context/namespace`;
   * day in UTC. Null without one, such as the zone of this machine.
   */
  readonly key: string | null;
  /** The name of the job; null in other groupings. */
  readonly name: string | null;
  /** The owner of the job; null in other groupings, or if another tool made the job. */
  readonly owner: string | null;
  /** `context/namespace` of a job in a cluster; null in other groupings. */
  readonly cluster: string | null;
  /** The uid of a job in a cluster; null in other groupings. */
  readonly uid: string | null;
  /** True on the TPU emulator, which is free: `estimateUsd` is then the price of the same TPUs at Google. */
  readonly simulated: boolean;
}

/** The groups beyond the limit. */
export interface CostRest extends CostSplit {
  readonly simulated: boolean;
  /** Number of groups. */
  readonly count: number;
}

export interface CostTotal extends CostSplit {
  readonly simulated: boolean;
}

export interface CostReport {
  /** The kind of the groups. */
  readonly by: CostGrouping;
  /** The first usage if the query has no beginning; null if there is none either. */
  readonly beginsAt: Instant | null;
  /** The end of the query; now if that is later or absent. */
  readonly endsAt: Instant;
  /** The dates of the price tables of all estimates (`2026-08-01`), and `settings` for own prices; sorted. */
  readonly prices: readonly string[];
  /** True if some usage is older than the price table of its estimate. */
  readonly olderThanPrices: boolean;
  /** True if a job has several tags and counts in each of these groups. The totals count it once. */
  readonly overlapping: boolean;
  /** Most expensive first, simulated last; days in order. */
  readonly groups: readonly CostGroup[];
  /** The groups beyond `limit`: at most one entry for real and one for simulated capacity. */
  readonly rest: readonly CostRest[];
  /** Of real capacity; then of simulated capacity, if there is any. */
  readonly totals: readonly [CostTotal, ...CostTotal[]];
}

// ------------------------------------------------------------------------------------------ usage, added up

interface Sum {
  readonly durationMs: Duration;
  readonly chipMs: Duration;
  /** Estimated dollars of the part with a price. */
  readonly usd: number;
  readonly unpricedMs: Duration;
  readonly freeMs: Duration;
}

/** One use of capacity in one group: a row of the ledger, or many rows that the database has added up. */
export interface UsageSum extends Sum, Omit<CostGroup, keyof CostSplit> {
  readonly use: UsageRow['use'];
  readonly pricesOf: string | null;
  readonly firstAt: Instant;
}

/** Each row as a sum. By day, rows are divided at midnight; by tag, a row counts once for each of its tags. */
function sumsOf(rows: readonly UsageRow[], query: CostQuery, now: Instant): readonly UsageSum[] {
  const { by, since, until = now } = query;
  return rows.flatMap((row) => {
    const from = Math.max(row.from, since ?? row.from);
    const end = Math.min(row.until ?? now, until, now);
    if (end <= from) return [];
    if (by === 'day') return daysOf(from, end).map((part) => sumOf(row, part.from, part.until, part.date));
    if (by === 'tag' && row.tags.length > 0) return [...new Set(row.tags)].map((tag) => sumOf(row, from, end, tag));
    const { job, uid, source, owner, jobName, accelerator, location } = row;
    const key = { job, user: owner, accelerator, zone: location, tag: null }[by];
    const sum = sumOf(row, from, end, key);
    return by === 'job'
      ? { ...sum, name: jobName, owner, cluster: source === 'kubernetes' ? location : null, uid }
      : sum;
  });
}

function sumOf(row: UsageRow, from: Instant, until: Instant, key: string | null): UsageSum {
  const { use, simulated, pricesOf, chips, pricePerHourUsd } = row;
  const durationMs = until - from;
  return {
    key,
    name: null,
    owner: null,
    cluster: null,
    uid: null,
    simulated,
    use,
    pricesOf,
    firstAt: from,
    durationMs,
    chipMs: (chips ?? 0) * durationMs,
    usd: ((pricePerHourUsd ?? 0) * durationMs) / hour,
    unpricedMs: pricePerHourUsd === null ? durationMs : 0,
    freeMs: use !== 'waiting' && pricePerHourUsd === 0 && pricesOf === null ? durationMs : 0,
  };
}

interface Part {
  readonly date: string;
  readonly from: Instant;
  readonly until: Instant;
}

function daysOf(from: Instant, until: Instant): readonly Part[] {
  const parts: Part[] = [];
  for (let at = from; at < until;) {
    const end = Math.min(until, (Math.floor(at / day) + 1) * day);
    parts.push({ date: utcDate(at), from: at, until: end });
    at = end;
  }
  return parts;
}

// ------------------------------------------------------------------------------------------ reports

/** Usage that crosses the border of the period or of a day (in UTC) is divided there. `now` ends usage that continues. */
export function costReport(rows: readonly UsageRow[], query: CostQuery, now: Instant): CostReport {
  const sums = sumsOf(rows, query, now);
  return reportOf(sums, query, now, query.by === 'tag' ? { totals: sumsOf(rows, { ...query, by: 'user' }, now) } : {});
}

interface OtherSums {
  /** The sums of the totals, if `sums` has some usage twice. */
  readonly totals?: readonly UsageSum[];
  /** Sums of groups that are beyond the limit, and the number of these groups. */
  readonly rest?: readonly UsageSum[];
  readonly restCounts?: { readonly real: number; readonly simulated: number };
}

/** The report of sums within the period of the query. */
export function reportOf(
  sums: readonly UsageSum[],
  query: CostQuery,
  now: Instant,
  { rest = [], restCounts = { real: 0, simulated: 0 }, totals = [...sums, ...rest] }: OtherSums = {},
): CostReport {
  const { by, since, until = now, limit } = query;
  const groups = [...Map.groupBy(sums, groupId).values()]
    .map(groupOf)
    .toSorted(by === 'day' ? compareKeys : compareCosts);
  const hidden = limit === undefined ? [] : groups.slice(limit);
  const hiddenSums = [...hidden.flatMap((group) => group.sums), ...rest];
  const countOf = (simulated: boolean): number =>
    hidden.filter(({ about }) => about.simulated === simulated).length +
    (simulated ? restCounts.simulated : restCounts.real);
  const estimates = totals.filter(({ use, pricesOf }) => use !== 'waiting' && pricesOf !== null);
  const beginsAt = since ?? totals.reduce((first, { firstAt }) => Math.min(first, firstAt), Number.POSITIVE_INFINITY);
  return {
    by,
    beginsAt: Number.isFinite(beginsAt) ? beginsAt : null,
    endsAt: Math.min(until, now),
    prices: [...new Set(estimates.flatMap(({ pricesOf }) => pricesOf ?? []))].toSorted(),
    olderThanPrices: estimates.some(({ firstAt, pricesOf }) => firstAt < Date.parse(pricesOf ?? '')),
    overlapping: timeOf(totals) < timeOf([...sums, ...rest]),
    groups: groups.slice(0, limit).map(({ about, sums: own }) => ({ ...about, ...splitOf(own) })),
    rest: [false, true].flatMap((simulated) =>
      countOf(simulated) === 0
        ? []
        : [
            {
              simulated,
              count: countOf(simulated),
              ...splitOf(hiddenSums.filter((sum) => sum.simulated === simulated)),
            },
          ],
    ),
    totals: [totalOf(totals, false), ...(totals.some(({ simulated }) => simulated) ? [totalOf(totals, true)] : [])],
  };
}

/** The cost of one job. */
export interface JobCost extends CostTotal {
  /** As in `CostReport`. */
  readonly prices: readonly string[];
}

/** All of these rows are of one job, which is either simulated or not. */
export function jobCost(rows: readonly UsageRow[], now: Instant): JobCost {
  return reportedJobCost(costReport(rows, { by: 'job' }, now));
}

/** The report is about one job. */
export function reportedJobCost({ totals, prices }: Pick<CostReport, 'totals' | 'prices'>): JobCost {
  const [real, simulated = real] = totals;
  return { ...simulated, prices };
}

function groupId({ key, uid, simulated }: Pick<CostGroup, 'key' | 'uid' | 'simulated'>): string {
  return `${simulated} ${uid ?? ''} ${key === null ? '' : `=${key}`}`;
}

interface Group {
  readonly about: Omit<CostGroup, keyof CostSplit>;
  readonly sums: readonly UsageSum[];
  /** Without waiting. */
  readonly heldMs: Duration;
  readonly usd: number;
}

function groupOf(sums: readonly UsageSum[]): Group {
  const { key, name, owner, cluster, uid, simulated } = sums[0] ?? {
    key: null,
    name: null,
    owner: null,
    cluster: null,
    uid: null,
    simulated: false,
  };
  let [heldMs, usd] = [0, 0];
  for (const sum of sums) {
    if (sum.use === 'waiting') continue;
    heldMs += sum.durationMs;
    usd += sum.usd;
  }
  return { about: { key, name, owner, cluster, uid, simulated }, sums, heldMs, usd };
}

function timeOf(sums: readonly Sum[]): Duration {
  return sums.reduce((sum, { durationMs }) => sum + durationMs, 0);
}

function totalOf(sums: readonly UsageSum[], simulated: boolean): CostTotal {
  return { simulated, ...splitOf(sums.filter((sum) => sum.simulated === simulated)) };
}

function splitOf(sums: readonly UsageSum[]): CostSplit {
  const byUse = Map.groupBy(sums, ({ use }) => use);
  const amount = (use: UsageRow['use']): CostAmount => amountOf(byUse.get(use) ?? []);
  return {
    held: amountOf(sums.filter(({ use }) => use !== 'waiting')),
    useful: amount('useful'),
    lost: amount('lost'),
    setup: amount('setup'),
    idle: amount('idle'),
    kept: amount('kept'),
    waiting: amount('waiting'),
  };
}

function amountOf(sums: readonly Sum[]): CostAmount {
  let [durationMs, chipMs, usd, unpricedMs, freeMs] = [0, 0, 0, 0, 0];
  for (const sum of sums) {
    durationMs += sum.durationMs;
    chipMs += sum.chipMs;
    usd += sum.usd;
    unpricedMs += sum.unpricedMs;
    freeMs += sum.freeMs;
  }
  const isUnpriced = durationMs > 0 && unpricedMs === durationMs;
  return { durationMs, chipMs, estimateUsd: isUnpriced ? null : usd, unpricedMs, freeMs };
}

type Ordered = Pick<Group, 'heldMs' | 'usd'> & { readonly about: Pick<CostGroup, 'simulated' | 'key' | 'uid'> };

function compareKeys({ about: one }: Ordered, { about: other }: Ordered): number {
  const textOf = ({ key, uid }: Ordered['about']): string => `${key ?? ''} ${uid ?? ''}`;
  return Number(one.simulated) - Number(other.simulated) || (textOf(one) < textOf(other) ? -1 : 1);
}

/** Equal costs in the order of the keys. */
function compareCosts(one: Ordered, other: Ordered): number {
  const bySimulation = Number(one.about.simulated) - Number(other.about.simulated);
  return bySimulation || other.usd - one.usd || other.heldMs - one.heldMs || compareKeys(one, other);
}
