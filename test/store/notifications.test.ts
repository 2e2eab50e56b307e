// The outbox: notices are written with their events, and each recipient gets each of them in one message.

import assert from 'node:assert/strict';
import { suite } from 'node:test';
import type { Commit } from '../../src/app/ports.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { JobmanStore } from '../../src/store/store.ts';
import { aJob, anOrphan, attemptOf, localSpec, noon, tpuSpec } from '../support/builders.ts';
import { aClusterJob, anArchivedJob, aCondition } from '../support/cluster-builders.ts';
import { testStore } from '../support/stores.ts';

const finished: Event = { kind: 'finished', at: noon + 5, verdict: 'succeeded', reason: 'succeeded' };

async function commitEvents(store: JobmanStore, id: string, events: readonly Event[], changes: Partial<Commit> = {}) {
  const stored = await store.load(id);
  assert.ok(stored);
  const commit: Commit = {
    job: stored.job,
    revision: stored.revision,
    events,
    foldedOutcomes: [],
    wakeAt: null,
    epoch: null,
  };
  return store.commit({ ...commit, ...changes });
}

async function finishedJob(store: JobmanStore): Promise<string> {
  const { job } = await store.insert({ owner: 'ada', spec: localSpec(), manifest: '', at: noon });
  await commitEvents(store, job.id, [finished]);
  return job.id;
}

suite('a notice', () => {
  testStore('is written with the commit of its event, and not with one that is dropped', async (store) => {
    const outbox = store.notifications;
    const id = await finishedJob(store);
    assert.equal(await commitEvents(store, id, [finished], { revision: 1 }), 'stale');
    const notices = await outbox.unaddressed(noon);
    assert.deepEqual(
      notices.map(({ event, job, owner }) => [event, job, owner]),
      [['succeeded', id, 'ada']],
    );
  });

  testStore('without recipients is deleted', async (store) => {
    const outbox = store.notifications;
    await finishedJob(store);
    const [notice] = await outbox.unaddressed(noon);
    await outbox.address([{ id: notice?.id ?? 0, recipients: [] }]);
    assert.deepEqual(await outbox.unaddressed(noon), []);
    assert.deepEqual(await outbox.waiting(0), []);
  });

  testStore('that waits for capacity is due after its delay, and is withdrawn when the wait ends', async (store) => {
    const outbox = store.notifications;
    const { job } = await store.insert({ owner: 'ada', spec: tpuSpec(), manifest: '', at: noon });
    const waiting = aJob(tpuSpec(), { id: job.id, installation: 'abc123', attempts: [attemptOf(1)] });
    const created: Event = {
      kind: 'attempt_created',
      at: noon,
      attempt: 1,
      stage: 0,
      startMode: 'fresh',
      startedByOwner: true,
      allocation: 1,
      notBeforeAt: noon,
    };
    await commitEvents(store, job.id, [created], { job: waiting });
    assert.deepEqual(await outbox.unaddressed(noon - 1), []);
    assert.deepEqual(
      (await outbox.unaddressed(noon)).map(({ event }) => event),
      ['waiting'],
    );
    const [due] = await outbox.unaddressed(noon);
    await commitEvents(store, job.id, [finished], { job: waiting });
    assert.deepEqual(
      (await outbox.unaddressed(noon)).map(({ event }) => event),
      ['succeeded'],
    );
    // Its recipients were chosen from an older list.
    await outbox.address([{ id: due?.id ?? 0, recipients: ['slack'] }]);
    assert.deepEqual(await outbox.waiting(0), []);
  });

  testStore('of an orphan is written once', async (store) => {
    const outbox = store.notifications;
    await store.recordOrphan(anOrphan);
    assert.deepEqual(await outbox.unaddressed(noon), []);
    const other = { ...anOrphan, resource: 'projects/p/m' };
    await store.recordOrphan(other, noon);
    await store.recordOrphan({ ...other, state: 'DELETING' }, noon + 1);
    assert.equal((await outbox.unaddressed(noon)).length, 1);
  });

  testStore('of a cluster is written with the observation that shows it', async (store) => {
    const outbox = store.notifications;
    const { hidden: _hidden, object: _object, logs: _logs, ...archived } = anArchivedJob();
    const event = { key: 'created', at: noon, message: 'created' };
    await store.clusters.archiveObject(archived, '{}');
    const complete = { ...archived, job: aClusterJob({ conditions: [aCondition('Complete')] }) };
    for (let times = 0; times < 2; times += 1) await store.clusters.archiveObservation(complete, [event]);
    // The wait for capacity is over.
    assert.deepEqual(
      (await outbox.unaddressed(Number.MAX_SAFE_INTEGER)).map(({ event: name }) => name),
      ['succeeded'],
    );
  });
});

