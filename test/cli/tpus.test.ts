/** The screen of `jobman tpus`: rows as plain data in, text and exit code out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TpuList, TpuQuery } from '../../src/app/tpus.ts';
import { jobman, tpuRow } from './support/harness.ts';

const rows = [
  tpuRow(),
  tpuRow({ name: 'dev', owner: { kind: 'user', name: 'grace' }, job: null, idleMs: null, idleCostUsd: null }),
  tpuRow({
    name: 'old',
    owner: { kind: 'none' },
    job: null,
    state: 'STOPPED',
    nodeState: 'STOPPED',
    readyAt: null,
    idleMs: null,
    idleCostUsd: null,
    accelerator: null,
    pricePerHourUsd: null,
  }),
  tpuRow({ name: 'x', owner: { kind: 'installation', installation: 'q7k2zz', id: '000001' }, job: null, idleMs: null }),
];

function tpus(list: Partial<TpuList>, argv: readonly string[] = [], columns?: number) {
  const asked: TpuQuery[] = [];
  return jobman(['tpus', ...argv], {
    ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }),
    client: {
      tpus: async (query) => {
        asked.push(query);
        return {
          rows: [],
          unchecked: [],
          anyAnswered: true,
          forgettable: [],
          projects: ['lab'],
          suggestion: null,
          ...list,
        };
      },
    },
  }).then((ended) => ({ ...ended, queries: asked }));
}

test('who made a TPU of another jobman is named where its metadata says so', async () => {
  const claimant = { kind: 'installation', installation: 'q7k2zz', id: '000001' } as const;
  const { out } = await tpus({ rows: [tpuRow({ owner: claimant, metadataOwner: 'grace' })] });
  assert.match(out, / grace, jobman q7k2zz /);
});

test('a row for each, with the sum below', async () => {
  const { code, out, err } = await tpus({ rows });
  assert.equal(
    out,
    `NAME          ZONE        ACCELERATOR   PRICING  STATE    OWNER          JOB     READY  IDLE    PRICE
vit-000042-1  us-west4-a  v5litepod-16  spot     READY    alice          000042     4h    3h  $7.68/h
dev           us-west4-a  v5litepod-16  spot     READY    grace          -          4h     ?  $7.68/h
old           us-west4-a  ?             spot     STOPPED  none           -           -     -        ?
x             us-west4-a  v5litepod-16  spot     READY    jobman q7k2zz  -          4h     ?  $7.68/h
`,
  );
  assert.equal(err, '4 TPUs, about $23.04/h; 1 idle, about $23.04 for nothing so far\n');
  assert.equal(code, 0);
});

test('a zone that does not answer is listed with its error; the command fails only if no zone answers', async () => {
  const asleep = { project: 'emulator', zone: null, message: 'it does not run', isEmulatorStopped: true };
  const refused = {
    project: 'lab',
    zone: 'us-east5-b',
    message: 'PERMISSION_DENIED: not yours',
    isEmulatorStopped: false,
  };
  const some = await tpus({ rows: [tpuRow()], unchecked: [refused, asleep] });
  assert.equal(some.code, 0);
  assert.match(some.out, /vit-000042-1/);
  assert.match(
    some.err,
    /^jobman: zone us-east5-b of project lab could not be checked: PERMISSION_DENIED: not yours$/m,
  );
  assert.doesNotMatch(some.err, /--forget/, 'of a project that a job still uses');
  const done = await tpus({
    rows: [tpuRow()],
    unchecked: [{ ...refused, project: 'used' }, refused],
    forgettable: ['lab'],
  });
  assert.match(done.err, /^To stop asking about such a project: jobman tpus --forget lab$/m);
  const none = await tpus({ unchecked: [refused], anyAnswered: false });
  assert.deepEqual([none.code, none.out], [5, '']);
  assert.doesNotMatch(none.err, /No TPU exists/);
  const sleeping = await tpus({ unchecked: [asleep] });
  assert.equal(sleeping.code, 0);
  assert.match(sleeping.err, /^note: project emulator could not be checked/);
  const empty = await tpus({});
  assert.deepEqual([empty.code, empty.err], [0, 'No TPUs in project lab.\n']);
  assert.equal((await tpus({ projects: ['a', 'b'] })).err, 'No TPUs in projects a and b.\n');
});

test('a narrow terminal drops columns in the documented order, and no line is too long', async () => {
  for (const columns of [40, 59, 60, 72, 80, 100, 200]) {
    const { out } = await tpus({ rows }, [], columns);
    for (const line of out.split('\n')) assert.ok(line.length <= columns, `${columns}: ${line}`);
    if (columns >= 60) assert.match(out, /NAME.*STATE.*OWNER.*IDLE.*PRICE/);
  }
  assert.doesNotMatch((await tpus({ rows }, [], 98)).out, /PRICING/);
  assert.match(
    (await tpus({ rows }, [], 40)).out,
    /^vit-000042-1 {2}v5litepod-16\n {2}READY {2}alice {2}idle 3h {2}\$7\.68\/h$/m,
  );
});

test('a name of the cloud cannot write to the terminal', async () => {
  const { out } = await tpus({ rows: [tpuRow({ name: 'a\u001B[2Jb', accelerator: 'v4\n-8' })] }, [], 120);
  assert.equal(out.includes('\u001B[2J'), false);
  assert.equal(out.split('\n').length, 3);
});

test('projects are named if there are several, and simulated costs are in no sum', async () => {
  const { out, err } = await tpus({ rows: [tpuRow({ project: 'emulator', simulated: true }), tpuRow()] });
  assert.match(out, /emulator\/us-west4-a/);
  assert.equal(err, '2 TPUs, about $7.68/h; 1 idle, about $23.04 for nothing so far\n');
});

test('for programs: one object per line, times as text', async () => {
  const { out, queries } = await tpus({ rows }, ['--json', '--all', '--zone', 'us-west4-a', '--project', 'lab']);
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.equal(lines.length, 4);
  assert.equal(lines[0]?.['readyAt'], '2026-11-21T04:20:14.000Z');
  assert.deepEqual(lines[1]?.['owner'], { kind: 'user', user: 'grace', installation: null });
  assert.deepEqual(queries, [{ all: true, zone: 'us-west4-a', project: 'lab' }]);
});
