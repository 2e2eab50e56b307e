import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientFor } from '../../src/app/store-client.ts';
import { openStore } from '../../src/store/store.ts';
import { aMember, localSpec, noon } from '../support/builders.ts';
import { clientParts } from '../support/client-parts.ts';
import { openWorld } from '../support/world.ts';

test('create warns of a controller of another login, which runs local programs and cannot read secrets', async (t) => {
  const { home } = openWorld(t);
  const store = openStore({ file: ':memory:' });
  const warningsOf = async (controllerLogin: string | null, secrets = {}) => {
    const parts = clientParts(home, store, { now: () => noon, controllerLogin: async () => controllerLogin });
    const spec = localSpec({ command: { ...localSpec().command, secrets } });
    const request = { spec, manifest: '', secrets: { KEY: Buffer.from('x').toString('base64') } };
    const answer = await clientFor(async () => aMember('bob'), parts).create(request);
    return answer.kind === 'created' ? answer.warnings : [];
  };
  const files = 'the controller runs as the login nada, so the program reads and writes files as nada';
  const secrets = 'the controller runs as the login nada, which cannot read the secrets of your job';
  assert.deepEqual(await warningsOf(null), []);
  assert.deepEqual(await warningsOf('nada'), [files]);
  assert.deepEqual(await warningsOf('nada', { KEY: { kind: 'job', secret: 'KEY' } }), [files, secrets]);
});
