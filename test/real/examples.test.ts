/**
 * The programs of docs/checkpoints.md, docs/multi-host.md and docs/sweeps.md, word for word, on the TPU emulator. The
 * packages are in a virtual environment outside of the checkout, which `.ci/run` makes; without it these tests are skipped loudly.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { blockOf } from '../docs/documents.ts';
import { examplesPython } from '../support/examples-python.ts';
import { eventually } from '../support/eventually.ts';
import { jobmanCommand } from '../support/jobman.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { findProgram, requireReal } from '../support/real.ts';

/** Runs a block of a page, with `jobman` on the path; returns its output. */
async function runInShell(world: JobWorld, script: string): Promise<string> {
  const bin = join(world.folder, 'bin');
  mkdirSync(bin, { recursive: true });
  const commandLine = jobmanCommand.map((arg) => `'${arg}'`).join(' ');
  writeFileSync(join(bin, 'jobman'), `#!/bin/sh\nexec ${commandLine} "$@"\n`, { mode: 0o755 });
  const env = { ...world.env, PATH: `${bin}${delimiter}${world.env['PATH']}` };
  return (await promisify(execFile)('sh', ['-ec', script], { cwd: world.folder, env })).stdout;
}

/** Creates the job of a page's manifest with one of its programs. */
async function createExample(world: JobWorld, page: string, example: string, python: string): Promise<string> {
  writeFileSync(join(world.folder, 'train.yaml'), blockOf(page, 'yaml'));
  writeFileSync(join(world.folder, 'train.py'), blockOf(page, 'python', `<!-- example: ${example} -->`));
  writeFileSync(join(world.folder, '.gitignore'), '*\n!train.*\n');
  return world.create(join(world.folder, 'train.yaml'), '--set', `command.run=${python} train.py`);
}

async function survivesPreemption(world: JobWorld, example: string, python: string): Promise<string> {
  const id = await createExample(world, 'docs/checkpoints.md', example, python);
  const log = () => world.output('logs', id, '--worker', '0');
  const hasTrained = await eventually(async () => /^step [3-9]0$/m.test(await log()), { withinMs: 120_000 });
  assert.ok(hasTrained, await log());
  await world.runOk(['emulator', 'preempt', id]);
  await world.waitForFinish(id, 0, 180_000);
  const output = await log();
  assert.match(output, /^resumed after step [3-9]0$/m);
  return output;
}

suite('the programs of the docs', () => {
  test('plain Python resumes from its last checkpoint', async (t) => {
    if (!requireReal(t, 'python3', findProgram('python3'))) return;
    assert.match(await survivesPreemption(openJobWorld(t), 'plain', 'python3'), /^finished: 5\.878031$/m);
  });

  test('a sweep creates a job for each value and collects their results', async (t) => {
    if (!requireReal(t, 'python3', findProgram('python3'))) return;
    const world = openJobWorld(t);
    const page = 'docs/sweeps.md';
    writeFileSync(join(world.folder, 'train.yaml'), blockOf(page, 'yaml'));
    writeFileSync(join(world.folder, 'train.py'), blockOf('docs/checkpoints.md', 'python', '<!-- example: plain -->'));
    writeFileSync(join(world.folder, '.gitignore'), '*\n!train.*\n');
    await runInShell(world, blockOf(page, 'sh'));
    await runInShell(world, 'jobman wait train-0.1 train-0.03 train-0.01');
    const results = await runInShell(world, blockOf(page, 'sh', 'To collect results'));
    assert.match(
      results,
      /^train-0\.1 finished: 5\.878031\ntrain-0\.03 finished: 5\.878031\ntrain-0\.01 finished: 5\.878031$/m,
    );
  });

  test('JAX with Orbax resumes from its last checkpoint', async (t) => {
    if (!requireReal(t, 'JAX and Orbax', existsSync(examplesPython))) return;
    assert.match(await survivesPreemption(openJobWorld(t), 'orbax', examplesPython), /^finished: 2\.94/m);
  });

  test('JAX connects the processes of two workers', async (t) => {
    if (!requireReal(t, 'JAX and Orbax', existsSync(examplesPython))) return;
    const world = openJobWorld(t);
    const id = await createExample(world, 'docs/multi-host.md', 'multi-host', examplesPython);
    await world.waitForFinish(id, 0, 120_000);
    const output = await world.output('logs', id);
    for (const worker of [0, 1]) assert.match(output, new RegExp(`process ${worker} of 2 sees \\[0, 1\\]`));
  });
});

test('one W&B run id and the secret reach every attempt', async (t) => {
  const world = openJobWorld(t);
  await world.jobman(['secret', 'set', 'wandb'], { input: 'a-test-key\n' });
  const file = join(world.folder, 'train.yaml');
  const page = blockOf('docs/weights-and-biases.md', 'yaml').replace(/^tpu:[^]*?(?=^command:)/m, 'local: {}\n\n');
  writeFileSync(join(world.folder, '.gitignore'), '*\n!train.*\n');
  writeFileSync(file, page.replace('python3 train.py', 'echo "$WANDB_RUN_ID $WANDB_RESUME ${#WANDB_API_KEY}"'));
  const id = await world.create(file, '--set', `job.checkpoint_dir=${join(world.folder, 'checkpoints')}`);
  await world.waitForFinish(id);
  await world.runOk(['resume', id]);
  await world.waitUntil(id, ({ attempts, phase }) => attempts.length === 2 && phase === 'succeeded');
  for (const attempt of ['1', '2'])
    assert.match(await world.output('logs', id, '--attempt', attempt), /train-000001 allow 10$/m);
});
