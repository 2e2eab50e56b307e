// Import of the data of the older program: once, with a line for each part that is not imported.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { jobRow } from '../../src/app/views.ts';
import { recordedState } from '../../sim/history-replay.ts';
import {
  applyImport,
  parseOldData,
  planImport,
  type ImportLine,
  type ImportContext,
  type OldData,
} from '../../src/lab/import-old-data.ts';
import { newsEventKinds } from '../../src/lab/news.ts';
import { openStore } from '../../src/store/store.ts';
import { noon, tpuSpec } from '../support/builders.ts';
import { documentedSample, malformedData } from './old-data.ts';
import { aLabJob, aUser } from '../support/lab-builders.ts';

const parts: ImportContext = {
  reserved: { verbs: new Set(['run', 'check']), keys: new Set(['dir', 'tag']) },
  specOf: ({ tpu, rule }) => tpuSpec({ name: rule }, { ownership: 'persistent', name: tpu.name }),
  now: noon,
};

function throwing(error: Error): ImportContext {
  const specOf = (): never => {
    throw error;
  };
  return { ...parts, specOf };
}

function read(file: unknown): OldData {
  // Like a value from a file.
  const data = parseOldData(JSON.parse(JSON.stringify(file)));
  assert.ok(data !== undefined);
  return data;
}

function open(t: TestContext) {
  const store = openStore({ file: ':memory:' });
  t.after(() => store.close());
  return store;
}

const linesOf = (lines: readonly ImportLine[], kind: ImportLine['kind']) =>
  lines
    .filter((line) => line.kind === kind)
    .map(({ subject, message }) => (message === '' ? subject : `${subject}: ${message}`));

test('the sample of the manual is imported completely and only once', async (t) => {
  const store = open(t);
  const { lab } = store;
  const data = read(documentedSample);
  assert.equal(data.wandbKey, 'secret-of-the-lab');
  assert.equal(data.condaEnvironment, 'NNX');
  const dry = await planImport(lab, data, parts);
  assert.deepEqual(linesOf(dry, 'import'), [
    'TPU kmh-tpuvm-v2-32-1: v2-32, ondemand, europe-west4-a',
    'TPU kmh-tpuvm-v2-32-preemptible-1: v2-32, preemptible, europe-west4-a',
    'TPU kmh-tpuvm-v4-32-1: v4-32, ondemand, us-central2-b',
    'TPU alias v2-1: kmh-tpuvm-v2-32-1',
    'user xibo: id 0, 1 directory, 1 alias, next window 42',
    'window 1 of xibo: succeeded, kmh-tpuvm-v2-32-preemptible-1',
  ]);
  assert.deepEqual(linesOf(dry, 'skip'), [
    'monitor_config: not needed: the controller checks jobs by itself',
    'monitor_all_check_time: not needed: the controller checks jobs by itself',
  ]);
  assert.deepEqual(await lab.users(), [], 'a dry run changes nothing');

  assert.deepEqual(await applyImport(lab, data, parts), dry);
  const [xibo] = await lab.users();
  assert.deepEqual([xibo?.directories, xibo?.settings.show_length, xibo?.nextWindow], [{ 1: '/srv/code' }, 300, 42]);
  const [window] = await lab.windows({ user: 'xibo' });
  assert.deepEqual(window?.window.report, {
    logFolder: '/srv/logs/1',
    stageFolder: '/srv/staging/1',
    tpu: 'kmh-tpuvm-v2-32-preemptible-1',
    startTime: '20250420_011026',
    at: Date.UTC(2025, 3, 20, 1, 10, 26),
  });
  assert.deepEqual(window.job.configs, ['--lr=0.01']);
  const stored = await store.load(window.job.job);
  assert.deepEqual([stored?.job.finish?.verdict, stored?.job.spec.name], ['succeeded', 'pre']);
  assert.ok(!JSON.stringify(await store.list({ maxFinished: null })).includes('secret'));
  assert.deepEqual(await lab.eventsSince('xibo', xibo?.newsSeen ?? 0, newsEventKinds), [], 'old events are not news');

  const again = await applyImport(lab, data, parts);
  assert.deepEqual(linesOf(again, 'import'), []);
  assert.equal(linesOf(again, 'exists').length, 6);
  assert.equal((await lab.windows({ cleared: true })).length, 1);
});

