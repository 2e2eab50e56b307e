/** `jobman billing`: an export and a ledger in, text and exit code out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BillingExport, BillingExportData, BillingPeriod } from '../../src/app/billing-export.ts';
import type { Client } from '../../src/app/client.ts';
import { createCloudClient } from '../../src/app/cloud-client.ts';
import type { ClientParts } from '../../src/app/store-client.ts';
import type { UsageRow } from '../../src/reports/usage.ts';
import { aMember } from '../support/builders.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { hour } from '../../src/core/model/time.ts';
import type { BilledRow } from '../../src/reports/billing.ts';
import { usageRow } from '../support/builders.ts';
import { jobman, now } from './support/harness.ts';

const table = 'lab.costs.gcp_billing_export_v1_010101_F0FFF0_10X10X';

function billed(changes: Partial<BilledRow> = {}): BilledRow {
  return {
    day: '2026-11-18',
    service: 'Cloud TPU',
    sku: 'TPU v5e, spot',
    project: 'lab',
    installation: 'abc123',
    job: '000001',
    currency: 'EUR',
    cost: 25,
    credits: -2,
    netUsd: 25.3,
    ...changes,
  };
}

const storage = billed({
  service: 'Cloud Storage',
  sku: '=cmd()',
  installation: null,
  job: null,
  cost: 0.5,
  credits: 0,
});
const from = Date.UTC(2026, 10, 18);
const usage = [usageRow({ from, until: from + 3 * hour, pricePerHourUsd: 8 })];

/** The method of the client in this process, over that ledger and that export. */
function billingClient(ledger: readonly UsageRow[], exported: BillingExport | null): Pick<Client, 'billing'> {
  const clouds = async () => ({ installation: 'abc123', billing: async () => exported });
  const parts = { clouds, store: { usage: async () => ledger }, now: () => now };
  return createCloudClient(
    async () => aMember('alice'),
    parts as object as ClientParts,
    async () => undefined,
  );
}

function billing(argv: readonly string[], data: Partial<BillingExportData> | Error | null = {}, columns?: number) {
  const periods: BillingPeriod[] = [];
  return jobman(['billing', ...argv], {
    usage,
    ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }),
    client: billingClient(
      usage,
      data === null
        ? null
        : {
            table,
            read: async (period) => {
              periods.push(period);
              if (data instanceof Error) throw data;
              return {
                rows: [billed(), storage],
                firstUsageAt: Date.UTC(2026, 9, 22),
                exportedAt: Date.UTC(2026, 10, 21, 5),
                unreadableRows: 0,
                bytesRead: 34_200_000,
                bytesCharged: 35_000_000,
                ...data,
              };
            },
          },
    ),
  }).then((ended) => ({ ...ended, periods }));
}

test('billed, estimated, the difference, and up to when they are complete', async () => {
  const { code, out, err, periods } = await billing([]);
  assert.equal(code, 0);
  assert.equal(
    out,
    `Billed by Google from 22 Oct to 21 Nov, by day: cost after credits, from ${table}.

DAY            BILLED  OF JOBS  ESTIMATE  DIFFERENCE
2026-11-18  23.50 EUR   $25.30    $24.00      +$1.30
TOTAL       23.50 EUR   $25.30    $24.00      +$1.30
`,
  );
  assert.equal(
    err,
    `Last export: 21 Nov 05:00:00 UTC. Complete up to 19 Nov: Google keeps adding usage for about a day. Later days are not compared.
Jobs of this jobman, 22 Oct to 19 Nov: billed $25.30, estimated $24.00, difference +$1.30. The estimate uses the list prices of 2026-08-01.
OF JOBS is the part of the bill with the label of a job of this jobman, in US dollars.
BigQuery read 34.2 MB and charges for 35.0 MB.
`,
  );
  assert.deepEqual(periods, [{ since: Date.UTC(2026, 9, 22), until: Date.UTC(2026, 10, 22) }]);
});

test('other groups, also together', async () => {
  const service = await billing(['--by', 'service', '--by', 'sku']);
  assert.match(service.out, /^SERVICE +SKU +BILLED\nCloud TPU +TPU v5e, spot +23\.00 EUR\n/m);
  assert.match(service.out, /^TOTAL +23\.50 EUR\n$/m);
  const job = await billing(['--by', 'job']);
  assert.match(job.out, /^000001 +vit +23\.00 EUR +\$25\.30 +\$24\.00 +\+\$1\.30$/m);
  assert.match(job.out, /^\(no job\) +0\.50 EUR +- +- +-$/m);
  const narrow = await billing(['--by', 'job'], {}, 44);
  assert.ok(narrow.out.split('\n').every((line) => line.length <= 44));
});

