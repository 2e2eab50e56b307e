/** Mail of real controllers to exim, a mail server that has nothing in common with the library that sends. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { createCertificates, type Certificates } from '../support/certificates.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { freePort } from '../support/ports.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';

const password = 'hunter2password';

interface MailServer {
  readonly port: number;
  /** The headers of each accepted mail. */
  readonly headers: () => readonly string[];
  /** The file of its log. */
  readonly log: string;
  /** The file that opens `busy@`. */
  readonly open: string;
}

/**
 * Keeps accepted mail in its queue. Refuses `gone@` for good, `busy@` until the file `open` exists, and a header that RFC 5322 does not allow. Mail needs
 * TLS and a login.
 */
async function startExim(world: JobWorld, exim: string, { key, cert }: Certificates): Promise<MailServer> {
  const folder = join(world.folder, 'exim');
  const at = (name: string): string => join(folder, name);
  for (const path of [folder, at('spool')]) mkdirSync(path);
  writeFileSync(at('key'), key);
  writeFileSync(at('cert'), cert);
  const port = await freePort();
  writeFileSync(
    at('conf'),
    `spool_directory = ${at('spool')}
log_file_path = ${at('%slog')}
pid_file_path = ${at('pid')}
local_interfaces = 127.0.0.1
daemon_smtp_ports = ${port}
primary_hostname = mail.test
qualify_domain = example.com
exim_user = root
exim_group = root
never_users =
keep_environment =
queue_only
tls_advertise_hosts = *
tls_certificate = ${at('cert')}
tls_privatekey = ${at('key')}
auth_advertise_hosts = \${if def:tls_in_cipher {*}{}}
message_size_limit = 1M
acl_smtp_rcpt = recipient
acl_smtp_data = content
begin acl
recipient:
  require authenticated = *
  deny local_parts = gone
    message = no such mailbox
  defer local_parts = busy
    condition = \${if exists{${at('open')}}{no}{yes}}
    message = try again later
  accept
content:
  require verify = header_syntax
  accept
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = \${if and{{eq{$auth2}{robot}}{eq{$auth3}{${password}}}}}
  server_set_id = $auth2
`,
  );
  // exim refuses a configuration that others may write.
  chmodSync(at('conf'), 0o600);
  const server = spawn(exim, ['-C', at('conf'), '-bdf'], { stdio: 'ignore' });
  world.atEnd(async () => {
    if (server.exitCode === null && server.signalCode === null) {
      server.kill('SIGTERM');
      await once(server, 'exit');
    }
    // Each connection has its own process, which names the folder in its arguments.
    assert.ok(
      await eventually(() => spawnSync('pgrep', ['-f', at('conf')]).status === 1),
      'no process of exim is left',
    );
  });
  assert.ok(await eventually(() => isListening(port), { withinMs: 20_000 }), 'exim listens');
  return {
    port,
    open: at('open'),
    log: at('mainlog'),
    headers: () => filesOf(at('spool/input'), '-H'),
  };
}

function filesOf(folder: string, ending: string): readonly string[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(ending));
  return names.map((name) => readFileSync(join(folder, name), 'utf8'));
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (result: boolean) => () => {
      socket.destroy();
      resolve(result);
    };
    socket.on('connect', end(true)).on('error', end(false));
  });
}

interface MessageLine {
  readonly kind: string;
  readonly recipient: string;
  readonly state: string;
  readonly key: string;
  readonly tries: number;
  readonly error: string | null;
}

test('exim gets each mail, over TLS and with a login, and its refusals end or delay a message', async (t) => {
  const exim = process.getuid?.() === 0 ? findProgram('exim4') : undefined;
  if (exim === undefined) {
    requireReal(t, 'exim4, as root', false);
    return;
  }
  const certificates = createCertificates(join(openWorld(t).folder, 'certificates'));
  const world = openJobWorld(t, { env: { NODE_EXTRA_CA_CERTS: certificates.caFile } });
  const { port, headers, log, open } = await startExim(world, exim, certificates);
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, 'password'), `${password}\n`, { mode: 0o600 });
  const smtp = { host: '127.0.0.1', port, from: 'jobman@example.com', user: 'robot', password: './password' };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ notify: { smtp } }));

  await t.test('no login reaches a server whose certificate is not trusted, and the test says why', async () => {
    const env = { NODE_EXTRA_CA_CERTS: '' };
    const refused = await world.jobman(['notify', 'test', 'mail:ada@example.com'], { env, withinMs: 60_000 });
    assert.equal(refused.code, 1);
    assert.match(refused.stdout, /^mail:ada@example\.com: failed \(the mail server 127\.0\.0\.1:\d+.*certificate/m);
    assert.doesNotMatch(readFileSync(log, 'utf8'), /A=plain/);
  });

  await t.test('one recipient has the mail, one is given up, and one waits, also for the next controller', async () => {
    const to = ['ada@example.com', 'gone@example.com', 'busy@example.com'];
    const failure = `for i in $(seq 60); do printf %4000s ä; done; printf '\n.\n..\nBcc: eve@example.com\n'; exit 3`;
    await world.create(world.localManifest(failure, { name: 'dots', notify: { on: 'failed', to } }));
    const find = async (name: string, state: string) => {
      const lines = await world.jsonRows<MessageLine>('notify', '--json');
      return lines.find(({ recipient, ...one }) => recipient === `mail:${name}@example.com` && one.state === state);
    };
    const wait = async (name: string, is: (line: MessageLine) => boolean, state: string): Promise<MessageLine> => {
      const found = await eventually(
        async () => {
          const line = await find(name, state);
          return line !== undefined && is(line) && line;
        },
        { withinMs: 90_000, everyMs: 200 },
      );
      assert.ok(found, `${await world.output('notify')}${readFileSync(log, 'utf8')}`);
      return found;
    };
    const sent = await wait('ada', () => true, 'sent');
    const gone = await wait('gone', () => true, 'given_up');
    assert.deepEqual([gone.tries, gone.error?.includes('550 no such mailbox')], [1, true]);
    const busy = await wait('busy', ({ tries }) => tries > 0, 'pending');
    assert.match(busy.error ?? '', /451 try again later/);
    assert.ok(await world.killController());
    writeFileSync(open, '');
    await world.runOk(['controller', 'start']);
    const late = await wait('busy', () => true, 'sent');
    assert.equal(late.key, busy.key);

    for (const one of headers()) assert.doesNotMatch(one, /Bcc:/);
    const ids = headers().map((one) => /Message-ID: <(.+)@example\.com>$/m.exec(one)?.[1]);
    assert.equal(ids.length, 2);
    assert.deepEqual(new Set(ids), new Set([sent.key, late.key]));
    assert.match(readFileSync(log, 'utf8'), /X=TLS.* A=plain:robot/);
    const shown = await world.output('notify');
    assert.doesNotMatch(`${shown}${readFileSync(join(world.home, 'controller.log'), 'utf8')}`, new RegExp(password));
  });
});
