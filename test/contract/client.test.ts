// The contract of Client, for the client of a server. The server has the client in this process, whose answers must be plain
// JSON of the schemas in docs/openapi.json.

import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import type { Client, ListQuery } from '../../src/app/client.ts';
import { clientFor } from '../../src/app/store-client.ts';
import { clientSuite } from './client.ts';
import { serveClients } from './over-http.ts';
import { overJson } from './over-json.ts';

suite('the client of a server', () => {
  const bugs: string[] = [];
  const open = serveClients(bugs);
  clientSuite((whoAmI, parts) => open(whoAmI, overJson(clientFor(whoAmI, parts))));
  after(() => assert.deepEqual(bugs, []));
});

test('the suite fails for an argument or an answer that JSON cannot carry', async () => {
  const clientThat = (answer: unknown) => overJson({ list: async () => answer } as unknown as Client);
  for (const answer of [
    { rows: () => 1 },
    new Map([[1, 2]]),
    { at: new Date(0) },
    { note: undefined },
    [undefined],
    { size: Number.NaN },
    { bytes: new Uint8Array(1) },
  ])
    await assert.rejects(clientThat(answer).list({}), assert.AssertionError);
  for (const query of [{ tag: () => 'a' }, { phases: new Set(['running']) }])
    assert.throws(() => void clientThat({}).list(query as unknown as ListQuery), assert.AssertionError);
  assert.deepEqual(await clientThat({ rows: [] }).list({ all: true }), { rows: [] });
});
