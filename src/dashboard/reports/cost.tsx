// The usage and cost of jobs: estimates by list prices, and the bill of Google.

import { useMemo } from 'preact/hooks';
import { billingColumns, billingNotes, billingRows, billingTitle, noBilling } from '../../app/billing-report.ts';
import {
  costColumns,
  costNotes,
  costsOfDays,
  costTitle,
  formatNoUsage,
  type CostTitle,
} from '../../app/cost-report.ts';
import type { ReportPeriod } from '../../app/report-period.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { day } from '../../core/model/time.ts';
import type { BillingGrouping } from '../../reports/billing.ts';
import type { CostGrouping, CostReport as Report } from '../../reports/cost.ts';
import { now } from '../clock.ts';
import { PlotBox } from '../job/plot-box.tsx';
import { CostSplit } from '../parts/cost-split.tsx';
import { Empty } from '../parts/messages.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { client } from '../session.ts';
import { Notes, ReportTable } from './report-table.tsx';

interface PeriodProps {
  readonly period: ReportPeriod;
}

/** More groups are one row. */
const maxGroups = 50;

export function CostReport({ by, period }: PeriodProps & { readonly by: CostGrouping }) {
  const { since, until, name } = period;
  const request = { by, since, ...omitUndefined({ until }), limit: maxGroups };
  const reading = useReading(() => client.cost(request), [by, since, until]);
  return (
    <Shown reading={reading}>
      {(report) => {
        const title = { report, request, jobs: [], isDefaultPeriod: name === '30d', now: now.peek() };
        const totals = report.totals.filter(({ held, waiting }) => held.durationMs + waiting.durationMs > 0);
        return report.groups.length === 0 ? (
          <NoUsage title={title} />
        ) : (
          <>
            <p class="title">{costTitle(title)}</p>
            <div class="splits">
              {totals.map((total) => (
                <section key={String(total.simulated)} aria-label={total.simulated ? 'Simulated' : 'Total'}>
                  <h2>{total.simulated ? 'Simulated' : 'Total'}</h2>
                  <CostSplit
                    cost={{ ...total, prices: total.held.estimateUsd === null ? [] : report.prices }}
                    label={`${total.simulated ? 'Simulated' : 'Total'} by use`}
                  />
                </section>
              ))}
            </div>
            {report.by === 'day' && <Days report={report} />}
            <ReportTable
              label={`Cost by ${report.by}`}
              columns={costColumns(report.by)}
              rows={[...report.groups, ...report.rest, ...totals]}
              isTotal={(row) => !('key' in row) && !('count' in row)}
              file={`cost-by-${report.by}`}
            />
            <Notes notes={costNotes(report)} />
          </>
        );
      }}
    </Shown>
  );
}

function NoUsage({ title }: { readonly title: CostTitle }) {
  const whole = useReading(() => client.cost({ by: 'user', limit: 1 }), []);
  return <Empty command="jobman cost --since 1970-01-01">{formatNoUsage(title, whole.value?.beginsAt ?? null)}</Empty>;
}

/** The table below shows the same. */
function Days({ report }: { readonly report: Report }) {
  const { days, usd, simulated } = useMemo(() => costsOfDays(report), [report]);
  const tracks = useMemo(
    () => ({ xs: days.map((_, index) => index), columns: [usd], begins: [], leftOut: 0 }),
    [days, usd],
  );
  const format = useMemo(() => (x: number) => (Number.isInteger(x) ? (days[x]?.slice(5) ?? '') : ''), [days]);
  if (days.length < 2) return null;
  const label = `Estimated US dollars by day${simulated ? ' (simulated)' : ''}`;
  return (
    <figure>
      <figcaption>
        <b>{label}</b>
      </figcaption>
      <PlotBox label={`${label}; the table shows the same`} tracks={tracks} format={format} />
    </figure>
  );
}

export function BillingReport({ by, period }: PeriodProps & { readonly by: BillingGrouping }) {
  const since = Math.floor(period.since / day) * day;
  const until = Math.ceil((period.until ?? now.peek()) / day) * day;
  const reading = useReading(() => client.billing({ by: [by], since, until }), [by, since, until]);
  return (
    <Shown reading={reading}>
      {(answer) => {
        const rows = billingRows(answer);
        return (
          <>
            <p class="title">{billingTitle(answer, now.peek())}</p>
            {rows.length === 0 ? (
              <Empty>{noBilling(answer)}</Empty>
            ) : (
              <ReportTable
                label={`Billed by ${answer.report.by.join(' and ')}`}
                columns={billingColumns(answer)}
                rows={rows}
                isTotal={({ isTotal }) => isTotal}
                file={`billed-by-${answer.report.by.join('-')}`}
              />
            )}
            <Notes notes={billingNotes(answer, now.peek())} />
          </>
        );
      }}
    </Shown>
  );
}
