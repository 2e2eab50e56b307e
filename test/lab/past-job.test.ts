// What another program has run is a job like any other that has ended: the record and its history agree, and it can go on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ask } from '../../src/core/commands.ts';
import { answerWish } from '../../src/core/attempts.ts';
import { historyTellsTheState } from '../../sim/pass-history.ts';
import { heldAllocations } from '../../src/core/job.ts';
import { phaseOf } from '../../src/core/phase.ts';
import { hour } from '../../src/core/time.ts';
import { pastJob, type PastJob } from '../../src/lab/past-job.ts';
import { openStore } from '../../src/store/store.ts';
import { noon, tpuSpec } from '../support/builders.ts';
import { aLabJob, aUser } from './sample.ts';

const standing = tpuSpec({}, { ownership: 'standing', name: 'kmh-tpuvm-v2-32-1' });

function past(changes: Partial<PastJob> = {}): PastJob {
  return {
    owner: 'xibo',
    spec: standing,
    manifest: '{}',
    createdAt: noon,
    startedAt: noon + 1,
    endedAt: noon + hour,
    verdict: 'failed',
    reason: 'preempted',
    evidence: { detail: 'the cloud took it' },
    lab: null,
    window: null,
    ...changes,
  };
}

const ids = { id: '000007', installation: 'abc123' };

test('history tells the state of every sort of past job', () => {
  const sorts: readonly Partial<PastJob>[] = [
    {},
    { verdict: 'succeeded', reason: 'succeeded' },
    { verdict: 'cancelled', reason: 'stopped' },
    { verdict: 'stopped', reason: 'stopped' },
    { verdict: 'stopped', reason: 'stopped', evidence: { detail: 'imported, was RUNNING' }, spec: tpuSpec() },
    { startedAt: null },
    { spec: tpuSpec() },
    { endedAt: noon - hour },
  ];
  for (const changes of sorts) {
    const { job, events } = pastJob(past(changes), ids);
    assert.deepEqual(historyTellsTheState(events, job), [], JSON.stringify(changes));
    assert.equal(phaseOf(job), changes.verdict ?? 'failed');
    assert.deepEqual(heldAllocations(job), []);
  }
});

test('it is resumed on its standing TPU, without a request to make one; an own one is asked for anew', () => {
  for (const [spec, allocation] of [
    [standing, 1],
    [tpuSpec(), 2],
  ] as const) {
    const { job } = pastJob(past({ spec }), ids);
    const asked = ask(job, 'resume', { by: 'xibo' }, noon + 2 * hour);
    const { job: next } = answerWish(asked.job, noon + 2 * hour);
    const [, second] = next.attempts;
    assert.deepEqual([second?.how, second?.stage, second?.allocation], ['resume', 1, allocation]);
  }
});

test('the record has it with its window, once its number is free', async (t) => {
  const store = openStore({ file: ':memory:', isTaken: (id) => id === '000001' });
  t.after(() => store.close());
  const { lab } = store;
  await lab.addUser(aUser('xibo'));
  const { job: _, user: __, ...about } = aLabJob('', 'xibo');
  const report = { logFolder: '/srv/logs/a', stageFolder: '/srv/stage', tpu: standing.name, startTime: 'x', at: noon };
  const window = { session: 'xibo', window: 12, report, finishedAt: null, cleared: false };
  const id = await lab.addPastJob(past({ lab: about, window }));
  assert.equal(id, '000002');
  const [found] = await lab.windows({ user: 'xibo' });
  assert.deepEqual([found?.window.window, found?.window.report, found?.job.tpu], [12, report, about.tpu]);
  const cleared = { ...window, cleared: true };
  await lab.addPastJob(past({ lab: { ...about, father: { job: id, attempt: 1, how: 'resume' } }, window: cleared }));
  await assert.rejects(lab.addPastJob(past({ lab: about, window })), /unique/i);
  assert.equal((await lab.jobs('xibo')).length, 2);
  assert.equal((await store.list({ settledMost: null })).jobs.length, 2);
  assert.equal(await store.nextWake(), null);
  const events = await store.events(id, 0);
  const stored = await store.load(id);
  assert.ok(stored !== undefined);
  assert.deepEqual(
    historyTellsTheState(
      events.map(({ event }) => event),
      stored.job,
    ),
    [],
  );
  const answered = ask(stored.job, 'resume', { by: 'xibo' }, noon + 2 * hour);
  const commit = { job: answered.job, revision: stored.revision, events: answered.events, folded: [], epoch: null };
  assert.equal(await store.commit({ ...commit, wakeAt: noon }), 'committed');
  assert.deepEqual(await store.due(noon, 5), [id]);
});