test('invalid entries are skipped with a reason', async (t) => {
  const store = open(t);
  const { lab } = store;
  const data = read(malformedData);
  const lines = await applyImport(lab, data, parts);
  const left = linesOf(lines, 'skip').join('\n');
  for (const why of [
    /^TPU alias check: .*command/m,
    /^TPU alias v2-32: .*TPU type/m,
    /^user run: .*command/m,
    /^jobs of run: 1 job: their user is not imported/m,
    /^config alias dir of 王伟: .*key of commands/m,
    /^job 7 of lyy: it has no window number/m,
    /^window 15 of lyy: the type of its TPU the-big-one is unknown/m,
    /^window 16 of lyy: it has no TPU/m,
    /^MONITOR_config:/m,
    /^queue: unknown key/m,
    /^all_tpus.somewhere: not a zone/m,
    /^the TPU kmh-tpuvm-v2-32-1: in europe-west4-a and in us-central1-a/m,
    /^the TPU the-big-one: its name has no type/m,
    /^the TPU alias "empty"/m,
    /^user_list has "missing"/m,
    /^the user "ghost"/m,
  ]) {
    assert.match(left, why);
  }
  const notes = linesOf(lines, 'note').join('\n');
  for (const note of [
    /^user lyy: its directory 0/m,
    /^user lyy: its directory x/m,
    /^user lyy: its directory 2 is "relative"/m,
    /^user lyy: its setting time_zone is "mars"/m,
    /^user lyy: its logs/m,
    /^user lyy: one of its jobs is "not a job"/m,
    /^user 王伟: new id: 0, because 3 is in use/m,
    /^user 王伟: new tmux session: "lyy-2", because "lyy" is in use/m,
    /^user 王伟: its config alias bad/m,
    /^window 12 of lyy: it was running/m,
    /^window 13 of lyy: not on the list: another window has this number/m,
    /^window 13 of lyy: its configs .* quote/m,
    /^window 13 of lyy: imported without its parent, window 999/m,
    /^window 14 of lyy: its status is "exploded"/m,
    /^window 14 of lyy: its rules/m,
  ]) {
    assert.match(notes, note);
  }

  const lyy = (await lab.users()).find(({ name }) => name === 'lyy');
  assert.deepEqual([lyy?.directories, lyy?.nextWindow, lyy?.settings.time_zone], [{ 1: '/srv/lyy' }, 17, 'local']);
  assert.deepEqual(lyy?.settings.extra_settings, { theme: 'dark', old: 1 });
  assert.equal(Object.keys(lyy?.aliases ?? {}).length, 7, 'the default is the usual aliases');
  assert.equal((await lab.tpus()).find(({ name }) => name === 'kmh-tpuvm-v4-8-spot-2')?.pricing, 'spot');

  const windows = await lab.windows({ user: 'lyy' });
  assert.deepEqual(
    windows.map(({ window }) => window.window),
    [9, 11, 12, 13, 14],
  );
  const [nine, eleven, twelve, thirteen] = windows;
  assert.deepEqual(nine?.job.configs, ['--config.note=two parts', '--config.x=a b', '--config.y=1=2']);
  assert.deepEqual(eleven?.job.parent, { job: nine?.job.job, attempt: 1, startMode: 'resume' });
  assert.deepEqual(twelve?.job.parent, { job: eleven?.job.job, attempt: 1, startMode: 'resume' });
  assert.deepEqual([eleven?.job.baseStage, eleven?.job.logStage, twelve?.job.baseStage], [1, true, 2]);
  assert.equal(nine?.window.openedAt, Date.UTC(2025, 3, 20, 5, 10, 26));
  assert.equal(twelve?.window.openedAt, Date.UTC(2025, 3, 21, 12));
  assert.equal(eleven?.window.openedAt, nine?.window.openedAt, 'without a start time it began after the job before it');
  assert.equal(thirteen?.window.report?.logFolder, '/srv/logs/13b');
  const verdicts = await Promise.all(
    windows.map(async ({ job }) => {
      const state = recordedState((await store.load(job.job))?.job ?? assert.fail());
      return `${state.finish?.verdict} ${state.finish?.reason}`;
    }),
  );
  assert.deepEqual(verdicts, [
    'failed preempted',
    'failed command_failed',
    'stopped stopped',
    'cancelled stopped',
    'stopped stopped',
  ]);
  const listed = await Promise.all(
    [twelve, windows[4]].map(async (one) => {
      const { job } = (await store.load(one?.job.job ?? '')) ?? assert.fail();
      return [jobRow(job, noon).message, job.desired];
    }),
  );
  assert.deepEqual(
    listed,
    [
      ['imported, was running', 'running'],
      ['imported, end unknown', 'running'],
    ],
    'no command stopped the jobs that were running',
  );
  const again = await applyImport(lab, data, parts);
  assert.deepEqual(linesOf(again, 'import'), []);
});

