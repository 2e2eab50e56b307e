/** The screen of `jobman quota`: a report as plain data in, text and exit code out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { QuotaReport } from '../../src/app/quota.ts';
import type { QuotaHolder, QuotaLimitRow, QuotaRow } from '../../src/reports/quota.ts';
import { jobman, jsonLines } from './support/harness.ts';

function row(different: Partial<QuotaRow> = {}): QuotaRow {
  return {
    project: 'lab',
    zone: 'us-east5-b',
    generation: 'v6e',
    variant: null,
    pricing: 'spot',
    quotaId: 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI',
    scope: 'zone',
    limitState: 'limited',
    limitChips: 64,
    limitReadAt: Date.UTC(2026, 10, 21, 8, 0, 5),
    usedChips: 0,
    reclaimableChips: 0,
    requestedChips: 0,
    leftChips: 64,
    holders: [],
    ...different,
  };
}

function holder(different: Partial<QuotaHolder> = {}): QuotaHolder {
  const base = { owner: 'alice', job: '000042', name: 'vit', state: 'READY', chips: 16 } as const;
  return { ...base, use: 'used', reclaimable: null, command: null, ...different };
}

function quota(report: Partial<QuotaReport>, argv: readonly string[] = [], columns?: number) {
  const whole: QuotaReport = {
    rows: [],
    limits: [],
    unread: [],
    unreadable: [],
    unchecked: [],
    uncounted: [],
    anyAnswered: true,
    simulatedProjects: [],
    projects: ['lab'],
    suggestion: null,
    ...report,
  };
  return jobman(['quota', ...argv], {
    ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }),
    client: { quota: async () => whole },
  });
}

const used = row({
  usedChips: 48,
  reclaimableChips: 16,
  requestedChips: 8,
  leftChips: 8,
  holders: [
    holder({ chips: 32 }),
    holder({
      owner: null,
      job: null,
      name: 'dead',
      state: 'PREEMPTED',
      reclaimable: 'ended',
      command: 'jobman gc dead --yes',
    }),
    holder({ chips: 8, use: 'requested' }),
  ],
});

test('a row for each quota, and below it what can be released, with its command', async () => {
  const { code, out, err } = await quota({ rows: [used, row({ zone: 'us-east5-a', limitChips: 0 })] });
  assert.equal(
    out,
    `ZONE        GENERATION  PRICING  LIMIT  USED  RECLAIMABLE  REQUESTED  LEFT  USED BY
us-east5-b  v6e         spot        64    48           16          8     8  alice 32, creator unknown 16

dead (16 chips, v6e spot, us-east5-b) is PREEMPTED, but Google still counts it. Release it: jobman gc dead --yes
`,
  );
  assert.equal(err, "In chips. Limits read from Google's quota API at 08:00:05 UTC.\n");
  assert.equal(code, 0);
  const simulated = await quota({ rows: [used], simulatedProjects: [used.project] });
  assert.equal(simulated.err, 'In chips. Limits read from the TPU emulator at 08:00:05 UTC.\n');
});

test('zones that share a limit of their region are one row unless a zone of it has TPUs', async () => {
  const regional = { scope: 'region', quotaId: 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' } as const;
  const rows = ['us-east5-a', 'us-east5-b', 'us-east5-c'].map((zone) => row({ ...regional, zone }));
  const unused = await quota({ rows });
  assert.match(unused.out, /^us-east5 {2}v6e +spot {5}64 in region /m);
  assert.equal(unused.out.trimEnd().split('\n').length, 2);
  const one = await quota({ rows: [...rows.slice(1), row({ ...regional, zone: 'us-east5-a', usedChips: 8 })] });
  assert.match(one.out, /^us-east5-a {2}v6e/m);
  assert.equal(one.out.trimEnd().split('\n').length, 2);
  const named = await quota({ rows: rows.slice(0, 1) }, ['--zone', 'us-east5-a']);
  assert.match(named.out, /^us-east5-a {2}v6e/m);
});

test('no limit, an unknown limit and an unknown use are shown differently', async () => {
  const { out } = await quota({
    rows: [
      row({ limitState: 'unlimited', limitChips: null, usedChips: 16, leftChips: null }),
      row({ zone: 'us-east5-a', limitState: 'unknown', limitChips: null, usedChips: 16, leftChips: null }),
      row({ zone: 'us-east1-d', usedChips: null, reclaimableChips: null, requestedChips: null, leftChips: null }),
    ],
  });
  assert.match(out, /^us-east5-b .* none {4}16 {12}0 {10}0 {5}- {2}-$/m);
  assert.match(out, /^us-east5-a .* {4}\? {4}16 {12}0 {10}0 {5}\? {2}-$/m);
  assert.match(out, /^us-east1-d .* {3}64 {5}\? {12}\? {10}\? {5}\? {2}-$/m);
});

test('a project without permission is named with it, and fails the command only if it is the only one', async () => {
  const problem = {
    project: 'other',
    message: 'PERMISSION_DENIED: no',
    permission: 'cloudquotas.quotas.get',
    fix: 'gcloud x',
  };
  const some = await quota({ rows: [used], unread: [problem], projects: ['lab', 'other'] });
  assert.equal(some.code, 0);
  assert.match(
    some.err,
    /^jobman: The limits of project other could not be read \(missing permission: cloudquotas\.quotas\.get\): PERMISSION_DENIED: no$/m,
  );
  assert.match(some.err, /^ {2}gcloud x {4}repairs it$/m);
  const only = await quota({ unread: [problem], projects: ['other'] });
  assert.equal(only.code, 1);
  assert.match(only.err, /^No TPU in project other; the limits are not known\.$/m);
  assert.doesNotMatch(only.err, /no limit above 0/);
  const disabled = await quota({ unread: [{ ...problem, permission: null }], projects: ['other'] });
  assert.equal(disabled.code, 1);
  const silent = await quota({
    unread: [{ ...problem, permission: null, fix: null }],
    projects: ['other'],
    anyAnswered: false,
  });
  assert.equal(silent.code, 5);
});

test('a limit of an unexpected form is named, and the others are shown', async () => {
  const unreadable = [{ project: 'lab', quotas: ['TPUV6EPerProjectPerZoneForTPUAPI', 'entry 3\u001b[2J'] }];
  const { code, out, err } = await quota({ rows: [row({ usedChips: 16 })], unreadable });
  assert.equal(code, 0);
  assert.match(out, /16/);
  assert.match(err, /limits of project lab are not known.*: TPUV6EPerProjectPerZoneForTPUAPI and entry 3/);
  assert.ok(!err.includes('\u001b'));
});

test('a stopped TPU emulator is a note', async () => {
  const unchecked = [{ project: 'emulator', zone: null, message: 'it does not run', isEmulatorStopped: true }];
  const unread = [{ project: 'emulator', message: 'it does not run', permission: null, fix: null }];
  const { code, err } = await quota({ unchecked, unread, projects: ['emulator'], anyAnswered: false });
  assert.equal(code, 0);
  assert.match(err, /^note: project emulator could not be checked: it does not run$/m);
});

test('the table fits a narrow terminal, and names from the cloud cannot control it', async () => {
  const { out } = await quota({ rows: [used] }, [], 60);
  assert.ok(
    out
      .split('\n')
      .slice(0, 2)
      .every((line) => line.length <= 60),
    out,
  );
  const hostile = await quota({
    rows: [{ ...used, holders: [holder({ owner: 'a\u001b[2J', reclaimable: 'ended', name: 'x\u0007' })] }],
  });
  for (const control of ['\u0007', '\u001b']) assert.ok(!hostile.out.includes(control));
});

test('--json has each limit and each use once', async () => {
  const { project, generation, variant, pricing, limitReadAt } = used;
  const limit: QuotaLimitRow = {
    project,
    generation,
    variant,
    pricing,
    limitReadAt: limitReadAt ?? 0,
    limitChips: 64,
    leftChips: 8,
    scope: 'region',
    location: 'us-east5',
    quotaId: 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI',
  };
  const unknown = row({ zone: 'us-east5-c', usedChips: null, requestedChips: null });
  const { out } = await quota({ rows: [used, row({ zone: 'us-east5-a' }), unknown], limits: [limit] }, ['--json']);
  const lines = jsonLines<Record<string, unknown>>(out);
  assert.deepEqual(
    lines.map(({ kind, location, zone, limitChips, usedChips }) => [kind, location ?? zone, limitChips ?? usedChips]),
    [
      ['limit', 'us-east5', 64],
      ['use', 'us-east5-b', 48],
      ['use', 'us-east5-c', null],
    ],
  );
  assert.equal(lines[0]?.['limitReadAt'], '2026-11-21T08:00:05.000Z');
  assert.ok(!Object.hasOwn(lines[1] ?? {}, 'limitChips'));
});
