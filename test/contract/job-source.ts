// Jobs of the client, of a cluster and of its archive as one job source: it returns plain JSON, and finds a job again by the
// object that it returned.
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { Client } from '../../src/app/client.ts';
import type { JobIdentity } from '../../src/app/cluster/cluster.ts';
import type { JobLog } from '../../src/app/job-source.ts';
import { foundJob, openJobs } from '../../src/app/jobs.ts';
import { throughJson } from './over-json.ts';
import { createCliHarness, noSubmissions, fakeCluster, now } from '../cli/support/harness.ts';
import { aJob, readyAllocation, runningAttempt, tpuSpec, withAttempts } from '../support/builders.ts';
import { aClusterJob, aClusterPod, anArchivedJob } from '../support/cluster-builders.ts';
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

const printed = 'step 1\nstep 2\n';

/** The client and the fakes of the outside as one source. */
function openSources(client: Client) {
  const { services, commands } = createCliHarness();
  const cluster = fakeCluster({
    async *jobs() {
      yield [inCluster];
    },
    job: async (name: string) => (name === inCluster.name ? inCluster : null),
    raw: async () => ({ metadata: { name: inCluster.name, uid: inCluster.uid } }),
    async *pods() {
      yield [aClusterPod({ name: 'train-0', jobUid: inCluster.uid })];
    },
    async *logs() {
      yield Buffer.from(printed);
    },
    patch: async ({ name }: JobIdentity) => void commands.push(`patch ${name}`),
  });
  const archive = {
    archivedJobs: async ({ name = archived.job.name }) => (name === archived.job.name ? [archived] : []),
    archivedJob: async () => archived,
    archivedLogs: async () => [{ pod: 'gone-0', container: 'main', state: 'complete' as const }],
    async *readArchivedLog() {
      yield* [printed.slice(0, 9), printed.slice(9)].map((text) => Buffer.from(text));
    },
  };
  const jobs = openJobs(
    {
      ...services,
      client: async () => ({ ...client, ...archive }),
      cluster: async () => cluster,
      clusterSubmissions: async () => ({ ...noSubmissions, isUsed: true }),
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
    for (const row of list.rows) assert.equal((await jobs.show(foundJob(row))).name, row.name);
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

  test('a log is read from any offset, or in order if it says so', async (t) => {
    const { jobs } = await open(t);
    for (const [text, isSequential] of [
      ['train', true],
      ['gone', false],
    ] as const) {
      const found = await jobs.find({ text, isName: false }, 'read');
      let log: JobLog | undefined;
      for await (const step of jobs.logs(found, {})) {
        if (step.kind !== 'logs') continue;
        [log] = step.logs;
        break;
      }
      assert.ok(log !== undefined);
      assert.equal(log.isSequential, isSequential);
      const read = async (from: number) => {
        const { bytes } = await jobs.readLog(found, log.id, from, 7);
        return Buffer.from(bytes).toString();
      };
      if (isSequential) {
        assert.equal(await read(0), 'step 1\n');
        await assert.rejects(read(0), { code: 3 });
        assert.equal(await read(7), 'step 2\n');
      } else for (const from of [7, 0, 12, 99, 5]) assert.equal(printed.slice(from).startsWith(await read(from)), true);
    }
  });

  test('a query for jobs of the other source is refused', async (t) => {
    const { jobs } = await open(t);
    for (const [text, query, flag] of [
      ['vit', { allPods: true }, '--all-pods'],
      ['train', { attempt: 1 }, '--attempt'],
    ] as const) {
      const found = await jobs.find({ text, isName: false }, 'read');
      await assert.rejects(Array.fromAsync(jobs.logs(found, query)), { code: 2, message: new RegExp(`^${flag} `) });
    }
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
