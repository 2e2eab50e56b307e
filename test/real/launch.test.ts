/** The machine that jobman runs on as a worker: natively, and through the shell scripts of remote hosts. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { createLocalMachines, localRoot } from '../../src/backends/hosts/machines.ts';
import { createMachines } from '../../src/backends/machines.ts';
import { createBlobs } from '../../src/files/blobs.ts';
import { attemptFiles } from '../../src/remote/launch.ts';
import { remoteRoot, runMarker } from '../../src/remote/run-folder.ts';
import type { Transport } from '../../src/remote/transport.ts';
import { createLocalTransport } from '../support/local-transport.ts';
import { openSshd } from '../remote/sshd.ts';
import { transportOn } from '../support/ssh.ts';
import { hour, type Instant } from '../../src/core/model/time.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';
import { launchOf, machinesContract, waitForRun, observe, tail, testRef } from '../remote/machines-contract.ts';
import type { HostFixture } from '../remote/machines-contract.ts';

// Each host has its own job id: all of them are this machine, where a stop finds every process of its label.
let jobs = 0;

/** A host: its home folder has a space in its name, and its boot id is a file. */
function openHost(t: TestContext): Pick<HostFixture, 'ref' | 'home' | 'bootIdFile' | 'stepLog'> & {
  readonly env: Record<string, string>;
  readonly jobmanHome: string;
  readonly folder: string;
  readonly atEnd: (undo: () => void) => void;
} {
  const world = openWorld(t);
  const home = join(world.folder, 'a home');
  const bootIdFile = join(world.folder, 'boot_id');
  mkdirSync(home);
  writeFileSync(bootIdFile, 'boot-one\n');
  const env = { ...world.env, HOME: home, JOBMAN_BOOT_ID_FILE: bootIdFile };
  jobs += 1;
  const ref = testRef(String(jobs).padStart(6, '0'));
  return {
    ref,
    home,
    bootIdFile,
    stepLog: [],
    env,
    jobmanHome: world.home,
    folder: world.folder,
    atEnd: (undo) => world.atEnd(undo),
  };
}

/** This machine as a worker, natively. */
function openThisMachine(host: ReturnType<typeof openHost>, now: () => Instant = Date.now): HostFixture {
  const machines = createLocalMachines({
    home: host.jobmanHome,
    env: host.env,
    userHome: host.home,
    now,
    appendStepLog: async (_job, step, _worker, chunk) => {
      if (chunk.length > 0) host.stepLog.push(`${step}: ${Buffer.from(chunk).toString()}`);
    },
    blobs: createBlobs(host.jobmanHome),
    openWorkdir: () => Promise.resolve(null),
    readSecret: () => Promise.reject(new Error('no secret is needed')),
    addPeriodicCheck(call) {
      const timer = setInterval(call, 200);
      return () => clearInterval(timer);
    },
  });
  return { ...host, machines, root: localRoot(host.jobmanHome, host.ref.job, host.ref.worker) };
}

/** A worker through the shell scripts, over that transport. */
const machinesOver = (transport: Transport, stepLog: string[]) =>
  createMachines({
    findTransport: () => Promise.resolve({ kind: 'open', transport }),
    root: (ref) => remoteRoot(ref.job),
    appendStepLog: async (_job, step, _worker, chunk) => {
      if (chunk.length > 0) stepLog.push(`${step}: ${Buffer.from(chunk).toString()}`);
    },
    openWorkdir: () => Promise.resolve(null),
    blobs: { read: () => Promise.reject(new Error('no blob is needed')) },
    readSecret: () => Promise.reject(new Error('no secret is needed')),
    now: Date.now,
    disconnect: () => undefined,
  });

const rootIn = (home: string, { job }: HostFixture['ref']): string =>
  join(home, '.jobman/runs', job.installation, job.id);

machinesContract('a host over SSH', async (t) => {
  const sshd = await openSshd(t);
  if (sshd === undefined) return undefined;
  const { home, bootIdFile } = sshd;
  jobs += 1;
  const ref = testRef(String(jobs).padStart(6, '0'));
  const stepLog: string[] = [];
  const machines = machinesOver(transportOn(sshd, { pinName: 'ab12cd-000001-1-0' }), stepLog);
  return { machines, ref, stepLog, home, bootIdFile, root: rootIn(home, ref) };
});

machinesContract('this machine', (t) => Promise.resolve(openThisMachine(openHost(t))));

test('the log of a program whose folder was deleted ends when the program has ended', async (t) => {
  const ground = openThisMachine(openHost(t));
  const started = await ground.machines.start(ground.ref, launchOf(1, 'echo before; sleep 1'));
  assert.deepEqual(started, { kind: 'done' });
  await waitForRun(ground, 1, 'running');
  await new Promise<void>((resolve, reject) => {
    ground.machines.tail(
      ground.ref,
      { attempt: 1, file: 'log', from: 0 },
      {
        bytes: () => rmSync(ground.root, { recursive: true }),
        ended: resolve,
        dropped: reject,
      },
    );
  });
});