test('JSON and CSV have every field of every row', async () => {
  const { out } = await billing(['--by', 'sku', '--json', '--since', '2026-11-18']);
  const [period, ...rows] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(period, {
    kind: 'period',
    by: ['sku'],
    beginsAt: '2026-11-18T00:00:00.000Z',
    endsAt: '2026-11-22T00:00:00.000Z',
    compared: { beginsAt: '2026-11-18T00:00:00.000Z', endsAt: '2026-11-20T00:00:00.000Z' },
    prices: ['2026-08-01'],
    export: {
      table,
      firstUsageAt: '2026-10-22T00:00:00.000Z',
      exportedAt: '2026-11-21T05:00:00.000Z',
      unreadableRows: 0,
      bytesRead: 34_200_000,
      bytesCharged: 35_000_000,
    },
  });
  assert.deepEqual(
    rows.map(({ kind, sku }) => [kind, sku]),
    [
      ['group', 'TPU v5e, spot'],
      ['group', '=cmd()'],
      ['total', undefined],
    ],
  );
  const csv = await billing(['--by', 'sku', '--csv']);
  assert.equal(
    csv.out,
    `day,service,sku,user,job,name,currency,cost,credits,net,billed_of_jobs_usd,estimate_usd,difference_usd,not_priced_hours
,,"TPU v5e, spot",,,,EUR,25,-2,23,,,,
,,'=cmd(),,,,EUR,0.5,0,0.5,,,,
`,
  );
  assert.equal((await billing(['--csv', '--json'])).code, exitCode.usage);
});

test('without an export it shows the estimate and how to make one', async () => {
  const { code, out, err } = await billing(['--by', 'service'], null);
  assert.match(err, /^An estimate has no services and no SKUs, so the rows are by job, not by service\.$/m);
  assert.equal(code, 0);
  assert.match(out, /^Estimated cost of TPUs of jobs from 22 Oct to 21 Nov, by job\.\n/);
  assert.match(out, /^000001 +vit +\$24\.00$/m);
  assert.doesNotMatch(out, /BILLED/);
  assert.match(err, /No billing export is set/);
  assert.match(err, /settings set billing\.exportTable PROJECT\.DATASET\.TABLE/);
});

test('without an export it names the usage that the estimate leaves out', async () => {
  const left = [usageRow({ from, simulated: true }), usageRow({ job: '000002', from, source: 'hosts' })];
  const { out, err } = await jobman(['billing'], { client: billingClient(left, null) });
  assert.match(out, /\nNo usage of TPUs at Google\.\n$/);
  assert.match(err, /^Left out: simulated TPUs and jobs on your machines\. Their usage: jobman cost$/m);
});

test('a period before the first day of the export is named', async () => {
  const later = await billing(['--since', '2026-10'], { firstUsageAt: Date.UTC(2026, 10, 3, 7) });
  assert.match(later.err, /^The export has nothing before 3 Nov: it was probably switched on then/m);
  const { code, out, err } = await billing([], { rows: [], firstUsageAt: null, exportedAt: null });
  assert.equal(code, 0);
  assert.match(out, /\nNothing was billed\.\n$/);
  assert.match(err, /has no usage from 22 Oct on\. Google writes usage after some hours/);
});

test('a period without time, and a failure of the export', async () => {
  assert.equal((await billing(['--since', '2027-01'])).code, exitCode.usage);
  assert.equal((await billing(['--since', '2026-11-10', '--until', '2026-11-08'])).code, exitCode.usage);
  const refused = await billing([], new JobmanError('BigQuery does not answer.', exitCode.unreachable));
  assert.deepEqual([refused.code, refused.out, refused.err], [5, '', 'jobman: BigQuery does not answer.\n']);
});

test('rows that could not be read are counted, because their costs are missing', async () => {
  const { code, err } = await billing([], { unreadableRows: 2 });
  assert.equal(code, 0);
  assert.match(err, /2 rows of the answer could not be read, so some costs are missing\./);
});

test('names from the export cannot control the terminal', async () => {
  const { out } = await billing(['--by', 'service'], { rows: [billed({ service: 'Cloud\u001b[2J\nTPU' })] });
  assert.ok(!out.includes('\u001b'));
  assert.match(out, /Cloud\\x1b\[2J\\x0aTPU/);
});
