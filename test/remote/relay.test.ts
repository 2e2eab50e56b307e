/** The relay of the controller: a session waits for a controller that is busy, and the first connection does not. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { WebSocketServer } from 'ws';
import { connectRelay } from '../../src/remote/relay.ts';
import { openWorld } from '../support/world.ts';

const version = '1.2.3';

/** A relay that accepts each connection after its delay, and ends each session at once. */
async function openSlowRelay(t: TestContext, ...delays: readonly number[]): Promise<string> {
  const file = join(openWorld(t).folder, 'relay.sock');
  const relay = new WebSocketServer({ noServer: true });
  relay.on('connection', (socket) => {
    const end = JSON.stringify({ kind: 'ended', exitCode: 7, signal: null });
    socket.once('message', () => socket.send(Buffer.concat([Buffer.from([7]), Buffer.from(end)])));
  });
  const left = [...delays];
  const server = createServer();
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => undefined);
    setTimeout(() => {
      if (!socket.destroyed)
        relay.handleUpgrade(request, socket, head, (client) => relay.emit('connection', client, request));
    }, left.shift());
  });
  await new Promise<void>((resolve) => server.listen(file, resolve));
  t.after(() => {
    for (const client of relay.clients) client.terminate();
    server.close();
  });
  return file;
}

/** Longer than the first connection may take. */
const busyTime = 1_500;

test('a session waits for a controller that is busy', async (t) => {
  const file = await openSlowRelay(t, 0, busyTime);
  const relay = await connectRelay(file, version);
  assert.ok(relay);
  const session = relay.start('000001', 0, {
    program: { kind: 'line', line: 'true' },
    environment: 'host',
    hasInput: false,
    onBytes: () => undefined,
  });
  assert.deepEqual(await session.ended, { kind: 'ended', exitCode: 7, signal: null });
  relay.close();
});

test('a controller that is busy at the first connection is not used', async (t) => {
  const file = await openSlowRelay(t, busyTime);
  assert.equal(await connectRelay(file, version), undefined);
});
