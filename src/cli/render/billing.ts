// The report of `jobman billing`: as a table, as CSV and as JSON, each with the same rows.

import type { BillingAnswer } from '../../app/billing.ts';
import { formatBytes, formatDate, formatList, formatTime, formatUsd, pluralize } from '../../app/format.ts';
import { day, hour, type Instant } from '../../core/model/time.ts';
import {
  ungrouped,
  type BilledAmount,
  type BillingComparison,
  type BillingGroup,
  type BillingGrouping,
} from '../../reports/billing.ts';
import type { BillingOutput } from '../outputs.ts';
import { fittedTable, type Column } from './aligned.ts';
import { cutEnd, wrap } from './cell.ts';
import { formatPrices } from '../../app/cost-table.ts';
import { csvLines, csvNumber } from './csv.ts';

export function billingObjects({ report, source }: BillingAnswer): readonly BillingOutput[] {
  const { by, since, until, groups, billed, comparison, compared, prices } = report;
  return [
    {
      kind: 'period',
      by,
      beginsAt: since,
      endsAt: until,
      compared: compared === null ? null : { beginsAt: compared.since, endsAt: compared.until },
      prices,
      export: source,
    },
    ...groups.map((group) => ({ kind: 'group' as const, ...group })),
    { kind: 'total', billed, comparison },
  ];
}

// ------------------------------------------------------------------------------------------ table

/** Nothing wider than the terminal; null without one. */
export function billingLines(answer: BillingAnswer, now: Instant, terminal: number | null): readonly string[] {
  const { report, source } = answer;
  const period = `from ${formatDate(report.since, now)} to ${formatDate(report.until - day, now)}`;
  const title =
    source === null
      ? `Estimated cost of TPUs of jobs ${period}, by ${report.by.join(' and ')}.`
      : `Billed by Google ${period}, by ${report.by.join(' and ')}: cost after credits, from ${source.table}.`;
  const heading = terminal === null ? [title] : wrap(title, terminal).map((line) => cutEnd(line, terminal));
  if (report.groups.length === 0)
    return [...heading, source === null ? 'No usage of TPUs at Google.' : 'Nothing was billed.'];
  const { billed, comparison } = report;
  const total: Row = { ...ungrouped, billed, comparison, isTotal: true };
  const rows = [...report.groups.map((group) => ({ ...group, isTotal: false })), total];
  const columns = [...report.by.flatMap((one, index) => groupColumns(one, index === 0)), ...amountColumns(answer)];
  return [...heading, '', ...fittedTable(columns, rows, ['NAME', 'DIFFERENCE', 'OF JOBS'], terminal)];
}

interface Row extends BillingGroup {
  readonly isTotal: boolean;
}

function groupColumns(by: BillingGrouping, isFirst: boolean): readonly Column<Row>[] {
  const column = (title: string, field: BillingGrouping | 'name', without: string): Column<Row> => ({
    title,
    text: (row) => (row.isTotal ? (isFirst && field === by ? 'TOTAL' : '') : (row[field] ?? without)),
  });
  switch (by) {
    case 'day':
      return [column('DAY', by, '-')];
    case 'service':
      return [column('SERVICE', by, '-')];
    case 'sku':
      return [column('SKU', by, '-')];
    case 'user':
      return [column('USER', by, '(no job)')];
    case 'job':
      return [column('JOB', by, '(no job)'), column('NAME', 'name', '')];
  }
}

function amountColumns({ report: { groups, comparison }, source }: BillingAnswer): readonly Column<Row>[] {
  const isCompared = comparison !== null && groups.some((group) => group.comparison !== null);
  const compare = (title: string, text: (comparison: BillingComparison) => string): Column<Row> => ({
    title,
    side: 'right',
    text: (row) => (row.comparison === null ? '-' : text(row.comparison)),
  });
  return [
    ...(source === null ? [] : [{ title: 'BILLED', side: 'right' as const, text: formatBilled }]),
    ...(isCompared && source !== null
      ? [compare('OF JOBS', ({ billedUsd }) => formatOptionalUsd(billedUsd, 'no rate'))]
      : []),
    ...(isCompared ? [compare('ESTIMATE', formatEstimate)] : []),
    ...(isCompared && source !== null
      ? [compare('DIFFERENCE', ({ differenceUsd }) => formatDifference(differenceUsd))]
      : []),
  ];
}

/** Each currency for itself. */
function formatBilled({ billed }: Pick<BillingGroup, 'billed'>): string {
  return billed.length === 0
    ? '-'
    : billed.map(({ currency, netAmount }) => formatMoney(netAmount, currency)).join(' and ');
}

function formatMoney(amount: number, currency: string): string {
  return currency === 'USD' ? formatSignedUsd(amount) : `${withoutNegativeZero(amount.toFixed(2))} ${currency}`;
}

function formatSignedUsd(amount: number): string {
  return amount <= -0.005 ? `-${formatUsd(-amount)}` : `$${Math.abs(amount).toFixed(2)}`;
}

function withoutNegativeZero(text: string): string {
  return text.replace(/^-(0\.0+)$/, '$1');
}

function formatOptionalUsd(amount: number | null, without: string): string {
  return amount === null ? without : formatSignedUsd(amount);
}

