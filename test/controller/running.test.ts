import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { takeLock } from '../../src/controller/lock.ts';

test('a FIFO in the place of controller.json is not waited for', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'jobman-running-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const release = takeLock(join(home, 'controller.lock'));
  t.after(() => release?.());
  execFileSync('mkfifo', [join(home, 'controller.json')]);
  const file = new URL('../../src/controller/running.ts', import.meta.url).href;
  const script = `import(${JSON.stringify(file)}).then((it) => console.log(it.readController(${JSON.stringify(home)})))`;
  const { stdout, error } = spawnSync(process.execPath, ['-e', script], { timeout: 20_000, encoding: 'utf8' });
  assert.deepEqual([stdout, error], ['null\n', undefined]);
});
