/**
 * All TPUs of the emulator, ours and others', in `tpus` and `gc`; and a login that expires while a job runs: every
 * command says how to log in, and the job is not affected.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';

const manifest = `job:
  name: mine
tpu:
  project: emulator
  accelerator: v4-8
  zone: us-central2-b
recovery: pass
command:
  run: sleep 1000
`;

test('tpus shows all TPUs, gc releases only its own orphans, and an expired login harms nothing', async (t) => {
  const world = openJobWorld(t);
  writeFileSync(join(world.folder, 'mine.yaml'), manifest);
  const empty = await world.jobman(['tpus']);
  assert.equal(empty.code, 2, 'nothing names a project');
  await world.output('create', 'mine.yaml');
  const phase = async () => (JSON.parse(await world.output('show', '1', '--json')) as { phase: string }).phase;
  assert.ok(await eventually(async () => (await phase()) === 'running', { withinMs: 40_000 }), 'it does not run');

  const { url } = JSON.parse(readFileSync(join(world.home, 'emulator/endpoint.json'), 'utf8')) as { url: string };
  const make = async (name: string, node: object) => {
    const body = JSON.stringify({ acceleratorType: 'v4-8', runtimeVersion: 'tpu-ubuntu2204-base', ...node });
    const to = `${url}/v2/projects/emulator/locations/us-central2-b/nodes?nodeId=${name}`;
    const { ok } = await fetch(to, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    assert.ok(ok, name);
  };
  const own = JSON.parse((await world.output('tpus', '--json')).trim()) as { owner: { installation: string } };
  const { installation } = own.owner;
  const label = (of: string, job: string) => ({
    labels: { 'jobman-installation': of, 'jobman-job': job, 'jobman-allocation': '1' },
  });
  await make('dev', { metadata: { owner: 'grace' } });
  await make('forgotten', {});
  await make('theirs', label('q7k2zz', '000001'));
  await make('unclaimed', label(installation, '000077'));

  const owners = async () => {
    const rows = (await world.output('tpus', '--json')).trim().split('\n');
    const all = rows.map((line) => JSON.parse(line) as { name: string; owner: { kind: string } });
    return Object.fromEntries(all.map((row) => [row.name, row.owner.kind]));
  };
  const everybody = {
    'mine-000001-1': 'job',
    dev: 'user',
    forgotten: 'none',
    theirs: 'installation',
    unclaimed: 'orphan',
  };
  assert.deepEqual(await owners(), everybody);
  assert.match(
    await world.output('tpus'),
    /^mine-000001-1 +us-central2-b +v4-8 +spot +READY +\S+ +000001 +\d+s +- +\$3\.69\/h$/m,
  );

  const looked = await world.jobman(['gc']);
  assert.match(looked.stdout, /^000077 +\S+ +unclaimed /m);
  assert.match(looked.stderr, /2 TPUs not created by this jobman/);
  assert.deepEqual(await owners(), everybody, 'listing releases nothing');
  assert.match(await world.output('gc', '--yes'), /nodes\/unclaimed is deleted\.$/m);
  const { unclaimed: _gone, ...others } = everybody;
  assert.deepEqual(await owners(), others);

  await world.output('emulator', 'permission', 'login');
  for (const command of ['tpus', 'gc']) {
    await world.runRefused(
      5,
      /no login that Google Cloud accepts; log in there with: gcloud auth application-default login$/m,
      [command],
    );
  }
  const isReported = async () => (await world.output('why', '1')).includes('gcloud auth application-default login');
  assert.ok(await eventually(isReported, { withinMs: 60_000 }), 'why does not report it');
  await world.output('emulator', 'clear', 'permission');
  assert.ok(await eventually(async () => !(await isReported()), { withinMs: 60_000 }), 'it is still reported');
  const { phase: last, attempts } = JSON.parse(await world.output('show', '1', '--json')) as {
    phase: string;
    attempts: unknown[];
  };
  assert.deepEqual([last, attempts.length], ['running', 1]);
  assert.deepEqual(await owners(), others);
});
