// An imported job is a finished job: its state and history agree, and it can be resumed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyCommand } from '../../src/core/decide/commands.ts';
import { beginAttempt } from '../../src/core/decide/advance.ts';
import { historyMismatches } from '../../sim/history-replay.ts';
import { heldAllocations } from '../../src/core/model/job.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { hour } from '../../src/core/model/time.ts';
import { buildImportedJob, type ImportedJob } from '../../src/lab/imported-job.ts';
import type { LabChange } from '../../src/lab/service.ts';
import { openStore } from '../../src/store/store.ts';
import { noon, tpuSpec } from '../support/builders.ts';
import { aLabJob, aUser } from '../support/lab-builders.ts';

const persistent = tpuSpec({}, { ownership: 'persistent', name: 'kmh-tpuvm-v2-32-1' });

function past(changes: Partial<ImportedJob> = {}): ImportedJob {
  return {
    owner: 'xibo',
    spec: persistent,
    manifest: '{}',
    createdAt: noon,
    startedAt: noon + 1,
    endedAt: noon + hour,
    verdict: 'failed',
    reason: 'preempted',
    evidence: { message: 'the cloud took it' },
    lab: null,
    window: null,
    ...changes,
  };
}

const ids = { id: '000007', installation: 'abc123' };

test('the history of each kind of imported job reproduces its state', () => {
  const sorts: readonly Partial<ImportedJob>[] = [
    {},
    { verdict: 'succeeded', reason: 'succeeded' },
    { verdict: 'cancelled', reason: 'stopped' },
    { verdict: 'stopped', reason: 'stopped' },
    { verdict: 'stopped', reason: 'stopped', evidence: { message: 'imported, was RUNNING' }, spec: tpuSpec() },
    { startedAt: null },
    { spec: tpuSpec() },
    { endedAt: noon - hour },
  ];
  for (const changes of sorts) {
    const { job, events } = buildImportedJob(past(changes), ids);
    assert.deepEqual(historyMismatches(events, job), [], JSON.stringify(changes));
    assert.equal(phaseOf(job), changes.verdict ?? 'failed');
    assert.deepEqual(heldAllocations(job), []);
  }
});

test('a resume uses its persistent TPU, or requests a new ephemeral allocation', () => {
  for (const [spec, allocation] of [
    [persistent, 1],
    [tpuSpec(), 2],
  ] as const) {
    const { job } = buildImportedJob(past({ spec }), ids);
    const asked = applyCommand(job, 'resume', { by: 'xibo' }, noon + 2 * hour);
    const { job: next } = beginAttempt(asked.job, undefined, noon + 2 * hour);
    const [, second] = next.attempts;
    assert.deepEqual([second?.startMode, second?.stage, second?.allocation], ['resume', 1, allocation]);
  }
});

test('the store has it with its window if the number is free', async (t) => {
  const store = openStore({ file: ':memory:', isIdTaken: (id) => id === '000001' });
  t.after(() => store.close());
  const { lab } = store;
  await lab.addUser(aUser('xibo'));
  const { job: _, user: __, ...about } = aLabJob('', 'xibo');
  const report = {
    logFolder: '/srv/logs/a',
    stageFolder: '/srv/stage',
    tpu: persistent.name,
    startTime: 'x',
    at: noon,
  };
  const window = { session: 'xibo', window: 12, report, finishedAt: null, cleared: false };
  const add = (job: ImportedJob): LabChange => ({ kind: 'add_job', job });
  const first = past({ lab: about, window });
  const [id] = await lab.applyChanges([add(first)]);
  assert.equal(id, '000002');
  const [found] = await lab.windows({ user: 'xibo' });
  assert.deepEqual([found?.window.window, found?.window.report, found?.job.tpu], [12, report, about.tpu]);
  const cleared = { ...window, cleared: true };
  const resumed = { ...past({ lab: about, window: cleared }), createdAt: noon + 7 };
  const parent = { change: 0, startMode: 'resume' } as const;
  const again = [add(first), { ...add(resumed), parent }];
  assert.deepEqual(await lab.applyChanges(again), [id, '000003']);
  assert.deepEqual(await lab.applyChanges(again), [id, '000003'], 'an import that runs twice adds nothing');
  assert.deepEqual((await lab.job('000003'))?.parent, { job: id, attempt: 1, startMode: 'resume' });
  const other = { ...resumed, window: { ...cleared, window: 99 } };
  const taken = { ...first, createdAt: noon + 9 };
  await assert.rejects(lab.applyChanges([add(other), add(taken)]), /unique/i, 'all or nothing');
  assert.equal((await lab.users())[0]?.newsSeen, await store.lastEvent());
  assert.equal((await lab.jobs('xibo')).length, 2);
  assert.equal((await store.list({ maxFinished: null })).jobs.length, 2);
  assert.equal(await store.nextWake(), null);
  const events = await store.events(id, 0);
  const stored = await store.load(id);
  assert.ok(stored !== undefined);
  assert.deepEqual(
    historyMismatches(
      events.map(({ event }) => event),
      stored.job,
    ),
    [],
  );
  const answered = applyCommand(stored.job, 'resume', { by: 'xibo' }, noon + 2 * hour);
  const commit = {
    job: answered.job,
    revision: stored.revision,
    events: answered.events,
    foldedOutcomes: [],
    epoch: null,
  };
  assert.equal(await store.commit({ ...commit, wakeAt: noon }), 'committed');
  assert.deepEqual(await store.dueJobs(noon, 5), [id]);
});
