// The adapter and the built-in cloud, written apart from the same facts, meet here; the rules of the core decide between
// them. Each job is walked as the controller walks it (look, reconcile, act), on a clock that runs faster than the wall's,
// because the core's patience is meant for Google's minutes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { AllocationRef, CapacityPort, Clock } from '../../src/app/ports.ts';
import { createTpuApi } from '../../src/backends/tpu/api.ts';
import { createCaller } from '../../src/backends/tpu/call.ts';
import { createTpuCapacity } from '../../src/backends/tpu/capacity.ts';
import { createCredentials, createLogin } from '../../src/backends/tpu/credentials.ts';
import { createTpuWorkers, sshKeyLines } from '../../src/backends/tpu/workers.ts';
import type { TpuWorkers } from '../../src/backends/tpu/workers.ts';
import { newJob, allocationOf, lastAllocation, mayExist } from '../../src/core/job.ts';
import type { Job } from '../../src/core/job.ts';
import { subjectKey } from '../../src/core/decision.ts';
import type { Event } from '../../src/core/decision.ts';
import { unknown } from '../../src/core/observation.ts';
import type { AllocationFact, Outcome, OutcomeResult } from '../../src/core/observation.ts';
import { reconcile } from '../../src/core/reconcile.ts';
import { presets } from '../../src/core/recover.ts';
import type { TpuSpec } from '../../src/core/spec.ts';
import { minute, second } from '../../src/core/time.ts';
import { admin } from '../../src/emulator/admin.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { createSshPool } from '../../src/remote/ssh.ts';
import { tpuRef } from '../backends/tpu/support/refs.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';
import type { World } from '../support/world.ts';

type Scope = Parameters<typeof openWorld>[0];
type Mode = TpuSpec['mode'];

/** The cloud makes a node in half a second, and the core's clock runs as fast. */
const speed = 200;
const withinMs = 60_000;

interface Cloud {
  readonly world: World;
  readonly url: string;
  readonly clock: Clock;
  readonly capacity: CapacityPort;
  readonly workers: TpuWorkers;
  act(verb: string, target?: string, options?: Readonly<Record<string, unknown>>): Promise<unknown>;
}

async function openCloud(t: Scope): Promise<Cloud> {
  const world = openWorld(t, { patienceMs: 10_000 });
  const emulator = await startEmulator({
    stateDir: join(world.folder, 'cloud'),
    env: world.env,
    isolation: 'none',
    speed,
    seed: 7,
  });
  world.atEnd(() => emulator.close());
  const begun = Date.now();
  const clock: Clock = {
    now: () => begun + (Date.now() - begun) * speed,
    at: () => () => undefined,
  };
  const endpoint = () => Promise.resolve(emulator.url);
  const credentials = createCredentials({
    endpoint,
    login: createLogin({
      run: () => Promise.reject(new Error('nobody logs in to this machine')),
      now: () => clock.now(),
    }),
  });
  const api = createTpuApi(createCaller({ env: {}, endpoint, credentials }));
  const login = { home: world.home, user: 'zephyr' };
  const pool = createSshPool({ ...login, userHome: world.folder, agent: null, sshArgs: [] });
  world.atEnd(() => {
    pool.close();
  });
  return {
    world,
    url: emulator.url,
    clock,
    capacity: createTpuCapacity({ apiFor: () => api, clock, sshKeyLines: (spec) => sshKeyLines(spec, login) }),
    workers: createTpuWorkers({
      ...login,
      pool,
      apiFor: () => api,
      sshFor: () => Promise.resolve({ port: emulator.sshPort, userConfig: false }),
      now: () => clock.now(),
    }),
    act: (verb, target, options) => admin(emulator.url, verb, target, options),
  };
}

/** One job, walked by the core over the adapter's looks. Nobody looks at its workers, so it never gets beyond its setup. */
class Walk {
  job: Job;
  readonly events: Event[] = [];
  readonly replies: { readonly key: string; readonly result: OutcomeResult }[] = [];
  readonly #cloud: Cloud;
  #outcomes: Outcome[] = [];

