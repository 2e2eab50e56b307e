// A server with a lab for tests of the `tpu` command, which are to pass over HTTP too.

import { emptyPages } from '../../server/support/server.ts';
import assert from 'node:assert/strict';
import { suite } from 'node:test';
import type { Client } from '../../../src/app/client.ts';
import { clientFor, type ClientParts } from '../../../src/app/store-client.ts';
import type { Actor } from '../../../src/core/model/user.ts';
import { createServerClient, type ServerClient } from '../../../src/http-client/client.ts';
import { labClientFor } from '../../../src/lab/lab-client.ts';
import type { Lab } from '../../../src/lab/lab.ts';
import { defaultLimits } from '../../../src/server/limits.ts';
import { listen } from '../../../src/server/serve.ts';
import { emptyMetrics } from '../../server/support/server.ts';
import { withCheckedAnswers } from '../../contract/over-http.ts';
import type { Scope } from '../../support/world.ts';

/** The tests with the lab of this machine, and with that of a server. */
export function onBoth<Open>(
  name: string,
  opens: readonly [here: Open, served: Open],
  tests: (open: Open) => void,
): void {
  suite(name, () => tests(opens[0]));
  suite(`${name}, through a server`, () => tests(opens[1]));
}

/** Starts a server; returns the client of an actor, whose token contains it. */
export async function serveLab(
  scope: Scope,
  parts: ClientParts,
  lab: () => Lab,
): Promise<(actor: Actor) => ServerClient> {
  const own = (actor: Actor): Client => clientFor(async () => actor, parts);
  const server = await listen(
    { host: '127.0.0.1', port: 0 },
    {
      authenticate: async (token) => JSON.parse(Buffer.from(token, 'base64url').toString()) as Actor,
      clientOf: (actor) => withCheckedAnswers(own(actor)),
      labOf: (actor) => withCheckedAnswers(labClientFor(own(actor), lab(), parts), 'lab.'),
      clustersOf: () => assert.fail('these tests have no cluster'),
      connectWorker: () => assert.fail('no operation of a lab opens a stream'),
      ready: () => Promise.resolve(),
      metrics: emptyMetrics(),
      limits: { ...defaultLimits, requestsPerSecond: 0 },
      login: { logins: async () => null, url: async () => null },
      pages: emptyPages,
      reportBug: (line) => assert.fail(line),
      reportOutage: (line) => assert.fail(line),
    },
  );
  const opened: ServerClient[] = [];
  scope.after(async () => {
    for (const client of opened) await client.close();
    await server.close();
  });
  return (actor) => {
    const token = Buffer.from(JSON.stringify(actor)).toString('base64url');
    const client = createServerClient({ server: server.url, token, env: {} });
    opened.push(client);
    return client;
  };
}
