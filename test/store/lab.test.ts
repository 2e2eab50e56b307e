/** The lab's tables: names, ids, sessions and numbers are unique, and repeated reports have one effect. */

import assert from 'node:assert/strict';
import { JobmanError } from '../../src/app/errors.ts';
import type { Commit } from '../../src/app/ports.ts';
import { applyCommand } from '../../src/core/decide/commands.ts';
import type { WindowReport } from '../../src/lab/lab-store.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { LabChange } from '../../src/lab/service.ts';
import type { JobmanStore } from '../../src/store/store.ts';
import { aLabJob, aTpu, aUser, noon } from '../support/lab-builders.ts';
import { localSpec, tpuSpec } from '../support/builders.ts';
import { testStore } from '../support/stores.ts';

async function aJob(store: JobmanStore, owner: string): Promise<string> {
  const { job } = await store.insert({ owner, spec: localSpec(), manifest: '', at: noon });
  return job.id;
}

const refused = (code: number, message: RegExp) => (error: unknown) =>
  error instanceof JobmanError && error.code === code && message.test(error.message);

const report: WindowReport = {
  logFolder: '/srv/logs/a',
  stageFolder: '/srv/staging/a',
  tpu: 'kmh-tpuvm-v2-32-1',
  startTime: '20250420_011026',
  at: noon,
};

testStore('a user gets the lowest free id and nothing that belongs to another user', async ({ lab }) => {
  assert.deepEqual(await lab.users(), []);
  await lab.addUser(aUser('xibo', { id: 1, logins: ['xb'] }));
  assert.equal((await lab.addUser(aUser('lyy'))).id, 0);
  assert.equal((await lab.addUser(aUser('王伟', { logins: ['ww'] }))).id, 2);
  await assert.rejects(lab.addUser(aUser('xibo', { session: 'other' })), refused(4, /user "xibo" already exists/));
  await assert.rejects(lab.addUser(aUser('new', { id: 2 })), refused(4, /id 2 belongs to 王伟/));
  await assert.rejects(lab.addUser(aUser('new', { session: 'lyy' })), refused(4, /session "lyy" belongs to lyy/));
  await assert.rejects(lab.addUser(aUser('new', { logins: ['xb'] })), refused(4, /login "xb" belongs to xibo/));
  assert.deepEqual(
    (await lab.users()).map(({ name, id }) => [name, id]),
    [
      ['lyy', 0],
      ['xibo', 1],
      ['王伟', 2],
    ],
  );
});

testStore("a change keeps a user's name and id, and cannot take what belongs to others", async ({ lab }) => {
  const written = await lab.addUser(aUser('xibo', { directories: { 1: '/srv/a' }, logins: ['xb', 'xb2'] }));
  await lab.addUser(aUser('lyy', { logins: ['ly'] }));
  assert.deepEqual((await lab.users())[0], written);
  await lab.changeUser('xibo', { kind: 'set_directory', number: 2, folder: '/srv/b' });
  await lab.changeUser('xibo', { kind: 'see_news', upTo: 5 });
  await lab.changeUser('xibo', { kind: 'see_news', upTo: 4 });
  const values = { logins: ['xb2', 'xb3'], nextWindow: 9 };
  const { before, after: changed } = await lab.changeUser('xibo', { kind: 'set', values });
  assert.deepEqual(before, { ...written, directories: { 1: '/srv/a', 2: '/srv/b' }, newsSeen: 5 });
  assert.deepEqual(changed, { ...before, ...values });
  assert.deepEqual((await lab.users())[0], changed);
  await assert.rejects(
    lab.changeUser('xibo', { kind: 'set', values: { session: 'lyy' } }),
    refused(4, /session "lyy"/),
  );
  await assert.rejects(lab.changeUser('xibo', { kind: 'set', values: { logins: ['ly'] } }), refused(4, /login "ly"/));
  await assert.rejects(
    lab.changeUser('xbio', { kind: 'see_news', upTo: 1 }),
    refused(3, /no user "xbio".*Did you mean "xibo"/),
  );
  await assert.rejects(lab.changeUser('xibo', { kind: 'remove_directory', number: 3 }), refused(3, /directory 3/));
  assert.deepEqual((await lab.users())[0], changed);
  await lab.removeUser('xibo');
  await assert.rejects(lab.removeUser('xibo'), refused(3, /no user "xibo"/));
  assert.equal((await lab.addUser(aUser('new', { logins: ['xb2'] }))).id, 0);
});