test('existing data is kept: a known user only gets missing values', async (t) => {
  const { lab } = open(t);
  await lab.addUser(aUser('xibo', { id: 5, directories: { 1: '/home/xibo/new' }, aliases: {}, nextWindow: 99 }));
  await lab.setTpuAlias('v2-1', 'another');
  const lines = await applyImport(lab, read(documentedSample), parts);
  assert.match(linesOf(lines, 'skip').join('\n'), /TPU alias v2-1: it is an alias of another here/);
  const [xibo] = await lab.users();
  assert.deepEqual(
    [xibo?.id, xibo?.directories, xibo?.aliases, xibo?.nextWindow],
    [5, { 1: '/home/xibo/new' }, { lr: 'config.training.lr' }, 99],
  );
});

test('an imported window whose number is in use is not on the list', async (t) => {
  const store = open(t);
  const { lab } = store;
  await lab.addUser(aUser('xibo'));
  const { job } = await store.insert({ owner: 'xibo', spec: tpuSpec(), manifest: '', at: noon });
  await lab.addJob(aLabJob(job.id, 'xibo'));
  await lab.openWindow(job.id, 1, noon);
  await applyImport(lab, read(documentedSample), parts);
  assert.deepEqual(
    (await lab.windows({ user: 'xibo' })).map((one) => one.job.job),
    [job.id],
  );
  assert.equal((await lab.windows({ user: 'xibo', cleared: true })).length, 2);
});

test('a job that cannot be imported does not affect others; a bug undoes the whole import', async (t) => {
  const { lab } = open(t);
  const refusal = new JobmanError('Nothing says in which zone it is.', exitCode.usage, ['Say it.']);
  const lines = await applyImport(lab, read(documentedSample), throwing(refusal));
  assert.deepEqual(linesOf(lines, 'skip').slice(0, 1), ['window 1 of xibo: Nothing says in which zone it is. Say it.']);
  assert.equal((await lab.users()).length, 1);

  const other = open(t);
  await assert.rejects(applyImport(other.lab, read(documentedSample), throwing(new TypeError('ours'))), TypeError);
  assert.deepEqual(await other.lab.users(), []);
});

test('names that are paths, options or control sequences become neither TPUs nor sessions', async (t) => {
  const { lab } = open(t);
  const evil = '../../../tmp/x-v2-8';
  const job = { windows_id: 1, job_dir: '/w', tpu: evil };
  const file = {
    users: {
      ada: { id: 1, tmux_name: '$0', job_data: [job] },
      bob: { id: 2, tmux_name: 'a\u001b[2J' },
      eve: { id: 3, tmux_name: 'eve.x' },
    },
    tpu_aliases: { one: evil, two: 'a\n-v2-8' },
    all_tpus: { 'us-central1-a': [evil, 'V2-8', '-v2-8', 'fine-v2-8'] },
  };
  const lines = await applyImport(lab, read(file), parts);
  assert.deepEqual(
    (await lab.tpus()).map(({ name }) => name),
    ['fine-v2-8'],
  );
  assert.deepEqual([...(await lab.tpuAliases())], []);
  assert.deepEqual(
    (await lab.users()).map(({ session }) => session),
    ['user-1', 'user-2', 'eve_x'],
  );
  assert.deepEqual(await lab.windows({ cleared: true }), []);
  assert.match(linesOf(lines, 'skip').join('\n'), /TPU alias one: .*is not a TPU name/);
});

test('other JSON is not a data.json', () => {
  for (const value of [null, [], {}, { users: [] }, 'x', 3]) assert.equal(parseOldData(value), undefined);
  assert.deepEqual(parseOldData({ users: {} })?.users, {});
});
