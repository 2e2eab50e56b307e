/** The screen of `jobman doctor`: results in; lines, commands and exit code out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CheckResult } from '../../src/app/doctor.ts';
import { jobman } from './support/harness.ts';

const results: readonly CheckResult[] = [
  { check: 'settings', state: 'ok', message: '/h/settings.json is valid', remedy: null },
  { check: 'permissions', state: 'problem', message: 'lab: missing tpu.nodes.create', remedy: 'gcloud grant' },
  { check: 'permissions', state: 'warning', message: 'lab: missing cloudquotas.quotas.get', remedy: null },
  { check: 'clock', state: 'unknown', message: 'no server reported its time', remedy: null },
];

function doctor(found: readonly CheckResult[], argv: readonly string[] = [], columns?: number) {
  return jobman(['doctor', ...argv], {
    ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }),
    services: {
      doctor: async (onChange) => {
        onChange(['settings']);
        return found;
      },
    },
  });
}

test('a line for each result, and below it the command that repairs it', async () => {
  const { code, out, err } = await doctor(results);
  assert.equal(
    out,
    `ok       settings     /h/settings.json is valid
problem  permissions  lab: missing tpu.nodes.create
                      gcloud grant
warning               lab: missing cloudquotas.quotas.get
unknown  clock        no server reported its time
`,
  );
  assert.equal(err, '1 problem, 1 warning and 1 unknown.\n');
  assert.equal(code, 1);
});

test('only a problem fails the command', async () => {
  const { code, err } = await doctor(results.filter(({ state }) => state !== 'problem'));
  assert.equal(code, 0);
  assert.equal(err, 'No problem, 1 warning and 1 unknown.\n');
});

test('long sentences wrap, and names from a cloud cannot control the terminal', async () => {
  const message = `the TPUs of lab cannot be listed: ${'x '.repeat(60)}\u001b[2J`;
  const { out } = await doctor([{ check: 'tpus', state: 'problem', message, remedy: 'jobman tpus' }], [], 60);
  assert.ok(!out.includes('\u001b[2J'));
  assert.ok(out.split('\n').every((line) => line.length <= 60));
  assert.match(out, /^ {15}jobman tpus$/m);
});

test('checks that lack the same thing are one row', async () => {
  const left = ['permissions', 'tpus'].map((check) => ({
    check,
    state: 'unknown' as const,
    message: 'it needs a login',
    remedy: null,
  }));
  const login: CheckResult = { check: 'login', state: 'problem', message: 'none', remedy: 'gcloud login' };
  const { out, err } = await doctor([login, ...left]);
  assert.equal(
    out,
    `problem  login     none
                   gcloud login
unknown  2 checks  permissions and tpus: it needs a login
`,
  );
  assert.equal(err, '1 problem and 2 unknown.\n');
});

test('--json prints one object for each result', async () => {
  const { code, out } = await doctor(results, ['--json']);
  assert.equal(code, 1);
  assert.deepEqual(
    out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as CheckResult),
    results,
  );
});
