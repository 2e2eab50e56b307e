/** SSH to a real OpenSSH server: authentication, host keys, and lost connections. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { join } from 'node:path';
import { mapConcurrent } from '../../src/app/concurrency.ts';
import type { SshPoolOptions, SshTarget } from '../../src/remote/ssh.ts';
import { ensureOwnKey } from '../../src/remote/ssh-keys.ts';
import type { RunResult, StreamEnd, Transport } from '../../src/remote/transport.ts';
import { makeKey } from '../remote/sshd.ts';
import type { Sshd } from '../remote/sshd.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/ports.ts';
import { poolOn, sshdTest, targetOn, transportOn } from '../support/ssh.ts';

function run(transport: Transport, script: string, timeoutMs = 20_000): Promise<RunResult> {
  return transport.run({ script, timeoutMs, maxOutputBytes: 100_000 });
}

function textOf(result: RunResult): string {
  assert.equal(result.kind, 'ended', `no answer: ${JSON.stringify(result)}`);
  return result.kind === 'ended' ? new TextDecoder().decode(result.stdout) : '';
}

function reason(result: RunResult): string {
  assert.equal(result.kind, 'no_answer', 'an answer came');
  return result.kind === 'no_answer' ? result.reason : '';
}

sshdTest('a script has its exit code and separate streams, and its text is not in the process list', async (sshd) => {
  // Output of a login shell's start-up files does not belong to the script.
  writeFileSync(join(sshd.home, '.bashrc'), 'echo noise from the start-up file\n');
  const transport = transportOn(sshd);
  const script = `echo out; echo err >&2; tr '\\0' ' ' </proc/$$/cmdline; echo 'se''cret' >/dev/null; exit 7`;
  const result = await run(transport, script);
  assert.ok(result.kind === 'ended');
  assert.equal(result.exitCode, 7);
  assert.equal(new TextDecoder().decode(result.stdout), 'out\n/bin/sh -s ');
  assert.equal(new TextDecoder().decode(result.stderr), 'err\n');
  assert.equal(textOf(await run(transport, `cat; echo after`)), 'after\n', 'the input of a script is empty');

  const long = await transport.run({ script: 'head -c 500000 /dev/zero', timeoutMs: 20_000, maxOutputBytes: 1_000 });
  assert.ok(long.kind === 'ended');
  assert.deepEqual([long.stdout.length, long.truncated, long.exitCode], [1_000, true, 0]);
});

sshdTest(
  'the first host key is pinned, another one is refused within the same allocation, and a new allocation starts fresh',
  async (sshd) => {
    const pin = join(sshd.world.home, 'ssh/known_hosts/job-1-0');
    const first = poolOn(sshd);
    assert.equal(textOf(await run(first.transport(targetOn(sshd)), 'echo hello')), 'hello\n');
    assert.equal(readFileSync(pin, 'utf8'), `job-1-0 ${sshd.hostKey}\n`);
    assert.equal(statSync(pin).mode & 0o777, 0o600);
    first.close();

    const again = poolOn(sshd);
    assert.equal(textOf(await run(again.transport(targetOn(sshd)), 'echo again')), 'again\n');
    again.close();

    await sshd.restart({ newHostKey: true });
    const pool = poolOn(sshd);
    const refused = await run(pool.transport(targetOn(sshd)), 'touch "$HOME/touched"');
    assert.match(
      reason(refused),
      /host key .* has changed from .*SHA256.* within one allocation; jobman sent nothing.*remove/su,
    );
    assert.equal(refused.kind === 'no_answer' && refused.sent, false);
    assert.equal(existsSync(join(sshd.home, 'touched')), false);
    assert.equal(textOf(await run(pool.transport(targetOn(sshd, { pinName: 'job-2-0' })), 'echo new')), 'new\n');

    pool.forget('job-1-', { pins: true });
    assert.ok(await eventually(() => !existsSync(pin)));
    assert.equal(textOf(await run(pool.transport(targetOn(sshd)), 'echo forgotten')), 'forgotten\n');
  },
);

sshdTest('a host must have one of the keys that it was created with', async (sshd) => {
  const other = join(sshd.world.folder, 'other');
  makeKey(other);
  const otherKey = readFileSync(`${other}.pub`, 'utf8').split(' ').slice(0, 2).join(' ');
  const pool = poolOn(sshd);
  const refused = await run(pool.transport(targetOn(sshd, { hostKeys: [otherKey] })), 'true');
  assert.match(reason(refused), /not the key that the cloud reports/u);
  assert.equal(existsSync(join(sshd.world.home, 'ssh/known_hosts/job-1-0')), false);
  const accepted = await run(pool.transport(targetOn(sshd, { hostKeys: [otherKey, sshd.hostKey] })), 'echo yes');
  assert.equal(textOf(accepted), 'yes\n');
});

/** From now on the server accepts that key. */
function accept(sshd: Sshd, key = ''): void {
  writeFileSync(`${sshd.keyFile}.pub`, readFileSync(`${key}.pub`));
}

