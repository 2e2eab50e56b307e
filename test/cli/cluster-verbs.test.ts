/** stop and start of a cluster's job: what is reported is what was seen. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ClusterJob, ClusterPod } from '../../src/app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { fakeCluster, jobman } from './support/pretend.ts';
import { aClusterJob, aClusterPod } from '../app/cluster/sample.ts';

/** A cluster with this job, whose pods are these at each following call, and the last from then on. */
function cluster(job: ClusterJob, ...pods: readonly (readonly ClusterPod[] | 'refused' | 'away')[]) {
  const asked: string[] = [];
  let call = 0;
  let jobs: readonly (ClusterJob | null)[] = [job];
  let look = 0;
  const door = fakeCluster({
    job: async () => jobs[Math.min(look++, jobs.length - 1)] ?? null,
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
      metadata: { annotations: { team: 'vision' } },
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
  const run = (...words: readonly string[]) =>
    jobman(words, {
      jobs: [],
      services: { cluster: async () => door, usesCluster: async () => true },
    });
  /** The job at each following look, and the last from then on; null where it is gone. */
  const set = (...next: readonly (ClusterJob | null)[]): void => void (jobs = next);
  return { run, asked, set };
}

const running = aClusterJob({ active: 1, ready: 1 });
const stopped = aClusterJob({ suspended: true });
const ending = aClusterPod({ deleting: true });

suite('stop', () => {
  test('says that pods are terminating as long as they are', async () => {
    const { out } = await cluster(running, [ending]).run('stop', 'train');
    assert.match(out, /^train is being stopped: its pod is terminating, which may take half a minute\./);
    assert.doesNotMatch(out, /is stopped/);
  });

  test('says that the job is stopped when no pod is left', async () => {
    const { out } = await cluster(running, [{ ...ending, phase: 'Failed' }]).run('stop', 'train');
    assert.match(out, /^train is stopped: it has no pods/);
  });

  test('that was asked for is not denied because the pods cannot be checked', async () => {
    const { run, asked } = cluster(running, 'away');
    const { code, out } = await run('stop', 'train');
    assert.equal(code, 0);
    assert.match(out, /^train is being stopped; its pods could not be checked: The cluster does not answer\./);
    assert.equal(asked[0], '{"spec":{"suspend":true}}');
  });
});

suite('start', () => {
  test('waits until the stopped pods are gone', async () => {
    const { run, asked } = cluster(stopped, [ending], [ending], []);
    const { code, err } = await run('start', 'train');
    assert.equal(code, 0);
    assert.match(err, /train: waiting until its stopped pods are gone: train-a\./);
    assert.deepEqual(asked, ['pods', 'pods', 'pods', '{"spec":{"suspend":false}}']);
  });

  test('that another command has done meanwhile does not wait for the new pods', async () => {
    const { run, asked, set } = cluster(stopped, [ending]);
    set(stopped, { ...stopped, suspended: false, active: 1 });
    const { code, out } = await run('start', 'train');
    assert.equal(code, 0);
    assert.match(out, /^train was started meanwhile by another command\./);
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

  test('goes by the numbers of the Job where pods may not be listed', async () => {
    const { run, asked, set } = cluster(stopped, 'refused');
    set(stopped, { ...stopped, terminating: 1 }, stopped, stopped);
    const { code, err } = await run('start', 'train');
    assert.equal(code, 0);
    assert.match(err, /waiting until its stopped pods are gone: a pod\./);
    assert.equal(asked.at(-1), '{"spec":{"suspend":false}}');
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