test('of many workers that are observed at once, each has its own answer', async (t) => {
  const ground = openThisMachine(openHost(t));
  await ground.machines.start(ground.ref, launchOf(1, 'exit 7'));
  await waitForRun(ground, 1, 'exited');
  const others = Array.from({ length: 39 }, (_, index) => ({
    ...ground.ref,
    job: { ...ground.ref.job, id: `${100_000 + index}` },
  }));
  const answers = await ground.machines.observe([...others.slice(0, 20), ground.ref, ...others.slice(20)]);
  assert.deepEqual(
    answers.map((one) => (one.kind === 'known' ? one.value.runs.map((run) => run.state) : one.reason)),
    [...others.slice(0, 20).map(() => []), ['exited'], ...others.slice(20).map(() => [])],
  );
});

test('time during which the machine sleeps does not count as silence', async (t) => {
  let slept = 0;
  const ground = openThisMachine(openHost(t), () => Date.now() + slept);
  await ground.machines.start(ground.ref, launchOf(1, 'sleep 30'));
  const before = await waitForRun(ground, 1, 'running');
  slept = 8 * hour;
  const woken = Date.now() + slept;
  for (const round of ['at once', 'and from then on']) {
    const after = await waitForRun(ground, 1, 'running');
    assert.ok(after.state === 'running' && before.state === 'running');
    assert.ok(after.outputAt >= woken, round);
    assert.equal(after.startedAt, before.startedAt);
  }
  await ground.machines.stop(ground.ref, 1, 'kill', 'TERM');
});

test('a clock that is set forward during a start does not end the start', async (t) => {
  let ahead = 0;
  const ground = openThisMachine(openHost(t), () => Date.now() + ahead);
  // The folder exists, and the launcher has not reported its pid yet.
  mkdirSync(join(ground.root, 'attempt_1'), { recursive: true });
  assert.equal((await waitForRun(ground, 1, 'starting')).state, 'starting');
  ahead = hour;
  const leaptAt = Date.now() + ahead;
  const run = (await observe(ground)).runs.find(({ attempt }) => attempt === 1);
  assert.ok(run?.state === 'starting' && run.since >= leaptAt, JSON.stringify(run));
});

test('two hundred megabytes pass, and every byte is counted', async (t) => {
  const ground = openThisMachine(openHost(t));
  const script = 'yes 0123456789abcde | head -c 200000000';
  assert.deepEqual(await ground.machines.start(ground.ref, launchOf(1, script)), { kind: 'done' });
  const { bytes, end } = await tail(ground, 1);
  assert.equal(end, 'ended');
  assert.equal(bytes.length, 200_000_000);
  assert.equal(bytes.subarray(-16).toString(), '0123456789abcde\n');
});

test('on a full disk a start fails and can be retried, and a program that fills the disk still has an exit code', async (t) => {
  const host = openHost(t);
  mkdirSync(host.jobmanHome, { recursive: true });
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', host.jobmanHome]).status === 0;
  if (!requireReal(t, 'leave to mount a tmpfs', isMounted)) return;
  host.atEnd(() => {
    spawnSync('umount', [host.jobmanHome]);
  });
  const ground = openThisMachine(host);
  const filler = join(host.jobmanHome, 'filler');
  spawnSync('sh', ['-c', 'cat /dev/zero >"$1" 2>/dev/null', 'sh', filler]);
  const refused = await ground.machines.start(ground.ref, launchOf(1, 'echo never'));
  assert.ok(refused.kind === 'failed');
  assert.match(refused.evidence.message, /cannot be written: ENOSPC/);
  spawnSync('rm', [filler]);
  assert.deepEqual(await ground.machines.start(ground.ref, launchOf(1, 'cat /dev/zero; exit 6')), { kind: 'done' });
  const run = await waitForRun(ground, 1, 'exited');
  assert.equal(run.state === 'exited' && run.exitCode, 6);
});

