// Mail through a real SMTP server on loopback, and through servers that hang or refuse.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import type { SmtpSettings } from '../../src/app/notifications/settings.ts';
import { sendMail, type MailLimits } from '../../src/notify/mail.ts';
import { createCertificates } from '../support/certificates.ts';
import { openWorld } from '../support/world.ts';
import { aMessage, aNotice } from './messages.ts';

const never = new AbortController().signal;
const quick: MailLimits = { connect: 200, greeting: 200, command: 200, total: 5_000 };

interface Mailbox {
  readonly settings: SmtpSettings;
  /** The mails as they arrived. */
  readonly mails: { readonly from: string; readonly to: readonly string[]; readonly text: string }[];
}

/** A real SMTP server. Without other options it needs neither TLS nor a login. */
async function startMailbox(t: TestContext, options: SMTPServerOptions = {}): Promise<Mailbox> {
  const mails: Mailbox['mails'] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, session, done) {
      const parts: Buffer[] = [];
      stream.on('data', (part: Buffer) => parts.push(part));
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        const text = Buffer.concat(parts).toString('utf8');
        mails.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          text,
        });
        done(null);
      });
    },
    ...options,
  });
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  return { mails, settings: { host: '127.0.0.1', port, security: 'none', from: 'jobman@example.com' } };
}

/** A server that answers each line as the function says; undefined: it stays silent. */
async function startFaultyServer(t: TestContext, answer: (line: string) => string | undefined): Promise<SmtpSettings> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    const reply = (line: string): void => {
      const text = answer(line);
      if (text !== undefined) socket.write(`${text}\r\n`);
    };
    reply('connect');
    socket.on('data', (chunk: Buffer) => chunk.toString().trimEnd().split('\r\n').forEach(reply));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    host: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    security: 'none',
    from: 'jobman@example.com',
  };
}

function contextIn(t: TestContext) {
  const { folder, env } = openWorld(t);
  return { home: folder, userHome: folder, env, folder };
}

test('a mail has the address, a plain text, and a Message-ID that a repetition shares', async (t) => {
  const context = contextIn(t);
  const { settings, mails } = await startMailbox(t);
  const message = aMessage([aNotice({ name: 'läma', message: 'ending attempt 2: preempted <b>now</b>' })]);
  for (let times = 0; times < 2; times += 1) {
    const result = await sendMail(settings, 'ada@example.com', message, context, never);
    assert.equal(result.kind, 'sent', JSON.stringify(result));
  }
  assert.deepEqual(
    mails.map(({ from, to }) => [from, to]),
    Array.from({ length: 2 }, () => ['jobman@example.com', ['ada@example.com']]),
  );
  for (const { text } of mails) {
    assert.match(text, /^Message-ID: <jobman-abc123-7@example\.com>$/m);
    assert.match(text, /^Auto-Submitted: auto-generated$/m);
    assert.match(text, /^Subject: =\?UTF-8\?Q\?=5Bjobman=5D_000042_l=C3=A4ma_was_/m);
    assert.match(text, /^Content-Type: text\/plain/m);
    assert.match(text, /preempted <b>now<\/b>/);
    assert.match(text, /jobman show 000042/);
  }
});

test('names and messages cannot add a header or a recipient', async (t) => {
  const context = contextIn(t);
  const { settings, mails } = await startMailbox(t);
  const hostile = 'x\r\nBcc: eve@example.com\r\n\r\nbody';
  const result = await sendMail(
    settings,
    'ada@example.com',
    aMessage([aNotice({ name: hostile, message: hostile })]),
    context,
    never,
  );
  assert.equal(result.kind, 'sent');
  assert.deepEqual(mails[0]?.to, ['ada@example.com']);
  assert.doesNotMatch(mails[0]?.text ?? '', /^Bcc:/m);
});

suite('a login', () => {
  test('is sent only over TLS, with the certificate checked', async (t) => {
    const context = contextIn(t);
    const { key, cert, ca } = createCertificates(join(context.folder, 'certificates'));
    const logins: string[] = [];
    const { settings, mails } = await startMailbox(t, {
      key,
      cert,
      authOptional: false,
      disabledCommands: [],
      onAuth({ username, password }, _session, done) {
        logins.push(`${username} ${password}`);
        done(null, { user: username });
      },
    });
    writeFileSync(join(context.folder, 'password'), 'correct horse\n');
    const secure: SmtpSettings = { ...settings, security: 'starttls', user: 'robot', password: './password' };
    const refused = await sendMail(secure, 'ada@example.com', aMessage(), context, never);
    assert.ok(refused.kind === 'failed');
    assert.match(refused.error, /certificate/);
    assert.deepEqual(logins, []);
    const before = getCACertificates('default');
    setDefaultCACertificates([...before, ca.toString()]);
    try {
      const sent = await sendMail(secure, 'ada@example.com', aMessage(), context, never);
      assert.equal(sent.kind, 'sent', JSON.stringify(sent));
    } finally {
      setDefaultCACertificates(before);
    }
    assert.deepEqual(logins, ['robot correct horse']);
    assert.equal(mails.length, 1);
  });

  test('that is refused keeps the reply of the server, without the password', async (t) => {
    const context = contextIn(t);
    writeFileSync(join(context.folder, 'password'), 'correct horse');
    const { settings } = await startMailbox(t, {
      authOptional: false,
      allowInsecureAuth: true,
      onAuth: ({ password }, _session, done) => done(new Error(`no ${password} here, says the directory`)),
    });
    const result = await sendMail(
      { ...settings, user: 'robot', password: './password' },
      'ada@example.com',
      aMessage(),
      context,
      never,
    );
    assert.ok(result.kind === 'failed');
    assert.match(
      result.error,
      /^the mail server 127\.0\.0\.1:\d+ refused the login: 535.* no \*\*\* here, says the directory$/,
    );
    assert.equal(result.isFinal, undefined);
  });

  test('without its file fails and names the file', async (t) => {
    const context = contextIn(t);
    const { settings } = await startMailbox(t);
    const result = await sendMail(
      { ...settings, user: 'robot', password: './absent' },
      'a@example.com',
      aMessage(),
      context,
      never,
    );
    assert.ok(result.kind === 'failed');
    assert.match(result.error, /the file .*\/absent does not exist/);
  });

  test('from a variable that is not set names the variable', async (t) => {
    const context = contextIn(t);
    const { settings } = await startMailbox(t);
    const result = await sendMail(
      { ...settings, user: 'robot', password: 'env:SMTP_PASSWORD' },
      'a@example.com',
      aMessage(),
      context,
      never,
    );
    assert.ok(result.kind === 'failed');
    assert.match(result.error, /the environment variable SMTP_PASSWORD is not set/);
  });
});

