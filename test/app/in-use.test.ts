// A standing TPU that a job works on is not begun on by another without a question.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { usedByOthers } from '../../src/app/in-use.ts';
import type { Job } from '../../src/core/job.ts';
import type { JobSpec, TpuSpec } from '../../src/core/spec.ts';
import { aJob, localSpec, noon, tpuSpec } from '../support/builders.ts';

const { capacity } = tpuSpec();
assert.ok(capacity.kind === 'tpu');
const standing = (different: Partial<TpuSpec> = {}): JobSpec => ({
  ...tpuSpec(),
  capacity: { ...capacity, ownership: 'standing', name: 'lab-v4', ...different },
});
const settled = { at: noon, verdict: 'succeeded', reason: 'succeeded' } as const;
const asked = (spec: JobSpec, jobs: readonly Job[], job: Job | null = null) =>
  usedByOthers({ list: () => Promise.resolve({ jobs, more: 0 }) }, spec, job);

test('who uses it is named, with what to do about it', async () => {
  assert.deepEqual(await asked(standing(), [aJob(standing())]), {
    sentence: 'the TPU lab-v4 is used by job 000042 (vit) of ada, which is queued',
    cost: null,
    remedy: '`jobman wait 000042` tells when it is free.',
  });
});

test('nothing is asked of one that nobody uses', async () => {
  const user = aJob(standing());
  assert.equal(await asked(standing(), []), null);
  assert.equal(await asked(standing(), [{ ...user, settled }]), null, 'its job is over');
  assert.equal(await asked(standing(), [user], user), null, 'it is the very job');
  assert.equal(await asked(standing({ zone: 'us-east5-b' }), [user]), null, 'one of that name in another zone');
  assert.equal(await asked(standing({ name: 'other' }), [user]), null);
  assert.equal(await asked(standing({ ownership: 'owned' }), [user]), null, 'each job has a TPU of its own');
  assert.equal(await asked(localSpec(), [user]), null);
});
