// A manual setup step: its obstacles, each with a remedy.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobmanError } from '../../src/app/errors.ts';
import { planStep } from '../../src/app/manual-step.ts';
import type { Job } from '../../src/core/model/job.ts';
import { nodeNamePlaceholder } from '../../src/core/model/spec.ts';
import { minute } from '../../src/core/model/time.ts';
import { aJob, aMember, withAttempts, noon, readyAllocation, runningAttempt, tpuSpec } from '../support/builders.ts';

test('without ready workers the message points to resume or why', () => {
  const step = (job: ReturnType<typeof aJob>) => () => planStep(job, 'docker', aMember('ada'));
  const waits = withAttempts(aJob(), [{}], [{}]);
  assert.throws(step(waits), { message: /has no ready workers\.$/, lines: ['Explain: jobman why 42'] });
  const over = { ...waits, finish: { at: noon, verdict: 'succeeded', reason: 'succeeded' } as const };
  assert.throws(step(over), /has no ready workers; it has succeeded, so use resume or rerun to get some/);
});

const steps = ['ssh', 'gcsfuse', 'docker'].map((name) => ({
  name,
  key: name,
  check: null,
  apply: `echo ${nodeNamePlaceholder}`,
  files: [],
  timeoutMs: minute,
}));
const withSteps = aJob({ ...tpuSpec(), steps });

test('on ready workers a step can run, on all of them and with resolved texts', () => {
  const stopped = withAttempts(withSteps, [readyAllocation], [{ ...runningAttempt, endedAt: noon + 5 * minute }]);
  const plan = planStep(stopped, 'docker', aMember('ada'));
  assert.deepEqual([plan.workers, plan.step.apply], [[0, 1, 2, 3], 'echo vit-000042-1']);
  // A key or a mount may be repaired while the command runs.
  assert.equal(
    planStep(withAttempts(withSteps, [readyAllocation], [runningAttempt]), 'gcsfuse', aMember('ada')).step.name,
    'gcsfuse',
  );
});

test('each refusal has a reason and a remedy', () => {
  const assertRefused = (job: Job, step: string, by: string, sentence: RegExp, code = 4): void =>
    assert.throws(
      () => planStep(job, step, aMember(by)),
      (error: JobmanError) => error.code === code && sentence.test(error.message),
      String(sentence),
    );
  const runs = withAttempts(withSteps, [readyAllocation], [runningAttempt]);
  assertRefused(runs, 'ssh', 'eve', /belongs to ada; only its owner or an admin may run a setup step\.$/);
  assertRefused(runs, 'missing', 'eve', /belongs to ada; only its owner or an admin may run a setup step\.$/);
  assertRefused(
    runs,
    'venv',
    'ada',
    /has no setup step venv: it has ssh, gcsfuse, docker; the venv environment of a container is created/,
    2,
  );
  assertRefused(runs, 'docker', 'ada', /uses the result of docker\. Stop it first, .*jobman resume 42$/);
  assertRefused(withAttempts(withSteps, [readyAllocation], [{}]), 'ssh', 'ada', /is in setup; stop it first\.$/);
  const ending = {
    reason: 'stopped',
    evidence: { message: '' },
    startedAt: noon,
    stopRequestedAt: null,
    stopConfirmedBy: [],
  } as const;
  assertRefused(
    withAttempts(withSteps, [readyAllocation], [{ ...runningAttempt, ending }]),
    'ssh',
    'ada',
    /is ending an attempt; try again once it has ended\.$/,
  );
  assertRefused(
    withAttempts(withSteps, [{ ...readyAllocation, releasedAt: noon }], [runningAttempt]),
    'ssh',
    'ada',
    /has no ready workers\./,
  );
});
