// The report of `jobman billing`: as a table, as CSV and as JSON, each with the same rows.

import type { BillingAnswer } from '../../app/billing.ts';
import { billingColumns, billingRows, billingTitle, noBilling } from '../../app/billing-report.ts';
import { csvLines, csvNumber } from '../../app/csv.ts';
import { hour, type Instant } from '../../core/model/time.ts';
import type { BilledAmount, BillingGroup } from '../../reports/billing.ts';
import type { BillingOutput } from '../outputs.ts';
import { fittedTable } from './aligned.ts';
import { cutEnd, wrap } from './cell.ts';

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
  const title = billingTitle(answer, now);
  const heading = terminal === null ? [title] : wrap(title, terminal).map((line) => cutEnd(line, terminal));
  const rows = billingRows(answer);
  if (rows.length === 0) return [...heading, noBilling(answer)];
  return [...heading, '', ...fittedTable(billingColumns(answer), rows, ['NAME', 'DIFFERENCE', 'OF JOBS'], terminal)];
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
