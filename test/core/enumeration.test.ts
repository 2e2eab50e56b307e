// Enumeration of small jobs: from every reachable job, every possible observation. Each of these passes must keep the
// invariants, must not throw, and must come to rest when the world does not change.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitsForSlot } from '../../src/core/policy/admission.ts';
import { applyCommand } from '../../src/core/decide/commands.ts';
import { checkAction, jobActions, permissionOf } from '../../src/core/policy/permissions.ts';
import type { JobCommand } from '../../src/core/policy/permissions.ts';
import type { CommandOptions, Verb } from '../../src/core/decide/commands.ts';
import type { Change, Action } from '../../src/core/model/decision.ts';
import type { Event } from '../../src/core/model/event.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { lastAllocation, mayExist } from '../../src/core/model/job.ts';
import type { Job } from '../../src/core/model/job.ts';
import { violationsOf } from '../../sim/pass-invariants.ts';
import { known, unknown } from '../../src/core/model/observation.ts';
import type {
  AllocationStatus,
  Observed,
  Observation,
  OutcomeResult,
  RunStatus,
  WorkerStatus,
} from '../../src/core/model/observation.ts';
import { phaseOf, phaseSince } from '../../src/core/decide/phase.ts';
import { reconcile } from '../../src/core/decide/reconcile.ts';
import { situations } from '../../src/core/decide/situations.ts';
import type { JobSpec, WorkerId } from '../../src/core/model/spec.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import type { Duration, Instant } from '../../src/core/model/time.ts';
import { aMember } from '../support/builders.ts';
import { World, local, spec, tpu, tpuWithAlternatives } from './world.ts';

/** Every command of the owner, with each of its options. */
const commands: readonly (readonly [Verb, Omit<CommandOptions, 'by'>])[] = [
  ['start', {}],
  ['start', { commandOnly: true }],
  ['stop', {}],
  ['stop', { release: true }],
  ['resume', {}],
  ['rerun', {}],
  ['cancel', {}],
  ['delete', {}],
  ['delete', { force: true }],
  ['disable-recovery', {}],
  ['accept-exit', {}],
];

function sights(workers: number): readonly AllocationStatus[] {
  return [
    { state: 'absent', detail: '' },
    { state: 'waiting', detail: 'WAITING_FOR_RESOURCES' },
    { state: 'provisioning', detail: 'CREATING' },
    { state: 'ready', detail: 'READY', workers },
    { state: 'interrupted', detail: 'REPAIRING' },
    { state: 'lost', detail: 'PREEMPTED', cause: 'preempted' },
    { state: 'lost', detail: 'FAILED', cause: 'failed', error: { kind: 'stockout', message: 'no capacity', raw: '' } },
    { state: 'releasing', detail: 'DELETING' },
    { state: 'foreign', detail: 'READY' },
  ];
}

/** Every observation of one worker: none, or its setup and the runs of this attempt and the one before. */
function workerSights(job: Job, now: Instant): readonly Observed<WorkerStatus>[] {
  const attempt = job.attempts.at(-1)?.ordinal ?? 1;
  const proofs = job.spec.steps.map(({ key }) => key);
  const seen = (runs: readonly RunStatus[], proven = proofs): Observed<WorkerStatus> =>
    known({ bootId: 'b', proofs: proven, runs }, now);
  const running: RunStatus = { attempt, state: 'running', startedAt: now - minute, outputAt: now - second };
  const hung: RunStatus = { ...running, startedAt: now - 2 * minute, outputAt: now - 2 * minute };
  const matched = { attempt, pattern: 'grpc', line: 'UNAVAILABLE' };
  const hanging: Observed<WorkerStatus> = known({ bootId: 'b', proofs, runs: [hung], matched }, now);
  return [
    // Silent as long as the job says, and since just now.
    unknown('no answer', lastAllocation(job)?.unreachableAt ?? now),
    ...(lastAllocation(job)?.unreachableWho === 'worker' ? [unknown('no answer', now)] : []),
    seen([], []),
    seen([]),
    seen([{ attempt, state: 'starting', since: now }]),
    seen([running]),
    seen([{ attempt, state: 'exited', exitCode: 0, endedAt: now }]),
    seen([{ attempt, state: 'exited', exitCode: 1, endedAt: now }]),
    seen([{ attempt, state: 'vanished', detail: 'restarted' }]),
    ...(job.spec.limits.failedCallTimeoutMs === undefined && job.spec.limits.silenceTimeoutMs === null
      ? []
      : [hanging]),
    ...(attempt > 1 ? [seen([{ ...running, attempt: attempt - 1 }])] : []),
  ];
}

