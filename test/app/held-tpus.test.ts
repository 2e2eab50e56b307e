// Ready TPUs, requests and orphans that stay while no controller runs, with their price and the commands that release them.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { heldTpus } from '../../src/app/held-tpus.ts';
import type { Orphan } from '../../src/app/ports.ts';
import type { AllocationFields, Job } from '../../src/core/model/job.ts';
import { aJob, anOrphan, noon, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';
import { openStore, withStore } from '../../src/store/store.ts';

const aJobWith = (id: string, allocation: Partial<AllocationFields>, changes: Partial<Job> = {}): Job =>
  withAttempts(aJob(tpuSpec({}, { project: 'lab' }), { id, ...changes }), [allocation], [runningAttempt]);
const stopped = { desired: 'stopped', finish: { at: noon, verdict: 'stopped', reason: 'stopped' } } as const;
const waiting = {
  confirmedAt: noon,
  lastObserved: { state: 'waiting', detail: 'WAITING_FOR_RESOURCES', at: noon },
} as const;
const held = (jobs: readonly Job[], orphans: readonly Orphan[] = []) =>
  heldTpus({ list: () => Promise.resolve({ jobs, more: 0 }), orphans: () => Promise.resolve(orphans) });

test('TPUs, requests and orphans are named with their price and the commands that release them', async () => {
  const jobs = [
    aJobWith('000009', waiting),
    aJobWith('000008', readyAllocation, stopped),
    aJobWith('000007', readyAllocation),
    aJobWith('000006', { ...readyAllocation, releasedAt: noon, goneAt: noon }, stopped),
    aJobWith('000005', { ...readyAllocation, lastObserved: { state: 'lost', detail: 'PREEMPTED', at: noon } }),
  ];
  const found = await held(jobs, [anOrphan]);
  assert.deepEqual(found, {
    tpus: 3,
    requests: 1,
    pricePerHourUsd: 8,
    message:
      '3 TPUs and 1 request are still held at about $8.00/h: job 7 (running), job 8 (stopped), job 9 (running) and 1 orphan',
    release: ['jobman cancel 7 9', 'jobman stop 8 --release', 'jobman gc'],
  });
  assert.equal(await held([aJobWith('000006', { ...readyAllocation, goneAt: noon }, stopped)]), null);
  const six = Array.from({ length: 6 }, (_, index) => aJobWith(`00001${index}`, readyAllocation));
  assert.deepEqual((await held(six, [anOrphan]))?.release, ['jobman cancel --all', 'jobman gc']);
});

test('TPUs of the emulator have a price only if there are no others', async () => {
  const simulated = withAttempts(aJob(tpuSpec({}, { project: 'emulator' })), [readyAllocation], [runningAttempt]);
  const alone = '1 TPU is still held at about $4.00/h on Google Cloud (simulated: free): job 42 (running)';
  assert.equal((await held([simulated]))?.message, alone);
  assert.equal((await held([simulated, aJobWith('000007', readyAllocation)]))?.pricePerHourUsd, 4);
});

test('`controller stop` names them', async (t) => {
  const world = openWorld(t);
  await withStore(openStore({ file: join(world.home, 'state.db') }), async (store) => {
    const spec = tpuSpec({}, { project: 'lab' });
    const { job, revision } = await store.insert({ owner: 'ada', by: 'ada', spec, manifest: '', at: noon });
    const kept = { ...withAttempts(job, [readyAllocation], [runningAttempt]), ...stopped };
    const commit = { job: kept, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null };
    assert.equal(await store.commit(commit), 'committed');
  });
  const { stdout, code } = await jobman(world, ['controller', 'stop']);
  assert.equal(code, 0);
  assert.equal(
    stdout,
    'No controller was running.\n1 TPU is still held at about $4.00/h: job 1 (stopped). Release: jobman stop 1 --release\n',
  );
});
