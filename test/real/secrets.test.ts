/** Secrets of a command: the program gets them, and no file or process of jobman contains them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { openWorld } from '../support/world.ts';

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Files below the test's world that contain one of the texts. */
function filesWith(world: JobWorld, ...texts: readonly string[]): readonly string[] {
  const found = spawnSync('grep', ['-rlsaF', ...texts.flatMap((text) => ['-e', text]), world.folder]);
  return found.stdout.toString().split('\n').filter(Boolean);
}

/** Command lines of the processes whose arguments or environment contain the text. */
function processesWith(file: 'cmdline' | 'environ', text: string): readonly string[] {
  return readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const read = (name: string): string => readFileSync(`/proc/${pid}/${name}`, 'latin1');
      return read(file).includes(text) ? [read('cmdline').replaceAll('\0', ' ').trim()] : [];
    } catch {
      return [];
    }
  });
}

const program = `for name in TOKEN FROM_FILE NAMED; do printenv $name | tr -d '\\n' | sha256sum; done; exec sleep 1009\n`;
const sections = {
  'this machine': 'local: {workdir: .}',
  'a worker of the TPU emulator': 'tpu: {project: emulator, accelerator: v4-8, zone: us-central2-b, pricing: ondemand}',
};

for (const [where, section] of Object.entries(sections)) {
  test(`on ${where} a secret reaches the program and nothing else`, async (t) => {
    const world = openJobWorld(t);
    const run = (...argv: readonly string[]) => world.jobman(argv, { withinMs: 100_000, env: { MY_TOKEN: token } });
    const token = randomBytes(12).toString('hex');
    const fromFile = `it's "$HOME" ${randomBytes(12).toString('hex')}`;
    const [named, rotated] = [randomBytes(12).toString('hex'), randomBytes(12).toString('hex')];
    const store = (value: string) => world.jobman(['secret', 'set', 'wandb'], { input: `${value}\n` });
    const file = join(world.folder, 'token.txt');
    const manifest = join(world.folder, 'job.yaml');
    writeFileSync(file, `${fromFile}\n`, { mode: 0o600 });
    writeFileSync(
      manifest,
      `job:\n  name: hush\n  secrets: {TOKEN: env:MY_TOKEN, FROM_FILE: token.txt, NAMED: 'secret:wandb'}\n${section}\ncommand:\n  run: ${JSON.stringify(program)}\n`,
    );
    assert.match((await store(named)).stdout, /^Stored the secret wandb\.$/m);
    // This very command starts the controller and the emulator, with the secret in its environment.
    const created = await run('create', manifest, '--quiet');
    assert.deepEqual([created.code, created.stdout], [0, '000001\n'], created.stderr);
    /** The output of an attempt, once it is complete. */
    const logs = (attempt: string): Promise<string | undefined> =>
      eventually(
        async () => {
          const { stdout } = await run('logs', '1', '--attempt', attempt);
          return stdout.split('\n').length > 3 && stdout;
        },
        { withinMs: 90_000 },
      );
    const hashes = (...values: readonly string[]) => values.map((value) => `[0] ${hash(value)}  -\n`).join('');
    assert.equal(await logs('1'), hashes(token, fromFile, named));

    // While it runs, these files hold secrets: those of the job, the named one, and the owner's own.
    const user = world.env['USER'] ?? '';
    const ofJob = ['TOKEN', 'FROM_FILE'].map((name) => join(world.home, 'jobs', user, '000001', 'secrets', name));
    const stored = [...ofJob, join(world.home, 'secrets', user, 'wandb')];
    assert.deepEqual(new Set(filesWith(world, token, fromFile, named)), new Set([...stored, file]));
    for (const path of stored) assert.equal(statSync(path).mode & 0o777, 0o600);
    for (const secret of [token, fromFile, named]) {
      assert.deepEqual(processesWith('cmdline', secret), []);
      const holders = () => processesWith('environ', secret);
      assert.ok(await eventually(() => holders().join() === 'sleep 1009'), holders().join('\n'));
    }
    const commands = [
      'show 1',
      'history 1',
      'why 1',
      'replay 1',
      'logs 1',
      'logs 1 --step job',
      'report 1 -o -',
      'diff 1 1',
    ];
    for (const command of [...commands, 'list', 'top', 'secret', 'secret delete wandb', 'settings', 'doctor']) {
      for (const json of [[], ['--json']]) {
        const { stdout, stderr } = await run(...command.split(' '), ...json);
        for (const secret of [token, named]) assert.ok(!`${stdout}${stderr}`.includes(secret), command);
      }
    }
    assert.match((await run('secret', 'delete', 'wandb')).stderr, /needed by job 000001/);

    // A resume gets them too, whatever the controller's environment and the owner's file.
    assert.equal((await run('stop', '1')).code, 0);
    await run('wait', '1');
    writeFileSync(file, 'another value\n');
    const replaced = await run('secret', 'set', 'TOKEN', '--job', '1', '--file', file);
    assert.equal(replaced.stdout, 'Replaced the value of TOKEN of job 1, which gets it at the next start.\n');
    rmSync(file);
    assert.match((await store(rotated)).stdout, /^Replaced the value of wandb\.$/m);
    assert.equal((await world.jobman(['resume', '1'])).code, 0);
    assert.equal(await logs('2'), hashes('another value', fromFile, rotated));
    assert.equal((await run('cancel', '1')).code, 0);
    await run('wait', '1');
    assert.ok(await eventually(async () => (await run('clean', '1')).code === 0, { withinMs: 60_000 }));
    assert.equal((await run('secret', 'delete', 'wandb')).code, 0);
    assert.match((await run('resume', '1')).stderr, /was not started: the secret TOKEN of job 000001 does not exist/);
    assert.deepEqual(filesWith(world, token, fromFile, named, rotated), []);
  });
}

test('a missing secret is refused before anything is stored', async (t) => {
  const world = openWorld(t);
  const manifest = join(world.folder, 'job.yaml');
  writeFileSync(
    manifest,
    'job:\n  name: hush\n  env: {BOTH: x}\n  secrets: {A: env, B: env:NOT_SET, C: none.txt, BOTH: env, N: secret:hff}\nlocal: {workdir: .}\ncommand: {run: "true"}\n',
  );
  await jobman(world, ['secret', 'set', 'hf'], { input: 'value' });
  const refused = await jobman(world, ['create', manifest], { env: { A: 'set', BOTH: 'set' } });
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /job\.secrets\.B: the environment variable NOT_SET is not set on this machine/);
  assert.match(refused.stderr, /job\.secrets\.C: the file none\.txt does not exist on this machine/);
  assert.match(refused.stderr, /job\.secrets\.BOTH: BOTH is also a plain variable/);
  assert.match(refused.stderr, /job\.secrets\.N: there is no secret hff; .*set hff \(did you mean "hf"\?\)/);
  assert.doesNotMatch(refused.stderr, /secrets\.A:/);
});
