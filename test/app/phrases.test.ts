// Causes of an end, with their settings, signals and exit codes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatCause, hostArgument, likelyCause } from '../../src/app/phrases.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { localSpec, tpuSpec } from '../support/builders.ts';

const spec = tpuSpec({
  limits: { maxRuntimeMs: 2 * hour, silenceTimeoutMs: 30 * minute, capacityWaitMs: null, setupTries: 3 },
});

test('a hang and a time limit show the duration and the key', () => {
  const detail = 'no output on any worker for as long as job.silence_timeout allows';
  assert.equal(formatCause(spec, 'hung', { message: detail }), 'no output on any worker for 30m (job.silence_timeout)');
  assert.equal(
    formatCause(spec, 'timed_out', { message: 'it ran for as long as job.max_runtime allows' }),
    'reached its time limit of 2h00m (job.max_runtime)',
  );
  assert.equal(
    formatCause({ ...spec, limits: { ...spec.limits, silenceTimeoutMs: null } }, 'hung', { message: detail }),
    detail,
  );
});

test('a command to copy names the host of a job, unless the job has several', () => {
  const named = (...hosts: readonly string[]) =>
    hostArgument({ spec: localSpec({ capacity: { kind: 'hosts', ownership: 'persistent', hosts } }) });
  assert.deepEqual([named('gpu1'), named('localhost', 'gpu1'), named('gpu1', 'gpu2')], ['gpu1', 'gpu1', 'NAME']);
});

test('a signal is shown with its name and its exit code', () => {
  const killed = { message: 'killed by KILL on worker 3', worker: 3, exitCode: 137, signal: 'KILL' } as const;
  assert.equal(formatCause(spec, 'command_failed', killed), 'killed by SIGKILL (exit code 137) on worker 3');
  assert.match(likelyCause(killed) ?? '', /ran out of memory/);
  assert.match(likelyCause({ message: '', exitCode: 139, signal: 'SEGV' }) ?? '', /invalid memory access/);
  assert.match(likelyCause({ message: '', exitCode: 143, signal: 'TERM' }) ?? '', /ended the program/);
});

test('a log pattern takes precedence over the exit code, and an ordinary code has no cause', () => {
  const details = { message: '', exitCode: 137, signal: 'KILL', pattern: 'out_of_memory' };
  assert.equal(likelyCause(details), 'the accelerator ran out of memory');
  assert.equal(likelyCause({ message: 'exit code 1', exitCode: 1 }), null);
  assert.match(likelyCause({ message: '', exitCode: 127 }) ?? '', /not found/);
  assert.equal(formatCause(spec, 'command_failed', { message: '', worker: 0, exitCode: 1 }), 'exit code 1 on worker 0');
});

test('a local job has one worker, which needs no number', () => {
  const evidence = { message: 'exit code 1 on worker 0', worker: 0, exitCode: 1 };
  assert.equal(formatCause(localSpec(), 'command_failed', evidence), 'exit code 1');
  assert.equal(
    formatCause(localSpec(), 'command_failed', { message: 'as in the evidence', worker: 0 }),
    'as in the evidence',
  );
});
