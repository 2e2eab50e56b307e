// Alternatives: which is asked next, and what the answers tell other jobs.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { Action } from '../../src/core/decision.ts';
import { withLife, capacityOf } from '../../src/core/job.ts';
import type { CloudErrorKind, Job } from '../../src/core/job.ts';
import { historyTellsTheState } from '../../sim/pass-history.ts';
import { broken } from '../../sim/pass-laws.ts';
import { known } from '../../src/core/observation.ts';
import type { AllocationSeen, Observation, OutcomeResult } from '../../src/core/observation.ts';
import { phaseOf } from '../../src/core/phase.ts';
import { reconcile } from '../../src/core/reconcile.ts';
import type { TpuSpec } from '../../src/core/spec.ts';
import { hour, minute, second } from '../../src/core/time.ts';
import { World, spec, tpu, tpuOfPlaces, freshJob, t0 } from './world.ts';
import { answersIn, saidToOthers } from '../../src/core/alternatives.ts';
import type { PlaceAnswered } from '../../src/core/alternatives.ts';

/** What each place answers; a place that is not named gives one. */
type Answers = Readonly<Record<number, CloudErrorKind | 'waiting' | 'unclear'>>;

/** A world of places. Every request is written down with its place and its moment. */
class Places extends World {
  answers: Answers = {};
  said: Observation['places'];
  readonly asked: { readonly place: number; readonly at: number }[] = [];
  readonly faults_: string[] = [];

  constructor(answers: Answers = {}, capacity: TpuSpec = tpuOfPlaces) {
    super(spec({ capacity, steps: [] }));
    this.answers = answers;
    this.onPass = (before, observation, decision, now) => {
      this.faults_.push(...broken({ before, observation, decision, now }));
    };
  }

  /** What places answer from now on. In one that gives, whatever was waiting in its queue is given. */
  turn(answers: Answers): void {
    this.answers = answers;
    for (const [ordinal, node] of this.nodes) {
      const place = this.job.allocations[ordinal - 1]?.place ?? 0;
      if (answers[place] === undefined && node.state === 'waiting') node.state = 'ready';
    }
  }

  override observe(): Observation {
    return { ...super.observe(), ...(this.said === undefined ? {} : { places: this.said }) };
  }

  override perform(action: Action): OutcomeResult {
    if (action.kind !== 'request') return super.perform(action);
    const place = this.job.allocations[action.allocation - 1]?.place ?? 0;
    this.asked.push({ place, at: this.now });
    const answer = this.answers[place];
    if (answer === undefined) return super.perform(action);
    if (answer === 'unclear') return { kind: 'unclear', evidence: { detail: 'lost' } };
    if (answer === 'waiting') {
      this.nodes.set(action.allocation, this.newNode('waiting'));
      return { kind: 'done' };
    }
    const error = { kind: answer, message: `the cloud said ${answer}`, raw: answer };
    const isFinal = answer === 'permission' || answer === 'invalid';
    return { kind: isFinal ? 'refused' : 'failed', evidence: { detail: error.message }, error };
  }

  /** The places in the order in which they were asked. */
  get order(): readonly number[] {
    return this.asked.map(({ place }) => place);
  }

  get phase(): string {
    return phaseOf(this.job);
  }
}

suite('a place that has nothing', () => {
  for (const answer of ['stockout', 'quota'] as const) {
    test(`${answer}: the next is asked at once, and what runs there is known to be there`, () => {
      const world = new Places({ 0: answer });
      world.live(() => world.phase === 'running', minute);
      assert.deepEqual(world.order, [0, 1]);
      assert.equal(world.asked[1]?.at, world.asked[0]?.at);
      const capacity = capacityOf(world.job, world.job.allocations.at(-1));
      assert.ok(capacity.kind === 'tpu');
      assert.deepEqual(
        [capacity.zone, capacity.accelerator, capacity.pricePerHour],
        ['europe-west4-a', 'v5litepod-16', 7],
      );
      assert.ok(world.kinds().includes('place_passed_over'));
      assert.deepEqual(world.faults_, []);
    });
  }

  test('after a full round each place waits for its own pace, and every one is asked in each round', () => {
    const world = new Places({ 0: 'stockout', 1: 'quota', 2: 'stockout' });
    world.live(() => world.asked.length >= 12, 3 * hour);
    for (let round = 0; round < 4; round += 1) {
      assert.deepEqual(
        world.order.slice(3 * round, 3 * round + 3).toSorted((one, other) => one - other),
        [0, 1, 2],
        `round ${round}`,
      );
    }
    const waits = (place: number): readonly number[] => {
      const times = world.asked.filter((one) => one.place === place).map(({ at }) => at);
      return times.slice(1).map((at, index) => at - (times[index] ?? 0));
    };
    for (const [place, first] of [30 * second, minute, 30 * second].entries()) {
      for (const [index, wait] of waits(place).entries())
        assert.ok(wait >= 0.75 * first * 2 ** index, `${place}: ${wait}`);
    }
    assert.deepEqual(world.faults_, []);
  });

  test('capacity that comes back in the first place is found there in its turn', () => {
    const world = new Places({ 0: 'stockout', 1: 'stockout', 2: 'stockout' });
    world.live(() => world.asked.length >= 3, hour);
    world.answers = { 1: 'stockout', 2: 'stockout' };
    world.live(() => world.phase === 'running', hour);
    assert.deepEqual(world.order, [0, 1, 2, 0]);
  });
});

