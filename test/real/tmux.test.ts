// Windows in a real tmux, on a private socket.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { TmuxWindows } from '../../src/lab/lab.ts';
import { createTmux, viewerArgv } from '../../src/remote/tmux.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';

const tmuxPath = findProgram('tmux');

test('without tmux no window opens, which is not an error', async () => {
  const host = await createTmux({ env: { PATH: '/nowhere' } });
  assert.equal(host.tmux, null);
  assert.equal(await host.open({ session: 'ada', window: 1 }, { title: 't', label: 'm', argv: ['true', 'x'] }), null);
  assert.equal(await host.list('ada'), null);
  assert.equal(await host.close({ session: 'ada', window: 1 }), false);
});

test('this machine has tmux', (t) => {
  if (!requireReal(t, 'tmux', tmuxPath)) return;
  assert.ok(tmuxPath);
});

describe('tmux', { skip: tmuxPath === undefined ? 'this machine has no tmux' : false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-tmux-'));
  const env = { PATH: process.env['PATH'], HOME: folder, TMUX_TMPDIR: folder, SHELL: '/bin/sh', LANG: 'C.UTF-8' };
  let host: TmuxWindows;
  const tmux = (...args: string[]): string =>
    execFileSync(tmuxPath ?? 'tmux', args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  const screen = (target: string): string => tmux('capture-pane', '-p', '-t', target);
  const sleeper = ['sh', '-c', 'printf "%s|" "$@"; exec sleep 1000', 'sh'];

  const open = (session: string, window: number) =>
    host.open({ session, window }, { title: 't', label: '000013/1', argv: sleeper });

  before(async () => {
    // Settings that a user may have, and that must have no effect.
    writeFileSync(join(folder, '.tmux.conf'), 'set -g base-index 1\nset -g renumber-windows on\n');
    host = await createTmux({ env: { ...env, JOBMAN_RUN: 'mark/of/an/attempt', TMUX: '/nowhere/at/all,1,0' } });
  });

  after(() => {
    spawnSync(tmuxPath ?? 'tmux', ['kill-server'], { env });
    rmSync(folder, { recursive: true, force: true });
  });

  test('a window opens at its number, with our label, in a session that is created with a shell at 0', async () => {
    assert.equal(await host.list('ada'), null);
    const pane = await host.open(
      { session: 'ada', window: 42 },
      { title: 'a title', label: '000012/1', argv: sleeper },
    );
    assert.match(pane?.pane ?? '', /^%\d+$/);
    assert.deepEqual(await host.list('ada'), [42]);
    assert.equal(
      tmux('list-windows', '-t', '=ada:', '-F', '#{window_index} #{window_name} #{@jobman}').split('\n').at(-1),
      '42 a title 000012/1',
    );
    assert.match(tmux('list-windows', '-t', '=ada:', '-F', '#{window_index}'), /^0\n42$/);
    // The lookups of a script in that pane, with the pane's variables.
    const asked = execFileSync(tmuxPath ?? 'tmux', ['display-message', '-p', '-t', pane?.pane ?? '', '#S:#I'], {
      env: { ...env, TMUX: pane?.tmux, TMUX_PANE: pane?.pane },
      encoding: 'utf8',
    });
    assert.equal(asked, 'ada:42\n');
  });

  test("a server that is started for an attempt does not carry the attempt's marker", () => {
    assert.doesNotMatch(tmux('show-environment', '-g'), /JOBMAN_RUN/);
  });

  test('a number that is in use is refused, and its window is left alone', async () => {
    assert.ok(await eventually(() => screen('=ada:42').includes('|')), 'its program has begun');
    const before = screen('=ada:42');
    assert.equal(await open('ada', 42), null);
    assert.equal(screen('=ada:42'), before);
    tmux('new-window', '-d', '-t', '=ada:50', 'sh');
    assert.equal(await open('ada', 50), null);
    assert.equal(await host.close({ session: 'ada', window: 50 }), false, 'it is not ours');
    assert.deepEqual(await host.list('ada'), [42]);
  });

  test('names are exact: a prefix of a name is another session', async () => {
    await open('bird', 1);
    assert.equal(await host.list('b'), null);
    assert.equal(await host.close({ session: 'b', window: 1 }), false);
    await open('b', 7);
    assert.deepEqual([await host.list('b'), await host.list('bird')], [[7], [1]]);
  });

  test('every argument of a program arrives unchanged, and no title is executed', async () => {
    const args = ['a b', "it's", '"', '$HOME', '`id`', 'x;', '\\;', ';', '#{pid}', '', '两'];
    const title = `#(touch ${join(folder, 'ran')});`;
    await host.open({ session: '中文', window: 3 }, { title, label: '000016/1', argv: [...sleeper, ...args] });
    const shown = await eventually(() => screen('=中文:3').replaceAll('\n', '').includes('两|'));
    assert.ok(shown, screen('=中文:3'));
    assert.equal(screen('=中文:3').trim(), args.map((arg) => `${arg}|`).join(''));
    assert.equal(existsSync(join(folder, 'ran')), false);
    assert.deepEqual(await host.list('中文'), [3]);
  });

  test('closing a window keeps the numbers of the others', async () => {
    await open('ada', 43);
    assert.equal(await host.close({ session: 'ada', window: 42 }), true);
    assert.deepEqual(await host.list('ada'), [43]);
    assert.equal(await host.close({ session: 'ada', window: 42 }), false);
  });

  test('a name with a special meaning in tmux is refused', async () => {
    for (const session of ['a:b', 'a.b', '$1', '', '@3', '=x']) {
      assert.equal(await open(session, 1), null, session);
      assert.equal(await host.list(session), null, session);
    }
  });

  test('two windows of a new session open at the same time', async () => {
    const opened = await Promise.all([1, 2, 3, 4, 5, 6].map((window) => open('race', window)));
    assert.equal(opened.filter((pane) => pane === null).length, 0);
    assert.deepEqual(await host.list('race'), [1, 2, 3, 4, 5, 6]);
  });

  describe('the shower', () => {
    const run = join(folder, 'attempt_1');
    const marker = join(folder, 'closed');
    let launcher: number;

    before(() => {
      mkdirSync(run);
      writeFileSync(join(run, 'log'), 'first line\n');
      launcher = Number(execFileSync('sh', ['-c', 'sleep 1000 >/dev/null 2>&1 & echo $!'], { encoding: 'utf8' }));
      writeFileSync(join(run, 'pid'), `${launcher} 1 boot 1\n`);
    });

    after(() => {
      spawnSync('kill', [String(launcher)]);
    });

    test('shows the output as it grows, and finally its result', async () => {
      const argv = viewerArgv({
        folder: run,
        title: '000018, attempt 1',
        nextCommand: 'tpu check ada',
        onClosed: ['sh', '-c', 'printf "%s|" "$@" >"$0"', marker, 'a b', '000018'],
      });
      await host.open({ session: 'show', window: 1 }, { title: 't', label: '000018/1', argv });
      await shows('first line');
      appendFileSync(join(run, 'log'), 'second line\n');
      await shows('second line');
      tmux('send-keys', '-t', '=show:1', 'C-c');
      await shows('The job continues without this window');
      writeFileSync(join(run, 'exit'), '3 1\n');
      process.kill(launcher);
      await shows('-- 000018, attempt 1: the script exited with code 3. Next: tpu check ada');
      assert.deepEqual(await host.list('show'), [1], 'the window stays open');
    });

    test('reports when it is closed manually, also after the end', async () => {
      assert.equal(existsSync(marker), false);
      tmux('kill-window', '-t', '=show:1');
      assert.ok(await eventually(() => existsSync(marker) && readFileSync(marker, 'utf8') !== ''));
      assert.equal(readFileSync(marker, 'utf8'), 'a b|000018|');
    });

    async function shows(text: string): Promise<void> {
      const seen = await eventually(() => screen('=show:1').includes(text));
      assert.ok(seen, screen('=show:1'));
    }
  });
});
