import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { takeLock, readController } from '../../src/controller/lock.ts';

test('a FIFO in the place of controller.json is not waited for', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'jobman-running-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const release = takeLock(join(home, 'controller.lock'));
  t.after(() => release?.());
  execFileSync('mkfifo', [join(home, 'controller.json')]);
  const file = new URL('../../src/controller/lock.ts', import.meta.url).href;
  const script = `import(${JSON.stringify(file)}).then((it) => console.log(it.readController(${JSON.stringify(home)})))`;
  const { stdout, error } = spawnSync(process.execPath, ['-e', script], { timeout: 20_000, encoding: 'utf8' });
  assert.deepEqual([stdout, error], ['null\n', undefined]);
});

test('a controller.json with values of other kinds tells nothing, above all no pid to send signals to', (t) => {
  const home = mkdtempSync(join(tmpdir(), 'jobman-running-'));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  const release = takeLock(join(home, 'controller.lock'));
  t.after(() => release?.());
  const read = (text: string) => {
    writeFileSync(join(home, 'controller.json'), text);
    return readController(home);
  };
  const good = { pid: 4242, version: '1.2.3', startedAt: 1_700_000_000_000 };
  assert.deepEqual(read(JSON.stringify(good)), good);
  for (const pid of [-1, 0, 1, -4242, 1.5, '-1', '4242', null, true, [4242]])
    assert.equal(read(JSON.stringify({ ...good, pid })), null, String(pid));
  for (const startedAt of ['soon', null, 1e300, {}]) assert.equal(read(JSON.stringify({ ...good, startedAt })), null);
  assert.equal(read('{"pid":4242,"version":"1.2.3","startedAt":1e400}'), null);
  assert.equal(read(JSON.stringify({ ...good, version: 5 })), null);
  for (const text of ['null', '5', '[]', '"x"', '']) assert.equal(read(text), null);
});
