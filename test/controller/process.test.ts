// The controller as a process, within this process: the lock, the controller file, the wake folder, the exit.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createChance } from '../../sim/chance.ts';
import { createLogCopies } from '../../sim/outputs.ts';
import type { Backend, Clock, Store, WakeUp } from '../../src/app/ports.ts';
import { fileLease } from '../../src/controller/lease.ts';
import {
  formatProgram,
  isControllerRunning,
  readController,
  takeLock,
  type ControllerFile,
} from '../../src/controller/lock.ts';
import { runController, type RunControllerOptions } from '../../src/controller/process.ts';
import { openStore, withStore } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';

const clock: Clock = {
  now: () => Date.now(),
  at(at, call) {
    const timer = setTimeout(call, Math.max(0, at - Date.now()));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** If the system cannot watch more folders, a wake-up is found at the next renewal of the lease. */
const byRenewal = { withinMs: 4 * fileLease.renewal };

async function newHome(t: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'jobman-controller-'));
  t.after(() => rm(home, { recursive: true, force: true }));
  return home;
}

async function optionsFor(
  t: TestContext,
  home: string,
  changes: Partial<RunControllerOptions> = {},
): Promise<RunControllerOptions> {
  const store = openStore({ file: join(home, 'state.db') });
  await store.installationId();
  t.after(() => store.close());
  const none = (): Backend => {
    throw new Error('there are no jobs here');
  };
  return {
    home,
    databaseFile: join(home, 'state.db'),
    database: 'state.db',
    store,
    pid: 4242,
    isServer: false,
    version: '1.0.0',
    schema: 4,
    backendOf: none,
    clock,
    logFiles: createLogCopies({ isFull: false }, createChance(1)),
    log: { info: () => undefined, warn: () => undefined },
    grants: [],
    keptPasses: { days: 7, count: 2_000 },
    pools: [{ name: 'localhost', slots: 1, gpus: null }],
    idleExitMs: null,
    onStop: () => () => undefined,
    ...changes,
  };
}

function stoppable() {
  let asked = (): void => undefined;
  const onStop = (call: () => void): (() => void) => {
    asked = call;
    return () => undefined;
  };
  return { onStop, stop: () => asked() };
}

function wake(home: string, wakeUp: WakeUp): Promise<void> {
  return withStore(openStore({ file: join(home, 'state.db') }), (store) => store.notify(wakeUp));
}

/** Waits until the controller of that home has started. */
async function begun(home: string): Promise<void> {
  assert.ok(await eventually(() => readController(home)?.pid === 4242, byRenewal));
}

test('a running controller writes its pid to a file, excludes a second one, and removes the file at the end', async (t) => {
  const home = await newHome(t);
  const { onStop, stop } = stoppable();
  assert.equal(readController(home), null);
  const running = runController(await optionsFor(t, home, { onStop }));
  await begun(home);
  assert.equal(isControllerRunning(home), true);
  assert.equal(await runController(await optionsFor(t, home)), 'busy');
  stop();
  assert.equal(await running, 'stopped');
  assert.equal(isControllerRunning(home), false);
  assert.equal(existsSync(join(home, 'controller.json')), false);
});

test('while a controller starts, clients never read the pid of a killed one', async (t) => {
  const home = await newHome(t);
  await writeFile(
    join(home, 'controller.json'),
    `${JSON.stringify({ pid: 1111, version: '0.9.0', schema: 4, startedAt: 0, database: null, isServer: false } satisfies ControllerFile)}\n`,
  );
  const { onStop, stop } = stoppable();
  const running = runController(await optionsFor(t, home, { onStop }));
  const notified = new Set<number>();
  while (!notified.has(4242)) {
    const pid = readController(home)?.pid;
    if (pid !== undefined) notified.add(pid);
    await new Promise((resolve) => setImmediate(resolve));
  }
  stop();
  await running;
  assert.deepEqual([...notified], [4242]);
});

test('new settings end the controller so that its caller restarts it, and a request to exit has priority', async (t) => {
  const home = await newHome(t);
  let isChanged = false;
  const isOutdated = async () => isChanged;
  const running = runController(await optionsFor(t, home, { isOutdated }));
  await begun(home);
  isChanged = true;
  await wake(home, { topic: 'settings' });
  assert.equal(await running, 'outdated');
  assert.equal(isControllerRunning(home), false);
  const other = runController(await optionsFor(t, home, { isOutdated: async () => existsSync(join(home, 'new')) }));
  await begun(home);
  await writeFile(join(home, 'new'), '');
  await wake(home, { topic: 'exit', program: null });
  assert.equal(await other, 'stopped');
});

