// Invalid options of a start are refused with a sentence, and nothing remains.

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
  isOtherRunning = false,
): Promise<void> {
  const starting = startEmulator({ isolation: 'none', env: {}, ...options });
  await assert.rejects(starting, (error) => {
    assert.ok(error instanceof EmulatorError, String(error));
    assert.match(error.message, message);
    assert.equal(error.status === 409, isOtherRunning, 'a command waits for another emulator only');
    return true;
  });
}

test('an unusable state folder, an invalid port and a used port are named', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'emulator-start-'));
  const taken = createServer();
  await new Promise<void>((done) => taken.listen(0, '127.0.0.1', done));
  t.after(() => {
    taken.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const file = join(folder, 'file');
  const stateDir = join(folder, 'state');
  writeFileSync(file, 'not a folder');

  await isRefused({ stateDir: '' }, /must have a name/);
  await isRefused({ stateDir: file }, /Could not write the emulator's state to .*file: .*--state/);
  await isRefused({ stateDir: join(file, 'below') }, /Could not write the emulator's state to/);
  await isRefused({ stateDir: join(folder, 'removed/emulator') }, /Could not write .* ENOENT/);
  assert.equal(existsSync(join(folder, 'removed')), false);
  await isRefused({ stateDir, port: 99_999 }, /--port: port 99999 does not exist/);
  await isRefused({ stateDir, sshPort: -1 }, /--ssh-port: port -1 does not exist/);
  await isRefused({ stateDir, speed: 0 }, /speed .* greater than 0/);
  await isRefused({ stateDir, schedule: join(folder, 'none.yaml') }, /Could not read the fault schedule/);
  assert.equal(existsSync(stateDir), false, 'nothing was started');
  const { port } = taken.address() as AddressInfo;
  await isRefused({ stateDir, port }, /Port \d+ on this machine is in use\. Choose another with --port\./);

  const damaged = join(folder, 'damaged');
  const whole = await startEmulator({ stateDir: damaged, isolation: 'none', env: {} });
  await isRefused({ stateDir: damaged }, /Another emulator is running on/, true);
  await whole.close();
  for (const [version, message] of [
    [1, /earlier emulator \(version 1 of its schema; .*Move it away/],
    [99, /later emulator \(version 99 of its schema; .*Use that one/],
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
  'a folder below /proc is refused without endless retries',
  { skip: existsSync('/proc/self') ? false : 'this machine has no /proc' },
  () => isRefused({ stateDir: '/proc/there-is-no-such-folder' }, /Could not write the emulator's state to \/proc/),
);
