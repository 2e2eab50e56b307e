// The properties of a real TPU VM on a worker of the TPU emulator, seen from inside: OpenSSH, the metadata server,
// startup and shutdown scripts, chips, other workers, and faults.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import type { Emulator } from '../../src/emulator/contract.ts';
import { findSshd } from '../../src/emulator/hosts/sshd.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { assertNothingLeft, eventually, fetchJson, hasProgram, Nodes, processesOf } from './emulator-host.ts';

// A node is ready at once, and Google's notice of thirty seconds takes a second and a half.
const speed = 20;
const flags = ['-H', 'Metadata-Flavor: Google', '-s', '--noproxy', '*'];
const curl = `curl ${flags.map((flag) => `'${flag}'`).join(' ')}`;

for (const [hosts, isolation] of [
  ['process', 'auto'],
  ['process', 'none'],
  ['sshd', 'auto'],
  ['sshd', 'none'],
] as const) {
  const lacks = ['ssh', 'curl', 'flock'].find((name) => !hasProgram(name));
  const noSshd = hosts === 'sshd' && findSshd(existsSync) === undefined;
  const skip = noSshd
    ? 'NOT TESTED: there is no sshd here'
    : lacks === undefined
      ? false
      : `NOT TESTED: there is no ${lacks} here`;

  describe(`a worker, hosts ${hosts}, isolation ${isolation}`, { skip }, () => {
    const nodes = new Nodes('worker', { speed: 2_000, seed: 5, isolation, hosts });
    const { user } = nodes;
    before(() => {
      // Outside its host, sshd admits only its own user.
      if (hosts === 'sshd' && nodes.isolation !== 'root') user.name = userInfo().username;
    });

    nodes.test(
      'each worker has its own name, home, number and boot id; exit codes, signals, input and a login shell pass through',
      ['pair', 'v4-16'],
      async (first, second) => {
        const answer = await nodes.ssh(
          first,
          'cat; echo "$HOME $USER $TPU_WORKER_ID"; pwd; hostname; echo wrong >&2; exit 7',
          'in\n',
        );
        const [input, who, folder, name] = answer.stdout.split('\n');
        assert.deepEqual(
          { code: answer.code, input, stderr: answer.stderr },
          { code: 7, input: 'in', stderr: 'wrong\n' },
        );
        assert.equal(who, `${String(folder)} ${user.name} 0`);
        assert.match(name ?? '', /^t1v-n-[0-9a-f]{8}-w-0$/);
        const about = 'hostname; echo "$TPU_WORKER_ID"; cat /proc/sys/kernel/random/boot_id; echo "$HOME"; whoami';
        const [own, other] = [await nodes.ssh(first, about), await nodes.ssh(second, about)].map(
          ({ stdout }) => stdout,
        );
        const [otherName, number, bootId, home] = other?.split('\n') ?? [];
        assert.deepEqual([otherName, number], [name?.replace(/0$/, '1'), '1']);
        assert.notEqual(home, folder);
        if (nodes.hasNamespaces) {
          assert.ok(bootId !== undefined && !own?.includes(bootId), 'its own boot id');
          assert.notEqual(bootId, readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
          assert.match(own ?? '', new RegExp(`\\n${user.name}\\n$`));
        }
        assert.equal((await nodes.ssh(first, 'kill -TERM $$')).code, 255, 'ssh exits with 255 after a signal');
        const terminal = await nodes.ssh(first, 'test -t 0 && stty size && exit 3', '', ['-tt']);
        assert.equal(terminal.code, 3, terminal.stdout);
        assert.match(terminal.stdout, /^\d+ \d+\r?\n/);
        // As `jobman ssh` does: a login shell on a terminal.
        const shell = await user.shell(
          first,
          nodes.emulator.sshPort,
          'command -v sudo; sudo -n true && echo allowed; exit 3\n',
        );
        assert.equal(shell.code, 3, shell.stdout);
        assert.match(shell.stdout, /\/bin\/sudo\r?\n/);
        assert.match(shell.stdout, /\nallowed\r?\n/);
        // Workers reach each other by address, and by name if there are namespaces.
        const probe = `bash -c 'read -r line </dev/tcp/${String(second)}/${String(nodes.emulator.sshPort)}; echo "$line"'`;
        assert.match((await nodes.ssh(first, probe)).stdout, /^SSH-2\.0-OpenSSH/);
        if (nodes.hasNamespaces) {
          await nodes.ssh(
            first,
            'mkdir -p .ssh && cat >.ssh/id_ed25519 && chmod 600 .ssh/id_ed25519',
            readFileSync(join(user.folder, 'key'), 'utf8'),
          );
          const hop = await nodes.ssh(
            first,
            `ssh -o StrictHostKeyChecking=no -o BatchMode=yes ${String(name).replace(/0$/, '1')} hostname`,
          );
          assert.equal(hop.stdout, `${String(name).replace(/0$/, '1')}\n`, hop.stderr);
        }
      },
    );

    nodes.test(
      'the metadata server identifies the worker, requires its header, and reports a preemption to a waiting request',
      ['notified', 'v4-16', { owner: 'ada' }],
      async (first) => {
        const at = 'http://$GCE_METADATA_HOST/computeMetadata/v1';
        const ask = async (path: string): Promise<string> => (await nodes.ssh(first, `${curl} "${at}/${path}"`)).stdout;
        assert.equal(await ask('instance/attributes/agent-worker-number'), '0');
        assert.equal(await ask('instance/attributes/owner'), 'ada');
        assert.match(await ask('instance/hostname'), /^t1v-n-[0-9a-f]{8}-w-0\..*\.c\.p\.internal$/);
        assert.match(await ask('instance/attributes/tpu-env'), /^ACCELERATOR_TYPE: 'v4-16'$/m);
        assert.match(
          await ask('instance/attributes/worker-network-endpoints'),
          new RegExp(`^unknown:unknown:${String(first)},`),
        );
        assert.match(await ask('instance/'), /^attributes\/$/m);
        assert.equal(
          (JSON.parse(await ask('instance/?recursive=true')) as { maintenanceEvent: string }).maintenanceEvent,
          'NONE',
        );
        assert.equal(
          (await nodes.ssh(first, `curl -s -o /dev/null -w '%{http_code}' "${at}/instance/id"`)).stdout,
          '403',
        );
        if (nodes.isolation === 'root') {
          const named = await nodes.ssh(
            first,
            `${curl} http://metadata.google.internal/computeMetadata/v1/instance/preempted`,
          );
          assert.equal(named.stdout, 'FALSE', named.stderr);
        }
        // Ask from outside, because a program inside gets SIGTERM at the same time.
        const host = (await nodes.ssh(first, 'echo "$GCE_METADATA_HOST"')).stdout.trim();
        const preempted = `http://${host}/computeMetadata/v1/instance/preempted`;
        const headers = { 'Metadata-Flavor': 'Google' };
        const etag = (await fetch(preempted, { headers })).headers.get('etag') ?? '';
        const waits = fetch(`${preempted}?wait_for_change=true&last_etag=${etag}`, { headers });
        const early = await fetch(`${preempted}?wait_for_change=true&timeout_sec=0.1`, { headers });
        assert.equal(await early.text(), 'FALSE', 'a wait that times out returns the current value');
        await runAdminVerb(nodes.emulator.url, 'preempt', 'notified');
        assert.equal(await (await waits).text(), 'TRUE');
      },
    );

    test('the startup script runs as root at each boot, and its output is kept', async () => {
      const script =
        '#!/bin/sh\nid -u\necho "worker $TPU_WORKER_ID"\necho again >>"$EMULATOR_HOST/home/count"\nexit 4\n';
      const [first] = await nodes.create('script', 'v4-8', { 'startup-script': script });
      const log = nodes.hasNamespaces ? '/var/log/startup-script.log' : '$EMULATOR_HOST/startup-script.log';
      const isOver = (times: number) => async () =>
        (await nodes.ssh(first, `cat "${log}"`)).stdout.split('startup-script exit status 4').length === times + 1;
      await eventually('it has run', isOver(1));
      const output = (await nodes.ssh(first, `cat "${log}"; cat "$EMULATOR_HOST/home/count"`)).stdout;
      assert.match(output, /boot 1\n\d+\nworker 0\nstartup-script exit status 4\nagain\n$/);
      if (nodes.hasNamespaces) assert.match(output, /\n0\n/);
      await runAdminVerb(nodes.emulator.url, 'kill-host', 'script');
      await runAdminVerb(nodes.emulator.url, 'start-host', 'script');
      await eventually('it has run again', isOver(2));
      await nodes.remove('script');
    });

    test('a worker reboots by its own command: its connection is cut, its disk stays, and its node stays READY', async () => {
      const script = '#!/bin/sh\necho again >>"$EMULATOR_HOST/home/count"\n';
      const [first, second] = await nodes.create('again', 'v4-16', { 'startup-script': script });
      const boot = 'cat "${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"';
      const about = `cat kept; ${boot}; mountpoint -q bucket && echo mounted; ls -A bucket; pgrep -f "^sleep 3136[0-9]"; [ ! -e /run/own ] || echo left`;
      const began = await nodes.ssh(
        first,
        'echo kept >kept; mkdir -p bucket; gcsfuse again bucket >/dev/null; : >bucket/saved; setsid sleep 31360 >/dev/null 2>&1 </dev/null &' +
          `${nodes.hasNamespaces ? ' : >/run/own;' : ''} until pgrep -f "^sleep 31360" >/dev/null; do sleep 0.1; done; ${boot}`,
      );
      const before = began.stdout;
      assert.match(before, /^[0-9a-f-]{36}\n$/, began.stderr);
      const other = (await nodes.ssh(second, boot)).stdout;
      const inside = spawn('ssh', user.argv(first ?? '', nodes.emulator.sshPort, 'echo in; exec sleep 31361'), {
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      await new Promise((resolve) => inside.stdout.once('data', resolve));
      const isCut = new Promise((resolve) => inside.on('close', resolve));
      const refused = await nodes.ssh(first, 'sudo -u nobody systemctl reboot');
      assert.deepEqual([refused.code, refused.stdout], [1, ''], refused.stderr);
      const asked = await nodes.ssh(first, 'sudo -n systemctl reboot');
      assert.deepEqual([asked.code, asked.stderr], [0, '']);
      assert.equal(await isCut, 255);
      await eventually('it is back', async () => {
        const { stdout } = await nodes.ssh(first, boot);
        return stdout !== '' && stdout !== before;
      });
      const after = (await nodes.ssh(first, about)).stdout.split('\n');
      assert.deepEqual([after[0], after.length], ['kept', 3], after.join('\n'));
      assert.notEqual(`${String(after[1])}\n`, before);
      const bucket = await nodes.ssh(first, 'gcsfuse again bucket >/dev/null && ls -A bucket');
      assert.equal(bucket.stdout, 'saved\n', bucket.stderr);
      assert.equal((await nodes.ssh(second, boot)).stdout, other, 'the other worker is not affected');
      const count = async () => (await nodes.ssh(first, 'cat "$EMULATOR_HOST/home/count"')).stdout;
      await eventually('the startup script has run again', async () => (await count()) === 'again\nagain\n');
      const node: Record<string, unknown> = await fetchJson(`${nodes.url}/again`);
      assert.equal(node['state'], 'READY');
      await nodes.remove('again');
    });

    nodes.test(
      'chip files are where programs search for them, and one program holds them',
      ['chips', 'v4-8'],
      async (first) => {
        const dev = nodes.hasNamespaces ? '/dev' : '$EMULATOR_HOST/dev';
        assert.equal((await nodes.ssh(first, `ls ${dev} | grep -c '^accel[0-3]$'`)).stdout, '4\n');
        const began = await nodes.ssh(
          first,
          'setsid with-tpu sleep 31339 >/dev/null 2>&1 </dev/null & until pgrep -nf "^sleep 31339"; do sleep 0.1; done',
        );
        const second = await nodes.ssh(first, 'with-tpu true');
        assert.equal(second.code, 1);
        assert.match(second.stderr, /^The TPU is already in use by process with pid \d+\./);
        if (nodes.hasNamespaces)
          assert.ok(second.stderr.includes(`pid ${began.stdout.trim()}.`), `${began.stdout}${second.stderr}`);
        if (hasProgram('fuser')) assert.match((await nodes.ssh(first, `fuser ${dev}/accel0 2>/dev/null`)).stdout, /\d/);
        await nodes.ssh(first, 'pkill -f "^sleep 31339"; while pgrep -f "^sleep 31339" >/dev/null; do sleep 0.1; done');
        assert.deepEqual(await nodes.ssh(first, 'with-tpu echo free'), { code: 0, stdout: 'free\n', stderr: '' });
        assert.equal(existsSync('/dev/accel0'), false, 'the machine has no such file');
      },
    );

    nodes.test(
      'ssh-refuse blocks new connections and keeps open ones; fill-disk makes writes fail',
      ['trouble', 'v4-8'],
      async (first) => {
        const inside = spawn(
          'ssh',
          user.argv(first, nodes.emulator.sshPort, 'echo in; read -r line; echo "still $line"'),
          {
            stdio: ['pipe', 'pipe', 'inherit'],
          },
        );
        const output = new Promise<string>((resolve) => {
          let text = '';
          inside.stdout.setEncoding('utf8').on('data', (part: string) => (text += part));
          inside.on('close', () => resolve(text));
        });
        await new Promise((resolve) => inside.stdout.once('data', resolve));
        await runAdminVerb(nodes.emulator.url, 'ssh-refuse', 'trouble');
        assert.equal(await nodes.acceptsSsh(first), false);
        inside.stdin.end('here\n');
        assert.equal(await output, 'in\nstill here\n');
        await runAdminVerb(nodes.emulator.url, 'start-host', 'trouble');
        assert.equal(
          (await nodes.ssh(first, 'mkdir -p bucket; gcsfuse b bucket >/dev/null; echo kept >file; cat file')).stdout,
          'kept\n',
        );
        if (nodes.hasNamespaces) {
          await runAdminVerb(nodes.emulator.url, 'fill-disk', 'trouble');
          const full = await nodes.ssh(
            first,
            'cat file; echo more >>file; echo new >other; echo saved >bucket/saved; cat bucket/saved',
          );
          assert.equal(full.stdout, 'kept\nsaved\n', full.stderr);
          assert.match(full.stderr, /No space left on device/);
          await runAdminVerb(nodes.emulator.url, 'start-host', 'trouble');
          assert.equal(
            (await nodes.ssh(first, 'echo more >>file; cat file bucket/saved')).stdout,
            'kept\nmore\nsaved\n',
          );
        }
      },
    );

    test('a preempted program has time to end; a power cut leaves none', async () => {
      const slow = await startSlow();
      try {
        // A shell reports its terminated sleep, and a write to a lost connection would end it.
        const program =
          'exec 2>/dev/null; trap "echo bye >>$HOME/../../ended; exit" TERM; echo ready; while :; do sleep 0.05; done';
        const begin = async (): Promise<void> => {
          await slow.answers();
          const child = spawn('ssh', user.argv(slow.address, slow.emulator.sshPort, program), {
            stdio: ['ignore', 'pipe', 'ignore'],
          });
          await new Promise((resolve, reject) => {
            child.stdout.once('data', resolve);
            child.once('close', (code) =>
              reject(new Error(`the program did not start; ssh ended with ${String(code)}`)),
            );
          });
        };
        const ended = join(slow.stateDir, 'hosts', slow.folder, '0', 'ended');
        await begin();
        await runAdminVerb(slow.emulator.url, 'kill-host', 'soft');
        assert.equal(existsSync(ended), false);
        await runAdminVerb(slow.emulator.url, 'start-host', 'soft');
        await begin();
        await runAdminVerb(slow.emulator.url, 'preempt', 'soft');
        assert.equal(readFileSync(ended, 'utf8'), 'bye\n');
        assert.deepEqual(processesOf(slow.stateDir), []);
      } finally {
        await slow.emulator.close();
        assertNothingLeft(slow.stateDir);
        rmSync(slow.stateDir, { recursive: true, force: true });
      }
    });

    /** An emulator with a notice that is long enough for a program to end. */
    async function startSlow(): Promise<{
      readonly emulator: Emulator;
      readonly stateDir: string;
      readonly address: string;
      readonly folder: string;
      /** Resolves when the worker admits its user. */
      answers(): Promise<void>;
    }> {
      const folder = mkdtempSync(join(tmpdir(), 'emulator-soft-'));
      const slow = await startEmulator({
        stateDir: folder,
        speed,
        isolation,
        hosts,
        env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      });
      await fetchJson(`${slow.url}/v2/projects/p/locations/us-central2-b/nodes?nodeId=soft`, 'POST', {
        acceleratorType: 'v4-8',
        runtimeVersion: 'tpu-ubuntu2204-base',
        schedulingConfig: { spot: true },
        metadata: { 'ssh-keys': user.metadataLine },
      });
      let node: Record<string, unknown> = {};
      await eventually('soft is READY', async () => {
        node = await fetchJson(`${slow.url}/v2/projects/p/locations/us-central2-b/nodes/soft`);
        return node['state'] === 'READY';
      });
      const [endpoint] = node['networkEndpoints'] as { ipAddress: string }[];
      const address = endpoint?.ipAddress ?? '';
      const answers = (): Promise<void> =>
        eventually('it answers', async () => (await user.run(address, slow.sshPort, 'true')).code === 0);
      return { emulator: slow, stateDir: folder, address, folder: `soft-${String(node['id']).slice(-6)}`, answers };
    }
  });
}