/** Every combination of the workers' observations. */
function combinations<T>(lists: readonly (readonly T[])[]): readonly (readonly T[])[] {
  return lists.reduce<readonly (readonly T[])[]>(
    (found, list) => found.flatMap((head) => list.map((item) => [...head, item])),
    [[]],
  );
}

function observations(job: Job, workers: number, now: Instant): readonly Observation[] {
  const newest = lastAllocation(job);
  const admitted = true;
  const turns = waitsForSlot(job) ? [true, false] : [true];
  if (newest === undefined)
    return turns.map((turn) => ({ admitted: turn, allocations: [], workers: [], outcomes: [] }));
  const earlier = job.allocations.filter((one) => one !== newest && mayExist(one));
  const numbered: readonly WorkerId[] = Array.from({ length: workers }, (_, index) => index);
  const candidates: readonly WorkerId[] =
    job.spec.command.runsOn === 'controller' ? [...numbered, 'controller'] : numbered;
  const found: Observation[] = [];
  const facts: readonly Observed<AllocationStatus>[] = [
    unknown('no answer', now),
    { ...unknown('not allowed', now), refused: 'permission' },
    ...sights(workers).map((seen) => known(seen, now)),
  ];
  for (const observed of facts) {
    // An earlier allocation either exists or is missed, whatever the newest does.
    const others = earlier.map(({ ordinal }) => ({ allocation: ordinal, observed }));
    const allocations = [...others, { allocation: newest.ordinal, observed }];
    const isLookedAt = observed.kind === 'unknown' ? newest.readyAt !== null : observed.value.state === 'ready';
    const asked = job.finish === null ? candidates.filter((worker) => worker === 'controller' || isLookedAt) : [];
    for (const seen of combinations(asked.map(() => workerSights(job, now)))) {
      const workerFacts = seen.map((one, index) => ({
        allocation: newest.ordinal,
        worker: asked[index] ?? 0,
        observed: one,
      }));
      found.push({ admitted, allocations, workers: workerFacts, outcomes: [] });
    }
  }
  const refusedHere = known([{ alternative: 0, answer: 'stockout' as const, at: now }], now);
  const withAnswers = found.slice(0, 3).map((one) => ({ ...one, alternativeAnswers: refusedHere }));
  const withSpending = [0.9, 1].flatMap((share) => {
    const ownerBudget = { grant: 'all TPUs', period: 'day', endsAt: now + hour } as const;
    const spending = { spentUsd: share, budgetUsd: 1, rateUsd: 0.1, ownerBudget };
    return found.slice(-2).map((one) => ({ ...one, ownerSpending: known([spending], now) }));
  });
  return [...found, ...withAnswers, ...withSpending].flatMap((one) =>
    turns.map((turn) => ({ ...one, admitted: turn })),
  );
}

function replies(actions: readonly Action[], now: Instant): readonly Observation['outcomes'][] {
  const evidence = { message: 'no' };
  const results: readonly OutcomeResult[] = [
    { kind: 'done' },
    { kind: 'failed', evidence, error: { kind: 'stockout', message: 'no capacity', raw: '' } },
    { kind: 'refused', evidence, error: { kind: 'permission', message: 'not allowed', raw: '' } },
    { kind: 'unclear', evidence },
  ];
  if (actions.length === 0) return [];
  return results.map((result) => actions.map((action) => ({ subject: action, at: now, result })));
}

/** Two jobs that differ only in times count as one. */
function shape(job: Job): string {
  const { spec: _spec, situation: _row, ...rest } = job;
  return JSON.stringify(rest, (_key, value: unknown) => (typeof value === 'number' && value > 1e9 ? 'then' : value));
}

interface Node {
  readonly job: Job;
  readonly events: readonly Event[];
  readonly now: Instant;
  readonly actions: readonly Action[];
}

/** The situations that decided a pass of any job here. */
const rowsReached = new Set<string>();

/** `stop allow` and the like: every answer to the owner of any job here. */
const answersReached = new Set<string>();

const owner = aMember('alice');
const others = [aMember('bob'), aMember('bob', { role: 'admin' }), aMember('bob', { role: 'viewer' })];

/** The role decides, then the state of the job, which is the same for all who may give the command. */
function checkActions(job: Job): void {
  const forOwner = jobActions(job, owner);
  for (const [name, expected] of Object.entries(forOwner)) {
    const command = name as JobCommand;
    answersReached.add(`${command} ${expected.answer}`);
    for (const actor of others) {
      const permission = permissionOf(actor, job, command);
      const ownedBy = `job ${job.id} (${job.spec.name}) belongs to ${job.owner}`;
      const message = permission === 'confirm' ? ownedBy : checkMessage(job, command);
      const refused = { answer: permission, cause: 'permission', message };
      const isDecidedByState = permission !== 'deny' && expected.answer === 'deny';
      const wanted = isDecidedByState || permission === 'allow' ? expected : refused;
      assert.deepEqual(jobActions(job, actor)[command], wanted, `${actor.role}: ${command}`);
      const alone = checkAction(job, command, actor);
      assert.deepEqual(
        alone,
        permission === 'allow' ? expected : refused,
        `${actor.role}: ${command} in their own name`,
      );
      const onBehalf = checkAction(job, command, actor, { onBehalfOf: 'alice' });
      assert.deepEqual(onBehalf, permission === 'deny' ? refused : expected, `${actor.role}: ${command} for alice`);
    }
  }
}