suite('a place that refuses the request', () => {
  test('invalid: is out for the attempt', () => {
    const world = new Places({ 0: 'invalid', 1: 'stockout', 2: 'stockout' });
    world.live(() => world.asked.length >= 7, 3 * hour);
    assert.deepEqual(world.order.filter((place) => place === 0).length, 1);
    assert.equal(world.job.settled, null);
    assert.deepEqual(world.faults_, []);
  });

  test('permission: holds up no other place, and is asked again now and then', () => {
    const world = new Places({ 0: 'permission', 1: 'stockout', 2: 'stockout' });
    const began = world.now;
    world.live(() => world.asked.length >= 7, 3 * hour);
    assert.ok(world.now - began < 10 * minute, 'the others were held up');
    assert.deepEqual(world.order.slice(0, 3), [0, 1, 2]);
    world.live(() => world.now - began > 2 * hour, 3 * hour);
    const times = world.asked.filter(({ place }) => place === 0).map(({ at }) => at);
    assert.ok(times.length >= 5 && times.length <= 17, `asked ${times.length} times in two hours`);
    assert.deepEqual(world.faults_, []);
  });

  test('permission: once it is given, the place is used in the same attempt', () => {
    const world = new Places({ 0: 'permission', 1: 'stockout', 2: 'stockout' });
    world.live(() => world.asked.length >= 7, 3 * hour);
    world.answers = { 1: 'stockout', 2: 'stockout' };
    world.live(() => world.phase === 'running', hour);
    assert.equal(world.job.attempts.length, 1);
    assert.equal(world.order.at(-1), 0);
    assert.deepEqual(world.faults_, []);
  });

  test('a queue is not left for a place that lacks a right', () => {
    const alternatives = (tpuOfPlaces.alternatives ?? []).slice(0, 1);
    const world = new Places({ 0: 'permission', 1: 'waiting' }, { ...tpuOfPlaces, alternatives });
    world.live(() => false, 5 * hour);
    assert.deepEqual(world.order, [0, 1]);
  });

  test('the job fails only when no place is left, and lets go of nothing that was not there', () => {
    const world = new Places({ 0: 'permission', 1: 'invalid', 2: 'permission' });
    world.untilSettled();
    assert.deepEqual(world.order, [0, 1, 2]);
    assert.equal(world.job.settled?.reason, 'allocation_failed');
    assert.match(world.job.attempts[0]?.ending?.evidence.detail ?? '', /permission/);
    assert.deepEqual(world.faults_, []);
  });

  test('a later attempt asks it again: rights may have been given', () => {
    const world = new Places({ 0: 'permission' });
    world.live(() => world.phase === 'running', hour);
    world.answers = {};
    world.preempt();
    world.live(() => world.job.attempts.length === 2 && world.phase === 'running', hour);
    assert.deepEqual(world.order, [0, 1, 0]);
  });
});

test('errors that say nothing about a place leave the request where it is, at the pace of the error', () => {
  for (const answer of ['internal', 'rate_limited', 'unreachable'] as const) {
    const world = new Places({ 0: answer });
    world.live(() => world.asked.length >= 3, hour);
    assert.deepEqual(world.order, [0, 0, 0], answer);
    assert.equal(world.job.allocations.length, 1);
  }
});

