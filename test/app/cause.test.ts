// Causes: lengths beside their keys, signals beside their codes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { causeText, mostlyMeans } from '../../src/app/cause.ts';
import { hour, minute } from '../../src/core/time.ts';
import { localSpec, tpuSpec } from '../support/builders.ts';

const spec = tpuSpec({
  limits: { maxRuntime: 2 * hour, silenceTimeout: 30 * minute, capacityWait: null, setupTries: 3 },
});

test('a hang and a time limit tell the length and the key', () => {
  const detail = 'no output on any worker for as long as job.silence_timeout allows';
  assert.equal(causeText(spec, 'hung', { detail }), 'no output on any worker for 30m (job.silence_timeout)');
  assert.equal(
    causeText(spec, 'timed_out', { detail: 'it ran for as long as job.max_runtime allows' }),
    'it ran for 2h00m, which is all that it may (job.max_runtime)',
  );
  assert.equal(causeText({ ...spec, limits: { ...spec.limits, silenceTimeout: null } }, 'hung', { detail }), detail);
});

test('a signal is told by its name and by the code that stands for it', () => {
  const killed = { detail: 'killed by KILL on worker 3', worker: 3, exitCode: 137, signal: 'KILL' } as const;
  assert.equal(causeText(spec, 'command_failed', killed), 'killed by SIGKILL (exit code 137) on worker 3');
  assert.match(mostlyMeans(killed) ?? '', /ran out of memory/);
  assert.match(mostlyMeans({ detail: '', exitCode: 139, signal: 'SEGV' }) ?? '', /memory that is not its own/);
  assert.match(mostlyMeans({ detail: '', exitCode: 143, signal: 'TERM' }) ?? '', /asked it to end/);
});

test('what the log says counts more than the code, and an ordinary code says nothing', () => {
  const said = { detail: '', exitCode: 137, signal: 'KILL', pattern: 'out_of_memory' };
  assert.equal(mostlyMeans(said), 'the accelerator ran out of memory');
  assert.equal(mostlyMeans({ detail: 'exit code 1', exitCode: 1 }), null);
  assert.match(mostlyMeans({ detail: '', exitCode: 127 }) ?? '', /not found/);
  assert.equal(causeText(spec, 'command_failed', { detail: '', worker: 0, exitCode: 1 }), 'exit code 1 on worker 0');
});

test('on this machine there is one place, which needs no number', () => {
  const evidence = { detail: 'exit code 1 on worker 0', worker: 0, exitCode: 1 };
  assert.equal(causeText(localSpec(), 'command_failed', evidence), 'exit code 1');
  assert.equal(causeText(localSpec(), 'command_failed', { detail: 'as it was told', worker: 0 }), 'as it was told');
});
