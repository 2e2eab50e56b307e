/**
 * Followed jobs: to their end, interrupted by Ctrl-C at any time, on a terminal of forty columns, and without a
 * terminal.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { hasTerminal, runInTerminal, type TerminalResult } from '../support/run-in-terminal.ts';
import { openJobWorld } from '../support/jobs.ts';

/** Terminal modes must be restored at the end: hidden cursor, bell, alternate screen. */
function isRestored({ screen, settingsRestored: kept }: TerminalResult): boolean {
  const pairs = [
    ['\u001b[?25l', '\u001b[?25h'],
    ['\u001b[?2026h', '\u001b[?2026l'],
    ['\u001b[?1049h', '\u001b[?1049l'],
  ] as const;
  return kept && pairs.every(([on, off]) => screen.lastIndexOf(on) <= screen.lastIndexOf(off));
}

const ctrlC = '\u0003';

test("create --follow shows the program's output and ends with its result; logs -f continues it", async (t) => {
  const world = openJobWorld(t);
  const failing = world.localManifest('echo one\necho two >&2\nexit 3', { name: 'it' });
  const { code, stdout, stderr } = await world.jobman(['create', failing, '--follow']);
  assert.deepEqual([code, stdout], [1, '[0] one\n[0] two\n'], stderr);
  assert.match(
    stderr,
    /^Created job 000001 \(it\)\. It runs in the background\.\n[^]*Job 000001 \(it\) failed after .*exit(ed)?.* 3/,
  );

  const go = join(world.folder, 'go');
  await world.create(world.localManifest(`echo begun\nuntil test -e ${go}; do sleep 0.1; done\necho done`));
  const back = world.start(['logs', '2', '-f']);
  await back.waitForOutput('[0] begun');
  writeFileSync(go, '');
  const ended = await back.result;
  assert.deepEqual([ended.code, ended.stdout], [0, '[0] begun\n[0] done\n']);
});

test('Ctrl-C at any time during --follow exits with 130, and the job keeps running', async (t) => {
  const world = openJobWorld(t);
  const starts = join(world.folder, 'starts');
  const manifest = world.localManifest(`echo start >>${starts}; for i in 1 2 3; do echo $i; sleep 0.7; done`);
  // The first signal comes before anything was read, the last while the program prints.
  const delays = [20, 60, 120, 200, 350, 600, 900, 1_400];
  const named: string[] = [];
  for (const [turn, delay] of delays.entries()) {
    const follower = world.start(['create', manifest, '--follow']);
    await sleep(delay);
    follower.child.kill('SIGINT');
    if (turn % 2 === 1) {
      await sleep(10);
      follower.child.kill('SIGINT');
    }
    const { code, signal, stdout, stderr } = await follower.result;
    // Before the program handles the signal, the system ends it, for which a shell also reports 130.
    assert.ok(code === 130 || signal === 'SIGINT', `${code} ${signal} ${stderr}`);
    assert.ok(!`${stdout}${stderr}`.includes('\u001b'), 'no terminal, no escapes');
    const id = /^Created job (\d{6}) \(bad\)\. It runs in the background\.$/m.exec(stderr)?.[1];
    if (id !== undefined) named.push(id);
    if (id !== undefined && signal === null)
      assert.match(
        stderr,
        new RegExp(`^Detached\\. Job ${id} keeps running\\. Attach again: jobman logs ${Number(id)} -f$`, 'm'),
      );
  }
  const ids = (await world.jsonRows<{ id: string }>('list', '--all', '--json')).map(({ id }) => id);
  for (const id of named) assert.ok(ids.includes(id), `${id} was printed`);
  for (const id of ids) {
    const job = await world.waitForFinish(id);
    assert.equal(job.attempts.length, 1);
  }
  if (ids.length > 0) assert.equal(readFileSync(starts, 'utf8'), 'start\n'.repeat(ids.length));
});

test('keys work after a question, too', async (t) => {
  if (!hasTerminal(t)) return;
  const world = openJobWorld(t);
  for (const name of ['ada', 'bob']) await world.runOk(['tpu', 'add-user', `name=${name}`, 'dir=-']);
  for (const leave of ['q', ctrlC]) {
    const typed = [
      [/Which user\? .*: $/, 'bob\r'],
      [/bob {2}no windows/, 's'],
      [/^/, leave],
    ] as const;
    const left = await runInTerminal(world, 80, ['tpu', 'monitor'], typed);
    assert.equal(left.code, leave === 'q' ? 0 : 130, left.screen);
    assert.ok(isRestored(left), left.screen);
    assert.match(stripVTControlCharacters(left.screen), /Which user\? .*bob {2}no windows/s);
  }
});

