/** The owner's commands to a cluster's job: they report what the cluster showed, also after Ctrl-C. */

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { replacedError, type Cluster, type JobIdentity } from '../../src/app/cluster/cluster.ts';
import type { ClusterJob, ClusterPod } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { fakeCluster, jobman, noSubmissions, createCliHarness } from './support/harness.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Job } from '@kubernetes/client-node';
import { run } from '../support/output-schema.ts';

/** A cluster with this job, whose pods are these at each following call, and the last from then on. */
function cluster(job: ClusterJob, ...pods: readonly (readonly ClusterPod[] | 'refused' | 'away')[]) {
  const asked: string[] = [];
  let call = 0;
  let jobs: readonly (ClusterJob | null)[] = [job];
  let checks = 0;
  const fake = fakeCluster({
    job: async () => jobs[Math.min(checks++, jobs.length - 1)] ?? null,
    raw: async () => ({
      spec: {
        template: {
          spec: {
            containers: [
              { name: 'main', command: ['sh', '-c'], args: ['echo "a b"'], resources: { limits: { memory: '30M' } } },
            ],
          },
        },
      },
      metadata: { uid: job.uid, annotations: { team: 'vision' } },
    }),
    async *pods() {
      asked.push('pods');
      const now = pods[Math.min(call++, pods.length - 1)] ?? [];
      if (now === 'refused') throw new JobmanError('You may not list pods.', exitCode.failed);
      if (now === 'away') throw new JobmanError('The cluster does not answer.', exitCode.unreachable);
      yield now;
    },
    patch: async (_: string, change: object) => void asked.push(JSON.stringify(change)),
  });
  const run = (...args: readonly string[]) =>
    jobman(args, {
      jobs: [],
      services: { cluster: async () => fake, isClusterConfigured: async () => true },
    });
  /** The job at each following check, the last one from then on; null when it no longer exists. */
  const set = (...next: readonly (ClusterJob | null)[]): void => void (jobs = next);
  return { run, asked, set };
}

const running = aClusterJob({ active: 1, ready: 1 });
const stopped = aClusterJob({ suspended: true });
const ending = aClusterPod({ deleting: true });

suite('stop', () => {
  test('says that pods are terminating as long as they are', async () => {
    const { out } = await cluster(running, [ending]).run('stop', 'train');
    assert.match(out, /^Job train is being stopped: its pod is terminating, which may take half a minute\./);
    assert.doesNotMatch(out, /is stopped/);
  });

  test('says that the job is stopped when no pod is left', async () => {
    const { out } = await cluster({ ...running, active: 0, ready: 0 }, []).run('stop', 'train');
    assert.match(out, /^Job train is stopped: it has no pods/);
  });
});

suite('start', () => {
  test('waits until the stopped pods are gone', async () => {
    const { run, asked } = cluster(stopped, [ending], [ending], []);
    const { code, err } = await run('start', 'train');
    assert.equal(code, 0);
    assert.match(err, /train: waiting until its stopped pods are deleted: train-a\./);
    assert.deepEqual(asked, ['pods', 'pods', 'pods', '{"spec":{"suspend":false}}']);
  });

  test('that another command has done meanwhile does not wait for the new pods', async () => {
    const { run, asked, set } = cluster(stopped, [ending]);
    set(stopped, { ...stopped, suspended: false, active: 1 });
    const { code, out } = await run('start', 'train');
    assert.equal(code, 0);
    assert.match(out, /^Job train was started meanwhile by another command\./);
    assert.deepEqual(asked, ['pods']);
  });

  test('of a job that is deleted meanwhile starts nothing', async () => {
    for (const later of [null, { ...stopped, uid: 'another' }, { ...stopped, deleting: true }]) {
      const { run, asked, set } = cluster(stopped, [ending]);
      set(stopped, later);
      const { code, err } = await run('start', 'train');
      assert.equal(code, 3);
      assert.match(err, /train was deleted meanwhile; it was not started\./);
      assert.deepEqual(asked, ['pods']);
    }
  });
});

suite('a job that was deleted and created again meanwhile', () => {
  const other = { ...stopped, uid: 'another' };

  test('is neither started nor run again', async () => {
    for (const command of ['start', 'rerun']) {
      const { run, asked, set } = cluster(other, []);
      set(stopped);
      const { code, err } = await run(command, 'train');
      assert.equal(code, exitCode.notFound);
      assert.match(
        err,
        /^jobman: Job train was deleted meanwhile, and another job has its name\. That job did not change\.$/m,
      );
      assert.deepEqual(asked, command === 'start' ? ['pods'] : []);
    }
  });

  test('is named by its uid in each change', async () => {
    const named: JobIdentity[] = [];
    const refuse = async (job: JobIdentity): Promise<never> => {
      named.push(job);
      throw replacedError(job.name);
    };
    const fake = fakeCluster({ job: async () => running, async *pods() {}, patch: refuse, remove: refuse });
    for (const command of ['stop', 'cancel', 'delete']) {
      const { code } = await jobman([command, 'train'], {
        services: { cluster: async () => fake, isClusterConfigured: async () => true },
      });
      assert.equal(code, exitCode.notFound, command);
    }
    assert.deepEqual(
      named.map(({ name, uid }) => `${name} ${uid}`),
      Array(3).fill('train u1'),
    );
  });
});