test('a queue that is too long is left for another, and what waited there is seen gone first', () => {
  const world = new Places({ 0: 'waiting' });
  world.live(() => world.phase === 'running', 2 * hour);
  assert.deepEqual(world.order, [0, 1]);
  const waited = (world.asked[1]?.at ?? 0) - (world.asked[0]?.at ?? 0);
  assert.ok(waited >= 20 * minute && waited <= 20 * minute + 5 * second, `${waited}`);
  assert.ok((world.job.allocations[0]?.goneAt ?? Infinity) <= (world.asked[1]?.at ?? 0));
  assert.deepEqual([...world.nodes.keys()], [2]);
  assert.deepEqual(world.faults_, []);
});

test('machines that are being made are not left, however long they take', () => {
  const world = new Places();
  world.settleNow();
  world.node.state = 'provisioning';
  world.job = { ...world.job, allocations: world.job.allocations.map((one) => withLife({ ...one, readyAt: null })) };
  world.live(() => false, hour);
  assert.deepEqual(world.order, [0]);
});

test('what may have come of a request without an answer is let go before another place is asked', () => {
  const world = new Places({ 0: 'unclear' });
  world.live(() => world.asked.length >= 1, minute);
  world.answers = { 0: 'stockout' };
  world.live(() => world.phase === 'running', hour);
  assert.deepEqual(world.order.slice(-1), [1]);
  assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  assert.deepEqual(world.faults_, []);
});

suite("another job's word", () => {
  const said = (world: World, place: number, ago: number, answer: 'stockout' | 'ready' = 'stockout') =>
    known([{ place, answer, at: world.now - ago }], world.now);

  test('a moment ago: the place is skipped, told so, and asked when the other has nothing either', () => {
    const world = new Places({ 1: 'stockout' });
    world.said = said(world, 0, minute);
    world.live(() => world.phase === 'running', hour);
    assert.deepEqual(world.order, [1, 2]);
    assert.ok(world.kinds().includes('place_skipped'));
    const all = new Places({ 1: 'stockout', 2: 'stockout' });
    all.said = said(all, 0, minute);
    all.live(() => all.phase === 'running', hour);
    assert.deepEqual(all.order, [1, 2, 0]);
  });

  test('long ago, or good: it is asked first', () => {
    for (const [ago, answer] of [
      [10 * minute, 'stockout'],
      [-minute, 'stockout'],
      [second, 'ready'],
    ] as const) {
      const world = new Places();
      world.said = said(world, 0, ago, answer);
      world.live(() => world.phase === 'running', hour);
      assert.deepEqual(world.order, [0], `${ago} ${answer}`);
    }
  });

  test('of all places: the first is asked all the same, at once', () => {
    const world = new Places();
    world.said = known(
      [0, 1, 2].map((place) => ({ place, answer: 'stockout' as const, at: world.now - minute })),
      world.now,
    );
    const began = world.now;
    world.live(() => world.phase === 'running', hour);
    assert.deepEqual([world.order, world.asked[0]?.at], [[0], began]);
  });
});

test('a list that lacks what was accepted says nothing about the queue, however long it was waited in', () => {
  const world = new Places({ 0: 'waiting' });
  world.live(() => false, 19 * minute);
  const now = world.now + 2 * minute;
  const passAt = (seen: AllocationSeen): Job =>
    reconcile(
      world.job,
      { ...world.observe(), outcomes: [], allocations: [{ allocation: 1, fact: known(seen, now) }] },
      now,
    ).job;
  assert.equal(passAt({ state: 'absent', detail: 'not found' }).attempts[0]?.allocation, 1);
  assert.equal(passAt({ state: 'waiting', detail: 'WAITING' }).attempts[0]?.allocation, 2);
});

test('a place whose reply was lost is asked once more before a list that lacks the request counts', () => {
  const world = new Places({ 0: 'unclear' });
  world.live(() => world.job.allocations[0]?.isDoubtful === true, minute);
  // It has arrived. No pass is made until the patience with the place is over, and then the list lacks it once.
  world.nodes.set(1, world.newNode('ready'));
  world.now += 21 * minute;
  world.missNext = true;
  world.pass();
  assert.equal(world.job.attempts[0]?.allocation, 1);
  world.live(() => world.phase === 'running', minute);
  assert.deepEqual([world.job.attempts[0]?.allocation, [...world.nodes.keys()]], [1, [1]]);
  assert.deepEqual(world.faults_, []);
});

