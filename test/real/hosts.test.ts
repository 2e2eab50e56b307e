/** Jobs on machines of the user's own: real OpenSSH servers on loopback addresses, with the user's known_hosts. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { spawnSync } from 'node:child_process';
import { processesOf, testIdVariable } from '../support/leaks.ts';
import { openSshd, type Sshd } from '../remote/sshd.ts';
import { eventually } from '../support/eventually.ts';
import { openJobWorld, reasonsOf, sendSignal, type JobWorld } from '../support/jobs.ts';
import { findProgram } from '../support/real.ts';

interface HostsWorld {
  readonly world: JobWorld;
  readonly hosts: readonly [Sshd, Sshd];
  /** Writes the host keys of both to the user's known_hosts. */
  readonly trust: () => void;
}

/** The hosts gpu1 (two slots, four GPUs) and gpu2 (one slot) are names of the user's ssh_config. */
async function openHosts(t: TestContext): Promise<HostsWorld | undefined> {
  const gpu1 = await openSshd(t, ['MaxSessions 50']);
  const gpu2 = gpu1 === undefined ? undefined : await openSshd(t, ['MaxSessions 50']);
  if (gpu1 === undefined || gpu2 === undefined) return undefined;
  const hosts = [gpu1, gpu2] as const;
  const bin = join(gpu1.world.folder, 'bin');
  const known = join(gpu1.world.folder, 'known_hosts');
  const config = join(gpu1.world.folder, 'ssh_config');
  mkdirSync(bin);
  // No server listens on the port of gpu3.
  const blocks = [gpu1, gpu2, { ...gpu1, port: 1 }].map(
    ({ host, port, user, keyFile }, index) => `Host gpu${index + 1}
  HostName ${host}
  Port ${port}
  User ${user}
  IdentityFile "${keyFile}"
  UserKnownHostsFile ${known}
  GlobalKnownHostsFile /dev/null
`,
  );
  writeFileSync(config, blocks.join(''));
  // OpenSSH reads the configuration of the account, whatever HOME says.
  writeFileSync(join(bin, 'ssh'), `#!/bin/sh\nexec ${findProgram('ssh')} -F ${config} "$@"\n`);
  chmodSync(join(bin, 'ssh'), 0o755);
  const world = openJobWorld(t, { env: { PATH: `${bin}:${gpu1.world.env['PATH']}` } });
  // First, also after a failed assertion: a program that is left fails this hook, and Node runs no hook after that.
  gpu1.world.atEnd(async () => {
    await world.stopServices();
    for (const host of hosts) {
      sendSignal(host.pid, 'SIGCONT');
      killPrograms(host);
    }
  });
  await world.runOk(['hosts', 'add', 'gpu1', '--ssh', 'gpu1', '--gpus', '4', '--slots', '2']);
  await world.runOk(['hosts', 'add', 'gpu2', '--ssh', 'gpu2']);
  const trust = () =>
    writeFileSync(known, hosts.map(({ host, port, hostKey }) => `[${host}]:${port} ${hostKey}\n`).join(''));
  return { world, hosts, trust };
}

const jobOn = (world: JobWorld, hosts: readonly string[], run: string, sections: object = {}): string =>
  world.manifest({ hosts, command: { run }, ...sections });

const prints = (world: JobWorld, id: string, text: string): Promise<true | undefined> =>
  eventually(async () => (await world.jobman(['logs', id])).stdout.includes(text), { withinMs: 60_000 });

