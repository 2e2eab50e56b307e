/** The WebSocket to a pod: a slow reader does not count as a silent cluster. */
import assert from 'node:assert/strict';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { eventually } from '../../support/eventually.ts';
import { openServer } from './support/server.ts';

test('a reader that is slow for a minute keeps its connection, and reads everything afterwards', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let later = 0;
  const clock = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => clock() + later);
  /** A minute, with a tick of the pings every ten seconds. */
  const passMinute = (): void => {
    for (let tick = 0; tick < 6; tick += 1) {
      later += 10_000;
      t.mock.timers.tick(10_000);
    }
  };
  const pause = t.mock.method(WebSocket.prototype, 'pause');
  // More than the buffers of both ends hold.
  const [messages, size] = [200, 1 << 17];
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, handleProtocols: () => 'v5.channel.k8s.io' });
  await new Promise((resolve) => server.once('listening', resolve));
  t.after(() => server.close());
  server.on('connection', (socket) => {
    for (let index = 0; index < messages; index += 1) socket.send(Buffer.alloc(1 + size, '\u0001'));
    socket.send(Buffer.from('\u0003{"status":"Success"}'), () => socket.close(1000));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const cluster = (await openServer(t, () => ({ drop: true }))).cluster({ cluster: { server: url } });
  const slow = Promise.withResolvers<void>();
  let bytes = 0;
  let ended: unknown;
  const session = cluster.exec(
    { pod: 'train-0', container: 'main' },
    {
      program: { kind: 'line', line: 'true' },
      hasInput: true,
      terminal: null,
      onBytes: async (part) => {
        bytes += part.length;
        await slow.promise;
      },
    },
  );
  void session.ended.then((end) => (ended = end));
  // The unread messages pause the socket.
  assert.ok(await eventually(() => bytes === size && pause.mock.callCount() > 0));
  passMinute();
  slow.resolve();
  assert.ok(await eventually(() => ended !== undefined));
  assert.deepEqual([ended, bytes], [{ kind: 'ended', exitCode: 0, signal: null }, messages * size]);
});
