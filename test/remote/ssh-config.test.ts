/** What `ssh -G` prints, read for our purposes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseSshConfig } from '../../src/remote/ssh-config.ts';

const defaults = { user: 'me', userHome: '/home/me', agent: '/run/agent', sshArgs: ['-F', 'file'] };
const question = { host: 'near', port: null, user: null };
const read = (text: string) => parseSshConfig(text, question, defaults);

test('what is not said has its usual value', () => {
  assert.deepEqual(read(''), {
    host: 'near',
    port: 22,
    user: 'me',
    keyFiles: [],
    certificates: [],
    agent: '/run/agent',
    proxy: null,
    limits: { connecting: false, silence: false },
  });
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

test('a limit on a host’s silence is noticed, and what ssh prints when nobody set one is none', () => {
  const limits = (text: string) => read(text).limits;
  assert.deepEqual(limits('connecttimeout none\nserveraliveinterval 0\n'), { connecting: false, silence: false });
  assert.deepEqual(limits('connecttimeout 5\nserveraliveinterval 0\n'), { connecting: true, silence: false });
  assert.deepEqual(limits('connecttimeout none\nserveraliveinterval 60\n'), { connecting: false, silence: true });
});
