// The notifier with the real senders, a real store and real servers. Its clock jumps to the next timer, so that no test
// waits for a retry.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { SMTPServer } from 'smtp-server';
import type { NotifySettings } from '../../src/app/notifications/settings.ts';
import type { Clock } from '../../src/app/ports.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import { createNotifier } from '../../src/controller/notifier.ts';
import { createSender } from '../../src/notify/sender.ts';
import { runProcess } from '../../src/remote/process.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';

function jumpingClock(): Clock {
  let now = noon;
  return {
    now: () => now,
    at(at, call) {
      const timer = setImmediate(() => {
        now = Math.max(now, at);
        call();
      });
      return () => clearImmediate(timer);
    },
  };
}

/** Finishes one job, and delivers its event. */
async function openOutbox(t: TestContext, settings: Partial<NotifySettings>) {
  const { folder, env } = openWorld(t);
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  t.after(() => store.close());
  const clock = jumpingClock();
  const notify = { ...defaultSettings(1).notify, ...settings };
  const { job, revision } = await store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon });
  const event = { kind: 'finished', at: noon, verdict: 'succeeded', reason: 'succeeded' } as const;
  await store.commit({ job, revision, events: [event], foldedOutcomes: [], wakeAt: null, epoch: null });
  return {
    folder,
    async deliver() {
      const send = createSender({
        settings: notify,
        home: folder,
        userHome: folder,
        env,
        now: () => clock.now(),
        run: runProcess,
      });
      const notifier = createNotifier({
        store: store.notifications,
        settings: notify,
        send,
        clock,
        report: () => undefined,
      });
      notifier.poll();
      assert.ok(await eventually(() => !notifier.isBusy), 'every message has ended');
      return (await store.notifications.messages(10, null)).toSorted((one, other) =>
        one.recipient < other.recipient ? -1 : 1,
      );
    },
  };
}

async function listenOn(
  t: TestContext,
  server: { listen(port: number, host: string, done: () => void): unknown; address(): unknown; close(): unknown },
) {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.after(() => void server.close());
  return (server.address() as AddressInfo).port;
}

test('a webhook that fails in turns gets the message in the end, each time with the same key', async (t) => {
  const turns: readonly ((response: ServerResponse) => void)[] = [
    (response) => response.writeHead(500).end('internal'),
    (response) => response.socket?.destroy(),
    (response) => response.writeHead(429, { 'retry-after': '30' }).end(),
    (response) => response.writeHead(408).end(),
    (response) => response.writeHead(503).end(),
    (response) => response.writeHead(204).end(),
  ];
  const requests: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      requests.push(request.headers);
      turns[requests.length - 1]?.(response);
    });
  });
  const port = await listenOn(t, server);
  t.after(() => server.closeAllConnections());
  const outbox = await openOutbox(t, { to: ['hook'], channels: { hook: { type: 'webhook', url: './url' } } });
  writeFileSync(join(outbox.folder, 'url'), `http://127.0.0.1:${port}/`);
  const [message] = await outbox.deliver();
  assert.deepEqual([message?.state, message?.tries, message?.error], ['sent', turns.length, null]);
  assert.deepEqual(new Set(requests.map((headers) => headers['idempotency-key'])), new Set([message?.key]));
});

test('one that redirects to a private address is given up at once with a visible record, and never followed', async (t) => {
  let followed = 0;
  const inner = await listenOn(
    t,
    createTcpServer((socket) => {
      followed += 1;
      socket.destroy();
    }),
  );
  const server = createServer((_request, response) =>
    response.writeHead(302, { location: `http://127.0.0.1:${inner}/metadata`, connection: 'close' }).end(),
  );
  const outbox = await openOutbox(t, { to: ['hook'], channels: { hook: { type: 'slack', url: './url' } } });
  writeFileSync(join(outbox.folder, 'url'), `http://127.0.0.1:${await listenOn(t, server)}/`);
  const [message] = await outbox.deliver();
  assert.deepEqual([message?.state, message?.tries], ['given_up', 1]);
  assert.match(
    message?.error ?? '',
    /^HTTP 302: it redirects to http:\/\/127\.0\.0\.1:\d+, and jobman follows no redirect$/,
  );
  assert.equal(followed, 0);
});

test('each recipient has its own fate: mail, a command, and a channel that the settings lack', async (t) => {
  const mails: string[] = [];
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onRcptTo: ({ address }, _session, done) =>
      done(address === 'gone@example.com' ? Object.assign(new Error('no such mailbox'), { responseCode: 550 }) : null),
    onData(stream, session, done) {
      stream.resume().on('end', () => {
        mails.push(session.envelope.rcptTo.map(({ address }) => address).join());
        done(null);
      });
    },
  });
  smtp.on('error', () => undefined);
  const port = await listenOn(t, smtp.server);
  const outbox = await openOutbox(t, {
    to: ['mail:ada@example.com', 'mail:gone@example.com', 'script', 'lost'],
    channels: { script: { type: 'command', command: 'cat > event' } },
    smtp: { host: '127.0.0.1', port, security: 'none', from: 'jobman@example.com' },
  });
  const messages = await outbox.deliver();
  assert.deepEqual(
    messages.map(({ recipient, state }) => [recipient, state]),
    [
      ['lost', 'given_up'],
      ['mail:ada@example.com', 'sent'],
      ['mail:gone@example.com', 'given_up'],
      ['script', 'sent'],
    ],
  );
  assert.deepEqual(mails, ['ada@example.com']);
  assert.equal(messages[0]?.error, 'the settings have no channel "lost" (notify.channels)');
  assert.match(messages[2]?.error ?? '', /550 no such mailbox/);
  assert.equal(messages[2]?.tries, 1);
});
