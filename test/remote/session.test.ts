/** The script of a session, as the shell of a worker runs it: its input where no temporary folder can be made. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { sessionScript, sessionCommands } from '../../src/remote/session.ts';
import { wrapScript } from '../../src/remote/transport.ts';
import { openWorld } from '../support/world.ts';

test('a program gets its input on a disk that takes no folder more', async (t) => {
  const { env, folder } = openWorld(t);
  const child = spawn('/bin/sh', ['-s'], { env: { ...env, TMPDIR: `${folder}/full` }, stdio: 'pipe', detached: true });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    const isBegun = text === '';
    text += part;
    // Input that arrives before the shell has read its script would become a part of it.
    if (isBegun) child.stdin.write(`${sessionCommands.data(6)}hello\n${sessionCommands.end}`);
  });
  child.stderr.resume();
  const ended = new Promise((resolve) => child.once('close', resolve));
  child.stdin.write(wrapScript(sessionScript({ kind: 'argv', argv: ['cat'] }, true)));
  assert.equal(await ended, 0);
  assert.match(text, /\nhello\n$/);
});