test('without work it exits by itself', async (t) => {
  const home = await newHome(t);
  assert.equal(await runController(await optionsFor(t, home, { idleExitMs: 20 })), 'idle');
});

test('a client can make a controller of another version or schema exit, but not one of the same program', async (t) => {
  const home = await newHome(t);
  for (const other of [
    { version: '1.1.0', schema: 4 },
    { version: '1.0.0', schema: 5 },
  ]) {
    const running = runController(await optionsFor(t, home));
    await begun(home);
    await wake(home, { topic: 'exit', program: formatProgram({ version: '1.0.0', schema: 4 }) });
    assert.ok(await eventually(() => !existsSync(join(home, 'wake', '.leave')), byRenewal));
    assert.equal(isControllerRunning(home), true);
    await wake(home, { topic: 'exit', program: formatProgram(other) });
    assert.equal(await running, 'stopped');
  }
});

test('an old request to exit does not end the next controller', async (t) => {
  const home = await newHome(t);
  await wake(home, { topic: 'exit', program: null });
  const running = runController(await optionsFor(t, home, { idleExitMs: 50 }));
  assert.equal(await running, 'idle');
});

test('a wake-up is removed from the folder', async (t) => {
  const home = await newHome(t);
  const running = runController(await optionsFor(t, home));
  await begun(home);
  await wake(home, { topic: 'job', id: '000001' });
  assert.ok(await eventually(() => !existsSync(join(home, 'wake', '000001')), byRenewal));
  await wake(home, { topic: 'exit', program: null });
  assert.equal(await running, 'stopped');
});

test('a wake-up that arrives while the controller exits starts another round, because its client saw the lock', async (t) => {
  const home = await newHome(t);
  const { store, ...options } = await optionsFor(t, home, { idleExitMs: 20 });
  const late: WakeUp[] = [
    { topic: 'settings' },
    { topic: 'job', id: '000001' },
    { topic: 'clusters' },
    { topic: 'all' },
  ];
  let rounds = 0;
  let receive: (wakeUps: readonly WakeUp[]) => void = () => undefined;
  const listening: Store = {
    ...store,
    async listen(call) {
      rounds += 1;
      receive = call;
      return { poll: async () => undefined, close: async () => undefined };
    },
    async releaseLease(holder) {
      receive(late.splice(-1));
      await store.releaseLease(holder);
    },
  };
  assert.equal(await runController({ ...options, store: listening }), 'idle');
  assert.equal(rounds, 4, 'settings are read by the next controller anyway');
});

test('a FIFO instead of controller.json does not block', async (t) => {
  const home = await newHome(t);
  const release = takeLock(join(home, 'controller.lock'));
  t.after(() => release?.());
  execFileSync('mkfifo', [join(home, 'controller.json')]);
  const file = new URL('../../src/controller/lock.ts', import.meta.url).href;
  const script = `import(${JSON.stringify(file)}).then((it) => console.log(it.readController(${JSON.stringify(home)})))`;
  const { stdout, error } = spawnSync(process.execPath, ['-e', script], { timeout: 20_000, encoding: 'utf8' });
  assert.deepEqual([stdout, error], ['null\n', undefined]);
});

test('a controller.json with values of other types counts as missing, so that no signal is sent to a wrong pid', async (t) => {
  const home = await newHome(t);
  const release = takeLock(join(home, 'controller.lock'));
  t.after(() => release?.());
  const read = (text: string) => {
    writeFileSync(join(home, 'controller.json'), text);
    return readController(home);
  };
  const good = {
    pid: 4242,
    version: '1.2.3',
    schema: 4,
    startedAt: 1_700_000_000_000,
    database: 'state.db',
    isServer: false,
  };
  assert.deepEqual(read(JSON.stringify(good)), good);
  for (const pid of [-1, 0, -4242, 1.5, '-1', '4242', null, true, [4242]])
    assert.equal(read(JSON.stringify({ ...good, pid })), null, String(pid));
  for (const startedAt of ['soon', null, 1e300, {}]) assert.equal(read(JSON.stringify({ ...good, startedAt })), null);
  assert.equal(read('{"pid":4242,"version":"1.2.3","startedAt":1e400}'), null);
  assert.equal(read(JSON.stringify({ ...good, version: 5 })), null);
  assert.equal(read(JSON.stringify({ ...good, schema: '4' })), null);
  assert.equal(read(JSON.stringify({ ...good, database: 5 })), null);
  const { schema: _schema, database: _database, ...unnamed } = good;
  assert.deepEqual(read(JSON.stringify(unnamed)), { ...good, schema: 0, database: null }, 'of an earlier version');
  for (const text of ['null', '5', '[]', '"x"', '']) assert.equal(read(text), null);
});