testStore('TPUs, their aliases and their bookings can be written, changed and deleted', async ({ lab }) => {
  const tpu = {
    name: 'kmh-tpuvm-v2-32-1',
    project: null,
    zone: null,
    accelerator: 'v2-32',
    pricing: 'spot' as const,
    runtimeVersion: null,
  };
  assert.equal(await lab.changeTpu(tpu.name, { kind: 'observe_zone', zone: 'us-west4-a' }), null);
  assert.equal(await lab.changeTpu(tpu.name, { kind: 'set_pricing', pricing: 'spot' }), null);
  assert.deepEqual(await lab.tpus(), []);
  await assert.rejects(lab.changeTpu('big', { kind: 'register', facts: {} }, 'b'), refused(2, /Add it: type=v2-32/));
  await lab.changeTpu(tpu.name, { kind: 'register', facts: { pricing: 'spot' } }, 'v2-1');
  assert.deepEqual(await lab.tpus(), [tpu]);
  await lab.changeTpu(tpu.name, { kind: 'observe_zone', zone: 'europe-west4-a' });
  await lab.changeTpu(tpu.name, { kind: 'observe_zone', zone: 'us-west4-a' });
  const there = { ...tpu, zone: 'europe-west4-a' };
  assert.deepEqual(await lab.changeTpu(tpu.name, { kind: 'add', tpu }), there);
  assert.deepEqual(await lab.tpus(), [there]);
  assert.deepEqual([...(await lab.tpuAliases())], [['v2-1', tpu.name]]);
  await lab.removeTpu(tpu.name);
  assert.deepEqual([...(await lab.tpuAliases())], []);
  assert.deepEqual(await lab.tpus(), []);

  await lab.setTpuAlias('v2-1', tpu.name);
  await lab.setTpuAlias('v2-1', 'other');
  assert.deepEqual([...(await lab.tpuAliases())], [['v2-1', 'other']]);
  await lab.setTpuAlias('v2-1', null);
  assert.deepEqual([...(await lab.tpuAliases())], []);

  const booking = {
    tpu: tpu.name,
    status: 'reserved' as const,
    user: 'xibo',
    note: '',
    scriptNote: '',
    at: noon,
    by: 'ada',
  };
  await lab.changeBooking(tpu.name, { kind: 'book', user: 'xibo' }, noon);
  await lab.changeBooking(tpu.name, { kind: 'book', user: 'xibo', scriptNote: 'mine 🙂', by: 'ada' }, noon);
  assert.deepEqual(await lab.bookings(), [{ ...booking, scriptNote: 'mine 🙂' }]);
  // No job has used it.
  assert.deepEqual([...(await lab.lastUses(0))], []);
  await lab.changeBooking(tpu.name, { kind: 'release' }, noon);
  assert.deepEqual(await lab.bookings(), []);
});