test('a place whose answers are all lost is passed over when the patience with it is over', () => {
  const world = new Places({ 0: 'unclear' });
  world.live(() => world.phase === 'running', hour);
  assert.deepEqual([world.phase, world.order.at(-1)], ['running', 1]);
  assert.ok(world.now - world.job.createdAt < 25 * minute);
  assert.deepEqual(world.faults_, []);
});

test('a queue is waited in from when it was entered, however long nobody could ask', () => {
  const world = new Places({ 0: 'waiting' });
  for (let passes = 0; world.decision?.actions[0]?.kind !== 'request' && passes < 5; passes += 1) world.pass();
  // Its sender was killed, and the cloud is away for half an hour.
  world.cloudAnswers = false;
  world.live(() => false, 30 * minute);
  world.cloudAnswers = true;
  world.live(() => world.asked.length > 0, minute);
  const entered = world.now;
  world.live(() => world.order.includes(1), hour);
  assert.equal(world.order[0], 0);
  assert.ok(world.now - entered >= 19 * minute, `it was left after ${world.now - entered} ms`);
  assert.deepEqual(world.faults_, []);
});

test('whatever places answer, and however that changes, the laws hold, and a place that gives is found', () => {
  const answer = fc.constantFrom(undefined, 'stockout', 'quota', 'permission', 'internal', 'waiting', 'unclear');
  const weather = fc.array(fc.tuple(answer, answer, answer), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(weather, (days) => {
      const world = new Places();
      for (const day of days) {
        world.turn(Object.fromEntries([...day.entries()].filter(([, one]) => one !== undefined)) as Answers);
        world.live(() => world.phase === 'running' || world.job.settled !== null, 20 * minute);
      }
      // A queue is not left for places where a right is missing, since who leaves it loses his turn there: it has to move.
      world.turn({});
      world.live(() => world.phase === 'running' || world.job.settled !== null, 3 * hour);
      assert.deepEqual(world.faults_, []);
      const passed = world.job.attempts.at(-1)?.placesPassed ?? [];
      const isClosed = passed.filter(({ answer }) => answer === 'permission').length >= 2;
      // Nor can anything go on from a place that has closed while something may have come of a request there.
      const isShut =
        world.job.allocations.at(-1)?.isDoubtful === true &&
        world.job.attempts.at(-1)?.ending?.evidence.raw === 'permission';
      assert.ok(world.phase === 'running' || (world.phase === 'failed' && (isClosed || isShut)), world.phase);
    }),
    {
      numRuns: 60,
      // It waits in the one queue that is open to it, and is given what comes of that.
      examples: [[[['permission', 'permission', 'waiting']]]],
    },
  );
});

test('weeks of refusals leave one allocation in the record, and all of them in its history', () => {
  const world = new Places({ 0: 'stockout', 1: 'quota', 2: 'permission' });
  world.live(() => world.asked.length >= 1_000, 60 * 24 * hour);
  assert.equal(world.asked.length >= 1_000, true);
  assert.equal(world.job.allocations.length, 1);
  assert.equal(world.job.attempts[0]?.placesPassed?.length, 3);
  assert.equal(world.kinds().filter((kind) => kind === 'place_passed_over').length >= 999, true);
  assert.deepEqual(historyTellsTheState(world.events, world.job), []);
});

