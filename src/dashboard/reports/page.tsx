// Reports: cost, bill, quota, storage and usage. The address has the report, its period and its grouping.

import './reports.css';
import { capitalize } from '../../app/format.ts';
import { periodNames, reportPeriod, type PeriodName, type ReportPeriod } from '../../app/report-period.ts';
import { day, minute, utcDate } from '../../core/model/time.ts';
import type { BillingGrouping } from '../../reports/billing.ts';
import type { CostGrouping } from '../../reports/cost.ts';
import { serverNow } from '../live.ts';
import { address, changeQuery } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Failure } from '../parts/messages.tsx';
import { BillingReport, CostReport } from './cost.tsx';
import { QuotaReport, StorageReport, UsageReport } from './others.tsx';

const reports = ['cost', 'billing', 'quota', 'storage', 'usage'] as const;

type ReportName = (typeof reports)[number];

const groupings: Readonly<Partial<Record<ReportName, readonly string[]>>> = {
  cost: ['user', 'job', 'tag', 'accelerator', 'zone', 'day'] satisfies readonly CostGrouping[],
  billing: ['day', 'service', 'sku', 'user', 'job'] satisfies readonly BillingGrouping[],
};

export function ReportsPage() {
  const { query } = address.value;
  const shown = reports.find((one) => one === query.get('report')) ?? 'cost';
  const choices = groupings[shown] ?? [];
  const by = choices.find((one) => one === query.get('by')) ?? choices[0] ?? '';
  const wanted = { period: query.get('period'), since: query.get('since'), until: query.get('until') };
  // A whole minute, so that the page does not read again after each drawing.
  const period = reportPeriod(wanted, Math.floor(serverNow() / minute) * minute);
  const hasPeriod = shown !== 'quota' && shown !== 'storage';
  return (
    <section class="page reports">
      <div class="bar">
        <h1>Reports</h1>
        <div class="toggles joined" role="group" aria-label="Report">
          {reports.map((name) => (
            <button
              key={name}
              aria-pressed={name === shown}
              onClick={() => changeQuery({ report: name === 'cost' ? null : name, by: null })}
            >
              {name === 'billing' ? 'Billed' : capitalize(name)}
            </button>
          ))}
        </div>
        <PageCommand text={commandOf(shown, by, period)} />
      </div>
      {(hasPeriod || choices.length > 0) && (
        <div class="bar">
          {hasPeriod && <Period period={period} />}
          {choices.length > 0 && (
            <label class="switch">
              By
              <select value={by} onChange={({ currentTarget }) => changeQuery({ by: currentTarget.value })}>
                {choices.map((one) => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            </label>
          )}
        </div>
      )}
      {hasPeriod && period.problem !== null && <Failure lines={[period.problem]} retry={null} />}
      {shown === 'cost' && <CostReport by={by as CostGrouping} period={period} />}
      {shown === 'billing' && <BillingReport by={by as BillingGrouping} period={period} />}
      {shown === 'quota' && <QuotaReport />}
      {shown === 'storage' && <StorageReport />}
      {shown === 'usage' && <UsageReport period={period} />}
    </section>
  );
}

function commandOf(report: ReportName, by: string, { flags }: ReportPeriod): string {
  switch (report) {
    case 'cost':
    case 'billing':
      return [`jobman ${report} --by ${by}`, flags].filter((part) => part !== '').join(' ');
    case 'quota':
    case 'storage':
      return `jobman ${report}`;
    case 'usage':
      return ['jobman cost --by job --all', flags].filter((part) => part !== '').join(' ');
  }
}

const titles: Readonly<Record<PeriodName, string>> = {
  today: 'Today',
  week: 'This week',
  month: 'This month',
  '30d': 'Last 30 days',
};

function Period({ period: { name, since, until } }: { readonly period: ReportPeriod }) {
  const lastDay = until === undefined ? '' : utcDate(until - day);
  return (
    <>
      <div class="toggles joined" role="group" aria-label="Period">
        {periodNames.map((one) => (
          <button
            key={one}
            aria-pressed={one === name}
            onClick={() => changeQuery({ period: one === '30d' ? null : one, since: null, until: null })}
          >
            {titles[one]}
          </button>
        ))}
      </div>
      <label class="switch">
        From
        <input
          type="date"
          value={since === 0 ? '' : utcDate(since)}
          onChange={({ currentTarget }) => changeQuery({ period: null, since: currentTarget.value })}
        />
      </label>
      <label class="switch">
        to
        <input
          type="date"
          value={lastDay}
          onChange={({ currentTarget }) =>
            changeQuery({
              period: null,
              since: address.peek().query.get('since') ?? utcDate(since),
              until: currentTarget.value,
            })
          }
        />
      </label>
      <span class="quiet">UTC</span>
    </>
  );
}
