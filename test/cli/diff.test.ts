/** `jobman diff`: two sides in; text, objects and exit code out. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { DiffSide } from '../../src/app/diff.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { jobman, jobView, jsonLines } from './support/harness.ts';

const jobs = [jobView({ id: '000041', name: 'vit' }), jobView({ id: '000042', name: 'vit-2' })];

function diffSide(id: string, attempt: number | null): DiffSide {
  if (attempt === 9) throw new JobmanError(`Job ${id} has no attempt 9.`, exitCode.notFound);
  const isFirst = id === '000041';
  return {
    job: id,
    name: isFirst ? 'vit' : 'vit-2',
    attempt: attempt ?? 1,
    values: {
      job: { phase: isFirst ? 'failed' : 'succeeded', cost: { waitingMs: isFirst ? 90_000 : 0 } },
      result: {
        reason: isFirst ? 'command_failed' : 'succeeded',
        exits: isFirst ? [{ code: 137, signal: 'KILL', workers: [0, 1] }] : [],
        ranMs: isFirst ? 90_000 : 7_500_000,
        cost: { estimateUsd: isFirst ? 1 : null, chipMs: isFirst ? 14_400_000 : 0 },
      },
      manifest: `command:\n  lr: ${isFirst ? '0.1' : '0.2'}\n`,
      environment: { SEED: '1', NOTE: isFirst ? 'a\u001b[2Jb' : 'c' },
      workdir: null,
    },
    files: null,
  };
}

const diff = (argv: readonly string[], columns?: number) =>
  jobman(['diff', ...argv], { jobs, diffSide, ...(columns === undefined ? {} : { terminal: { columns, rows: 24 } }) });

test('only what differs is printed, values as a table and texts by line', async () => {
  const { code, out, err } = await diff(['41', '42']);
  assert.deepEqual([code, err], [0, '']);
  assert.equal(
    out,
    `--- 000041 vit, attempt 1
+++ 000042 vit-2, attempt 1

job, all attempts
phase    failed  succeeded
waiting  1m30s   0s

result of attempt 1
reason      command failed                                           succeeded
exits       killed by SIGKILL (exit code 137) on worker 0, worker 1  -
ran         1m30s                                                    2h05m
estimate    $1.00                                                    -
chip-hours  4.0                                                      -

manifest
--- a/manifest
+++ b/manifest
@@ -1,2 +1,2 @@
 command:
-  lr: 0.1
+  lr: 0.2

environment
NOTE  a\\x1b[2Jb  c
`,
  );
});

test('for programs there is one object per difference, after one for the two sides', async () => {
  const { out } = await diff(['41#2', 'vit-2', '--json']);
  const [sides, ...rest] = jsonLines<{ kind: string; section?: string; key?: string }>(out);
  assert.deepEqual(sides, {
    kind: 'sides',
    left: { job: '000041', name: 'vit', attempt: 2 },
    right: { job: '000042', name: 'vit-2', attempt: 1 },
  });
  assert.deepEqual(
    rest.map(({ kind, section, key }) => `${kind} ${section} ${key}`),
    [
      'value job phase',
      'value job cost.waitingMs',
      'value result reason',
      'value result exits',
      'value result ranMs',
      'value result cost.estimateUsd',
      'value result cost.chipMs',
      'text manifest ',
      'value environment NOTE',
    ],
  );
});

test('equal sides say so and are not a failure', async () => {
  const { code, out, err } = await diff(['41', '41']);
  assert.deepEqual([code, out, err], [0, '', '000041 vit, attempt 1 and 000041 vit, attempt 1 do not differ.\n']);
});

test('differences that people do not see are only for programs', async () => {
  const sideOf = (ranMs: number) => ({ ...diffSide('000041', 1), values: { result: { ranMs } } });
  const { out, err } = await jobman(['diff', '41', '42'], {
    jobs,
    diffSide: (id) => sideOf(id === '000041' ? 7_001 : 7_002),
  });
  assert.equal(out, '');
  assert.match(err, /do not differ\./);
});

test('the resolved manifest is left out if the manifests differ, and long texts are cut', async () => {
  const sideOf = (change: string, isOther: boolean): DiffSide => ({
    job: '000041',
    name: 'vit',
    attempt: null,
    values: {
      manifest: isOther ? change : '',
      spec: { steps: { files: { apply: change } }, limits: { tries: isOther ? 1 : 2 } },
    },
    files: null,
    isCodeUnknown: true,
  });
  const text = (letter: string) => Array.from({ length: 30 }, (_, line) => `${letter} ${line}\n`).join('');
  const run = async (hasManifest: boolean) =>
    jobman(['diff', '41', '42'], {
      jobs,
      diffSide: (id) => sideOf(text(id), hasManifest && id === '000042'),
    });
  const other = await run(true);
  assert.doesNotMatch(other.out, /steps\.files|limits/);
  const same = await run(false);
  assert.match(same.out, /\+\+\+ b\/steps\.files\.apply\n/);
  assert.match(same.out, /\n\.\.\. 23 more lines of this difference: --json\n/);
  assert.match(
    same.err,
    /^note: the code of 000041 vit was not recorded, so it is not compared; job\.workdir records it\n$/,
  );
});

suite('bad input', () => {
  test('one job is not enough', async () => {
    const { code, err } = await diff(['41']);
    assert.equal(code, 2);
    assert.match(err, /jobman diff 42 43, or jobman diff 42#1 42#3/);
  });

  test('every missing job and attempt is named', async () => {
    const { code, out, err } = await diff(['41#9', '77']);
    assert.deepEqual([code, out], [3, '']);
    assert.match(err, /Job 000041 has no attempt 9\./);
    assert.match(err, /There is no job 000077\./);
  });
});

for (const columns of [80, 40]) {
  test(`on ${columns} columns no table is wider than the terminal`, async () => {
    const { out } = await diff(['41', '42'], columns);
    for (const line of out.split('\n')) assert.ok(line.length <= columns, line);
  });
}
