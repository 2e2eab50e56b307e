import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, renameSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeFolder } from '../../src/app/remove-folder.ts';

test('a folder goes with paths that are longer than a path can be', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-remove-'));
  const chain = Array<string>(30).fill('d'.repeat(100));
  const [one, other] = ['one', 'other'].map((name) => join(folder, name, ...chain)) as [string, string];
  for (const path of [one, other]) mkdirSync(path, { recursive: true });
  renameSync(join(folder, 'other'), join(one, 'other'));
  await removeFolder(folder);
  assert.equal(existsSync(folder), false);
  await removeFolder(folder);
});