test('Ctrl-C and Ctrl-D leave a question, with or without a signal handler of the command', async (t) => {
  if (!hasTerminal(t)) return;
  const world = openJobWorld(t);
  writeFileSync(join(world.folder, 'staging.sh'), 'true\n');
  await world.runOk(['tpu', 'add-user', 'name=ada', `dir=${world.folder}`]);
  const ctrlD = '\u0004';
  const cases = [
    [['tpu', 'run', 'ada', '-q'], /Which TPU\?/, ctrlC, 130],
    [['tpu', 'run', 'ada', '-q'], /Which TPU\?/, ctrlD, 130],
    [['tpu', 'del-user', 'ada'], /Remove user ada/, ctrlC, 130],
    [['tpu', 'del-user', 'ada'], /Remove user ada/, ctrlD, 1],
  ] as const;
  for (const [args, asks, key, code] of cases) {
    const left = await runInTerminal(world, 80, args, [[asks, key]]);
    assert.equal(left.code, code, left.screen);
    assert.ok(isRestored(left) && !left.screen.includes('failed because of a bug'), left.screen);
  }
  assert.match(await world.output('tpu', 'list-users'), /ada/);
});

test('Ctrl-C on a terminal ends only the follower, restores the terminal, and does not reach the controller', async (t) => {
  if (!hasTerminal(t)) return;
  const world = openJobWorld(t);
  const go = join(world.folder, 'go');
  const manifest = world.localManifest(`echo begun; until [ -e ${go} ]; do sleep 0.1; done`);
  const id = await world.create(manifest);
  await world.waitForPhase(id, 'running');
  const controller = world.processesMatching('controller run').map(({ pid }) => pid);
  for (const [args, typed] of [
    [['logs', id, '-f'], [[/begun/, ctrlC]]],
    [['list', '--watch'], [[/000001/, ctrlC + ctrlC]]],
    [['wait', id], [[/000001/, ctrlC]]],
  ] as const) {
    const left = await runInTerminal(world, 80, args, typed);
    assert.equal(left.code, 130, left.screen);
    // The process exited by itself, not by the signal.
    if (args[0] === 'wait')
      assert.match(left.screen, /Stopped waiting; 000001 keeps running\. Wait again: jobman wait 1/);
    assert.ok(isRestored(left), JSON.stringify(left.screen.slice(-200)));
  }
  const created = await runInTerminal(world, 80, ['create', manifest, '--follow'], [[/begun/, ctrlC]]);
  assert.equal(created.code, 130, created.screen);
  assert.ok(isRestored(created));
  assert.ok(created.screen.includes('Ctrl-C detaches'));
  assert.match(
    stripVTControlCharacters(created.screen),
    /Detached\. Job 000002 keeps running\. Attach again: jobman logs 2 -f/,
  );
  assert.deepEqual(
    world.processesMatching('controller run').map(({ pid }) => pid),
    controller,
  );
  writeFileSync(go, '');
  await world.waitForFinish(id);
  await world.waitForFinish('2');
});

test('on a terminal of forty columns no line is wider', async (t) => {
  if (!hasTerminal(t)) return;
  const world = openJobWorld(t);
  const name = 'a-rather-long-name-for-a-job-of-a-family-0042';
  const manifest = world.localManifest('echo short; sleep 1; exit 3', { name });
  const followed = await runInTerminal(world, 40, ['create', manifest, '--follow']);
  assert.equal(followed.code, 1);
  assert.ok(isRestored(followed));
  for (const args of [['list'], ['show', '1'], ['why', '1'], ['history', '1'], ['logs', '1'], ['show', '77']]) {
    const { screen } = await runInTerminal(world, 40, args);
    const lines = stripVTControlCharacters(screen).split('\r\n');
    if (args[0] === 'list')
      assert.ok(
        lines.every((line) => Array.from(line).length <= 40),
        screen,
      );
    assert.ok(
      lines.some((line) => line.includes(args[0] === 'logs' ? 'short' : '0000')),
      screen,
    );
  }
});
