// The report of `jobman cost`: as a table, as CSV and as JSON, each with the same rows.

import { formatNoPrice, formatPrices, freeMinute } from '../../app/cost-table.ts';
import type { CostRequest } from '../../app/client.ts';
import { escapeLine, formatAmount, formatHours, formatTime, pluralize } from '../../app/format.ts';
import { hour, type Instant } from '../../core/model/time.ts';
import {
  heldUses,
  usageUses,
  type CostAmount,
  type CostGroup,
  type CostGrouping,
  type CostReport,
  type CostRest,
  type CostSplit,
  type CostTotal,
} from '../../reports/cost.ts';
import type { CostOutput } from '../outputs.ts';
import { fittedTable, type Column } from './aligned.ts';
import { wrap } from './cell.ts';
import { csvLines, csvNumber } from './csv.ts';

interface Title {
  readonly report: CostReport;
  readonly request: CostRequest;
  /** The jobs of the request, such as `job 000001`. Empty: all. */
  readonly jobs: readonly string[];
  /** The user gave no period. */
  readonly isDefaultPeriod: boolean;
  readonly now: Instant;
}

/** `Estimated cost of all jobs in the last 30 days, by job, with the list prices of 2026-08-01.` */
export function costTitle(title: Title): string {
  const { by, prices, totals } = title.report;
  const subject = `${formatSubject(title)} ${formatPeriod(title)}, by ${by}`;
  if (prices.length === 0) return `Usage of ${subject}. ${formatNoPrice(totals.map(({ held }) => held))}`;
  return `Estimated cost of ${subject}, with ${formatPrices(prices)}.`;
}

/** `firstAt`: the first usage in any period, if there is any. */
export function formatNoUsage(title: Title, firstAt: Instant | null): string {
  const first = firstAt === null ? '' : ` The first usage began on ${formatTime(firstAt, title.now)}.`;
  return `No usage of ${formatSubject(title, 'any job')} ${formatPeriod(title)}.${first}`;
}

function formatSubject({ jobs, request: { user, name, tag, accelerator, zone } }: Title, all = 'all jobs'): string {
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

function formatPeriod({ report: { beginsAt, endsAt }, isDefaultPeriod, now }: Title): string {
  if (isDefaultPeriod) return 'in the last 30 days';
  const end = formatTime(endsAt, now);
  if (beginsAt === null) return endsAt >= now ? 'so far' : `until ${end}`;
  return endsAt >= now ? `since ${formatTime(beginsAt, now)}` : `from ${formatTime(beginsAt, now)} to ${end}`;
}

export function costObjects({ groups, rest, totals, ...report }: CostReport): readonly CostOutput[] {
  return [
    { kind: 'period', ...report },
    ...groups.map((group) => ({ kind: 'group' as const, ...group })),
    ...rest.map((one) => ({ kind: 'rest' as const, ...one })),
    ...totals.map((total) => ({ kind: 'total' as const, ...total })),
  ];
}

// ------------------------------------------------------------------------------------------ table

/** Nothing wider than the terminal; null without one. */
export function costLines(title: Title, terminal: number | null): readonly string[] {
  const { report } = title;
  const { by, groups, rest } = report;
  const sentence = (text: string): readonly string[] => (terminal === null ? [text] : wrap(text, terminal));
  const totals = report.totals.filter(({ held, waiting }) => held.durationMs + waiting.durationMs > 0);
  return [
    ...sentence(costTitle(title)),
    '',
    ...fittedTable(columnsOf(by), [...groups, ...rest], dropOrder, terminal),
    ...totals.flatMap((total) => ['', ...totalLines(total, terminal)]),
    ...notes(report).flatMap((note, index) => [...(index === 0 ? [''] : []), ...sentence(note)]),
  ];
}

function notes({ by, overlapping, olderThanPrices, rest, totals }: CostReport): readonly string[] {
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
    ...(rest.length > 0 ? [`Every ${by}: --all`] : []),
  ];
}

type Row = CostGroup | CostRest;

/** The title of the first column, and its cell for a group without a key. */
const keys: Readonly<Record<CostGrouping, readonly [title: string, withoutKey: string]>> = {
  job: ['JOB', '-'],
  user: ['USER', '-'],
  tag: ['TAG', '(no tag)'],
  accelerator: ['ACCELERATOR', '(no accelerator)'],
  zone: ['ZONE', 'this machine'],
  day: ['DAY', '-'],
};

