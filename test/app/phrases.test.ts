// Causes: lengths beside their keys, signals beside their codes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatCause, likelyCause, jobCost } from '../../src/app/phrases.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { localSpec, tpuSpec, aJob, withAttempts, noon, readyAllocation } from '../support/builders.ts';

const spec = tpuSpec({
  limits: { maxRuntime: 2 * hour, silenceTimeout: 30 * minute, capacityWait: null, setupTries: 3 },
});

test('a hang and a time limit tell the length and the key', () => {
  const detail = 'no output on any worker for as long as job.silence_timeout allows';
  assert.equal(formatCause(spec, 'hung', { detail }), 'no output on any worker for 30m (job.silence_timeout)');
  assert.equal(
    formatCause(spec, 'timed_out', { detail: 'it ran for as long as job.max_runtime allows' }),
    'it ran for 2h00m, which is all that it may (job.max_runtime)',
  );
  assert.equal(formatCause({ ...spec, limits: { ...spec.limits, silenceTimeout: null } }, 'hung', { detail }), detail);
});

test('a signal is told by its name and by the code that stands for it', () => {
  const killed = { detail: 'killed by KILL on worker 3', worker: 3, exitCode: 137, signal: 'KILL' } as const;
  assert.equal(formatCause(spec, 'command_failed', killed), 'killed by SIGKILL (exit code 137) on worker 3');
  assert.match(likelyCause(killed) ?? '', /ran out of memory/);
  assert.match(likelyCause({ detail: '', exitCode: 139, signal: 'SEGV' }) ?? '', /memory that is not its own/);
  assert.match(likelyCause({ detail: '', exitCode: 143, signal: 'TERM' }) ?? '', /asked it to end/);
});

test('what the log says counts more than the code, and an ordinary code says nothing', () => {
  const details = { detail: '', exitCode: 137, signal: 'KILL', pattern: 'out_of_memory' };
  assert.equal(likelyCause(details), 'the accelerator ran out of memory');
  assert.equal(likelyCause({ detail: 'exit code 1', exitCode: 1 }), null);
  assert.match(likelyCause({ detail: '', exitCode: 127 }) ?? '', /not found/);
  assert.equal(formatCause(spec, 'command_failed', { detail: '', worker: 0, exitCode: 1 }), 'exit code 1 on worker 0');
});

test('on this machine there is one place, which needs no number', () => {
  const evidence = { detail: 'exit code 1 on worker 0', worker: 0, exitCode: 1 };
  assert.equal(formatCause(localSpec(), 'command_failed', evidence), 'exit code 1');
  assert.equal(formatCause(localSpec(), 'command_failed', { detail: 'as it was told', worker: 0 }), 'as it was told');
});

const tpu = tpuSpec();
assert.ok(tpu.capacity.kind === 'tpu');
const priced = { ...tpu, capacity: { ...tpu.capacity, pricePerHour: 4 } };
const unpriced = { ...tpu, capacity: { ...tpu.capacity, pricePerHour: null } };
const readyAtNoon = { ...readyAllocation, readyAt: noon };

test('what is held counts until now, what is gone until it was seen gone', () => {
  const held = withAttempts(aJob(priced), [readyAtNoon], []);
  assert.equal(jobCost(held, noon + 3 * hour), 12);
  const gone = withAttempts(aJob(priced), [{ ...readyAtNoon, releasedAt: noon + hour, goneAt: noon + 2 * hour }], []);
  assert.equal(jobCost(gone, noon + 30 * hour), 8);
});

test('what a forced delete has left behind counts until that word: nobody looks at it for the job any more', () => {
  const left = { ...withAttempts(aJob(priced), [readyAtNoon], []), removed: true, desiredAt: noon + hour };
  assert.equal(jobCost(left, noon + 2 * hour), 4);
  assert.equal(jobCost(left, noon + 200 * hour), 4);
});

test('without a price, or where nothing of its own was ready, nobody can tell', () => {
  assert.equal(jobCost(withAttempts(aJob(unpriced), [readyAtNoon], []), noon + hour), null);
  assert.equal(jobCost(withAttempts(aJob(priced), [{ ...readyAllocation, readyAt: null }], []), noon + hour), null);
  assert.equal(jobCost(aJob(localSpec()), noon + hour), null);
});
