// Alternatives: the next one to request, and the answers for other jobs.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { Action } from '../../src/core/model/decision.ts';
import { withLifecycle, capacityOf } from '../../src/core/model/job.ts';
import type { CloudErrorKind, Job } from '../../src/core/model/job.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { violationsOf } from '../../sim/pass-invariants.ts';
import { known } from '../../src/core/model/observation.ts';
import type { AllocationStatus, Observation, OutcomeResult } from '../../src/core/model/observation.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { reconcile } from '../../src/core/decide/reconcile.ts';
import type { TpuSpec } from '../../src/core/model/spec.ts';
import { hour, minute, second } from '../../src/core/model/time.ts';
import { World, spec, tpu, tpuWithAlternatives, freshJob, t0 } from './world.ts';
import { answersIn, answersToOtherJobs } from '../../src/core/decide/capacity-answers.ts';
import type { AnswerRecord } from '../../src/core/decide/capacity-answers.ts';

/** The answer of each alternative; one without an entry provides capacity. */
type Answers = Readonly<Record<number, CloudErrorKind | 'waiting' | 'unclear'>>;

/** A world of alternatives. Each request is recorded with its alternative and time. */
class AlternativesWorld extends World {
  answers: Answers = {};
  otherAnswers: Observation['alternativeAnswers'];
  readonly asked: { readonly alternative: number; readonly at: number }[] = [];
  readonly faults_: string[] = [];

  constructor(answers: Answers = {}, capacity: TpuSpec = tpuWithAlternatives) {
    super(spec({ capacity, steps: [] }));
    this.answers = answers;
    this.onPass = (before, observation, decision, now) => {
      this.faults_.push(...violationsOf({ before, observation, decision, now }));
    };
  }

  /** The answers of alternatives from now on. One with capacity also provides it to its queue. */
  turn(answers: Answers): void {
    this.answers = answers;
    for (const [ordinal, node] of this.nodes) {
      const alternative = this.job.allocations[ordinal - 1]?.alternative ?? 0;
      if (answers[alternative] === undefined && node.state === 'waiting') node.state = 'ready';
    }
  }

  override observe(): Observation {
    return {
      ...super.observe(),
      ...(this.otherAnswers === undefined ? {} : { alternativeAnswers: this.otherAnswers }),
    };
  }

  override perform(action: Action): OutcomeResult {
    if (action.kind !== 'request') return super.perform(action);
    const alternative = this.job.allocations[action.allocation - 1]?.alternative ?? 0;
    this.asked.push({ alternative, at: this.now });
    const answer = this.answers[alternative];
    if (answer === undefined) return super.perform(action);
    if (answer === 'unclear') return { kind: 'unclear', evidence: { message: 'lost' } };
    if (answer === 'waiting') {
      this.nodes.set(action.allocation, this.newNode('waiting'));
      return { kind: 'done' };
    }
    const error = { kind: answer, message: `the cloud said ${answer}`, raw: answer };
    const isFinal = answer === 'permission' || answer === 'invalid';
    return { kind: isFinal ? 'refused' : 'failed', evidence: { message: error.message }, error };
  }

  /** The alternatives in the order of their requests. */
  get order(): readonly number[] {
    return this.asked.map(({ alternative }) => alternative);
  }

  get phase(): string {
    return phaseOf(this.job);
  }
}