suite('details', () => {
  test('show what runs, its limits and annotations, and a pod that is terminating', async () => {
    const { out } = await cluster(running, [ending]).run('details', 'train');
    assert.match(out, /command +sh -c\n/);
    assert.match(out, /args +'echo "a b"'\n/);
    assert.match(out, /limits +memory 30M\n/);
    assert.match(out, /notes +team=vision\n/);
    assert.match(out, /main +terminating/);
  });
});

const jobs = Array.from({ length: 12 }, (_, index) =>
  aClusterJob({ name: `train-${index}`, uid: `u${index}`, owner: 'alice', active: index === 0 ? 1 : 0 }),
);

/** Deletes nothing until the user leaves; `begun` is called with each job. */
function neverDeleting(all: readonly ClusterJob[], begun: (name: string) => void): Cluster {
  return fakeCluster({
    async *jobs() {
      yield all;
    },
    async *pods() {},
    job: async (name: string) => all.find((job) => job.name === name) ?? null,
    remove: ({ name }: JobIdentity, { signal }: { readonly signal: AbortSignal }) =>
      new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
        begun(name);
      }),
  });
}

async function leaving(args: readonly string[], atOnce: number) {
  const begun: string[] = [];
  const cluster = neverDeleting(jobs, (name) => {
    begun.push(name);
    if (begun.length === atOnce) setImmediate(() => world.signal());
  });
  const world = createCliHarness({ services: { cluster: async () => cluster, isClusterConfigured: async () => true } });
  const code = await run(args, world.services);
  return { code, begun, out: world.out(), err: world.err() };
}

suite('a user who leaves', () => {
  test('a deletion that continues is reported', async () => {
    const { code, out, err } = await leaving(['delete', 'train-0'], 1);
    assert.deepEqual([code, out], [130, '']);
    assert.match(err, /^train-0: its pods are ending/);
    assert.match(err, /^Interrupted before train-0 was deleted; the deletion continues\. See: jobman why train-0$/m);
  });

  test('a cancel too', async () => {
    const { code, err } = await leaving(['cancel', 'train-0'], 1);
    assert.equal(code, 130);
    assert.match(err, /^Interrupted before train-0 was deleted/m);
  });

  test('a submitted job that continues is reported, with the command to follow it', async () => {
    const cluster = fakeCluster({
      create: async (job: V1Job) => job,
      job: async (name: string) => aClusterJob({ name, active: 1 }),
    });
    // The start of the controller takes a while, and the user does not wait.
    const archive = { ...noSubmissions, recordSubmitted: async () => (world.signal(), 'Started the controller.') };
    const world = createCliHarness({
      services: {
        cluster: async () => cluster,
        clusterSubmissions: async () => archive,
      },
    });
    const flavor = '{"name":"small","resources":{"requests":{"cpu":"1"}}}';
    const code = await run(['submit', '-i', 'alpine', '-r', flavor, '-j', 'train', '--follow'], world.services);
    assert.deepEqual([code, world.out()], [130, 'train submitted to lab/vision as alice.\n']);
    assert.match(world.err(), /^Detached\. train keeps running\. Attach again: jobman logs train -f$/m);
  });

  test('the deletion of all leaves the rest alone', async () => {
    const { code, begun, err } = await leaving(['delete', '--all', '--yes', '-n', 'vision'], 8);
    assert.deepEqual([code, begun.length], [130, 8]);
    assert.equal(err.match(/^Interrupted before /gm)?.length, 8);
    assert.match(err, /^The other 4 jobs did not change\.$/m);
  });
});

test('of several deletions the worst exit code counts, even if others end after it', async () => {
  const cluster = fakeCluster({
    async *jobs() {
      yield jobs.slice(1, 4);
    },
    async *pods() {},
    async remove({ name }: JobIdentity) {
      if (name === 'train-2') throw new JobmanError('The cluster does not answer.', exitCode.unreachable);
      await sleep(5);
      return 'gone';
    },
  });
  const { code, out, err } = await jobman(['delete', '--all', '--yes', '-n', 'vision'], {
    services: { cluster: async () => cluster },
  });
  assert.equal(code, exitCode.unreachable);
  assert.match(out, /^Job train-1 and its pods are deleted[^]*^Job train-3 and its pods are deleted/m);
  assert.match(err, /The cluster does not answer\./);
});
