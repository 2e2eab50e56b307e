// The texts of a cost report: its title, the columns of its table, and its notes.

import { day, hour, utcDate, type Duration, type Instant } from '../core/model/time.ts';
import {
  usageUses,
  type CostAmount,
  type CostGroup,
  type CostGrouping,
  type CostReport,
  type CostRest,
  type CostTotal,
} from '../reports/cost.ts';
import type { CostRequest } from './client.ts';
import { csvNumber } from './csv.ts';
import { formatNoPrice, formatPrices, freeMinute } from './cost-table.ts';
import { escapeLine, formatAmount, formatHours, formatTime, pluralize } from './format.ts';
import type { ReportColumn } from './report-columns.ts';

export interface CostTitle {
  readonly report: CostReport;
  readonly request: CostRequest;
  /** The jobs of the request, such as `job 000001`. Empty: all. */
  readonly jobs: readonly string[];
  /** The user gave no period. */
  readonly isDefaultPeriod: boolean;
  readonly now: Instant;
}

/** `Estimated cost of all jobs in the last 30 days, by job, with the list prices of 2026-08-01.` */
export function costTitle(title: CostTitle): string {
  const { by, prices, totals } = title.report;
  const subject = `${formatSubject(title)} ${formatPeriod(title)}, by ${by}`;
  if (prices.length === 0) return `Usage of ${subject}. ${formatNoPrice(totals.map(({ held }) => held))}`;
  return `Estimated cost of ${subject}, with ${formatPrices(prices)}.`;
}

/** `firstAt`: the first usage in any period, if there is any. */
export function formatNoUsage(title: CostTitle, firstAt: Instant | null): string {
  const first = firstAt === null ? '' : ` The first usage began on ${formatTime(firstAt, title.now)}.`;
  return `No usage of ${formatSubject(title, 'any job')} ${formatPeriod(title)}.${first}`;
}

function formatSubject({ jobs, request: { user, name, tag, accelerator, zone } }: CostTitle, all = 'all jobs'): string {
  const [first, ...others] = jobs;
  const parts = [
    first === undefined ? all : others.length === 0 ? first : pluralize(others.length + 1, 'job'),
    ...(name === undefined ? [] : [`named ${name}`]),
    ...(user === undefined ? [] : [`of ${user}`]),
    ...(tag === undefined ? [] : [`tagged ${tag}`]),
    ...(accelerator === undefined ? [] : [`on ${accelerator}`]),
    ...(zone === undefined ? [] : [`in ${zone}`]),
  ];
  return escapeLine(parts.join(' '));
}

function formatPeriod({ report: { beginsAt, endsAt }, isDefaultPeriod, now }: CostTitle): string {
  if (isDefaultPeriod) return 'in the last 30 days';
  const end = formatTime(endsAt, now);
  if (beginsAt === null) return endsAt >= now ? 'so far' : `until ${end}`;
  return endsAt >= now ? `since ${formatTime(beginsAt, now)}` : `from ${formatTime(beginsAt, now)} to ${end}`;
}

/** The sentences below the table. */
export function costNotes({ overlapping, olderThanPrices, totals }: CostReport): readonly string[] {
  return [
    ...(overlapping ? ['A job with several tags counts in each of them. The total counts it once.'] : []),
    ...(olderThanPrices ? ['Some of this usage is older than the prices of its estimate.'] : []),
    ...(totals.some(({ simulated }) => simulated)
      ? ['Simulated: the TPU emulator. It is free; the estimate is the price of the same TPUs at Google.']
      : []),
    ...(totals.some(({ held }) => held.freeMs > 0) ? [freeMinute] : []),
    ...(totals.some(({ held }) => held.unpricedMs > 0)
      ? ['Not priced: there is no list price. The setting `prices` adds your own prices (docs/costs.md).']
      : []),
  ];
}

/** A group, the groups beyond the limit, or a total. */
export type CostRow = CostGroup | CostRest | CostTotal;

