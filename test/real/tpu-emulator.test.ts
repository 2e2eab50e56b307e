// The TPU adapter and the TPU emulator, written separately from the same facts, run together here, with the core
// deciding. Each job is handled as by the controller (observe, reconcile, act), on a clock that is faster than real
// time, because the core waits for minutes.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AllocationRef, CapacityPort, Clock } from '../../src/app/ports.ts';
import { createTpuCapacity } from '../../src/backends/tpu/capacity.ts';
import { createSshLogins } from '../../src/remote/ssh-logins.ts';
import { createTpuWorkers, sshKeyLines } from '../../src/backends/tpu/workers.ts';
import type { TpuWorkers } from '../../src/backends/tpu/workers.ts';
import { newJob, allocationOf, lastAllocation, mayExist } from '../../src/core/model/job.ts';
import type { Job } from '../../src/core/model/job.ts';
import { subjectKey } from '../../src/core/model/decision.ts';
import type { Event } from '../../src/core/model/event.ts';
import { unknown } from '../../src/core/model/observation.ts';
import type { AllocationObservation, Outcome, OutcomeResult } from '../../src/core/model/observation.ts';
import { reconcile } from '../../src/core/decide/reconcile.ts';
import { presets } from '../../src/core/policy/presets.ts';
import type { TpuSpec } from '../../src/core/model/spec.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { tpuRef } from '../backends/tpu/support/refs.ts';
import { eventually } from '../support/eventually.ts';
import { run } from '../support/program.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openInProcessEmulator, type InProcessEmulator } from '../support/in-process-emulator.ts';
import { transportResult } from '../../src/remote/transport.ts';
import type { Scope } from '../support/world.ts';

type Mode = TpuSpec['mode'];

/** The emulator creates a node in half a second, and the core's clock runs at the same speed. */
const speed = 200;
const withinMs = 60_000;

interface Cloud extends InProcessEmulator {
  readonly clock: Clock;
  readonly capacity: CapacityPort;
  readonly workers: TpuWorkers;
  readonly logins: ReturnType<typeof createSshLogins>;
}

async function openCloud(t: Scope): Promise<Cloud> {
  const cloud = await openInProcessEmulator(t, 'none');
  const { api, login, pool, sshFor } = cloud;
  const begun = Date.now();
  const now = (): number => begun + (Date.now() - begun) * speed;
  const clock: Clock = { now, at: () => () => undefined };
  const apiFor = () => api;
  return {
    ...cloud,
    clock,
    capacity: createTpuCapacity({ apiFor, clock, sshKeyLines: (spec, job) => sshKeyLines(spec, job, login) }),
    workers: createTpuWorkers({ ...login, pool, apiFor, sshAccessFor: sshFor, now }),
    logins: createSshLogins({ home: cloud.world.home, pool }),
  };
}

/** One job, driven by the core over the adapter's observations. Its workers are not observed, so it stays in setup. */
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

  /** The last observation of each allocation. */
  get seen(): string {
    return this.job.allocations
      .map(({ lastObserved: seen, goneAt }) => (goneAt === null ? (seen?.state ?? '-') : 'gone'))
      .join(' ');
  }

  /** One pass: observe, decide, act. */
  async pass(): Promise<void> {
    const { capacity, clock } = this.#cloud;
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    const refs = this.job.allocations
      .filter((one) => mayExist(one) || one === lastAllocation(this.job))
      .map((allocation) => ({ job: this.job, allocation }));
    const facts = await capacity.observe(refs);
    const allocations = refs.map(({ allocation }, index): AllocationObservation => ({
      allocation: allocation.ordinal,
      observed: facts[index] ?? unknown('no answer', clock.now()),
    }));
    const observation = { admitted: true, allocations, workers: [], outcomes };
    const { job, events, actions } = reconcile(this.job, observation, clock.now());
    this.job = job;
    this.events.push(...events);
    for (const action of actions) {
      if (action.kind !== 'request' && action.kind !== 'release') continue;
      const ref = { job, allocation: allocationOf(job, action.allocation) };
      if (action.kind === 'release') this.#cloud.workers.disconnect(ref);
      const result = await capacity[action.kind](ref);
      this.replies.push({ key: subjectKey(action), result });
      this.#outcomes.push({ subject: action, at: clock.now(), result });
    }
  }

  /** Repeats passes until the condition holds. */
  async until(what: string, isSo: () => boolean): Promise<void> {
    const is = await eventually(
      async () => {
        await this.pass();
        return isSo();
      },
      { withinMs, everyMs: 50 },
    );
    const events = this.events.map((event) => JSON.stringify(event)).join('\n');
    assert.ok(is, `timed out: ${what}; seen: ${this.seen}\n${events}\n${JSON.stringify(this.replies)}`);
  }

  ready(): Promise<void> {
    return this.until(
      'its newest allocation is ready',
      () => lastAllocation(this.job)?.lastObserved?.state === 'ready',
    );
  }

  /** Cancels the job. */
  async end(): Promise<void> {
    this.job = {
      ...this.job,
      desired: 'cancelled',
      cancelRequested: true,
      startRequest: null,
      desiredAt: this.#cloud.clock.now(),
    };
    await this.until(
      'nothing is left',
      () => this.job.finish !== null && this.job.allocations.every((one) => !mayExist(one)),
    );
  }

  /** The errors of its requests. */
  refusals() {
    return this.events.flatMap((event) => (event.kind === 'allocation_refused' ? [event.error] : []));
  }
}