testStore('a job of tpu run, its window and its booking are written together or not at all', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo'));
  await lab.addUser(aUser('lyy'));
  const spec = tpuSpec({}, { ownership: 'persistent' });
  const guard = (...replaces: string[]) => ({ grants: [], request: '', confirmed: [], replaces });
  const insert = (owner: string, seenUser: string | null, ends: readonly Commit[] = []) => {
    const { job: _, user: __, ...job } = aLabJob('', owner);
    const entry = { job, booking: { user: owner, seenUser, scriptNote: owner } };
    const replaces = ends.map((end) => end.job.id);
    return store.insertGuarded({ owner, spec, manifest: '', at: noon, lab: entry, ends }, guard(...replaces));
  };
  const written = async () => ({
    jobs: (await store.list({ maxFinished: null })).jobs.map(({ id }) => id),
    entries: (await lab.jobs()).map(({ job }) => job),
    windows: (await lab.windows({})).map(({ window }) => [window.user, window.window, window.attempt]),
    bookings: (await lab.bookings()).map(({ status, user, scriptNote }) => [status, user, scriptNote]),
  });
  const inserted = await insert('xibo', null);
  assert.ok(inserted !== 'unconfirmed');
  const { job } = inserted;
  const first = {
    jobs: [job.id],
    entries: [job.id],
    windows: [['xibo', 1, 1]],
    bookings: [['running', 'xibo', 'xibo']],
  };
  assert.deepEqual(await written(), first);
  const { job: cancelled, events } = applyCommand(job, 'cancel', { by: 'lyy', onBehalf: true }, noon + 1);
  const end = { job: cancelled, revision: 1, events, foldedOutcomes: [], wakeAt: noon, epoch: null };
  assert.equal(await insert('lyy', 'xibo'), 'unconfirmed', 'another job has just started');
  await assert.rejects(insert('lyy', null, [end]), refused(4, /xibo has just booked/));
  assert.equal(await insert('lyy', 'xibo', [{ ...end, revision: 7 }]), 'unconfirmed', 'that job has just changed');
  assert.deepEqual(await written(), first);
  assert.equal((await store.load(job.id))?.job.desired, 'running');

  const second = await insert('lyy', 'xibo', [end]);
  assert.ok(second !== 'unconfirmed');
  assert.deepEqual((await written()).bookings, [['running', 'lyy', 'lyy']]);
  assert.equal((await store.load(job.id))?.job.desired, 'cancelled');
  assert.equal(second.job.startRequest?.waitsForTpu, true);

  // The same for a job that starts again.
  const over = { ...second.job, startRequest: null, finish: { at: noon, verdict: 'failed', reason: 'hung' } as const };
  await store.commit({ ...end, job: over, events: [], revision: 1 });
  const again = applyCommand(over, 'resume', { by: 'lyy', waitsForTpu: true }, noon + 2);
  const lab2 = (seenUser: string | null) => ({ attempt: 2, booking: { user: 'lyy', seenUser }, replaces: [job.id] });
  const restart = (seenUser: string | null) =>
    store.commit({ ...end, ...again, revision: 2, guard: guard(job.id), lab: lab2(seenUser) });
  await lab.changeBooking(aLabJob('', '').tpu, { kind: 'book', user: 'ada' }, noon);
  await assert.rejects(restart(null), refused(4, /ada has just booked/));
  assert.equal((await store.load(second.job.id))?.revision, 2);
  assert.equal(await restart('ada'), 'committed');
  assert.deepEqual((await written()).windows.at(-1), ['lyy', 2, 2]);
  assert.deepEqual((await lab.job(second.job.id))?.replaces, [job.id]);
});

testStore('the booking of a job follows its attempts, in the table or for a spreadsheet', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo', { sheetName: 'Xi' }));
  for (const [spreadsheet, name] of [
    [undefined, 'lab-v4-1'],
    [true, 'lab-v4-2'],
  ] as const) {
    const { job: _, user: __, ...entry } = aLabJob('', 'xibo', { tpu: name, ...(spreadsheet && { spreadsheet }) });
    const spec = tpuSpec({}, { ownership: 'persistent', name });
    const booking = { user: 'Xi', seenUser: null };
    const { job } = await store.insert({ owner: 'xibo', spec, manifest: '', at: noon, lab: { job: entry, booking } });
    const commit = (revision: number, ...events: readonly Event[]) =>
      store.commit({ job, revision, events, foldedOutcomes: [], wakeAt: null, epoch: null });
    const ended = {
      at: noon,
      kind: 'attempt_ended',
      attempt: 1,
      reason: 'preempted',
      evidence: { message: '' },
    } as const;
    const started = { at: noon, kind: 'attempt_started', attempt: 2, workers: [0] } as const;
    const status = async () => (await lab.bookings()).find(({ tpu }) => tpu === name)?.status ?? null;
    const seen = [await status()];
    for (const [index, event] of [ended, started, ended].entries()) {
      await commit(index + 1, event);
      seen.push(await status());
    }
    if (spreadsheet === undefined) assert.deepEqual(seen, ['running', 'reserved', 'running', 'reserved']);
    else assert.deepEqual(seen, [null, null, null, null]);
  }
  const changes = await lab.sheetChanges();
  const kinds = ['run', 'end_attempt', 'begin_attempt', 'end_attempt'];
  assert.deepEqual(
    changes.map(({ tpu, command }) => [tpu, command.kind]),
    kinds.map((kind) => ['lab-v4-2', kind]),
  );
  const [first, second] = changes;
  assert.ok(first !== undefined && second !== undefined);

  // Of two processes one takes a change, which stays until it is ended.
  const taken = await Promise.all([lab.claimSheetChange(first, noon + 9), lab.claimSheetChange(first, noon + 9)]);
  assert.deepEqual(taken.toSorted(), [false, true]);
  await lab.endSheetChange(first, { error: 'bob has it', nextAt: null });
  assert.deepEqual((await lab.sheetChanges())[0], { ...first, tries: 1, error: 'bob has it', nextAt: null });
  await lab.endSheetChange(second, null);
  assert.deepEqual(
    (await lab.sheetChanges()).map(({ id }) => id),
    changes.slice(2).map(({ id }) => id),
  );
});

