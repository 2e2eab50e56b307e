/** The data of the program before this one, from the path that a person names. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openWorld } from '../../support/world.ts';
import { openLabWorld } from './lab-world.ts';

test('what is no regular file of a usual size is refused, and never waited for', { timeout: 20_000 }, async (t) => {
  const { folder } = openWorld(t);
  const { tpu } = openLabWorld();
  const path = (name: string): string => join(folder, name);
  execFileSync('mkfifo', [path('fifo')]);
  symlinkSync('/dev/zero', path('zero'));
  writeFileSync(path('large'), '');
  truncateSync(path('large'), 65 * 1024 * 1024);
  for (const [name, why] of [
    ['fifo', /is not a regular file/],
    ['zero', /is not a regular file/],
    ['large', /is larger than 64 MiB/],
  ] as const) {
    const { code, err } = await tpu(['import', path(name), '--apply']);
    assert.equal(code, 2, err);
    assert.match(err, why);
    assert.match(err, /Nothing was changed/);
  }
  assert.equal((await tpu(['import', path('none')])).code, 3);
});
