// Names of nodes, the pace of requests, and slots.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { test } from 'node:test';
import { addAllocation, isPermanent, mayCreate, nodeName, retryDelay } from '../../src/core/decide/allocate.ts';
import { hashFraction, minute, second, hour } from '../../src/core/model/time.ts';
import { local, spec, tpu, World, freshJob, t0 } from './world.ts';
import {
  admit,
  demandsOf,
  isAdmitted,
  queuePositionOf,
  queuesOf,
  usageOf,
  withTpus,
} from '../../src/core/policy/admission.ts';
import type { Admitted, Demand, Usage } from '../../src/core/policy/admission.ts';
import { compareText } from '../../src/core/model/compare-text.ts';
import { ownHost, type TpuOperation } from '../../src/core/model/spec.ts';
import type { Job } from '../../src/core/model/job.ts';

test("the name of a node consists of the manifest's name, the job and the allocation", () => {
  assert.equal(nodeName(spec(), '000042', 3), 'iris-000042-3');
});

test('a long name is cut in its first part, so that the number stays', () => {
  const name = nodeName(spec({ capacity: { ...tpu, name: 'a'.repeat(80) } }), '000042', 12);
  assert.equal(name.length, 63);
  assert.ok(name.endsWith('-000042-12'));
});

test('a cut never leaves two dashes', () => {
  const name = nodeName(spec({ capacity: { ...tpu, name: `${'a'.repeat(53)}-bcd` } }), '000042', 1);
  assert.equal(name, `${'a'.repeat(53)}-000042-1`);
});

test('a persistent node keeps its own name, whatever the allocation', () => {
  assert.equal(nodeName(spec({ capacity: { ...tpu, ownership: 'persistent' } }), '000042', 7), 'iris');
  assert.equal(nodeName(spec({ capacity: local }), '000042', 1), 'this machine');
});

test('permanent errors are those that another request would get again', () => {
  const kinds = [
    'quota',
    'stockout',
    'permission',
    'invalid',
    'rate_limited',
    'not_found',
    'internal',
    'unreachable',
  ] as const;
  assert.deepEqual(kinds.filter(isPermanent), ['permission', 'invalid', 'not_found']);
});

for (const [kind, first, most] of [
  ['stockout', 30 * second, 10 * minute],
  ['quota', minute, 15 * minute],
  ['rate_limited', 2 * second, minute],
  ['internal', 5 * second, 2 * minute],
  ['unreachable', 5 * second, 2 * minute],
] as const) {
  test(`after ${kind} the delay doubles from ${first / second} s to ${most / second} s, varied by a quarter`, () => {
    for (let tries = 1; tries <= 40; tries += 1) {
      const expected = Math.min(most, first * 2 ** (tries - 1));
      const wait = retryDelay(kind, tries, '000001', 1);
      assert.ok(wait >= expected * 0.75 && wait <= expected * 1.25, `${wait} ms after ${tries}`);
    }
  });
}

test('jobs that fail together do not retry together', () => {
  const waits = new Set(
    Array.from({ length: 1000 }, (_, index) => retryDelay('stockout', 1, String(index).padStart(6, '0'), 1)),
  );
  assert.ok(waits.size > 900);
});

test('the hash is even: a thousand similar strings fill every tenth', () => {
  const tenths = Array.from({ length: 10 }, () => 0);
  for (let index = 0; index < 1000; index += 1) {
    const bucket = Math.floor(hashFraction('job', index) * 10);
    tenths[bucket] = (tenths[bucket] ?? 0) + 1;
  }
  assert.ok(
    tenths.every((count) => count > 60 && count < 140),
    tenths.join(' '),
  );
});

function waiting(id: string, at: number): Job {
  return { ...freshJob(spec({ capacity: local })).job, id, startRequest: { startMode: 'fresh', at } };
}

function holding(id: string): Job {
  const world = new World(spec({ capacity: local, steps: [] }));
  world.runUntilIdle();
  return { ...world.job, id };
}

function machine(slots: number) {
  return [{ name: ownHost, slots, gpus: null }];
}

function admitJobs(slots: number, jobs: readonly Job[], now: number, before?: Admitted) {
  return [...admit(machine(slots), demandsOf(jobs, before), usageOf(jobs), now).keys()];
}