  constructor(cloud: Cloud, spec: Partial<TpuSpec>, id = '000001') {
    this.#cloud = cloud;
    const base = tpuRef({ spec: { project: 'p', accelerator: 'v4-16', ...spec } }).job.spec;
    const recovery = { ...base.recovery, preset: 'pre', rules: presets.pre };
    const at = cloud.clock.now();
    this.job = newJob({ id, installation: 'ab12cd', owner: 'alice', spec: { ...base, recovery }, at }).job;
  }

  get allocation(): AllocationRef {
    const allocation = lastAllocation(this.job);
    assert.ok(allocation);
    return { job: this.job, allocation };
  }

  /** What was last seen of each allocation. */
  get seen(): string {
    return this.job.allocations.map(({ seen, goneAt }) => (goneAt === null ? (seen?.state ?? '-') : 'gone')).join(' ');
  }

  /** One pass: look, decide, act. */
  async pass(): Promise<void> {
    const { capacity, clock } = this.#cloud;
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    const refs = this.job.allocations
      .filter((one) => mayExist(one) || one === lastAllocation(this.job))
      .map((allocation) => ({ job: this.job, allocation }));
    const facts = await capacity.look(refs);
    const allocations = refs.map(({ allocation }, index): AllocationFact => ({
      allocation: allocation.ordinal,
      fact: facts[index] ?? unknown('no answer', clock.now()),
    }));
    const observation = { admitted: true, allocations, workers: [], outcomes };
    const { job, events, actions } = reconcile(this.job, observation, clock.now());
    this.job = job;
    this.events.push(...events);
    for (const action of actions) {
      if (action.kind !== 'request' && action.kind !== 'release') continue;
      const ref = { job, allocation: allocationOf(job, action.allocation) };
      if (action.kind === 'release') this.#cloud.workers.forget(ref);
      const result = await capacity[action.kind](ref);
      this.replies.push({ key: subjectKey(action), result });
      this.#outcomes.push({ subject: action, at: clock.now(), result });
    }
  }

  /** Passes, until it is so. */
  async until(what: string, isSo: () => boolean): Promise<void> {
    const is = await eventually(
      async () => {
        await this.pass();
        return isSo();
      },
      { withinMs, everyMs: 50 },
    );
    const said = this.events.map((event) => JSON.stringify(event)).join('\n');
    assert.ok(is, `it never came to be that ${what}; seen: ${this.seen}\n${said}\n${JSON.stringify(this.replies)}`);
  }

  ready(): Promise<void> {
    return this.until('its newest allocation is ready', () => lastAllocation(this.job)?.seen?.state === 'ready');
  }

  /** As `cancel` does. */
  async end(): Promise<void> {
    this.job = { ...this.job, desired: 'end', cancelled: true, wish: null, desiredAt: this.#cloud.clock.now() };
    await this.until(
      'nothing is left',
      () => this.job.settled !== null && this.job.allocations.every((one) => !mayExist(one)),
    );
  }

  kinds(): string[] {
    return this.events.map(({ kind }) => kind);
  }
}

/** What exists, by the cloud's own account. */
async function existing({ url }: Cloud): Promise<string[]> {
  const found: string[] = [];
  for (const field of ['nodes', 'queuedResources']) {
    const reply = await fetch(`${url}/v2/projects/p/locations/us-central2-b/${field}`);
    const list = (await reply.json()) as Record<string, { name: string }[] | undefined>;
    for (const { name } of list[field] ?? []) found.push(name.replace(/^.*?\/locations\/[^/]+\//, ''));
  }
  return found;
}

function run(
  argv: readonly string[],
  world: World,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const [program = '', ...words] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, { env: world.env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, output }));
  });
}

const modes: readonly Mode[] = ['tpu-vm', 'queued-resources'];

