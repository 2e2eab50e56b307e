// Jobs of the client, of a cluster and of its archive as one job source: it answers in plain JSON, and knows a job again from
// what it has answered.
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { Client } from '../../src/app/client.ts';
import { foundJob, openJobs } from '../../src/app/jobs.ts';
import { throughJson } from './over-json.ts';
import { createCliHarness, emptyArchive, fakeCluster, now } from '../cli/support/harness.ts';
import { aJob, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';
import { aClusterJob, anArchivedJob } from '../support/cluster-builders.ts';
import type { Fixture } from './client.ts';

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

/** The client and the fakes of the outside as one source. */
function openSources(client: Client) {
  const { services, commands } = createCliHarness();
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
      client: async () => client,
      cluster: async () => cluster,
      clusterArchive: async () => archive,
      isClusterConfigured: async () => true,
    },
    {},
  );
  return { jobs, commands };
}

export function jobSourceSuite(openFixture: (t: TestContext) => Fixture): void {
  async function open(t: TestContext) {
    const fixture = openFixture(t);
    const { client } = fixture;
    await fixture.lives(await fixture.create(tpuSpec()), (job) =>
      withAttempts(aJob(job.spec), [readyAllocation], [runningAttempt]),
    );
    return { client, ...openSources(client) };
  }

  for (const [where, name, phase] of [
    ['the store', 'vit', 'running'],
    ['a cluster', 'train', 'running'],
    ['the archive of a cluster', 'gone', 'cancelled'],
  ] as const) {
    suite(`a job of ${where}`, () => {
      test('is found by its name, and each answer about it is plain JSON', async (t) => {
        const { jobs } = await open(t);
        const found = await jobs.find({ text: name, isName: false }, 'read');
        const details = await jobs.show(found);
        assert.deepEqual([details.name, details.phase, details.why.phase], [name, phase, phase]);
        const history = await jobs.history(found);
        assert.equal(history.name, name);
        for (const answer of [found, details, history, await jobs.why(found), await jobs.actions(found)])
          throughJson(answer, name);
      });

      test('is known to another source of the same jobs', async (t) => {
        const { jobs, client } = await open(t);
        const found = await jobs.find({ text: name, isName: false }, 'read');
        const copy = JSON.parse(JSON.stringify(found)) as typeof found;
        assert.deepEqual(await openSources(client).jobs.show(copy), await jobs.show(found));
      });
    });
  }

  test('the list has the jobs of all sources, and each row leads to its job', async (t) => {
    const { jobs } = await open(t);
    const list = await jobs.list({ all: true });
    throughJson(list, 'list');
    assert.deepEqual(list.rows.map((row) => row.name).toSorted(), ['gone', 'train', 'vit']);
    for (const row of list.rows) assert.equal((await jobs.show(await foundJob(row))).name, row.name);
  });

  test('a command goes to the source of the job, and ends with a result', async (t) => {
    const { jobs, commands, client } = await open(t);
    for (const text of ['vit', 'train']) {
      const found = await jobs.find({ text, isName: false }, 'change');
      const steps = await Array.fromAsync(jobs.perform(found, 'stop', {}));
      throughJson(steps, 'perform');
      assert.equal(steps.filter(({ kind }) => kind === 'result').length, 1);
    }
    assert.deepEqual([commands, (await client.show('vit')).desired], [['patch train'], 'stopped']);
  });

  test('actions and perform give the same reason against a command', async (t) => {
    const { jobs } = await open(t);
    const found = await jobs.find({ text: 'train', isName: false }, 'change');
    const { start } = await jobs.actions(found);
    const [step] = await Array.fromAsync(jobs.perform(found, 'start', {}));
    assert.ok(start.answer === 'deny' && step?.kind === 'result');
    assert.deepEqual([start.message, step.ok], ['Job train is already active (running)', false]);
    assert.equal(step.message, `${start.message}.`);
  });
}
