/** jobman's own login key, and connections to a server of the library. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Connection } from 'ssh2';
import { createSshPool } from '../../src/remote/ssh.ts';
import { ensureOwnKey, loadSsh2 } from '../../src/remote/ssh-keys.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';

test('a malformed key of the library is not stored', async (t) => {
  const { home } = openWorld(t);
  const { utils } = await loadSsh2();
  const good = utils.generateKeyPairSync('ed25519', { comment: 'jobman' });
  const body = good.private.replaceAll(/-----.*-----|\s/gu, '');
  const malformed = good.private.replaceAll(/^[^-].*\n/gmu, '').replace('\n', `\n${body.slice(0, body.length / 2)}\n`);
  assert.ok(utils.parseKey(malformed) instanceof Error);
  let generated = 0;
  t.mock.method(utils, 'generateKeyPairSync', () => {
    generated += 1;
    return { ...good, private: generated < 3 ? malformed : good.private };
  });
  const { publicKey } = await ensureOwnKey(home);
  assert.equal(generated, 3);
  assert.equal(publicKey, good.public.trim());
});

test('the buffers that a connection keeps are cut from small blocks', async () => {
  await loadSsh2();
  const block = (): number => Buffer.from('kept').buffer.byteLength;
  // The present block has Node's own size until it is used up.
  for (let made = 0; made < 64 * 1024 && block() > 4 * 1024; made += 1) block();
  assert.ok(block() <= 4 * 1024, `${block()} bytes`);
});

/** A server that accepts every login and answers each script. Its key is the one of the client. */
async function openServer(t: TestContext, keyFile: string) {
  const ssh2 = await loadSsh2();
  const connections: Connection[] = [];
  const server = new ssh2.Server({ hostKeys: [await readFile(keyFile)] }, (connection) => {
    connections.push(connection);
    connection.on('error', () => undefined);
    connection.on('authentication', (context) => context.accept());
    connection.on('session', (accept) => {
      accept().on('exec', (acceptExec) => {
        const channel = acceptExec();
        channel.resume().on('end', () => {
          channel.write('jobman begins here\nhello\n');
          for (let line = 1; line <= 20; line += 1) channel.stderr.write(`error ${line}\n`);
          channel.exit(0);
          channel.end();
        });
      });
    });
  });
  const listener = createServer((socket) => server.injectSocket(socket)).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.after(() => listener.close());
  return { ssh2, connections, listener, port: (listener.address() as AddressInfo).port };
}

/** A server, and transports to it. */
async function openHosts(t: TestContext, ...pinNames: readonly string[]) {
  const { home } = openWorld(t);
  const { file: keyFile } = await ensureOwnKey(home);
  const { connections, listener, port } = await openServer(t, keyFile);
  const pool = createSshPool({ home, userHome: home, user: 'me', agent: null, sshArgs: [] });
  t.after(() => pool.close());
  const target = { host: '127.0.0.1', port, user: 'me', keyFile, hostKeys: [], usesUserConfig: false };
  return {
    home,
    connections,
    listener,
    pool,
    target,
    hosts: pinNames.map((pinName) => pool.transport({ ...target, pinName })),
  };
}

const request = { script: 'hello', timeoutMs: 30_000, maxOutputBytes: 1_000 };

test('the error output of a script is complete, although the standard output ended before', async (t) => {
  const { hosts } = await openHosts(t, 'host');
  const answer = await hosts[0]?.run(request);
  assert.ok(answer?.kind === 'ended');
  const lines = Array.from({ length: 20 }, (_, index) => `error ${index + 1}\n`);
  assert.equal(new TextDecoder().decode(answer.stderr), lines.join(''));
});

test('a pool that is closed while it connects stores no host key', async (t) => {
  const { home, listener, pool, hosts } = await openHosts(t, 'host');
  listener.prependListener('connection', () => pool.close());
  assert.equal((await hosts[0]?.run(request))?.kind, 'no_answer');
  assert.equal(existsSync(join(home, 'ssh/known_hosts')), false);
});

test('hosts that stop during the handshake do not delay the connection to another host', async (t) => {
  const { hosts, pool, target } = await openHosts(t, 'healthy', 'other');
  let [begun, hangsUp] = [0, false];
  const listener = createServer((socket) => {
    socket.once('data', () => {
      begun += 1;
      if (hangsUp) socket.destroy();
    });
    socket.on('error', () => undefined).write('SSH-2.0-stopped\r\n');
    t.after(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  t.after(() => listener.close());
  const { port } = listener.address() as AddressInfo;
  /** So many handshakes run at once. */
  const limit = 16;
  const startStopped = (group: string) =>
    Array.from({ length: limit + 4 }, (_, index) =>
      pool.transport({ ...target, port, pinName: `${group}-${index}` }).run(request),
    );
  const stopped = startStopped('stopped');
  assert.ok(await eventually(() => begun >= limit));
  const answer = await Promise.race([...stopped, hosts[0]?.run(request)]);
  assert.equal(answer?.kind, 'ended');

  hangsUp = true;
  await Promise.all(startStopped('again'));
  [begun, hangsUp] = [0, false];
  void startStopped('again');
  assert.ok(await eventually(() => begun >= limit));
  assert.equal((await hosts[1]?.run(request))?.kind, 'ended');
  assert.equal(begun, limit, 'the other host waited, although the handshakes of these hosts had failed before');
});

test('a connection that dropped the state of its handshake exchanges its keys again', async (t) => {
  const { connections, hosts } = await openHosts(t, 'one', 'other');
  const ask = async () => {
    const answers = hosts.map((host) => host.run(request));
    return (await Promise.all(answers)).map(
      (answer) => answer.kind === 'ended' && new TextDecoder().decode(answer.stdout),
    );
  };
  assert.deepEqual(await ask(), ['hello\n', 'hello\n']);
  await Promise.all(connections.map((connection) => new Promise<void>((resolve) => connection.rekey(resolve))));
  assert.deepEqual(await ask(), ['hello\n', 'hello\n']);
  assert.equal(connections.length, 2);
});

interface PrivateFields {
  readonly _offer?: { readonly lists?: { readonly all?: unknown } };
  readonly _kex?: { readonly _keys?: unknown; readonly _finished?: unknown };
}

test('the library still has the fields that a connection drops', async (t) => {
  const { home } = openWorld(t);
  const { file } = await ensureOwnKey(home);
  const { ssh2, port } = await openServer(t, file);
  const client = new ssh2.Client();
  t.after(() => client.end());
  client.connect({ port, username: 'me', privateKey: await readFile(file) });
  await once(client, 'ready');
  const { _offer: offer, _kex: exchange } = (client as unknown as { readonly _protocol: PrivateFields })._protocol;
  assert.ok(Buffer.isBuffer(offer?.lists?.all));
  assert.ok(exchange !== undefined && '_keys' in exchange && exchange._finished === true);
});