for (const mode of modes) {
  suite(`in ${mode}`, () => {
    test('a job gets its TPU, reaches every worker of it, and leaves nothing', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await walk.ready();
      const { allocation, job } = walk.allocation;
      assert.equal(allocation.workers, 2);
      for (const worker of [0, 1]) {
        const ref = { job, allocation, worker };
        // READY does not mean that sshd answers already.
        const said = await eventually(
          async () => {
            const reach = await cloud.workers.reach(ref);
            assert.equal(reach.kind, 'open');
            const script = 'printf "%s %s" "$(id -un)" "$HOME"';
            const result = await reach.transport.run({ script, timeoutMs: 8 * second, outputMost: 1_000 });
            return result.kind === 'ended' && Buffer.from(result.stdout).toString();
          },
          { withinMs, everyMs: 100 },
        );
        assert.ok(said, `worker ${worker} answers`);
      }
      await walk.end();
      assert.deepEqual(await existing(cloud), []);
      assert.deepEqual([...new Set(walk.replies.map(({ result }) => result.kind))], ['done']);
    });

    test('a preemption is seen, and the job gets another', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await walk.ready();
      const first = walk.allocation.allocation.name;
      await cloud.act('preempt', first);
      await walk.until('the second allocation is ready', () => walk.seen === 'gone ready');
      const ended = walk.events.find((event) => event.kind === 'attempt_ended');
      assert.equal(ended?.kind === 'attempt_ended' && ended.reason, 'preempted');
      const second = walk.allocation.allocation.name;
      assert.notEqual(second, first);
      // Nothing is left of the first that would count against the quota.
      const expected = mode === 'tpu-vm' ? [`nodes/${second}`] : [`nodes/${second}`, `queuedResources/${second}`];
      assert.deepEqual(await existing(cloud), expected);
      await walk.end();
      assert.deepEqual(await existing(cloud), []);
    });

    test('a node that somebody deletes is missed, and replaced', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await walk.ready();
      const { name } = walk.allocation.allocation;
      await fetch(`${cloud.url}/v2/projects/p/locations/us-central2-b/nodes/${name}`, { method: 'DELETE' });
      await walk.until('the second allocation is ready', () => walk.seen === 'gone ready');
      await walk.end();
      assert.deepEqual(await existing(cloud), []);
    });

    test('replies that are lost cost nothing and make nothing twice', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await cloud.act('drop', 'create');
      await walk.ready();
      assert.equal(walk.replies[0]?.result.kind, 'unclear');
      assert.equal(walk.job.allocations.length, 1);
      assert.ok(!walk.kinds().includes('allocation_refused'));
      await cloud.act('drop', 'delete');
      await walk.end();
      assert.ok(walk.replies.some(({ key, result }) => key === 'release/1' && result.kind === 'unclear'));
      assert.deepEqual(await existing(cloud), []);
    });

    test('a cloud that answers every other question with a 503 is only slower', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await cloud.act('flaky', '*', { p: 0.5 });
      await walk.ready();
      assert.equal(walk.job.allocations.length, 1);
      for (let passes = 0; passes < 40; passes += 1) await walk.pass();
      assert.equal(walk.seen, 'ready');
      assert.equal(walk.job.attempts.length, 1);
      await walk.end();
      await cloud.act('clear', 'all');
      assert.deepEqual(await existing(cloud), []);
    });

    test('a release in the middle of being made gets through in the end', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await cloud.act('slow', 'all', { factor: 5 });
      await walk.until('it is being made', () =>
        ['provisioning', 'waiting'].includes(walk.allocation.allocation.seen?.state ?? ''),
      );
      await walk.end();
      assert.deepEqual(await existing(cloud), []);
    });

    test('a sweep finds what no record names, and lets it go', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await walk.ready();
      const { allocation, job } = walk.allocation;
      // A neighbour's, in the same project.
      const other = {
        job: { ...job, installation: 'zz99zz', id: '000002' },
        allocation: { ...allocation, name: 'theirs' },
      };
      assert.deepEqual(await cloud.capacity.request(other), { kind: 'done' });
      const found = await cloud.capacity.sweep([walk.allocation]);
      assert.equal(found.kind, 'known');
      assert.deepEqual(
        found.value.map((stray) => `${stray.job}/${stray.allocation} ${stray.resource.split('/').slice(-2).join('/')}`),
        [`000001/1 ${mode === 'tpu-vm' ? 'nodes' : 'queuedResources'}/${allocation.name}`],
      );
      for (const stray of found.value) assert.deepEqual(await cloud.capacity.releaseStray(stray), { kind: 'done' });
      const gone = await eventually(async () => (await existing(cloud)).every((name) => name.endsWith('/theirs')), {
        withinMs,
      });
      assert.ok(gone, 'only the neighbour’s is left');
      assert.notDeepEqual(await existing(cloud), []);
    });
  });
}

