/** The reports of a page: their period, and the rows that a table and its CSV file share. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costColumns, costsOfDays } from '../../src/app/cost-report.ts';
import { reportCsv } from '../../src/app/report-columns.ts';
import { reportPeriod } from '../../src/app/report-period.ts';
import { usageColumns } from '../../src/app/usage-report.ts';
import { day, hour } from '../../src/core/model/time.ts';
import { costReport } from '../../src/reports/cost.ts';
import { noon, usageRow as aUsageRow } from '../support/builders.ts';

const wanted = (own: Partial<Parameters<typeof reportPeriod>[0]>) =>
  reportPeriod({ period: null, since: null, until: null, ...own }, noon);

test('a period is a name or two days in UTC, and one that is not valid says why', () => {
  const midnight = noon - 12 * hour;
  assert.deepEqual(wanted({}), { name: '30d', since: noon - 30 * day, flags: '', problem: null });
  assert.equal(wanted({ period: 'today' }).since, midnight);
  // 20 November 2026 is a Friday.
  assert.equal(wanted({ period: 'week' }).flags, '--since 2026-11-16');
  assert.equal(wanted({ period: 'month' }).flags, '--since 2026-11-01');
  assert.deepEqual(wanted({ period: 'today', since: '2026-11-02', until: '2026-11-03' }), {
    name: null,
    since: Date.UTC(2026, 10, 2),
    until: Date.UTC(2026, 10, 4),
    flags: '--since 2026-11-02 --until 2026-11-03',
    problem: null,
  });
  assert.equal(wanted({ until: '2026-11-03' }).since, 0);
  assert.equal(wanted({ since: '2026-02-30' }).problem, 'A day is written as 2026-11-20.');
  assert.equal(wanted({ since: '7d' }).problem, 'A day is written as 2026-11-20.');
  assert.equal(wanted({ since: '2026-11-21' }).problem, 'The period begins after today.');
  assert.equal(wanted({ since: '2026-11-04', until: '2026-11-03' }).problem, 'The period ends before it begins.');
});

test('a CSV file has the rows and columns of the table, numbers with their unit, and no formula', () => {
  const rows = [
    aUsageRow({ job: '000001', owner: '=cmd()', from: noon, until: noon + 2 * hour, pricePerHourUsd: 4 }),
    aUsageRow({
      job: '000002',
      owner: '@eve, "x"',
      from: noon,
      until: noon + hour,
      pricePerHourUsd: null,
      pricesOf: null,
    }),
  ];
  const report = costReport(rows, { by: 'user' }, noon + day);
  const columns = costColumns('user');
  const shown = [...report.groups, ...report.totals];
  assert.deepEqual(
    shown.map((row) => columns.slice(0, 4).map(({ text }) => text(row))),
    [
      ['=cmd()', '2.0', '32.0', '$8.00'],
      ['@eve, "x"', '1.0', '16.0', 'not priced'],
      ['total', '3.0', '48.0', '$8.00 + 1.0h not priced'],
    ],
  );
  const lines = reportCsv(columns, shown).split('\r\n');
  assert.deepEqual(lines, [
    'user,hours,chip_hours,estimate_usd,useful_usd,lost_usd,setup_usd,idle_usd,kept_usd,waiting_hours',
    "'=cmd(),2,32,8,8,0,0,0,0,0",
    `"'@eve, ""x""",1,16,not priced,1.0h,0,0,0,0,0`,
    'total,3,48,$8.00 + 1.0h not priced,$8.00 + 1.0h,0,0,0,0,0',
    '',
  ]);
});

test('no value is an empty field of a CSV file, which is not a text that a spreadsheet could run', () => {
  const column = (title: string) => ({ title, text: (row: string) => row });
  assert.equal(reportCsv([column('A'), column('B')], ['-', '-1']), "a,b\r\n,\r\n'-1,'-1\r\n");
});

test('the costs of days have the days between them', () => {
  const at = (from: number, simulated: boolean) =>
    aUsageRow({ from, until: from + hour, pricePerHourUsd: 4, simulated });
  const real = costReport([at(noon, false), at(noon + 2 * day, false), at(noon, true)], { by: 'day' }, noon + 3 * day);
  assert.deepEqual(costsOfDays(real), {
    days: ['2026-11-20', '2026-11-21', '2026-11-22'],
    usd: [4, 0, 4],
    simulated: false,
  });
  const simulated = costReport([at(noon, true)], { by: 'day' }, noon + day);
  assert.deepEqual(costsOfDays(simulated), { days: ['2026-11-20'], usd: [4], simulated: true });
  assert.deepEqual(costsOfDays(costReport([], { by: 'day' }, noon)).days, []);
});

test('each use says whether its amount is an estimate, not priced or not charged', () => {
  const columns = usageColumns(noon + hour);
  const source = (own: Parameters<typeof aUsageRow>[0]) => columns.at(-1)?.text(aUsageRow(own));
  assert.equal(source({ pricesOf: '2026-08-01' }), 'estimate: prices of 2026-08-01');
  assert.equal(source({ pricesOf: 'settings' }), 'estimate: the settings');
  assert.equal(source({ pricePerHourUsd: null, pricesOf: null }), 'not priced');
  assert.equal(source({ use: 'waiting', pricePerHourUsd: 0, pricesOf: null }), 'not charged');
});
