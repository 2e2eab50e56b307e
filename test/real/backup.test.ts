// A backup of a home in use, restored into another home with the other kind of database, which then takes over.

import assert from 'node:assert/strict';
import { mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { requirePostgres } from '../support/postgres.ts';

interface Backup {
  readonly jobs: number;
  readonly tables: readonly { readonly name: string; readonly rows: number; readonly digest: string }[];
}

/** Rows that may differ: how the database is used now. */
const ofUse = ['meta', 'lease', 'counter'];

const backUp = async (world: JobWorld, env: Record<string, string>, ...args: readonly string[]) =>
  JSON.parse((await world.runOk(['backup', ...args, '--json'], { env })).stdout) as Backup;

const contents = ({ tables }: Backup) => tables.filter(({ name }) => !ofUse.includes(name));

for (const source of ['SQLite', 'PostgreSQL'] as const) {
  test(`a home with ${source} is restored with the other database while its job runs, and the copy takes over only on request`, async (t) => {
    const server = await requirePostgres(t);
    if (server === undefined) return;
    const onServer = { JOBMAN_DATABASE: server.urlOf(await server.createDatabase()) };
    const inFile = { JOBMAN_DATABASE: '' };
    const [before, after] = source === 'SQLite' ? [inFile, onServer] : [onServer, inFile];
    const world = openJobWorld(t, { env: before });
    await world.runOk(['secret', 'set', 'hf'], { input: 'hf_value' });
    const done = await world.create(world.localManifest("printf 'größe 東京 \\U1F600\\n'", { name: 'done' }));
    await world.waitForFinish(done);
    const program = 'n=0; while [ ! -e ~/bucket/done ]; do n=$((n+1)); echo line $n; sleep 0.2; done; echo the end';
    const running = await world.create(world.tpuManifest(program, { name: 'running' }));
    await world.waitForPhase(running, 'running');

    const file = join(world.folder, 'one.backup');
    const saved = await backUp(world, before, file, '--with-secrets');
    assert.equal(saved.jobs, 2);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    await world.runRefused(4, /exists already\. Nothing was changed\./, ['backup', file]);

    const restored = { ...after, JOBMAN_HOME: join(world.folder, 'restored') };
    await restoreAfterKill(world, file, restored);
    const again = await backUp(world, restored, join(world.folder, 'two.backup'), '--with-secrets');
    assert.deepEqual(contents(again), contents(saved));
    assert.equal((await world.runOk(['logs', done], { env: restored })).stdout, '[0] größe 東京 😀\n');

    // Only the original may act.
    for (const argv of [
      ['cancel', running],
      ['controller', 'start'],
      ['rerun', done],
    ]) {
      const { code, stderr } = await world.jobman(argv, { env: restored });
      assert.notEqual(code, 0, argv.join(' '));
      assert.match(stderr, /was restored from a backup|is a copy of/);
    }
    assert.match(
      (await world.jobman(['doctor'], { env: restored })).stdout,
      /^warning +database .* restored from a backup/m,
    );
    await world.runOk(['controller', 'stop']);
    assert.match((await world.runOk(['restore', '--takeover'], { env: restored })).stdout, /^Took over/);
    symlinkSync(join(world.home, 'emulator'), join(restored.JOBMAN_HOME, 'emulator'));
    await world.runOk(['controller', 'start'], { env: restored });
    writeFileSync(world.bucketPath('done'), '');
    await world.runOk(['wait', running], { env: restored, withinMs: 120_000 });
    const shown = JSON.parse((await world.runOk(['show', running, '--json'], { env: restored })).stdout) as {
      readonly attempts: readonly unknown[];
    };
    assert.equal(shown.attempts.length, 1);
    const lines = (await world.runOk(['logs', running, '--worker', '0'], { env: restored })).stdout.trim().split('\n');
    assert.deepEqual(
      lines.slice(0, -1).map((line) => line.replace(/^\[0\] /, '')),
      lines.slice(0, -1).map((_, index) => `line ${index + 1}`),
    );
    assert.match(lines.at(-1) ?? '', /the end$/);
    assert.equal((await world.runOk(['secret'], { env: restored })).stdout.includes('hf'), true);
    const next = await world.runOk(['run', '--detach', '--quiet', '--', 'true'], { env: restored });
    assert.match(next.stdout, /^00100[0-9]\n$/);
    await world.runOk(['wait', next.stdout.trim()], { env: restored });
    await world.runOk(['controller', 'stop'], { env: restored });
  });
}

/** Other commands refuse the home until a restore is complete. Kills restores at several instants first. Each either has had no effect that matters, or is complete. */
async function restoreAfterKill(world: JobWorld, file: string, env: Record<string, string>): Promise<void> {
  const home = env['JOBMAN_HOME'] ?? '';
  mkdirSync(home);
  writeFileSync(join(home, 'restoring'), `${file}\n`);
  for (const argv of [['list'], ['run', '--detach', '--', 'true'], ['restore', '--takeover'], ['doctor']]) {
    const { stdout, stderr } = await world.jobman(argv, { env });
    assert.match(stdout + stderr, /A backup is being restored into .*repeat it: jobman restore \S+\/one\.backup/s);
  }
  for (const delayMs of [200, 300, 400, 500, 600, 700]) {
    const command = world.start(['restore', file], { env });
    await setTimeout(delayMs);
    command.child.kill('SIGKILL');
    await command.result;
  }
  const { code, stderr } = await world.jobman(['restore', file], { env });
  assert.ok(code === 0 || /is not empty/.test(stderr), stderr);
}