/** Ends the connections to a server, not the server. */
async function dropConnections({ pid }: Sshd): Promise<void> {
  const sessions = await eventually(() => {
    const { stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
    const found = stdout.split('\n').filter(Boolean);
    return found.length > 0 && found;
  });
  assert.ok(sessions !== undefined, 'there is no connection');
  for (const session of sessions) sendSignal(Number(session), 'SIGKILL');
}

/** Ends every process of a job there, as a reboot does. */
function killPrograms({ world }: Sshd): void {
  for (const { pid } of processesOf(world.env[testIdVariable] ?? '', world.folder))
    if (/(^|\0)JOBMAN_RUN=/.test(readFileSync(`/proc/${pid}/environ`, 'utf8'))) sendSignal(pid, 'SIGKILL');
}

function runningPrograms({ world }: Sshd): number {
  const all = processesOf(world.env[testIdVariable] ?? '', world.folder);
  return all.filter(({ command }) => /attempt_\d+\/script/.test(command)).length;
}

test('two hosts run one job through a killed controller and dropped connections, and a failing worker ends it on both', async (t) => {
  const opened = await openHosts(t);
  if (opened === undefined) return;
  const { world, hosts, trust } = opened;
  const program = `echo "worker $JOBMAN_WORKER of $JOBMAN_WORKERS on $(basename "$HOME")"
count=0
while [ ! -e "$HOME/fail" ]; do count=$((count + 1)); echo "count $count"; sleep 0.2; done
exit 3`;
  const id = await world.create(jobOn(world, ['gpu1', 'gpu2'], program));
  // A host that does not answer is reported first. Nothing is sent to a host without a verified key.
  await world.runOk(['hosts', 'add', 'gpu3', '--ssh', 'gpu3']);
  assert.match((await world.jobman(['doctor'])).stdout, /gpu3 cannot be reached: 127\.0\.0\.1:1 refuses connections/);
  const refusal = await eventually(async () => {
    const { stdout } = await world.jobman(['why', id]);
    return /not in your known_hosts.* connect once and compare the key: ssh gpu[12]/su.test(stdout) && stdout;
  });
  assert.ok(refusal !== undefined);
  trust();
  await world.waitForPhase(id, 'running');
  assert.ok(await prints(world, id, '[0] worker 0 of 2'));
  assert.ok(await prints(world, id, '[1] worker 1 of 2'));
  const { stdout } = await world.runOk(['exec', id, '--', 'echo "at $JOBMAN_WORKER $PWD"']);
  assert.match(stdout, /^\[0\] at/m);
  // OpenSSH itself, which does not read the configuration that names the hosts.
  const config = join(world.folder, 'jobman.config');
  writeFileSync(config, await world.output('ssh-config', id));
  const byName = spawnSync(findProgram('ssh') ?? 'ssh', ['-F', config, `jobman-${Number(id)}-1`, 'echo reached'], {
    encoding: 'utf8',
    env: world.env,
  });
  assert.equal(byName.stdout, 'reached\n', byName.stderr);

  assert.ok(await world.killController());
  await world.runOk(['controller', 'start']);
  for (const host of hosts) await dropConnections(host);
  assert.ok(await eventually(async () => (await world.show(id)).phase === 'running'));
  writeFileSync(join(hosts[1].home, 'fail'), '');
  const job = await world.waitForFinish(id, 1);
  assert.deepEqual(reasonsOf(job), ['command_failed']);
  assert.ok(await eventually(() => runningPrograms(hosts[0]) === 0), 'the program on the other host still runs');
  for (const worker of [0, 1]) {
    const counts = [
      ...world
        .readLog(id, worker)
        .toString()
        .matchAll(/^count (\d+)$/gm),
    ].map(([, count]) => Number(count));
    assert.deepEqual(
      counts,
      counts.map((_, index) => index + 1),
      `the log of worker ${worker} has gaps`,
    );
  }
  rmSync(join(hosts[1].home, 'fail'));
});

test('jobs on one host get slots with GPUs of their own and wait for one, and a host with jobs is not removed', async (t) => {
  const opened = await openHosts(t);
  if (opened === undefined) return;
  const { world, trust } = opened;
  trust();
  const manifest = jobOn(world, ['gpu1'], 'echo "gpus $CUDA_VISIBLE_DEVICES"; sleep 600');
  const first = await world.create(manifest);
  const second = await world.create(manifest);
  assert.ok(await prints(world, first, 'gpus 0,1'));
  assert.ok(await prints(world, second, 'gpus 2,3'));
  const third = await world.create(manifest, '--set', 'job.env.CUDA_VISIBLE_DEVICES=7');
  assert.ok(
    await eventually(async () => (await world.output('why', third)).includes('2 of 2 slots on gpu1 in use')),
    'the third job does not wait',
  );
  assert.match(await world.output('queue'), /^gpu1: 2 of 2 slots used, 1 job waiting\.$/m);
  for (const args of [
    ['hosts', 'remove', 'gpu1'],
    ['settings', 'unset', 'hosts.gpu1'],
    ['settings', 'set', 'hosts', '{"gpu2": {"ssh": "gpu2"}}'],
  ])
    await world.runRefused(4, /gpu1 has 3 jobs/, args);

  // A user edits the file: the host's jobs are observed and can be ended, and no new one begins.
  writeFileSync(join(world.home, 'settings.json'), '{"hosts": {"gpu2": {"ssh": "gpu2"}}}');
  await world.runOk(['settings', 'unset', 'local.slots']);
  assert.ok(await eventually(async () => (await world.output('why', first)).includes('no longer name the host gpu1')));
  assert.equal((await world.show(first)).phase, 'running');
  await world.runRefused(2, /there is no host "gpu1".*did you mean "gpu2"/, ['create', manifest]);
  await world.runOk(['cancel', second]);
  await world.waitForPhase(second, 'cancelled');
  assert.match(await world.output('why', third), /the settings no longer name its host gpu1.*jobman cancel/s);
  assert.match(await world.output('list'), /gpu1 is not in the settings: jobman hosts add gpu1/);

  // The host is back: the third job gets the slot, and its owner's variable wins.
  await world.runOk(['hosts', 'add', 'gpu1', '--ssh', 'gpu1', '--gpus', '4', '--slots', '2']);
  assert.ok(await prints(world, third, 'gpus 7'));
  await world.runOk(['cancel', first]);
  await world.waitForPhase(first, 'cancelled');
  await world.runOk(['cancel', third]);
  await world.waitForPhase(third, 'cancelled');
});

test('a host that does not answer keeps its slot for its job, whose files there are removed by clean', async (t) => {
  const opened = await openHosts(t);
  if (opened === undefined) return;
  const { world, hosts, trust } = opened;
  const [, gpu2] = hosts;
  trust();
  const recovery = { preset: 'pass', unreachable_grace: '1s' };
  const manifest = jobOn(world, ['gpu2'], 'echo up; sleep 600', { recovery });
  const [first, second] = [await world.create(manifest), await world.create(manifest)];
  assert.ok(await prints(world, first, 'up'));
  sendSignal(gpu2.pid, 'SIGSTOP');
  await dropConnections(gpu2);
  assert.ok(
    await eventually(async () => (await world.output('why', first)).includes('Its slot stays held until the host'), {
      withinMs: 60_000,
    }),
  );
  assert.match(await world.output('hosts'), new RegExp(`^gpu2 .* ${first} no answer for`, 'm'));
  assert.match(await world.output('why', second), /1 of 1 slot on gpu2 in use/);
  assert.equal(runningPrograms(gpu2), 1);

  sendSignal(gpu2.pid, 'SIGCONT');
  assert.deepEqual(reasonsOf(await world.waitForFinish(first, 1)), ['unreachable']);
  assert.ok(await prints(world, second, 'up'));
  assert.equal(runningPrograms(gpu2), 1);

  // The program of a job that was deleted meanwhile is ended before the next one starts.
  sendSignal(gpu2.pid, 'SIGSTOP');
  await dropConnections(gpu2);
  assert.ok(
    await eventually(async () => /slot stays held/.test(await world.output('why', second)), { withinMs: 60_000 }),
  );
  assert.match(
    (await world.runOk(['delete', second, '--force'])).stdout,
    /may still run on gpu2, .* jobman ends it before another job starts\. .*: jobman hosts remove gpu2$/m,
  );
  const third = await world.create(jobOn(world, ['gpu2'], 'echo alone; sleep 600'));
  assert.match(await world.output('hosts'), new RegExp(`^gpu2 .* ${second} deleted`, 'm'));
  assert.ok(await eventually(async () => (await world.output('why', third)).includes('1 of 1 slot on gpu2 in use')));
  sendSignal(gpu2.pid, 'SIGCONT');
  assert.ok(await prints(world, third, 'alone'));
  assert.equal(runningPrograms(gpu2), 1);
  const runs = join(gpu2.home, '.jobman/runs');
  const foldersOf = (id: string) => readdirSync(runs, { recursive: true }).filter((path) => String(path).endsWith(id));
  assert.equal(foldersOf(first).length, 1);
  await world.runOk(['clean', first]);
  assert.equal(foldersOf(first).length, 0);
  await world.runOk(['cancel', third]);
  await world.waitForPhase(third, 'cancelled');
});

test('a host that reboots ends the attempt as unreachable, and the next one runs there after its setup', async (t) => {
  const opened = await openHosts(t);
  if (opened === undefined) return;
  const { world, hosts, trust } = opened;
  const [gpu1] = hosts;
  trust();
  writeFileSync(join(world.folder, 'input.txt'), 'input\n');
  const program = 'echo "$(cat ~/input.txt) in $(cat "$JOBMAN_BOOT_ID_FILE")"; sleep 600';
  const files = ['input.txt:~/input.txt'];
  const id = await world.create(jobOn(world, ['gpu1'], program, { job: { files }, recovery: 'loop: failures' }));
  assert.ok(await prints(world, id, 'input in boot-one'));

  // A reboot ends every process. What is below /tmp, or mounted, is lost with it: here, a file of the setup.
  rmSync(join(gpu1.home, 'input.txt'));
  writeFileSync(gpu1.bootIdFile, 'boot-two\n');
  killPrograms(gpu1);
  assert.ok(await prints(world, id, 'input in boot-two'));
  const job = await world.show(id);
  assert.deepEqual(reasonsOf(job), ['unreachable', null]);
  assert.equal(job.attempts[0]?.evidence?.message, 'the program vanished on worker 0: the machine was restarted');
  assert.deepEqual(
    job.attempts.map(({ allocation }) => allocation),
    [1, 1],
  );
  await world.runOk(['cancel', id]);
  await world.waitForPhase(id, 'cancelled');
});
