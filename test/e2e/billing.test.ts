// `jobman billing` as a whole: settings, Google's client library, the database and the terminal.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openBigQueryServer } from '../google/bigquery-server.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

const day = 24 * 60 * 60 * 1000;

test('the export of the settings is read without a login from a loopback address', async (t) => {
  const world = openWorld(t);
  const today = Date.now();
  const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);
  const server = await openBigQueryServer(({ query }) =>
    query.includes('MAX(export_time)')
      ? {
          fields: [
            ['firstUsage', 'INTEGER'],
            ['exported', 'INTEGER'],
          ],
          rows: [[String(today - 40 * day), String(today)]],
        }
      : {
          fields: [
            ['usageDay', 'STRING'],
            ['serviceName', 'STRING'],
            ['currencyCode', 'STRING'],
            ['cost', 'FLOAT'],
            ['credits', 'FLOAT'],
            ['netUsd', 'FLOAT'],
          ],
          rows: [
            [dayOf(today - 3 * day), 'Cloud TPU', 'USD', '3.5', '-1.0', '2.5'],
            [dayOf(today - 3 * day), 'Cloud Storage', 'USD', '0.25', '0.0', '0.25'],
          ],
        },
  );
  world.atEnd(() => server.close());
  mkdirSync(world.home);
  const billing = { exportTable: 'lab-1234.costs.export', maxQueryBytes: 20_000_000 };
  const settings = { billing, google: { endpoints: { bigquery: `${server.url}/` } } };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));

  const { code, stdout, stderr } = await jobman(world, ['billing', '--by', 'service']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^Cloud TPU +\$2\.50\nCloud Storage +\$0\.25\nTOTAL +\$2\.75\n/m);
  assert.match(stderr, /BigQuery read 7\.0 MB and charges for 21\.0 MB\./);
  assert.match(stderr, /Jobs of this jobman, .*: no TPU was used or billed\./);
  assert.deepEqual([...new Set(server.authorizations)], [undefined]);
  assert.deepEqual(
    server.queries.map(({ project, maximumBytesBilled }) => [project, maximumBytesBilled]),
    [
      ['lab-1234', '20000000'],
      ['lab-1234', '20000000'],
    ],
  );

  server.answer = () => ({ status: 404, reason: 'notFound', message: 'Not found: Table lab-1234:costs.export' });
  const missing = await jobman(world, ['billing', '--json']);
  assert.equal(missing.code, 3);
  assert.match(missing.stderr, /BigQuery has no billing export lab-1234\.costs\.export/);
});