/** The title of the first column, and its cell for a group without a key. */
const keys: Readonly<Record<CostGrouping, readonly [title: string, withoutKey: string]>> = {
  job: ['JOB', '-'],
  user: ['USER', '-'],
  tag: ['TAG', '(no tag)'],
  accelerator: ['ACCELERATOR', '(no accelerator)'],
  zone: ['ZONE', 'this machine'],
  day: ['DAY', '-'],
};

export function costColumns(by: CostGrouping): readonly ReportColumn<CostRow>[] {
  const [title, withoutKey] = keys[by];
  const text = (of: (group: CostGroup) => string | null) => (row: CostRow) => ('key' in row ? (of(row) ?? '-') : '');
  return [
    {
      title,
      text: (row) => {
        const name = 'key' in row ? (row.key ?? withoutKey) : 'count' in row ? `${row.count} more` : 'total';
        return row.simulated && (by !== 'job' || !('key' in row)) ? `${name} (simulated)` : name;
      },
    },
    ...(by === 'job'
      ? [
          { title: 'NAME', text: text(({ name, cluster }) => cluster ?? name) },
          { title: 'USER', text: text(({ owner }) => owner) },
        ]
      : []),
    hours('HOURS', ({ held }) => held.durationMs),
    hours('CHIP-HOURS', ({ held }) => held.chipMs),
    {
      title: 'ESTIMATE',
      side: 'right',
      text: formatEstimate,
      csv: (row) => dollarsOf(row.held) ?? formatEstimate(row),
      csvTitle: 'estimate_usd',
    },
    ...usageUses.map((use): ReportColumn<CostRow> =>
      use === 'waiting'
        ? { ...hours('WAITING', ({ waiting }) => waiting.durationMs), text: ({ waiting }) => formatTimeOf(waiting) }
        : {
            title: use.toUpperCase(),
            side: 'right',
            text: ({ [use]: amount }) => formatAmount(amount),
            csv: ({ [use]: amount }) => dollarsOf(amount) ?? formatAmount(amount),
            csvTitle: `${use}_usd`,
          },
    ),
  ];
}

function hours(title: string, of: (row: CostRow) => Duration): ReportColumn<CostRow> {
  return {
    title,
    side: 'right',
    text: (row) => formatHours(of(row)),
    csv: (row) => csvNumber(of(row) / hour),
    csvTitle: title === 'WAITING' ? 'waiting_hours' : title.toLowerCase().replace('-', '_'),
  };
}

/** Null if a part has no price. */
function dollarsOf({ durationMs, estimateUsd, unpricedMs }: CostAmount): number | null {
  if (unpricedMs > 0) return null;
  return durationMs === 0 ? 0 : csvNumber(estimateUsd);
}

/** The estimates of a report by day, with the days between that have none; of simulated TPUs if there are no others. */
export function costsOfDays({ groups, totals: [real] }: CostReport): {
  readonly days: readonly string[];
  readonly usd: readonly number[];
  readonly simulated: boolean;
} {
  const simulated = real.held.durationMs === 0;
  const byDay = new Map(
    groups.filter((group) => group.simulated === simulated).map(({ key, held }) => [key ?? '', held.estimateUsd ?? 0]),
  );
  const dates = [...byDay.keys()].toSorted();
  const [first, last] = [Date.parse(dates[0] ?? ''), Date.parse(dates.at(-1) ?? '')];
  const count = Number.isNaN(first) ? 0 : Math.round((last - first) / day) + 1;
  const days = Array.from({ length: count }, (_, index) => utcDate(first + index * day));
  return { days, usd: days.map((date) => byDay.get(date) ?? 0), simulated };
}

/** Dollars; `not priced`, alone or with the time that has no price; `-` for no time. */
export function formatEstimate({ held, simulated }: CostRow): string {
  const isUnpriced = held.durationMs > 0 && held.estimateUsd === null;
  return `${isUnpriced ? 'not priced' : formatAmount(held, ' not priced')}${simulated ? ' (simulated)' : ''}`;
}

function formatTimeOf({ durationMs }: CostAmount): string {
  return durationMs === 0 ? '-' : `${formatHours(durationMs)}h`;
}
