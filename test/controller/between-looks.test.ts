// What can happen between two steps of the controller and once did harm: a clock that is set under a look, something seen
// gone under a sweep, a clock that has leapt and was set right before the logs were copied. The simulator found each.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { known } from '../../src/core/observation.ts';
import { day, minute, second } from '../../src/core/time.ts';
import { printed, makeMachine, newMachine } from '../../sim/world.ts';
import { openLife } from './pretended-life.ts';

test('a program on its way up is not ended because the clock leaps a day while it is looked at', async (t) => {
  let leaps = 0;
  const life = await openLife({
    weather: { startSlow: 1 },
    machines: (real, inLife) => ({
      ...real,
      async look(refs) {
        const facts = await real.look(refs);
        const isStarting = facts.some(
          (fact) => fact.kind === 'known' && fact.value.runs.some(({ state }) => state === 'starting'),
        );
        if (isStarting && leaps === 0) {
          leaps += 1;
          inLife().jump(day);
        }
        return facts;
      },
    }),
  });
  t.after(() => life.close());
  assert.ok(await life.until((job) => job.attempts.at(-1)?.runningAt !== null && job.attempts.length > 0, 5 * minute));
  assert.equal(leaps, 1, 'it was never looked at while it was on its way up');
  assert.deepEqual(
    (await life.job()).attempts.map(({ ordinal, ending }) => [ordinal, ending]),
    [[1, null]],
  );
});

test('what was seen gone under a sweep is swept once more before the controller leaves', async (t) => {
  const answer = Promise.withResolvers<void>();
  let isHeld = false;
  let isReleased = false;
  const life = await openLife({
    capacity: (real) => ({
      ...real,
      release(ref) {
        isReleased = true;
        return real.release(ref);
      },
      async look(refs) {
        const facts = await real.look(refs);
        // It takes its time to go, until the sweep after the release is under way.
        const going = { state: 'releasing', detail: 'DELETING' } as const;
        return facts.map((fact) => (isReleased && !isHeld && fact.kind === 'known' ? known(going, fact.seenAt) : fact));
      },
      async sweep(refs) {
        const found = await real.sweep(refs);
        if (!isReleased || isHeld) return found;
        isHeld = true;
        await answer.promise;
        return found;
      },
    }),
  });
  t.after(() => life.close());
  assert.ok(await life.until((job) => job.attempts.at(-1)?.runningAt !== null && job.attempts.length > 0, 5 * minute));
  await life.say('cancel');
  assert.ok(await life.until((job) => job.allocations.every(({ goneAt }) => goneAt !== null), 10 * minute));
  assert.ok(isHeld, 'no sweep was under way');
  answer.resolve();
  await life.until(() => false, minute);
  // The request arrives once more, long after its sender had given it up.
  const { timeline, world } = life;
  const [first] = world.machines.filter(({ labels }) => labels !== null);
  assert.ok(first !== undefined);
  const { name, labels, zone } = first;
  makeMachine(world, newMachine({ name, labels, isStanding: false, workers: 1, at: timeline.now, zone }));
  assert.ok(await life.until(() => world.machines.every((one) => one.isStanding || one.state === 'gone'), 10 * minute));
});

test('logs are not given up because the clock was a day ahead and is right again', async (t) => {
  let isLineDown = false;
  const life = await openLife({
    plan: { length: 3 * minute },
    spec: { finish: { capacity: 'keep', keepFor: null } },
    machines: (real) => ({
      ...real,
      tail(ref, attempt, from, receiver) {
        let isOff = false;
        const off = real.tail(ref, attempt, from, {
          ...receiver,
          async bytes(chunk) {
            if (!isLineDown) await receiver.bytes(chunk);
            else if (!isOff) {
              isOff = true;
              off();
              receiver.dropped('the line dropped');
            }
          },
          ended() {
            if (!isOff) receiver.ended();
          },
        });
        return off;
      },
    }),
  });
  t.after(() => life.close());
  assert.ok(await life.until((job) => job.attempts.at(-1)?.runningAt !== null && job.attempts.length > 0, 5 * minute));
  life.jump(day);
  await life.until(() => false, 30 * second);
  isLineDown = true;
  life.jump(-day);
  assert.ok(await life.until((job) => job.settled !== null, 10 * minute));
  await life.until(() => false, minute);
  isLineDown = false;
  const [run] = life.world.runs;
  assert.ok(run !== undefined);
  const whole = printed(run, life.timeline.now);
  const copied = (): number => life.copies.files.get(`${run.job}/1/0`)?.bytes ?? 0;
  assert.ok(copied() < whole, 'the line was never down');
  assert.ok(await life.until(() => copied() === whole, 4 * minute), `${copied()} of ${whole} bytes were copied`);
});