test('a job deleted by force keeps its slot only for a program that may still run', () => {
  const running = { ...holding('000001'), removed: true };
  const inSetup = {
    ...running,
    attempts: running.attempts.map((one) => ({ ...one, startedAt: null, runningAt: null })),
  };
  assert.deepEqual(admitJobs(1, [running, waiting('000002', t0)], t0), ['000001']);
  assert.deepEqual(admitJobs(1, [inSetup, waiting('000002', t0)], t0), ['000002']);
});

test('holders of a slot keep it, and the longest waiting jobs get the free slots', () => {
  const jobs = [waiting('000003', 30), holding('000009'), waiting('000002', 20), waiting('000001', 40)];
  assert.deepEqual(admitJobs(2, jobs, 100), ['000009', '000002']);
});

test('of two jobs of the same time the lower number comes first', () => {
  assert.deepEqual(admitJobs(1, [waiting('000005', 1), waiting('000004', 1)], 100), ['000004']);
});

test('if the limit was lowered below the number of holders, all continue', () => {
  assert.deepEqual(admitJobs(1, [holding('000001'), holding('000002'), waiting('000003', 1)], 100), [
    '000001',
    '000002',
  ]);
});

test('a job gets a slot of each of its pools or none, keeps free slots from later jobs, and an unknown pool admits none', () => {
  const demand = (job: string, ...pools: string[]): Demand => {
    return { job, pools, since: Number(job), notBefore: 0, given: undefined };
  };
  const pools = [
    { name: 'gpu1', slots: 2, gpus: 4 },
    { name: 'gpu2', slots: 1, gpus: null },
  ];
  const usage = [{ job: '9', pools: ['gpu2'], slots: [{ slot: 0 }] }];
  const both = demand('1', 'gpu1', 'gpu2');
  const demands = [demand('5', 'gpu1', 'gone'), demand('4', 'gpu2'), demand('3', 'gpu1'), demand('2', 'gpu1'), both];
  assert.deepEqual(Object.fromEntries(admit(pools, demands, usage, 100)), {
    2: [{ slot: 1, gpus: [2, 3] }],
    9: [{ slot: 0 }],
  });
  assert.deepEqual(admit(pools, demands, [], 100).get('1'), [{ slot: 0, gpus: [0, 1] }, { slot: 0 }]);
});

test('slots keep their numbers: given ones, and used ones whose GPUs overlap those of the new slots', () => {
  const first = { job: '1', pools: ['gpu1'], since: 1, notBefore: 0, given: undefined };
  const given = { job: '2', pools: ['gpu1'], since: 2, notBefore: 0, given: [{ slot: 0, gpus: [0] }] };
  const usage = [{ job: '9', pools: ['gpu1'], slots: [{ slot: 1, gpus: [2, 3] }] }];
  // The host had two slots when job 9 began, and has four now.
  const admitted = admit([{ name: 'gpu1', slots: 4, gpus: 4 }], [first, given], usage, 100);
  assert.deepEqual(admitted.get('2'), [{ slot: 0, gpus: [0] }]);
  assert.deepEqual(admitted.get('1'), [{ slot: 1, gpus: [1] }]);
});

