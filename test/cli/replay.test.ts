import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { loseMachine } from '../../sim/world.ts';
import type { PassQuery } from '../../src/app/client.ts';
import type { RecordedStep, Store } from '../../src/app/ports.ts';
import { replayJob } from '../../src/app/replay.ts';
import type { PassOutput } from '../../src/cli/outputs.ts';
import type { Attempt } from '../../src/core/model/job.ts';
import { recordPass } from '../../src/core/model/recorded-pass.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { openSimulatedJob } from '../controller/simulated-job.ts';
import { simulatedSpec } from '../support/builders.ts';
import { run } from '../support/output-schema.ts';
import { createCliHarness, jsonLines } from './support/harness.ts';

const hasRun = (attempt: Attempt | undefined): boolean => typeof attempt?.runningAt === 'number';

/** A job that was preempted once, and that its owner has cancelled. */
async function openCancelledJob(t: TestContext) {
  const stores: Store[] = [];
  const job = await openSimulatedJob({
    spec: simulatedSpec('vit', 'spot'),
    store(real) {
      stores.push(real);
      return real;
    },
  });
  t.after(() => job.close());
  const [store] = stores;
  assert.ok(store !== undefined);
  await job.runUntil(({ attempts }) => hasRun(attempts[0]), 5 * minute);
  const machine = job.world.machines.find(({ name }) => name.startsWith('vit'));
  assert.ok(machine !== undefined);
  loseMachine(job.world, machine, 'preempted');
  await job.runUntil(({ attempts }) => hasRun(attempts[1]), 10 * minute);
  await job.command('cancel');
  await job.runUntil(
    ({ finish, allocations }) => finish !== null && allocations.at(-1)?.lifecycle === 'gone',
    10 * minute,
  );
  return {
    job,
    store,
    replay: async (args: readonly string[], change = (steps: readonly RecordedStep[]) => steps) => {
      const cli = createCliHarness({
        passes: async (id, query: PassQuery) => replayJob(await job.job(), change(await store.passes(id)), query),
      });
      const code = await run(['replay', '000001', ...args], cli.services);
      return { code, out: cli.out(), err: cli.err() };
    },
  };
}

test('replay shows what each pass saw and decided, and that this version decides the same', async (t) => {
  const { replay } = await openCancelledJob(t);
  const { code, out } = await replay([]);
  assert.equal(code, 0);
  const preempted = out.slice(out.indexOf('  preempted: '));
  assert.doesNotMatch(out, /no slot is free/u, 'a TPU job needs none, and a finished job neither');
  assert.match(
    out,
    /^000001 vit \(owner\)\n\S+Z {2}start-requested: the job can run, and its next attempt is created now\n/,
  );
  assert.match(preempted, /preempted: the cloud took the allocation away\n +saw +allocation 1 is lost/);
  assert.match(preempted, /\n +decided +ending attempt 1: preempted/);
  assert.match(preempted, /\n +rule pre: preempted -> new allocation, resume \(1 of \d+ used\)/);
  assert.match(out, /Z {2}owner requested cancel: end the program and release the capacity\n/);
  assert.match(out, /\n +saw +start attempt 2 on worker 0: done\n/);
  // After the command nothing new was seen.
  assert.match(out, /stop-requested: [^\n]*\n +decided +ending attempt 2/);
  const decided = await replay(['--decide']);
  assert.match(
    decided.out,
    /^000001 vit \(owner\)\nVersion 1\.2\.3 makes the same decision in \d\d recorded passes\.\n$/,
  );
  assert.equal(decided.code, 0);
});

test('replay --attempt shows the passes of one attempt, and --json the recorded facts', async (t) => {
  const { replay } = await openCancelledJob(t);
  const all = jsonLines<PassOutput>((await replay(['--json'])).out);
  const ofSecond = jsonLines<PassOutput>((await replay(['--json', '--attempt', '2'])).out);
  assert.ok(ofSecond.length > 3);
  assert.deepEqual(
    ofSecond,
    all.filter(({ attempt }) => attempt === 2),
  );
  assert.deepEqual(
    all.map(({ pass }) => pass),
    all.map((_, index) => index + 1),
  );
  assert.ok(all.every(({ recorded, situation }) => (recorded === null) === (situation === null)));
  const absent = await replay(['--attempt', '9']);
  assert.deepEqual([absent.code, absent.err], [3, 'jobman: Job 000001 has no attempt 9; it has 2 attempts.\n']);
});

test('replay --decide shows only the passes that this version decides differently', async (t) => {
  const { store, replay } = await openCancelledJob(t);
  const last = (await store.passes('000001')).findLast(({ inputs }) => inputs !== null);
  const stored = await store.load('000001');
  assert.ok(last !== undefined && stored !== undefined);
  const now = last.at + second;
  // A decision of other rules: they repeat the release of an allocation that is gone.
  const observation = { admitted: true, allocations: [], workers: [], outcomes: [] };
  const release = { kind: 'release', allocation: 2 } as const;
  const decision = { job: stored.job, events: [], actions: [release], wakeAt: now + minute };
  const pass = recordPass(observation, decision, { now, version: '0.9.0' });
  const record = { pass, maxCount: 2_000, since: 0 };
  await store.commit({ ...stored, events: [], foldedOutcomes: [], wakeAt: null, epoch: null, record });
  const { code, out } = await replay(['--decide']);
  assert.equal(code, 1);
  const lines = out.split('\n').map((line) => line.trim());
  assert.deepEqual(lines.slice(2, -2), [
    'recorded  actions: release allocation 2',
    'today     actions: nothing',
    `recorded  next: check at ${new Date(now + minute).toISOString().slice(0, 19)}Z`,
    'today     next: no further check',
  ]);
  assert.match(lines.at(-2) ?? '', /^Version 1\.2\.3 decides differently in 1 of \d\d recorded passes\.$/);
  assert.equal(jsonLines<PassOutput>((await replay(['--decide', '--json'])).out).length, 1);
});

test('replay says which passes cannot be read, and shows the others', async (t) => {
  const { replay } = await openCancelledJob(t);
  const unreadable = (steps: readonly RecordedStep[]) =>
    steps.map((step, index) => (index < 3 ? { ...step, inputs: null } : step));
  const note =
    'The inputs of 3 passes cannot be read: another version of jobman recorded them or changed the job after them.';
  for (const args of [[], ['--decide']]) {
    const { code, out } = await replay(args, unreadable);
    assert.equal(code, 0);
    assert.equal(out.split('\n').at(-2), note);
  }
  const none = await replay([], () => []);
  assert.deepEqual([none.code, none.out], [0, '000001 vit (owner)\nNo pass is recorded that can be decided again.\n']);
});