function columnsOf(by: CostGrouping): readonly Column<Row>[] {
  const [title, withoutKey] = keys[by];
  const text = (of: (group: CostGroup) => string | null) => (row: Row) => ('key' in row ? (of(row) ?? '-') : '');
  return [
    {
      title,
      text: (row) => {
        const name = 'key' in row ? (row.key ?? withoutKey) : `${row.count} more`;
        return row.simulated && by !== 'job' ? `${name} (simulated)` : name;
      },
    },
    ...(by === 'job'
      ? [
          { title: 'NAME', text: text(({ name, cluster }) => cluster ?? name) },
          { title: 'USER', text: text(({ owner }) => owner) },
        ]
      : []),
    { title: 'HOURS', side: 'right', text: ({ held }) => formatHours(held.durationMs) },
    { title: 'CHIP-HOURS', side: 'right', text: ({ held }) => formatHours(held.chipMs) },
    { title: 'ESTIMATE', side: 'right', text: formatEstimate },
    ...usageUses.map((use) => ({
      title: use.toUpperCase(),
      side: 'right' as const,
      text: ({ [use]: amount }: Row) => (use === 'waiting' ? formatTimeOf(amount) : formatAmount(amount)),
    })),
  ];
}

/** The command's help lists this order, too. */
const dropOrder = [
  'USER',
  'CHIP-HOURS',
  'HOURS',
  'WAITING',
  'SETUP',
  'KEPT',
  'IDLE',
  'USEFUL',
  'LOST',
  'NAME',
] as const;

/** One row for each use of the capacity that has some time, and the sum without waiting. */
function totalLines(total: CostTotal, terminal: number | null): readonly string[] {
  const { held, waiting, simulated } = total;
  const rows = [
    ...heldUses(total).map((use) => ({ ...total[use], use, estimate: formatAmount(total[use], ' not priced') })),
    { ...held, use: 'total', estimate: formatEstimate(total) },
    ...(waiting.durationMs > 0 ? [{ ...waiting, use: 'waiting', estimate: 'not charged' }] : []),
  ];
  const columns: readonly Column<(typeof rows)[number]>[] = [
    { title: simulated ? 'SIMULATED' : 'TOTAL', text: ({ use }) => use },
    { title: 'HOURS', side: 'right', text: ({ durationMs }) => formatHours(durationMs) },
    { title: 'CHIP-HOURS', side: 'right', text: ({ chipMs }) => formatHours(chipMs) },
    { title: 'ESTIMATE', side: 'right', text: ({ estimate }) => estimate },
  ];
  return fittedTable(columns, rows, [], terminal);
}

/** Dollars; `not priced`, alone or with the time that has no price; `-` for no time. */
function formatEstimate({ held, simulated }: Row | CostTotal): string {
  const isUnpriced = held.durationMs > 0 && held.estimateUsd === null;
  return `${isUnpriced ? 'not priced' : formatAmount(held, ' not priced')}${simulated ? ' (simulated)' : ''}`;
}

function formatTimeOf({ durationMs }: CostAmount): string {
  return durationMs === 0 ? '-' : `${formatHours(durationMs)}h`;
}

// ------------------------------------------------------------------------------------------ CSV

/** A line of titles, then the rows of the table and the totals. A cell without a price is empty. */
export function costCsv({ by, beginsAt, endsAt, prices, groups, rest, totals }: CostReport): readonly string[] {
  const period = [beginsAt, endsAt].map((at) => (at === null ? null : new Date(at).toISOString()));
  const amounts = ['held', ...usageUses] as const;
  const cells = (split: CostSplit): readonly (number | null)[] =>
    amounts.flatMap((of) => {
      const { durationMs, chipMs, estimateUsd, unpricedMs } = split[of];
      return [durationMs / hour, chipMs / hour, estimateUsd, unpricedMs / hour].map(csvNumber);
    });
  const line = (row: string, about: readonly (string | null)[], split: CostSplit & { readonly simulated: boolean }) => [
    row,
    ...about,
    split.simulated,
    ...cells(split),
    ...period,
    prices.join(' '),
  ];
  return csvLines([
    [
      'row',
      by,
      'name',
      'user',
      'cluster',
      'simulated',
      ...amounts.flatMap((of) => [`${of}_hours`, `${of}_chip_hours`, `${of}_estimate_usd`, `${of}_not_priced_hours`]),
      'since',
      'until',
      'prices',
    ],
    ...groups.map((group) => line('group', [group.key, group.name, group.owner, group.cluster], group)),
    ...rest.map((one) => line('rest', [`${one.count} more`, null, null, null], one)),
    ...totals.map((total) => line('total', [null, null, null, null], total)),
  ]);
}
