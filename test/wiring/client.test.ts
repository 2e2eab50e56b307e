// The client of this machine: jobs that start the TPU emulator, and users who may act for a job's owner.

import { loadSettings } from '../support/settings.ts';
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { JobmanError } from '../../src/app/errors.ts';
import type { Io, Services } from '../../src/app/services.ts';
import { openStore } from '../../src/store/store.ts';
import { createLocalClients } from '../../src/wiring/client.ts';
import { aUser } from '../support/lab-builders.ts';
import { localSpec, noon, tpuSpec } from '../support/builders.ts';
import { openWorld } from '../support/world.ts';
import { createConfirmed } from '../support/create-confirmed.ts';

const inBuiltIn = tpuSpec({}, { project: 'emulator' });

for (const [what, spec, endpoint, isAsked, uid = 0] of [
  ['a job of the TPU emulator starts it', inBuiltIn, null, true],
  ['a job that its user may not create does not start it', inBuiltIn, null, false, 64_731],
  ['with another server in the settings no emulator starts', inBuiltIn, 'http://127.0.0.1:1', false],
  ['a job of another project does not start it', tpuSpec(), null, false],
  ['a job on this machine does not start it', localSpec(), null, false],
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
      io: { env: world.env, user: 'ada', uid, now: () => noon } as unknown as Io,
      home: world.home,
      settingsFiles: () => ({ home: world.home }),
      settings: () => loadSettings({ home: world.home, env: {}, cores: 1 }),
    } as unknown as Services;
    const client = createLocalClients(services)(null);
    world.atEnd(() => client.close());
    if (uid === 0) assert.equal((await createConfirmed(client, { spec, manifest: '' })).id, '000001');
    else await assert.rejects(client.create({ spec, manifest: '', onBehalfOf: 'eve' }), { errorCode: 'forbidden' });
    assert.equal(asked.length > 0, isAsked, `it was asked for ${asked.join("the requests were ${asked.join(', ')}")}`);
  });
}

for (const [what, logins, requested, login, user, refused] of [
  ["a login that is the lab's owner", ['shared'], null, 'shared', 'ada', null],
  ['a shared login that names the user', [], 'ada', 'shared', 'ada', null],
  [
    'a shared login that does not',
    [],
    null,
    'shared',
    'shared',
    /only its owner or an admin may cancel it\. .* with TPU_USER=ada before it\.$/,
  ],
  ['a login of another user', [], 'ada', 'bob', 'bob', /only its owner or an admin may cancel it\.$/],
  [
    'a login that does not belong to the owner',
    ['ada1'],
    'ada',
    'shared',
    'shared',
    /only its owner or an admin may cancel it\.$/,
  ],
] as const) {
  test(`a job of a lab user, asked for by ${what}, is ${refused === null ? 'cancelled' : 'kept'}`, async (t) => {
    const world = openWorld(t);
    const store = openStore({ file: join(world.home, 'state.db') });
    world.atEnd(() => store.close());
    await store.lab.addUser(aUser('ada', { logins }));
    await store.lab.addUser(aUser('bob'));
    const { job } = await store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
    const { job: strange } = await store.insert({ owner: 'eve', spec: localSpec(), manifest: '', at: noon });
    const { job: earlier } = await store.insert({ owner: login, spec: localSpec(), manifest: '', at: noon });
    const services = {
      io: { env: {}, user: login, uid: 64_731, now: () => noon } as unknown as Io,
      home: world.home,
      settingsFiles: () => ({ home: world.home }),
      settings: () => loadSettings({ home: world.home, env: {}, cores: 1 }),
    } as unknown as Services;
    const client = createLocalClients(services)(requested);
    world.atEnd(() => client.close());
    const { row } = await createConfirmed(client, { spec: localSpec(), manifest: '' });
    assert.deepEqual([(await client.whoAmI()).user, row.owner], [user, user]);
    assert.equal(
      (await client.sendCommand(earlier.id, 'cancel', {})).ok,
      true,
      'the earlier jobs of the login are own',
    );
    assert.equal((await store.load(earlier.id))?.job.endedBy, undefined, 'ended by its owner');
    const answer = await client.sendCommand(job.id, 'cancel', {});
    if (refused === null) {
      assert.equal(answer.ok, true, answer.message);
      assert.match((await client.clean(job.id)).message, /has not finished/);
    } else {
      assert.equal(answer.exitCode, 4);
      assert.match(answer.message, refused);
      assert.equal((await client.show(job.id)).desired, 'running');
      assert.match((await client.clean(job.id)).message, /only its owner or an admin may clean it\./);
      await assert.rejects(
        Array.fromAsync(client.runStep(job.id, 'ssh')),
        ({ message, lines, errorCode }: JobmanError) => {
          assert.match(
            [message, ...lines].join(' '),
            new RegExp(refused.source.replace('cancel it', 'run a setup step')),
          );
          return errorCode === 'forbidden';
        },
      );
    }
    const { message } = await client.sendCommand(strange.id, 'cancel', {});
    assert.match(
      message,
      /only its owner or an admin may cancel it\.$/,
      'a login that belongs to no lab user has no rights of another',
    );
  });
}
