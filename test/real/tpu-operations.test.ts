// The TPU operations of a lab on the TPU emulator with real hosts, outside any job.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { createTpuOperations } from '../../src/backends/tpu/operations/tpu-operations.ts';
import { createSshRoutes, sshKeyLines } from '../../src/backends/tpu/workers.ts';
import { labelsOf } from '../../src/backends/tpu/resources.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { probeIsolation } from '../../src/emulator/hosts/machine.ts';
import type { LabTpu } from '../../src/lab/tpus.ts';
import type { TpuOperations } from '../../src/lab/tpu-operations.ts';
import { eventually } from '../support/eventually.ts';
import { requireReal } from '../support/real.ts';
import { openInProcessEmulator } from '../support/in-process-emulator.ts';
import type { Scope } from '../support/world.ts';

const zone = 'us-central2-b';
const project = 'emulator';
const never = new AbortController().signal;

function tpu(name: string, more: Partial<LabTpu> = {}): LabTpu {
  return { name, project: null, zone, accelerator: 'v4-8', pricing: 'ondemand', runtimeVersion: null, ...more };
}

/** All tests of this file share one emulator, with separate TPU names. */
async function openBench(scope: Scope) {
  const cloud = await openInProcessEmulator(scope);
  const { world, url, api, pool, login, sshFor } = cloud;
  const site = { zones: [zone, 'europe-west4-a'], remoteUser: null, privateKey: null };
  const operations = createTpuOperations({
    transport: createSshRoutes({ home: world.home, pool, apiFor: () => api, sshAccessFor: sshFor, now: Date.now })
      .transport,
    close: () => pool.close(),
    apiFor: () => api,
    project,
    site,
    user: login.user,
    now: Date.now,
  });
  world.atEnd(() => operations.close());
  const node = async (name: string) => {
    const reply = await fetch(`${url}/v2/projects/${project}/locations/${zone}/nodes/${name}`);
    return (await reply.json()) as Readonly<Record<string, unknown>>;
  };
  return {
    ...cloud,
    operations,
    /** Creates the TPU, and resolves when its first worker accepts a login. */
    create: async (one: LabTpu): Promise<void> => {
      const metadata = { 'ssh-keys': await sshKeyLines(site, { id: '', owner: '' }, login), owner: 'ada' };
      const wanted = { acceleratorType: one.accelerator, runtimeVersion: 'tpu-ubuntu2204-base', metadata };
      const schedulingConfig = one.pricing === 'ondemand' ? {} : { [one.pricing]: true };
      await api.createNode({ project, zone }, one.name, { ...wanted, schedulingConfig });
      const isReady = async () => (await node(one.name))['state'] === 'READY';
      assert.ok(await eventually(isReady, { withinMs: 60_000 }));
      const answers = async () => {
        const found = await operations.onWorkers(one, 'true', { timeoutMs: 20_000, signal: never });
        return found.every(({ kind }) => kind === 'ended');
      };
      assert.ok(await eventually(answers, { withinMs: 60_000 }));
    },
    hasNamespaces: probeIsolation(join(world.folder, 'probe')) !== 'none',
    node,
  };
}

const failsWith = (code: number, message: RegExp, lines?: RegExp) => (error: unknown) => {
  assert.ok(error instanceof JobmanError, String(error));
  assert.match(error.message, message);
  assert.equal(error.code, code);
  if (lines !== undefined) assert.match(error.lines.join('\n'), lines);
  return true;
};

/** The result of a script on worker 0. */
async function onFirst(
  operations: TpuOperations,
  one: LabTpu,
  script: string,
): Promise<{ code: number; output: string }> {
  const [answer] = await operations.onWorkers(one, script, { timeoutMs: 20_000, signal: never, workers: [0] });
  assert.equal(answer?.kind, 'ended');
  return answer;
}

/** Starts that program on worker 0 in a session, and resolves with its process id. */
async function begin(operations: TpuOperations, one: LabTpu, command: string): Promise<number> {
  // Until exec, the process is a copy of the shell that starts it.
  const script = `setsid ${command} >/dev/null 2>&1 </dev/null &
while cmp -s /proc/$$/cmdline /proc/$!/cmdline; do sleep 0.05; done; echo $!`;
  return Number((await onFirst(operations, one, script)).output.trim());
}