test('on a full disk, or without /proc, a host reached through a shell says why it starts nothing', async (t) => {
  const host = openHost(t);
  const startWhere = async (prepare: string): Promise<string> => {
    const shell = ['unshare', '-m', 'sh', '-c', `${prepare} && exec sh -s`];
    const machines = machinesOver(createLocalTransport({ env: host.env, cwd: host.home, shell }), host.stepLog);
    const result = await machines.start(host.ref, launchOf(1, 'echo never'));
    return result.kind === 'failed' ? result.evidence.message : JSON.stringify(result);
  };
  const canMount = spawnSync('unshare', ['-m', 'true']).status === 0;
  if (!requireReal(t, 'leave to mount in a namespace', canMount)) return;
  const root = rootIn(host.home, host.ref);
  const fill = `mkdir -p ~/.jobman && mount -t tmpfs -o size=64k tmpfs ~/.jobman && mkdir -p '${root}' && { cat /dev/zero >~/.jobman/filler 2>/dev/null || :; }`;
  const refused = await startWhere(fill);
  assert.ok(refused.startsWith(`worker 0 could not start the command: cannot write ${root}/`), refused);
  assert.match(refused, /: No space left on device$/);
  assert.match(
    await startWhere('mount -t tmpfs tmpfs /proc'),
    /^worker 0 could not start the command: the host has no \/proc/,
  );
});

test('a program that ends while its disk is read-only has its exit code as soon as writes work again', async (t) => {
  const host = openHost(t);
  const ground = openThisMachine(host);
  const over = join(host.folder, 'over');
  const go = join(host.folder, 'go');
  const script = `until [ -e '${go}' ]; do sleep 0.05; done; sleep 0.2; echo done >'${over}'; exit 5`;
  assert.deepEqual(await ground.machines.start(ground.ref, launchOf(1, script)), { kind: 'done' });
  await waitForRun(ground, 1, 'running');
  // Open files stay open, and no new file can be created: like fill-disk of the TPU emulator.
  const { root } = ground;
  const mount = (...args: readonly string[]) => spawnSync('mount', args).status === 0;
  const isReadOnly = mount('--bind', root, root) && mount('-o', 'remount,bind,ro', root);
  let isUnmounted = false;
  const unmount = () => {
    if (!isUnmounted) spawnSync('umount', [root]);
    isUnmounted = true;
  };
  host.atEnd(unmount);
  writeFileSync(go, '');
  if (!requireReal(t, 'leave to mount a folder read-only', isReadOnly)) return;
  assert.ok(await eventually(() => existsSync(over)), 'the program did not end');
  const ended = (await observe(ground)).runs[0];
  assert.equal(ended?.state, 'running', JSON.stringify(ended));
  unmount();
  const run = await waitForRun(ground, 1, 'exited');
  assert.equal(run.state === 'exited' && run.exitCode, 5);
});

test('a program starts even if its caller was killed before the reply', async (t) => {
  const host = openHost(t);
  const ground = openThisMachine(host);
  const prepared = join(ground.root, 'start_attempt_1.x');
  mkdirSync(prepared, { recursive: true });
  const texts = attemptFiles(launchOf(1, 'exit 4'), runMarker(ground.ref.job, 1, 0), {});
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(prepared, name), text);
  // The reader of the reply has exited by then.
  const launch = '( sleep 0.2; exec setsid sh "$0" attempt_1 ) 2>&1 | true';
  spawnSync('sh', ['-c', launch, join(prepared, 'launch')], { env: host.env });
  const run = await waitForRun(ground, 1, 'exited');
  assert.equal(run.state === 'exited' && run.exitCode, 4);
});

/** The shell scripts with all programs from that folder. */
function throughShell(
  name: string,
  programs: (host: ReturnType<typeof openHost>) => Record<string, string> | undefined,
): void {
  machinesContract(name, (t) => {
    const found = programs({ folder: '' } as ReturnType<typeof openHost>);
    if (!requireReal(t, name, found !== undefined)) return Promise.resolve(undefined);
    const host = openHost(t);
    const folder = join(host.folder, 'bin');
    mkdirSync(folder);
    for (const [program, target] of Object.entries(found ?? {})) symlinkSync(target, join(folder, program));
    const env = { ...host.env, PATH: name === 'busybox' ? folder : `${folder}:${host.env['PATH']}` };
    const transport = createLocalTransport({ env, cwd: host.home, shell: [join(folder, 'sh'), '-s'] });
    return Promise.resolve({
      ...host,
      machines: machinesOver(transport, host.stepLog),
      root: rootIn(host.home, host.ref),
    });
  });
}

const only = (program: string) => () => {
  const path = findProgram(program);
  return path === undefined ? undefined : { sh: path };
};
throughShell('dash', only('dash'));
throughShell('bash', only('bash'));

/** All programs from one busybox, as on a small image: no bash, no GNU tools. */
throughShell('busybox', () => {
  const busybox = findProgram('busybox');
  if (busybox === undefined) return undefined;
  const names =
    'sh setsid base64 mktemp mkdir rmdir mv rm cat chmod date stat grep tail head wc sleep sort tr env true sed'.split(
      ' ',
    );
  return Object.fromEntries(names.map((program) => [program, busybox]));
});