function formatEstimate({ estimateUsd, unpricedMs }: BillingComparison): string {
  const unpriced = `${(unpricedMs / hour).toFixed(1)}h not priced`;
  if (estimateUsd === null) return 'not priced';
  return unpricedMs === 0 ? formatUsd(estimateUsd) : `${formatUsd(estimateUsd)} + ${unpriced}`;
}

function formatDifference(amount: number | null): string {
  if (amount === null) return '-';
  return amount >= 0.005 ? `+${formatUsd(amount)}` : formatSignedUsd(amount);
}

// ------------------------------------------------------------------------------------------ notes

const noExportNotes: readonly string[] = [
  'No billing export is set, so these are estimates, not what Google charges.',
  'docs/costs.md explains how to switch the export on (section "Billing"). Then: jobman settings set billing.exportTable PROJECT.DATASET.TABLE',
];

const leftOutNames = {
  simulated: 'simulated TPUs',
  hosts: 'jobs on your machines',
  kubernetes: 'Kubernetes jobs',
} as const;

function leftOutNotes({ leftOut }: BillingAnswer): readonly string[] {
  if (leftOut.length === 0) return [];
  return [`Left out: ${formatList(leftOut.map((kind) => leftOutNames[kind]))}. Their usage: jobman cost`];
}

/** The contents of the columns, the last complete day, and the bytes that the query read. */
export function billingNotes(answer: BillingAnswer, now: Instant): readonly string[] {
  const { report, source } = answer;
  if (source === null) return [...leftOutNotes(answer), ...noExportNotes];
  const { since, compared, comparison, prices, groups } = report;
  const { table, firstUsageAt, exportedAt, bytesRead, bytesCharged, unreadableRows } = source;
  const isCompared = groups.some((group) => group.comparison !== null);
  const query = `BigQuery read ${formatBytes(bytesRead)} and charges for ${formatBytes(bytesCharged)}.`;
  if (firstUsageAt === null || exportedAt === null)
    return [
      `${table} has no usage from ${formatDate(since, now)} on. Google writes usage after some hours, at most about a day, and no usage from before the export was switched on.`,
      query,
    ];
  return [
    ...(unreadableRows > 0
      ? [`${pluralize(unreadableRows, 'row')} of the answer could not be read, so some costs are missing.`]
      : []),
    ...(firstUsageAt >= since + day
      ? [
          `The export has nothing before ${formatDate(firstUsageAt, now)}: it was probably switched on then, and earlier costs are missing.`,
        ]
      : []),
    `Last export: ${formatTime(exportedAt, now)}. ${formatCompleteness(compared, now)}`,
    ...(comparison === null || compared === null
      ? []
      : [
          `Jobs of this jobman, ${formatDate(compared.since, now)} to ${formatDate(compared.until - day, now)}: ${formatComparison(comparison)}.` +
            (prices.length === 0 ? '' : ` The estimate uses ${formatPrices(prices)}.`),
        ]),
    ...(isCompared ? ['OF JOBS is the part of the bill with the label of a job of this jobman, in US dollars.'] : []),
    query,
  ];
}

function formatCompleteness(compared: BillingAnswer['report']['compared'], now: Instant): string {
  return compared === null
    ? 'No day of the period is complete yet: Google keeps adding usage for about a day.'
    : `Complete up to ${formatDate(compared.until - day, now)}: Google keeps adding usage for about a day. Later days are not compared.`;
}

function formatComparison({ billedUsd, estimateUsd, unpricedMs, differenceUsd }: BillingComparison): string {
  if (billedUsd === 0 && estimateUsd === 0 && unpricedMs === 0) return 'no TPU was used or billed';
  const billed =
    billedUsd === null ? 'billed without a conversion rate to US dollars' : `billed ${formatSignedUsd(billedUsd)}`;
  const estimate =
    estimateUsd === null
      ? 'not priced'
      : `estimated ${formatEstimate({ billedUsd, estimateUsd, unpricedMs, differenceUsd })}`;
  const difference = differenceUsd === null ? '' : `, difference ${formatDifference(differenceUsd)}`;
  return `${billed}, ${estimate}${difference}`;
}

// ------------------------------------------------------------------------------------------ CSV

/** A line of titles, then one line for each group and currency. The comparison is in the first line of a group. */
export function billingCsv({ report }: BillingAnswer): readonly string[] {
  const titles = ['day', 'service', 'sku', 'user', 'job', 'name', 'currency', 'cost', 'credits', 'net'];
  const compared = ['billed_of_jobs_usd', 'estimate_usd', 'difference_usd', 'not_priced_hours'];
  return csvLines([[...titles, ...compared], ...report.groups.flatMap(groupRows)]);
}

type CsvRow = readonly (string | number | null)[];

function groupRows({ day: ofDay, service, sku, user, job, name, billed, comparison }: BillingGroup): readonly CsvRow[] {
  const amounts: readonly (BilledAmount | null)[] = billed.length === 0 ? [null] : billed;
  return amounts.map((amount, index) => {
    const shown = index === 0 ? comparison : null;
    const numbers = [
      ...(amount === null ? [null, null, null] : [amount.costAmount, amount.creditsAmount, amount.netAmount]),
      ...(shown === null
        ? [null, null, null, null]
        : [shown.billedUsd, shown.estimateUsd, shown.differenceUsd, shown.unpricedMs / hour]),
    ];
    const texts = [ofDay, service, sku, user, job, name, amount?.currency ?? null];
    return [...texts, ...numbers.map(csvNumber)];
  });
}