/** The sentence for a user who is not the owner. */
function checkMessage(job: Job, command: JobCommand): string {
  const check = checkAction(job, command, aMember('bob', { role: 'viewer' }));
  return check.answer === 'allow' ? '' : check.message;
}

/** Creates jobs from which rows are reached that are many passes away from a new job. */
type Seed = (world: World) => void;

function hasStarted({ job }: World): boolean {
  return job.finish === null && (job.attempts[0]?.startedAt ?? null) !== null;
}

const failedOnce: Seed = (world) => {
  world.runUntilIdle();
  if (!hasStarted(world)) return;
  world.exitAll(1);
  world.runUntil(() => world.job.attempts.length > 1 || world.job.finish !== null);
};

const stoppedAndResumed: Seed = (world) => {
  world.runUntilIdle();
  world.command('stop');
  world.runUntilIdle();
  world.command('resume');
  world.pass();
};

const seeds: readonly Seed[] = [
  () => undefined,
  // Its request is sent.
  (world) => {
    world.pass();
    world.pass();
  },
  // The start of its command is committed, and no worker has started it.
  (world) => {
    // An operation first waits for the release of its TPU.
    for (let pass = 0; pass < 20 && world.job.finish === null && !hasStarted(world); pass += 1) {
      world.performActions();
      world.pass();
    }
  },
  // Its command runs.
  (world) => world.runUntilIdle(),
  failedOnce,
  // Its command was killed, and the cloud has not reported the cause.
  (world) => {
    world.runUntilIdle();
    if (hasStarted(world)) world.exitAll(137);
    world.pass();
  },
  // A rule has created the next attempt, and its owner has disabled recovery.
  (world) => {
    failedOnce(world);
    world.command('disable-recovery');
  },
  stoppedAndResumed,
  // It was resumed on its kept capacity, which does not answer.
  (world) => {
    stoppedAndResumed(world);
    for (const { workers } of world.nodes.values()) for (const worker of workers) worker.isAnswering = false;
    world.pass();
  },
  // It was created while another job used its persistent TPU.
  (world) => {
    const { job } = world;
    if (job.spec.capacity.ownership === 'persistent' && job.startRequest !== null)
      world.job = { ...job, startRequest: { ...job.startRequest, waitsForTpu: true } };
  },
];

function seeded(given: JobSpec, workers: number): readonly Node[] {
  return seeds.map((begin) => {
    const world = new World(given);
    world.workerCount = workers;
    if (given.capacity.ownership === 'persistent') world.recreateNode();
    begin(world);
    return { job: world.job, events: world.events, now: world.now, actions: world.decision?.actions ?? [] };
  });
}

/** Breadth-first from the seeds, until the space is exhausted or that many jobs have been visited. */
function explore(given: JobSpec, workers: number, most: number): { readonly records: number; readonly passes: number } {
  const queue: Node[] = [...seeded(given, workers)];
  const seen = new Set(queue.map(({ job }) => shape(job)));
  let passes = 0;
  let records = 0;
  for (const node of queue) {
    if (records >= most) break;
    records += 1;
    const { job } = node;
    const add = (next: Change, now: Instant, actions: readonly Action[]): void => {
      const key = shape(next.job);
      if (next.job.attempts.length > 4 || next.job.allocations.length > 4 || seen.has(key)) return;
      seen.add(key);
      const events = [...node.events, ...next.events];
      assert.deepEqual(historyMismatches(events, next.job), []);
      queue.push({ job: next.job, events, now, actions });
    };
    for (const wait of [second, 11 * second, 4 * minute]) {
      const now: Instant = node.now + wait;
      const seenNow = observations(job, workers, now);
      const plain = seenNow[0];
      const withReplies =
        plain === undefined ? [] : replies(node.actions, now).map((outcomes) => ({ ...plain, outcomes }));
      for (const observation of [...seenNow, ...withReplies]) {
        passes += 1;
        const decision = reconcile(job, observation, now);
        const faults = violationsOf({ before: job, observation, decision, now });
        assert.deepEqual(
          faults,
          [],
          JSON.stringify({ job: { ...job, spec: undefined }, observation, decision: { ...decision, job: undefined } }),
        );
        phaseOf(decision.job);
        assert.ok(phaseSince(decision.job) <= now);
        rowsReached.add(decision.job.situation ?? '');
        add(decision, now, decision.actions);
      }
    }
    checkActions(job);
    for (const [verb, options] of commands) {
      if (checkAction(job, verb, owner, options).answer !== 'allow') continue;
      add(applyCommand(job, verb, { by: 'alice', ...options }, node.now), node.now, node.actions);
    }
  }
  return { records, passes };
}