suite('an alternative without capacity', () => {
  for (const answer of ['stockout', 'quota'] as const) {
    test(`${answer}: the next one is requested at once, and a program there is found there`, () => {
      const world = new AlternativesWorld({ 0: answer });
      world.runUntil(() => world.phase === 'running', minute);
      assert.deepEqual(world.order, [0, 1]);
      assert.equal(world.asked[1]?.at, world.asked[0]?.at);
      const capacity = capacityOf(world.job, world.job.allocations.at(-1));
      assert.ok(capacity.kind === 'tpu');
      assert.deepEqual(
        [capacity.zone, capacity.accelerator, capacity.pricePerHourUsd],
        ['europe-west4-a', 'v5litepod-16', 7],
      );
      assert.ok(world.eventKinds().includes('alternative_exhausted'));
      assert.deepEqual(world.faults_, []);
    });
  }

  test('after a full round each alternative has its own delay, and each round requests all of them', () => {
    const world = new AlternativesWorld({ 0: 'stockout', 1: 'quota', 2: 'stockout' });
    world.runUntil(() => world.asked.length >= 12, 3 * hour);
    for (let round = 0; round < 4; round += 1) {
      assert.deepEqual(
        world.order.slice(3 * round, 3 * round + 3).toSorted((one, other) => one - other),
        [0, 1, 2],
        `round ${round}`,
      );
    }
    const waits = (alternative: number): readonly number[] => {
      const times = world.asked.filter((one) => one.alternative === alternative).map(({ at }) => at);
      return times.slice(1).map((at, index) => at - (times[index] ?? 0));
    };
    for (const [alternative, first] of [30 * second, minute, 30 * second].entries()) {
      for (const [index, wait] of waits(alternative).entries())
        assert.ok(wait >= 0.75 * first * 2 ** index, `${alternative}: ${wait}`);
    }
    assert.deepEqual(world.faults_, []);
  });

  test('capacity that returns in the first alternative is found in its next round', () => {
    const world = new AlternativesWorld({ 0: 'stockout', 1: 'stockout', 2: 'stockout' });
    world.runUntil(() => world.asked.length >= 3, hour);
    world.answers = { 1: 'stockout', 2: 'stockout' };
    world.runUntil(() => world.phase === 'running', hour);
    assert.deepEqual(world.order, [0, 1, 2, 0]);
  });
});

suite('an alternative that refuses the request', () => {
  test('invalid: is skipped for the rest of the attempt', () => {
    const world = new AlternativesWorld({ 0: 'invalid', 1: 'stockout', 2: 'stockout' });
    world.runUntil(() => world.asked.length >= 7, 3 * hour);
    assert.deepEqual(world.order.filter((alternative) => alternative === 0).length, 1);
    assert.equal(world.job.finish, null);
    assert.deepEqual(world.faults_, []);
  });

  test('permission: delays no other alternative, and is requested again from time to time', () => {
    const world = new AlternativesWorld({ 0: 'permission', 1: 'stockout', 2: 'stockout' });
    const began = world.now;
    world.runUntil(() => world.asked.length >= 7, 3 * hour);
    assert.ok(world.now - began < 10 * minute, 'the others were delayed');
    assert.deepEqual(world.order.slice(0, 3), [0, 1, 2]);
    world.runUntil(() => world.now - began > 2 * hour, 3 * hour);
    const times = world.asked.filter(({ alternative }) => alternative === 0).map(({ at }) => at);
    assert.ok(times.length >= 5 && times.length <= 17, `asked ${times.length} times in two hours`);
    assert.deepEqual(world.faults_, []);
  });

  test('permission: once it is granted, the alternative is used in the same attempt', () => {
    const world = new AlternativesWorld({ 0: 'permission', 1: 'stockout', 2: 'stockout' });
    world.runUntil(() => world.asked.length >= 7, 3 * hour);
    world.answers = { 1: 'stockout', 2: 'stockout' };
    world.runUntil(() => world.phase === 'running', hour);
    assert.equal(world.job.attempts.length, 1);
    assert.equal(world.order.at(-1), 0);
    assert.deepEqual(world.faults_, []);
  });

  test('a queue is not left for an alternative without permission', () => {
    const alternatives = (tpuWithAlternatives.alternatives ?? []).slice(0, 1);
    const world = new AlternativesWorld({ 0: 'permission', 1: 'waiting' }, { ...tpuWithAlternatives, alternatives });
    world.runUntil(() => false, 5 * hour);
    assert.deepEqual(world.order, [0, 1]);
  });

  test('the job fails only when no alternative is left, and releases nothing that did not exist', () => {
    const world = new AlternativesWorld({ 0: 'permission', 1: 'invalid', 2: 'permission' });
    world.runUntilFinished();
    assert.deepEqual(world.order, [0, 1, 2]);
    assert.equal(world.job.finish?.reason, 'allocation_failed');
    assert.match(world.job.attempts[0]?.ending?.evidence.message ?? '', /permission/);
    assert.deepEqual(world.faults_, []);
  });

  test('a later attempt requests it again: the permission may have been granted', () => {
    const world = new AlternativesWorld({ 0: 'permission' });
    world.runUntil(() => world.phase === 'running', hour);
    world.answers = {};
    world.preempt();
    world.runUntil(() => world.job.attempts.length === 2 && world.phase === 'running', hour);
    assert.deepEqual(world.order, [0, 1, 0]);
  });
});

