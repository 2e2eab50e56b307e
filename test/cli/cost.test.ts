/** `jobman cost`: usage in; text, CSV, objects and exit code out. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hour, minute } from '../../src/core/model/time.ts';
import type { UsageRow } from '../../src/reports/usage.ts';
import { noon, usageRow } from '../support/builders.ts';
import { jobman, jobView, jsonLines } from './support/harness.ts';

const midnight = noon - 12 * hour;
const machine = {
  source: 'hosts',
  name: 'localhost',
  location: null,
  accelerator: null,
  pricing: null,
  chips: null,
  pricePerHourUsd: null,
  pricesOf: null,
} as const;

const usage: readonly UsageRow[] = [
  usageRow({ use: 'waiting', pricePerHourUsd: 0, pricesOf: null, from: midnight - 2 * hour, until: midnight }),
  usageRow({ tags: ['sweep', 'vit'] }),
  usageRow({ use: 'lost', from: midnight + hour, until: midnight + 1.5 * hour, tags: ['sweep', 'vit'] }),
  usageRow({ ...machine, job: '000002', jobName: 'count', owner: 'bob', until: midnight + 3 * hour }),
  usageRow({ job: '000003', jobName: 'iris', use: 'kept', simulated: true, until: midnight + 30 * minute }),
];
const jobs = [
  jobView({ id: '000001', name: 'vit' }),
  jobView({ id: '000002', name: 'count' }),
  jobView({ id: '000009' }),
];

const cost = (argv: readonly string[], columns?: number) =>
  jobman(['cost', ...argv], {
    usage,
    jobs,
    ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }),
  });

test('the rows are jobs of the last 30 days, with what is not priced and what is simulated', async () => {
  const { code, out } = await cost([]);
  assert.equal(code, 0);
  assert.equal(
    out,
    `Estimated cost of all jobs in the last 30 days, by job, with the list prices of 2026-08-01.

JOB     NAME   USER  HOURS  CHIP-HOURS           ESTIMATE  USEFUL   LOST  SETUP  IDLE   KEPT  WAITING
000001  vit    ada     1.5        24.0             $12.00   $8.00  $4.00      -     -      -     2.0h
000002  count  bob     3.0           -         not priced    3.0h      -      -     -      -        -
000003  iris   ada    0.50         8.0  $4.00 (simulated)       -      -      -     -  $4.00        -

TOTAL    HOURS  CHIP-HOURS                  ESTIMATE
useful     4.0        16.0   $8.00 + 3.0h not priced
lost      0.50         8.0                     $4.00
total      4.5        24.0  $12.00 + 3.0h not priced
waiting    2.0        32.0               not charged

SIMULATED  HOURS  CHIP-HOURS           ESTIMATE
kept        0.50         8.0              $4.00
total       0.50         8.0  $4.00 (simulated)

Simulated: the TPU emulator. It is free; the estimate is the price of the same TPUs at Google.
Not priced: there is no list price. The setting \`prices\` adds your own prices (docs/costs.md).
`,
  );
});

test('by user, tag and day the simulated row of a key says so', async () => {
  for (const by of ['user', 'tag', 'day']) {
    const { out } = await cost(['--by', by]);
    assert.match(out, /^\S.* \(simulated\) +0\.50 +8\.0 +\$4\.00 \(simulated\) /m, by);
  }
});

test('a single job has its row and the sums by use, over its whole life', async () => {
  const { out, err } = await cost(['1']);
  assert.equal(err, '');
  assert.equal(
    out,
    `Estimated cost of job 000001 since 19 Nov 22:00:00 UTC, by job, with the list prices of 2026-08-01.

JOB     NAME  USER  HOURS  CHIP-HOURS  ESTIMATE  USEFUL   LOST  SETUP  IDLE  KEPT  WAITING
000001  vit   ada     1.5        24.0    $12.00   $8.00  $4.00      -     -     -     2.0h

TOTAL    HOURS  CHIP-HOURS     ESTIMATE
useful     1.0        16.0        $8.00
lost      0.50         8.0        $4.00
total      1.5        24.0       $12.00
waiting    2.0        32.0  not charged
`,
  );
});

test('of several jobs of one name, the output says which one it is about', async () => {
  const older = usageRow({ job: '000000' });
  const named = await jobman(['cost', 'vit'], { usage: [...usage, older], jobs });
  assert.match(named.out, /^Estimated cost of job 000001 since /);
  assert.equal(named.err, 'This is job 000001, the newest of 2 named vit. All of them: jobman cost --name vit\n');
  assert.equal((await jobman(['cost', '1'], { usage: [...usage, older], jobs })).err, '');
  const all = await jobman(['cost', '--name', 'vit'], { usage: [...usage, older], jobs });
  assert.match(all.out, /^Estimated cost of all jobs named vit since 19 Nov 22:00:00 UTC, by job/);
  assert.match(all.out, /^00000[01].*\n00000[01].*\n\nTOTAL/m);
});

test('the cost of unpriced capacity is not an amount of money', async () => {
  const { out } = await cost(['count', '2', 'count']);
  assert.match(out, /^Usage of job 000002 since 20 Nov 00:00:00 UTC, by job\. jobman has no price for it\.\n/);
  assert.match(out, /^total +3\.0 +- +not priced$/m);
  assert.doesNotMatch(out, /\$/);
});

test('before its capacity is ready, a job costs nothing', async () => {
  const waiting = usageRow({ use: 'waiting', pricePerHourUsd: 0, pricesOf: null });
  const { out } = await jobman(['cost', '1'], { usage: [waiting], jobs });
  assert.match(out, /by job\. No capacity was ready, so nothing is charged\.\n/);
  assert.match(out, /^waiting .* not charged$/m);
  assert.doesNotMatch(out, /price/);
});

test('the output explains time that is free because its TPU was preempted within a minute', async () => {
  const free = usageRow({ use: 'lost', until: midnight + minute / 2, pricePerHourUsd: 0, pricesOf: null });
  const { out } = await jobman(['cost', '1'], { usage: [...usage, free], jobs });
  assert.match(out, /^\$0\.00: Google does not charge a TPU that it preempts within a minute\./m);
  assert.match((await jobman(['cost', '1'], { usage: [free], jobs })).out, /by job\. Nothing is charged\.\n/);
  // An own price of 0 is a price.
  const own = usageRow({ pricePerHourUsd: 0, pricesOf: 'settings' });
  assert.doesNotMatch((await jobman(['cost', '1'], { usage: [own], jobs })).out, /within a minute/);
});

test('a job with two tags counts in both, and the output says so', async () => {
  const { out } = await cost(['--by', 'tag', '--user', 'ada']);
  assert.match(out, /^Estimated cost of all jobs of ada in the last 30 days, by tag/);
  assert.match(out, /^sweep .* \$12\.00 /m);
  assert.match(out, /^vit .* \$12\.00 /m);
  assert.match(out, /^total .* \$12\.00$/m);
  assert.match(out, /^A job with several tags counts in each of them\. The total counts it once\.$/m);
});

test('a period is cut exactly, and its days are those of UTC', async () => {
  const { out } = await cost(['--since', '2026-11-20', '--until', '2026-11-20T00:30', '--by', 'day']);
  assert.match(
    out,
    /^Estimated cost of all jobs from 20 Nov 00:00:00 UTC to 20 Nov 00:30:00 UTC, by day, with the list prices of 2026-08-01\.\n/,
  );
  assert.match(out, /^2026-11-20 +1\.0 +8\.0 +\$4\.00 \+ 0\.50h not priced /m);
});

test('as CSV the rows are the same, and a cell without a price is empty', async () => {
  const { out, err } = await cost(['--csv']);
  assert.match(err, /^Estimated cost of all jobs in the last 30 days/);
  const [titles = '', ...rows] = out.trimEnd().split('\n');
  const cells = rows.map((row) => {
    const values = row.split(',');
    return Object.fromEntries(titles.split(',').map((title, at) => [title, values[at]]));
  });
  assert.deepEqual(
    cells.map((row) => [row['row'], row['job'], row['simulated'], row['held_hours'], row['held_estimate_usd']]),
    [
      ['group', '000001', 'false', '1.5', '12'],
      ['group', '000002', 'false', '3', ''],
      ['group', '000003', 'true', '0.5', '4'],
      ['total', '', 'false', '4.5', '12'],
      ['total', '', 'true', '0.5', '4'],
    ],
  );
  assert.deepEqual(
    [cells[1]?.['held_not_priced_hours'], cells[0]?.['waiting_hours'], cells[0]?.['prices'], cells[0]?.['until']],
    ['3', '2', '2026-08-01', '2026-11-21T08:20:14.000Z'],
  );
});

test('CSV quotes, and a name is not a formula', async () => {
  const named = usageRow({ jobName: '=1+1,"x"' });
  const { out } = await jobman(['cost', '--csv'], { usage: [named] });
  assert.match(out, /^group,000001,"'=1\+1,""x""",ada,/m);
});

test('for programs there is one object per line, in milliseconds and dollars', async () => {
  const { out } = await cost(['--json']);
  const objects = jsonLines<{ kind: string; simulated?: boolean; beginsAt?: string; held?: object }>(out);
  assert.deepEqual(
    objects.map(({ kind }) => kind),
    ['period', 'group', 'group', 'group', 'total', 'total'],
  );
  assert.equal(objects[0]?.beginsAt, '2026-10-22T08:20:14.000Z');
  assert.deepEqual(objects[2]?.held, {
    durationMs: 3 * hour,
    chipMs: 0,
    estimateUsd: null,
    unpricedMs: 3 * hour,
    freeMs: 0,
  });
});

test('beyond 50 rows the others are counted together', async () => {
  const many = Array.from({ length: 60 }, (_, index) => usageRow({ job: String(index + 1).padStart(6, '0') }));
  const { out } = await jobman(['cost'], { usage: many });
  assert.match(out, /^10 more +10\.0 +160 +\$80\.00 /m);
  assert.match(out, /^total +60\.0 +960 +\$480\.00$/m);
  assert.match(out, /^Every job: --all$/m);
  const all = await jobman(['cost', '--all'], { usage: many });
  assert.match(all.out, /^000060 /m);
  assert.doesNotMatch(all.out, / more /);
});

suite('a time is accepted as people write it', () => {
  for (const [written, time] of [
    ['yesterday', '2026-11-20T00:00:00.000Z'],
    ['today', '2026-11-21T00:00:00.000Z'],
    ['5min', '2026-11-21T08:15:14.000Z'],
    ['2 days ago', '2026-11-19T08:20:14.000Z'],
    ['2026-11-20 10:00', '2026-11-20T10:00:00.000Z'],
  ] as const) {
    test(written, async () => {
      const { out } = await cost(['--json', '--since', written]);
      assert.equal(jsonLines<{ beginsAt?: string }>(out)[0]?.beginsAt, time);
    });
  }
});

suite('bad input', () => {
  for (const [argv, message] of [
    [['--by', 'acelerator'], /--by "acelerator": expected one of job, user, .*Did you mean accelerator\?/],
    [['--since', 'last week'], /--since "last week": expected a time: 7d \(ago\), yesterday, 2026-11-28, /],
    [['--since', '2026-02-30'], /expected a time/],
    [['--since', '20'], /expected a time/],
    [
      ['--since', '2027-01-01'],
      /--since is not in the past: 1 Jan 2027 00:00:00 UTC\. It is now 21 Nov 08:20:14 UTC\./,
    ],
    [
      ['--since', '2026-11-10', '--until', '2026-11-09'],
      /--since \(10 Nov 00:00:00 UTC\) is not before --until \(10 Nov 00:00:00 UTC\)\./,
    ],
    [['--csv', '--json'], /--csv and --json exclude each other\./],
  ] as const) {
    test(argv.join(' '), async () => {
      const { code, out, err } = await cost(argv);
      assert.deepEqual([code, out], [2, '']);
      assert.match(err, message);
    });
  }

  test('an unknown job is an error, and the others are shown', async () => {
    const { code, out, err } = await cost(['1', '77']);
    assert.equal(code, 3);
    assert.match(err, /There is no job 000077\./);
    assert.match(out, /^Estimated cost of job 000001 /);
    assert.deepEqual(await cost(['77']).then((one) => [one.code, one.out]), [3, '']);
  });

  test('without usage in the period, the first usage is named', async () => {
    const before = await cost(['--since', '2026-01', '--until', '2026-03']);
    assert.deepEqual([before.code, before.out], [0, '']);
    assert.equal(
      before.err.replaceAll('\n', ' '),
      'No usage of any job from 1 Jan 00:00:00 UTC to 1 Apr 00:00:00 UTC. The first usage began on 19 Nov 22:00:00 UTC. ',
    );
    const never = await cost(['9']);
    assert.equal(never.err, 'No usage of job 000009 so far.\n');
  });
});

for (const columns of [100, 80, 60, 40]) {
  test(`on ${columns} columns nothing is wider than the terminal, and the estimate stays`, async () => {
    const { out } = await cost([], columns);
    for (const line of out.split('\n')) assert.ok(line.length <= columns, line);
    assert.match(out, /^000001 .* \$12\.00/m);
  });
}
