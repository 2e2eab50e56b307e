/** Parsing of the output of `ssh -G`. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseSshConfig } from '../../src/remote/ssh-config.ts';
import { createHostKeys, fingerprint, keyFromWire } from '../../src/remote/ssh-keys.ts';
import { openWorld } from '../support/world.ts';

const defaults = { user: 'me', userHome: '/home/me', agent: '/run/agent', sshArgs: ['-F', 'file'] };
const question = { host: 'near', port: null, user: null };
const read = (text: string) => parseSshConfig(text, question, defaults);

test('what is not said has its usual value', () => {
  assert.deepEqual(read(''), {
    host: 'near',
    port: 22,
    user: 'me',
    keyFiles: [],
    knownHosts: { name: 'near', files: [] },
    certificates: [],
    agent: '/run/agent',
    proxy: null,
    limits: { connecting: false, silence: false },
    options: [],
  });
});

test('another configuration gets what this one says, with a jump host that this one resolves', () => {
  assert.deepEqual(
    read('identitiesonly yes\nhostkeyalias farm\nproxyjump ada@outer,inner\nhostname 10.0.0.1\nport 2222\n').options,
    [
      ['IdentitiesOnly', 'yes'],
      ['HostKeyAlias', 'farm'],
      ['ProxyCommand', 'ssh -F file -J ada@outer -W 10.0.0.1:2222 ssh://inner'],
    ],
  );
  assert.deepEqual(read('proxycommand nc %h %p # 100%%\n').options, [['ProxyCommand', 'nc near 22 # 100%%']]);
});

test('names, ports, users and key files are taken, with their tokens filled in', () => {
  const config = read(
    'hostname 10.0.0.1\nport 2222\nuser you\nidentityfile ~/.ssh/%r@%h\nidentityfile /keys/a b\nidentityfile none\n',
  );
  assert.deepEqual([config.host, config.port, config.user], ['10.0.0.1', 2222, 'you']);
  assert.deepEqual(config.keyFiles, ['/home/me/.ssh/you@10.0.0.1', '/keys/a b']);
});

test('an agent may be named, be the usual one, or be none', () => {
  assert.equal(read('identityagent none\n').agent, null);
  assert.equal(read('identityagent SSH_AUTH_SOCK\n').agent, '/run/agent');
  assert.equal(read('identityagent ${SSH_AUTH_SOCK}\n').agent, '/run/agent');
  assert.equal(read('identityagent ~/agent.sock\n').agent, '/home/me/agent.sock');
});

test('jumps go through the last machine, and it through those before', () => {
  const argv = read('hostname fe80::1\nproxyjump a,you@b:2222\n').proxy;
  assert.equal(argv?.join(' '), 'ssh -F file -o BatchMode=yes -J a -W [fe80::1]:22 ssh://you@b:2222');
  assert.deepEqual(read('proxyjump b\n').proxy?.slice(-3), ['-W', 'near:22', 'ssh://b']);
  assert.equal(read('proxyjump none\nproxycommand none\n').proxy, null);
});

test('a command gets the host and the port that it asks for', () => {
  const proxy = read('hostname 10.0.0.1\nport 23\nproxycommand connect %h %p as %r, 100%%\n').proxy;
  assert.deepEqual(proxy, ['/bin/sh', '-c', 'exec connect 10.0.0.1 23 as me, 100%']);
});

test('a configured limit for a silent host is noticed, and the printed default is none', () => {
  const limits = (text: string) => read(text).limits;
  assert.deepEqual(limits('connecttimeout none\nserveraliveinterval 0\n'), { connecting: false, silence: false });
  assert.deepEqual(limits('connecttimeout 5\nserveraliveinterval 0\n'), { connecting: true, silence: false });
  assert.deepEqual(limits('connecttimeout none\nserveraliveinterval 60\n'), { connecting: false, silence: true });
});

test('of many processes that pin at once one wins, and all get its key', async (t) => {
  const { home } = openWorld(t);
  const keys = createHostKeys(home);
  const outputs = await Promise.all(
    Array.from({ length: 10 }, (_, index) => keys.pin('job-1-0', `ssh-ed25519 AAAA${index}`)),
  );
  const [first] = outputs;
  for (const key of outputs) assert.equal(key, first);
  assert.equal(await keys.pinned('job-1-0'), first);
  assert.deepEqual(readdirSync(join(home, 'ssh/known_hosts')), ['job-1-0']);
  assert.equal(readFileSync(keys.file('job-1-0'), 'utf8'), `job-1-0 ${first}\n`);
});

test('forgetting takes those whose name begins so and no others', async (t) => {
  const keys = createHostKeys(openWorld(t).home);
  await keys.forget('job-1-');
  for (const name of ['job-1-0', 'job-1-1', 'job-10-0']) await keys.pin(name, 'ssh-ed25519 AAAA');
  await keys.forget('job-1-');
  assert.equal(await keys.pinned('job-1-0'), undefined);
  assert.equal(await keys.pinned('job-1-1'), undefined);
  assert.equal(await keys.pinned('job-10-0'), 'ssh-ed25519 AAAA');
});

test('a name that is not a file’s name is refused', async (t) => {
  const keys = createHostKeys(openWorld(t).home);
  await assert.rejects(keys.pin('../outside', 'ssh-ed25519 AAAA'), /cannot name/u);
});

test('a key on the wire and its fingerprint are written as OpenSSH writes them', () => {
  const wire = Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.from([0, 0, 0, 1, 9])]);
  assert.equal(keyFromWire(wire), `ssh-ed25519 ${wire.toString('base64')}`);
  assert.match(fingerprint(keyFromWire(wire)), /^ssh-ed25519 SHA256:[A-Za-z0-9+/]{43}$/u);
});