test('temporary errors of the API leave the request in its alternative, at the pace of the error', () => {
  for (const answer of ['internal', 'rate_limited', 'unreachable'] as const) {
    const world = new AlternativesWorld({ 0: answer });
    world.runUntil(() => world.asked.length >= 3, hour);
    assert.deepEqual(world.order, [0, 0, 0], answer);
    assert.equal(world.job.allocations.length, 1);
  }
});

test('a queue that takes too long is left for another alternative once the waiting request is deleted', () => {
  const world = new AlternativesWorld({ 0: 'waiting' });
  world.runUntil(() => world.phase === 'running', 2 * hour);
  assert.deepEqual(world.order, [0, 1]);
  const waited = (world.asked[1]?.at ?? 0) - (world.asked[0]?.at ?? 0);
  assert.ok(waited >= 20 * minute && waited <= 20 * minute + 5 * second, `${waited}`);
  assert.ok((world.job.allocations[0]?.goneAt ?? Infinity) <= (world.asked[1]?.at ?? 0));
  assert.deepEqual([...world.nodes.keys()], [2]);
  assert.deepEqual(world.faults_, []);
});

test('machines that are being created are not left, however long they take', () => {
  const world = new AlternativesWorld();
  world.runUntilIdle();
  world.node.state = 'provisioning';
  world.job = {
    ...world.job,
    allocations: world.job.allocations.map((one) => withLifecycle({ ...one, readyAt: null })),
  };
  world.runUntil(() => false, hour);
  assert.deepEqual(world.order, [0]);
});

test('a request without an answer is released before another alternative is requested', () => {
  const world = new AlternativesWorld({ 0: 'unclear' });
  world.runUntil(() => world.asked.length >= 1, minute);
  world.answers = { 0: 'stockout' };
  world.runUntil(() => world.phase === 'running', hour);
  assert.deepEqual(world.order.slice(-1), [1]);
  assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  assert.deepEqual(world.faults_, []);
});

suite("another job's answer", () => {
  const answerOf = (world: World, alternative: number, ago: number, answer: 'stockout' | 'ready' = 'stockout') =>
    known([{ alternative, answer, at: world.now - ago }], world.now);

  test('recent: the alternative is skipped, with an event, and requested when the other has no capacity either', () => {
    const world = new AlternativesWorld({ 1: 'stockout' });
    world.otherAnswers = answerOf(world, 0, minute);
    world.runUntil(() => world.phase === 'running', hour);
    assert.deepEqual(world.order, [1, 2]);
    assert.ok(world.eventKinds().includes('alternative_skipped'));
    const all = new AlternativesWorld({ 1: 'stockout', 2: 'stockout' });
    all.otherAnswers = answerOf(all, 0, minute);
    all.runUntil(() => all.phase === 'running', hour);
    assert.deepEqual(all.order, [1, 2, 0]);
  });

  test('old, or positive: it is requested first', () => {
    for (const [ago, answer] of [
      [10 * minute, 'stockout'],
      [-minute, 'stockout'],
      [second, 'ready'],
    ] as const) {
      const world = new AlternativesWorld();
      world.otherAnswers = answerOf(world, 0, ago, answer);
      world.runUntil(() => world.phase === 'running', hour);
      assert.deepEqual(world.order, [0], `${ago} ${answer}`);
    }
  });

  test('for all alternatives: the first is requested nevertheless, at once', () => {
    const world = new AlternativesWorld();
    world.otherAnswers = known(
      [0, 1, 2].map((alternative) => ({ alternative, answer: 'stockout' as const, at: world.now - minute })),
      world.now,
    );
    const began = world.now;
    world.runUntil(() => world.phase === 'running', hour);
    assert.deepEqual([world.order, world.asked[0]?.at], [[0], began]);
  });
});

