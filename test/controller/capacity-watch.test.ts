import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AllocationRef, Backend } from '../../src/app/ports.ts';
import { createCapacityWatch } from '../../src/controller/capacity-watch.ts';
import { minute, second } from '../../src/core/model/time.ts';
import { aJob, readyAllocation, runningAttempt, withAttempts } from '../support/builders.ts';

test('a cloud that answers slowly is not asked again before its answer', async () => {
  const job = withAttempts(aJob(), [readyAllocation], [runningAttempt]);
  const asked: (readonly AllocationRef[])[] = [];
  const answers: (() => void)[] = [];
  const watch = createCapacityWatch({
    clock: { now: () => 0, at: () => () => undefined },
    backendOf: () => ({}) as Backend,
    observerFor: () => (refs) => {
      asked.push(refs);
      return new Promise((resolve) => answers.push(() => resolve([])));
    },
    wake: () => undefined,
  });
  watch.update(job, minute, 0);
  const polls = [1, 2, 3].map((poll) => watch.poll(poll * 20 * second));
  assert.equal(asked.length, 1);
  for (const answer of answers) answer();
  await Promise.all(polls);
  void watch.poll(80 * second);
  assert.deepEqual(
    asked.map((refs) => refs.map((ref) => ref.job.id)),
    [[job.id], [job.id]],
  );
});