test('in tpu-vm a stockout is told with its error, once for each request, and waited out', async (t) => {
  const cloud = await openCloud(t);
  const walk = new Walk(cloud, { mode: 'tpu-vm' });
  await cloud.act('stockout', 'us-central2-b');
  const refusals = () => walk.events.filter((event) => event.kind === 'allocation_refused');
  await walk.until('three requests were refused', () => refusals().length >= 3);
  for (const { error } of refusals()) {
    assert.equal(error.kind, 'stockout');
    assert.match(error.raw, /no more capacity/);
  }
  const requests = walk.replies.filter(({ key }) => key === 'request/1').length;
  assert.ok(refusals().length <= requests, `${refusals().length} refusals for ${requests} requests`);
  await cloud.act('clear', 'all');
  await walk.ready();
  assert.equal(walk.job.allocations.length, 1);
  await walk.end();
  assert.deepEqual(await existing(cloud), []);
});

test('in the queue a stockout is a wait', async (t) => {
  const cloud = await openCloud(t);
  const walk = new Walk(cloud, { mode: 'queued-resources' });
  await cloud.act('stockout', 'us-central2-b');
  await walk.until('it waits', () => walk.seen === 'waiting');
  const until = cloud.clock.now() + 5 * minute;
  await walk.until('it has waited for a while', () => cloud.clock.now() > until);
  assert.equal(walk.seen, 'waiting');
  await cloud.act('clear', 'all');
  await walk.ready();
  await walk.end();
  assert.deepEqual(await existing(cloud), []);
});

test('a missing right ends the job with Google’s words', async (t) => {
  for (const mode of modes) {
    const cloud = await openCloud(t);
    const walk = new Walk(cloud, { mode });
    await cloud.act('permission', mode === 'tpu-vm' ? 'tpu.nodes.create' : 'tpu.queuedResources.create');
    await walk.until('it is settled', () => walk.job.settled !== null);
    assert.equal(walk.job.settled?.verdict, 'failed');
    const error = walk.events.find((event) => event.kind === 'allocation_refused')?.error;
    assert.equal(error?.kind, 'permission');
    assert.match(error?.raw ?? '', /denied/);
  }
});

test('a zone that does not exist, or is not open to the project, ends the job with Google’s words', async (t) => {
  for (const mode of modes) {
    const cloud = await openCloud(t);
    const nowhere = new Walk(cloud, { mode, zone: 'asia-northeast1-a' });
    await nowhere.until('nothing is left of it', () => nowhere.job.settled !== null && nowhere.seen === 'gone');
    const error = nowhere.events.find((event) => event.kind === 'allocation_refused')?.error;
    assert.match(error?.raw ?? '', /The requested zone "asia-northeast1-a" is not supported/);

    await cloud.act('permission', 'us-central2-b');
    const forbidden = new Walk(cloud, { mode });
    await forbidden.until('it is settled', () => forbidden.job.settled !== null);
    const refused = forbidden.events.find((event) => event.kind === 'allocation_refused')?.error;
    assert.match(refused?.raw ?? '', /Permission denied on 'locations\/us-central2-b'/);
    // Nobody may look there; but what was refused in so many words, each time, is nowhere.
    await forbidden.until('nothing is left of it', () => forbidden.seen === 'gone');
  }
});

test('the system’s ssh reaches a worker with the argv that we give it, and shows its own host key', async (t) => {
  if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
  const cloud = await openCloud(t);
  const walk = new Walk(cloud, { mode: 'tpu-vm' });
  await walk.ready();
  const ref = { ...walk.allocation, worker: 1 };
  const argv = async (...command: readonly string[]) => cloud.workers.sshArgv(ref, command);
  assert.ok((await argv()).includes('StrictHostKeyChecking=yes'), 'the cloud has told the host key');
  let last = '';
  const answered = await eventually(
    async () => {
      const { code, output } = await run(await argv('echo', "it's", '$HOME'), cloud.world);
      last = output;
      return code === 0;
    },
    { withinMs, everyMs: 200 },
  );
  assert.ok(answered, last);
  assert.match(last, /it's \$HOME\n$/);
  assert.equal((await run(await argv('exit 7'), cloud.world)).code, 7);
  // Nothing answers there any more: ssh gives up by itself, and nobody's terminal is held for good.
  await cloud.act('hang-host', `${walk.allocation.allocation.name}/1`);
  const hung = await run(await argv('true'), cloud.world);
  assert.equal(hung.code, 255, hung.output);
  await walk.end();
});