test('one list without an accepted request does not prove that the request is gone', () => {
  const world = new AlternativesWorld({ 0: 'waiting' });
  world.runUntil(() => false, 19 * minute);
  const now = world.now + 2 * minute;
  const passAt = (seen: AllocationStatus): Job =>
    reconcile(
      world.job,
      { ...world.observe(), outcomes: [], allocations: [{ allocation: 1, observed: known(seen, now) }] },
      now,
    ).job;
  assert.equal(passAt({ state: 'absent', detail: 'not found' }).attempts[0]?.allocation, 1);
  assert.equal(passAt({ state: 'waiting', detail: 'WAITING' }).attempts[0]?.allocation, 2);
});

test('an alternative whose reply was lost is requested once more before a list without the request counts', () => {
  const world = new AlternativesWorld({ 0: 'unclear' });
  world.runUntil(() => world.job.allocations[0]?.hasUnansweredRequest === true, minute);
  // The request has arrived. No pass runs until the wait there is over, and then the list lacks it once.
  world.nodes.set(1, world.newNode('ready'));
  world.now += 21 * minute;
  world.omitNext = true;
  world.pass();
  assert.equal(world.job.attempts[0]?.allocation, 1);
  world.runUntil(() => world.phase === 'running', minute);
  assert.deepEqual([world.job.attempts[0]?.allocation, [...world.nodes.keys()]], [1, [1]]);
  assert.deepEqual(world.faults_, []);
});

test('an alternative whose replies are all lost is left when the wait there is over', () => {
  const world = new AlternativesWorld({ 0: 'unclear' });
  world.runUntil(() => world.phase === 'running', hour);
  assert.deepEqual([world.phase, world.order.at(-1)], ['running', 1]);
  assert.ok(world.now - world.job.createdAt < 25 * minute);
  assert.deepEqual(world.faults_, []);
});

test('the wait in a queue counts from its acceptance, however long the cloud was unreachable', () => {
  const world = new AlternativesWorld({ 0: 'waiting' });
  for (let passes = 0; world.decision?.actions[0]?.kind !== 'request' && passes < 5; passes += 1) world.pass();
  // Its sender was killed, and the cloud is unreachable for half an hour.
  world.isCloudUp = false;
  world.runUntil(() => false, 30 * minute);
  world.isCloudUp = true;
  world.runUntil(() => world.asked.length > 0, minute);
  const entered = world.now;
  world.runUntil(() => world.order.includes(1), hour);
  assert.equal(world.order[0], 0);
  assert.ok(world.now - entered >= 19 * minute, `it was left after ${world.now - entered} ms`);
  assert.deepEqual(world.faults_, []);
});

