// The columns of the usage ledger.

import { hour, type Instant } from '../core/model/time.ts';
import type { UsageRow } from '../reports/usage.ts';
import { csvNumber } from './csv.ts';
import { formatHours, formatPricePerHour, formatTimestamp, formatUsd } from './format.ts';
import type { ReportColumn } from './report-columns.ts';

/** The price of a row: `estimate`, with the table of its price, `not priced`, or `not charged`. */
function sourceOf({ use, pricePerHourUsd, pricesOf }: UsageRow): string {
  if (pricePerHourUsd === null) return 'not priced';
  if (pricesOf === null || use === 'waiting') return 'not charged';
  return pricesOf === 'settings' ? 'estimate: the settings' : `estimate: prices of ${pricesOf}`;
}

/** `now` ends usage that continues. */
export function usageColumns(now: Instant): readonly ReportColumn<UsageRow>[] {
  const hoursOf = ({ from, until }: UsageRow): number => (until ?? now) - from;
  const usdOf = (row: UsageRow): number | null =>
    row.pricePerHourUsd === null ? null : (row.pricePerHourUsd * hoursOf(row)) / hour;
  return [
    { title: 'JOB', text: ({ job }) => job },
    { title: 'NAME', text: ({ jobName }) => jobName },
    { title: 'USER', text: ({ owner }) => owner ?? '-' },
    { title: 'USE', text: ({ use }) => use },
    { title: 'ACCELERATOR', text: ({ accelerator, pricing }) => [accelerator ?? '-', pricing ?? ''].join(' ').trim() },
    { title: 'ZONE', text: ({ location }) => location ?? 'this machine' },
    { title: 'FROM', text: ({ from }) => formatTimestamp(from) },
    { title: 'UNTIL', text: ({ until }) => (until === null ? 'now' : formatTimestamp(until)) },
    {
      title: 'HOURS',
      side: 'right',
      text: (row) => formatHours(hoursOf(row)),
      csv: (row) => csvNumber(hoursOf(row) / hour),
    },
    { title: 'CHIPS', side: 'right', text: ({ chips }) => String(chips ?? '?'), csv: ({ chips }) => chips },
    {
      title: 'PRICE',
      side: 'right',
      text: ({ pricePerHourUsd }) => (pricePerHourUsd === null ? '?' : formatPricePerHour(pricePerHourUsd)),
      csv: ({ pricePerHourUsd }) => csvNumber(pricePerHourUsd),
      csvTitle: 'usd_per_hour',
    },
    {
      title: 'ESTIMATE',
      side: 'right',
      text: (row) => {
        const usd = usdOf(row);
        return `${usd === null ? 'not priced' : formatUsd(usd)}${row.simulated ? ' (simulated)' : ''}`;
      },
      csv: (row) => csvNumber(usdOf(row)) ?? 'not priced',
      csvTitle: 'estimate_usd',
    },
    { title: 'SOURCE', text: sourceOf },
  ];
}
