// A setup step by hand, where the job has no workers for it: what is in the way, and what to do.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planStep } from '../../src/app/setup-by-hand.ts';
import { aJob, living, noon } from './sample-life.ts';

test('a job that has ended waits for nothing, and one that waits is asked why', () => {
  const step = (job: ReturnType<typeof aJob>) => () => planStep(job, 'docker', 'ada');
  const waits = living(aJob(), [{}], [{}]);
  assert.throws(step(waits), /holds no ready workers now; `jobman why 42` says what it waits for\.$/);
  const over = { ...waits, settled: { at: noon, verdict: 'succeeded', reason: 'succeeded' } as const };
  assert.throws(step(over), /holds no workers any more: it is over \(succeeded\)\. To go on: jobman resume 42$/);
});
