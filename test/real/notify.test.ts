/** Notifications of real controllers, which are killed between a delivery and its record. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { SMTPServer } from 'smtp-server';
import { blockOf } from '../docs/documents.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, sendSignal, type JobWorld } from '../support/jobs.ts';
import { findProgram, requireReal } from '../support/real.ts';

/** Number of times that the controller is killed while its message arrives. */
const kills = 2;

/** Synchronous, so that no answer can follow. */
function killController(world: JobWorld): void {
  for (const { pid } of world.processesMatching('controller run')) sendSignal(pid, 'SIGKILL');
}

function writeSettings({ home }: JobWorld, notify: object): void {
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'settings.json'), JSON.stringify({ notify: { digestWindowMs: 5_000, ...notify } }));
}

interface MessageLine {
  readonly kind: string;
  readonly state: string;
  readonly key: string;
  readonly recipient: string;
  readonly error: string | null;
}

/** Waits until every message is sent. Starts a controller whenever none runs. */
async function untilSent(world: JobWorld, count: number): Promise<readonly MessageLine[]> {
  const sent = await eventually(
    async () => {
      if (world.processesMatching('controller run').length === 0) await world.jobman(['controller', 'start']);
      const messages = (await world.jsonRows<MessageLine>('notify', '--json')).filter(({ kind }) => kind === 'message');
      return messages.length === count && messages.every(({ state }) => state === 'sent') && messages;
    },
    { withinMs: 90_000, everyMs: 200 },
  );
  assert.ok(sent, `${await world.output('notify')}${readFileSync(join(world.home, 'controller.log'), 'utf8')}`);
  return sent;
}

suite('a controller that is killed while its message arrives', () => {
  test('sends a webhook again with the same key, signed, and shows no secret', async (t) => {
    const world = openJobWorld(t);
    const requests: { readonly headers: IncomingHttpHeaders; readonly body: string }[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => (body += part));
      request.on('end', () => {
        requests.push({ headers: request.headers, body });
        // The message has arrived, and the controller does not know it yet.
        if (requests.length <= kills) killController(world);
        else response.end('ok');
      });
    });
    const port = await listenOn(t, server);
    writeSettings(world, { to: ['hook'], channels: { hook: { type: 'webhook', url: './url', secret: './secret' } } });
    writeFileSync(join(world.home, 'url'), `http://127.0.0.1:${port}/hunter2path`);
    writeFileSync(join(world.home, 'secret'), 'hunter2secret');

    const traceback = String.raw`Traceback (most recent call last):\n  File "train.py", line 12\nValueError: no lr\n`;
    const id = await world.create(world.localManifest(`printf '${traceback}' >&2; exit 3`, { name: 'brittle' }));
    const [message] = await untilSent(world, 1);
    assert.equal(requests.length, kills + 1);
    for (const { headers, body } of requests) {
      assert.equal(headers['idempotency-key'], message?.key);
      assert.equal(body, requests[0]?.body);
    }
    const { events } = JSON.parse(requests[0]?.body ?? '') as {
      events: { event: string; job: string; message: string }[];
    };
    assert.deepEqual(
      events.map(({ event, job }) => [event, job]),
      [['failed', id]],
    );
    assert.match(events[0]?.message ?? '', /exit code 3; its log says "ValueError: no lr"$/);

    const shown = [
      await world.output('settings'),
      await world.output('notify', '--json'),
      readFileSync(join(world.home, 'controller.log'), 'utf8'),
    ];
    assert.doesNotMatch(shown.join(''), /hunter2/);

    // The receiver of the documentation.
    if (!requireReal(t, 'python3', findProgram('python3'))) return;
    const { headers, body } = requests.at(-1) as (typeof requests)[number];
    const program = `${blockOf('docs/notifications.md', 'python', '<!-- example: webhook -->')}
import json, sys
given = json.load(sys.stdin)
body = given["body"].encode()
print(is_genuine(given["headers"], body, b"hunter2secret"), is_genuine(given["headers"], body + b" ", b"hunter2secret"), is_genuine(given["headers"], body, b"other"))`;
    const printed = execFileSync('python3', ['-c', program], {
      input: JSON.stringify({ headers, body }),
      encoding: 'utf8',
    });
    assert.equal(printed, 'True False False\n');
  });

  test('sends a mail again with the same Message-ID, to the owner of the manifest’s choice', async (t) => {
    const world = openJobWorld(t);
    const mails: string[] = [];
    const smtp = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      onData(stream, _session, done) {
        const parts: Buffer[] = [];
        stream.on('data', (part: Buffer) => parts.push(part));
        stream.on('end', () => {
          mails.push(Buffer.concat(parts).toString('utf8'));
          if (mails.length <= kills) killController(world);
          done(null);
        });
      },
    });
    smtp.on('error', () => undefined);
    const port = await listenOn(t, smtp.server);
    writeSettings(world, {
      users: { [process.env['USER'] ?? 'root']: { to: ['mail:everybody@example.com'] } },
      smtp: { host: '127.0.0.1', port, security: 'none', from: 'jobman@example.com' },
    });
    const notify = { on: 'succeeded', to: 'ada@example.com' };
    await world.create(world.localManifest('true', { name: 'quick', notify }));
    const [message] = await untilSent(world, 1);
    assert.equal(message?.recipient, 'mail:ada@example.com');
    assert.equal(mails.length, kills + 1);
    for (const mail of mails) {
      assert.match(mail, new RegExp(`^Message-ID: <${message?.key}@example\\.com>`, 'm'));
      assert.match(mail, /^To: ada@example\.com/m);
    }
  });
});

test('a mail server that hangs delays neither a job nor another channel, and the controller still exits', async (t) => {
  const world = openJobWorld(t);
  const { createServer: createTcpServer } = await import('node:net');
  const hanging = createTcpServer();
  const port = await listenOn(t, hanging);
  writeSettings(world, {
    to: ['mail:ada@example.com', 'script'],
    on: ['started', 'succeeded'],
    channels: { script: { type: 'command', command: `cat >> '${join(world.folder, 'events')}'` } },
    smtp: { host: '127.0.0.1', port, security: 'none', from: 'jobman@example.com' },
  });
  const id = await world.create(world.localManifest('true', { name: 'quick' }));
  await world.waitForFinish(id);
  const lines = await eventually(() => {
    const text = readFileSync(join(world.folder, 'events'), { encoding: 'utf8', flag: 'a+' });
    return text.includes('"succeeded"') && text;
  });
  assert.ok(lines !== undefined, 'the command got the event');
  await world.runOk(['controller', 'stop']);
  const messages = (await world.jsonRows<MessageLine>('notify', '--json')).filter(({ kind }) => kind === 'message');
  const mail = messages.filter(({ recipient }) => recipient === 'mail:ada@example.com');
  assert.ok(mail.length > 0 && mail.every(({ state }) => state === 'pending'), JSON.stringify(messages));

  // A test message through the same server fails too.
  const refused = await world.jobman(['notify', 'test', 'script', 'mail:ada@example.com'], { withinMs: 60_000 });
  assert.equal(refused.code, 1);
  assert.match(refused.stdout, /^script: sent/m);
  assert.match(
    refused.stdout,
    /^mail:ada@example\.com: failed \(the mail server 127\.0\.0\.1:\d+: Greeting never received/m,
  );
});

async function listenOn(
  t: TestContext,
  server: { listen(port: number, host: string, done: () => void): unknown; close(): unknown; address(): unknown },
): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.after(() => void server.close());
  return (server.address() as AddressInfo).port;
}
