// `jobman import` from a folder that other users can write to imports only regular files, and never blocks.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

const config = (name: string, more: { readonly job?: string; readonly tpu?: string } = {}): string => `
job: { name: ${name}${more.job ?? ''} }
tpu: { accelerator: v4-8, name: ${name}, zone: us-central2-b, version: tpu-ubuntu2204-base, project: emulator${more.tpu ?? ''} }
command: { cmd: echo resumed }
`;

test('links, FIFOs and folders are left out, and a second import copies missing files', async (t) => {
  const world = openWorld(t);
  const secret = join(world.folder, 'secret');
  mkdirSync(secret);
  writeFileSync(join(secret, 'key'), 'SECRET-TEXT\n');
  writeFileSync(join(secret, 'job.log'), 'SECRET-TEXT\n');
  writeFileSync(join(secret, 'config.yaml'), config('secret'));
  const old = join(world.folder, 'old', 'ada');
  const job = (id: string): string => {
    mkdirSync(join(old, id, 'logs'), { recursive: true });
    writeFileSync(join(old, id, 'config.yaml'), config(`n${id}`));
    return join(old, id);
  };
  const one = join(job('000001'), 'logs');
  symlinkSync(join(secret, 'key'), join(one, 'job.log'));
  execFileSync('mkfifo', [join(one, 'a-fifo.log')]);
  mkdirSync(join(one, 'b-folder.log'));
  writeFileSync(join(one, 'command_worker_0.log'), 'the old output\n');
  writeFileSync(join(one, 'z.log'), 'the last one\n');
  // The log folder is a link, one manifest is a link, a manifest and a state are FIFOs, one job is a link.
  const two = job('000002');
  rmSync(join(two, 'logs'), { recursive: true });
  symlinkSync(secret, join(two, 'logs'));
  const three = job('000003');
  rmSync(join(three, 'config.yaml'));
  symlinkSync(join(secret, 'config.yaml'), join(three, 'config.yaml'));
  const four = job('000004');
  rmSync(join(four, 'config.yaml'));
  execFileSync('mkfifo', [join(four, 'config.yaml'), join(four, 'status.txt')]);
  symlinkSync(secret, join(old, '000005'));

  const apply = ['import', join(world.folder, 'old'), '--apply'];
  const first = await jobman(world, apply, { withinMs: 30_000 });
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /job 000001 of ada: not copied: .*job\.log/);
  assert.match(first.stdout, /job 000001 of ada: not copied: .*a-fifo\.log is not a regular file/);
  assert.match(first.stdout, /job 000001 of ada: not copied: .*b-folder\.log is a folder/);
  for (const id of ['000003', '000004', '000005'])
    assert.match(first.stdout, new RegExp(`- job ${id} of ada: its config.yaml is missing or not a regular file`));
  const logs = join(world.home, 'jobs', 'ada', '000001', 'logs');
  assert.equal(readFileSync(join(logs, 'command_worker_0.log'), 'utf8'), 'the old output\n');
  assert.equal(readFileSync(join(logs, 'z.log'), 'utf8'), 'the last one\n');
  const secrets = (): readonly string[] =>
    readdirSync(world.home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => readFileSync(path).includes('SECRET-TEXT'));
  assert.deepEqual(secrets(), []);

  rmSync(join(one, 'b-folder.log'), { recursive: true });
  writeFileSync(join(one, 'b-folder.log'), 'a file now\n');
  writeFileSync(join(logs, 'z.log'), 'changed here\n');
  assert.equal(existsSync(join(logs, 'b-folder.log')), false);
  const second = await jobman(world, apply, { withinMs: 30_000 });
  assert.equal(second.code, 0, second.stderr);
  assert.equal(readFileSync(join(logs, 'b-folder.log'), 'utf8'), 'a file now\n');
  assert.equal(readFileSync(join(logs, 'z.log'), 'utf8'), 'changed here\n', 'existing files are unchanged');
  assert.deepEqual(secrets(), []);
});

test('a manifest imports no file from outside its folder and no variable of the importer', async (t) => {
  const world = openWorld(t);
  const secret = join(world.folder, 'secret');
  writeFileSync(secret, 'SECRET-TEXT\n');
  const old = join(world.folder, 'old', 'ada');
  const job = (id: string, more: Parameters<typeof config>[1]): string => {
    mkdirSync(join(old, id, 'logs'), { recursive: true });
    writeFileSync(join(old, id, 'config.yaml'), config(`n${id}`, more));
    return join(old, id);
  };
  symlinkSync(secret, join(job('000001', { job: ', files: ["link:x"]' }), 'link'));
  job('000002', { tpu: `, startup_script: ${secret}` });
  job('000003', { job: ', env: { A: "${oc.env:IMPORTER_TOKEN}" }' });
  const own = job('000004', { job: ', files: ["mine:x"], env: { A: "${oc.env:HOME}" }' });
  writeFileSync(join(own, 'mine'), 'of the job\n');
  symlinkSync(world.folder, join(job('000005', { job: ', files: ["up:x"]' }), 'up'));

  const env = { IMPORTER_TOKEN: 'SECRET-TEXT' };
  const { code, stdout, stderr } = await jobman(world, ['import', join(world.folder, 'old'), '--apply'], { env });
  assert.equal(code, 0, stderr);
  for (const id of ['000001', '000002', '000005'])
    assert.match(stdout, new RegExp(`- job ${id} of ada: .*it is outside the imported folder`));
  assert.match(stdout, /- job 000003 of ada: .*IMPORTER_TOKEN is not set/);
  assert.match(stdout, /\+ job 000004 of ada/);
  const blobs = readdirSync(join(world.home, 'blobs'), { recursive: true, withFileTypes: true });
  const contents = blobs
    .filter((one) => one.isFile())
    .map((one) => readFileSync(join(one.parentPath, one.name), 'utf8'));
  assert.deepEqual(contents, ['of the job\n']);
});
