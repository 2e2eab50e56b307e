/**
 * The metrics of whole jobs: on this machine under kills of the controller, and on the TPU emulator over SSH through a
 * preemption. The workers have no jobman.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';

interface Point {
  readonly metric: string;
  readonly attempt: number;
  readonly worker: number;
  readonly step: number | null;
  readonly at: string | null;
  readonly value: number | string;
}

const allPoints = (world: JobWorld, id: string, ...args: readonly string[]) =>
  world.jsonRows<Point>('plot', id, ...args, '--json', '--all');

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

suite('metrics', () => {
  test('a job on this machine reports every point once, however often the controller is killed', async (t) => {
    const world = openJobWorld(t);
    const script = `step=0
while [ $step -lt 60 ]; do
  step=$((step + 1))
  jobman mark step=$step total_steps=60 loss=0.$step
  echo "step $step of 60 acc 0.$step loss 9"
  sleep 0.1
done
jobman mark step=60 loss=nan
"$JOBMAN_MARK" final=1`;
    const id = await world.create(world.localManifest(script));
    await world.waitForPhase(id, 'running');
    for (let kill = 0; kill < 3; kill += 1) {
      await world.killController();
      // Any command starts it again.
      await world.output('list');
      await new Promise((resolve) => {
        setTimeout(resolve, 700);
      });
    }
    await world.waitForFinish(id);
    const points = await allPoints(world, id);
    const stepsOf = (name: string) => points.filter(({ metric }) => metric === name).map(({ step }) => step);
    // The loss is the reported one, and the accuracy that of the log.
    assert.deepEqual(stepsOf('loss'), [...range(1, 60), 60]);
    assert.deepEqual(stepsOf('acc'), range(1, 60));
    assert.deepEqual(points.filter(({ metric }) => metric === 'loss').at(-1)?.value, 'NaN');
    assert.ok(points.every(({ at }) => at !== null));
    assert.match(
      await world.output('plot', id),
      /^loss: last NaN at step 60, lowest 0\.1, highest 0\.9, 61 points, NaN at step 60$/m,
    );
    assert.match(await world.output('show', id), /^progress {2}step 60/m);
  });

  test('workers without jobman report over SSH, and the curve continues after a preemption', async (t) => {
    const world = openJobWorld(t);
    const script = `step=\${JOBMAN_RESUME_FROM:+20}
step=\${step:-0}
case $(command -v jobman) in "$JOBMAN_MARK") ;; *) echo 'another jobman'; exit 9 ;; esac
while [ $step -lt 40 ]; do
  step=$((step + 1))
  jobman mark step=$step loss=$JOBMAN_WORKER.5
  echo "step $step of 40 loss 9"
  if [ $step -eq 25 ] && [ "$JOBMAN_STAGE" = 0 ]; then touch reached; sleep 1000; fi
done`;
    const manifest = world.tpuManifest(script, { job: { checkpoint_dir: '~/bucket/checkpoints' } });
    const id = await world.create(manifest);
    const hasAll = async (worker: string) => {
      const { code, stdout } = await world.jobman(['plot', id, 'loss', '-w', worker, '--json', '--all']);
      return code === 0 && stdout.includes('"step":25');
    };
    for (const worker of ['0', '1'])
      assert.ok(
        await eventually(() => hasAll(worker), { withinMs: 120_000, everyMs: 500 }),
        await world.output('logs', id),
      );
    await world.runOk(['emulator', 'preempt', id]);
    await world.waitForFinish(id, 0, 180_000);
    for (const worker of [0, 1]) {
      const points = await allPoints(world, id, 'loss', '-w', String(worker));
      const stepsOf = (wanted: number) => points.filter(({ attempt }) => attempt === wanted).map(({ step }) => step);
      assert.deepEqual(stepsOf(1), range(1, 25), `worker ${worker}`);
      assert.deepEqual(stepsOf(2), range(21, 40), `worker ${worker}`);
      assert.ok(points.every(({ value }) => value === worker + 0.5));
    }
    const picture = await world.output('plot', id, 'loss');
    assert.match(picture, /^Job 000001 \(bad\): 2 attempts, metrics of worker 0$/m);
    assert.match(picture, /^attempt {2}1 +2$/m);
  });

  test('the function of docs/metrics.md and that of the Python package report too', async (t) => {
    if (!requireReal(t, 'python3', findProgram('python3'))) return;
    const world = openJobWorld(t);
    const pythonPackage = join(root, 'python');
    const page = readFileSync(join(root, 'docs/metrics.md'), 'utf8');
    const [, append] = /<!-- example: append -->\n```python\n([^]*?)```/.exec(page) ?? [];
    assert.ok(append !== undefined);
    const folder = join(world.folder, 'programs');
    mkdirSync(folder);
    writeFileSync(join(folder, 'append.py'), append);
    const within = 'from jobman import mark\nassert mark(step=200, loss=float("nan"))\n';
    const wrong = 'assert mark(step=201, loss=2, lr="high", acc=None)\nassert not mark(loss="high")\n';
    writeFileSync(join(folder, 'package.py'), within + wrong);
    writeFileSync(join(folder, 'outside.py'), 'from jobman import mark\nassert not mark(step=1)\n');
    const run = `export PYTHONPATH=${pythonPackage}
cd ${folder} && python3 append.py && python3 package.py && env -u JOBMAN_METRICS python3 outside.py`;
    const id = await world.create(world.localManifest(run));
    await world.waitForFinish(id);
    const points = await allPoints(world, id, 'loss');
    assert.deepEqual(
      points.map(({ step }) => step),
      [...range(1, 100), 200, 201],
    );
    assert.match(await world.output('logs', id, '-w', '0'), /UserWarning: jobman: the metric 'lr' is not a number: /);
  });
});