testStore('an operation writes the booking and the zone of its TPU, whatever happens to its command', async (store) => {
  const { lab } = store;
  for (const [spreadsheet, name] of [
    [undefined, 'lab-v4-1'],
    [true, 'lab-v4-2'],
  ] as const) {
    await lab.changeTpu(name, { kind: 'add', tpu: aTpu(name, { zone: null }) });
    const operate = async (kind: 'create' | 'delete', event: Event) => {
      const work = kind === 'create' ? { kind } : { kind, creationTime: null };
      const operation = spreadsheet === undefined ? work : { ...work, spreadsheet };
      const { job } = await store.insert({
        owner: 'xibo',
        spec: tpuSpec({}, { ownership: 'persistent', name, operation }),
        manifest: '',
        at: noon,
      });
      await store.commit({ job, revision: 1, events: [event], foldedOutcomes: [], wakeAt: null, epoch: null });
      return (await lab.bookings()).find(({ tpu }) => tpu === name)?.status ?? null;
    };
    const finished = { kind: 'finished', at: noon, reason: 'stopped' } as const;
    const seen = { kind: 'allocation_seen', at: noon, allocation: 1, state: 'ready', message: '' } as const;
    const statuses = [
      await operate('delete', { ...finished, verdict: 'cancelled' }),
      await operate('delete', { ...finished, verdict: 'succeeded' }),
      await operate('create', { ...seen, state: 'waiting' }),
      await operate('create', seen),
    ];
    assert.deepEqual(statuses, spreadsheet === undefined ? [null, 'gone', 'gone', null] : [null, null, null, null]);
  }
  const changes = await lab.sheetChanges();
  assert.deepEqual(
    changes.map(({ tpu, command }) => [tpu, command]),
    [false, true].map((exists) => ['lab-v4-2', { kind: 'observe', exists }]),
  );
  assert.deepEqual(
    (await lab.tpus()).map(({ zone }) => zone),
    ['us-west4-a', 'us-west4-a'],
  );
});

testStore('each attempt gets one number: the next that no listed window has', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo', { session: 'xb', nextWindow: 41 }));
  const [first, second] = [await aJob(store, 'xibo'), await aJob(store, 'xibo')];
  await assert.rejects(lab.openWindow(first, 1, noon), refused(3, /not a job of the lab/));
  await lab.addJob(aLabJob(first, 'xibo'));
  await lab.addJob(aLabJob(second, 'xibo', { parent: { job: first, attempt: 1, startMode: 'resume' }, baseStage: 1 }));
  const opened = await lab.openWindow(first, 1, noon);
  assert.deepEqual([opened.session, opened.window.window, opened.job], ['xb', 41, aLabJob(first, 'xibo')]);
  // The same call returns the same window.
  assert.deepEqual(await lab.openWindow(first, 1, noon + 5), opened);
  await lab.changeUser('xibo', { kind: 'set', values: { nextWindow: 40 } });
  assert.equal((await lab.openWindow(first, 2, noon)).window.window, 40);
  assert.equal((await lab.openWindow(second, 1, noon)).window.window, 42);
  assert.equal((await lab.users())[0]?.nextWindow, 43);
});

