// The billing export: Google's client library and a small server that follows the BigQuery API.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { JobmanError } from '../../src/app/errors.ts';
import { createBillingExport, projectOfTable } from '../../src/google/billing-export.ts';
import {
  billedRows,
  coverageOf,
  isCoverage,
  openBigQueryServer,
  type BigQueryServer,
  type Fault,
} from './bigquery-server.ts';

const table = 'lab-billing.costs.gcp_billing_export_v1_010101_F0FFF0_10X10X';
const since = Date.UTC(2026, 10, 1);
const until = Date.UTC(2026, 10, 21);

const usage = billedRows([
  ['2026-11-03', 'Cloud TPU', 'TPU v5e spot', 'lab', 'q7k2zz', '000042', 'EUR', '92.5', '-2.5', '1.0E2'],
  ['2026-11-03', 'Cloud Storage', 'Standard', 'lab', null, null, 'EUR', '1.2E-1', '0.0', '0.13'],
  ['2026-11-04', 'Invoice', 'Tax', null, null, null, 'EUR', '3.0', '0.0', null],
]);
const coverage = coverageOf(Date.UTC(2026, 10, 3, 7), Date.UTC(2026, 10, 20, 5));
const prepared: BigQueryServer['answer'] = ({ query }) => (isCoverage(query) ? coverage : usage);

async function open(t: TestContext, answer: BigQueryServer['answer'] = prepared) {
  const server = await openBigQueryServer(answer);
  t.after(() => server.close());
  const billing = createBillingExport({
    table,
    project: 'lab-queries',
    maxQueryBytes: 20_000_000,
    endpoint: server.url,
    login: { headers: async () => ({ authorization: 'Bearer secret' }) },
    maxRetryDelay: 1,
  });
  return { server, read: () => billing.read({ since, until }) };
}

async function failure(t: TestContext, fault: Fault, which: (query: string) => boolean = () => true) {
  const { read } = await open(t, (request) => (which(request.query) ? fault : prepared(request)));
  const error = await read().then(
    () => assert.fail('it was read'),
    (reason: unknown) => reason as JobmanError,
  );
  return { code: error.code, text: [error.message, ...error.lines].join('\n') };
}

test('rows of the export, its coverage and the bytes read', async (t) => {
  const { server, read } = await open(t);
  server.unfinished = 1;
  server.location = 'europe-west4';
  const data = await read();
  assert.deepEqual(data.rows[0], {
    day: '2026-11-03',
    service: 'Cloud TPU',
    sku: 'TPU v5e spot',
    project: 'lab',
    installation: 'q7k2zz',
    job: '000042',
    currency: 'EUR',
    cost: 92.5,
    credits: -2.5,
    netUsd: 100,
  });
  assert.equal(data.rows[1]?.job, null);
  assert.equal(data.rows[2]?.netUsd, null, 'no conversion rate');
  assert.equal(data.firstUsageAt, Date.UTC(2026, 10, 3, 7));
  assert.equal(data.exportedAt, Date.UTC(2026, 10, 20, 5));
  assert.equal(data.bytesRead, 7_000_000);
  assert.equal(data.bytesCharged, 20_971_520);
  assert.deepEqual([...new Set(server.authorizations)], ['Bearer secret']);
});

test('queries have a limit, parameters, a filter on the partitions, and the project that pays', async (t) => {
  const { server, read } = await open(t);
  await read();
  assert.equal(server.queries.length, 2);
  for (const { project, query, parameters, maximumBytesBilled } of server.queries) {
    assert.equal(project, 'lab-queries');
    assert.equal(maximumBytesBilled, '20000000');
    assert.ok(query.includes(`FROM \`${table}\``));
    assert.ok(query.includes('_PARTITIONTIME >= @partition'));
    assert.deepEqual(parameters['since'], ['TIMESTAMP', '2026-11-01T00:00:00.000Z']);
    assert.deepEqual(parameters['partition'], ['TIMESTAMP', '2026-10-31T00:00:00.000Z']);
    assert.deepEqual(
      Object.keys(parameters).filter((name) => !query.includes(`@${name}`)),
      [],
    );
    assert.doesNotMatch(query, /2026/, 'times are parameters');
  }
});

test('an answer of several pages is read to its end', async (t) => {
  const { server, read } = await open(t);
  server.pageSize = 1;
  const { rows } = await read();
  assert.deepEqual(
    rows.map(({ service }) => service),
    ['Cloud TPU', 'Cloud Storage', 'Invoice'],
  );
});

test('busy answers and broken connections are repeated; a query that was accepted does not run twice', async (t) => {
  const { server, read } = await open(t);
  server.faults.push(
    { status: 503, reason: 'backendError', message: 'Error encountered during execution. Retrying may solve it.' },
    { status: 403, reason: 'rateLimitExceeded', message: 'Exceeded rate limits: too many concurrent queries' },
    'hang-up',
    'lost-answer',
  );
  const { rows } = await read();
  assert.equal(rows.length, 3);
  assert.equal(server.queries.length, 2);
});

