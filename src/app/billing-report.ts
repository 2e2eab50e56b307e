// The texts of a billing report: its title, the columns of its table, and its notes.

import { day, hour, type Instant } from '../core/model/time.ts';
import { ungrouped, type BillingComparison, type BillingGroup, type BillingGrouping } from '../reports/billing.ts';
import type { BillingAnswer } from './billing.ts';
import { formatPrices } from './cost-table.ts';
import { formatBytes, formatDate, formatList, formatTime, formatUsd, pluralize } from './format.ts';
import type { ReportColumn } from './report-columns.ts';

export function billingTitle({ report, source }: BillingAnswer, now: Instant): string {
  const period = `from ${formatDate(report.since, now)} to ${formatDate(report.until - day, now)}`;
  return source === null
    ? `Estimated cost of TPUs of jobs ${period}, by ${report.by.join(' and ')}.`
    : `Billed by Google ${period}, by ${report.by.join(' and ')}: cost after credits, from ${source.table}.`;
}

/** Instead of a table without rows. */
export function noBilling({ source }: BillingAnswer): string {
  return source === null ? 'No usage of TPUs at Google.' : 'Nothing was billed.';
}

/** The groups, then their total. */
export function billingRows({ report: { groups, billed, comparison } }: BillingAnswer): readonly BillingRow[] {
  if (groups.length === 0) return [];
  return [
    ...groups.map((group) => ({ ...group, isTotal: false })),
    { ...ungrouped, billed, comparison, isTotal: true },
  ];
}

export function billingColumns(answer: BillingAnswer): readonly ReportColumn<BillingRow>[] {
  const { by } = answer.report;
  return [...by.flatMap((one, index) => groupColumns(one, index === 0)), ...amountColumns(answer)];
}

export interface BillingRow extends BillingGroup {
  readonly isTotal: boolean;
}

function groupColumns(by: BillingGrouping, isFirst: boolean): readonly ReportColumn<BillingRow>[] {
  const column = (title: string, field: BillingGrouping | 'name', without: string): ReportColumn<BillingRow> => ({
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

function amountColumns({ report: { groups, comparison }, source }: BillingAnswer): readonly ReportColumn<BillingRow>[] {
  const isCompared = comparison !== null && groups.some((group) => group.comparison !== null);
  const compare = (title: string, text: (comparison: BillingComparison) => string): ReportColumn<BillingRow> => ({
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
