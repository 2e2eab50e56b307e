import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ZoneRow } from '../../src/app/zones.ts';
import { zoneLines } from '../../src/cli/commands/zones.ts';
import { width } from '../../src/cli/render/cell.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { jsonLines, jobman, now, jobView } from './support/harness.ts';

const jobs = [
  jobView({
    id: '000045',
    name: 'eval-sweep',
    accelerator: 'v6e-8',
    phase: 'queued',
    message: 'no capacity for 9m',
  }),
  jobView(),
  jobView({ id: '000041', name: 'vit-l16-1e4', phase: 'failed', message: 'exit 1, worker 3' }),
];
const headings = (out: string) => out.split('\n')[0]?.split(/ {2,}/);

suite('list', () => {
  test('has all columns and cuts nothing where there is no terminal', async () => {
    const name = 'a-name-that-no-terminal-would-show-whole-because-it-is-far-too-long-for-any-of-them';
    const client = { isControllerRunning: async () => false };
    const { code, out, err } = await jobman(['list'], { client, jobs: [jobView({ name }), ...jobs] });
    assert.equal(code, 0);
    const all = ['JOB ID', 'USER', 'NAME', 'ACCELERATOR', 'ZONE', 'HOST', 'STATUS', 'AGE', 'DETAIL'];
    assert.deepEqual(headings(out), all);
    assert.ok(out.includes(name));
    assert.ok(!out.includes('\u001b'), 'No colour reaches a pipe.');
    assert.equal(
      err,
      '4 jobs\nNo controller runs, so this is the last known state. Start one: jobman controller start\n',
    );
  });

  for (const [columns, expected] of [
    [200, ['JOB ID', 'USER', 'NAME', 'ACCELERATOR', 'ZONE', 'HOST', 'STATUS', 'AGE', 'DETAIL']],
    [120, ['JOB ID', 'USER', 'NAME', 'ACCELERATOR', 'ZONE', 'HOST', 'STATUS', 'AGE', 'DETAIL']],
    [88, ['JOB ID', 'NAME', 'ACCELERATOR', 'ZONE', 'STATUS', 'AGE', 'DETAIL']],
    [80, ['JOB ID', 'NAME', 'ACCELERATOR', 'STATUS', 'AGE', 'DETAIL']],
    [60, ['JOB ID', 'NAME', 'STATUS', 'DETAIL']],
  ] as const) {
    test(`on a terminal of ${columns} columns shows ${expected.join(', ')}`, async () => {
      const { out } = await jobman(['list', '--color', 'never'], { jobs, terminal: { columns, rows: 24 } });
      assert.deepEqual(headings(out), expected);
      for (const line of out.split('\n')) assert.ok(width(line) <= columns, `${line} is wider than ${columns}`);
    });
  }

  test('keeps USER as long as the jobs are of several', async () => {
    const mixed = [...jobs, jobView({ id: '000046', owner: 'bob' })];
    const { out } = await jobman(['list', '--color=never'], { jobs: mixed, terminal: { columns: 80, rows: 24 } });
    assert.ok(headings(out)?.includes('USER'));
    assert.ok(!headings(out)?.includes('ZONE'));
  });

  test('gives a job two lines on a terminal of 40 columns', async () => {
    const { out } = await jobman(['list', '--color=never'], { jobs, terminal: { columns: 40, rows: 24 } });
    assert.equal(
      out,
      [
        '000045  eval-sweep                   14h',
        '  ◌ queued  no capacity for 9m',
        '000042  vit-l16-3e4                  14h',
        '  ▸ running  running for 2h, 2 preempti~',
        '000041  vit-l16-1e4                  14h',
        '  ✗ failed  exit 1, worker 3',
        '',
      ].join('\n'),
    );
  });

  test('cuts a long name in its middle, because names of one family differ at both ends', async () => {
    const name = 'pretraining-with-the-large-data-3e4';
    const { out } = await jobman(['list', '--color=never'], {
      jobs: [jobView({ name })],
      terminal: { columns: 80, rows: 24 },
    });
    assert.match(out, /pretrai\S*~\S*3e4/);
  });

  test('shows phases without colour and in ASCII where the locale is not UTF-8', async () => {
    const { out } = await jobman(['list'], { jobs, env: { LANG: 'C' } });
    assert.match(out, /\. queued/);
    assert.match(out, /> running/);
    assert.match(out, /x failed/);
  });

  test('colours a terminal, but not with NO_COLOR or a dumb one', async () => {
    const terminal = { columns: 80, rows: 24 };
    assert.ok((await jobman(['list'], { jobs, terminal })).out.includes('\u001b[31m'));
    assert.ok(!(await jobman(['list'], { jobs, terminal, env: { NO_COLOR: '1' } })).out.includes('\u001b'));
    assert.ok(!(await jobman(['list'], { jobs, terminal, env: { TERM: 'dumb' } })).out.includes('\u001b'));
    assert.ok((await jobman(['list'], { jobs, terminal, env: { NO_COLOR: '' } })).out.includes('\u001b[31m'));
    assert.ok((await jobman(['list', '--color=always'], { jobs })).out.includes('\u001b[31m'));
  });

  test('counts what it does not show, and says how to see it', async () => {
    const { err } = await jobman(['list'], { jobs, more: 28 });
    assert.match(err, /^3 of 31 jobs: .*--all/);
  });

  test('names the command for a first job, and the filter that hides others', async () => {
    assert.match((await jobman(['list'])).err, /No jobs yet\. Try one here: jobman run/);
    const filtered = await jobman(['list', '--phase', 'stopped', '--user=bob'], { jobs });
    assert.equal(filtered.err, 'No jobs of bob and stopped.\n');
    assert.equal(filtered.out, '');
  });

  test('says what did not answer, on standard error', async () => {
    const { out, err } = await jobman(['list'], { jobs, notes: ['cluster hpc-a did not answer in 2 s'] });
    assert.match(err, /note: cluster hpc-a/);
    assert.ok(!out.includes('hpc-a'));
  });

  test('--json prints one object per line, with times in RFC 3339', async () => {
    const { out } = await jobman(['--json', 'list'], { jobs });
    const rows = jsonLines<{ id: string; createdAt: string }>(out);
    assert.deepEqual(
      rows.map(({ id }) => id),
      ['000045', '000042', '000041'],
    );
    assert.equal(rows[0]?.createdAt, '2026-11-20T18:20:14.000Z');
  });

  test('a name cannot move the cursor', async () => {
    const { out } = await jobman(['list'], { jobs: [jobView({ name: 'evil\u001b[2J\u0007' })] });
    assert.ok(out.includes('evil\\x1b[2J\\x07'));
  });
});