test('pools of any kind keep the promises of admission: here hosts with GPUs, and the TPUs of a type that a lab shares', () => {
  const pools = [
    { name: 'gpu1', slots: 2, gpus: 4 },
    { name: 'gpu2', slots: 1, gpus: null },
    // The number of the slot is the number of the TPU in the lab's list.
    { name: 'lab/v4-8', slots: 3, gpus: null },
  ];
  const names = fc.uniqueArray(fc.constantFrom(...pools.map(({ name }) => name), 'gone'), { minLength: 1 });
  const given = fc.record({ pools: names, since: fc.nat(5), notBefore: fc.constantFrom(0, 0, 0, Infinity) });
  const rounds = fc.array(fc.record({ asks: fc.array(given, { maxLength: 6 }), ended: fc.nat(3) }), { maxLength: 8 });
  fc.assert(
    fc.property(rounds, (all) => {
      let usage: readonly Usage[] = [];
      let waiting: readonly Demand[] = [];
      for (const [round, { asks, ended }] of all.entries()) {
        usage = usage.slice(ended);
        waiting = [...waiting, ...asks.map((ask, at) => ({ ...ask, job: `${round}-${at}`, given: undefined }))];
        const admitted = admit(pools, waiting, usage, 1);
        const begun = waiting.filter(({ job }) => admitted.has(job));
        const left = waiting.filter(({ job }) => !admitted.has(job));
        for (const { job } of usage) assert.ok(admitted.has(job), 'a job loses its slots');
        for (const { job, pools: asked } of begun) assert.equal(admitted.get(job)?.length, asked.length, 'all or none');
        usage = [...usage, ...begun.map(({ job, pools: of }) => ({ job, pools: of, slots: admitted.get(job) }))];
        for (const { name, slots } of pools) {
          const used = usage.flatMap(({ pools: of, slots: mine }) => mine?.[of.indexOf(name)]?.slot ?? []);
          assert.equal(new Set(used).size, used.length, `two jobs have one slot of ${name}`);
          assert.ok(used.length <= slots);
        }
        // A job waits only if a pool has no slot for it, apart from those kept for the jobs before it.
        const due = left.filter(({ notBefore, pools: of }) => notBefore <= 1 && !of.includes('gone'));
        for (const [at, { pools: of }] of due.toSorted(byAge).entries()) {
          const kept = (name: string) =>
            due
              .toSorted(byAge)
              .slice(0, at)
              .filter((one) => one.pools.includes(name)).length;
          assert.ok(
            of.some((name) => freeCount(name, usage) <= kept(name)),
            'a job waits that could run',
          );
        }
        waiting = left;
      }
    }),
  );

  function byAge(one: Demand, other: Demand): number {
    return one.since - other.since || compareText(one.job, other.job);
  }

  function freeCount(name: string, usage: readonly Usage[]): number {
    const used = usage.filter((one) => one.pools.includes(name)).length;
    return (pools.find((pool) => pool.name === name)?.slots ?? 0) - used;
  }
});

test('a queue position: the used slots, and the jobs ahead', () => {
  const jobs = [waiting('000003', 30), holding('000009'), waiting('000002', 20), waiting('000001', 40)];
  const turns = jobs.map((job) => queuePositionOf(machine(2), jobs, job));
  assert.deepEqual(turns, [
    { pool: 'localhost', slots: 2, slotsUsed: 1, usedBy: ['000009'], ahead: 1, after: [] },
    undefined,
    { pool: 'localhost', slots: 2, slotsUsed: 1, usedBy: ['000009'], ahead: 0, after: [] },
    { pool: 'localhost', slots: 2, slotsUsed: 1, usedBy: ['000009'], ahead: 2, after: [] },
  ]);
  const queue = {
    pool: 'localhost',
    slots: 2,
    slotsUsed: 1,
    usedBy: ['000009'],
    waiting: ['000002', '000003', '000001'],
  };
  assert.deepEqual(queuesOf(machine(2), jobs), [queue]);
  // The host had one slot when this job began: its GPUs are those of both slots now.
  const gpus = [0, 1];
  const both = holding('000009');
  const older = { ...both, allocations: both.allocations.map((one) => ({ ...one, slots: [{ slot: 0, gpus }] })) };
  const pools = [{ name: ownHost, slots: 2, gpus: 2 }];
  const [first] = jobs;
  assert.ok(first !== undefined);
  assert.equal(queuePositionOf(pools, [older, first], first)?.slotsUsed, 2);
  assert.equal(queuesOf(pools, [older, first])[0]?.slotsUsed, 2);
});

test('a job waits for the end of the jobs that it replaces, also on other TPUs', () => {
  const on = (id: string, name: string, changes: Partial<Job> = {}): Job => ({
    ...freshJob(spec({ capacity: { ...tpu, ownership: 'persistent', name } })).job,
    id,
    ...changes,
  });
  const old = on('000001', 'lab-v4');
  const startRequest = { startMode: 'fresh', at: t0, waitsForTpu: true, after: ['000001'] } as const;
  const next = on('000002', 'lab-v5', { startRequest });
  const admits = (...jobs: readonly Job[]) =>
    admit(withTpus([], jobs), demandsOf(jobs), usageOf(jobs), t0).has('000002');
  assert.equal(admits(old, next), false);
  assert.deepEqual(queuePositionOf([], [old, next], next)?.after, ['000001']);
  assert.equal(admits({ ...old, finish: { at: t0, verdict: 'cancelled', reason: 'stopped' } }, next), true);
});

