// The report of `jobman cost`: as a table, as CSV and as JSON, each with the same rows.

import { costColumns, costNotes, costTitle, formatEstimate, type CostTitle } from '../../app/cost-report.ts';
import { formatAmount, formatHours } from '../../app/format.ts';
import { hour } from '../../core/model/time.ts';
import { heldUses, usageUses, type CostReport, type CostSplit, type CostTotal } from '../../reports/cost.ts';
import type { CostOutput } from '../outputs.ts';
import { fittedTable, type Column } from './aligned.ts';
import { wrap } from './cell.ts';
import { csvLines, csvNumber } from '../../app/csv.ts';

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
export function costLines(title: CostTitle, terminal: number | null): readonly string[] {
  const { report } = title;
  const { by, groups, rest } = report;
  const sentence = (text: string): readonly string[] => (terminal === null ? [text] : wrap(text, terminal));
  const totals = report.totals.filter(({ held, waiting }) => held.durationMs + waiting.durationMs > 0);
  return [
    ...sentence(costTitle(title)),
    '',
    ...fittedTable(costColumns(by), [...groups, ...rest], dropOrder, terminal),
    ...totals.flatMap((total) => ['', ...totalLines(total, terminal)]),
    ...[...costNotes(report), ...(rest.length > 0 ? [`Every ${by}: --all`] : [])].flatMap((note, index) => [
      ...(index === 0 ? [''] : []),
      ...sentence(note),
    ]),
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