testStore('the number of an ancestor is not given again while a descendant is listed', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo'));
  const [parent, child, other] = [await aJob(store, 'xibo'), await aJob(store, 'xibo'), await aJob(store, 'xibo')];
  await lab.addJob(aLabJob(parent, 'xibo'));
  await lab.addJob(aLabJob(child, 'xibo', { parent: { job: parent, attempt: 1, startMode: 'resume' } }));
  await lab.addJob(aLabJob(other, 'xibo'));
  await lab.openWindow(parent, 1, noon);
  await lab.openWindow(child, 1, noon);
  await lab.setWindowState([{ job: parent, attempt: 1 }], 'cleared', noon);
  const again = async (attempt: number) => {
    await lab.changeUser('xibo', { kind: 'set', values: { nextWindow: 1 } });
    return (await lab.openWindow(other, attempt, noon)).window.window;
  };
  assert.equal(await again(1), 3);
  await lab.setWindowState([{ job: child, attempt: 1 }], 'cleared', noon);
  assert.equal(await again(2), 1);
  assert.equal(await again(3), 2);
});

testStore('two users have independent numbers, and a job continues after its user was removed', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo', { session: 'xb', nextWindow: 7 }));
  await lab.addUser(aUser('lyy'));
  const [one, two, three] = [await aJob(store, 'xibo'), await aJob(store, 'lyy'), await aJob(store, 'new')];
  await lab.addJob(aLabJob(one, 'xibo'));
  await lab.addJob(aLabJob(two, 'lyy'));
  await lab.openWindow(one, 1, noon);
  assert.equal((await lab.openWindow(two, 1, noon)).window.window, 1);
  await lab.removeUser('xibo');
  const next = await lab.openWindow(one, 2, noon);
  assert.deepEqual([next.session, next.window.window], ['xb', 8]);
  // The next user of the session gets other numbers in it.
  await lab.addUser(aUser('new', { session: 'xb', nextWindow: 7 }));
  await lab.addJob(aLabJob(three, 'new'));
  assert.equal((await lab.openWindow(three, 1, noon)).window.window, 9);
  assert.equal((await lab.findWindow('xb', 8))?.job.user, 'xibo');
});

testStore("a script's report is written once, and an unknown window is reported as missing", async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo'));
  const id = await aJob(store, 'xibo');
  await lab.addJob(aLabJob(id, 'xibo'));
  await lab.openWindow(id, 1, noon);
  assert.equal(await lab.reportWindow('xibo', 2, report), null);
  assert.equal(await lab.reportWindow('xib', 1, report), null);
  assert.equal(await lab.finishWindow('xibo', 2, noon), null);
  assert.equal((await lab.reportWindow('xibo', 1, report))?.window.report, null);
  assert.deepEqual((await lab.reportWindow('xibo', 1, { ...report, at: noon + 9 }))?.window.report, report);
  assert.deepEqual((await lab.findWindow('xibo', 1))?.window.report, report);
  await lab.reportWindow('xibo', 1, { ...report, logFolder: '/srv/logs/b', at: noon + 9 });
  assert.equal((await lab.findWindow('xibo', 1))?.window.report?.logFolder, '/srv/logs/b');
  assert.equal((await lab.finishWindow('xibo', 1, noon + 1))?.window.finishedAt, null);
  assert.equal((await lab.finishWindow('xibo', 1, noon + 2))?.window.finishedAt, noon + 1);
  await lab.setWindowState([{ job: id, attempt: 1 }], 'closed', noon + 3);
  await lab.setWindowState([{ job: id, attempt: 1 }], 'closed', noon + 4);
  await lab.setWindowState([{ job: id, attempt: 1 }], 'cleared', noon + 5);
  assert.equal(await lab.findWindow('xibo', 1), null);
  assert.equal(await lab.reportWindow('xibo', 1, report), null);
  const [cleared] = await lab.windows({ jobs: [id], cleared: true });
  assert.deepEqual([cleared?.window.closedAt, cleared?.window.clearedAt], [noon + 3, noon + 5]);
  assert.deepEqual(await lab.windows({}), []);
});

