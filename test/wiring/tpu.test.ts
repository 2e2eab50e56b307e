// The TPU emulator starts when a job of it is observed, and not for orphan collection.

import { loadSettings } from '../support/settings.ts';
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { createBlobs } from '../../src/files/blobs.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import type { Io } from '../../src/app/services.ts';
import { createTpuBackend } from '../../src/wiring/tpu.ts';
import { tpuRef } from '../backends/tpu/support/refs.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';

/** Answers every request like an empty emulator. */
async function emptyCloud(): Promise<Server> {
  const server = createServer((request, reply) => {
    reply.setHeader('content-type', 'application/json');
    reply.end(JSON.stringify(request.url === '/emulator/info' ? { sshPort: 7 } : {}));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return server;
}

test('an orphan collection does not start the TPU emulator, and an observation does', async (t) => {
  const world = openWorld(t);
  const began = join(world.folder, 'began');
  const launcher = join(world.folder, 'launcher');
  writeFileSync(launcher, `#!/bin/sh\necho "$@" >'${began}'\n`);
  chmodSync(launcher, 0o700);
  mkdirSync(join(world.home, 'emulator'), { recursive: true });
  const io = { env: world.env, user: 'ada', userHome: world.folder, cwd: world.folder, launcher: [launcher] };
  const tpu = createTpuBackend({
    io: io as unknown as Io,
    home: world.home,
    settings: await loadSettings({ home: world.home, env: {}, cores: 1 }),
    clock: { now: Date.now, at: () => () => undefined },
    logFiles: createLogFiles({ home: world.home, history: () => Promise.resolve([]) }),
    blobs: createBlobs(world.home),
  });
  world.atEnd(() => tpu.close());
  const ref = tpuRef({ spec: { project: 'emulator' }, allocation: { confirmedAt: null } });
  const { capacity } = tpu.backend;

  const swept = await capacity.listLabelled([ref]);
  assert.ok(swept.kind === 'unknown');
  assert.match(swept.reason, /the TPU emulator is not running/);
  assert.equal(existsSync(began), false);

  const looking = capacity.observe([ref]);
  assert.ok(await eventually(() => existsSync(began)), 'an observation starts it');
  const server = await emptyCloud();
  world.atEnd(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const { port } = server.address() as AddressInfo;
  const endpoint = { url: `http://127.0.0.1:${port}`, sshPort: 7, pid: process.pid };
  writeFileSync(join(world.home, 'emulator/endpoint.json'), JSON.stringify(endpoint));
  const [seen] = await looking;
  assert.equal(seen?.kind, 'known', JSON.stringify(seen));
  assert.deepEqual((await capacity.listLabelled([ref])).kind, 'known', 'a running one is asked');

  rmSync(began);
  rmSync(world.home, { recursive: true });
  const [later] = await capacity.observe([ref]);
  assert.equal(later?.kind, 'unknown');
  assert.equal(existsSync(world.home), false, 'an emulator does not create a removed home again');
  assert.equal(existsSync(began), false);
});
