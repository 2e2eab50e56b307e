/**
 * `controller install` on a machine without systemd: with cron, a program on PATH that keeps its table in a file, and
 * without.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

/** A PATH with the programs that jobman needs, and none that could install anything on this machine. */
function barePath(world: JobWorld): { readonly bin: string; readonly env: Readonly<Record<string, string>> } {
  const bin = join(world.folder, 'bin');
  mkdirSync(bin);
  for (const name of ['sh', 'cat', 'mv', 'env']) symlinkSync(join('/bin', name), join(bin, name));
  symlinkSync(process.execPath, join(bin, 'node'));
  return { bin, env: { PATH: bin } };
}

/** A fake `crontab`: -l prints the table or an error, - reads a new one from standard input. */
function giveCrontab(bin: string, table: string): void {
  const text = `#!/bin/sh
case $1 in
  -l) [ -e '${table}' ] || { echo "no crontab for you" >&2; exit 1; }; cat '${table}' ;;
  -) cat >'${table}.new' && mv '${table}.new' '${table}' ;;
  *) exit 2 ;;
esac
`;
  writeFileSync(join(bin, 'crontab'), text, { mode: 0o755 });
}

test('without systemd and cron, install is refused and creates nothing', async (t) => {
  const world = openJobWorld(t);
  const { env } = barePath(world);
  const refusal = await world.jobman(['controller', 'install'], { env });
  assert.equal(refusal.code, 1);
  assert.equal(refusal.stdout, '');
  assert.equal(
    refusal.stderr,
    'jobman: This machine has neither a systemd user session nor cron to start the controller after a reboot.\n' +
      '  The next jobman command that needs the controller starts it.\n',
  );
  assert.ok(!existsSync(world.home));
  assert.equal(
    (await world.runOk(['controller', 'uninstall'], { env })).stdout,
    'The controller is not installed as a service.\n',
  );
});

test('with cron, install adds one line to the user’s table, the line starts the controller, and uninstall removes it', async (t) => {
  const world = openJobWorld(t);
  const { bin, env } = barePath(world);
  const table = join(world.folder, 'table');
  giveCrontab(bin, table);
  const own = '# my own\n5 4 * * 1 echo 100\\% mine\n';
  writeFileSync(table, own);
  // The name of the home has a space and a percent sign, which is special for cron.
  const home = join(world.folder, 'home of 100%');
  const at = { env: { ...env, JOBMAN_HOME: home } };

  const installed = await world.runOk(['controller', 'install'], at);
  assert.match(installed.stdout, /^Added an @reboot line to your crontab: .* Undo: jobman controller uninstall\n$/);
  await world.runOk(['controller', 'install'], at);
  const lines = readFileSync(table, 'utf8').split('\n');
  assert.deepEqual(lines.slice(0, 2).join('\n'), own.trimEnd());
  assert.equal(lines.length, 4, 'twice is once');
  const line = lines[2] ?? '';
  assert.match(line, /^@reboot /);

  // Like cron: unescape percent signs, and run the line by sh with a minimal environment.
  const command = line.replace(/^@reboot /, '').replaceAll('\\%', '%');
  const poor = {
    HOME: world.env['HOME'] ?? '/',
    PATH: '/usr/bin:/bin',
    JOBMAN_TEST_ID: world.env['JOBMAN_TEST_ID'] ?? '',
  };
  assert.equal(spawnSync('/bin/sh', ['-c', command], { cwd: '/', env: poor }).status, 0);
  assert.ok(await eventually(() => existsSync(join(home, 'controller.json'))), 'the controller runs after the reboot');
  assert.equal(world.processesMatching('controller run').length, 1);

  const gone = await world.runOk(['controller', 'uninstall'], at);
  assert.equal(gone.stdout, 'removed the @reboot line from your crontab.\n');
  assert.equal(readFileSync(table, 'utf8'), own);
  await world.runOk(['controller', 'stop'], at);

  // A user without a crontab gets one, and keeps an empty one.
  rmSync(table);
  await world.runOk(['controller', 'install'], { env });
  assert.match(readFileSync(table, 'utf8'), /^@reboot [^\n]+\n$/);
  await world.runOk(['controller', 'uninstall'], { env });
  assert.equal(readFileSync(table, 'utf8').trim(), '');
});
