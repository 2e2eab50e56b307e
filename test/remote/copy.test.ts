// Where a copy from a worker goes to on this machine. That it arrives there whole is test/real/exec.test.ts.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { CopyEnd, Session } from '../../src/app/by-hand.ts';
import { get } from '../../src/remote/copy.ts';

/** A worker that does not answer: what is asked of this machine comes before. */
const silent = (): Session => ({
  write: () => Promise.resolve(),
  end: () => undefined,
  stop: () => undefined,
  ended: Promise.resolve({ kind: 'no_answer', reason: 'silent', sent: false }),
});

function fetchTo(to: string, cwd: string): Promise<CopyEnd> {
  const signal = new AbortController().signal;
  return get(silent, { from: 'data', to, replace: false, onProgress: () => undefined, signal, cwd });
}

test('a folder that no file system will make is said, and not waited for', async () => {
  // Node's own recursive mkdir tries without end here.
  const end = await fetchTo('/proc/no-such/folder/', '/');
  assert.equal(end.kind, 'failed');
  assert.match(end.kind === 'failed' ? end.reason : '', /\/proc\/no-such/);
});

test('a folder that is missing is made with those above it, with the rights that the user gives to new folders', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-copy-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  await fetchTo('a/b/', folder);
  const umask = process.umask();
  for (const path of ['a', 'a/b']) assert.equal(statSync(join(folder, path)).mode & 0o777, 0o777 & ~umask);
});
