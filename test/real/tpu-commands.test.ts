// The TPU commands of `tpu` on real hosts of the TPU emulator.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { probeIsolation } from '../../src/emulator/hosts/machine.ts';
import { eventually } from '../support/eventually.ts';
import type { JobmanResult } from '../support/jobman.ts';
import { requireReal } from '../support/real.ts';
import { openJobWorld } from '../support/jobs.ts';

const zone = 'us-central2-b';
const key = '0123456789abcdef0123456789abcdef01234567';
/**
 * A network share without a server: mount(8) calls a program for NFS, and this one mounts memory under the same name.
 */
const mountNfs = `#!/bin/sh
[ ! -e /tmp/no-server ] || { echo "mount.nfs: Connection timed out" >&2; exit 32; }
mount -t tmpfs "$1" "$2" && printf '#!/bin/sh\\ncat /tmp/python-says\\n' >"$2/python" && chmod 755 "$2/python"
`;

suite('TPUs by the tpu command', () => {
  const world = openJobWorld({ after });
  const tpu = (...args: readonly string[]): Promise<JobmanResult> =>
    world.jobman(['tpu', ...args], { withinMs: 120_000 });
  /** A command that must end with that code. */
  const ends = async (code: number, ...args: readonly string[]): Promise<JobmanResult> => {
    const ended = await tpu(...args);
    assert.equal(ended.code, code, `tpu ${args.join(' ')}\n${ended.stdout}${ended.stderr}`);
    return ended;
  };
  const ok = async (...args: readonly string[]): Promise<string> => (await ends(0, ...args)).stdout;
  const hasNamespaces = probeIsolation(join(world.folder, 'probe')) !== 'none';

  const hostTest = (title: string, run: () => Promise<void>): void => {
    void test(title, async (t) => {
      if (requireReal(t, 'namespaces', hasNamespaces)) await run();
    });
  };
  const settings = (lab: object): void => {
    mkdirSync(world.home, { recursive: true });
    writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ tpu: { project: 'emulator' }, lab }));
  };

  async function addresses(name: string, within = zone): Promise<readonly string[]> {
    const reply = await fetch(`${world.emulatorEndpoint().url}/v2/projects/emulator/locations/${within}/nodes/${name}`);
    const node = (await reply.json()) as { networkEndpoints?: { ipAddress: string }[] };
    return (node.networkEndpoints ?? []).map(({ ipAddress }) => ipAddress);
  }
  function sshTo(address: string | undefined): string[] {
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', 'BatchMode=yes'];
    const argv = [
      '-F',
      '/dev/null',
      '-i',
      join(world.home, 'ssh/id_ed25519'),
      '-p',
      String(world.emulatorEndpoint().sshPort),
    ];
    return [...argv, ...options.flatMap((one) => ['-o', one]), `${userInfo().username}@${address}`, 'sh -s'];
  }
  /** Runs a script on one worker, with the user's key. */
  function onWorker(address: string | undefined, script: string): string {
    const { status, stdout, stderr } = spawnSync('ssh', sshTo(address), { input: script, encoding: 'utf8' });
    assert.equal(status, 0, `${script}\n${stdout}${stderr}`);
    return stdout;
  }
  async function onAll(name: string, script: string): Promise<readonly string[]> {
    return (await addresses(name)).map((address) => onWorker(address, script));
  }
  const until = (nap: string) => `until pgrep -f '^sleep ${nap}' >/dev/null; do sleep 0.1; done`;
  const installNfs = `cat >/sbin/mount.nfs <<'END'\n${mountNfs}END\nchmod 755 /sbin/mount.nfs\necho '[TpuDevice(id=0)]' >/tmp/python-says\n`;
  const name = 'lab-tpuvm-v4-16-1';

  settings({
    zones: [zone],
    shares: [{ source: '10.0.0.2:/home', target: '/home-nfs' }],
    python: '/home-nfs/python',
    wandbKeyFile: 'wandb-key',
  });

  hostTest('a missing TPU is reported as absent, and apply creates it', async () => {
    writeFileSync(join(world.home, 'wandb-key'), `${key}\n`, { mode: 0o600 });
    await ok('-ta', 'v4-16-1', name);
    const absent = await tpu('check-status', 'v4-16-1');
    assert.deepEqual([absent.code, absent.stdout], [3, 'absent\n']);
    assert.equal(
      absent.stderr.match(/^Started the TPU emulator at http:.* Its TPUs are simulated and free\.$/gm)?.length,
      1,
      absent.stderr,
    );
    // The first command that needs the TPU creates it. Its disks cannot be mounted without a server.
    const made = await ends(1, 'apply', 'v4-16-1');
    assert.match(
      made.stdout,
      /is ready, but its workers are not\. To prepare them again: tpu mount-disk lab-tpuvm-v4-16-1/,
    );
    assert.match(made.stderr, /^Job 000001 \(apply-lab-tpuvm-v4-16-1\) runs in the background/m);
    assert.match(made.stderr, /Cannot mount 10\.0\.0\.2:\/home at \/home-nfs/);
    assert.doesNotMatch(made.stderr, /Started the TPU emulator/);
    assert.match((await onAll(name, 'cat ~/.netrc')).join(), /password .*password/s, 'both workers are logged in');
    assert.equal(await ok('check-status', name), 'ready\n');
    // Its zone was found, and is known from then on.
    assert.match(await ok('-lta'), /v4-16-1 +lab-tpuvm-v4-16-1 +v4-16 +us-central2-b/);
  });

  hostTest('mount-disk mounts on all workers and logs them in; a second run changes nothing', async () => {
    await onAll(name, installNfs);
    assert.match(await ok('mount-disk', 'v4-16-1'), /All workers of .* are mounted and logged in/);
    const before = await onAll(name, 'cat /proc/self/mounts | grep nfs; cat ~/.netrc');
    for (const one of before) {
      assert.match(one, /^10\.0\.0\.2:\/home \/home-nfs tmpfs/);
      assert.ok(one.includes(`password ${key}`), one);
    }
    await ok('mount-disk', 'v4-16-1');
    assert.deepEqual(await onAll(name, 'cat /proc/self/mounts | grep nfs; cat ~/.netrc'), before);
    const other = await world.jobman(['tpu', 'set-wandb', name], { env: { WANDB_API_KEY: 'another_key' } });
    assert.equal(other.code, 0, other.stderr);
    assert.match((await onAll(name, 'cat ~/.netrc')).join(), /password another_key/);
    assert.equal((other.stdout + other.stderr).includes('another_key'), false);
    const own = await world.jobman(['tpu', 'mount-disk', name], { env: { WANDB_API_KEY: 'third_key' } });
    assert.equal(own.code, 0, own.stderr);
    assert.match((await onAll(name, 'cat ~/.netrc')).join(), /password third_key/);
  });

  hostTest('check-env distinguishes its classes', async () => {
    const assertOutput = async (text: string, expected: string, code: number) => {
      await onAll(name, `printf '%s\\n' '${text}' >/tmp/python-says`);
      const { stdout, code: ended, stderr } = await tpu('check-env', 'v4-16-1');
      assert.deepEqual([stdout, ended], [`${expected}\n`, code], stderr);
    };
    await assertOutput('[CpuDevice(id=0)]', 'unknown', 1);
    await assertOutput('RuntimeError: The TPU is already in use by process with pid 7.', 'occupied', 1);
    await assertOutput('[TpuDevice(id=0, process_index=0)]', 'success', 0);
    await onAll(name, 'umount /home-nfs');
    const { stdout, stderr } = await tpu('check-env', 'v4-16-1');
    assert.equal(stdout, 'file_error\n');
    assert.match(stderr, /tpu mount-disk lab-tpuvm-v4-16-1/);
  });

  hostTest('describe names the problem, solve repairs it and reports the result', async () => {
    await onAll(name, ': >/tmp/libtpu_lockfile');
    const described = await ok('describe', 'v4-16-1');
    assert.match(described, /State +ready, in us-central2-b, 2 workers/);
    assert.match(described, /Used by +no job or program/);
    assert.match(described, /shares missing on workers 0, 1: \/home-nfs \(not mounted\)/);
    const dry = await ends(1, 'solve', 'v4-16-1', '--dry-run');
    assert.match(dry.stdout, /^share_missing: .*\n {2}repair: mount the shares on workers 0, 1\n/m);
    assert.match(dry.stdout, /^stale_lock_file: .*\n {2}repair: remove \/tmp\/libtpu_lockfile/m);
    assert.match((await onAll(name, 'ls /tmp; cat /proc/self/mounts')).join(), /libtpu_lockfile/);
    const solved = await ends(0, 'solve', 'v4-16-1');
    // Without the share there is no Python either; the repair restores both.
    assert.match(solved.stdout, /is repaired \(share_missing, stale_lock_file\)\.\n$/);
    assert.match(await ok('describe', 'v4-16-1'), /Python +\[TpuDevice/);
    assert.match(await ok('solve', 'v4-16-1'), /has no problem/);
    await onAll(name, 'umount /home-nfs; : >/tmp/no-server');
    const left = await ends(1, 'solve', name);
    assert.match(left.stdout, /still has problems:\n +share_missing: .*; the repair did not help\n +python_missing/);
    await onAll(name, 'rm /tmp/no-server');
    await ok('solve', name);
  });

  hostTest('a worker with a full disk is still checked, and the repair is shown', async () => {
    await world.jobman(['emulator', 'fill-disk', name, '--worker', '1']);
    const full = await ends(1, 'solve', name);
    assert.match(full.stdout, /^disk_full: less than 500 MB of disk free on worker 1$/m);
    assert.match(full.stderr, /worker 1: Largest folders \(MB\):/);
    assert.match(full.stdout, /still has problems:\n +disk_full: .*; the repair did not help/);
    await world.jobman(['emulator', 'start-host', name, '--worker', '1']);
    await ok('solve', name);
  });

  hostTest('the user of the devices is named, and nothing is deleted without a yes', async () => {
    const [, second] = await addresses(name);
    onWorker(second, `setsid with-tpu sleep 31351 >/dev/null 2>&1 </dev/null & ${until('31351')}`);
    assert.match(await ok('describe', name), /process \d+ on worker 1 \(.*\) uses the device: sleep 31351/);
    const refused = await ends(4, 'reapply', name);
    assert.match(refused.stderr, /uses the device: sleep 31351\. Confirm with --yes/);
    assert.deepEqual(await addresses(name), await addresses(name));
    await ends(4, 'solve', name);
    const ended = await ends(0, 'solve', name, '--yes');
    assert.match(ended.stdout, /device_busy: process \d+ on worker 1 \(\w+\) uses the device: sleep 31351/);
    assert.match(await ok('describe', name), /Used by +no job or program/);
  });

  hostTest('solve recreates a preempted TPU; -norm creates it on-demand', async () => {
    const spot = 'lab-tpuvm-v4-8-preemptible-1';
    settings({ zones: [zone] });
    await ok('register', spot, `zone=${zone}`);
    assert.match(await ok('apply', spot), /is ready\./);
    await world.jobman(['emulator', 'preempt', spot]);
    assert.ok(await eventually(async () => (await ok('check-status', spot)) === 'preempted\n', { withinMs: 60_000 }));
    const solved = await ends(0, 'solve', spot);
    assert.match(solved.stdout, /lost: the TPU was lost \(preempted\)\n.*is repaired/s);
    // A booking of another user needs a confirmation; without a current user, every booking may be another's.
    for (const user of ['xibo', 'lyy']) await ok('add-user', user, '--yes');
    await ok('book', spot, 'lyy');
    for (const args of [
      ['reapply', spot, '--user', 'xibo'],
      ['reapply-norm', spot],
      ['restart', spot],
    ]) {
      const booked = await tpu(...args);
      assert.equal(booked.code, 4, booked.stderr);
      assert.match(booked.stderr, /In the booking sheet lab-tpuvm-v4-8-preemptible-1 is reserved for lyy\. .*--yes/);
    }
    await ok('release', spot, 'lyy');
    await ok('reapply-norm', spot);
    assert.match(await ok('-lta'), /preemptible-1 +v4-8 +us-central2-b +ondemand/);
    const before = await addresses(spot);
    const restarted = await tpu('restart', spot);
    assert.deepEqual([restarted.code, restarted.stdout], [0, `Restarted ${spot}.\n`], restarted.stderr);
    // The cloud gives a started TPU other addresses.
    assert.notDeepEqual(await addresses(spot), before);
    // A worker that refuses SSH may be in use.
    await world.jobman(['emulator', 'ssh-refuse', spot]);
    const unsure = await ends(4, 'solve', spot);
    assert.match(unsure.stderr, /The programs on worker 0 are unknown: .*--yes/);
    const again = await ends(0, 'solve', spot, '--yes');
    assert.match(again.stdout, /^ssh_fails: no SSH connection to worker 0.*\n.*is repaired \(ssh_fails\)/);
    assert.match((await tpu('mount-disk', spot)).stderr, /The settings have no share for us-central2-b/);
  });

  hostTest('a TPU that the API cannot stop restarts by a reboot of its machines', async () => {
    const small = 'lab-tpuvm-v2-8-preemptible-1';
    const zones = [zone, 'us-central1-b'] as const;
    settings({ zones });
    await ok('register', small, `zone=${zones[1]}`);
    await ok('apply', small);
    for (const [one, within, count] of [
      [small, zones[1], 1],
      [name, zone, 2],
    ] as const) {
      const each = async (script: string) => (await addresses(one, within)).map((address) => onWorker(address, script));
      await each(`echo kept >~/kept; setsid sleep 31358 >/dev/null 2>&1 </dev/null & ${until('31358')}`);
      const running = 'cat ~/kept; pgrep -cf "^sleep 31358"; true';
      assert.deepEqual(await each(running), Array<string>(count).fill('kept\n1\n'));
      const { code, stdout, stderr } = await tpu('restart', one);
      assert.deepEqual([code, stdout], [0, `Restarted ${one}.\n`], stderr);
      assert.match(stderr, /setup: reboot/);
      assert.deepEqual(await each(running), Array<string>(count).fill('kept\n0\n'));
      assert.equal(await ok('check-status', one), 'ready\n');
    }
  });

  hostTest('a job logs the workers in to W&B, and again after its TPU was recreated', async () => {
    const other = 'lab-tpuvm-v4-8-preemptible-2';
    settings({ zones: [zone], wandbKeyFile: 'wandb-key' });
    const code = join(world.folder, 'code');
    mkdirSync(code);
    writeFileSync(join(code, 'staging.sh'), 'echo "staged for $1"\nexec sleep 31357\n');
    await ok('register', other, `zone=${zone}`);
    await ok('apply', other);
    await ok('set-dir', code, '1', 'xibo');
    await onAll(other, 'rm -f ~/.netrc');
    const isLoggedIn = async () => {
      if ((await tpu('check-status', other)).stdout !== 'ready\n') return false;
      const [address] = await addresses(other);
      const found = spawnSync('ssh', sshTo(address), { input: 'cat ~/.netrc ~/.jobman/wandb-key', encoding: 'utf8' });
      // The file that contained the key is removed.
      return found.stdout.split(key).length === 2;
    };
    const env = { TMUX_TMPDIR: world.folder };
    const begun = await world.jobman(['tpu', 'run', other, 'xibo', '-q', 'rule=pre'], { env, withinMs: 120_000 });
    world.atEnd(() => void spawnSync('tmux', ['kill-server'], { env: { ...world.env, ...env } }));
    assert.equal(begun.code, 0, begun.stdout + begun.stderr);
    const [, id = ''] = /job (\d{6})/.exec(begun.stdout) ?? [];
    const phase = async () => (await world.show(id)).phase;
    const runs = async () => (await phase()) === 'running';
    assert.ok(await eventually(runs, { withinMs: 60_000 }), await phase());
    assert.equal(await isLoggedIn(), true);
    const first = await addresses(other);
    await world.jobman(['emulator', 'preempt', other]);
    const isReplaced = async () => {
      const now = await addresses(other);
      return now.length > 0 && now[0] !== first[0] && (await isLoggedIn()) && (await runs());
    };
    assert.ok(await eventually(isReplaced, { withinMs: 120_000, everyMs: 1_000 }), await phase());
    await ok('kill', '2', 'xibo', '--yes');
    assert.ok(await eventually(async () => !(await runs()), { withinMs: 90_000 }), await phase());
  });

  const node = async (of: string) => {
    const reply = await fetch(`${world.emulatorEndpoint().url}/v2/projects/emulator/locations/${zone}/nodes/${of}`);
    return (await reply.json()) as { readonly state?: string; readonly createTime?: string };
  };
  const nine = 'lab-tpuvm-v4-8-9';
  /** The ids of the operations with that name, newest first. */
  const operations = async (verb: string) => {
    const { stdout } = await world.jobman(['list', '--all', '--name', `${verb}-${nine}`, '--json']);
    return [...stdout.matchAll(/"id":"(\d{6})"/g)].map(([, id]) => id);
  };

  hostTest('Ctrl-C detaches from an operation, and the same command attaches to it again', async () => {
    assert.equal((await world.jobman(['emulator', 'hold', zone])).code, 0);
    await ok('register', nine, `zone=${zone}`);
    const running = world.start(['tpu', 'apply', nine]);
    await running.waitForOutput(/provisioning/);
    running.child.kill('SIGINT');
    const { code, stderr } = await running.result;
    assert.equal(code, 130);
    assert.match(stderr, /Detached\. Job \d+ continues\.\n +Explain: jobman why \d+/);
    const refused = await ends(4, 'delete', nine, '--yes');
    assert.match(refused.stderr, /Job \d+ \(apply-lab-tpuvm-v4-8-9\) of \S+ is under way on lab-tpuvm-v4-8-9/);
    await world.jobman(['emulator', 'clear']);
    assert.match(await ok('apply', nine), /is ready\./);
    assert.equal((await operations('apply')).length, 1);
  });

  hostTest('an operation continues after kill -9 of its command and of the controller', async () => {
    await onAll(nine, installNfs.replace('mount -t', 'sleep 5; mount -t'));
    settings({ zones: [zone], shares: [{ source: '10.0.0.2:/home', target: '/home-nfs' }] });
    const first = await node(nine);
    const killController = (): boolean => {
      try {
        const { pid } = JSON.parse(readFileSync(join(world.home, 'controller.json'), 'utf8')) as {
          readonly pid: number;
        };
        return process.kill(pid, 'SIGKILL');
      } catch {
        return false;
      }
    };
    const killed = async (verb: string) => {
      const running = world.start(['tpu', verb, nine, '--yes']);
      await running.waitForOutput(/Job \d+ \(.*\) runs in the background/);
      running.child.kill('SIGKILL');
      // The command does not wait for the controller that it started, and the last one left its file behind.
      await eventually(() => killController());
      await running.result.catch(() => undefined);
      const again = await tpu(verb, nine, '--yes');
      assert.equal(again.code, 0, again.stdout + again.stderr);
      assert.equal((await operations(verb)).length, 1, `one job for ${verb}`);
    };
    await killed('mount-disk');
    assert.match((await onAll(nine, 'cat /proc/self/mounts')).join(), /home-nfs/);
    settings({ zones: [zone] });
    const before = await addresses(nine);
    await killed('restart');
    assert.notDeepEqual(await addresses(nine), before);
    assert.equal((await node(nine)).createTime, first.createTime);
    await killed('reapply');
    assert.notEqual((await node(nine)).createTime, first.createTime);
    await killed('delete');
    assert.equal((await node(nine)).state, undefined);
  });

  hostTest('apply waits for capacity, and creates a TPU again that is preempted during its setup', async () => {
    const preempted = 'lab-tpuvm-v4-8-preemptible-9';
    // The share cannot be mounted, and the tries to do so take some time.
    settings({ zones: [zone], shares: [{ source: '10.0.0.2:/home', target: '/home-nfs' }] });
    await ok('register', preempted, `zone=${zone}`);
    await world.jobman(['emulator', 'stockout', zone]);
    const running = world.start(['tpu', 'apply', preempted]);
    await running.waitForOutput(/no capacity in the zone now; retry in/);
    await world.jobman(['emulator', 'clear']);
    // The next request follows after half a minute.
    await running.waitForOutput(/setup after .*: mount-disk/, 90_000);
    const first = await node(preempted);
    await world.jobman(['emulator', 'preempt', preempted]);
    const { code, stdout, stderr } = await running.result;
    assert.equal(code, 1, stderr);
    assert.match(stdout, /is ready, but its workers are not\. To prepare them again: tpu mount-disk/);
    const second = await node(preempted);
    assert.deepEqual([second.state, second.createTime === first.createTime], ['READY', false], stderr);
  });
});