suite('a server', () => {
  test('without STARTTLS or TLS gets no mail that requires it', async (t) => {
    const context = contextIn(t);
    const { settings, mails } = await startMailbox(t);
    const result = await sendMail({ ...settings, security: 'starttls' }, 'ada@example.com', aMessage(), context, never);
    assert.ok(result.kind === 'failed');
    assert.match(result.error, /refused TLS|STARTTLS/);
    const plain = await sendMail({ ...settings, security: 'tls' }, 'ada@example.com', aMessage(), context, never);
    assert.ok(plain.kind === 'failed');
    assert.match(plain.error, /: TLS failed: [a-z ]+; check notify\.smtp\.port and notify\.smtp\.security$/);
    assert.equal(mails.length, 0);
  });

  test('that refuses the recipient for good is not asked again', async (t) => {
    const context = contextIn(t);
    const { settings } = await startMailbox(t, {
      onRcptTo(_address, _session, done) {
        done(Object.assign(new Error('no such mailbox'), { responseCode: 550 }));
      },
    });
    const result = await sendMail(settings, 'ada@example.com', aMessage(), context, never);
    assert.ok(result.kind === 'failed');
    assert.match(result.error, /refused the address: 550 no such mailbox/);
    assert.equal(result.isFinal, true);
  });

  test('that is busy is asked again', async (t) => {
    const context = contextIn(t);
    const { settings } = await startMailbox(t, {
      onRcptTo(_address, _session, done) {
        done(Object.assign(new Error('try later'), { responseCode: 450 }));
      },
    });
    const result = await sendMail(settings, 'ada@example.com', aMessage(), context, never);
    assert.ok(result.kind === 'failed');
    assert.equal(result.isFinal, undefined);
  });

  test('that does not listen is named', async (t) => {
    const context = contextIn(t);
    const settings: SmtpSettings = { host: '127.0.0.1', port: 1, security: 'none', from: 'jobman@example.com' };
    const result = await sendMail(settings, 'ada@example.com', aMessage(), context, never, quick);
    assert.ok(result.kind === 'failed');
    assert.match(result.error, /^the mail server 127\.0\.0\.1:1: .*ECONNREFUSED/);
  });

  for (const [when, hangs] of [
    ['before its greeting', 'connect'],
    ['at the first command', 'EHLO'],
    ['when it should begin TLS', 'STARTTLS'],
    ['at the login', 'AUTH'],
    ['at the sender', 'MAIL'],
    ['before the mail', 'DATA'],
    ['after the mail', '.'],
  ] as const) {
    test(`that hangs ${when} ends the try in bounded time`, { timeout: 20_000 }, async (t) => {
      const context = contextIn(t);
      const settings = await startFaultyServer(t, (line) => {
        if (line.startsWith(hangs)) return undefined;
        if (line === 'connect') return '220 ready';
        if (line === 'DATA') return '354 send it';
        if (line.startsWith('EHLO')) return '250-STARTTLS\r\n250 AUTH PLAIN';
        if (line.startsWith('AUTH')) return '235 ok';
        return /^(MAIL|RCPT|QUIT|\.)/.test(line) ? '250 ok' : undefined;
      });
      writeFileSync(join(context.folder, 'password'), 'correct horse');
      const login = { user: 'robot', password: './password' };
      const security = hangs === 'STARTTLS' ? 'starttls' : 'none';
      const smtp: SmtpSettings = { ...settings, ...login, security };
      const result = await sendMail(smtp, 'ada@example.com', aMessage(), context, never, quick);
      assert.ok(result.kind === 'failed', JSON.stringify(result));
      assert.equal(result.isFinal, undefined);
    });
  }

  test('that never stops talking ends at the total limit', { timeout: 20_000 }, async (t) => {
    const context = contextIn(t);
    const settings = await startFaultyServer(t, (line) => (line === 'connect' ? '220 ready' : '250-more'));
    const talking = setInterval(() => undefined, 1_000);
    t.after(() => clearInterval(talking));
    const result = await sendMail(settings, 'ada@example.com', aMessage(), context, never, {
      ...quick,
      command: 60_000,
      total: 500,
    });
    assert.ok(result.kind === 'failed');
    assert.match(result.error, /did not take the message within 0\.5 s/);
  });
});