sshdTest('jobman’s own key is created once, also by concurrent calls, and the server accepts it', async (sshd) => {
  const keys = await Promise.all(Array.from({ length: 8 }, () => ensureOwnKey(sshd.world.home)));
  const [own] = keys;
  assert.ok(own);
  for (const key of keys) assert.deepEqual(key, own);
  assert.equal(statSync(own.file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(join(sshd.world.home, 'ssh')).toSorted(), ['id_ed25519', 'id_ed25519.pub']);
  const publicKey = spawnSync('ssh-keygen', ['-y', '-f', own.file], { encoding: 'utf8' });
  assert.equal(
    publicKey.stdout.split(' ').slice(0, 2).join(' ').trim(),
    own.publicKey.split(' ').slice(0, 2).join(' '),
  );
  writeFileSync(`${sshd.keyFile}.pub`, `${own.publicKey}\n`);
  const transport = transportOn(sshd, { keyFile: own.file });
  assert.equal(textOf(await run(transport, 'echo in')), 'in\n');
});

sshdTest('an unusable key is reported with its reason and a remedy', async (sshd) => {
  const locked = join(sshd.world.folder, 'locked');
  makeKey(locked, 'a passphrase');
  const pool = poolOn(sshd);
  const ask = async (keyFile: string): Promise<string> =>
    reason(await run(pool.transport(targetOn(sshd, { keyFile })), 'true'));
  assert.match(await ask(locked), /protected by a passphrase.*ssh-add/su);
  const remedyOf = async (keyFile: string) => {
    const result = await run(pool.transport(targetOn(sshd, { keyFile })), 'true');
    return result.kind === 'no_answer' ? result.remedy : result;
  };
  assert.deepEqual([await remedyOf(locked), await remedyOf(`${locked}.pub`)], ['ssh-add', undefined]);
  assert.match(await ask(join(sshd.world.folder, 'nothing')), /the key file .* does not exist/u);
  assert.match(await ask(join(sshd.world.folder, 'locked.pub')), /is not a private key|cannot be used/u);
  const handle = join(sshd.world.folder, 'handle');
  const body = Buffer.from('openssh-key-v1\0 sk-ssh-ed25519@openssh.com').toString('base64');
  writeFileSync(handle, `-----BEGIN OPENSSH PRIVATE KEY-----\n${body}\n-----END OPENSSH PRIVATE KEY-----\n`);
  assert.match(await ask(handle), /security key.*agent/su);
  const unknownKey = join(sshd.world.folder, 'unknown-key');
  makeKey(unknownKey);
  assert.match(await ask(unknownKey), /accepts no available SSH key/u);
});

sshdTest('a key with a passphrase is used through the agent that holds it', async (sshd) => {
  const locked = join(sshd.world.folder, 'locked');
  makeKey(locked, 'secret');
  const askpass = join(sshd.world.folder, 'askpass');
  writeFileSync(askpass, '#!/bin/sh\necho secret\n', { mode: 0o700 });
  const socket = await openAgent(sshd, locked, { SSH_ASKPASS: askpass, SSH_ASKPASS_REQUIRE: 'force' });
  accept(sshd, locked);
  const transport = transportOn(sshd, { keyFile: locked }, { agent: socket });
  assert.equal(textOf(await run(transport, 'echo in')), 'in\n');
});

/** An agent with this key; returns its socket. */
async function openAgent(sshd: Sshd, key: string, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const socket = join(sshd.world.folder, 'agent');
  const agent = spawn('ssh-agent', ['-D', '-a', socket], { env: sshd.world.env, stdio: 'ignore' });
  sshd.world.atEnd(async () => {
    agent.kill('SIGTERM');
    await once(agent, 'exit');
  });
  assert.ok(await eventually(() => existsSync(socket)));
  const added = spawnSync('ssh-add', [key], { env: { ...sshd.world.env, SSH_AUTH_SOCK: socket, ...more } });
  assert.equal(added.status, 0, added.stderr.toString());
  return socket;
}

sshdTest('a machine that existed before is reached with the keys of its user, without any setting', async (sshd) => {
  const jobmans = join(sshd.world.folder, 'jobmans');
  makeKey(jobmans);
  const keys = join(sshd.home, '.ssh');
  mkdirSync(keys);
  const config = join(sshd.world.folder, 'users_config');
  writeFileSync(config, '');
  const addKey = 'gcloud compute tpus tpu-vm ssh me@there';
  const target = (existing: boolean): SshTarget =>
    targetOn(sshd, { keyFile: jobmans, usesUserConfig: true, ...(existing ? { existing: { addKey } } : {}) });
  const tries = async (more: Partial<SshPoolOptions> = {}, existing = true): Promise<RunResult> => {
    const pool = poolOn(sshd, { sshArgs: ['-F', config], ...more });
    const result = await run(pool.transport(target(existing)), 'echo in');
    pool.close();
    return result;
  };

  const refused = reason(await tries());
  assert.match(
    refused,
    new RegExp(`accepts no available SSH key for the user ${sshd.user}; tried ${jobmans}; to add one: ${addKey}$`),
  );

  // gcloud's own key.
  const gcloud = join(keys, 'google_compute_engine');
  makeKey(gcloud);
  accept(sshd, gcloud);
  assert.equal(textOf(await tries()), 'in\n');
  assert.match(
    reason(await tries({}, false)),
    /accepts no available SSH key for the user \S+$/,
    'not for a TPU that jobman created',
  );

  // A key that the ssh_config names, and one with OpenSSH's default name.
  const named = join(sshd.world.folder, 'named');
  makeKey(named);
  accept(sshd, named);
  assert.match(reason(await tries()), /tried [^,]+jobmans, [^,]+google_compute_engine; to add one/);
  writeFileSync(config, `Host 127.*\n  IdentityFile ${named}\n`);
  assert.equal(textOf(await tries()), 'in\n');
  writeFileSync(config, '');
  const usual = join(keys, 'id_ed25519');
  makeKey(usual);
  accept(sshd, usual);
  assert.equal(textOf(await tries()), 'in\n');

  // A key with a passphrase is skipped with the reason, unless the agent holds it.
  makeKey(usual, 'secret');
  const held = join(sshd.world.folder, 'held');
  makeKey(held);
  accept(sshd, held);
  assert.match(
    reason(await tries({ agent: join(sshd.world.folder, 'no-agent') })),
    /tried .*the SSH agent; .*id_ed25519 is protected by a passphrase.*ssh-add.*; the SSH agent cannot be used: .*; to add one: gcloud/,
  );
  assert.equal(textOf(await tries({ agent: await openAgent(sshd, held) })), 'in\n');
});

sshdTest(
  'more keys than a server accepts on one connection are all tried',
  async (sshd) => {
    const files = Array.from({ length: 8 }, (_, index) => join(sshd.world.folder, `key-${index}`));
    for (const file of files) makeKey(file);
    const config = join(sshd.world.folder, 'users_config');
    writeFileSync(config, `Host *\n${files.map((file) => `  IdentityFile ${file}\n`).join('')}`);
    const pool = poolOn(sshd, { sshArgs: ['-F', config] });
    const target = targetOn(sshd, { keyFile: sshd.keyFile, usesUserConfig: true, existing: { addKey: 'add' } });
    accept(sshd, files[7]);
    assert.equal(textOf(await run(pool.transport(target), 'echo in')), 'in\n');
    writeFileSync(`${sshd.keyFile}.pub`, '');
    const other = poolOn(sshd, { sshArgs: ['-F', config] });
    assert.match(
      reason(await run(other.transport(target), 'echo in')),
      /accepts no available SSH key.*key-0.*key-7; to add one: add$/,
    );
  },
  ['MaxAuthTries 3'],
);

sshdTest('the user’s configuration applies: names, ports, keys, ProxyJump and ProxyCommand', async (sshd) => {
  const config = join(sshd.world.folder, 'ssh_config');
  const common = `
  HostName 127.0.0.1
  Port ${sshd.port}
  User ${sshd.user}
  IdentityFile "${sshd.keyFile}"
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
`;
  writeFileSync(
    config,
    `Host plain${common}Host first${common}Host second${common}  ProxyJump first
Host jumped${common}  ProxyJump first
Host twice${common}  ProxyJump first,second
Host command${common}  ProxyCommand ssh -F ${config} -q -W %h:%p first
Host broken${common}  ProxyCommand echo no way to %h >&2; exit 1
`,
  );
  const pool = poolOn(sshd, { sshArgs: ['-F', config] });
  const ask = (host: string): Promise<RunResult> => {
    const target = {
      ...targetOn(sshd),
      host,
      port: null,
      user: null,
      keyFile: null,
      pinName: host,
      usesUserConfig: true,
    };
    return run(pool.transport(target), 'set -- $SSH_CONNECTION; echo $2');
  };
  for (const host of ['plain', 'jumped', 'twice', 'command']) assert.match(textOf(await ask(host)), /^\d+\n$/u, host);
  assert.match(reason(await ask('broken')), /no way to 127\.0\.0\.1/u);
});

sshdTest(
  'many connections are opened a few at a time, and many sessions on one host share few connections',
  async (sshd) => {
    const pool = poolOn(sshd, { maxConnecting: 8 });
    const hosts = Array.from({ length: 24 }, (_, index) =>
      pool.transport(targetOn(sshd, { pinName: `many-${index}` })),
    );
    const answers = await mapConcurrent(hosts, 24, (transport) => run(transport, 'echo hello'));
    for (const answer of answers) assert.equal(textOf(answer), 'hello\n');
    const warm = pool.transport(targetOn(sshd, { pinName: 'many-0' }));
    const results = await Promise.all(Array.from({ length: 20 }, () => run(warm, 'sleep 0.5; echo $SSH_CONNECTION')));
    const connections = new Set(results.map(textOf));
    assert.ok(connections.size > 1 && connections.size < 5, `20 sessions took ${connections.size} connections`);
  },
);

sshdTest('an idle connection is closed, and opened again on demand', async (sshd) => {
  const transport = transportOn(sshd, {}, { idleMs: 100 });
  const first = textOf(await run(transport, 'echo $SSH_CONNECTION'));
  assert.equal(textOf(await run(transport, 'echo $SSH_CONNECTION')), first);
  assert.ok(await eventually(() => sessionsOf(sshd).length === 0));
  assert.notEqual(textOf(await run(transport, 'echo $SSH_CONNECTION')), first);
});

/** The server's child processes, one per connection. */
function sessionsOf(sshd: Sshd): readonly number[] {
  const children = readFileSync(`/proc/${sshd.pid}/task/${sshd.pid}/children`, 'utf8');
  return children.trim().split(' ').filter(Boolean).map(Number);
}

function follow(transport: Transport): {
  readonly text: () => string;
  readonly end: Promise<StreamEnd>;
  callOff: () => void;
} {
  let text = '';
  let callOff = (): void => undefined;
  const end = new Promise<StreamEnd>((resolve) => {
    callOff = transport.stream({
      script: 'echo $$; trap "" HUP; while :; do sleep 0.2; done',
      onBytes: (chunk) => {
        text += new TextDecoder().decode(chunk);
      },
      onEnd: resolve,
    });
  });
  return { text: () => text, end, callOff: () => callOff() };
}

/** Scripts end at the end of their input; a test ends its own loop itself. */
function endLoop(text: string): void {
  const pid = Number(text.trim());
  if (pid > 0) process.kill(pid, 'SIGKILL');
}

sshdTest('a lost connection is reported at once, and the next call opens another', async (sshd) => {
  const transport = transportOn(sshd);
  const stream = follow(transport);
  assert.ok(await eventually(() => stream.text() !== ''));
  const nap = `sleep 30${process.pid}`;
  const underWay = run(transport, nap);
  await eventually(() => run(transport, 'true').then((result) => result.kind === 'ended'));
  for (const session of sessionsOf(sshd)) process.kill(session, 'SIGKILL');
  const end = await stream.end;
  assert.ok(end.kind === 'dropped');
  assert.match(end.reason, /closed the connection|was lost/u);
  const cut = await underWay;
  assert.ok(cut.kind === 'no_answer' && cut.sent, 'sent, and its result is unknown');
  assert.equal(textOf(await run(transport, 'echo back')), 'back\n');
  endLoop(stream.text());
  spawnSync('pkill', ['-xf', nap]);
});

/**
 * A connection proxy that stops passing bytes without closing, and resumes. Its port still accepts connections, like
 * the kernel of a hung host.
 */
async function openLine(sshd: Sshd): Promise<{
  readonly port: number;
  /** Stops passing bytes, with `all` also on later connections. */
  silence(all: boolean): void;
  /** Passes the held bytes on. */
  speak(): void;
}> {
  const sockets = new Set<Socket>();
  const ended = new AbortController();
  let silent = false;
  let silentForAll = false;
  const server = createServer((near) => {
    const far = connect(sshd.port, sshd.host);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      if (silentForAll) from.pause();
      from.on('data', (chunk: Buffer) => to.write(chunk));
      from.on('error', () => undefined);
      from.on('close', () => {
        if (!silent || ended.signal.aborted) to.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  sshd.world.atEnd(async () => {
    ended.abort();
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return {
    port: (server.address() as AddressInfo).port,
    silence(all) {
      silent = true;
      silentForAll = all;
      for (const socket of sockets) socket.pause();
    },
    speak() {
      silent = false;
      silentForAll = false;
      for (const socket of sockets) socket.resume();
    },
  };
}

sshdTest('on a hung host, followers and repeatable requests fail and name the hang', async (sshd) => {
  const line = await openLine(sshd);
  const transport = transportOn(sshd, { port: line.port });
  const stream = follow(transport);
  assert.ok(await eventually(() => stream.text() !== ''));
  line.silence(true);
  const asked = transport.run({ script: 'echo seen', timeoutMs: 30_000, maxOutputBytes: 1_000, isRepeatable: true });
  const end = await stream.end;
  assert.ok(end.kind === 'dropped');
  assert.match(end.reason, /no longer answers/u);
  assert.match(reason(await asked), /did not finish the SSH handshake in time/u, 'another line was tried');
  endLoop(stream.text());
});

sshdTest(
  'on a silent connection with a live host, repeatable requests use a new connection, and no running command is lost',
  async (sshd) => {
    const line = await openLine(sshd);
    const transport = transportOn(sshd, { port: line.port });
    const counted = join(sshd.world.folder, 'counted');
    textOf(await run(transport, 'true'));
    const once = run(transport, `sleep 1; echo once >>${counted}; echo done`, 60_000);
    await eventually(() => run(transport, 'true').then((result) => result.kind === 'ended'));
    line.silence(false);
    const again = await transport.run({
      script: 'echo seen',
      timeoutMs: 30_000,
      maxOutputBytes: 1_000,
      isRepeatable: true,
    });
    assert.equal(textOf(again), 'seen\n');
    assert.equal(sessionsOf(sshd).length, 2, 'over a second connection, with the first still open');
    line.speak();
    assert.equal(textOf(await once), 'done\n', 'a suspect connection is not closed yet');
    assert.equal(readFileSync(counted, 'utf8'), 'once\n');
  },
);

sshdTest('a script that runs once waits until its connection is dead, and may have run', async (sshd) => {
  const line = await openLine(sshd);
  const transport = transportOn(sshd, { port: line.port });
  textOf(await run(transport, 'true'));
  const underWay = run(transport, 'sleep 5', 60_000);
  await eventually(() => run(transport, 'true').then((result) => result.kind === 'ended'));
  line.silence(true);
  const result = await underWay;
  assert.match(reason(result), /no longer answers/u);
  assert.equal(result.kind === 'no_answer' && result.sent, true);
});

sshdTest('a script that times out may have run; without a listener nothing was sent', async (sshd) => {
  const transport = transportOn(sshd);
  textOf(await run(transport, 'true'));
  const result = await run(transport, 'sleep 2', 300);
  assert.ok(result.kind === 'no_answer' && result.sent && result.timedOut);
  assert.equal(textOf(await run(transport, 'echo next')), 'next\n', 'the connection still works');

  const unreachable = await run(transportOn(sshd, { port: await freePort() }), 'true');
  assert.match(reason(unreachable), /refuses connections/u);
  assert.equal(unreachable.kind === 'no_answer' && unreachable.sent, false);
});
