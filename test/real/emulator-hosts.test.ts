// Process hosts, reached by the system's ssh and scp: with namespaces if this machine allows them, and as plain
// folders.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { hasDocker } from '../setup/dockerd.ts';
import { eventually, fetchJson, hasProgram, Nodes, processesOf, SshUser } from './emulator-host.ts';

// A high speed makes nodes ready in tenths of a second; the tests are about hosts.
const speed = 400;

for (const isolation of ['auto', 'none'] as const) {
  describe(`hosts, isolation ${isolation}`, { skip: hasProgram('ssh') ? false : 'there is no ssh here' }, () => {
    const nodes = new Nodes('hosts', { speed, seed: 3, isolation });
    const { stateDir, user } = nodes;

    nodes.test(
      'only keys of the metadata log in, including keys that are added later',
      ['servers'],
      async (address) => {
        const unknownUser = new SshUser();
        try {
          const refused = await unknownUser.run(address, nodes.emulator.sshPort, 'true');
          assert.equal(refused.code, 255);
          assert.match(refused.stderr, /Permission denied \(publickey\)/);
          await fetchJson(`${nodes.url}/servers?updateMask=metadata`, 'PATCH', {
            metadata: { 'ssh-keys': `${user.metadataLine}\n${unknownUser.metadataLine}` },
          });
          assert.equal((await unknownUser.run(address, nodes.emulator.sshPort, 'true')).code, 0);
        } finally {
          unknownUser.remove();
        }
      },
    );

    nodes.test('bytes pass unchanged', ['bytes'], async (address) => {
      const child = spawn(
        'ssh',
        user.argv(address, nodes.emulator.sshPort, 'head -c 20000000 /dev/zero | tr "\\0" "\\377"'),
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      let count = 0;
      let wrong = 0;
      for await (const part of child.stdout as AsyncIterable<Buffer>) {
        count += part.length;
        for (const byte of part) if (byte !== 0xff) wrong += 1;
      }
      assert.deepEqual({ count, wrong }, { count: 20_000_000, wrong: 0 });
    });

    test('a detached program survives its connection and ends with its node, with all its children', async () => {
      const [address] = await nodes.create('family');
      const started = await nodes.ssh(
        address,
        'setsid nohup sh -c "trap \'\' TERM HUP INT; setsid sleep 31337 & sleep 31337" >out 2>&1 </dev/null & echo started',
      );
      assert.equal(started.stdout, 'started\n');
      await eventually('both sleep', () => running('sleep 31337').length === 2);
      assert.match((await nodes.ssh(address, 'ps ax || ls /proc')).stdout, nodes.hasNamespaces ? /sleep 31337/ : /./);
      await runAdminVerb(nodes.emulator.url, 'preempt', 'family');
      assert.deepEqual(running('sleep 31337'), []);
      assert.deepEqual(processesOf(stateDir), []);
      assert.equal(await nodes.acceptsSsh(address ?? ''), false, 'SSH is refused');
      await nodes.remove('family');
      await eventually('its folders are gone', () => readdirSync(join(stateDir, 'hosts')).length === 0);
    });

    test('a bucket survives its node, and the next node reads it', async () => {
      const [first] = await nodes.create('writer');
      const path = nodes.hasNamespaces ? '/home/zephyr/bucket' : '$HOME/bucket';
      const mounted = await nodes.ssh(
        first,
        `sudo mkdir -p ${path} && gcsfuse --implicit-dirs -o allow_other checkpoints ${path} && mountpoint -q ${path} && echo 42 >${path}/step && mount | grep -c fuse.gcsfuse`,
      );
      assert.deepEqual(
        { code: mounted.code, last: mounted.stdout.split('\n').at(-2) },
        { code: 0, last: '1' },
        mounted.stderr,
      );
      await runAdminVerb(nodes.emulator.url, 'preempt', 'writer');
      await nodes.remove('writer');
      const [second] = await nodes.create('reader');
      assert.notEqual((await nodes.ssh(second, `mountpoint -q ${path}`)).code, 0, 'a new host has nothing mounted');
      const read = await nodes.ssh(
        second,
        `mkdir -p ${path}; gcsfuse checkpoints ${path} >/dev/null && cat ${path}/step; fusermount -u ${path}; mountpoint -q ${path} || echo unmounted`,
      );
      assert.equal(read.stdout, '42\nunmounted\n', read.stderr);
      assert.equal(readFileSync(join(stateDir, 'buckets', 'checkpoints', 'step'), 'utf8'), '42\n');
      await nodes.remove('reader');
    });

    nodes.test(
      'a host never changes the machine: packages, services, users, files outside its home',
      ['guest'],
      async (address) => {
        const answer = await nodes.ssh(
          address,
          'sudo -E -n apt-get update && sudo DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y gcsfuse && sudo usermod -aG docker $USER && ' +
            'sudo systemctl restart docker && sudo -u nobody -H FOO=bar sh -c \'echo "FOO is $FOO"\' && echo echo in group | newgrp docker; ' +
            'command -v gcsfuse >/dev/null && echo there; systemctl is-active docker; docker ps; echo $?',
        );
        // Docker is the worker's own daemon if possible, and never the machine's.
        const docker = hasDocker() && nodes.isolation === 'root';
        for (const line of ['FOO is bar', 'in group', 'there', ...(docker ? ['active', '0'] : ['inactive', '127'])]) {
          assert.ok(answer.stdout.split('\n').includes(line), `${line} is missing in ${answer.stdout}${answer.stderr}`);
        }
        const outside = '/opt/emulator-test-of-hosts';
        const wrote = await nodes.ssh(address, `sudo mkdir -p ${outside} && echo made`);
        assert.equal(existsSync(outside), false);
        if (nodes.hasNamespaces) assert.equal(wrote.stdout, 'made\n', wrote.stderr);
        else assert.match(wrote.stderr, /^sudo: namespaces cannot be created on this machine.*\n$/);
        if (!nodes.hasNamespaces) {
          const refused = await nodes.ssh(address, 'gcsfuse b /mnt');
          assert.equal(refused.code, 1);
          assert.match(refused.stderr, /^gcsfuse: mount namespaces cannot be created on this machine, so .*\n$/);
        }
      },
    );

    nodes.test(
      'a killed host does not answer, its node stays READY, and it returns with its disk and a new boot id',
      ['victim', 'v4-16'],
      async (address) => {
        await nodes.ssh(address, 'echo kept >file; setsid sleep 31338 >/dev/null 2>&1 </dev/null &');
        const bootId = (await nodes.ssh(address, 'cat /proc/sys/kernel/random/boot_id')).stdout;
        await runAdminVerb(nodes.emulator.url, 'kill-host', 'victim/0');
        assert.deepEqual(running('sleep 31338'), []);
        assert.equal(await nodes.acceptsSsh(address), false);
        const node: Record<string, unknown> = await fetchJson(`${nodes.url}/victim`);
        assert.equal(node['state'], 'READY');
        await runAdminVerb(nodes.emulator.url, 'start-host', 'victim/0');
        await eventually('it answers', () => nodes.acceptsSsh(address));
        const back = await nodes.ssh(address, 'cat file /proc/sys/kernel/random/boot_id');
        assert.match(back.stdout, /^kept\n/);
        if (nodes.hasNamespaces) assert.notEqual(back.stdout, `kept\n${bootId}`);
      },
    );

    nodes.test('a hung host keeps its connections silent, and continues afterwards', ['hung'], async (address) => {
      const child = spawn('ssh', user.argv(address, nodes.emulator.sshPort, 'while sleep 0.05; do echo tick; done'), {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let ticks = 0;
      child.stdout.on('data', (part: Buffer) => (ticks += part.length / 5));
      await eventually('it ticks', () => ticks > 3);
      await runAdminVerb(nodes.emulator.url, 'hang-host', 'hung');
      let frozen = -1;
      // Earlier output may still be in transit.
      await eventually('it ticks no more', async () => {
        frozen = ticks;
        await sleep(500);
        return ticks === frozen;
      });
      assert.equal(child.exitCode, null);
      await runAdminVerb(nodes.emulator.url, 'start-host', 'hung');
      await eventually('it ticks again', () => ticks > frozen + 3);
      child.kill();
    });
  });
}

/** The pids with exactly that command line. */
function running(command: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim() === command;
    } catch {
      return false;
    }
  });
}

const mayBecomeOthers = hasProgram('setpriv') && hasProgram('curl') && userInfo().uid === 0;

test(
  'another user of this machine is refused',
  { skip: mayBecomeOthers ? false : 'NOT TESTED: another user of this machine needs root, setpriv and curl' },
  async (t) => {
    const stateDir = mkdtempSync(join(tmpdir(), 'emulator-other-user-'));
    const emulator = await startEmulator({ stateDir, env: {}, isolation: 'none' });
    t.after(async () => {
      await emulator.close();
      rmSync(stateDir, { recursive: true, force: true });
    });
    const ask = async (user: string): Promise<string> => {
      const args = [`--reuid=${user}`, '--clear-groups', '--', 'curl', '-s', `${emulator.url}/emulator/info`];
      return (await promisify(execFile)('setpriv', args)).stdout;
    };
    assert.match(await ask('0'), /"sshPort"/);
    assert.match(await ask('65534'), /serves only the user who started it/);
  },
);