test('a job that creates its TPU and runs there uses it alone, and creates it once', () => {
  const jobOn = (id: string, operation?: TpuOperation): Job => ({
    ...freshJob(spec({ capacity: { ...tpu, ownership: 'persistent', ...(operation !== undefined && { operation }) } }))
      .job,
    id,
  });
  const creating = jobOn('000002', { kind: 'create', withCommand: true });
  for (const [operation, expected] of [
    [{ kind: 'create', withCommand: true }, 1],
    [{ kind: 'create' }, 2],
  ] as const) {
    const jobs = [jobOn('000001'), jobOn('000002', operation)];
    assert.equal(new Set(usageOf(jobs).flatMap(({ pools }) => pools)).size, expected);
  }
  const { job } = addAllocation(creating, t0);
  assert.equal(job.allocations[0]?.requestedAt, null, 'it is requested from the cloud');
  const lost = { ...job, allocations: job.allocations.map((one) => ({ ...one, readyAt: t0 })) };
  assert.deepEqual(
    addAllocation(lost, t0).job.allocations.map((one) => mayCreate(lost, one)),
    [true, false],
    'a TPU that a user has deleted is not created again',
  );
});

test('a cloud job needs no slot, and a local job waits for one', () => {
  assert.equal(isAdmitted(new Map(), freshJob().job), true);
  assert.equal(isAdmitted(new Map(), waiting('000001', 1)), false);
  assert.equal(isAdmitted(new Map([['000001', []]]), waiting('000001', 1)), true);
});

/** Its first attempt has failed, and the next one has a backoff of that length. */
function pausing(id: string, pause: number): Job {
  const job = holding(id);
  const attempts = job.attempts.map((one) => ({
    ...one,
    startedAt: null,
    runningAt: null,
    createdAt: t0,
    notBeforeAt: t0 + pause,
  }));
  return { ...job, attempts };
}

test('a long backoff gives the slot up, and a short one keeps it', () => {
  const other = waiting('000002', t0);
  assert.deepEqual(admitJobs(1, [pausing('000001', 10 * minute), other], t0 + second), ['000002']);
  assert.deepEqual(admitJobs(1, [pausing('000001', 30 * second), other], t0 + second), ['000001']);
  const usedBy = [10 * minute, 30 * second].map(
    (pause) => queuesOf(machine(1), [pausing('000001', pause), other])[0]?.usedBy.length,
  );
  assert.deepEqual(usedBy, [0, 1], 'a list of the queue says the same');
});

test('after its backoff a job comes before later jobs, and after earlier start requests', () => {
  const jobs = [waiting('000002', t0 + hour), pausing('000001', 10 * minute)];
  const now = t0 + 11 * minute;
  assert.deepEqual(admitJobs(1, jobs, now), ['000001']);
  assert.deepEqual(admitJobs(1, jobs, now, new Map([['000002', [{ slot: 0 }]]])), ['000002']);
});

test('a job waits out its backoff without a slot, and then waits for a slot', () => {
  const world = new World(spec({ capacity: local, steps: [], preset: 'loop: failures' }));
  world.runUntilIdle();
  world.exitAll(1);
  world.admitted = false;
  world.runUntilIdle();
  const notBefore = world.job.attempts.at(-1)?.notBeforeAt ?? 0;
  assert.equal(world.job.attempts.length, 2);
  assert.ok(notBefore > world.now);
  assert.ok((world.decision?.wakeAt ?? Infinity) <= notBefore, 'no pass is planned at the end of the backoff');
  world.now = notBefore;
  world.runUntilIdle();
  assert.equal(world.decision?.wakeAt, undefined);
  assert.equal(world.job.attempts.at(-1)?.startedAt, null);
  world.admitted = true;
  world.runUntilIdle();
  assert.notEqual(world.job.attempts.at(-1)?.startedAt, null);
});
