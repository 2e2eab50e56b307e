// Whether creating a job asks for the built-in cloud.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Io, Services } from '../../src/app/services.ts';
import { loadSettings } from '../../src/app/settings.ts';
import { createLocalClient } from '../../src/wiring/client.ts';
import { localSpec, noon, tpuSpec } from '../store/sample-job.ts';
import { openWorld } from '../support/world.ts';

const inBuiltIn = tpuSpec({}, { project: 'emulator' });

for (const [what, spec, endpoint, isAsked] of [
  ['a job of the built-in cloud asks for it', inBuiltIn, null, true],
  ['where the settings name another server, nobody asks for it', inBuiltIn, 'http://127.0.0.1:1', false],
  ['a job of a project of its own does not ask for it', tpuSpec(), null, false],
  ['a job on this machine does not ask for it', localSpec(), null, false],
] as const) {
  test(what, async (t) => {
    const world = openWorld(t);
    const asked: (string | undefined)[] = [];
    const cloud = createServer((request, reply) => {
      asked.push(request.url);
      reply.end(JSON.stringify({ sshPort: 7 }));
    });
    await new Promise<void>((resolve) => void cloud.listen(0, '127.0.0.1', resolve));
    world.atEnd(() => new Promise<void>((resolve) => void cloud.close(() => resolve())));
    const { port } = cloud.address() as AddressInfo;
    const note = { url: `http://127.0.0.1:${port}`, sshPort: 7, pid: process.pid };
    mkdirSync(join(world.home, 'emulator'), { recursive: true });
    writeFileSync(join(world.home, 'emulator/endpoint.json'), JSON.stringify(note));
    if (endpoint !== null) writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ tpu: { endpoint } }));

    const services = {
      io: { env: world.env, user: 'ada', now: () => noon } as unknown as Io,
      home: world.home,
      settings: () => loadSettings({ home: world.home, env: {}, cores: 1 }),
    } as unknown as Services;
    const client = await createLocalClient(services);
    world.atEnd(() => client.close());
    const { id } = await client.create({ spec, manifest: '', owner: 'ada' });
    assert.equal(id, '000001');
    assert.equal(asked.length > 0, isAsked, `it was asked for ${asked.join(', ')}`);
  });
}
