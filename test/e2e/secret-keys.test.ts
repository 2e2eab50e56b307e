/** Secrets that are encrypted in the database: no file below the home has a value, and no kill loses one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { jobman, startJobman } from '../support/jobman.ts';
import { requireReal } from '../support/real.ts';
import { openWorld, type World } from '../support/world.ts';

const [namedValue, fileValue] = ['marked-named-5f1d', 'marked-file-77ac'];

/** The files below the home that contain one of the values, also in Base64. */
function filesWithValues({ home }: World): readonly string[] {
  const values = [namedValue, fileValue].flatMap((value) => [
    value,
    Buffer.from(value).toString('base64').slice(0, 16),
  ]);
  return readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((path) => {
    const full = join(home, path);
    return statSync(full).isFile() && values.some((value) => readFileSync(full).includes(value));
  });
}

async function openSecretWorld(t: Parameters<typeof openWorld>[0]) {
  const world = openWorld(t, { patienceMs: 20_000 });
  const run = async (code: number, args: readonly string[], input = '') => {
    const result = await jobman(world, args, { input });
    assert.equal(result.code, code, `${args.join(' ')}: ${result.stdout}${result.stderr}`);
    return result.stdout + result.stderr;
  };
  /** The end of the job, and its log. */
  const rerun = async (job: string, code = 0) => {
    await run(0, ['rerun', job]);
    const end = await run(code, ['wait', job]);
    return code === 0 ? run(0, ['logs', job]) : end;
  };
  writeFileSync(join(world.folder, 'key.txt'), fileValue);
  const manifest = 'job: {name: NAME, secrets: {KEY: secret:wandb, FILE: key.txt}}\nlocal: {}\n';
  // The log must not have the values themselves.
  writeFileSync(join(world.folder, 'job.yaml'), `${manifest}command: {cmd: 'printf %s "$KEY $FILE" | rev'}\n`);
  const expected = `${namedValue} ${fileValue}`.split('').toReversed().join('');
  await run(0, ['secret', 'set', 'wandb'], namedValue);
  return { world, run, rerun, expected, keyFile: join(world.home, 'secrets.key') };
}

