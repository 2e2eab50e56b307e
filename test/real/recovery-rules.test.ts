/** The rules in docs/recovery.md, each run on the TPU emulator unchanged. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readDocument } from '../docs/documents.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

/** The only example of the page with that text. */
function exampleWith(text: string): string {
  const blocks = readDocument('docs/recovery.md').blocks.map(({ text: block }) => block);
  const found = blocks.filter((block) => block.includes(text));
  assert.equal(found.length, 1, `docs/recovery.md has ${found.length} examples with ${text}`);
  return found[0] ?? '';
}

/** Creates a job with that example, on two workers by default. Attempts are counted in the bucket. */
function manifest(world: JobWorld, name: string, example: string, run: string): string {
  const tpu = example.includes('tpu:')
    ? ''
    : 'tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b, pricing: spot}\n';
  const rest = {
    job: { name, checkpoint_dir: '~/bucket/none' },
    gcsfuse: { bucket_name: 'shared', mount_path: '~/bucket' },
    command: { run },
  };
  const file = join(world.folder, `${name}.yaml`);
  const sections = Object.entries(rest).map(([section, keys]) => `${section}: ${JSON.stringify(keys)}\n`);
  writeFileSync(file, `${example}${tpu}${sections.join('')}`);
  return file;
}

const first = '[ "$JOBMAN_ATTEMPT" = 1 ]';

test('exit codes, texts and workers are distinguished as documented', async (t) => {
  const world = openJobWorld(t);
  const soon = ['--set', 'recovery.delay=1s'];
  const codes = exampleWith('exit_code: 42');
  const texts = exampleWith('NCCL*timeout');
  const workers = exampleWith('worker: 0');
  const start = (name: string, example: string, run: string, ...args: readonly string[]) =>
    world.create(manifest(world, name, example, run), ...soon, ...args);
  const asks = await start('asks', codes, '[ "$JOBMAN_ATTEMPT" -gt 2 ] || exit 42');
  const other = await start('other', codes, 'exit 43');
  const printed = await start(
    'texts',
    texts,
    `if ${first}; then echo 'NCCL watchdog: timeout'; exit 1; fi; echo "stage $JOBMAN_STAGE"`,
    '--set',
    'recovery.rules[0].delay=1s',
  );
  const elsewhere = await start('elsewhere', workers, `if [ "$JOBMAN_WORKER" = 1 ] && ${first}; then exit 1; fi`);
  const there = await start('there', workers, 'if [ "$JOBMAN_WORKER" = 0 ]; then exit 1; fi; sleep 100');

  const hows = async (id: string, code: number) =>
    (await world.waitForFinish(id, code)).attempts.map(({ startMode }) => startMode);
  assert.deepEqual(await hows(asks, 0), ['fresh', 'rerun', 'rerun']);
  assert.deepEqual(await hows(other, 1), ['fresh']);
  assert.deepEqual(await hows(printed, 0), ['fresh', 'resume']);
  assert.deepEqual(await hows(elsewhere, 0), ['fresh', 'resume']);
  assert.deepEqual(await hows(there, 1), ['fresh']);
  const history = await world.runOk(['history', asks]);
  assert.match(
    history.stdout,
    /rule .*command failed \(exit code 42\) -> same allocation, rerun \(2 of 9 of this rule used\)/,
  );
  const why = await world.runOk(['history', printed]);
  assert.match(why.stdout, /log matches NCCL\*timeout/);
  const [ended] = (await world.waitForFinish(there, 1)).attempts;
  assert.deepEqual(ended?.exits.find(({ exitCode }) => exitCode === 1)?.workers, [0]);
});

test('a zone that preempts its TPU is left for another', async (t) => {
  const world = openJobWorld(t);
  const id = await world.create(
    manifest(world, 'moves', exampleWith('avoid_zone'), `if ${first}; then sleep 1000; fi`),
  );
  await world.waitForPhase(id, 'running');
  await world.runOk(['emulator', 'preempt', id]);
  const job = await world.waitForFinish(id, 0);
  assert.deepEqual(
    job.attempts.map(({ startMode, allocation }) => [startMode, allocation]),
    [
      ['fresh', 1],
      ['resume', 2],
    ],
  );
  assert.equal(job.zone, 'us-east5-b');
});

test('a machine that reboots ends its program as documented, however it reboots', async (t) => {
  const world = openJobWorld(t);
  const ways = [
    ['reboots', ['exec', '--workers', '1'], ['--', 'sudo', 'systemctl', 'reboot']],
    ['repaired', ['emulator', 'maintenance'], []],
  ] as const;
  const play = async ([name, before, after]: (typeof ways)[number]) => {
    const id = await world.create(manifest(world, name, 'recovery: pre\n', `if ${first}; then sleep 1000; fi`));
    await world.waitForPhase(id, 'running');
    await world.runOk([...before, id, ...after]);
    const { attempts } = await world.waitForFinish(id, 0);
    assert.deepEqual(
      attempts.map(({ reason, startMode, allocation }) => [reason, startMode, allocation]),
      [
        ['unreachable', 'fresh', 1],
        ['succeeded', 'resume', 1],
      ],
    );
    assert.match(attempts[0]?.evidence?.message ?? '', /the machine was restarted/);
  };
  await Promise.all(ways.map(play));
});