async function lives(operations: TpuOperations, one: LabTpu, pid: number): Promise<boolean> {
  const script = `grep -qs '^State:.[RSD]' /proc/${pid}/status`;
  return (await onFirst(operations, one, script)).code === 0;
}

suite('the TPU operations of a lab', async () => {
  const two = tpu('lab-v4-16-1', { accelerator: 'v4-16' });
  const spot = tpu('lab-v4-8-p1', { pricing: 'preemptible' });
  const { operations, create, api, admin: act, node, hasNamespaces } = await openBench({ after });
  const how = async (one: LabTpu) => {
    const state = await operations.describe(one);
    assert.ok(state.kind === 'known', JSON.stringify(state));
    return { state: state.state, zone: state.zone, workers: state.workers };
  };

  test('create a TPU, show its state, run on its workers in parallel; no command line contains secrets', async () => {
    const one = tpu('lab-v4-16-1', { accelerator: 'v4-16', zone: null });
    assert.deepEqual(await how(one), { state: 'absent', zone: '', workers: 0 });
    await assert.rejects(operations.holders(one, never), failsWith(4, /does not exist/, /tpu apply lab-v4-16-1/));
    const placed = { ...one, zone };
    await create(placed);
    // Find the zone if the registry does not have it.
    assert.deepEqual(await how(one), { state: 'ready', zone, workers: 2 });
    const value = 'it\'s a "secret" $HOME';
    const script = `echo "worker $TPU_WORKER_ID"; [ "$KEY" = ${JSON.stringify(value).replaceAll('$', '\\$')} ] && echo known
tr '\\0' '\\n' </proc/self/cmdline; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'secret.\\$HOME' ; cat; exit 3`;
    const answers = await operations.onWorkers(placed, script, {
      timeoutMs: 20_000,
      signal: never,
      secrets: { KEY: value },
    });
    assert.deepEqual(
      answers.map((answer) => answer.kind === 'ended' && [answer.worker, answer.code]),
      [
        [0, 3],
        [1, 3],
      ],
    );
    const outputs = answers.map((answer) => (answer.kind === 'ended' ? answer.output : ''));
    for (const [worker, output] of outputs.entries()) {
      assert.match(output, new RegExp(`^worker ${worker}\nknown\n`));
      assert.match(output, /\n0\n$/, 'no process has the secret on its command line');
    }
  });

  test('a command that times out or is interrupted is ended on the worker', async () => {
    const slow = 'echo $$ >"$HOME/slow"; sleep 31347; echo never';
    const late = await operations.onWorkers(two, slow, { timeoutMs: 1_000, signal: never, workers: [0] });
    assert.deepEqual(late, [{ kind: 'no_answer', worker: 0, message: 'it did not end within 1 s' }]);
    const off = new AbortController();
    const running = operations.onWorkers(two, slow, { timeoutMs: 60_000, signal: off.signal, workers: [1] });
    setTimeout(() => off.abort(), 500).unref();
    await assert.rejects(running, failsWith(130, /Interrupted/));
    const alive = async () => {
      const script = 'read -r pid <"$HOME/slow" && grep -qs "^State:.[RSD]" "/proc/$pid/status"';
      const answers = await operations.onWorkers(two, script, { timeoutMs: 20_000, signal: never });
      return answers.some((answer) => answer.kind === 'ended' && answer.code === 0);
    };
    assert.ok(await eventually(async () => !(await alive()), { withinMs: 60_000 }));
  });

  test('processes that name a folder as a whole argument end, with their children, and no others', async () => {
    const log = "/logs/zephyr/it's [a] run.1";
    const q = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
    // Like gcloud's ssh: a shell with the whole text on its command line, and the program below it.
    const inner = `cd /tmp\nsh -c 'exec sleep 31341' main.py --workdir=/logs/a/b & sleep 31342; true`;
    const run = await begin(operations, two, `bash -c ${q(inner)}`);
    const quoted = await begin(operations, two, `sh -c 'sleep 31343; true' main.py ${q(`--workdir=${log}`)}`);
    const stubborn = await begin(
      operations,
      two,
      `sh -c 'trap "" TERM; while :; do sleep 1; done' main.py --workdir /logs/a/b/`,
    );
    const others = [
      await begin(operations, two, `sh -c 'sleep 31344; true' main.py --workdir=/logs/a/b2`),
      await begin(
        operations,
        two,
        `sh -c 'sleep 31345; true' main.py --workdir=/logs/new --config.load_from=/logs/a/b`,
      ),
      await begin(operations, two, `tail -f /dev/null /logs/a/b/output.log`),
    ];
    const none = await operations.endPrograms(two, { folders: ['/logs/a'], pids: [], graceMs: 0 }, never);
    assert.deepEqual(none, { ended: [], left: [], unreachable: [] });
    const end = await operations.endPrograms(two, { folders: ['/logs/a/b', log], pids: [], graceMs: 600 }, never);
    assert.deepEqual([end.left, end.unreachable], [[], []]);
    const ended = end.ended.map(({ pid }) => pid);
    for (const pid of [run, quoted, stubborn]) {
      assert.ok(ended.includes(pid), JSON.stringify(end.ended));
      assert.equal(await lives(operations, two, pid), false);
    }
    assert.ok(
      end.ended.some(({ command }) => command === 'sleep 31342'),
      'its children ended too',
    );
    for (const pid of others) assert.equal(await lives(operations, two, pid), true);
    const byPid = await operations.endPrograms(
      two,
      { folders: [], pids: others.map((pid) => ({ worker: 0, pid })), graceMs: 200 },
      never,
    );
    for (const pid of others) {
      assert.ok(byPid.ended.some((each) => each.worker === 0 && each.pid === pid));
      assert.equal(await lives(operations, two, pid), false);
    }
    // The same process ids on another worker belong to others.
    assert.equal(
      byPid.ended.every(({ worker }) => worker === 0),
      true,
    );
  });

  test('the user of the devices is named with its worker, and a host that does not answer is reported', async (t) => {
    if (!requireReal(t, 'namespaces', hasNamespaces)) return;
    assert.deepEqual(await operations.holders(two, never), { holders: [], unreachable: [] });
    const pid = await begin(operations, two, 'with-tpu sleep 31346');
    const found = await eventually(async () => {
      const { holders } = await operations.holders(two, never);
      return holders.some(({ command }) => command === 'sleep 31346') ? holders : undefined;
    });
    const own = found?.find(({ command }) => command === 'sleep 31346');
    assert.deepEqual([own?.worker, own?.user !== ''], [0, true]);
    await operations.endPrograms(two, { folders: [], pids: [{ worker: 0, pid }], graceMs: 500 }, never);
    assert.deepEqual((await operations.holders(two, never)).holders, []);
    await act('hang-host', 'lab-v4-16-1', { worker: '1' });
    const { holders, unreachable: missed } = await operations.holders(two, never);
    assert.deepEqual(holders, []);
    assert.deepEqual(
      missed.map(({ worker }) => worker),
      [1],
    );
  });

  test('the state names the TPU in the cloud, its owner and its job', async () => {
    await create(spot);
    const found = async (one: LabTpu) => {
      const state = await operations.describe(one);
      return state.kind === 'known' ? state.found : state;
    };
    const { createTime } = await node(spot.name);
    const known = { creationTime: createTime, accelerator: 'v4-8', pricing: 'preemptible', job: null, owner: 'ada' };
    assert.deepEqual(await found(spot), known);
    await act('preempt', spot.name);
    assert.ok(await eventually(async () => (await node(spot.name))['state'] === 'PREEMPTED', { withinMs: 60_000 }));
    assert.deepEqual(await how(spot), { state: 'preempted', zone, workers: 1 });
    const owner = { installation: 'ours00', job: '000042', allocation: 1 };
    const wanted = { acceleratorType: 'v4-8', runtimeVersion: 'tpu-ubuntu2204-base', labels: labelsOf(owner) };
    await api.createNode({ project, zone }, 'vit-000042-1', wanted);
    const ofJob = await found(tpu('vit-000042-1'));
    assert.equal(ofJob !== undefined && 'job' in ofJob && ofJob.job, '000042');
  });

  test('without an answer of the API nothing is changed', async () => {
    await act('flaky', zone, { p: '1' });
    const state = await operations.describe(spot);
    assert.equal(state.kind, 'unknown');
    await assert.rejects(
      operations.endPrograms(spot, { folders: ['/a'], pids: [], graceMs: 0 }, never),
      failsWith(5, /is unknown/),
    );
    await act('clear');
  });
});
