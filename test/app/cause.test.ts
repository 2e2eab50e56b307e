// Causes: lengths beside their keys, signals beside their codes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { causeText, mostlyMeans } from '../../src/app/cause.ts';
import { hour, minute } from '../../src/core/time.ts';
import { localSpec } from './sample-life.ts';

const { limits } = localSpec({
  limits: { maxRuntime: 2 * hour, silenceTimeout: 30 * minute, capacityWait: null, setupTries: 3 },
});

test('a hang and a time limit tell the length and the key', () => {
  const detail = 'no output on worker 0 for as long as job.silence_timeout allows';
  assert.equal(causeText(limits, 'hung', { detail, worker: 0 }), 'no output on worker 0 for 30m (job.silence_timeout)');
  assert.equal(
    causeText(limits, 'timed_out', { detail: 'it ran for as long as job.max_runtime allows' }),
    'it ran for 2h00m, which is all that it may (job.max_runtime)',
  );
  assert.equal(causeText({ ...limits, silenceTimeout: null }, 'hung', { detail }), detail);
});

test('a signal is told by its name and by the code that stands for it', () => {
  const killed = { detail: 'killed by KILL on worker 3', worker: 3, exitCode: 137, signal: 'KILL' } as const;
  assert.equal(causeText(limits, 'command_failed', killed), 'killed by SIGKILL (exit code 137) on worker 3');
  assert.match(mostlyMeans(killed) ?? '', /ran out of memory/);
  assert.match(mostlyMeans({ detail: '', exitCode: 139, signal: 'SEGV' }) ?? '', /memory that is not its own/);
  assert.match(mostlyMeans({ detail: '', exitCode: 143, signal: 'TERM' }) ?? '', /asked it to end/);
});

test('what the log says counts more than the code, and an ordinary code says nothing', () => {
  const said = { detail: '', exitCode: 137, signal: 'KILL', pattern: 'out_of_memory' };
  assert.equal(mostlyMeans(said), 'the accelerator ran out of memory');
  assert.equal(mostlyMeans({ detail: 'exit code 1', exitCode: 1 }), null);
  assert.match(mostlyMeans({ detail: '', exitCode: 127 }) ?? '', /not found/);
  assert.equal(
    causeText(limits, 'command_failed', { detail: 'exit code 1 on worker 0', exitCode: 1 }),
    'exit code 1 on worker 0',
  );
});