const rows: readonly ZoneRow[] = [
  {
    project: 'lab',
    zone: 'us-east5-b',
    accelerator: 'v6e-16',
    pricing: 'spot',
    lastAnswer: { answer: 'ready', answeredAt: now - 2 * hour, job: '000007' },
    lastGrant: { grantedAt: now - 2 * hour, waitedMs: 41 * minute },
    heldBy: ['000007'],
    awaitedBy: ['000008', '000009'],
    simulated: false,
  },
  {
    project: 'lab',
    zone: 'us-west4-a',
    accelerator: 'v5litepod-16',
    pricing: 'ondemand',
    lastAnswer: { answer: 'stockout', answeredAt: now - minute, job: '000008' },
    lastGrant: null,
    heldBy: [],
    awaitedBy: [],
    simulated: false,
  },
];

test('alternatives are shown with their answers and our capacity there', () => {
  const [head = '', first = '', second = ''] = zoneLines(rows, null, now);
  assert.match(head, /^ZONE +ACCELERATOR +PRICING +LAST ANSWER +GRANTED +JOBS$/);
  assert.match(
    first,
    /^us-east5-b .* granted one, 2h ago +2h ago after 41m +held by 000007; awaited by 000008, 000009$/,
  );
  assert.match(second, /^us-west4-a +v5litepod-16 +ondemand +no capacity, 1m ago +never +-$/);
  for (const line of zoneLines(rows, 40, now)) assert.ok(line.length <= 40, line);
  assert.match(
    zoneLines(rows, 60, now)[0] ?? '',
    /^ZONE +ACCELERATOR +PRICING +LAST ANSWER *$/,
    'whole columns go, no heading is cut',
  );
});

test('jobman zones prints a table, objects for programs, and a sentence where nothing is known', async () => {
  const table = await jobman(['zones'], { zones: rows });
  assert.equal(table.code, 0);
  assert.equal(table.out.split('\n').length, 4);
  const json = await jobman(['zones', '--json', '--project', 'lab'], { zones: rows });
  const [one] = json.out.split('\n').map((line) => (line === '' ? null : (JSON.parse(line) as { lastGrant: object })));
  assert.deepEqual(one?.lastGrant, { grantedAt: '2026-11-21T06:20:14.000Z', waitedMs: 41 * minute });
  const none = await jobman(['zones', '--project', 'other'], { zones: rows });
  assert.deepEqual([none.code, none.out], [0, '']);
  assert.match(none.err, /No job has requested/);
});
