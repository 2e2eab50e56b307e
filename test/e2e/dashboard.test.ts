/** `jobman dashboard` on a terminal, with a program instead of a browser. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { hasTerminal, runInTerminal } from '../support/run-in-terminal.ts';
import { openWorld } from '../support/world.ts';

test('the arguments of the browser, which other users can read, do not contain the one-time code', async (t) => {
  if (!hasTerminal(t)) return;
  const world = openWorld(t);
  const browser = join(world.folder, 'browser');
  const script = [
    `printf '%s\\n' "$@" >'${browser}.arguments'`,
    `stat -c %a "\${1#file://}" "$(dirname "\${1#file://}")" >'${browser}.modes'`,
    `cat "\${1#file://}" >'${browser}.page'`,
    'kill -INT "$PPID"',
  ];
  writeFileSync(browser, `#!/bin/sh\n${script.join('\n')}\n`, { mode: 0o755 });
  const { code, screen } = await runInTerminal({ ...world, env: { ...world.env, BROWSER: browser } }, 120, [
    'dashboard',
  ]);
  assert.equal(code, 0, screen);
  const opened = readFileSync(`${browser}.arguments`, 'utf8').trim();
  assert.match(opened, /^file:\/\/\S+$/);
  assert.doesNotMatch(opened, /code=/);
  assert.equal(readFileSync(`${browser}.modes`, 'utf8'), '600\n700\n');
  assert.match(readFileSync(`${browser}.page`, 'utf8'), /url=http:\/\/127\.0\.0\.1:\d+\/open\?code=[\w-]{43}"/);
  assert.ok(!existsSync(fileURLToPath(opened)), 'the page is removed at the end');
});
