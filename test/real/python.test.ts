/** What jobman does with Python, with the real Python of this machine: a virtual environment, and the example's program. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { venvStep } from '../../src/setup/environments.ts';
import { openHost } from '../setup/shell.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld, type World } from '../support/world.ts';

const program = join(root, 'configs/iris/train.py');

function train(
  world: World,
  env: Readonly<Record<string, string>> = {},
): { readonly code: number | null; readonly out: string } {
  const ran = spawnSync('python3', [program], { env: { ...world.env, IRIS_PACE: '0', ...env }, encoding: 'utf8' });
  return { code: ran.status, out: `${ran.stdout}${ran.stderr}` };
}

function lastLine(out: string): string {
  return out.trim().split('\n').at(-1) ?? '';
}

test('a virtual environment is made by the real Python', (t) => {
  const python = spawnSync('python3', ['-c', 'import ensurepip']).status === 0;
  if (!requireReal(t, 'python3 with venv', python)) return;
  const host = openHost(t);
  const step = venvStep({ name: 'venv', folder: '~/my env', python: 'python3', requirements: null });
  const ran = host.step(step);
  assert.equal(ran.code, 0, ran.out);
  assert.match(
    host.run('. "$HOME/my env/bin/activate" && python -c "import sys; print(sys.prefix)"').out,
    /user\/my env\n$/,
  );
  assert.equal(host.step(step).applied, false);
});

test("the flowers of the example are Fisher's", () => {
  const [head, ...rows] = readFileSync(join(root, 'configs/iris/iris.csv'), 'utf8').trim().split('\n');
  assert.equal(head, 'sepal_length,sepal_width,petal_length,petal_width,species');
  const means = ['setosa', 'versicolor', 'virginica'].map((kind) => {
    const flowers = rows.map((row) => row.split(',')).filter((row) => row[4] === kind);
    assert.equal(flowers.length, 50);
    return [0, 1, 2, 3].map((column) => (flowers.reduce((sum, row) => sum + Number(row[column]), 0) / 50).toFixed(3));
  });
  assert.deepEqual(means, [
    ['5.006', '3.428', '1.462', '0.246'],
    ['5.936', '2.770', '4.260', '1.326'],
    ['6.588', '2.974', '5.552', '2.026'],
  ]);
});

test('the example ends at the same numbers however often it was interrupted, and learns', async (t) => {
  if (!requireReal(t, 'python3', findProgram('python3'))) return;
  const world = openWorld(t);
  const checkpoints = join(world.folder, 'checkpoints');
  const undisturbed = train(world);
  assert.equal(undisturbed.code, 0, undisturbed.out);
  const accuracy = Number(/final accuracy ([0-9.]+)$/.exec(lastLine(undisturbed.out))?.[1]);
  assert.ok(accuracy >= 0.96, lastLine(undisturbed.out));

  // Twice killed without a warning, once asked to end; each time it goes on from the newest checkpoint.
  let resumeFrom = '';
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL'] as const) {
    const had = new Set(list(checkpoints));
    const env = {
      ...world.env,
      IRIS_PACE: '0.004',
      JOBMAN_CHECKPOINT_DIR: checkpoints,
      JOBMAN_RESUME_FROM: resumeFrom,
    };
    const running = spawn('python3', [program], { env, stdio: 'ignore' });
    const ended = once(running, 'exit');
    assert.ok(await eventually(() => list(checkpoints).some((name) => !had.has(name)), { withinMs: 60_000 }));
    running.kill(signal);
    await ended;
    const newest = list(checkpoints).at(-1) ?? '';
    assert.match(newest, /^step_\d{6}\.json$/);
    resumeFrom = join(checkpoints, newest);
  }
  const resumed = train(world, {
    JOBMAN_CHECKPOINT_DIR: checkpoints,
    JOBMAN_RESUME_FROM: resumeFrom,
    JOBMAN_STAGE: '3',
  });
  assert.match(resumed.out, /^resuming at step \d+ from .*step_\d{6}\.json \(stage 3\)\n/);
  assert.equal(lastLine(resumed.out), lastLine(undisturbed.out));
  assert.equal(list(checkpoints).at(-1), 'step_000300.json');
});

test('only worker 0 of the example keeps checkpoints, and a fresh start forgets old ones', (t) => {
  if (!requireReal(t, 'python3', findProgram('python3'))) return;
  const world = openWorld(t);
  const checkpoints = join(world.folder, 'checkpoints');
  const env = { JOBMAN_CHECKPOINT_DIR: checkpoints };
  const other = train(world, { ...env, JOBMAN_WORKER: '1' });
  assert.deepEqual(list(checkpoints), []);
  const first = train(world, { ...env, JOBMAN_WORKER: '0' });
  assert.equal(lastLine(other.out), lastLine(first.out), 'every worker trains the same model');
  assert.equal(list(checkpoints).length, 15);
  // The folder itself is what a job gets that was interrupted before its first checkpoint.
  assert.match(train(world, { ...env, JOBMAN_RESUME_FROM: checkpoints }).out, /^training on 120 flowers/);
});

function list(folder: string): readonly string[] {
  mkdirSync(folder, { recursive: true });
  return readdirSync(folder)
    .filter((name) => !name.startsWith('.'))
    .toSorted();
}