const small = { budget: { preemptions: 1, failures: 1, setupFailures: 1 } };

function smallSpec(changes: Parameters<typeof spec>[0] = {}, delay?: Duration): JobSpec {
  const full = spec(changes);
  const recovery = { ...full.recovery, ...small, ...(delay !== undefined && { delayMs: delay }) };
  return { ...full, recovery, limits: { ...full.limits, setupTries: 2 } };
}

const most = Number(process.env['JOBMAN_ENUMERATE'] ?? 60);

/** Jobs that differ in their possible events. `share` reduces the space of jobs with many workers. */
const cases: readonly {
  readonly name: string;
  readonly given: JobSpec;
  readonly workers?: number;
  readonly share?: number;
}[] = [
  { name: 'a spot TPU of one worker', given: smallSpec() },
  { name: 'a spot TPU of two workers', given: smallSpec({ preset: 'loop: failures' }), workers: 2, share: 4 },
  { name: 'a TPU with alternatives', given: smallSpec({ capacity: tpuWithAlternatives }) },
  {
    name: 'a persistent TPU that a rule recreates',
    given: smallSpec({ preset: 'reapply', capacity: { ...tpu, ownership: 'persistent' } }),
  },
  {
    name: 'a persistent TPU that is never recreated',
    given: smallSpec({ preset: 'pass', capacity: { ...tpu, ownership: 'persistent' } }),
  },
  {
    name: 'a command on this machine that drives a TPU',
    given: smallSpec({ command: { ...spec().command, runsOn: 'controller' } }),
    share: 4,
  },
  {
    // A backoff of more than a minute gives the slot up.
    name: 'this machine',
    given: smallSpec({ preset: 'loop: true', capacity: local, steps: [] }, 3 * minute),
  },
  {
    name: 'limits on everything',
    given: smallSpec({
      preset: 'rerun',
      limits: { maxRuntimeMs: 3 * minute, silenceTimeoutMs: minute, capacityWaitMs: 3 * minute, setupTries: 2 },
    }),
  },
  {
    name: 'a budget of dollars',
    given: smallSpec({ limits: { ...spec().limits, budgetUsd: 0.5 } }),
  },
  {
    name: 'a limit on the silence after a failed call',
    given: smallSpec({ limits: { ...spec().limits, failedCallTimeoutMs: minute } }),
  },
  {
    name: 'setup without a command',
    given: smallSpec({ command: { ...spec().command, isSetupOnly: true } }),
    share: 2,
  },
  ...(['create', 'recreate', 'delete'] as const).map((kind) => ({
    name: `an operation that is to ${kind} its persistent TPU`,
    given: smallSpec({
      preset: 'reapply',
      capacity: {
        ...tpu,
        ownership: 'persistent',
        operation: kind === 'create' ? { kind } : { kind, creationTime: 'node 1' },
      },
      command: { ...spec().command, isSetupOnly: true },
    }),
    share: 2,
  })),
  { name: 'a command for no worker', given: smallSpec({ command: { ...spec().command, workers: [] } }), share: 2 },
  {
    name: 'a command for a worker that is not there',
    given: smallSpec({ command: { ...spec().command, workers: [7] } }),
    share: 2,
  },
  { name: 'capacity that is kept', given: smallSpec({ finish: { capacity: 'keep', keepForMs: 10 * minute } }) },
];

for (const { name, given, workers = 1, share = 1 } of cases) {
  test(`the invariants hold in every reachable job and observation of ${name}`, () => {
    const { records, passes } = explore(given, workers, most / share);
    assert.ok(records > 10 && passes > 1000, `only ${records} records and ${passes} passes were visited`);
  });
}

test('the enumeration reaches every row of the situation table', () => {
  assert.deepEqual(
    situations.map(({ name }) => name).filter((name) => !rowsReached.has(name)),
    [],
  );
});

test('the enumeration reaches jobs that accept each command and jobs that refuse it', () => {
  const { delete: _, ...commandsOfPhases } = jobActions(new World().job, owner);
  const both = Object.keys(commandsOfPhases).flatMap((command) => [`${command} allow`, `${command} deny`]);
  assert.deepEqual(
    both.filter((one) => !answersReached.has(one)),
    [],
  );
});