test('the invariants hold and capacity is found, whatever the alternatives answer', () => {
  const answer = fc.constantFrom(undefined, 'stockout', 'quota', 'permission', 'internal', 'waiting', 'unclear');
  const answersByDay = fc.array(fc.tuple(answer, answer, answer), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(answersByDay, (days) => {
      const world = new AlternativesWorld();
      for (const day of days) {
        world.turn(Object.fromEntries([...day.entries()].filter(([, one]) => one !== undefined)) as Answers);
        world.runUntil(() => world.phase === 'running' || world.job.finish !== null, 20 * minute);
      }
      // A queue is not left for alternatives without permission, because the job would lose its position: it must move.
      world.turn({});
      world.runUntil(() => world.phase === 'running' || world.job.finish !== null, 3 * hour);
      assert.deepEqual(world.faults_, []);
      const passed = world.job.attempts.at(-1)?.alternativesTried ?? [];
      const isClosed = passed.filter(({ answer }) => answer === 'permission').length >= 2;
      // Nor can an attempt leave an alternative that was closed while a request there may have succeeded.
      const isShut =
        world.job.allocations.at(-1)?.hasUnansweredRequest === true &&
        world.job.attempts.at(-1)?.ending?.evidence.raw === 'permission';
      assert.ok(world.phase === 'running' || (world.phase === 'failed' && (isClosed || isShut)), world.phase);
    }),
    {
      numRuns: 60,
      // It waits in the one queue that is open to it, and gets its capacity.
      examples: [[[['permission', 'permission', 'waiting']]]],
    },
  );
});

test('weeks of refusals leave one allocation in the job, and all refusals in its history', () => {
  const world = new AlternativesWorld({ 0: 'stockout', 1: 'quota', 2: 'permission' });
  world.runUntil(() => world.asked.length >= 1_000, 60 * 24 * hour);
  assert.equal(world.asked.length >= 1_000, true);
  assert.equal(world.job.allocations.length, 1);
  assert.equal(world.job.attempts[0]?.alternativesTried?.length, 3);
  assert.equal(world.eventKinds().filter((kind) => kind === 'alternative_exhausted').length >= 999, true);
  assert.deepEqual(historyMismatches(world.events, world.job), []);
});

suite('an allocation whose requests were all refused', () => {
  test('is gone when a command ends the job, although the zone no longer answers', () => {
    const world = new AlternativesWorld({ 0: 'stockout' }, tpu);
    world.runUntil(() => world.asked.length >= 2, hour);
    world.isCloudUp = false;
    world.command('cancel');
    world.runUntilFinished();
    assert.equal(world.decision?.wakeAt, undefined, 'nothing is left to wait for');
    assert.ok(world.job.allocations.every(({ goneAt }) => goneAt !== null));
    assert.deepEqual(world.faults_, []);
  });

  test('is not gone while the answer to the newest request is missing', () => {
    const world = new AlternativesWorld({ 0: 'stockout' }, tpu);
    world.runUntil(() => world.asked.length >= 2, hour);
    world.outcomes = [];
    world.now += hour;
    world.pass();
    assert.deepEqual(
      world.decision?.actions.map(({ kind }) => kind),
      ['request'],
    );
    world.command('cancel');
    world.pass();
    assert.ok(world.job.allocations.every(({ goneAt }) => goneAt === null));
    assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  });

  test('an allocation that was missed once and is unknown now is not observed every second', () => {
    const world = new AlternativesWorld({}, tpu);
    world.runUntil(() => world.phase === 'running', hour);
    world.command('cancel');
    world.runUntil(() => world.job.allocations[0]?.releasedAt !== null, hour);
    world.omitNext = true;
    world.pass();
    assert.notEqual(world.job.allocations[0]?.firstMissedAt, null);
    world.isCloudUp = false;
    world.now += hour;
    world.pass();
    assert.ok((world.decision?.wakeAt ?? 0) - world.now >= 5 * second);
  });

  test('is not gone while another controller’s request without an answer may still take effect', () => {
    const world = new AlternativesWorld({ 0: 'stockout' }, tpu);
    for (let passes = 0; world.decision?.actions[0]?.kind !== 'request' && passes < 5; passes += 1) world.pass();
    assert.deepEqual(world.decision?.actions, [{ kind: 'request', allocation: 1 }], 'its sender was killed');
    world.pass({ ...world.observe(), unansweredRequests: [1] });
    world.performActions();
    world.pass();
    assert.equal(world.job.allocations[0]?.lastError?.error.kind, 'stockout', 'its successor is refused');
    world.isCloudUp = false;
    world.command('cancel');
    world.pass();
    assert.ok(world.job.allocations.every(({ goneAt }) => goneAt === null));
    assert.deepEqual(world.faults_, []);
  });
});

