// SFTP into the emulator's hosts by OpenSSH's clients, on hosts without sftp-server and scp.

import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { findSshd } from '../../src/emulator/hosts/sshd.ts';
import { run, type ProgramResult } from '../support/program.ts';
import { hasProgram, Nodes } from './emulator-host.ts';

const hasClients = ['ssh', 'scp', 'sftp'].every(hasProgram);

for (const isolation of ['auto', 'none'] as const) {
  describe(
    `SFTP, isolation ${isolation}`,
    { skip: hasClients ? false : 'NOT TESTED: there are no OpenSSH clients here' },
    () => {
      // The PATH leaves out scp, because the machine may have OpenSSH's.
      const programs = mkdtempSync(join(tmpdir(), 'emulator-programs-'));
      for (const folder of ['/bin', '/usr/bin']) {
        for (const name of readdirSync(folder)) {
          // A dangling link counts as an existing name.
          if (name !== 'scp' && !lstatSync(join(programs, name), { throwIfNoEntry: false })) {
            symlinkSync(join(folder, name), join(programs, name));
          }
        }
      }
      const nodes = new Nodes('sftp', { speed: 400, seed: 5, isolation, env: { PATH: programs } });
      const { user } = nodes;
      let address = '';

      before(async () => {
        [address = ''] = await nodes.create('files');
        // Only root may remove root's files; the host's own view changes, not the machine's.
        if (nodes.isolation !== 'root') return;
        const hidden = await nodes.ssh(
          address,
          'rm -f /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server; ls /usr/lib/openssh/sftp-server',
        );
        assert.notEqual(hidden.code, 0);
      });

      after(() => rmSync(programs, { recursive: true }));

      const flags = (): string[] => ['-F', '/dev/null', ...user.options, '-P', String(nodes.emulator.sshPort)];
      const at = (path: string): string => `${user.name}@${address}:${path}`;
      const scp = (...args: string[]): Promise<ProgramResult> => run(['scp', ...flags(), ...args]);
      const sftp = (...lines: string[]): Promise<ProgramResult> =>
        run(['sftp', ...flags(), '-b', '-', `${user.name}@${address}`], { input: `${lines.join('\n')}\n` });

      test('scp copies files and folders in both directions, with their modes and times', async () => {
        const tree = join(user.folder, 'tree');
        mkdirSync(join(tree, 'deep', 'er'), { recursive: true });
        const bytes = Buffer.from(Array.from({ length: 3_000_001 }, (_, index) => (index * 7919) % 256));
        writeFileSync(join(tree, 'large'), bytes);
        writeFileSync(join(tree, 'deep', 'er', 'program'), '#!/bin/sh\necho ran\n');
        chmodSync(join(tree, 'deep', 'er', 'program'), 0o750);
        writeFileSync(join(tree, 'empty'), '');
        for (let index = 0; index < 450; index += 1)
          writeFileSync(join(tree, 'deep', `file ${String(index)}`), String(index));
        assertDone(await scp('-r', '-p', tree, at('copy')));
        assert.equal(
          (await nodes.ssh(address, 'cd copy && deep/er/program && ls deep | wc -l')).stdout.trim(),
          'ran\n451',
        );
        assertDone(await scp('-r', '-p', at('copy'), join(user.folder, 'back')));
        const back = join(user.folder, 'back');
        assert.ok(readFileSync(join(back, 'large')).equals(bytes));
        assert.equal(statSync(join(back, 'empty')).size, 0);
        assert.equal(statSync(join(back, 'deep', 'er', 'program')).mode & 0o777, 0o750);
        assert.equal(
          Math.floor(statSync(join(back, 'large')).mtimeMs / 1000),
          Math.floor(statSync(join(tree, 'large')).mtimeMs / 1000),
        );
        assert.equal(readdirSync(join(back, 'deep')).length, 451);
      });

      test('scp reports a missing or existing path and exits with an error', async () => {
        const missing = await scp(at('not-there'), join(user.folder, 'x'));
        assert.notEqual(missing.code, 0);
        assert.match(missing.stderr, /No such file/i);
        const into = await scp(join(user.folder, 'key.pub'), at('no/such/folder/key'));
        assert.notEqual(into.code, 0);
        assert.doesNotMatch(into.stderr, /\/proc\/\d+\/root/, 'a message shows no path outside the host');
      });

      test('sftp lists, renames, links, removes and changes modes', async () => {
        writeFileSync(join(user.folder, 'small'), 'small\n');
        const done = await sftp(
          `lcd ${user.folder}`,
          'mkdir box',
          'put small box/one',
          'chmod 640 box/one',
          'rename box/one box/two',
          'ln -s two box/link',
          'ls -l box',
          'get box/link fetched',
          'cd box',
          'pwd',
        );
        assertDone(done);
        assert.match(done.stdout, /^-rw-r----- .* two$/m);
        assert.match(done.stdout, /^l.* link/m);
        assert.match(done.stdout, /Remote working directory: \/.*\/box$/m);
        assert.equal(readFileSync(join(user.folder, 'fetched'), 'utf8'), 'small\n');
        assert.equal((await nodes.ssh(address, 'readlink box/link; stat -c %a box/two')).stdout, 'two\n640\n');
        const taken = await sftp('rename box/two box/link');
        assert.notEqual(taken.code, 0, 'a rename does not replace a file');
        assertDone(await sftp('rm box/link', 'rm box/two', 'rmdir box'));
        assert.notEqual((await nodes.ssh(address, 'test -e box')).code, 0);
      });

      test('a path has the same meaning as in a command on the host', async () => {
        const made = await nodes.ssh(
          address,
          `echo inside >$HOME/real; ln -s "$HOME/real" absolute; ln -s absolute second; ln -s loop loop; cat /proc/sys/kernel/random/boot_id; ${
            nodes.hasNamespaces
              ? 'echo own >/tmp/only-here; ln -s /tmp/only-here far'
              : 'cp real only-here; ln -s only-here far'
          }`,
        );
        assert.equal(made.code, 0, made.stderr);
        assertDone(await sftp(`lcd ${user.folder}`, 'get second second', 'get far far', 'put key.pub second'));
        assert.equal(readFileSync(join(user.folder, 'second'), 'utf8'), 'inside\n');
        assert.equal(readFileSync(join(user.folder, 'far'), 'utf8'), nodes.hasNamespaces ? 'own\n' : 'inside\n');
        assert.match(
          (await nodes.ssh(address, 'cat real; test -L second && echo still')).stdout,
          /^ssh-ed25519 .*\nstill\n$/,
        );
        assert.notEqual((await sftp('get loop')).code, 0);
        if (!nodes.hasNamespaces) return;
        assert.equal(existsSync('/tmp/only-here'), false, 'the machine has no such file');
        const up = '../'.repeat(20);
        assertDone(
          await sftp(
            `lcd ${user.folder}`,
            `get ${up}proc/sys/kernel/random/boot_id boot_id`,
            `get ${up}etc/hosts hosts`,
          ),
        );
        assert.equal(readFileSync(join(user.folder, 'boot_id'), 'utf8').trim(), made.stdout.trim());
        assert.notEqual(readFileSync(join(user.folder, 'hosts'), 'utf8'), readFileSync('/etc/hosts', 'utf8'));
        // A write to /etc stays inside the host.
        assertDone(await sftp(`lcd ${user.folder}`, 'put key.pub /etc/emulator-sftp-test'));
        assert.equal(existsSync('/etc/emulator-sftp-test'), false);
      });

      test('a FIFO without another end does not block the emulator', async () => {
        await nodes.ssh(address, 'mkfifo pipe');
        const fetches = Array.from({ length: 6 }, (_, index) =>
          sftp(`get pipe ${join(user.folder, `p${String(index)}`)}`),
        );
        await Promise.all(fetches);
        assertDone(await sftp('ls'));
      });

      test('scp -O, which needs a program on the host, prints an explanation', async () => {
        const refused = await scp('-O', join(user.folder, 'key.pub'), at('x'));
        assert.notEqual(refused.code, 0);
        assert.match(refused.stderr, /scp -O needs the program scp, and this host has none. Leave out -O/);
      });
    },
  );
}

const hasSshd = findSshd(existsSync) !== undefined && userInfo().uid === 0;
const lacks = hasClients && hasSshd ? false : 'NOT TESTED: needs sshd, OpenSSH clients and root';

describe("OpenSSH's server inside a host", { skip: lacks }, () => {
  const nodes = new Nodes('sftp', { speed: 400, seed: 6, hosts: 'sshd' });
  const { user } = nodes;

  test('serves SFTP without sftp-server', async (t) => {
    if (nodes.isolation !== 'root') return t.skip('NOT TESTED: no namespaces');
    const [address = ''] = await nodes.create('inside');
    await nodes.ssh(address, 'rm -f /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server');
    const flags = ['-F', '/dev/null', ...user.options, '-P', String(nodes.emulator.sshPort)];
    const back = join(user.folder, 'back');
    assertDone(await run(['scp', ...flags, join(user.folder, 'key.pub'), `${user.name}@${address}:copy`]));
    assertDone(await run(['scp', ...flags, `${user.name}@${address}:copy`, back]));
    assert.deepEqual(readFileSync(back), readFileSync(join(user.folder, 'key.pub')));
  });
});

function assertDone(result: ProgramResult): void {
  assert.equal(result.code, 0, result.stderr + result.stdout);
}