test('a server that stays busy, or that is not there, is unreachable', async (t) => {
  const busy = await failure(t, { status: 503, reason: 'backendError', message: 'The backend is unavailable.' });
  assert.deepEqual(busy, { code: 5, text: 'BigQuery does not answer (503).\nThe backend is unavailable.' });
  const { server, read } = await open(t);
  await server.close();
  await assert.rejects(
    read(),
    (error: JobmanError) => error.code === 5 && error.message.startsWith('BigQuery does not answer.'),
  );
});

test('a missing table is named, with the setting', async (t) => {
  const message = `Not found: Table ${table} was not found in location EU`;
  const { code, text } = await failure(t, { status: 404, reason: 'notFound', message });
  assert.equal(code, 3);
  assert.match(text, new RegExp(`^BigQuery has no billing export ${table}\\.`));
  assert.match(text, /billing\.exportTable/);
});

test('a missing permission is named, with the project or the dataset that needs it', async (t) => {
  const project = await failure(t, {
    status: 403,
    reason: 'accessDenied',
    message:
      'Access Denied: Project lab-queries: User does not have bigquery.jobs.create permission in project lab-queries.',
  });
  assert.equal(project.code, 1);
  assert.match(
    project.text,
    /^You may not run queries in project lab-queries: the permission bigquery\.jobs\.create is missing\./,
  );
  assert.match(project.text, /roles\/bigquery\.jobUser.*billing\.queryProject/);
  const data = await failure(
    t,
    {
      status: 403,
      reason: 'accessDenied',
      message: `Access Denied: Table ${table}: User does not have permission to query table ${table}, or perhaps it does not exist.`,
    },
    isCoverage,
  );
  assert.equal(data.code, 1);
  assert.match(data.text, /the permission bigquery\.tables\.getData is missing\./);
  assert.match(data.text, /roles\/bigquery\.dataViewer\) on the dataset costs of project lab-billing/);
});

test('a query above the limit is refused before it costs anything', async (t) => {
  const { code, text } = await failure(t, {
    status: 400,
    reason: 'bytesBilledLimitExceeded',
    message: 'Query exceeded limit for bytes billed: 20000000. 52428800 or higher required.',
  });
  assert.equal(code, 1);
  assert.match(text, /^The query would read more than 20\.0 MB of .* BigQuery refused it and charged nothing\./);
  assert.match(text, /52428800 or higher required\.\n.*billing\.maxQueryBytes/);
});

test('other refusals: an API that is off, a login, a table of something else', async (t) => {
  const off = await failure(t, {
    status: 403,
    reason: 'accessNotConfigured',
    message: 'BigQuery API has not been used',
  });
  assert.match(off.text, /gcloud services enable bigquery\.googleapis\.com --project=lab-queries/);
  const login = await failure(t, { status: 401, reason: 'authError', message: 'Invalid Credentials' });
  assert.equal(login.code, 5);
  const other = await failure(t, {
    status: 400,
    reason: 'invalidQuery',
    message: 'Unrecognized name: usage_start_time',
  });
  assert.match(other.text, /is not a billing export with usage costs/);
});

test('a view has no partitions of its own', async (t) => {
  const message = 'Unrecognized name: _PARTITIONTIME at [14:75]';
  const { server, read } = await open(t, (request) =>
    request.query.includes('_PARTITIONTIME') ? { status: 400, reason: 'invalidQuery', message } : prepared(request),
  );
  const { rows } = await read();
  assert.equal(rows.length, 3);
  assert.ok(server.queries.every(({ maximumBytesBilled }) => maximumBytesBilled === '20000000'));
});

test('an export without usage in the period', async (t) => {
  const { read } = await open(t, ({ query }) =>
    isCoverage(query) ? { ...coverage, rows: [[null, null]] } : { ...usage, rows: [] },
  );
  const { rows, firstUsageAt, exportedAt } = await read();
  assert.deepEqual({ rows, firstUsageAt, exportedAt }, { rows: [], firstUsageAt: null, exportedAt: null });
});

test('a row of another form is counted, and the others are read', async (t) => {
  const [row] = usage.rows;
  assert.ok(row !== undefined);
  const wrong = row.with(0, null);
  const notANumber = row.with(7, 'NaN');
  const tooLarge = row.with(7, '1e308');
  const noRate = row.with(9, 'NaN');
  const { read } = await open(t, ({ query }) =>
    isCoverage(query)
      ? { ...coverage, rows: [['9'.repeat(17), String(until)]] }
      : { ...usage, rows: [wrong, row, notANumber, tooLarge, noRate] },
  );
  const { rows, unreadableRows, firstUsageAt, exportedAt } = await read();
  assert.deepEqual(
    rows.map(({ cost, netUsd }) => [cost, netUsd]),
    [
      [92.5, 100],
      [92.5, null],
    ],
  );
  assert.deepEqual(
    { unreadableRows, firstUsageAt, exportedAt },
    { unreadableRows: 3, firstUsageAt: null, exportedAt: until },
  );
});

test('an answer that is not from BigQuery is an error', async (t) => {
  const { read } = await open(t, ({ query }) =>
    isCoverage(query) ? coverage : { fields: [['html', 'STRING']], rows: [['<p>']] },
  );
  await assert.rejects(read(), (error: JobmanError) => error.code === 5);
});

test('the project of a table', () => {
  assert.equal(projectOfTable(table), 'lab-billing');
  assert.equal(projectOfTable('example.com:lab.costs.export'), 'example.com:lab');
});
