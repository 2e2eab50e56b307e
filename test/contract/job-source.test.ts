/** The duties of every job source: answer in plain JSON, and know a job again from what it has answered. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JobScope } from '../../src/app/job-source.ts';
import { foundJob, openJobs } from '../../src/app/jobs.ts';
import { throughJson } from './over-json.ts';
import { createCliHarness, emptyArchive, fakeCluster, jobView, now } from '../cli/support/harness.ts';
import { aClusterJob, anArchivedJob } from '../support/cluster-builders.ts';

const stored = jobView({ id: '000042', name: 'vit', phase: 'running' });
const inCluster = aClusterJob({
  name: 'train',
  namespace: 'vision',
  active: 1,
  ready: 1,
  startedAt: now,
  owner: 'alice',
});
const archived = anArchivedJob({
  job: { ...inCluster, name: 'gone', uid: 'u9' },
  goneAt: now,
  observedAt: now,
  object: JSON.stringify({ metadata: { name: 'gone' } }),
});

function open(scope: JobScope = {}) {
  const { services, commands } = createCliHarness({ jobs: [stored] });
  const cluster = fakeCluster({
    async *jobs() {
      yield [inCluster];
    },
    job: async (name: string) => (name === inCluster.name ? inCluster : null),
    raw: async () => ({ metadata: { name: inCluster.name } }),
    async *pods() {},
    patch: async (name: string) => void commands.push(`patch ${name}`),
  });
  const archive = {
    ...emptyArchive,
    isUsed: true,
    jobs: async ({ name = archived.job.name }) => (name === archived.job.name ? [archived] : []),
    job: async () => archived,
  };
  const jobs = openJobs(
    {
      ...services,
      client: async () => ({
        ...(await services.client()),
        actions: async () => ({ stop: { answer: 'allow' } }) as never,
      }),
      cluster: async () => cluster,
      clusterArchive: async () => archive,
      isClusterConfigured: async () => true,
    },
    scope,
  );
  return { jobs, commands };
}

for (const [where, name, phase] of [
  ['the store', 'vit', 'running'],
  ['a cluster', 'train', 'running'],
  ['the archive of a cluster', 'gone', 'cancelled'],
] as const) {
  suite(`a job of ${where}`, () => {
    test('is found by its name, and each answer about it is plain JSON', async () => {
      const { jobs } = open();
      const found = await jobs.find({ text: name, isName: false }, 'read');
      const details = await jobs.show(found);
      assert.deepEqual([details.name, details.phase, details.why.phase], [name, phase, phase]);
      const history = await jobs.history(found);
      assert.equal(history.name, name);
      for (const answer of [found, details, history, await jobs.why(found), await jobs.actions(found)])
        throughJson(answer, name);
    });

    test('is known to another source of the same jobs', async () => {
      const found = await open().jobs.find({ text: name, isName: false }, 'read');
      const copy = JSON.parse(JSON.stringify(found)) as typeof found;
      assert.deepEqual(await open().jobs.show(copy), await open().jobs.show(found));
    });
  });
}

test('the list has the jobs of all sources, and each row leads to its job', async () => {
  const { jobs } = open();
  const list = await jobs.list({ all: true });
  throughJson(list, 'list');
  assert.deepEqual(list.rows.map((row) => row.name).toSorted(), ['gone', 'train', 'vit']);
  for (const row of list.rows) assert.equal((await jobs.show(await foundJob(row))).name, row.name);
});

test('a command goes to the source of the job, and ends with a result', async () => {
  const { jobs, commands } = open();
  for (const text of ['vit', 'train']) {
    const found = await jobs.find({ text, isName: false }, 'change');
    const steps = await Array.fromAsync(jobs.perform(found, 'stop', {}));
    throughJson(steps, 'perform');
    assert.equal(steps.filter(({ kind }) => kind === 'result').length, 1);
  }
  assert.deepEqual(commands, ['stop 000042', 'patch train']);
});

test('actions and perform give the same reason against a command', async () => {
  const { jobs } = open();
  const found = await jobs.find({ text: 'train', isName: false }, 'change');
  const { start } = await jobs.actions(found);
  const [step] = await Array.fromAsync(jobs.perform(found, 'start', {}));
  assert.ok(start.answer === 'deny' && step?.kind === 'result');
  assert.deepEqual([start.message, step.ok], ['Job train is already active (running)', false]);
  assert.equal(step.message, `${start.message}.`);
});