testStore('windows and jobs are found by user and by job, in order', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('xibo', { nextWindow: 10 }));
  await lab.addUser(aUser('lyy'));
  const [one, two, three] = [await aJob(store, 'xibo'), await aJob(store, 'xibo'), await aJob(store, 'lyy')];
  for (const [id, user] of [
    [one, 'xibo'],
    [two, 'xibo'],
    [three, 'lyy'],
  ] as const) {
    await lab.addJob(aLabJob(id, user));
  }
  await lab.openWindow(two, 1, noon);
  await lab.openWindow(one, 1, noon);
  await lab.openWindow(three, 1, noon);
  const numbers = async (query: Parameters<typeof lab.windows>[0]) =>
    (await lab.windows(query)).map(({ window }) => `${window.user} ${window.window} ${window.job}`);
  assert.deepEqual(await numbers({ user: 'xibo' }), [`xibo 10 ${two}`, `xibo 11 ${one}`]);
  assert.deepEqual(await numbers({}), [`lyy 1 ${three}`, `xibo 10 ${two}`, `xibo 11 ${one}`]);
  assert.deepEqual(await numbers({ jobs: [one, 'no id'] }), [`xibo 11 ${one}`]);
  assert.deepEqual(await numbers({ jobs: [] }), []);
  assert.deepEqual(
    (await lab.jobs('xibo')).map(({ job }) => job),
    [one, two],
  );
  await lab.tagJob(one, 'best');
  assert.deepEqual(await lab.job(one), aLabJob(one, 'xibo', { tag: 'best' }));
  assert.equal(await lab.job('000099'), null);
  assert.equal((await lab.jobs()).length, 3);

  await lab.openWindow(one, 2, noon);
  await lab.setWindowState([{ job: one, attempt: 1 }], 'cleared', noon);
  await lab.setWindowState([{ job: two, attempt: 1 }], 'cleared', noon);
  assert.deepEqual(await numbers({ user: 'xibo' }), [`xibo 12 ${one}`]);
  assert.deepEqual(await numbers({ user: 'xibo', cleared: 'of listed jobs' }), [`xibo 11 ${one}`, `xibo 12 ${one}`]);
  assert.equal((await numbers({ user: 'xibo', cleared: true })).length, 3);
});

testStore('the changes of an import are written together or not at all', async (store) => {
  const { lab } = store;
  await lab.addUser(aUser('before'));
  const changes: readonly LabChange[] = [
    { kind: 'add_user', user: { ...aUser('xibo'), id: 1 } },
    { kind: 'change_user', name: 'xibo', change: { kind: 'set_config_alias', alias: 'lr', key: 'config.lr' } },
    { kind: 'change_tpu', name: 'lab-v4-8', change: { kind: 'register', facts: {} } },
    { kind: 'set_tpu_alias', alias: 'v4', name: 'lab-v4-8' },
  ];
  const taken: LabChange = { kind: 'add_user', user: { ...aUser('before'), id: 2, session: 'x' } };
  const names = async () => (await lab.users()).map(({ name }) => name);
  await assert.rejects(lab.applyChanges([...changes, taken]), refused(4, /"before" already exists/));
  assert.deepEqual(await names(), ['before']);
  assert.equal((await lab.tpuAliases()).size, 0);
  await lab.applyChanges(changes);
  assert.deepEqual(await names(), ['before', 'xibo']);
  assert.deepEqual([...(await lab.tpuAliases())], [['v4', 'lab-v4-8']]);
});

testStore("the events of a user's jobs are listed after a number, in order", async (store) => {
  const { lab } = store;
  const mine = await store.insert({ owner: 'xibo', spec: localSpec(), manifest: '', at: noon });
  const theirs = await store.insert({ owner: 'lyy', spec: localSpec(), manifest: '', at: noon });
  await lab.addJob(aLabJob(mine.job.id, 'xibo'));
  await lab.addJob(aLabJob(theirs.job.id, 'lyy'));
  const unreachable = { kind: 'unreachable' as const, at: noon + 1, allocation: 1, message: 'no answer' };
  for (const { job, revision } of [theirs, mine]) {
    await store.commit({ job, revision, events: [unreachable], foldedOutcomes: [], wakeAt: null, epoch: null });
  }
  const all = await lab.eventsSince('xibo', 0, ['created', 'unreachable', 'reachable']);
  assert.deepEqual(
    all.map(({ job, event }) => [job, event.kind]),
    [
      [mine.job.id, 'created'],
      [mine.job.id, 'unreachable'],
    ],
  );
  assert.deepEqual(await lab.eventsSince('xibo', all[0]?.number ?? 0, ['created', 'unreachable']), all.slice(1));
  assert.deepEqual(await lab.eventsSince('xibo', 0, ['unreachable']), all.slice(1), 'other kinds are not read');
  assert.deepEqual(await lab.eventsSince('xibo', all[1]?.number ?? 0, ['unreachable']), []);
});