suite('what was refused in so many words', () => {
  test('is gone with the word that ends the job, although the zone answers nothing any more', () => {
    const world = new Places({ 0: 'stockout' }, tpu);
    world.live(() => world.asked.length >= 2, hour);
    world.cloudAnswers = false;
    world.ask('cancel');
    world.untilSettled();
    assert.equal(world.decision?.wakeAt, undefined, 'nothing is left to wait for');
    assert.ok(world.job.allocations.every(({ goneAt }) => goneAt !== null));
    assert.deepEqual(world.faults_, []);
  });

  test('is not, while the answer to the newest request has not come back', () => {
    const world = new Places({ 0: 'stockout' }, tpu);
    world.live(() => world.asked.length >= 2, hour);
    world.outcomes = [];
    world.now += hour;
    world.pass();
    assert.deepEqual(
      world.decision?.actions.map(({ kind }) => kind),
      ['request'],
    );
    world.ask('cancel');
    world.pass();
    assert.ok(world.job.allocations.every(({ goneAt }) => goneAt === null));
    assert.notEqual(world.job.allocations[0]?.releasedAt, null);
  });

  test('what was missed once and cannot be looked at any more is looked at at its own pace, and not every second', () => {
    const world = new Places({}, tpu);
    world.live(() => world.phase === 'running', hour);
    world.ask('cancel');
    world.live(() => world.job.allocations[0]?.releasedAt !== null, hour);
    world.missNext = true;
    world.pass();
    assert.notEqual(world.job.allocations[0]?.missedAt, null);
    world.cloudAnswers = false;
    world.now += hour;
    world.pass();
    assert.ok((world.decision?.wakeAt ?? 0) - world.now >= 5 * second);
  });

  test('is not, while another controller’s request, which nobody has answered, may yet be carried out', () => {
    const world = new Places({ 0: 'stockout' }, tpu);
    for (let passes = 0; world.decision?.actions[0]?.kind !== 'request' && passes < 5; passes += 1) world.pass();
    assert.deepEqual(world.decision?.actions, [{ kind: 'request', allocation: 1 }], 'its sender was killed');
    world.pass({ ...world.observe(), unheard: [1] });
    world.act();
    world.pass();
    assert.equal(world.job.allocations[0]?.lastFailure?.error.kind, 'stockout', 'its successor is refused');
    world.cloudAnswers = false;
    world.ask('cancel');
    world.pass();
    assert.ok(world.job.allocations.every(({ goneAt }) => goneAt === null));
    assert.deepEqual(world.faults_, []);
  });
});

test('a refusal and a gift are told with the place, the moment and the wait', () => {
  const world = new World(spec({ steps: [] }));
  const told: PlaceAnswered[] = [];
  world.onPass = (_before, _observation, { job, events }) => void told.push(...answersIn(job, events));
  world.refusal = {
    kind: 'failed',
    evidence: { detail: 'no' },
    error: { kind: 'stockout', message: 'no', raw: '' },
  };
  world.settleNow();
  world.refusal = null;
  world.live(() => told.length > 1, hour);
  const { project, zone, accelerator, pricing } = tpu;
  assert.deepEqual(
    told.map((one) => ({ ...one, waited: 0, at: 0 })),
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
  assert.ok((told[1]?.waited ?? 0) >= 22 * second, 'from the first request on');
});

test('a standing TPU that is made again and refused is an answer of its place, and that it is ready is none', () => {
  const told: string[] = [];
  for (const state of ['refused', 'ready']) {
    const world = new World(spec({ steps: [], capacity: { ...tpu, ownership: 'standing' } }));
    world.settleNow();
    const error = { kind: 'stockout', message: 'no', raw: '' } as const;
    const at = { at: world.now, allocation: 1 };
    const event =
      state === 'refused'
        ? { kind: 'allocation_refused' as const, error, ...at }
        : { kind: 'allocation_seen' as const, state: 'ready' as const, detail: '', ...at };
    told.push(...answersIn(world.job, [event]).map(({ answer }) => answer));
  }
  assert.deepEqual(told, ['stockout']);
});

test('trouble with the API, and capacity that is nobody’s to ask for, say nothing about a place', () => {
  const failed = new World(spec({ steps: [] }));
  const told: PlaceAnswered[] = [];
  failed.onPass = (_before, _observation, { job, events }) => void told.push(...answersIn(job, events));
  failed.refusal = { kind: 'failed', evidence: { detail: 'no' }, error: { kind: 'internal', message: 'no', raw: '' } };
  failed.live(() => failed.job.allocations[0]?.requestFailures === 3, hour);
  const standing = new World(spec({ steps: [], capacity: { ...tpu, ownership: 'standing' } }));
  standing.onPass = failed.onPass;
  standing.settleNow();
  assert.deepEqual(told, []);
});

test('another job hears the newest answer of each of its places, and nothing of its own', () => {
  const { job } = freshJob(spec({ capacity: tpuOfPlaces }));
  const own = { project: tpu.project, zone: tpu.zone, accelerator: tpu.accelerator, pricing: tpu.pricing };
  const at = (answer: PlaceAnswered['answer'], ago: number, by: string, place = own): PlaceAnswered => ({
    ...place,
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
  assert.deepEqual(saidToOthers(job, answers), [
    { place: 0, answer: 'stockout', at: t0 - minute },
    { place: 2, answer: 'ready', at: t0 - second },
  ]);
});
