/** `jobman import` through the front door: both layouts, a dry run, the import with its logs, a second one; and a resume. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/root.ts';
import { openJobWorld } from '../support/jobs.ts';

const config = (name: string): string => `
job: { name: ${name}, env_type: null, loop: false }
tpu: { allocation_mode: tpu-vm, accelerator: v4-8, name: ${name}, zone: us-central2-b, version: tpu-ubuntu2204-base,
  pricing: spot, project: emulator }
command: { cmd: echo resumed }
`;

test('the folders of the older manager come along, and can be resumed', (t) => {
  const world = openJobWorld(t);
  const run = (...words: readonly string[]) => {
    const argv = [join(root, 'src/main.ts'), ...words];
    const ran = spawnSync(process.execPath, argv, { env: world.env, cwd: world.folder, encoding: 'utf8' });
    return { code: ran.status, out: ran.stdout, err: ran.stderr };
  };
  const file = (path: string, text: string): void => {
    const whole = join(world.folder, path);
    mkdirSync(join(whole, '..'), { recursive: true });
    writeFileSync(whole, text);
  };
  const me =
    run('settings', '--json').code === 0 ? (spawnSync('id', ['-un'], { encoding: 'utf8' }).stdout ?? '').trim() : '';
  file('jobs/.jobman/meta.json', JSON.stringify({ '000007': { job_id: '000007', user: me, status: 'FAILED' } }));
  file(`jobs/${me}/000007/config.yaml`, config('pretrain'));
  file(`jobs/${me}/000007/logs/command_worker_0.log`, 'the old output\n');
  file(`jobs/${me}/000007/logs/job.log`, 'Main command failed\n');
  file(`jobs/${me}/000008/config.yaml`, 'job: {}\n');
  file('older/.state/next_job_id.txt', '2');
  file('older/000001/config.yaml', config('older'));
  file('older/000001/status.txt', 'CANCELLED');
  file('data.json', '{}');

  assert.equal(run('import', 'nowhere').code, 3);
  assert.match(run('import', 'data.json').err, /tpu import .*data\.json/);
  assert.equal(run('import', join(world.folder, 'user')).code, 2);
  const dry = run('import', 'jobs');
  assert.match(dry.out, /^\+ job 000007 of \S+: pretrain, failed, 2 logs$/m, dry.err);
  assert.match(dry.out, /^- job 000008 of \S+: its manifest cannot be read: config\.yaml:/m);
  assert.equal(existsSync(join(world.home, 'state.db')), false);

  const done = run('import', 'jobs', '--apply');
  assert.equal(done.code, 0, done.err);
  assert.match(done.out, /^! job 000007 of \S+: it is job 000001 here$/m);
  assert.match(run('logs', '1').out, /the old output/);
  const folder = join(world.home, 'jobs', me, '000001');
  assert.equal(readFileSync(join(folder, 'config.yaml'), 'utf8'), config('pretrain'));
  assert.equal(statSync(join(folder, 'logs', 'job.log')).mode & 0o777, 0o600);
  assert.match(run('import', 'jobs', '--apply').out, /^0 were taken over/m);
  assert.match(run('import', 'older', '--apply').out, /^\+ job 000001: older, cancelled, 0 logs$/m);
  assert.match(run('list', '--all').out, /000002 .*older.*cancelled/);

  const resumed = run('resume', '1');
  assert.equal(resumed.code, 0, resumed.err);
  const waited = run('wait', '1');
  assert.equal(waited.code, 0, waited.err + run('why', '1').out);
  assert.match(run('logs', '1').out, /resumed/);
});