test('a refusal and a success are recorded with the alternative, the time and the wait', () => {
  const world = new World(spec({ steps: [] }));
  const records: AnswerRecord[] = [];
  world.onPass = (_before, _observation, { job, events }) => void records.push(...answersIn(job, events));
  world.refusal = {
    kind: 'failed',
    evidence: { message: 'no' },
    error: { kind: 'stockout', message: 'no', raw: '' },
  };
  world.runUntilIdle();
  world.refusal = null;
  world.runUntil(() => records.length > 1, hour);
  const { project, zone, accelerator, pricing } = tpu;
  assert.deepEqual(
    records.map((one) => ({ ...one, waited: 0, at: 0 })),
    ['stockout', 'ready'].map((answer) => ({
      project,
      zone,
      accelerator,
      pricing,
      answer,
      job: '000001',
      waited: 0,
      at: 0,
    })),
  );
  assert.ok((records[1]?.waited ?? 0) >= 22 * second, 'from the first request on');
});

test('a refused recreation of a persistent TPU counts as an answer of its alternative, and a ready one does not', () => {
  const records: string[] = [];
  for (const state of ['refused', 'ready']) {
    const world = new World(spec({ steps: [], capacity: { ...tpu, ownership: 'persistent' } }));
    world.runUntilIdle();
    const error = { kind: 'stockout', message: 'no', raw: '' } as const;
    const at = { at: world.now, allocation: 1 };
    const event =
      state === 'refused'
        ? { kind: 'allocation_refused' as const, error, ...at }
        : { kind: 'allocation_seen' as const, state: 'ready' as const, message: '', ...at };
    records.push(...answersIn(world.job, [event]).map(({ answer }) => answer));
  }
  assert.deepEqual(records, ['stockout']);
});

test('API errors, and capacity that no job requests, are not answers of an alternative', () => {
  const failed = new World(spec({ steps: [] }));
  const records: AnswerRecord[] = [];
  failed.onPass = (_before, _observation, { job, events }) => void records.push(...answersIn(job, events));
  failed.refusal = { kind: 'failed', evidence: { message: 'no' }, error: { kind: 'internal', message: 'no', raw: '' } };
  failed.runUntil(() => failed.job.allocations[0]?.errorCount === 3, hour);
  const persistent = new World(spec({ steps: [], capacity: { ...tpu, ownership: 'persistent' } }));
  persistent.onPass = failed.onPass;
  persistent.runUntilIdle();
  assert.deepEqual(records, []);
});

test('another job gets the newest answer of each of its alternatives, and none of its own', () => {
  const { job } = freshJob(spec({ capacity: tpuWithAlternatives }));
  const own = { project: tpu.project, zone: tpu.zone, accelerator: tpu.accelerator, pricing: tpu.pricing };
  const at = (answer: AnswerRecord['answer'], ago: number, by: string, alternative = own): AnswerRecord => ({
    ...alternative,
    answer,
    at: t0 - ago,
    waited: 0,
    job: by,
  });
  const answers = [
    at('stockout', minute, '000007'),
    at('ready', hour, '000007'),
    at('quota', second, '000001'),
    at('stockout', second, '000007', { ...own, zone: 'us-east5-b' }),
    at('ready', second, '000009', { ...own, pricing: 'ondemand' }),
  ];
  assert.deepEqual(answersToOtherJobs(job, answers), [
    { alternative: 0, answer: 'stockout', at: t0 - minute },
    { alternative: 2, answer: 'ready', at: t0 - second },
  ]);
});