suite('a message', () => {
  async function addressed(store: JobmanStore, recipients: readonly string[], jobs = 1) {
    const outbox = store.notifications;
    for (let count = 0; count < jobs; count += 1) await finishedJob(store);
    const notices = await outbox.unaddressed(noon);
    for (let times = 0; times < 2; times += 1) await outbox.address(notices.map(({ id }) => ({ id, recipients })));
    return outbox;
  }

  testStore('has a key of its own, and each recipient gets each notice once', async (store) => {
    const outbox = await addressed(store, ['slack', 'mail:ada@example.com'], 3);
    const waiting = await outbox.waiting(0);
    assert.deepEqual(
      waiting.map(({ recipient, notices }) => [recipient, notices.length]),
      [
        ['mail:ada@example.com', 3],
        ['slack', 3],
      ],
    );
    const keys: string[] = [];
    for (const { recipient, notices } of waiting) {
      const message = await outbox.createMessage(
        recipient,
        notices.slice(0, 2).map(({ id }) => id),
        noon,
      );
      assert.equal(message?.notices.length, 2);
      keys.push(message.key);
    }
    assert.deepEqual(keys, ['jobman-abc123-1', 'jobman-abc123-2']);
    const [taken] = waiting[0]?.notices ?? [];
    assert.equal(await outbox.createMessage('mail:ada@lab.org', [taken?.id ?? 0], noon), null);
    const rest = await outbox.waiting(noon - 1);
    assert.deepEqual(
      rest.map(({ notices, sentAt }) => [notices.length, sentAt]),
      [
        [1, [noon]],
        [1, [noon]],
      ],
    );
    assert.deepEqual(
      (await outbox.pending()).map(({ key, tries }) => [key, tries]),
      [
        ['jobman-abc123-1', 0],
        ['jobman-abc123-2', 0],
      ],
    );
  });

  testStore('counts its tries, keeps its key, and ends once', async (store) => {
    const outbox = await addressed(store, ['slack']);
    const [{ notices }] = (await outbox.waiting(0)) as unknown as [{ notices: { id: number }[] }];
    const message = await outbox.createMessage(
      'slack',
      notices.map((one) => one.id),
      noon,
    );
    assert.ok(message);
    const { id, key } = message;
    await outbox.recordFailure(id, { error: 'HTTP 500', nextAt: noon + 9 });
    assert.deepEqual(
      (await outbox.pending()).map((one) => [one.key, one.tries, one.nextAt]),
      [[key, 1, noon + 9]],
    );
    await outbox.recordEnd(id, { state: 'sent', at: noon + 10 });
    await outbox.recordEnd(id, { state: 'given_up', at: noon + 11, error: 'late' });
    assert.deepEqual(await outbox.pending(), []);
    const [view] = await outbox.messages(5, null);
    assert.deepEqual(
      [view?.state, view?.tries, view?.endedAt, view?.nextAt, view?.error],
      ['sent', 2, noon + 10, null, null],
    );
  });

  testStore('is given up with those that wait when its recipient is dropped', async (store) => {
    const outbox = store.notifications;
    for (let count = 0; count < 3; count += 1) await finishedJob(store);
    const notices = await outbox.unaddressed(noon);
    await outbox.address(notices.map(({ id }) => ({ id, recipients: ['teams', 'slack'] })));
    await outbox.createMessage('teams', [notices[0]?.id ?? 0], noon);
    assert.equal(await outbox.drop('teams', { at: noon + 9, error: 'dropped' }, null), 3);
    assert.equal(await outbox.drop('teams', { at: noon + 9, error: 'dropped' }, null), 0);
    assert.deepEqual(
      (await outbox.messages(9, null)).map((one) => [one.recipient, one.state, one.error, one.notices.length]),
      [
        ['teams', 'given_up', 'dropped', 2],
        ['teams', 'given_up', 'dropped', 1],
      ],
    );
    assert.deepEqual(
      (await outbox.waiting(noon)).map(({ recipient, notices: left }) => [recipient, left.length]),
      [['slack', 3]],
    );
  });

  testStore('that ended long ago is deleted with its notices, and another is not', async (store) => {
    const outbox = await addressed(store, ['slack'], 2);
    const [{ notices }] = (await outbox.waiting(0)) as unknown as [{ notices: { id: number }[] }];
    const [first, second] = notices.map((one) => one.id) as [number, number];
    const id = (await outbox.createMessage('slack', [first], noon))?.id ?? 0;
    await outbox.createMessage('slack', [second], noon);
    await outbox.recordEnd(id, { state: 'sent', at: noon });
    await outbox.prune(noon + 1);
    const left = await outbox.messages(5, null);
    assert.deepEqual(
      left.map(({ state, notices: kept }) => [state, kept.length]),
      [['pending', 1]],
    );
  });
});