/** The existing resources, according to the emulator. */
async function existing({ url }: Cloud): Promise<string[]> {
  const found: string[] = [];
  for (const field of ['nodes', 'queuedResources']) {
    const reply = await fetch(`${url}/v2/projects/p/locations/us-central2-b/${field}`);
    const list = (await reply.json()) as Record<string, { name: string }[] | undefined>;
    for (const { name } of list[field] ?? []) found.push(name.replace(/^.*?\/locations\/[^/]+\//, ''));
  }
  return found;
}

const modes: readonly Mode[] = ['tpu-vm', 'queued-resources'];

/** A test of one job with its own emulator. At the end the job is cancelled, and nothing may remain. */
function walkTest(name: string, mode: Mode, play: (cloud: Cloud, walk: Walk) => Promise<void>): void {
  test(name, async (t) => {
    const cloud = await openCloud(t);
    const walk = new Walk(cloud, { mode });
    await play(cloud, walk);
    await walk.end();
    await cloud.admin('clear', 'all');
    assert.deepEqual(await existing(cloud), []);
  });
}

for (const mode of modes) {
  suite(`in ${mode}`, () => {
    walkTest('a job gets its TPU, reaches every worker, and leaves nothing', mode, async (cloud, walk) => {
      await walk.ready();
      const { allocation, job } = walk.allocation;
      assert.equal(allocation.workers, 2);
      for (const worker of [0, 1]) {
        // READY does not mean that sshd answers already.
        const answers = async () => {
          const reach = await transportResult(cloud.workers.transport({ job, allocation, worker }));
          assert.equal(reach.kind, 'open');
          const script = 'printf "%s %s" "$(id -un)" "$HOME"';
          const result = await reach.transport.run({ script, timeoutMs: 8 * second, maxOutputBytes: 1_000 });
          return result.kind === 'ended' && Buffer.from(result.stdout).toString();
        };
        assert.ok(await eventually(answers, { withinMs, everyMs: 100 }), `worker ${worker} answers`);
      }
      await walk.end();
      assert.deepEqual([...new Set(walk.replies.map(({ result }) => result.kind))], ['done']);
    });

    walkTest('a preemption is observed, and the job gets another TPU', mode, async (cloud, walk) => {
      await walk.ready();
      const first = walk.allocation.allocation.name;
      await cloud.admin('preempt', first);
      await walk.until('the second allocation is ready', () => walk.seen === 'gone ready');
      const ended = walk.events.find((event) => event.kind === 'attempt_ended');
      assert.equal(ended?.kind === 'attempt_ended' && ended.reason, 'preempted');
      const next = walk.allocation.allocation.name;
      assert.notEqual(next, first);
      // Nothing of the first allocation counts against the quota.
      const expected = mode === 'tpu-vm' ? [`nodes/${next}`] : [`nodes/${next}`, `queuedResources/${next}`];
      assert.deepEqual(await existing(cloud), expected);
    });

    walkTest('a deleted node is noticed and replaced', mode, async (cloud, walk) => {
      await walk.ready();
      const { name } = walk.allocation.allocation;
      await fetch(`${cloud.url}/v2/projects/p/locations/us-central2-b/nodes/${name}`, { method: 'DELETE' });
      await walk.until('the second allocation is ready', () => walk.seen === 'gone ready');
    });

    walkTest('lost replies cost nothing and create nothing twice', mode, async (cloud, walk) => {
      await cloud.admin('drop', 'create');
      await walk.ready();
      assert.equal(walk.replies[0]?.result.kind, 'unclear');
      assert.equal(walk.job.allocations.length, 1);
      assert.deepEqual(walk.refusals(), []);
      await cloud.admin('drop', 'delete');
      await walk.end();
      assert.ok(walk.replies.some(({ key, result }) => key === 'release/1' && result.kind === 'unclear'));
    });

    walkTest('an API that answers every second request with 503 is only slower', mode, async (cloud, walk) => {
      await cloud.admin('flaky', '*', { p: 0.5 });
      await walk.ready();
      assert.equal(walk.job.allocations.length, 1);
      for (let passes = 0; passes < 40; passes += 1) await walk.pass();
      assert.equal(walk.seen, 'ready');
      assert.equal(walk.job.attempts.length, 1);
    });

    walkTest('a release during the creation succeeds eventually', mode, async (cloud, walk) => {
      await cloud.admin('slow', 'all', { factor: 5 });
      const isBegun = () => ['provisioning', 'waiting'].includes(walk.allocation.allocation.lastObserved?.state ?? '');
      await walk.until('it is being made', isBegun);
    });

    test('orphan collection finds resources that no job claims, and releases them', async (t) => {
      const cloud = await openCloud(t);
      const walk = new Walk(cloud, { mode });
      await walk.ready();
      const { allocation, job } = walk.allocation;
      // A node of another installation in the same project.
      const neighbour = { ...job, installation: 'zz99zz', id: '000002' };
      const theirs = { job: neighbour, allocation: { ...allocation, name: 'theirs' } };
      assert.deepEqual(await cloud.capacity.request(theirs), { kind: 'done' });
      const found = await cloud.capacity.listLabelled([walk.allocation]);
      assert.equal(found.kind, 'known');
      assert.deepEqual(
        found.value.map(
          (orphan) => `${orphan.job}/${orphan.allocation} ${orphan.resource.split('/').slice(-2).join('/')}`,
        ),
        [`000001/1 ${mode === 'tpu-vm' ? 'nodes' : 'queuedResources'}/${allocation.name}`],
      );
      for (const orphan of found.value) assert.deepEqual(await cloud.capacity.releaseOrphan(orphan), { kind: 'done' });
      const isGone = async () => (await existing(cloud)).every((name) => name.endsWith('/theirs'));
      assert.ok(await eventually(isGone, { withinMs }), 'only the other installation’s node is left');
      assert.notDeepEqual(await existing(cloud), []);
    });

    test('a missing permission, or a zone that does not exist or is closed, ends the job with Google’s message', async (t) => {
      const cloud = await openCloud(t);
      const right = mode === 'tpu-vm' ? 'tpu.nodes.create' : 'tpu.queuedResources.create';
      for (const [permission, zone, message] of [
        [right, 'us-central2-b', /denied/],
        // The zone cannot be observed, but every request was refused definitely, so nothing exists.
        ['us-central2-b', 'us-central2-b', /Permission denied on 'locations\/us-central2-b'/],
        [null, 'asia-northeast1-a', /The requested zone "asia-northeast1-a" is not supported/],
      ] as const) {
        await cloud.admin('clear', 'all');
        if (permission !== null) await cloud.admin('permission', permission);
        const walk = new Walk(cloud, { mode, zone });
        await walk.until('it is finished', () => walk.job.finish !== null);
        assert.equal(walk.job.finish?.verdict, 'failed');
        assert.match(walk.refusals()[0]?.raw ?? '', message);
        if (permission === right) assert.equal(walk.refusals()[0]?.kind, 'permission');
        else await walk.until('nothing of it is left', () => walk.seen === 'gone');
      }
    });
  });
}

walkTest('a stockout is reported with its error, once per request, and waited out', 'tpu-vm', async (cloud, walk) => {
  await cloud.admin('stockout', 'us-central2-b');
  await walk.until('three requests were refused', () => walk.refusals().length >= 3);
  for (const error of walk.refusals()) {
    assert.equal(error.kind, 'stockout');
    assert.match(error.raw, /no more capacity/);
  }
  const [refusals, requests] = [walk.refusals(), walk.replies.filter(({ key }) => key === 'request/1')];
  assert.ok(refusals.length <= requests.length, `${refusals.length} refusals for ${requests.length} requests`);
  await cloud.admin('clear', 'all');
  await walk.ready();
  assert.equal(walk.job.allocations.length, 1);
});

walkTest('in the queue a stockout is a wait', 'queued-resources', async (cloud, walk) => {
  await cloud.admin('stockout', 'us-central2-b');
  await walk.until('it waits', () => walk.seen === 'waiting');
  const until = cloud.clock.now() + 5 * minute;
  await walk.until('it has waited for a while', () => cloud.clock.now() > until);
  assert.equal(walk.seen, 'waiting');
  await cloud.admin('clear', 'all');
  await walk.ready();
});

test("the system’s ssh reaches a worker with our argv, and sees the worker's own host key", async (t) => {
  if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
  const cloud = await openCloud(t);
  const walk = new Walk(cloud, { mode: 'tpu-vm' });
  await walk.ready();
  const ref = { ...walk.allocation, worker: 1 };
  const argv = async (...command: readonly string[]) => cloud.logins.sshArgv(await cloud.workers.login(ref), command);
  assert.ok((await argv()).includes('StrictHostKeyChecking=yes'), 'the API has published the host key');
  const env = { env: cloud.world.env };
  let last = '';
  const answers = async () => {
    const { code, stdout, stderr } = await run(await argv('echo', "it's", '$HOME'), env);
    last = stderr + stdout;
    return code === 0;
  };
  assert.ok(await eventually(answers, { withinMs, everyMs: 200 }), last);
  assert.match(last, /it's \$HOME\n$/);
  assert.equal((await run(await argv('exit 7'), env)).code, 7);
  // The worker no longer answers: ssh times out by itself and does not block a terminal forever.
  await cloud.admin('hang-host', `${walk.allocation.allocation.name}/1`);
  const hung = await run(await argv('true'), env);
  assert.equal(hung.code, 255, hung.stderr);
  await walk.end();
});
