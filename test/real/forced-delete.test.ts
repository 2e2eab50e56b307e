/** A job that is taken off the list at once: its program is ended all the same, although it ignores the first word. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';

test('delete --force ends the program of a local job after its grace, and the list does not know it any more', async (t) => {
  const world = openJobWorld(t);
  writeFileSync(
    join(world.folder, 'job.yaml'),
    `job:
  name: stubborn
  stop_grace: 1s
local: {}
command:
  run: |
    trap '' TERM
    echo $$ >pid
    while :; do sleep 0.2; done
`,
  );
  await world.jobman(['create', 'job.yaml']);
  const file = join(world.folder, 'pid');
  const written = await eventually(
    () => (existsSync(file) && readFileSync(file, 'utf8').endsWith('\n') ? readFileSync(file, 'utf8') : undefined),
    { withinMs: 60_000 },
  );
  const pid = Number(written);
  assert.ok(pid > 0, 'the program did not begin');
  const { code, stdout } = await world.jobman(['delete', '1', '--force']);
  assert.equal(code, 0);
  assert.match(stdout, /off the list; its program is being ended/);
  assert.equal((await world.jobman(['list', '--json'])).stdout, '');
  assert.ok(await eventually(() => hasEnded(pid), { withinMs: 60_000 }), `the program ${pid} is still alive`);
});

function hasEnded(pid: number): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    // It may go between the opening of its file and the reading.
    return true;
  }
}