suite('secrets in the database', { timeout: 180_000 }, () => {
  test('are moved there from files, reach programs, and are in no file below the home', async (t) => {
    const { world, run, rerun, expected, keyFile } = await openSecretWorld(t);
    await run(0, ['create', 'job.yaml', '--follow']);
    const files = filesWithValues(world);
    assert.equal(files.length, 2);
    const storedAt = new Date('2026-01-02T03:04:05Z');
    for (const path of files) utimesSync(join(world.home, path), storedAt, storedAt);
    assert.match(await run(0, ['secret', 'encrypt']), /encrypted in its database, .*secrets\.key\. Files .*: 2\./);
    assert.deepEqual([filesWithValues(world), statSync(keyFile).mode & 0o777], [[], 0o600]);
    assert.ok((await run(0, ['create', 'job.yaml', '--follow'])).includes(expected));
    assert.ok((await rerun('1')).includes(expected));
    assert.match(await run(0, ['secret']), /wandb +17 bytes/);
    assert.match(await run(0, ['secret', '--json']), /"changedAt":"2026-01-02T03:04:05/);
    await run(0, ['secret', 'set', 'FILE', '--job', '2'], 'another');
    assert.match(await rerun('2'), /rehtona/);
    assert.match(await run(0, ['secret', 'encrypt']), /Files .*: 0\./);
    assert.match(await run(4, ['secret', 'encrypt', '--key-file', 'other.key']), /secrets\.key already/);
    await run(0, ['report', '1', '--bundle', '--output', 'bundle.tar.gz']);
    assert.deepEqual(filesWithValues(world), []);

    renameSync(keyFile, `${keyFile}.moved`);
    for (const args of [
      ['secret', 'rotate-key'],
      ['secret', 'encrypt'],
      ['secret', 'set', 'new'],
    ])
      assert.match(await run(1, args, 'x'), /secrets\.key, cannot be used: it does not exist\.\n +Restore it/);
    assert.match(await rerun('1', 1), /key file of the secrets, .*secrets\.key, cannot be used: it does not exist/);
    await run(0, ['run', '--follow', '--', 'echo', 'other jobs continue']);
    writeFileSync(keyFile, `${Buffer.alloc(32, 1).toString('base64')}\n`, { mode: 0o600 });
    assert.match(
      await run(1, ['secret', 'rotate-key']),
      /the secret \w+ of .* is encrypted with the key \w{12}, which the/,
    );
    const { stdout } = await jobman(world, ['doctor']);
    assert.match(stdout, /^problem +server +the secret \w+ of .* is encrypted with the key \w{12}, which the/m);
    renameSync(`${keyFile}.moved`, keyFile);
    assert.ok((await rerun('1')).includes(expected));

    await run(0, ['clean', '2']);
    assert.match(await run(3, ['rerun', '2']), /FILE of job 000002 does not exist/);
    await run(0, ['secret', 'delete', 'wandb']);
    assert.match(await run(0, ['secret']), /No secrets yet/);
    await run(0, ['controller', 'stop']);
  });

  test('are all there after a rotation that is killed again and again', async (t) => {
    const { world, run, rerun, expected, keyFile } = await openSecretWorld(t);
    await run(0, ['secret', 'encrypt']);
    const first = readFileSync(keyFile, 'utf8');
    await run(0, ['create', 'job.yaml', '--follow']);
    for (let kill = 0; kill < 12; kill += 1) {
      const { child, result } = startJobman(world, ['secret', 'rotate-key']);
      await sleep(150 + 60 * kill);
      child.kill('SIGKILL');
      await result;
    }
    assert.match(await run(0, ['secret', 'rotate-key']), /secrets\.key\. Secrets that were encrypted again: \d/);
    const keys = readFileSync(keyFile, 'utf8');
    assert.equal(keys.trim().split('\n').length, 2, 'a comment and the key in force');
    assert.notEqual(keys, first);
    assert.ok((await rerun('1')).includes(expected));
    rmSync(join(world.home, 'jobs'), { recursive: true });
    assert.deepEqual(filesWithValues(world), []);
    await run(0, ['controller', 'stop']);
  });

  test('are all there after several rotations at the same time', async (t) => {
    const { world, run, rerun, expected, keyFile } = await openSecretWorld(t);
    await run(0, ['secret', 'encrypt']);
    await run(0, ['create', 'job.yaml', '--follow']);
    const before = readFileSync(keyFile, 'utf8');
    for (let round = 0; round < 12; round += 1) {
      const rotations = [1, 2, 3, 4].map(() => jobman(world, ['secret', 'rotate-key']));
      for (const { code, stderr } of await Promise.all(rotations)) assert.equal(code, 0, stderr);
    }
    const keys = readFileSync(keyFile, 'utf8');
    assert.equal(keys.trim().split('\n').length, 2, 'a comment and the key in force');
    assert.notEqual(keys, before);
    assert.ok((await rerun('1')).includes(expected));
    await run(0, ['controller', 'stop']);
  });

  test('get a new key that an admin adds to a file that jobman cannot write, as in Kubernetes', async (t) => {
    const { world, run, rerun, expected, keyFile } = await openSecretWorld(t);
    await run(0, ['secret', 'encrypt']);
    await run(0, ['create', 'job.yaml', '--follow']);
    const setImmutable = (flag: '+i' | '-i') => spawnSync('chattr', [flag, keyFile]).status === 0;
    const newKey = `${Buffer.alloc(32, 7).toString('base64')}\n`;
    writeFileSync(keyFile, newKey + readFileSync(keyFile, 'utf8'));
    if (!requireReal(t, 'chattr, as root', setImmutable('+i'))) return;
    world.atEnd(() => void setImmutable('-i'));
    assert.match(
      await run(0, ['secret', 'rotate-key']),
      /again: 2\.\nNo secret needs the other keys of .*secrets\.key\./,
    );
    setImmutable('-i');
    writeFileSync(keyFile, newKey);
    setImmutable('+i');
    assert.ok((await rerun('1')).includes(expected));
    assert.match(
      await run(1, ['secret', 'rotate-key']),
      /cannot be written\. Nothing was changed\.\n +Add a new key as its/,
    );
    assert.ok((await rerun('1')).includes(expected));
    await run(0, ['controller', 'stop']);
  });

  test('get the new key except those whose key is lost, which the command names', async (t) => {
    const { run, rerun, expected, keyFile } = await openSecretWorld(t);
    await run(0, ['secret', 'encrypt']);
    await run(0, ['create', 'job.yaml', '--follow']);
    const before = readFileSync(keyFile, 'utf8');
    writeFileSync(keyFile, `${Buffer.alloc(32, 1).toString('base64')}\n`);
    await run(0, ['secret', 'set', 'first'], 'x');
    writeFileSync(keyFile, before);
    assert.match(
      await run(1, ['secret', 'rotate-key']),
      /the secret first of \w+ is encrypted with the key \w{12}, which/,
    );
    const [, newKey] = readFileSync(keyFile, 'utf8').split('\n');
    writeFileSync(keyFile, `${newKey}\n`);
    assert.ok((await rerun('1')).includes(expected));
    await run(0, ['secret', 'delete', 'first']);
    await run(0, ['secret', 'rotate-key']);
    assert.ok((await rerun('1')).includes(expected));
    await run(0, ['controller', 'stop']);
  });
});
