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

const program = 'printf "%s" "$TOKEN" | sha256sum; printf "%s" "$FROM_FILE" | sha256sum; exec sleep 1009\n';
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
    const file = join(world.folder, 'token.txt');
    const manifest = join(world.folder, 'job.yaml');
    writeFileSync(file, `${fromFile}\n`, { mode: 0o600 });
    writeFileSync(
      manifest,
      `job:\n  name: hush\n  secrets: {TOKEN: env:MY_TOKEN, FROM_FILE: token.txt}\n${section}\ncommand:\n  run: ${JSON.stringify(program)}\n`,
    );
    // This very command starts the controller and the emulator, with the secret in its environment.
    const created = await run('create', manifest, '--quiet');
    assert.deepEqual([created.code, created.stdout], [0, '000001\n'], created.stderr);
    /** The output of an attempt, once it is complete. */
    const logs = (attempt: string): Promise<string | undefined> =>
      eventually(
        async () => {
          const { stdout } = await run('logs', '1', '--attempt', attempt);
          return stdout.split('\n').length > 2 && stdout;
        },
        { withinMs: 90_000 },
      );
    assert.equal(await logs('1'), `[0] ${hash(token)}  -\n[0] ${hash(fromFile)}  -\n`);

    // While it runs, only two files hold secrets: the one with the values from the environment, and the owner's own.
    const kept = join(world.home, 'jobs', world.env['USER'] ?? '', '000001', 'secrets', 'TOKEN');
    assert.deepEqual(new Set(filesWith(world, token, fromFile)), new Set([kept, file]));
    assert.equal(statSync(kept).mode & 0o777, 0o600);
    for (const secret of [token, fromFile]) {
      assert.deepEqual(processesWith('cmdline', secret), []);
      const holders = () => processesWith('environ', secret);
      assert.ok(await eventually(() => holders().join() === 'sleep 1009'), holders().join('\n'));
    }
    for (const command of [['show'], ['history'], ['why'], ['show', '--json'], ['logs', '--step', 'job']]) {
      const result = await run(...command, '1');
      assert.ok(!`${result.stdout}${result.stderr}`.includes(token), command.join(' '));
    }

    // A resume gets them too, whatever the controller's environment; without the file, a message names the missing
    // secret.
    assert.equal((await run('stop', '1')).code, 0);
    await run('wait', '1');
    writeFileSync(file, 'another value\n');
    assert.equal((await world.jobman(['resume', '1'])).code, 0);
    assert.equal(await logs('2'), `[0] ${hash(token)}  -\n[0] ${hash('another value')}  -\n`);
    assert.equal((await run('cancel', '1')).code, 0);
    await run('wait', '1');
    assert.ok(await eventually(async () => (await run('clean', '1')).code === 0, { withinMs: 60_000 }));
    rmSync(file);
    assert.deepEqual(filesWith(world, token, fromFile), []);
  });
}

test('a missing secret is refused before anything is stored', async (t) => {
  const world = openWorld(t);
  const manifest = join(world.folder, 'job.yaml');
  writeFileSync(
    manifest,
    'job:\n  name: hush\n  env: {BOTH: x}\n  secrets: {A: env, B: env:NOT_SET, C: none.txt, BOTH: env}\nlocal: {workdir: .}\ncommand: {run: "true"}\n',
  );
  const refused = await jobman(world, ['create', manifest], { env: { A: 'set', BOTH: 'set' } });
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /job\.secrets\.B: the environment variable NOT_SET is not set on this machine/);
  assert.match(refused.stderr, /job\.secrets\.C: the file none\.txt does not exist on this machine/);
  assert.match(refused.stderr, /job\.secrets\.BOTH: BOTH is also a plain variable/);
  assert.doesNotMatch(refused.stderr, /secrets\.A:/);
});
