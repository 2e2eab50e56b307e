// What may be wrong with the words that a cloud is started with: it is told in a sentence, and nothing is left behind.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { EmulatorError, type EmulatorOptions } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';

async function isRefused(
  options: Partial<EmulatorOptions> & { readonly stateDir: string },
  message: RegExp,
): Promise<void> {
  const starting = startEmulator({ isolation: 'none', env: {}, ...options });
  await assert.rejects(starting, (error) => {
    assert.ok(error instanceof EmulatorError, String(error));
    assert.match(error.message, message);
    return true;
  });
}

test('a state that cannot be kept, a port that is none or taken: a sentence that names it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'emulator-start-'));
  const taken = createServer();
  await new Promise<void>((done) => taken.listen(0, '127.0.0.1', done));
  t.after(() => {
    taken.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'file');
  const stateDir = join(folder, 'state');
  writeFileSync(file, 'no folder');

  await isRefused({ stateDir: '' }, /has no name/);
  await isRefused({ stateDir: file }, /cannot be kept in .*file: .*--state/);
  await isRefused({ stateDir: join(file, 'below') }, /cannot be kept in/);
  await isRefused({ stateDir, port: 99_999 }, /--port: there is no port 99999/);
  await isRefused({ stateDir, sshPort: -1 }, /--ssh-port: there is no port -1/);
  await isRefused({ stateDir, speed: 0 }, /speed .* more than 0/);
  await isRefused({ stateDir, schedule: join(folder, 'none.yaml') }, /rehearsal file cannot be read/);
  assert.equal(existsSync(stateDir), false, 'nothing was begun');
  const { port } = taken.address() as AddressInfo;
  await isRefused({ stateDir, port }, /Port \d+ of this machine is taken\. Name another with --port\./);

  const damaged = join(folder, 'damaged');
  const whole = await startEmulator({ stateDir: damaged, isolation: 'none', env: {} });
  await isRefused({ stateDir: damaged }, /Another emulator is running on/);
  await whole.close();
  for (const [version, message] of [
    [1, /earlier emulator \(version 1 of its schema, .*Move it away/],
    [99, /later emulator \(version 99 of its schema, .*Use that one/],
  ] as const) {
    const database = new DatabaseSync(join(damaged, 'cloud.db'));
    database.exec(`PRAGMA user_version = ${String(version)}`);
    database.close();
    await isRefused({ stateDir: damaged }, message);
  }
  writeFileSync(join(damaged, 'cloud.db'), 'this is not a database, and never was one '.repeat(100));
  await isRefused({ stateDir: damaged }, /cloud\.db, cannot be used: .*Move it away/);
});

test(
  'a folder below /proc cannot be made, and is not tried without end',
  { skip: existsSync('/proc/self') ? false : 'there is no /proc here' },
  () => isRefused({ stateDir: '/proc/there-is-no-such-folder' }, /cannot be kept in \/proc/),
);
