/** `controller install` where there is no systemd: cron, as a program on PATH that keeps its table in a file, or nothing. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';

/** A PATH with what a program needs and nothing that could install anything on this machine. */
function barePath(world: JobWorld): { readonly bin: string; readonly env: Readonly<Record<string, string>> } {
  const bin = join(world.folder, 'bin');
  mkdirSync(bin);
  for (const name of ['sh', 'cat', 'mv', 'env']) symlinkSync(join('/bin', name), join(bin, name));
  symlinkSync(process.execPath, join(bin, 'node'));
  return { bin, env: { PATH: bin } };
}

/** cron's `crontab`, as far as it goes: -l lists and says when there is nothing, - takes the table from standard input. */
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

test('without systemd and cron the refusal is clear, and nothing is made', async (t) => {
  const world = openJobWorld(t);
  const { env } = barePath(world);
  const refusal = await world.jobman(['controller', 'install'], { env });
  assert.equal(refusal.code, 1);
  assert.equal(refusal.stdout, '');
  assert.equal(
    refusal.stderr,
    'jobman: This machine has neither a systemd user session nor cron to start the controller after a reboot.\n' +
      '  The next jobman command that needs the controller starts it; nothing is lost meanwhile.\n',
  );
  assert.ok(!existsSync(world.home));
  assert.equal(
    (await world.runOk(['controller', 'uninstall'], { env })).stdout,
    'The controller is not installed as a service.\n',
  );
});

test('with cron one line is added beside the user’s own, it starts the controller, and it is taken away again', async (t) => {
  const world = openJobWorld(t);
  const { bin, env } = barePath(world);
  const table = join(world.folder, 'table');
  giveCrontab(bin, table);
  const own = '# my own\n5 4 * * 1 echo 100\\% mine\n';
  writeFileSync(table, own);
  // A blank and a percent sign, which means something to cron, in the name of the home.
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

  // As cron does it: a backslashed percent sign is one, and the rest goes to sh with a poor environment.
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

  // A user who never had a crontab gets one, and is left with an empty one.
  rmSync(table);
  await world.runOk(['controller', 'install'], { env });
  assert.match(readFileSync(table, 'utf8'), /^@reboot [^\n]+\n$/);
  await world.runOk(['controller', 'uninstall'], { env });
  assert.equal(readFileSync(table, 'utf8').trim(), '');
});
